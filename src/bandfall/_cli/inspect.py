"""``bandfall inspect``, and the summary of a model that `bandfall fit` prints, too."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.filesize import decimal

from bandfall._cli.options import command
from bandfall._cli.stored import noted_kinds, unpack_rows
from bandfall._cli.terminal import counted, print_json, print_pairs
from bandfall._estimators.view import (
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
from bandfall.descent import Status

FEW_ROWS = 10  # a score on fewer rows is little more than chance
_TUNED_ENDS = {
    Status.R2_REACHED: "where held-out rows were predicted best",
    Status.TIME_REACHED: "held-out rows chose its penalty",
    Status.INTERRUPTED: "cut short",
}


@command()
def inspect(file: str, *, json: bool = False) -> None:
    """Show what a model file contains: estimator, path, features, score, size and versions."""
    show(file, {}, json)


def show(file: str, more: State, json: bool) -> None:
    """Print the summary of a model file, and `more` names and values."""
    stored = read_model_file(file)
    summary = {**_summary(file, stored), **more}
    print_json(summary) if json else print_pairs(_pairs(summary, stored))


def _summary(file: str, stored: ModelFile) -> State:
    """Everything as JSON values."""
    estimator, notes, story = stored.estimator, stored.notes, story_of(stored.estimator)
    path, encoder = story.path, next(iter(story.encoders.values()), None)
    parameters = last_step(estimator).get_params(deep=False).items()
    noted = ("kinds", "target", "source", "split", "seconds", "n_dropped", "n_without_target")
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
        "suspicious": [encoder.schema.label(j) for j in encoder.suspicious or []]
        if encoder
        else [],
        "importances": _importances(estimator),
        "skipped": list(story.skipped),
        **{name: notes.get(name) for name in noted},
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
        }
    if story.target.classes:
        summary["classes"] = story.target.classes
    if isinstance(notes.get("test"), dict):
        X, y, weights = unpack_rows(notes["test"], feature_names_of(estimator) or [])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `fit` has warned about these rows
            answers = answers_of(estimator, X)
        scores = story.target.scores(story.target.read(y), answers, weights)
        summary["test"] = {"n_rows": len(y), **scores}
    return summary


def _importances(estimator: Estimator) -> dict[str, float]:
    """Share of each feature, most important first."""
    shares = getattr(last_step(estimator), "feature_importances_", None)
    if not isinstance(shares, np.ndarray) or shares.shape != (estimator.n_features_in_,):
        return {}
    names = feature_names_of(estimator) or range(1, len(shares) + 1)
    order = np.argsort(-shares, kind="stable")
    return {str(names[j]): float(shares[j]) for j in order}


def _pairs(summary: State, stored: ModelFile) -> Iterator[tuple[str, str]]:
    """Everything as text: names and values."""
    classes, story = summary.get("classes"), story_of(stored.estimator)
    yield "file", f"{summary['file']} ({decimal(summary['bytes'])})"
    yield "estimator", " → ".join(summary["steps"])
    if summary["target"] is not None:
        yield "target", f"{summary['target']} (trained from {summary['source']})"
    if classes:
        yield "classes", ", ".join(classes)
    yield "features", f"{summary['n_features']}: {_listed(stored)}"
    if "test" in summary:
        name = "held-out accuracy" if classes else "held-out R²"
        yield name, f"{score_words(summary['test'])}, {summary['split']}"
    if story.path is not None:
        yield from _path_pairs(summary["path"], story.path.status, classes, story.members)
    yield from (("skipped", what) for what in summary["skipped"])
    yield from (("model", f"{one.weight:.0%}: {member_words(one)}") for one in story.members)
    for name, lines in summary["encodings"].items():
        yield f"encoding {name}", "; ".join(lines)
    if summary["suspicious"]:
        what = "numbers that look like ids; if they are, train with --drop"
        yield "ids?", f"{', '.join(summary['suspicious'])}: {what}"
    if shares := list(summary["importances"].items()):
        more = f" and {len(shares) - 12} more" if len(shares) > 12 else ""
        listed = ", ".join(f"{name} {share:.0%}" for name, share in shares[:12])
        yield "importances", listed + more
    yield "parameters", ", ".join(f"{k}={v!r}" for k, v in summary["parameters"].items())
    versions = ", ".join(f"{name} {version}" for name, version in stored.versions.items())
    yield "written by", f"{versions} (format {summary['format_version']})"


def _path_pairs(
    path: State, status: Status, classes: object, members: object
) -> Iterator[tuple[str, str]]:
    """Rows, stages and end of training."""
    leaves = f" in {path['n_leaves']:,} leaves" if path["n_leaves"] > 1 else ""
    yield "trained on", f"{path['n_rows']:,} rows{leaves}"
    if path["n_stages"]:
        bandwidths = (path["first_bandwidth"], path["last_bandwidth"])
        ends = " → ".join(dict.fromkeys(f"{bandwidth:.3g}" for bandwidth in bandwidths))
        stages = f"{counted(path['n_stages'], 'stage')} of kernel {path['kernel']}"
        yield "path", f"{stages}, bandwidth {ends}"
    if not classes and status is not Status.CONSTANT_TARGET:
        yield "training R²", f"{path['r2']:.4f}"
    known = status.explanation
    yield "training ended", _TUNED_ENDS.get(status, known) if members else known


def _listed(stored: ModelFile) -> str:
    """Names of the features; kinds other than numbers are given in parentheses."""
    names, kinds = feature_names_of(stored.estimator), noted_kinds(stored.notes)
    if names is None:
        return "without names"
    marks = {name: f" ({kind})" for name, kind in kinds.items() if kind != "number"}
    return ", ".join(f"{name}{marks.get(name, '')}" for name in names)


def score_words(scores: Scores) -> str:
    """R², or the accuracy of a classifier, with what limits its meaning.

    Examples
    --------
    >>> score_words({"r2": 0.91234, "n_rows": 1200}), score_words({"r2": 0.9, "n_rows": 2})
    ('0.9123 on 1,200 rows', '0.9000 on 2 rows, too few to be sure')
    >>> scores = {"accuracy": 0.9, "log_loss": 0.25, "auc": float("nan"), "calibration_error": 0.1}
    >>> score_words({**scores, "n_unseen": 0, "n_rows": 1200})
    '90.0% on 1,200 rows (log-loss 0.2500, calibration error 0.1000)'
    """
    n_rows = int(scores["n_rows"])
    if "r2" in scores:
        few = ", too few to be sure" if n_rows < FEW_ROWS else ""
        if np.isnan(scores["r2"]):
            return f"not defined on {n_rows:,} rows: their targets are all equal"
        return f"{scores['r2']:.4f} on {n_rows:,} rows{few}"
    names = {"log_loss": "log-loss", "auc": "AUC", "calibration_error": "calibration error"}
    known = [
        f"{name} {scores[key]:.4f}" for key, name in names.items() if scores[key] == scores[key]
    ]
    rest = f" ({', '.join(known)})" if known else ""
    n_unseen = int(scores["n_unseen"])
    strange = f", {n_unseen:,} of them in classes without training rows" if n_unseen else ""
    return f"{scores['accuracy']:.1%} on {n_rows:,} rows{strange}{rest}"
