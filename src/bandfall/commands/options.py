"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from bandfall.commands.training import ModelChoice

DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="CSV, CSV.gz, Parquet or Excel file; - for standard input."
    ),
]
TargetOption = Annotated[
    list[str], typer.Option("--target", metavar="COL", help="Column to predict; repeatable.")
]
DropOption = Annotated[
    list[str] | None, typer.Option("--drop", metavar="COL", help="Column to leave out; repeatable.")
]
KeepOption = Annotated[
    list[str] | None,
    typer.Option(
        "--keep",
        metavar="COL",
        help="Column that is not a feature, but is copied into the predictions; repeatable.",
    ),
]
WeightsOption = Annotated[
    str | None,
    typer.Option("--weights", metavar="COL", help="Column that says how much each row counts."),
]
TimeOption = Annotated[
    str | None,
    typer.Option(
        "--time-split",
        metavar="COL",
        help="Hold out the last rows by this column instead of random ones.",
    ),
]
GroupOption = Annotated[
    str | None,
    typer.Option(
        "--group",
        metavar="COL",
        help="Hold out whole groups: rows with the same value here. Not a feature then.",
    ),
]
MissingOption = Annotated[
    list[str] | None,
    typer.Option("--na", metavar="WORD", help="Word that stands for a missing value; repeatable."),
]
TextOption = Annotated[
    list[str] | None,
    typer.Option(
        "--text",
        metavar="COL",
        help="Column to take as text even if it looks like numbers or dates; repeatable.",
    ),
]
SeparatorOption = Annotated[
    str | None,
    typer.Option("--sep", metavar="C", help="Separator of a CSV file, or tab [default: guessed]."),
]
DecimalOption = Annotated[
    str | None,
    typer.Option("--decimal", metavar="C", help="Decimal sign of a CSV file [default: guessed]."),
]
EncodingOption = Annotated[
    str | None,
    typer.Option("--encoding", metavar="NAME", help="Encoding of a CSV file [default: guessed]."),
]
FractionOption = Annotated[
    float, typer.Option("--test-fraction", help="Share of rows held out to score the model.")
]
SeedOption = Annotated[
    int,
    typer.Option("--seed", min=0, max=2**32 - 1, help="Seed for choosing rows at random."),
]
RowsOption = Annotated[
    int | None,
    typer.Option(
        "--max-rows",
        help="Train on at most this many rows, chosen at random [default: 10000; krr-cv: 2000].",
    ),
]
FitRowsOption = Annotated[
    int | None,
    typer.Option(
        "--max-rows",
        help="Train on at most this many rows, chosen at random [default: all; krr-cv: 2000].",
    ),
]
SecondsOption = Annotated[
    float | None,
    typer.Option(
        "--max-seconds",
        metavar="S",
        help="Time limit for --model auto [default: none].",
    ),
]
ModelOption = Annotated[
    ModelChoice,
    typer.Option(
        "--model",
        help="auto: tunes itself; kgdd: the paper's method; krr-cv: kernel ridge by CV.",
    ),
]
DeviceOption = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="auto|cpu|cuda|ADDRESS",
        help="Where to compute; on a cluster, the address of its Dask scheduler.",
    ),
]
