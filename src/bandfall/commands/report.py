"""``bandfall report``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from bandfall.commands.csv_files import Style
from bandfall.commands.kept_rows import unpack_rows
from bandfall.commands.options import (
    DecimalOption,
    DeviceOption,
    DropOption,
    EncodingOption,
    FractionOption,
    GroupOption,
    ModelOption,
    RowsOption,
    SeedOption,
    SeparatorOption,
    TimeOption,
    WeightsOption,
)
from bandfall.commands.outputs import ForceOption, check_out, is_model, is_page
from bandfall.commands.rivals import RivalScore, rivals, score_rivals
from bandfall.commands.rows import Roles, Table, load_table, only_numbers, split_table
from bandfall.commands.terminal import InputError, JsonOption, note, one_line_errors, print_json
from bandfall.commands.training import (
    MAX_ROWS,
    Device,
    ModelChoice,
    last_step,
    make_estimator,
    model_notes,
    scores,
    train,
)
from bandfall.persistence import ModelFile, read_model_file
from bandfall.persistence.atomic import write_atomically
from bandfall.report import Findings, Rows, render_page, study

OURS = "bandfall (this model)"


def report(
    source: Annotated[
        str, typer.Argument(metavar="MODEL|DATA", help="Model file made by fit, or a table.")
    ],
    out: Annotated[Path, typer.Option("--out", help="HTML page to write.")] = Path("report.html"),
    target: Annotated[
        str | None, typer.Option("--target", help="Column to predict; for a table only.")
    ] = None,
    with_rivals: Annotated[
        bool, typer.Option("--rivals/--no-rivals", help="Score other regressors too.")
    ] = True,
    model: ModelOption = ModelChoice.AUTO,
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
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Write one HTML page about a model: score, rivals, path, features, errors, slices.

    Given a model file, the rows it was trained and scored on are taken from it. Given a table,
    a model is trained first, as by fit, and not kept. The page needs no network and no server.
    """
    with one_line_errors():
        check_out(out, is_page, force=force, inputs=(source,))
        if source != "-" and Path(source).is_file() and is_model(Path(source)):
            stored = read_model_file(source)
        else:
            estimator = make_estimator(model, device)
            roles = _roles(source, target, Roles([], drop or [], [], weights, time_split, group))
            table = load_table(source, roles, Style(sep, decimal, encoding))
            if model is not ModelChoice.AUTO:
                table = only_numbers(table, model)
            rows = split_table(table, test_fraction, seed, max_rows or MAX_ROWS[model])
            stored = _trained_now(estimator, *rows)
        findings, results = _look(stored, seed, with_rivals)
        page = render_page(
            findings,
            target=str(stored.notes.get("target", "target")),
            source=str(stored.notes.get("source", "unknown")),
            details=_details(stored),
            rivals=results,
            model_name=OURS,
            selection=getattr(last_step(stored.estimator), "selection_", None),
        )
        write_atomically(out, page.encode())
        if json:
            print_json({"out": str(out), "r2": findings.r2, "held_out": findings.held_out})
        else:
            note(f"wrote {out}; open it in a browser")


def _roles(source: str, target: str | None, others: Roles) -> Roles:
    if target is None:
        what = "is not a bandfall model" if source != "-" else "is a table"
        raise InputError(f"{source} {what}; to train on it as a table, name the --target")
    return replace(others, targets=[target])


def _trained_now(estimator: Any, rows: Table, held_out: Table | None) -> ModelFile:
    trained = train(estimator, rows)
    if trained.interrupted:  # a page about half a search would pass for a whole one
        raise KeyboardInterrupt
    return ModelFile(trained.estimator, model_notes(rows, held_out, trained.seconds))


def _look(stored: ModelFile, seed: int, with_rivals: bool) -> tuple[Findings, list[RivalScore]]:
    """Findings and rivals for the rows that the model file kept."""
    estimator, notes = stored.estimator, stored.notes
    rows = notes.get("train")
    if not isinstance(rows, dict) or not {"X", "y"} <= set(rows):
        raise InputError(
            "the model file holds no rows to report on: make it with `bandfall fit`, or call "
            "save_model with notes={'train': {'X': X, 'y': y}, 'test': ...}"
        )
    names = getattr(estimator, "feature_names_in_", None)
    train_rows, test_rows = (
        Rows(*unpack_rows(kept, names)) if isinstance(kept, dict) else None
        for kept in (rows, notes.get("test"))
    )
    assert train_rows is not None
    if train_rows.y.ndim == 2:
        raise InputError("a report is about one target; train a model with one --target for it")
    features = list(train_rows.X.columns) if names is not None else _numbered(train_rows)
    findings = study(estimator, train_rows, test_rows, features, seed=seed)
    if test_rows is None or not with_rivals:
        return findings, []
    results = score_rivals(rivals(seed), train_rows, test_rows, seed=seed)
    ours = RivalScore(
        OURS,
        **scores(test_rows.y, findings.predictions),
        seconds=float(notes.get("seconds", np.nan)),
        n_rows=len(train_rows.y),
    )
    return findings, [*results, ours]


def _numbered(rows: Rows) -> list[str]:
    return [f"feature {j + 1}" for j in range(rows.X.shape[1])]


def _details(stored: ModelFile) -> dict[str, str]:
    last: Any = last_step(stored.estimator)
    steps = getattr(stored.estimator, "steps", [("", last)])
    details = {
        "estimator": " → ".join(type(step).__name__ for _, step in steps),
        "parameters": ", ".join(f"{k}={v!r}" for k, v in last.get_params(deep=False).items()),
    }
    if stored.notes.get("n_dropped"):
        details["rows left out"] = f"{stored.notes['n_dropped']:,}, for missing values"
    if stored.notes.get("n_without_target"):
        details["rows set aside"] = f"{stored.notes['n_without_target']:,}, without a target"
    if stored.notes.get("split"):
        details["rows held out"] = str(stored.notes["split"])
    if "seconds" in stored.notes:
        details["training time"] = f"{stored.notes['seconds']:.2f} s"
    if stored.versions:
        details["written by"] = ", ".join(f"{k} {v}" for k, v in stored.versions.items())
    return details
