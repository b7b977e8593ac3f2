"""The rest of a run once its bandwidth no longer changes: a filter on the eigenvalues of K.

With K = U diag(λ) Uᵀ the residual is r(t) = U ρ(t, λ) Uᵀr, and every solver's ρ decays like
e^{−t·rate(λ)}: R² and speed at all later times are sums of n exponentials, so that the end of
the run is found without a single step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bandfall.descent.stopping import Status

# Later than any change at a speed that matters.
HORIZON = 1e12


@dataclass(frozen=True)
class Rest:
    """What training at one constant bandwidth adds: coefficients U g(λ) Uᵀr."""

    filters: np.ndarray  # (n,): g(λ); the residual that is left is U (1 − λ g(λ)) Uᵀr
    duration: float
    status: Status


def first_end(*, r2: float, time: float, stalled: float) -> tuple[Status, float]:
    """Which limit comes first, and when; a standstill comes at the latest at `HORIZON`."""
    ends = {
        Status.R2_REACHED: r2,
        Status.TIME_REACHED: time,
        Status.STALLED: min(stalled, HORIZON),
    }
    status = min(ends, key=lambda limit: ends[limit])  # the first one of equals
    return status, ends[status]
