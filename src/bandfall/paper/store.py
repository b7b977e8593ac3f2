"""Results on disk as they come: one line of JSON per finished task."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bandfall import __version__


@dataclass(frozen=True)
class Record:
    """A finished task.

    Parameters
    ----------
    key : str
        Of the task.
    seconds : float
        Time it took.
    result : dict
    """

    key: str
    seconds: float
    result: dict[str, Any]


class ResultFile:
    """The finished tasks of one experiment.

    Every line is written whole and flushed, so that a run that is stopped loses nothing it had
    finished; half a line, left by a crash, is ignored and overwritten by the next run. Lines of
    other versions of the package are not read: their numbers may differ.

    Parameters
    ----------
    path : Path
        A ``.jsonl`` file; made with its directory when first written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as directory:
    ...     file = ResultFile(Path(directory) / "table2.jsonl")
    ...     file.append(Record("cpu/0", 0.1, {"r2": 0.75}))
    ...     file.read()["cpu/0"].result
    {'r2': 0.75}
    """

    def __init__(self, path: Path):
        self.path = path

    def read(self) -> dict[str, Record]:
        """Finished tasks by key; of equal keys the last."""
        if not self.path.exists():
            return {}
        records = {}
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                entry = json.loads(line)
                if entry["version"] == __version__:
                    records[entry["key"]] = Record(entry["key"], entry["seconds"], entry["result"])
            except (json.JSONDecodeError, KeyError, TypeError):
                continue  # half a line
        return records

    def append(self, record: Record) -> None:
        """Write one finished task."""
        entry = {
            "key": record.key,
            "version": __version__,
            "seconds": round(record.seconds, 4),
            "result": record.result,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+b") as file:
            if file.tell() and not self._ends_whole(file):
                file.write(b"\n")
            file.write(json.dumps(entry, allow_nan=False).encode() + b"\n")

    @staticmethod
    def _ends_whole(file: Any) -> bool:
        file.seek(-1, 2)
        return file.read(1) == b"\n"
