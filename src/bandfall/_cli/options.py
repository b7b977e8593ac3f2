"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer


def option(name: str, metavar: str, text: str, *others: str, **settings: Any) -> Any:
    """An option with its placeholder ("" for a flag), its help text and other names."""
    return typer.Option(name, *others, metavar=metavar, help=text, **settings)


def _checked_seed(seed: int) -> int:
    if not 0 <= seed < 2**32:
        raise typer.BadParameter(f"{seed} must be at least 0 and below 2**32")
    return seed


_DATA = "CSV, CSV.gz, Parquet or Excel file; - for standard input."
_KEEP = "Column to copy into the predictions, such as an id; not a feature; repeatable."
_TIME = "Hold out the latest rows by this column, not random ones."
_GROUP = "Hold out whole groups: rows with the same value in this column; not a feature."
_TEXT = "Column to read as text even if it looks like numbers or dates; repeatable."
_ROWS = "Train on at most this many rows, chosen at random [default: {}; krr-cv: 2000]."
_SECONDS = "Time limit for --model auto [default: none]."
_MODEL = "auto: tunes itself; kgdd: the paper's method; krr-cv: cross-validated kernel ridge."
_DEVICE = "Where to compute: auto, cpu, cuda, or the address of a Dask scheduler."
_SEED = "Seed for choosing rows at random."
_TASK = "regression, classification or auto: classes if the target is text or booleans."
_FRACTION = "Share of rows held out to score the model."
_INTERVAL = "Add an interval (lower, upper) that contains the target for this share of rows: 0.9."
_NOVELTY = "Add the distance of each row to the training rows; values above 1 are unusual."
_FORCE = "Replace the file --out even if it is something else."
_GUESSED = "{} of a CSV file{} [default: guessed]."

Column = str | None
Columns = list[str] | None
Models = Literal["auto", "kgdd", "krr-cv"]
Tasks = Literal["auto", "regression", "classification"]

Data = Annotated[str, typer.Argument(metavar="DATA", help=_DATA)]
ModelFile = Annotated[str, typer.Argument(metavar="MODEL", help="Model file made by fit.")]
Target = Annotated[list[str], option("--target", "COL", "Column to predict; repeatable.")]
PageTarget = Annotated[Column, option("--target", "COL", "Column to predict, if a table is given.")]
Drop = Annotated[Columns, option("--drop", "COL", "Column to leave out; repeatable.")]
Keep = Annotated[Columns, option("--keep", "COL", _KEEP)]
Weights = Annotated[Column, option("--weights", "COL", "Column with the weights of the rows.")]
Time = Annotated[Column, option("--time-split", "COL", _TIME, "--time")]
Group = Annotated[Column, option("--group", "COL", _GROUP)]
Missing = Annotated[Columns, option("--na", "WORD", "Word that means a missing value; repeatable.")]
Text = Annotated[Columns, option("--text", "COL", _TEXT)]
Separator = Annotated[Column, option("--sep", "C", _GUESSED.format("Separator", ", or tab"))]
Decimal = Annotated[Column, option("--decimal", "C", _GUESSED.format("Decimal sign", ""))]
Encoding = Annotated[Column, option("--encoding", "NAME", _GUESSED.format("Encoding", ""))]
Fraction = Annotated[float, option("--test-fraction", "SHARE", _FRACTION)]
Seed = Annotated[int, option("--seed", "N", _SEED, callback=_checked_seed)]
Rows = Annotated[int | None, option("--max-rows", "N", _ROWS.format("10000"))]
FitRows = Annotated[int | None, option("--max-rows", "N", _ROWS.format("all"))]
Seconds = Annotated[float | None, option("--max-seconds", "S", _SECONDS)]
Model = Annotated[Models, option("--model", "MODEL", _MODEL)]
Device = Annotated[str, option("--device", "DEVICE", _DEVICE)]
Task = Annotated[Tasks, option("--task", "TASK", _TASK)]
Interval = Annotated[float | None, option("--interval", "SHARE", _INTERVAL)]
Novelty = Annotated[bool, option("--novelty", "", _NOVELTY)]
Force = Annotated[bool, option("--force", "", _FORCE)]
Json = Annotated[bool, option("--json", "", "Print one JSON object instead of text.")]
Open = Annotated[bool, option("--open/--no-open", "", "Open the page in the default browser.")]
