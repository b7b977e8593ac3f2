"""What all estimators share: parameters, validation of numeric rows, shapes, files.

An estimator is a dataclass of its parameters (`estimator`), each annotated with what it may be, and
decorates `fit` with `validated`. ``_validate_params`` checks what involves two parameters, or the
contents of one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from importlib import import_module
from numbers import Integral, Real
from os import PathLike
from typing import (
    Annotated,
    Any,
    ClassVar,
    NamedTuple,
    TypeAlias,
    TypeVar,
    dataclass_transform,
    get_type_hints,
)

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bandfall._estimators.input import FLOATS, as_numpy, check_magnitudes, used_rows
from bandfall._estimators.view import Story
from bandfall._files import save_model
from bandfall._products import Backend, resolve_backend
from bandfall._targets import Numbers
from bandfall._targets.numbers import prediction_dtype
from bandfall._typing import ArrayLike, RandomLike, TableLike, Unchecked, Weights
from bandfall.descent._sum import KernelSum
from bandfall.kernels._kernel import Kernel, KernelLike, get_kernel

T = TypeVar("T")


class _Number(Interval):
    """An interval of numbers, without True and False."""

    def is_satisfied_by(self, val: Unchecked) -> bool:
        return not isinstance(val, bool) and bool(super().is_satisfied_by(val))


def number(low: float, high: float | None = None, closed: str = "left") -> Interval:
    """Real numbers from `low` to `high`; inf is allowed if `high` is None and closed."""
    return _Number(Real, low, high, closed=closed)


def count(low: int) -> Interval:
    """Integers from `low` on."""
    return _Number(Integral, low, None, closed="left")


Count: TypeAlias = Annotated[int, count(1)]
Flag: TypeAlias = Annotated[bool, "boolean"]
Fraction: TypeAlias = Annotated[float, number(0, 1, closed="neither")]
Positive: TypeAlias = Annotated[float, number(0, closed="neither")]
NotNegative: TypeAlias = Annotated[float, number(0)]
R2: TypeAlias = Annotated[float, number(0, 1, closed="right")]
Jobs: TypeAlias = Annotated[int | None, _Number(Integral, None, None, closed="neither"), None]
Seed: TypeAlias = Annotated[RandomLike, "random_state"]
Device: TypeAlias = Annotated[str | None, str, None]


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def estimator(cls: type[T]) -> type[T]:
    """Make an estimator from its fields: ``name: Annotated[type, allowed, ...] = default``."""
    made: Any = dataclass(kw_only=True, repr=False, eq=False)(cls)
    hints = get_type_hints(made, include_extras=True)
    made._parameter_constraints = {
        one.name: list(hints[one.name].__metadata__) for one in fields(made) if one.init
    }
    return cls


# Errors must not name parameters of internal estimators, which users never set.
validated = _fit_context(prefer_skip_nested_validation=True)


class TrainingData(NamedTuple):
    """Validated rows: X (n, d) and y (n, k), float32 or float64 each; weights (n,) or None.

    y keeps its own dtype, because it must be centred before it is rounded to the dtype of X.
    """

    X: np.ndarray
    y: np.ndarray
    weights: Weights

    def take(self, rows: np.ndarray) -> TrainingData:
        """Some of the rows."""
        weights = None if self.weights is None else self.weights[rows]
        return TrainingData(self.X[rows], self.y[rows], weights)


class Storable(BaseEstimator):
    """An estimator with `save` and `report`."""

    def save(self, file: str | PathLike[str]) -> None:
        """Write the fitted estimator to one file; see `bandfall.save_model`."""
        save_model(self, file)

    def report(
        self,
        file: str | PathLike[str] | None = None,
        X: TableLike = None,
        y: ArrayLike | None = None,
        *,
        X_test: TableLike = None,
        y_test: ArrayLike | None = None,
        target: str = "y",
    ) -> Any:
        """Make one HTML page about the fitted model; see `bandfall.report.report_on`."""
        check_is_fitted(self)
        pages = import_module("bandfall.report")  # a higher layer, which needs pandas
        return pages.report_on(self, file, X, y, X_test=X_test, y_test=y_test, target=target)


class NumbersRegressor(RegressorMixin, BaseEstimator):
    """A regressor for one or several targets; `score` takes any kind of array."""

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """R² of the predictions at X."""
        return float(super().score(X, as_numpy(y), as_numpy(sample_weight)))


class ValidatedRegressor(NumbersRegressor):
    """Base of the regressors on numeric arrays: validates rows, shapes predictions."""

    _floats: ClassVar[object] = FLOATS  # allowed dtypes of X
    _dtype: np.dtype  # of the features
    _target: Numbers  # shape and dtype of predictions

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predictions at rows of X, in the shape of y."""
        outputs = self._outputs(self._new_rows(X))  # raises NotFittedError
        return self._target.shaped(outputs)

    def _outputs(self, rows: np.ndarray) -> np.ndarray:
        """Predictions for validated rows, shape (m, k)."""
        raise NotImplementedError

    def _training_data(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> TrainingData:
        X, y, sample_weight = map(as_numpy, (X, y, sample_weight))
        rows, target = validate_data(
            self, X, y, multi_output=True, y_numeric=True, dtype=self._floats
        )
        dtype = target.dtype if target.dtype in FLOATS else np.float64
        data = TrainingData(rows, target.astype(dtype, copy=False).reshape(len(target), -1), None)
        check_magnitudes(rows, data.y)
        self._dtype, precise = rows.dtype, prediction_dtype(data.y, rows.dtype)
        self._target = Numbers.plain(data.y.shape[1], target.ndim, precise)
        if sample_weight is None:
            return data
        weights = _check_sample_weight(
            sample_weight, rows, dtype=np.float64, ensure_non_negative=True
        )
        used = used_rows(weights)
        same = np.all(weights[used] == 1.0)
        return data._replace(weights=None if same else weights).take(used)

    def _new_rows(self, X: ArrayLike) -> np.ndarray:
        check_is_fitted(self)
        rows: np.ndarray = validate_data(self, as_numpy(X), reset=False, dtype=self._dtype)
        check_magnitudes(rows)
        return rows

    def _check_sizes(self, n_features: int, n_outputs: int) -> None:
        """Raise unless attributes from a file fit these numbers of features and targets."""
        if self._target.n_columns != n_outputs:
            raise ValueError(f"its target has {self._target.n_columns} columns, not {n_outputs}")
        if self.n_features_in_ != n_features or not n_features:
            raise ValueError(f"n_features_in_={self.n_features_in_} does not fit its rows")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


@estimator
class KernelRegressor(ValidatedRegressor, Storable):
    """Base of the estimators that predict with their ``kernel_sum_``."""

    kernel: Annotated[KernelLike, str, callable, Kernel] = field(default="gaussian", kw_only=False)
    memory_budget: Count = 2**30

    def _outputs(self, rows: np.ndarray) -> np.ndarray:
        total: KernelSum = self.kernel_sum_
        return total.evaluate(rows, backend=self._backend(len(total.X)))

    def _backend(self, n_rows: int) -> Backend:
        """Backend for a model of `n_rows` rows."""
        return resolve_backend(getattr(self, "device", None), self.memory_budget, n_rows)

    def _validate_params(self) -> None:
        super()._validate_params()
        get_kernel(self.kernel)

    def _story(self) -> Story:
        """See `story_of`."""
        return Story(kernel_sum=self.kernel_sum_, target=self._target, dtype=self._dtype)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "kernel_sum_")

    def _check_loaded(self) -> None:
        total: KernelSum = self.kernel_sum_
        self._check_sizes(total.X.shape[1], total.n_outputs)
