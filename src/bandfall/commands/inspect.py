"""``bandfall inspect``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NotRequired, TypedDict

import numpy as np

from bandfall.commands.classes import accuracy_words
from bandfall.commands.kept_rows import unpack_rows
from bandfall.commands.predict import ModelArgument
from bandfall.commands.terminal import JsonOption, counted, one_line_errors, print_json, print_pairs
from bandfall.commands.training import score_words, why_ended
from bandfall.descent import Path as TrainedPath
from bandfall.estimators.reading import (
    Story,
    answers_of,
    feature_names_of,
    last_step,
    step_names,
    story_of,
)
from bandfall.persistence import read_model_document, read_model_file
from bandfall.targets.scores import Scores
from bandfall.typing import Estimator, JsonDict

MAX_IMPORTANCES = 12


class PathSummary(TypedDict):
    """The main numbers of a path."""

    n_rows: int
    n_stages: int
    n_leaves: int
    kernel: str
    first_bandwidth: float | None
    last_bandwidth: float | None
    time: float
    r2: float
    status: str
    explanation: str


class ModelSummary(TypedDict):
    """Everything that `inspect` shows, as JSON values."""

    file: str
    bytes: int
    format_version: object
    versions: dict[str, str]
    steps: list[str]
    parameters: JsonDict
    n_features: int
    features: list[str] | None
    dtype: str
    members: list[dict[str, str | float]]
    encodings: dict[str, list[str]]
    suspicious: list[str]
    importances: dict[str, float]
    kinds: object
    target: object
    source: object
    split: object
    path: NotRequired[PathSummary]
    classes: NotRequired[list[str]]
    test: NotRequired[Scores]


def inspect(model: ModelArgument, json: JsonOption = False) -> None:
    """Show what a model file contains: estimator, path, features, score, size and versions."""
    with one_line_errors():
        summary = describe(model)
        print_json(summary) if json else print_pairs(_pairs(summary))


def describe(file: str) -> ModelSummary:
    """What a model file holds."""
    stored, document = read_model_file(file), read_model_document(file)
    estimator, notes = stored.estimator, stored.notes
    last, story = last_step(estimator), story_of(estimator)
    summary: ModelSummary = {
        "file": file,
        "bytes": Path(file).stat().st_size,
        "format_version": document["format_version"],
        "versions": stored.versions,
        "steps": step_names(estimator),
        "parameters": {
            name: value
            for name, value in last.get_params(deep=False).items()
            if isinstance(value, str | int | float | None)
        },
        "n_features": int(estimator.n_features_in_),
        "features": feature_names_of(estimator),
        "dtype": str(story.dtype),
        "members": _members(story),
        "encodings": {name: one.describe() for name, one in story.encoders.items()},
        "suspicious": _suspicious(story),
        "importances": _importances(estimator, last),
        "kinds": notes.get("kinds"),
        "target": notes.get("target"),
        "source": notes.get("source"),
        "split": notes.get("split"),
    }
    if story.path is not None:
        summary["path"] = describe_path(story.path)
        summary["path"]["explanation"] = why_ended(story, story.path.status)
    if story.target.classes:
        summary["classes"] = story.target.classes
    test = notes.get("test")
    if isinstance(test, dict):
        summary["test"] = _test_scores(estimator, test)
    return summary


def describe_path(path: TrainedPath) -> PathSummary:
    """The main numbers of a path."""
    return {
        "n_rows": len(path.X),
        "n_stages": len(path),
        "n_leaves": path.n_leaves,
        "kernel": path.kernel.name,
        "first_bandwidth": float(path.bandwidths[0]) if len(path) else None,
        "last_bandwidth": float(path.bandwidths[-1]) if len(path) else None,
        "time": path.time,
        "r2": path.r2,
        "status": path.status.value,
        "explanation": path.status.explanation,
    }


def _test_scores(estimator: Estimator, test: JsonDict) -> Scores:
    names = feature_names_of(estimator)
    X, y = unpack_rows(test, names)
    rows = X.to_numpy(dtype=float) if names is None else X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `fit` has warned about these rows
        target, answers = story_of(estimator).target, answers_of(estimator, rows)
    return {"n_rows": len(y), **target.scores(target.read(y), answers)}


def _members(story: Story) -> list[dict[str, str | float]]:
    """Members of a self-tuning model, as JSON values."""
    return [
        {**one.candidate.summary(), "max_r2": one.max_r2, "weight": one.weight}
        for one in story.members
    ]


def _suspicious(story: Story) -> list[str]:
    """Features of whole numbers that look like ids."""
    encoder = next(iter(story.encoders.values()), None)
    if encoder is None:
        return []
    return [encoder.schema.label(position) for position in encoder.suspicious or []]


def _importances(estimator: Estimator, last: Estimator) -> dict[str, float]:
    """Share of each feature, most important first."""
    shares = getattr(last, "feature_importances_", None)
    if not isinstance(shares, np.ndarray) or shares.shape != (estimator.n_features_in_,):
        return {}
    names = feature_names_of(estimator) or range(1, len(shares) + 1)
    order = np.argsort(-shares, kind="stable")
    return {str(names[j]): float(shares[j]) for j in order}


def _pairs(summary: ModelSummary) -> Iterator[tuple[str, str]]:
    yield "file", f"{summary['file']} ({_size(summary['bytes'])})"
    yield "estimator", " → ".join(summary["steps"])
    if summary["target"] is not None:
        yield "target", f"{summary['target']} (trained from {summary['source']})"
    if "classes" in summary:
        yield "classes", ", ".join(summary["classes"])
    yield "features", f"{summary['n_features']}: {_listed(summary)}"
    if "path" in summary:
        path = summary["path"]
        leaves = f" in {path['n_leaves']:,} leaves" if path["n_leaves"] > 1 else ""
        yield "trained on", f"{path['n_rows']:,} rows{leaves}"
        if path["n_stages"]:
            yield (
                "path",
                f"{counted(path['n_stages'], 'stage')} of kernel {path['kernel']}, bandwidth "
                f"{path['first_bandwidth']:.3g} → {path['last_bandwidth']:.3g}",
            )
        if "classes" not in summary:
            yield "training R²", f"{path['r2']:.4f}"
        yield "ended because", path["explanation"]
    if "test" in summary:
        test = summary["test"]
        how = f", {summary['split']}" if summary["split"] else ""
        if "classes" in summary:
            yield "held-out accuracy", accuracy_words(test, int(test["n_rows"])) + how
        else:
            yield "held-out R²", score_words(test["r2"], int(test["n_rows"])) + how
    for member in summary["members"]:
        yield "model", _member_words(member)
    for name, lines in summary["encodings"].items():
        yield f"encoding {name}", "; ".join(lines)
    if summary["suspicious"]:
        named = ", ".join(summary["suspicious"])
        yield (
            "ids?",
            f"{named}: numbers that look like ids; if they are, train with --keep or --drop",
        )
    if summary["importances"]:
        yield "importances", _most_important(summary["importances"])
    parameters = ", ".join(f"{name}={value!r}" for name, value in summary["parameters"].items())
    yield "parameters", parameters
    versions = ", ".join(f"{name} {version}" for name, version in summary["versions"].items())
    yield "written by", f"{versions} (format {summary['format_version']})"


def _listed(summary: ModelSummary) -> str:
    """Names of the features, with their kind where it is not a number."""
    if summary["features"] is None:
        return "without names"
    kinds = summary["kinds"] if isinstance(summary["kinds"], dict) else {}
    marks = {name: f" ({kind})" for name, kind in kinds.items() if kind != "number"}
    return ", ".join(f"{name}{marks.get(name, '')}" for name in summary["features"])


def _member_words(member: dict[str, str | float]) -> str:
    how = f"speed {member['min_speed']:g} up to training R² {member['max_r2']:.4f}"
    if member["width"]:
        how = "one wide bandwidth"
    loss = f", log-loss with penalty {member['penalty']:g}" if member["penalty"] else ""
    n_rounds = counted(int(member["n_rounds"]) + int(member["log_rounds"]), "round")
    return (
        f"{member['weight']:.0%}: kernel {member['kernel']}, {how}, "
        f"{member['encoding']} columns, {n_rounds} of the metric{loss}"
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
