"""``bandfall compare``."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.text import Text

from bandfall.commands.class_rivals import ClassRivalScore, class_rivals, score_class_rivals
from bandfall.commands.classes import Task, TaskOption
from bandfall.commands.csv_files import Style
from bandfall.commands.options import (
    DataArgument,
    DecimalOption,
    DeviceOption,
    DropOption,
    EncodingOption,
    FractionOption,
    GroupOption,
    MissingOption,
    RowsOption,
    SeedOption,
    SeparatorOption,
    TargetOption,
    TextOption,
    TimeOption,
    WeightsOption,
)
from bandfall.commands.rivals import RivalScore, rivals, score_rivals
from bandfall.commands.rows import Roles, Table, load_table, split_table
from bandfall.commands.terminal import (
    InputError,
    JsonOption,
    one_line_errors,
    print_json,
    print_table,
)
from bandfall.commands.training import (
    MAX_ROWS,
    Device,
    ModelChoice,
    make_classifier,
    make_estimator,
    split_words,
)
from bandfall.drawing import number


def compare(
    data: DataArgument,
    target: TargetOption,
    task: TaskOption = Task.AUTO,
    test_fraction: FractionOption = 0.2,
    drop: DropOption = None,
    weights: WeightsOption = None,
    time_split: TimeOption = None,
    group: GroupOption = None,
    max_rows: RowsOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = Device.AUTO,
    na: MissingOption = None,
    text: TextOption = None,
    sep: SeparatorOption = None,
    decimal: DecimalOption = None,
    encoding: EncodingOption = None,
    json: JsonOption = False,
) -> None:
    """Score bandfall and its rivals on the same held-out rows.

    Every model is trained with its usual settings on the same rows. Only cross-validated kernel
    ridge regression, whose cost grows with the cube of the rows, gets at most 1,000 of them. For
    the rivals, text, dates and missing values are encoded as numbers in the usual way. Classes
    are compared by log-loss, AUC, accuracy and calibration error.
    """
    with one_line_errors():
        if test_fraction <= 0:
            raise InputError("--test-fraction must be above 0: models are compared on those rows")
        roles = Roles(target, drop or [], [], weights, time_split, group, text or [], na or [])
        table = load_table(data, roles, Style(sep, decimal, encoding), task)
        rows, held_out = split_table(table, test_fraction, seed, max_rows or MAX_ROWS["auto"])
        assert held_out is not None
        results = _scored(rows, held_out, seed, device)
        if json:
            print_json(
                {
                    "target": table.target,
                    "n_train": len(rows),
                    "n_test": len(held_out),
                    **_unseen(rows, held_out),
                    "models": [one.as_numbers() for one in results],
                }
            )
        else:
            held = f"{len(held_out):,} ({split_words(roles)})"
            title = f"trained on {len(rows):,} rows, scored on {held}"
            _show_classes(results, title) if rows.has_classes else _show(results, len(rows), title)


def _unseen(rows: Table, held_out: Table) -> dict[str, int]:
    """How many held-out rows are of classes without training rows."""
    return {"n_unseen": int(np.sum(~np.isin(held_out.y, rows.y)))} if rows.has_classes else {}


def _scored(rows: Table, held_out: Table, seed: int, device: str) -> list[Any]:
    """All models, best first: by log-loss for classes, else by R²."""
    if rows.has_classes:
        ours = {"bandfall (self-tuning)": make_classifier(ModelChoice.AUTO, device)}
        models = {**class_rivals(rows.y, seed), **ours}
        scored = score_class_rivals(models, rows, held_out, groups=rows.group)
        return sorted(scored, key=lambda one: one.log_loss)
    models = {**rivals(seed), **_ours(device)}
    scores = score_rivals(models, rows, held_out, seed=seed, groups=rows.group)
    return sorted(scores, key=lambda one: -one.r2)


def _ours(device: str) -> dict[str, Any]:
    """This package's models by name."""
    return {
        "bandfall (KGD-D)": make_estimator(ModelChoice.KGDD, device),
        "bandfall (self-tuning)": make_estimator(ModelChoice.AUTO, device),
    }


def _show(results: list[RivalScore], n_train: int, title: str) -> None:
    rows = []
    for one in results:
        style = "bold" if one.name.startswith("bandfall") else ""
        sample = "" if one.n_rows == n_train else f" ({one.n_rows:,} rows)"
        score = "not defined" if one.r2 != one.r2 else f"{one.r2:.4f}"
        cells = (one.name + sample, score, number(one.mae), f"{one.seconds:.2f} s")
        rows.append([Text(content, style) for content in cells])
    print_table(title, ("model", "R²", "mean abs. error", "fit time"), rows)


def _show_classes(results: list[ClassRivalScore], title: str) -> None:
    rows = []
    for one in results:
        style = "bold" if one.name.startswith("bandfall") else ""
        scores = (one.log_loss, one.auc, one.accuracy, one.calibration_error)
        shown = ["not defined" if value != value else f"{value:.4f}" for value in scores]
        cells = (one.name, *shown, f"{one.seconds:.2f} s")
        rows.append([Text(content, style) for content in cells])
    heads = ("model", "log-loss", "AUC", "accuracy", "calibration error", "fit time")
    print_table(title, heads, rows)
