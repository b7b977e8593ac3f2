"""Features that predict held-out rows almost alone: copies of the target, ids, later dates."""

from __future__ import annotations

import numpy as np

from bandfall.tables import Table
from bandfall.tables._table import Column

_LEAST_EXPLAINED = 0.999
_FEWEST_ROWS, _MOST_ROWS = 100, 2000  # to compare, all different


def leaks(
    table: Table, codes: np.ndarray, groups: np.ndarray, *, ordered: bool = False
) -> dict[str, str]:
    """Columns that alone explain 99.9 % of the targets in held-out rows, each with a sentence.

    Numbers predict by interpolation between training rows, categories by the means of their levels.
    Groups are held out, the last of them if they are `ordered` in time. Fewer than 100 different
    rows show no leak. The only column cannot be left out.
    """
    used = [j for j, reading in enumerate(table.readings) if not reading.dropped]
    if len(used) < 2:
        return {}
    random = np.random.RandomState(0)
    some = np.sort(random.permutation(len(codes))[:_MOST_ROWS])
    values = [column.values[some] for column in table.columns]
    some = some[np.unique(np.column_stack([*values, codes[some]]), axis=0, return_index=True)[1]]
    if len(some) < _FEWEST_ROWS:
        return {}
    table, codes, groups = table.take(some), codes[some], groups[some]
    numbers = np.unique(groups)
    order = numbers if ordered else random.permutation(numbers)
    new = np.isin(groups, order[-max(1, len(order) // 3) :])
    explained, columns = {}, table.columns
    total = float(np.sum((codes[new] - codes[new].mean(axis=0)) ** 2))
    for j in used if np.ptp(codes[new], axis=0).any() else []:
        loss = np.sum((codes[new] - _predicted(columns[j], codes, new)) ** 2)
        share = 1.0 - float(loss) / total
        if share >= _LEAST_EXPLAINED:
            name = str(j) if table.names is None else table.names[j]
            explained[name] = (
                f"alone it explains {100 * share:.1f} % of the target in held-out rows"
            )
    return explained


def _predicted(column: Column, codes: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Codes of the new rows, predicted by one column of the others."""
    values, mean = column.values.astype(np.float64), codes[~new].mean(axis=0)
    known = ~np.isnan(values) & ~new
    if not known.any():
        return np.broadcast_to(mean, codes[new].shape)
    places, numbers, counts = np.unique(values[known], return_inverse=True, return_counts=True)
    columns = []
    for k in range(codes.shape[1]):
        means = np.bincount(numbers, codes[known, k]) / counts
        if column.kind == "category":
            found = np.searchsorted(places, values[new]).clip(max=len(places) - 1)
            predicted = np.where(places[found] == values[new], means[found], mean[k])
        else:
            predicted = np.interp(values[new], places, means)
            predicted = np.where(np.isnan(predicted), mean[k], predicted)
        columns.append(predicted)
    return np.stack(columns, axis=1)
