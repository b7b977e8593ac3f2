"""Options of the commands, and the dataclasses that hold those of a table and its training."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import wraps
from typing import Annotated, Any, Literal, get_type_hints

import numpy as np
from typer import Argument, Option

from bandfall._cli.terminal import InputError, one_line_errors
from bandfall.tables._text import usual_style

MIN_ROWS = 4
# Rows of quick looks at a table; larger ones are sampled at random. `fit` takes all rows, except
# for models that need n³ operations.
MAX_ROWS = {"auto": 10_000, "kgdd": 10_000, "krr-cv": 2_000}


def argument(metavar: str, text: str) -> Any:
    """An argument with its placeholder and help text."""
    return Argument(metavar=metavar, help=text)


def option(name: str, metavar: str, text: str, *others: str, **settings: Any) -> Any:
    """An option with its placeholder ("" for a flag), its help text and other names."""
    return Option(name, *others, metavar=metavar, help=text, **settings)


OPTIONS = {
    "data": argument("DATA", "CSV, CSV.gz, Parquet or Excel file; - for standard input."),
    "file": argument("MODEL", "Model file made by fit."),
    "targets": option("--target", "COL", "Column to predict; repeatable."),
    "drop": option("--drop", "COL", "Column to leave out; repeatable."),
    "keep": option("--keep", "COL", "Column to copy into the predictions, such as an id; not a "
           "feature; repeatable."),
    "weights": option("--weights", "COL", "Column with the weights of the rows."),
    "time": option("--time-split", "COL", "Hold out the latest rows by this column, not random "
           "ones.", "--time"),
    "group": option("--group", "COL", "Hold out whole groups: rows with the same value in this "
           "column; not a feature."),
    "model": option("--model", "MODEL", "auto: tunes itself; kgdd: the paper's method; krr-cv: "
           "cross-validated kernel ridge."),
    "task": option("--task", "TASK", "regression, classification or auto: classes if the target is "
           "text or booleans."),
    "test_fraction": option("--test-fraction", "SHARE", "Share of rows held out to score "
           "the model."),
    "max_rows": option("--max-rows", "N", "Train on at most this many rows, chosen at random "
           "[default: all in fit, 10000 elsewhere; krr-cv: 2000].", min=MIN_ROWS),
    "max_seconds": option("--max-seconds", "S", "Time limit for --model auto [default: none]."),
    "seed": option("--seed", "N", "Seed for choosing rows at random.", min=0, max=2**32 - 1),
    "device": option("--device", "DEVICE", "Where to compute: auto, cpu, cuda, or the address of a "
           "Dask scheduler."),
    "separator": option("--sep", "C", "Separator of a CSV file, or tab [default: guessed]."),
    "decimal": option("--decimal", "C", "Decimal sign of a CSV file [default: guessed]."),
    "encoding": option("--encoding", "NAME", "Encoding of a CSV file [default: guessed]."),
    "text": option("--text", "COL", "Column to read as text even if it looks like numbers or "
           "dates; repeatable."),
    "missing": option("--na", "WORD", "Word that means a missing value; repeatable."),
    "force": option("--force", "", "Replace the file --out even if it is something else."),
    "json": option("--json", "", "Print one JSON object instead of text."),
}  # fmt: skip


@dataclass(frozen=True)
class Roles:
    """The roles of columns; all columns without one are features, and so is `time`."""

    targets: list[str] = field(default_factory=list)
    drop: list[str] = field(default_factory=list)
    keep: list[str] = field(default_factory=list)
    weights: str | None = None
    time: str | None = None
    group: str | None = None

    @property
    def decisive(self) -> list[str]:
        """Columns whose values training reads: targets, weights, time and group."""
        single = [name for name in (self.weights, self.time, self.group) if name is not None]
        return list(dict.fromkeys([*self.targets, *single]))

    @property
    def no_features(self) -> set[str | None]:
        """Columns that a model does not see."""
        return {*self.targets, *self.drop, *self.keep, self.weights, self.group}

    @property
    def split_words(self) -> str:
        """How rows were held out, in words."""
        if self.time is not None:
            return f"the last by {self.time}"
        return "chosen at random" if self.group is None else f"whole groups of {self.group}"

    def check(self) -> None:
        """Raise InputError if two roles contradict each other."""
        for name in ("drop", "keep", "weights", "group"):
            for target in self.targets:
                if target in np.ravel(getattr(self, name)):
                    raise InputError(f"--target {target} is also in --{name}")
        if len(set(self.targets)) < len(self.targets):
            raise InputError("--target names one column twice")
        if self.time is not None and self.group is not None:
            raise InputError("use --time-split or --group, not both")


@dataclass(frozen=True)
class Choices:
    """Which model to train, for which task, on which device and rows."""

    model: Literal["auto", "kgdd", "krr-cv"] = "auto"
    task: Literal["auto", "regression", "classification"] = "auto"
    test_fraction: float = 0.2
    max_rows: int | None = None
    max_seconds: float | None = None
    seed: int = 0
    device: str = "auto"

    def with_most_rows(self) -> Choices:
        """A copy with a limit of rows if none was given."""
        return replace(self, max_rows=self.max_rows or MAX_ROWS[self.model])


@dataclass(frozen=True)
class Style:
    """How a table is written; None for a setting of a CSV file that is to be guessed."""

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    text: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def numbers(self) -> str:
        """The style of numbers: "comma" or "point"."""
        return "comma" if self.decimal == "," else "point"

    def as_usual(self) -> AbstractContextManager[None]:
        """A context that reads ambiguous numbers with the decimal sign of this file."""
        return usual_style(self.numbers)


def command(*, without: str = "", required: str = "", **own: Any) -> Callable[[Any], Any]:
    """Decorate a command: its parameters become `OPTIONS`, or its `own`, and errors one line.

    Of a parameter that is a dataclass, all fields that are `OPTIONS` become options, except those
    in `without`. Options in `required` must be given.
    """
    options = {name: one for name, one in (OPTIONS | own).items() if name not in without.split()}

    def decorated(function: Callable[..., None]) -> Callable[..., None]:
        hints, groups, parameters = get_type_hints(function), {}, []
        for name, given in inspect.signature(function).parameters.items():
            kinds, defaults = hints, {name: given.default}
            if is_dataclass(hints[name]):
                kinds = get_type_hints(hints[name])
                defaults = {one.name: one.default for one in fields(hints[name])}
                groups[name] = [key for key in defaults if key in options]
            for key in groups.get(name, [name]):
                hint = Annotated[kinds[key], options[key]]  # type: ignore[valid-type]
                given = given.replace(name=key, kind=given.KEYWORD_ONLY, annotation=hint)
                default = None if defaults[key] is MISSING else defaults[key]
                default = given.empty if key in required.split() else default
                parameters.append(given.replace(default=default))

        @wraps(function)
        def run(**values: Any) -> None:
            with one_line_errors():
                for name, keys in groups.items():
                    own = {key: value for key in keys if (value := values.pop(key)) is not None}
                    values[name] = hints[name](**own)
                function(**values)

        vars(run)["__signature__"] = inspect.Signature(parameters)
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        return run

    return decorated
