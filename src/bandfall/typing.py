"""Names for what comes from users and from other libraries.

The code that first sees a value checks it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np

__all__ = [
    "Array",
    "ArrayLike",
    "DTypeLike",
    "Estimator",
    "FloatT",
    "Frame",
    "JsonDict",
    "RandomLike",
    "State",
    "TableLike",
    "Tags",
    "Unchecked",
]

Array: TypeAlias = Any  # a NumPy array or a torch tensor: formulas use what both offer
Estimator: TypeAlias = Any  # an estimator or pipeline, of this package or another
FloatT = TypeVar("FloatT", float, np.ndarray)  # a number, or an array of them
ArrayLike: TypeAlias = Any  # an array of any library, or nested lists
TableLike: TypeAlias = Any  # the same, or a frame or a dict of columns
DTypeLike: TypeAlias = Any  # what `numpy.dtype` takes
Tags: TypeAlias = Any  # of scikit-learn
RandomLike: TypeAlias = int | np.random.RandomState | None  # a seed
State: TypeAlias = dict[str, Any]  # fields by name, which the class that they make checks
JsonDict: TypeAlias = dict[str, Any]  # values of any kind, by name
Unchecked: TypeAlias = Any  # a value of a file or a column, before its type is known


@runtime_checkable
class Frame(Protocol):
    """A table with named columns, of pandas, polars or the like, made from a dict of them."""

    columns: Iterable[str]

    def __init__(self, data: Mapping[str, np.ndarray], /) -> None: ...
