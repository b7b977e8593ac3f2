"""Names for the types of values from users and from other libraries.

Values of type `object` are checked before they are used. `Array`, `Estimator`, `State` and `Times`
stand for `Any`: no type describes these values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Array: TypeAlias = Any  # a NumPy array or a torch tensor
Estimator: TypeAlias = Any  # an estimator or pipeline, of this package or another
FloatT = TypeVar("FloatT", float, np.ndarray)  # a number, or an array of them
ArrayLike: TypeAlias = npt.ArrayLike  # an array of any library, or nested lists
TableLike: TypeAlias = object  # an ArrayLike, a frame or a dict of columns
DTypeLike: TypeAlias = npt.DTypeLike | None  # an argument of `numpy.dtype`
Values: TypeAlias = Sequence[float] | np.ndarray  # numbers in order, such as bandwidths
Times: TypeAlias = Any  # a number for one path, an array (V,) with one for each of V paths
Weights: TypeAlias = np.ndarray | None  # weights of rows, (n,); None if all count the same
RandomLike: TypeAlias = int | np.random.RandomState | None  # a seed
State: TypeAlias = dict[str, Any]  # fields by name; the class made from them checks them
JsonDict: TypeAlias = dict[str, object]  # values of any kind, by name
Unchecked: TypeAlias = object  # a value from a file or a column, before its type is known
