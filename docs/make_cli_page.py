"""Make ``docs/cli.md`` from the commands' own help.

python docs/make_cli_page.py
"""

from __future__ import annotations

import inspect
import pathlib
import types
import typing
from collections.abc import Callable
from enum import Enum
from typing import Any

from bandfall._cli.main import build_app

PAGE = pathlib.Path(__file__).parent / "cli.md"
_INTRODUCTION = """\
# The command line

<!-- Made by docs/make_cli_page.py from the commands' help; do not edit. -->

Install the command `bandfall` with `pip install ".[cli]"`. Three commands take you from a
table to predictions and a report:

```sh
bandfall fit houses.csv --target price --out houses.bandfall
bandfall predict houses.bandfall new.csv --out prices.csv
bandfall report houses.bandfall --out houses.html
```

**Tables** can be CSV, gzip-compressed CSV, Parquet or Excel files (`.xlsx`, first sheet, with
`pip install ".[excel]"`). They are recognised by their content, and `-` reads standard
input. The separator, decimal sign and encoding of a CSV file are guessed. If they are not comma,
point and UTF-8, the command says so. In a file with decimal commas, points group thousands: 1.234
is more than a thousand. The first row holds the names of the columns, which must be distinct.
Columns without a name, such as row labels, are left out.

**Columns.** Every column is a feature unless you say otherwise: numbers, text, dates, booleans.
An empty field is a missing value. In columns of numbers, so are NA, NaN, null, #DIV/0! and the
like; in columns of text these words are text. Missing features are fine. Rows without a target are
left out and counted. `--model kgdd` uses numbers only and skips incomplete rows.

- `--drop` leaves a column out. `bandfall predict --keep` copies one into the predictions.
- `--weights` names the column that says how much each row counts.
- Several `--target` options train one model for several columns.

**Held-out rows** are chosen at random. If your new rows will be later ones, use
`--time COLUMN`, which holds out the last rows by that column (numbers or dates). If they will come
from new patients, shops or sites, use `--group COLUMN`, which holds out whole groups. Both give
lower and more realistic scores. With `--model auto`, the search inside the training rows holds out
whole groups or the last rows as well.

**Output.** Results go to standard output, everything else to standard error. `--json` prints one
JSON object instead. In a terminal, a progress bar with the remaining time appears when something
takes more than a second. Files are written completely or not at all. They replace older ones, but
never an input.

**Exit codes.** 0: done. 1: the work failed, for example because there was not enough memory or the
disk was full. 2: the
input or the call cannot be used; one line on standard error says why, and nothing was written. 130:
interrupted by Ctrl-C; `fit` keeps the best model so far, all other commands write nothing.
"""


def manual() -> str:
    """The whole page."""
    return "\n".join([_INTRODUCTION, *_commands(build_app(), "bandfall", level=2)])


def _commands(app: Any, path: str, level: int) -> list[str]:
    lines = []
    for command in app.registered_commands:
        name = command.name or command.callback.__name__
        lines += _command(f"{path} {name}", command.callback, level)
    for group in app.registered_groups:
        name, inner = group.name, group.typer_instance
        lines += [f"{'#' * level} `{path} {name}`", "", inner.info.help, ""]
        lines += _commands(inner, f"{path} {name}", level + 1)
    return lines


def _command(path: str, function: Callable, level: int) -> list[str]:
    parameters = list(_parameters(function))
    arguments = [name for name, _, _ in parameters if not name.startswith("--")]
    more = ["[OPTIONS]"] if len(parameters) > len(arguments) else []
    usage = " ".join([path, *arguments, *more])
    lines = [f"{'#' * level} `{path}`", "", _paragraphs(inspect.getdoc(function)), ""]
    lines += ["```text", usage, "```", ""]
    if parameters:
        lines += ["| | | default |", "| --- | --- | --- |"]
        for name, text, default in parameters:
            cells = (f"`{name}`", text, default)
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    return lines


def _parameters(function: Callable) -> typing.Iterator[tuple[str, str, str]]:
    """Name as typed, help and default of every parameter."""
    hints = typing.get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        kind, info = typing.get_args(hints[name])
        # Inside Annotated, typer takes the first name of an option for its default.
        names = [n for n in (info.default, *(info.param_decls or ())) if isinstance(n, str)]
        required = parameter.default is inspect.Parameter.empty
        if not names:  # an argument
            shown = info.metavar or name.upper()
            shown = shown if required else f"[{shown}]"
            shown += "..." if "list[" in str(kind) else ""
            yield shown, info.help or "", "" if required else "optional"
            continue
        flag = kind is bool
        shown = names[0] if flag else f"{names[0]} {info.metavar or _placeholder(kind)}"
        yield shown, info.help or "", "required" if required else _default(parameter.default, flag)


def _placeholder(kind: Any) -> str:
    if isinstance(kind, types.UnionType):
        kind = next(part for part in typing.get_args(kind) if part is not type(None))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(member.value for member in kind)
    names = {int: "N", float: "X", str: "TEXT", pathlib.Path: "FILE"}
    return names.get(kind, "TEXT")


def _default(value: Any, flag: bool) -> str:
    if value is None or (flag and not value):
        return ""
    if flag:
        return "on"
    return f"`{value.value if isinstance(value, Enum) else value}`"


def _paragraphs(text: str | None) -> str:
    paragraphs = (text or "").strip().split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


if __name__ == "__main__":
    PAGE.write_text(manual(), encoding="utf-8")
