"""Columns of data frames, of any library that narwhals supports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bandfall.tables._objects import categories, column_of_objects
from bandfall.tables._table import Column, check_names, label

if TYPE_CHECKING:
    from narwhals import Series
    from narwhals.typing import IntoFrame


def columns_of_frame(X: IntoFrame) -> tuple[list[str], list[Column]]:
    """Names and columns of a frame."""
    import narwhals.stable.v2 as nw
    from narwhals.exceptions import NarwhalsError

    try:
        frame = nw.from_native(X)
    except (ValueError, NarwhalsError):  # perhaps about names: list them
        check_names([str(name) for name in X.columns])
        raise
    except TypeError as error:
        raise TypeError(
            f"X of type {type(X).__name__} is not a table: pass an array, a list of rows, a dict "
            "of columns or a DataFrame"
        ) from error
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    names = [str(name) for name in frame.columns]
    series = enumerate(frame.iter_columns())
    return names, [_column(one, label(names, j)) for j, one in series]


def _column(series: Series, where: str) -> Column:
    import narwhals.stable.v2 as nw

    dtype = series.dtype
    if dtype.is_numeric():
        return Column("number", _floats(series))
    if dtype == nw.Boolean:
        return Column("boolean", _floats(series))
    if dtype in (nw.Categorical, nw.Enum):
        return categories(series.to_list(), declared=True)
    if dtype == nw.String:
        return categories(series.to_list())
    if dtype == nw.Date:
        series, dtype = series.cast(nw.Datetime("us")), nw.Datetime("us")
    if dtype == nw.Datetime:
        if getattr(dtype, "time_zone", None) is not None:
            series = series.dt.replace_time_zone(None)  # keep local time, for hours and weekdays
        return Column("datetime", _floats(series.dt.timestamp("us")) / 1e6)
    if dtype == nw.Duration:
        return Column("duration", _durations(series))
    return column_of_objects(series.to_list(), where)


def _durations(series: Series) -> np.ndarray:
    """Seconds, from whole microseconds: narwhals converts through floats and truncates."""
    values = np.asarray(series.to_numpy()).astype("timedelta64[us]")
    return np.where(np.isnat(values), np.nan, values.astype(np.int64) / 1e6)


def _floats(series: Series) -> np.ndarray:
    """Float64 with NaN where the library marks a value as missing."""
    import narwhals.stable.v2 as nw

    values = np.asarray(series.to_numpy())
    if values.dtype.kind not in "biuf":  # objects with the library's own missing value
        values = np.asarray(series.cast(nw.Float64).to_numpy())
    return values.astype(np.float64, copy=False)
