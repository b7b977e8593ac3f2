"""Names for what comes from users and from other libraries.

`object` is a value that the code checks before it uses it. `Array`, `Estimator` and `State` are
names for values that no type describes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

Array: TypeAlias = Any  # a NumPy array or a torch tensor: formulas use what both offer
Estimator: TypeAlias = Any  # an estimator or pipeline, of this package or another
FloatT = TypeVar("FloatT", float, np.ndarray)  # a number, or an array of them
ArrayLike: TypeAlias = npt.ArrayLike  # an array of any library, or nested lists
TableLike: TypeAlias = object  # the same, or a frame or a dict of columns
DTypeLike: TypeAlias = npt.DTypeLike | None  # what `numpy.dtype` takes
RandomLike: TypeAlias = int | np.random.RandomState | None  # a seed
State: TypeAlias = dict[str, Any]  # fields by name, which the class that they make checks
JsonDict: TypeAlias = dict[str, object]  # values of any kind, by name
Unchecked: TypeAlias = object  # a value of a file or a column, before its type is known


@runtime_checkable
class Frame(Protocol):
    """A table with named columns, of pandas, polars or the like, made from a dict of them."""

    columns: Iterable[str]

    def __init__(self, data: Mapping[str, np.ndarray], /) -> None: ...
