"""Results on disk as they come: one line of JSON per finished task."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bandfall.paper.json_lines import Fields, Note, append_json_line, ignore, read_json_lines

_FIELDS: Fields = {"key": str, "seconds": (int, float), "result": dict}


@dataclass(frozen=True)
class Record:
    """A finished task.

    Parameters
    ----------
    key : str
        Of the task.
    digest : str
        Of code and arguments, see `bandfall.paper.fingerprint.task_digest`.
    seconds : float
        Time it took.
    result : dict
    """

    key: str
    digest: str
    seconds: float
    result: dict[str, Any]


class ResultFile:
    """The finished tasks of one experiment.

    Every line is written whole and flushed, so that a run that is stopped loses nothing it had
    finished. Results are found by key and digest, never those of other code or other data.

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
    ...     file.append(Record("cpu/0", "5e1f", 0.1, {"r2": 0.75}))
    ...     file.read()["cpu/0", "5e1f"].result
    {'r2': 0.75}
    """

    def __init__(self, path: Path):
        self.path = path

    def read(self, note: Note = ignore) -> dict[tuple[str, str], Record]:
        """Finished tasks by key and digest; of equal ones the last.

        Parameters
        ----------
        note : callable
            Told of damaged lines.
        """
        records = {}
        for entry in read_json_lines(self.path, _FIELDS, note):
            # Lines of older versions have no digest, and nothing needs it.
            key, digest = entry["key"], str(entry.get("digest"))
            records[key, digest] = Record(key, digest, entry["seconds"], entry["result"])
        return records

    def append(self, record: Record) -> None:
        """Write one finished task."""
        entry = {
            "key": record.key,
            "digest": record.digest,
            "seconds": round(record.seconds, 4),
            "result": record.result,
        }
        append_json_line(self.path, entry)
