"""``bandfall compare``."""

from __future__ import annotations

import numpy as np
from rich.text import Text

from bandfall._cli import options
from bandfall._cli.read_table import Style
from bandfall._cli.rivals import rivals_for, score_rivals
from bandfall._cli.rows import Dataset, Roles, load_table, split_table
from bandfall._cli.terminal import InputError, one_line_errors, print_json, print_table
from bandfall._cli.training import MAX_ROWS, Choices, make_estimator
from bandfall.report import RivalScore


@one_line_errors()
def compare(
    data: options.Data,
    target: options.Target,
    task: options.Task = "auto",
    test_fraction: options.Fraction = 0.2,
    drop: options.Drop = None,
    weights: options.Weights = None,
    time_split: options.Time = None,
    group: options.Group = None,
    max_rows: options.Rows = None,
    seed: options.Seed = 0,
    device: options.Device = "auto",
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
    if test_fraction <= 0:
        raise InputError("--test-fraction must be above 0: models are compared on those rows")
    roles = Roles(target, drop or [], [], weights, time_split, group)
    style = Style(sep, decimal, encoding, text or [], na or [])
    table = load_table(data, roles, style, task)
    rows, held_out = split_table(table, test_fraction, seed, max_rows or MAX_ROWS["auto"])
    assert held_out is not None
    results = _scored(rows, held_out, seed, device)
    if json:
        result = {"target": table.target, "n_train": len(rows), "n_test": len(held_out)}
        if rows.has_classes:  # held-out rows of classes without training rows
            result["n_unseen"] = int(np.sum(~np.isin(held_out.y, rows.y)))
        print_json({**result, "models": [one.as_numbers() for one in results]})
        return
    held = f"{len(held_out):,} held-out rows ({roles.split_words})"
    cells = []
    for one in results:
        bold = "bold" if one.name.startswith("bandfall") else ""
        sample = "" if one.n_rows == len(rows) else f" ({one.n_rows:,} rows)"
        line = (one.name + sample, *one.cells().values(), f"{one.seconds:.2f} s")
        cells.append([Text(content, bold) for content in line])
    title = f"trained on {len(rows):,} rows, scored on {held}"
    print_table(title, ("model", *results[0].cells(), "fit time"), cells)


def _scored(rows: Dataset, held_out: Dataset, seed: int, device: str) -> list[RivalScore]:
    """All models, best first: by log-loss for classes, else by R²."""
    classes = rows.has_classes
    if classes and len(np.unique(rows.y)) < 2:
        raise InputError("all training rows have the same class: there is nothing to compare")
    models = rivals_for(rows.y, classes, seed)
    if not classes:
        models["bandfall (KGD-D)"] = make_estimator(Choices("kgdd", device))
    models["bandfall (self-tuning)"] = make_estimator(Choices("auto", device), classes=classes)
    with rows.style.as_usual():
        scored = score_rivals(models, rows, held_out, seed=seed, groups=rows.group)
    return sorted(scored, key=lambda one: one.rank)
