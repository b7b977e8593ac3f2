"""Results on disk: one JSON object per line, in files that survive a killed run.

A line counts once its newline is written. Text after the last newline is the incomplete line of a
killed run: it is ignored, and the next line replaces it. Other damaged lines are ignored too, with
a note.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

Entry: TypeAlias = dict[str, Any]  # JSON values; `Fields` are checked
Note = Callable[[str], object]  # called with messages for the user

Fields = Mapping[str, type | tuple[type, ...]]  # required fields of every line


_RECORD: Fields = {"key": str, "digest": str, "seconds": (int, float), "result": dict}


@dataclass(frozen=True)
class Record:
    """A finished task."""

    key: str
    digest: str  # see `bandfall._paper.fingerprint.task_digest`
    seconds: float
    result: Entry

    def write(self, path: Path) -> None:
        """Add the record to a file."""
        append_json_line(path, asdict(replace(self, seconds=round(self.seconds, 4))))


def ignore(message: str) -> None:
    """Ignore a note."""


def read_records(path: Path, note: Note = ignore) -> dict[tuple[str, str], Record]:
    """Finished tasks by key and digest; the last one if several are equal.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as directory:
    ...     path = Path(directory) / "table2.jsonl"
    ...     Record("cpu/0", "5e1f", 0.1, {"r2": 0.75}).write(path)
    ...     read_records(path)["cpu/0", "5e1f"].result
    {'r2': 0.75}
    """
    records = [
        Record(**{name: entry[name] for name in _RECORD})
        for entry in read_json_lines(path, _RECORD, note)
    ]
    return {(record.key, record.digest): record for record in records}


def read_json_lines(path: Path, fields: Fields, note: Note = ignore) -> list[Entry]:
    """The complete lines of a file, oldest first; none if there is no file.

    A line that lacks one of the `fields` is damaged; `note` is called with a message about it.
    """
    if not path.exists():
        return []
    entries, damaged = [], []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
        entry = _parsed(line, fields)
        if entry is None:
            damaged.append(str(number))
        else:
            entries.append(entry)
    if damaged:
        lines = "line" if len(damaged) == 1 else "lines"
        note(f"{path}: damaged and left out: {lines} {', '.join(damaged)}")
    return entries


def append_json_line(path: Path, entry: Entry) -> None:
    """Append a line to a file; the file and its directory are created if missing."""
    line = json.dumps(entry, allow_nan=False).encode() + b"\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        _drop_torn_line(file)
        file.write(line)


def _parsed(line: bytes, fields: Fields) -> Entry | None:
    try:
        entry = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    whole = isinstance(entry, dict) and all(
        isinstance(entry.get(name), kind) for name, kind in fields.items()
    )
    return entry if whole else None


def _drop_torn_line(file: BinaryIO) -> None:
    size = file.seek(0, 2)
    if size == 0:
        return
    file.seek(size - 1)
    if file.read(1) != b"\n":
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
