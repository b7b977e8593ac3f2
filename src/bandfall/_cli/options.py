"""Options of the commands, and the dataclass that holds those of a table and its training."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, Literal, get_type_hints

import numpy as np
from typer import Argument, Option

from bandfall._cli.terminal import InputError, one_line_errors

MIN_ROWS = 4


def argument(metavar: str, text: str) -> Any:
    """An argument with its placeholder and help text."""
    return Argument(metavar=metavar, help=text)


def option(name: str, metavar: str, text: str, **settings: Any) -> Any:
    """An option with its placeholder ("" for a flag) and help text."""
    return Option(name, metavar=metavar, help=text, **settings)


OPTIONS = {
    "data": argument("DATA", "CSV, CSV.gz, Parquet or Excel file; - for standard input."),
    "file": argument("MODEL", "Model file made by fit."),
    "targets": option("--target", "COL", "Column to predict; repeatable."),
    "drop": option("--drop", "COL", "Column to leave out; repeatable."),
    "weights": option("--weights", "COL", "Column with the weights of the rows."),
    "time": option("--time", "COL", "Hold out the latest rows by this column, not random ones."),
    "group": option("--group", "COL", "Hold out whole groups: rows with the same value in this "
           "column; not a feature."),
    "model": option("--model", "MODEL", "auto: tunes itself; kgdd: the paper's method."),
    "task": option("--task", "TASK", "regression, classification or auto: classes if the target is "
           "text or booleans."),
    "test_fraction": option("--test-fraction", "SHARE", "Share of rows held out to score "
           "the model.", min=0.0, max=1.0),
    "max_rows": option("--max-rows", "N", "Train on at most this many rows, chosen at random "
           "[default: all].", min=MIN_ROWS),
    "max_seconds": option("--max-seconds", "S", "Time limit for --model auto [default: none]."),
    "seed": option("--seed", "N", "Seed for choosing rows at random.", min=0, max=2**32 - 1),
    "device": option("--device", "DEVICE", "Where to compute: auto, cpu, cuda, or the address of a "
           "Dask scheduler."),
    "text": option("--text", "COL", "Column to read as text even if it looks like numbers or "
           "dates; repeatable."),
    "missing": option("--na", "WORD", "Word that means a missing value; repeatable."),
    "json": option("--json", "", "Print one JSON object instead of text."),
}  # fmt: skip


@dataclass(frozen=True)
class Choices:
    """The roles of columns, how they are read, and which model is trained on which rows.

    All columns without a role are features, and so is `time`.
    """

    targets: list[str] = field(default_factory=list)
    drop: list[str] = field(default_factory=list)
    weights: str | None = None
    time: str | None = None
    group: str | None = None
    model: Literal["auto", "kgdd"] = "auto"
    task: Literal["auto", "regression", "classification"] = "auto"
    test_fraction: float = 0.2
    max_rows: int | None = None
    max_seconds: float | None = None
    seed: int = 0
    device: str = "auto"
    text: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def target(self) -> str:
        """Names of the targets, for messages."""
        return ", ".join(self.targets)

    @property
    def named(self) -> list[str]:
        """All columns that an option names."""
        single = [name for name in (self.weights, self.time, self.group) if name is not None]
        return list(dict.fromkeys([*self.targets, *single, *self.drop, *self.text]))

    @property
    def no_features(self) -> set[str | None]:
        """Columns that a model does not see."""
        return {*self.targets, *self.drop, self.weights, self.group}

    @property
    def split_words(self) -> str:
        """How rows were held out, in words."""
        if self.time is not None:
            return f"the last by {self.time}"
        return "chosen at random" if self.group is None else f"whole groups of {self.group}"

    def check(self) -> None:
        """Raise InputError if two options contradict each other."""
        for name in ("drop", "weights", "group"):
            for target in self.targets:
                if target in np.ravel(getattr(self, name)):
                    raise InputError(f"--target {target} is also in --{name}")
        if self.time is not None and self.group is not None:
            raise InputError("use --time or --group, not both")


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
