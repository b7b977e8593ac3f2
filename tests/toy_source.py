"""A data set of three rows, for tests of the loaders."""

import io
import zipfile

import numpy as np

from bandfall.datasets._files import values_checksum
from bandfall.datasets._sources import Source

TABLE = np.array([[1.5, -2.0, 3e-7], [0.1, 1e9, 4.0], [7.0, 8.0, 9.0]])
HEADER = "when,a,b,goal"


def as_csv(table, header=HEADER, end="\n"):
    rows = [",".join(["noon", *map(repr, row)]) for row in np.asarray(table).tolist()]
    return end.join([header, *rows, ""]).encode()


CONTENT = as_csv(TABLE)
TOY = Source(
    key="toy",
    title="Toy",
    stem="toy",
    columns=("when", "a", "b", "goal"),
    target="goal",
    dropped=("when",),
    rows=3,
    values_sha256=values_checksum(TABLE),
    home="http://localhost/toy",
    origin="it is made up",
    licence="none",
)


def zipped(content, member="inner.csv", deflated=False):
    buffer = io.BytesIO()
    method = zipfile.ZIP_DEFLATED if deflated else zipfile.ZIP_STORED
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr(member, content)
    return buffer.getvalue()


def encrypted(archive):
    """A zip file that claims to need a password: bit 0 of the flags, in both headers."""
    return _with_field(archive, 6, 8, 1)


def packed_as(archive, method):
    """A zip file that claims another compression method, in both headers."""
    return _with_field(archive, 8, 10, method)


def _with_field(archive, local, central, value):
    data, directory = bytearray(archive), archive.index(b"PK\1\2")
    data[local] = data[directory + central] = value
    return bytes(data)
