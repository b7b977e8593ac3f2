"""``bandfall inspect``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bandfall._cli import options
from bandfall._cli.classes import accuracy_words
from bandfall._cli.stored import noted_kinds, unpack_rows
from bandfall._cli.terminal import counted, one_line_errors, print_json, print_pairs
from bandfall._cli.training import score_words, why_ended
from bandfall._estimators.view import (
    Story,
    answers_of,
    feature_names_of,
    last_step,
    step_names,
    story_of,
)
from bandfall._files import ModelFile, read_model_document, read_model_file
from bandfall._models.member import Member
from bandfall._targets.scores import Scores
from bandfall._typing import Estimator, JsonDict

MAX_IMPORTANCES = 12


def inspect(model: options.ModelFile, json: options.Json = False) -> None:
    """Show what a model file contains: estimator, path, features, score, size and versions."""
    with one_line_errors():
        stored = read_model_file(model)
        contents = (model, stored, story_of(stored.estimator), _test_scores(stored))
        print_json(_summary(*contents)) if json else print_pairs(_pairs(*contents))


def _test_scores(stored: ModelFile) -> Scores | None:
    """Scores on the held-out rows in the file; None if it has none."""
    estimator, test = stored.estimator, stored.notes.get("test")
    if not isinstance(test, dict):
        return None
    names = feature_names_of(estimator)
    X, y = unpack_rows(test, names)
    rows = X.to_numpy(dtype=float) if names is None else X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `fit` has warned about these rows
        target, answers = story_of(estimator).target, answers_of(estimator, rows)
    return {"n_rows": len(y), **target.scores(target.read(y), answers)}


def _summary(file: str, stored: ModelFile, story: Story, test: Scores | None) -> JsonDict:
    """Everything as JSON values."""
    estimator, notes, path = stored.estimator, stored.notes, story.path
    summary: JsonDict = {
        "file": file,
        "bytes": Path(file).stat().st_size,
        "format_version": read_model_document(file)["format_version"],
        "versions": stored.versions,
        "steps": step_names(estimator),
        "parameters": _parameters(estimator),
        "n_features": int(estimator.n_features_in_),
        "features": feature_names_of(estimator),
        "dtype": str(story.dtype),
        "members": [
            {**one.candidate.summary(), "max_r2": one.max_r2, "weight": one.weight}
            for one in story.members
        ],
        "encodings": {name: one.describe() for name, one in story.encoders.items()},
        "suspicious": _suspicious(story),
        "importances": _importances(estimator),
        **{name: notes.get(name) for name in ("kinds", "target", "source", "split")},
    }
    if path is not None:
        summary["path"] = {
            "n_rows": len(path.X),
            "n_stages": len(path),
            "n_leaves": path.n_leaves,
            "kernel": path.kernel.name,
            "first_bandwidth": float(path.bandwidths[0]) if len(path) else None,
            "last_bandwidth": float(path.bandwidths[-1]) if len(path) else None,
            "time": path.time,
            "r2": path.r2,
            "status": path.status.value,
            "explanation": why_ended(story, path.status),
        }
    if story.target.classes:
        summary["classes"] = story.target.classes
    if test is not None:
        summary["test"] = test
    return summary


def _parameters(estimator: Estimator) -> JsonDict:
    """Parameters of the last step that JSON can represent."""
    parameters = last_step(estimator).get_params(deep=False).items()
    return {k: v for k, v in parameters if isinstance(v, str | int | float | None)}


def _suspicious(story: Story) -> list[str]:
    """Features of whole numbers that look like ids."""
    encoder = next(iter(story.encoders.values()), None)
    if encoder is None:
        return []
    return [encoder.schema.label(position) for position in encoder.suspicious or []]


def _importances(estimator: Estimator) -> dict[str, float]:
    """Share of each feature, most important first."""
    shares = getattr(last_step(estimator), "feature_importances_", None)
    if not isinstance(shares, np.ndarray) or shares.shape != (estimator.n_features_in_,):
        return {}
    names = feature_names_of(estimator) or range(1, len(shares) + 1)
    order = np.argsort(-shares, kind="stable")
    return {str(names[j]): float(shares[j]) for j in order}


def _pairs(
    file: str, stored: ModelFile, story: Story, test: Scores | None
) -> Iterator[tuple[str, str]]:
    """Everything as text: names and values."""
    estimator, notes, path = stored.estimator, stored.notes, story.path
    classes = story.target.classes
    yield "file", f"{file} ({_size(Path(file).stat().st_size)})"
    yield "estimator", " → ".join(step_names(estimator))
    if notes.get("target") is not None:
        yield "target", f"{notes['target']} (trained from {notes.get('source')})"
    if classes:
        yield "classes", ", ".join(classes)
    yield "features", f"{estimator.n_features_in_}: {_listed(stored)}"
    if path is not None:
        leaves = f" in {path.n_leaves:,} leaves" if path.n_leaves > 1 else ""
        yield "trained on", f"{len(path.X):,} rows{leaves}"
        if len(path):
            ends = dict.fromkeys(f"{bandwidth:.3g}" for bandwidth in path.bandwidths[[0, -1]])
            stages = f"{counted(len(path), 'stage')} of kernel {path.kernel.name}"
            yield "path", f"{stages}, bandwidth {' → '.join(ends)}"
        if not classes:
            yield "training R²", f"{path.r2:.4f}"
        if not (story.members and story.members[0].candidate.width):
            yield "ended because", why_ended(story, path.status)
    if test is not None:
        how, n_rows = f", {notes['split']}" if notes.get("split") else "", int(test["n_rows"])
        if classes:
            yield "held-out accuracy", accuracy_words(test, n_rows) + how
        else:
            yield "held-out R²", score_words(test["r2"], n_rows) + how
    for what in story.skipped:
        yield "skipped", what
    for member in story.members:
        yield "model", _member_words(member)
    for name, encoder in story.encoders.items():
        yield f"encoding {name}", "; ".join(encoder.describe())
    if suspicious := _suspicious(story):
        what = "numbers that look like ids; if they are, train with --keep or --drop"
        yield "ids?", f"{', '.join(suspicious)}: {what}"
    if importances := _importances(estimator):
        yield "importances", _most_important(importances)
    yield "parameters", ", ".join(f"{k}={v!r}" for k, v in _parameters(estimator).items())
    versions = ", ".join(f"{name} {version}" for name, version in stored.versions.items())
    yield "written by", f"{versions} (format {read_model_document(file)['format_version']})"


def _listed(stored: ModelFile) -> str:
    """Names of the features; kinds other than numbers are given in parentheses."""
    names, kinds = feature_names_of(stored.estimator), noted_kinds(stored.notes)
    if names is None:
        return "without names"
    marks = {name: f" ({kind})" for name, kind in kinds.items() if kind != "number"}
    return ", ".join(f"{name}{marks.get(name, '')}" for name in names)


def _member_words(member: Member) -> str:
    one = member.candidate
    how = f"speed {one.min_speed:g} up to training R² {member.max_r2:.4f}"
    if one.width:
        how = "one wide bandwidth"
    loss = f", log-loss with penalty {one.penalty:g}" if one.penalty else ""
    n_rounds = counted(one.n_rounds + one.log_rounds, "round")
    return (
        f"{member.weight:.0%}: kernel {one.kernel}, {how}, {one.encoding} columns, "
        f"{n_rounds} of the metric{loss}"
    )


def _most_important(shares: dict[str, float]) -> str:
    shown = [f"{name} {share:.0%}" for name, share in list(shares.items())[:MAX_IMPORTANCES]]
    more = len(shares) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _size(n_bytes: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.3g} GB"
