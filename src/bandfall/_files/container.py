"""Arrays and a JSON document in one file, as safetensors; nothing in a file is executed.

The document is metadata of the file, with a checksum of itself and of every array. Every length is
checked against the size of the file before memory is allocated.
"""

from __future__ import annotations

import hashlib
import json
from typing import BinaryIO

import numpy as np

from bandfall._typing import State, Unchecked

FORMAT_VERSION = 1
MAX_HEADER_BYTES = 1 << 24
_METADATA, _DOCUMENT = "__metadata__", "bandfall"
_MAX_DIMENSIONS = 8
_LENGTH_BYTES = 8  # a file starts with the length of its header

_DTYPES: dict[str, np.dtype] = {"BOOL": np.dtype(np.bool_), "F16": np.dtype("<f2")} | {
    f"{kind.upper()}{8 * size}": np.dtype(f"<{kind}{size}")
    for kind, sizes in {"f": (4, 8), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8)}.items()
    for size in sizes
}

Arrays = dict[str, np.ndarray]
Document = State


class ModelFileError(ValueError):
    """This version cannot read a file as a model, or cannot store a model."""


def pack(document: Document, arrays: Arrays) -> bytes:
    """The bytes of a file with a document and its arrays; equal content gives equal bytes.

    "format_version", "arrays" (checksums) and "sha256" are added to the document's JSON values.
    """
    from safetensors.numpy import save

    arrays = {
        name: np.array(array, array.dtype.newbyteorder("<"), order="C")
        for name, array in arrays.items()
    }
    for name, array in arrays.items():
        if array.dtype not in _DTYPES.values():
            raise ModelFileError(f"array {name!r} of dtype {array.dtype} cannot be stored")
    checksums = {name: _sha256(array.tobytes()) for name, array in arrays.items()}
    document = {**document, "format_version": FORMAT_VERSION, "arrays": checksums}
    document["sha256"] = _sha256(_canonical(document))
    data = save(arrays, {_DOCUMENT: _canonical(document).decode()})
    if (length := int.from_bytes(data[:_LENGTH_BYTES], "little")) > MAX_HEADER_BYTES:
        raise ModelFileError(f"the header would be {length} bytes, over {MAX_HEADER_BYTES}")
    return data


def unpack(stream: BinaryIO, size: int) -> tuple[Document, Arrays]:
    """Read what `pack` wrote; memory stays within a small multiple of the `size` of the stream."""
    import safetensors

    document = read_document(stream, size)
    stream.seek(0)
    try:
        entries = safetensors.deserialize(stream.read(size))
    except safetensors.SafetensorError as error:
        what = "truncated or extended" if "incomplete" in str(error) else "malformed or overlaps"
        raise ModelFileError(f"its table of arrays is {what}: {error}") from None
    checksums, arrays = document.get("arrays"), {}
    if not isinstance(checksums, dict) or set(checksums) != {name for name, _ in entries}:
        raise ModelFileError("the checksums do not belong to the arrays")
    for name, entry in entries:
        dtype: np.dtype | None = _DTYPES.get(entry["dtype"])
        shape = entry["shape"]
        # Even an empty array must not have more rows than the file has bytes.
        if dtype is None or len(shape) > _MAX_DIMENSIONS or max(shape, default=0) > size:
            raise ModelFileError(f"the entry of array {name!r} is malformed")
        if _sha256(entry["data"]) != checksums[name]:
            raise ModelFileError(f"array {name!r} is damaged: its checksum differs")
        array = np.frombuffer(entry["data"], dtype).reshape(shape)
        arrays[name] = array.astype(dtype.newbyteorder("="), copy=True)
    return document, arrays


def read_document(stream: BinaryIO, size: int) -> Document:
    """The checked document, without reading arrays."""
    length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
    if not 0 < length <= MAX_HEADER_BYTES or _LENGTH_BYTES + length > size:
        raise ModelFileError("it does not start like a model file, or is truncated")
    metadata = _parse(stream.read(length)).get(_METADATA)
    text = metadata.get(_DOCUMENT) if isinstance(metadata, dict) else None
    if not isinstance(text, str):
        raise ModelFileError("it holds arrays, but no bandfall model")
    document = _parse(text.encode("utf-8", "surrogatepass"))
    version, claimed = document.get("format_version"), document.pop("sha256", None)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ModelFileError("its format version is missing")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"it was written in format {version} by a newer bandfall; this version reads "
            f"formats up to {FORMAT_VERSION}: upgrade bandfall"
        )
    try:
        intact = _sha256(_canonical(document)) == claimed
    except (ValueError, RecursionError):  # NaN, infinity or deep nesting: not written by `pack`
        intact = False
    if not intact:
        raise ModelFileError("its header is damaged: the checksum differs")
    return document


def _parse(text: bytes) -> State:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise ModelFileError("its header is not valid JSON") from None
    if not isinstance(value, dict):
        raise ModelFileError("its header is not a JSON object")
    return value


def _canonical(value: Unchecked) -> bytes:
    """A unique text for a value, for hashing; NaN and infinity raise ValueError."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _sha256(data: bytes | bytearray) -> str:
    return hashlib.sha256(data).hexdigest()
