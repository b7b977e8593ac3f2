"""``bandfall inspect``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.filesize import decimal

from bandfall._cli.options import command
from bandfall._cli.stored import noted_kinds, unpack_rows
from bandfall._cli.terminal import counted, print_json, print_pairs
from bandfall._cli.training import score_words, training_pairs, why_ended
from bandfall._estimators.view import (
    Story,
    answers_of,
    feature_names_of,
    last_step,
    member_words,
    steps_of,
    story_of,
)
from bandfall._files import ModelFile, read_model_document, read_model_file
from bandfall._targets.scores import Scores
from bandfall._typing import Estimator, State


@command()
def inspect(file: str, *, json: bool = False) -> None:
    """Show what a model file contains: estimator, path, features, score, size and versions."""
    stored = read_model_file(file)
    story = story_of(stored.estimator)
    summary = _summary(file, stored, story)
    print_json(summary) if json else print_pairs(_pairs(summary, stored, story))


def _summary(file: str, stored: ModelFile, story: Story) -> State:
    """Everything as JSON values."""
    estimator, notes, path = stored.estimator, stored.notes, story.path
    parameters = last_step(estimator).get_params(deep=False).items()
    encoder = next(iter(story.encoders.values()), None)
    suspicious = [] if encoder is None else encoder.suspicious or []
    summary: State = {
        "file": file,
        "bytes": Path(file).stat().st_size,
        "format_version": read_model_document(file)["format_version"],
        "versions": stored.versions,
        "steps": [type(step).__name__ for step in steps_of(estimator)],
        "parameters": {k: v for k, v in parameters if isinstance(v, str | int | float | None)},
        "n_features": int(estimator.n_features_in_),
        "features": feature_names_of(estimator),
        "dtype": str(story.dtype),
        "members": [
            {**one.candidate.summary(), "max_r2": one.max_r2, "weight": one.weight}
            for one in story.members
        ],
        "encodings": {name: one.describe() for name, one in story.encoders.items()},
        "suspicious": [encoder.schema.label(j) for j in suspicious] if encoder else [],
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
            "explanation": why_ended(story, path),
        }
    if story.target.classes:
        summary["classes"] = story.target.classes
    if isinstance(notes.get("test"), dict):
        summary["test"] = _test_scores(stored, story)
    return summary


def _test_scores(stored: ModelFile, story: Story) -> Scores:
    """Scores on the held-out rows in the file."""
    X, y = unpack_rows(stored.notes["test"], feature_names_of(stored.estimator) or [])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `fit` has warned about these rows
        answers = answers_of(stored.estimator, X)
    return {"n_rows": len(y), **story.target.scores(story.target.read(y), answers)}


def _importances(estimator: Estimator) -> dict[str, float]:
    """Share of each feature, most important first."""
    shares = getattr(last_step(estimator), "feature_importances_", None)
    if not isinstance(shares, np.ndarray) or shares.shape != (estimator.n_features_in_,):
        return {}
    names = feature_names_of(estimator) or range(1, len(shares) + 1)
    order = np.argsort(-shares, kind="stable")
    return {str(names[j]): float(shares[j]) for j in order}


def _pairs(summary: State, stored: ModelFile, story: Story) -> Iterator[tuple[str, str]]:
    """Everything as text: names and values."""
    classes = summary.get("classes")
    yield "file", f"{summary['file']} ({decimal(summary['bytes'])})"
    yield "estimator", " → ".join(summary["steps"])
    if summary["target"] is not None:
        yield "target", f"{summary['target']} (trained from {summary['source']})"
    if classes:
        yield "classes", ", ".join(classes)
    yield "features", f"{summary['n_features']}: {_listed(stored)}"
    if "test" in summary:
        test, how = summary["test"], f", {summary['split']}" if summary["split"] else ""
        name = "held-out accuracy" if classes else "held-out R²"
        yield name, score_words(test, int(test["n_rows"])) + how
    if "path" in summary:
        yield from _path_pairs(summary["path"])
    yield from training_pairs(story)
    yield from (("model", f"{one.weight:.0%}: {member_words(one)}") for one in story.members)
    for name, lines in summary["encodings"].items():
        yield f"encoding {name}", "; ".join(lines)
    if summary["suspicious"]:
        what = "numbers that look like ids; if they are, train with --keep or --drop"
        yield "ids?", f"{', '.join(summary['suspicious'])}: {what}"
    if summary["importances"]:
        yield "importances", _most_important(list(summary["importances"].items()))
    yield "parameters", ", ".join(f"{k}={v!r}" for k, v in summary["parameters"].items())
    versions = ", ".join(f"{name} {version}" for name, version in stored.versions.items())
    yield "written by", f"{versions} (format {summary['format_version']})"


def _path_pairs(path: State) -> Iterator[tuple[str, str]]:
    leaves = f" in {path['n_leaves']:,} leaves" if path["n_leaves"] > 1 else ""
    yield "trained on", f"{path['n_rows']:,} rows{leaves}"
    if path["n_stages"]:
        bandwidths = (path["first_bandwidth"], path["last_bandwidth"])
        ends = " → ".join(dict.fromkeys(f"{bandwidth:.3g}" for bandwidth in bandwidths))
        stages = f"{counted(path['n_stages'], 'stage')} of kernel {path['kernel']}"
        yield "path", f"{stages}, bandwidth {ends}"


def _listed(stored: ModelFile) -> str:
    """Names of the features; kinds other than numbers are given in parentheses."""
    names, kinds = feature_names_of(stored.estimator), noted_kinds(stored.notes)
    if names is None:
        return "without names"
    marks = {name: f" ({kind})" for name, kind in kinds.items() if kind != "number"}
    return ", ".join(f"{name}{marks.get(name, '')}" for name in names)


def _most_important(shares: list[tuple[str, float]]) -> str:
    more = f" and {len(shares) - 12} more" if len(shares) > 12 else ""
    return ", ".join(f"{name} {share:.0%}" for name, share in shares[:12]) + more
