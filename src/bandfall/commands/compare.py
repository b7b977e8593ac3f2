"""``bandfall compare``."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from bandfall.commands.csv_files import Style
from bandfall.commands.options import (
    DataArgument,
    DecimalOption,
    DeviceOption,
    DropOption,
    EncodingOption,
    FractionOption,
    GroupOption,
    RowsOption,
    SeedOption,
    SeparatorOption,
    TargetOption,
    TimeOption,
    WeightsOption,
)
from bandfall.commands.rivals import RivalScore, rivals, score_rivals
from bandfall.commands.rows import Roles, load_table, split_table
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
    last_step,
    make_estimator,
    split_words,
)
from bandfall.drawing import number


def compare(
    data: DataArgument,
    target: TargetOption,
    test_fraction: FractionOption = 0.2,
    drop: DropOption = None,
    weights: WeightsOption = None,
    time_split: TimeOption = None,
    group: GroupOption = None,
    max_rows: RowsOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = Device.AUTO,
    sep: SeparatorOption = None,
    decimal: DecimalOption = None,
    encoding: EncodingOption = None,
    json: JsonOption = False,
) -> None:
    """Score bandfall and its rivals on the same held-out rows.

    Every model is trained with its usual settings on the same rows; cross-validated kernel
    ridge regression, whose cost grows with the cube of the rows, on at most 1,000 of them. The
    rivals get text, dates and missing values as numbers, encoded in the usual way.
    """
    with one_line_errors():
        if test_fraction <= 0:
            raise InputError("--test-fraction must be above 0: models are compared on those rows")
        models = {**rivals(seed), **_ours(device)}
        roles = Roles(target, drop or [], [], weights, time_split, group)
        table = load_table(data, roles, Style(sep, decimal, encoding))
        rows, held_out = split_table(table, test_fraction, seed, max_rows or MAX_ROWS["auto"])
        assert held_out is not None
        results = score_rivals(models, rows, held_out, seed=seed, groups=rows.group)
        results.sort(key=lambda one: -one.r2)
        if json:
            print_json(
                {
                    "target": table.target,
                    "n_train": len(rows),
                    "n_test": len(held_out),
                    "models": [one.as_numbers() for one in results],
                }
            )
        else:
            held = f"{len(held_out):,} ({split_words(roles)})"
            _show(results, len(rows), f"trained on {len(rows):,} rows, scored on {held}")


def _ours(device: Device) -> dict[str, Any]:
    """This package's models by name; the flagship only where there is one."""
    kgdd, auto = (make_estimator(choice, device) for choice in (ModelChoice.KGDD, ModelChoice.AUTO))
    models = {"bandfall (KGD-D)": kgdd}
    if type(last_step(auto)) is not type(last_step(kgdd)):
        models["bandfall (self-tuning)"] = auto
    return models


def _show(results: list[RivalScore], n_train: int, title: str) -> None:
    rows = []
    for one in results:
        style = "bold" if one.name.startswith("bandfall") else ""
        sample = "" if one.n_rows == n_train else f" ({one.n_rows:,} rows)"
        score = "not defined" if one.r2 != one.r2 else f"{one.r2:.4f}"
        cells = (one.name + sample, score, number(one.mae), f"{one.seconds:.2f} s")
        rows.append([Text(content, style) for content in cells])
    print_table(title, ("model", "R²", "mean abs. error", "fit time"), rows)
