"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from bandfall.commands.training import ModelChoice


def _checked_seed(seed: int) -> int:
    if not 0 <= seed < 2**32:
        raise typer.BadParameter(f"{seed} must be at least 0 and below 2**32")
    return seed


Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="CSV, CSV.gz, Parquet or Excel file; - for standard input."
    ),
]
Target = Annotated[
    list[str], typer.Option("--target", metavar="COL", help="Column to predict; repeatable.")
]
Drop = Annotated[
    list[str] | None, typer.Option("--drop", metavar="COL", help="Column to leave out; repeatable.")
]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        "--keep",
        metavar="COL",
        help="Column to copy into the predictions, such as an id; not a feature; repeatable.",
    ),
]
Weights = Annotated[
    str | None,
    typer.Option("--weights", metavar="COL", help="Column with the weights of the rows."),
]
Time = Annotated[
    str | None,
    typer.Option(
        "--time-split",
        metavar="COL",
        help="Hold out the latest rows by this column, not random ones.",
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        "--group",
        metavar="COL",
        help="Hold out whole groups: rows with the same value in this column; not a feature.",
    ),
]
Missing = Annotated[
    list[str] | None,
    typer.Option("--na", metavar="WORD", help="Word that means a missing value; repeatable."),
]
Text = Annotated[
    list[str] | None,
    typer.Option(
        "--text",
        metavar="COL",
        help="Column to read as text even if it looks like numbers or dates; repeatable.",
    ),
]
Separator = Annotated[
    str | None,
    typer.Option("--sep", metavar="C", help="Separator of a CSV file, or tab [default: guessed]."),
]
Decimal = Annotated[
    str | None,
    typer.Option("--decimal", metavar="C", help="Decimal sign of a CSV file [default: guessed]."),
]
Encoding = Annotated[
    str | None,
    typer.Option("--encoding", metavar="NAME", help="Encoding of a CSV file [default: guessed]."),
]
Fraction = Annotated[
    float,
    typer.Option(
        "--test-fraction", metavar="SHARE", help="Share of rows held out to score the model."
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed", metavar="N", callback=_checked_seed, help="Seed for choosing rows at random."
    ),
]
_ROWS = "Train on at most this many rows, chosen at random [default: {}; krr-cv: 2000]."
Rows = Annotated[int | None, typer.Option("--max-rows", metavar="N", help=_ROWS.format("10000"))]
FitRows = Annotated[int | None, typer.Option("--max-rows", metavar="N", help=_ROWS.format("all"))]
Seconds = Annotated[
    float | None,
    typer.Option("--max-seconds", metavar="S", help="Time limit for --model auto [default: none]."),
]
Model = Annotated[
    ModelChoice,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="auto: tunes itself; kgdd: the paper's method; krr-cv: cross-validated kernel ridge.",
    ),
]
Device = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="DEVICE",
        help="Where to compute: auto, cpu, cuda, or the address of a Dask scheduler.",
    ),
]
