"""``bandfall fit``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from bandfall.commands.outputs import ForceOption, check_out, is_model
from bandfall.commands.terminal import (
    INTERRUPTED,
    JsonOption,
    note,
    one_line_errors,
    print_json,
    print_pairs,
)
from bandfall.commands.training import (
    MAX_ROWS,
    DataArgument,
    Device,
    DeviceOption,
    DropOption,
    FractionOption,
    ModelChoice,
    ModelOption,
    RowsOption,
    SeedOption,
    TargetOption,
    last_step,
    load_table,
    make_estimator,
    model_notes,
    scores,
    split_table,
    train,
)
from bandfall.persistence import save_model


def fit(
    data: DataArgument,
    target: TargetOption,
    out: Annotated[Path, typer.Option("--out", help="Model file to write.")] = Path(
        "model.bandfall"
    ),
    model: ModelOption = ModelChoice.AUTO,
    test_fraction: FractionOption = 0.2,
    drop: DropOption = None,
    max_rows: RowsOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = Device.AUTO,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Train a model on a table and write it to a file.

    All columns but the target are features and must be numbers; rows with missing values are
    left out. Ctrl-C ends training early and keeps the model reached so far.
    """
    with one_line_errors():
        check_out(out, is_model, force=force, inputs=(data,))
        estimator = make_estimator(model, device)
        table = load_table(data, target, drop)
        rows, held_out = split_table(table, test_fraction, seed, max_rows or MAX_ROWS[model])
        trained = train(estimator, rows)
        result: dict[str, Any] = {
            "model": str(out),
            "estimator": type(last_step(trained.estimator)).__name__,
            "n_train": len(rows),
            "n_test": 0 if held_out is None else len(held_out),
            "n_dropped": rows.n_dropped,
            "n_features": rows.X.shape[1],
            "seconds": trained.seconds,
            "interrupted": trained.interrupted,
        }
        path = getattr(last_step(trained.estimator), "path_", None)
        if path is not None:
            result |= {"status": path.status.value, "train_r2": path.r2}
        if held_out is not None:
            result["test"] = scores(held_out.y, trained.estimator.predict(held_out.X))
        notes = model_notes(rows, held_out, trained.seconds)
        save_model(trained.estimator, out, notes=notes | {"seed": seed})
        print_json(result) if json else _show(result, target)
        if trained.interrupted:
            note(f"interrupted: {out} holds the model as it was then")
            raise typer.Exit(INTERRUPTED)


def _show(result: dict[str, Any], target: str) -> None:
    pairs: list[tuple[str, str | Text]] = [
        ("target", target),
        ("trained on", f"{result['n_train']:,} rows × {result['n_features']} features"),
        ("estimator", result["estimator"]),
    ]
    if "train_r2" in result:
        pairs.append(("training R²", f"{result['train_r2']:.4f} ({result['status']})"))
    if "test" in result:
        test = result["test"]
        rest = f" on {result['n_test']:,} rows (mean absolute error {test['mae']:.4g})"
        pairs.append(("held-out R²", Text.assemble((f"{test['r2']:.4f}", "bold"), rest)))
    pairs += [("time", f"{result['seconds']:.1f} s"), ("model", result["model"])]
    print_pairs(pairs)
