"""The rest of a run at constant bandwidth: a filter on the eigenvalues of K.

With K = U diag(λ) Uᵀ the residual is r(t) = U ρ(t, λ) Uᵀr, and every solver's ρ decays like
e^{−t·rate(λ)}. R² and speed at all later times are sums of n exponentials, so the end of
the run is found without a step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bandfall.descent._stopping import Status

# Later than any change at a speed that matters.
HORIZON = 1e12


@dataclass(frozen=True)
class Rest:
    """The contribution of training at a constant bandwidth: coefficients U g(λ) Uᵀr."""

    filters: np.ndarray  # (n,): g(λ); the residual that is left is U (1 − λ g(λ)) Uᵀr
    duration: float
    status: Status


def first_end(*, r2: float, time: float, stalled: float) -> tuple[Status, float]:
    """The limit that comes first, and its time; at the latest a standstill at `HORIZON`."""
    ends = {Status.R2_REACHED: r2, Status.TIME_REACHED: time, Status.STALLED: min(stalled, HORIZON)}
    status = min(ends, key=lambda limit: ends[limit])  # the first one of equals
    return status, ends[status]
