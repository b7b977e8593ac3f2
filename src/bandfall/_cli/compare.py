"""``bandfall compare``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from rich.text import Text

from bandfall._cli.options import Choices, Roles, Style, command
from bandfall._cli.rivals import rivals_for, score_rivals
from bandfall._cli.rows import Dataset, load_table, split_table
from bandfall._cli.terminal import InputError, print_json, print_table
from bandfall._cli.training import make_estimator
from bandfall.report import RivalScore


@command(required="targets", without="keep model max_seconds checkpoint")
def compare(data: str, *, roles: Roles, choices: Choices, style: Style, json: bool = False) -> None:
    """Score bandfall and its rivals on the same held-out rows.

    Every model is trained with its usual settings on the same rows. Only cross-validated kernel
    ridge regression, whose cost grows with the cube of the rows, gets at most 1,000 of them. For
    the rivals, text, dates and missing values are encoded as numbers in the usual way. Classes
    are compared by log-loss, AUC, accuracy and calibration error.
    """
    if choices.test_fraction <= 0:
        raise InputError("--test-fraction must be above 0: models are compared on those rows")
    table = load_table(data, roles, style, choices.task)
    rows, held_out = split_table(table, choices.with_most_rows())
    assert held_out is not None
    results = _scored(rows, held_out, choices)
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


def _scored(rows: Dataset, held_out: Dataset, choices: Choices) -> list[RivalScore]:
    """All models, best first: by log-loss for classes, else by R²."""
    classes = rows.has_classes
    if classes and len(np.unique(rows.y)) < 2:
        raise InputError("all training rows have the same class: there is nothing to compare")
    models = rivals_for(rows.y, classes, choices.seed)
    if not classes:
        models["bandfall (KGD-D)"] = make_estimator(replace(choices, model="kgdd"))
    models["bandfall (self-tuning)"] = make_estimator(choices, classes=classes)
    with rows.style.as_usual():
        scored = score_rivals(models, rows, held_out, seed=choices.seed, groups=rows.group)
    return sorted(scored, key=lambda one: one.rank)
