"""Arrays and a JSON document in one file, in the safetensors layout; every length is checked.

    8 bytes      length of the header, unsigned, little endian
    header       JSON: {"__metadata__": {"bandfall": <document>}, name: {dtype, shape, offsets}}
    data         the arrays, little endian, C order, without gaps

Any safetensors reader can open a model file. This module has its own reader, because every length
must be checked against the size of the file before memory is allocated, and because reading a
model file should need no other package. Nothing in a file is ever executed or imported.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import BinaryIO

import numpy as np

from bandfall._typing import ArrayLike, State, Unchecked

FORMAT_VERSION = 1
MAX_HEADER_BYTES = 1 << 22
MAX_DIMENSIONS = 8
_METADATA = "__metadata__"
_DOCUMENT = "bandfall"
_LENGTH_BYTES = 8
_ALIGNMENT = 8

_DTYPES: dict[str, np.dtype] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "BOOL": np.dtype(np.bool_),
}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}

Arrays = dict[str, np.ndarray]
Document = State


class ModelFileError(ValueError):
    """This version cannot read a file as a model, or cannot store a model."""


def pack(document: Document, arrays: Arrays) -> bytes:
    """The bytes of a file with a document and its arrays; equal content gives equal bytes.

    "format_version", "arrays" (checksums) and "sha256" are added to the document's JSON values.

    Examples
    --------
    >>> import io
    >>> data = pack({"model": "m"}, {"a": np.arange(3.0)})
    >>> document, arrays = unpack(io.BytesIO(data), len(data))
    >>> document["model"], arrays["a"]
    ('m', array([0., 1., 2.]))
    """
    entries, parts, end = {}, [], 0
    # Widest items first, so that every array starts at a multiple of its item size.
    for name in sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name)):
        array = np.ascontiguousarray(arrays[name])
        code = _CODES.get(array.dtype.newbyteorder("<"))
        if code is None:
            raise ModelFileError(f"array {name!r} of dtype {array.dtype} cannot be stored")
        raw = array.astype(_DTYPES[code], copy=False).tobytes()
        entries[name] = {
            "dtype": code,
            "shape": list(array.shape),
            "data_offsets": [end, end + len(raw)],
        }
        parts.append(raw)
        end += len(raw)
    checksums = {name: _sha256(raw) for name, raw in zip(entries, parts, strict=True)}
    document = {**document, "format_version": FORMAT_VERSION, "arrays": checksums}
    document["sha256"] = _sha256(_canonical(document))
    header = _canonical({_METADATA: {_DOCUMENT: _canonical(document).decode()}, **entries})
    header += b" " * (-len(header) % _ALIGNMENT)
    if len(header) > MAX_HEADER_BYTES:
        raise ModelFileError(f"the header would be {len(header)} bytes, over {MAX_HEADER_BYTES}")
    return b"".join([len(header).to_bytes(_LENGTH_BYTES, "little"), header, *parts])


def unpack(stream: BinaryIO, size: int) -> tuple[Document, Arrays]:
    """Read what `pack` wrote; memory stays within a small multiple of `size`.

    Every declared length is checked against `size`, the bytes of the stream.
    """
    document, entries, start = _read_header(stream, size)
    data = stream.read(size - start)
    if len(data) != size - start:
        raise ModelFileError("the file is truncated")
    checksums = document.get("arrays")
    if not isinstance(checksums, dict) or set(checksums) != set(entries):
        raise ModelFileError("the checksums do not belong to the arrays")
    arrays = {}
    for name, (dtype, shape, begin, end) in entries.items():
        if _sha256(memoryview(data)[begin:end]) != checksums[name]:
            raise ModelFileError(f"array {name!r} is damaged: its checksum differs")
        array = np.frombuffer(data, dtype, math.prod(shape), begin).reshape(shape)
        arrays[name] = array.astype(dtype.newbyteorder("="), copy=True)
    return document, arrays


def read_document(stream: BinaryIO, size: int) -> Document:
    """The checked document, without reading arrays."""
    return _read_header(stream, size)[0]


ArrayPlace = tuple[np.dtype, tuple[int, ...], int, int]


def _read_header(stream: BinaryIO, size: int) -> tuple[Document, dict[str, ArrayPlace], int]:
    """Document, array entries and start of the data; every length is checked."""
    length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
    start = _LENGTH_BYTES + length
    if size < _LENGTH_BYTES or not 0 < length <= MAX_HEADER_BYTES or start > size:
        raise ModelFileError("it does not start like a model file, or is truncated")
    header = _parse(stream.read(length))
    metadata = header.pop(_METADATA, None)
    text = metadata.get(_DOCUMENT) if isinstance(metadata, dict) else None
    if not isinstance(text, str):
        raise ModelFileError("it holds arrays, but no bandfall model")
    document = _parse(text.encode("utf-8", "surrogatepass"))
    _check_version(document)
    claimed = document.pop("sha256", None)
    if _document_checksum(document) != claimed:
        raise ModelFileError("its header is damaged: the checksum differs")
    entries = {name: _entry(name, value, size) for name, value in header.items()}
    _check_coverage(entries, size - start)
    return document, entries, start


def _parse(text: bytes) -> State:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise ModelFileError("its header is not valid JSON") from None
    if not isinstance(value, dict):
        raise ModelFileError("its header is not a JSON object")
    return value


def _document_checksum(document: Document) -> str | None:
    try:
        return _sha256(_canonical(document))
    except (ValueError, RecursionError):  # NaN, infinity or deep nesting: not written by `pack`
        return None


def _check_version(document: Document) -> None:
    version = document.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ModelFileError("its format version is missing")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"it was written in format {version} by a newer bandfall; this version reads "
            f"formats up to {FORMAT_VERSION}: upgrade bandfall"
        )


def _entry(name: str, value: Unchecked, size: int) -> ArrayPlace:
    """The place of one array; its length must fit its dtype and shape."""
    wrong = ModelFileError(f"the entry of array {name!r} is malformed")
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise wrong
    code, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(code, str) or code not in _DTYPES:
        raise wrong
    if not _are_sizes(shape, size) or len(shape) > MAX_DIMENSIONS:
        raise wrong
    if not _are_sizes(offsets, size) or len(offsets) != 2:
        raise wrong
    begin, end = offsets
    if end - begin != math.prod(shape) * _DTYPES[code].itemsize:
        raise wrong
    return _DTYPES[code], tuple(shape), begin, end


def _are_sizes(values: ArrayLike, size: int) -> bool:
    # No dimension may exceed the size of the file, even if another one is zero.
    return isinstance(values, list) and all(type(v) is int and 0 <= v <= size for v in values)


def _check_coverage(entries: dict[str, ArrayPlace], length: int) -> None:
    """Raise ModelFileError unless the arrays fill the data exactly, without overlaps."""
    end = 0
    for begin, stop in sorted((begin, stop) for _, _, begin, stop in entries.values()):
        if begin != end:
            raise ModelFileError("its arrays overlap or leave gaps")
        end = stop
    if end != length:
        raise ModelFileError(
            f"it should hold {end} bytes of arrays and holds {length}: truncated or extended"
        )


def _canonical(value: Unchecked) -> bytes:
    """A unique text for a value, for hashing; NaN and infinity raise ValueError."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _sha256(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()
