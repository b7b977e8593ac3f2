"""``bandfall compare``."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from bandfall.commands.rivals import RivalScore, rivals, score_rivals
from bandfall.commands.terminal import (
    InputError,
    JsonOption,
    one_line_errors,
    print_json,
    print_table,
)
from bandfall.commands.training import (
    MAX_ROWS,
    DataArgument,
    Device,
    DeviceOption,
    DropOption,
    FractionOption,
    ModelChoice,
    RowsOption,
    SeedOption,
    TargetOption,
    last_step,
    load_table,
    make_estimator,
    split_table,
)


def compare(
    data: DataArgument,
    target: TargetOption,
    test_fraction: FractionOption = 0.2,
    drop: DropOption = None,
    max_rows: RowsOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = Device.AUTO,
    json: JsonOption = False,
) -> None:
    """Score bandfall and its rivals on the same held-out rows.

    Every model is trained with its usual settings on the same rows; cross-validated kernel
    ridge regression, whose cost grows with the cube of the rows, on at most 1,000 of them.
    """
    with one_line_errors():
        if test_fraction <= 0:
            raise InputError("--test-fraction must be above 0: models are compared on those rows")
        models = {**rivals(seed), **_ours(device)}
        table = load_table(data, target, drop)
        rows, held_out = split_table(table, test_fraction, seed, max_rows or MAX_ROWS["auto"])
        assert held_out is not None
        train, test = (rows.X.to_numpy(), rows.y), (held_out.X.to_numpy(), held_out.y)
        results = sorted(score_rivals(models, train, test, seed=seed), key=lambda one: -one.r2)
        if json:
            print_json(
                {
                    "target": target,
                    "n_train": len(rows),
                    "n_test": len(held_out),
                    "models": [one._asdict() for one in results],
                }
            )
        else:
            _show(results, len(rows), len(held_out))


def _ours(device: Device) -> dict[str, Any]:
    """This package's models by name; the flagship only where there is one."""
    kgdd, auto = (make_estimator(choice, device) for choice in (ModelChoice.KGDD, ModelChoice.AUTO))
    models = {"bandfall (KGD-D)": kgdd}
    if type(last_step(auto)) is not type(last_step(kgdd)):
        models["bandfall (self-tuning)"] = auto
    return models


def _show(results: list[RivalScore], n_train: int, n_test: int) -> None:
    rows = []
    for one in results:
        style = "bold" if one.name.startswith("bandfall") else ""
        sample = "" if one.n_rows == n_train else f" ({one.n_rows:,} rows)"
        cells = (one.name + sample, f"{one.r2:.4f}", f"{one.mae:.4g}", f"{one.seconds:.2f} s")
        rows.append([Text(content, style) for content in cells])
    print_table(
        f"trained on {n_train:,} rows, scored on {n_test:,}",
        ("model", "R²", "mean abs. error", "fit time"),
        rows,
    )
