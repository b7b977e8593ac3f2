"""Names for what comes from users and from other libraries, whose types Python cannot check.

They are checked by the code that first sees them.
"""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = [
    "ArrayLike",
    "ArrayModule",
    "Axes",
    "DTypeLike",
    "Estimator",
    "JsonDict",
    "KernelLike",
    "RandomLike",
    "TableLike",
    "Tags",
    "Unchecked",
]

ArrayLike: TypeAlias = Any  # an array of any library, or nested lists
TableLike: TypeAlias = Any  # the same, or a frame or a dict of columns
ArrayModule: TypeAlias = Any  # numpy, torch behind NumPy's names, or what records formulas
DTypeLike: TypeAlias = Any  # what `numpy.dtype` takes
Estimator: TypeAlias = Any  # an estimator or pipeline, of this package or another
Tags: TypeAlias = Any  # of scikit-learn
Axes: TypeAlias = Any  # figures, axes and artists of matplotlib
KernelLike: TypeAlias = Any  # a Kernel, its name, or a profile k(u)
RandomLike: TypeAlias = Any  # an int, a RandomState or None
JsonDict: TypeAlias = dict[str, Any]  # values of any kind, by name
Unchecked: TypeAlias = Any  # a value of a file or a column, before its type is known
