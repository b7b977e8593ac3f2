"""Digests of the code and the arguments on which a result depends."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import joblib

from bandfall._paper.experiment import Task

_PACKAGE = Path(__file__).resolve().parents[1]
# Modules that only draw and print: a new colour must not cost hours of computing.
_PRESENTATION = frozenset(f"bandfall._paper.{name}" for name in ("captions", "drawing", "layout"))


def code_digest(function: Callable[..., object]) -> str:
    """A digest of all code of the package that a function may use.

    It covers the source of the function's module and of every module of the package that it
    imports, directly or indirectly, at the top or inside a function. Libraries are not covered.

    Examples
    --------
    >>> from bandfall._paper.descriptions import describe_kernel
    >>> from bandfall._paper.methods import score_split
    >>> code_digest(score_split) == code_digest(describe_kernel)
    False
    """
    while isinstance(function, partial):
        function = function.func
    module = sys.modules[function.__module__]
    if module.__file__ is None:
        raise ValueError(f"{function.__module__} has no source file to take a fingerprint of")
    return source_digest(Path(module.__file__), _PACKAGE, leave_out=_PRESENTATION)


def source_digest(file: Path, package: Path, leave_out: frozenset[str] = frozenset()) -> str:
    """A digest of a source file and of everything that it imports from the package.

    Modules in `leave_out`, and modules that only they import, are ignored.
    """
    sources = {"": file.read_bytes()}
    waiting = [""]
    while waiting:
        for name in _imported(sources[waiting.pop()]):
            path = _file_of(name, package)
            if path is not None and name not in sources and name not in leave_out:
                sources[name] = path.read_bytes()
                waiting.append(name)
    digest = hashlib.sha256()
    for name, source in sorted(sources.items()):
        digest.update(f"{name}\0{len(source)}\0".encode() + source)
    return digest.hexdigest()[:40]


def task_digest(code: str, task: Task) -> str:
    """A digest of the code and the arguments of a task; arrays are compared bit by bit."""
    digest: str = joblib.hash((code, dict(task.arguments)), hash_name="sha1")
    return digest


def _file_of(name: str, package: Path) -> Path | None:
    """The file of a module of the package; None for other modules."""
    first, *rest = name.split(".")
    if first != package.name:
        return None
    place = package.joinpath(*rest)
    candidates = (place / "__init__.py", place.with_name(f"{place.name}.py"))
    return next((path for path in candidates if path.is_file()), None)


@cache
def _imported(source: bytes) -> tuple[str, ...]:
    """Names in all import statements that may be modules."""
    names: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return tuple(dict.fromkeys(names))
