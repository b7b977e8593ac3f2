"""``bandfall compare``."""

from __future__ import annotations

import numpy as np
from rich.text import Text

from bandfall._cli import options
from bandfall._cli.classes import Task
from bandfall._cli.read_table import Style
from bandfall._cli.rivals import class_rivals, rivals, score_rivals
from bandfall._cli.rows import Dataset, Roles, load_table, split_table, split_words
from bandfall._cli.terminal import InputError, one_line_errors, print_json, print_table
from bandfall._cli.training import MAX_ROWS, Device, ModelChoice, make_estimator
from bandfall.report import RivalScore


def compare(
    data: options.Data,
    target: options.Target,
    task: options.Task = Task.AUTO,
    test_fraction: options.Fraction = 0.2,
    drop: options.Drop = None,
    weights: options.Weights = None,
    time_split: options.Time = None,
    group: options.Group = None,
    max_rows: options.Rows = None,
    seed: options.Seed = 0,
    device: options.Device = Device.AUTO,
    na: options.Missing = None,
    text: options.Text = None,
    sep: options.Separator = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    json: options.Json = False,
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
            result = {"target": table.target, "n_train": len(rows), "n_test": len(held_out)}
            if rows.has_classes:  # held-out rows of classes without training rows
                result["n_unseen"] = int(np.sum(~np.isin(held_out.y, rows.y)))
            print_json({**result, "models": [one.as_numbers() for one in results]})
        else:
            held = f"{len(held_out):,} held-out rows ({split_words(roles)})"
            title = f"trained on {len(rows):,} rows, scored on {held}"
            _show(results, len(rows), title)


def _scored(rows: Dataset, held_out: Dataset, seed: int, device: str) -> list[RivalScore]:
    """All models, best first: by log-loss for classes, else by R²."""
    if rows.has_classes:
        if len(np.unique(rows.y)) < 2:
            raise InputError("all training rows have the same class: there is nothing to compare")
        ours = {"bandfall (self-tuning)": make_estimator(ModelChoice.AUTO, device, classes=True)}
        models = {**class_rivals(rows.y, seed), **ours}
    else:
        ours = {
            "bandfall (KGD-D)": make_estimator(ModelChoice.KGDD, device),
            "bandfall (self-tuning)": make_estimator(ModelChoice.AUTO, device),
        }
        models = {**rivals(seed), **ours}
    with rows.style.as_usual():
        scored = score_rivals(models, rows, held_out, seed=seed, groups=rows.group)
    return sorted(scored, key=lambda one: one.rank)


def _show(results: list[RivalScore], n_train: int, title: str) -> None:
    rows = []
    for one in results:
        style = "bold" if one.name.startswith("bandfall") else ""
        sample = "" if one.n_rows == n_train else f" ({one.n_rows:,} rows)"
        cells = (one.name + sample, *one.cells().values(), f"{one.seconds:.2f} s")
        rows.append([Text(content, style) for content in cells])
    print_table(title, ("model", *results[0].cells(), "fit time"), rows)
