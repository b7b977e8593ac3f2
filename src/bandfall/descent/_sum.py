"""The fitted model: f(x) = offset + Σ_s k_{σ_s}(x, X) c_s."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from bandfall._products import HOST, Backend
from bandfall.kernels._geometry import EUCLIDEAN, Geometry
from bandfall.kernels._kernel import Kernel


@dataclass(frozen=True, eq=False)
class KernelSum:
    """A sum of radial functions at the same centres, over one or more bandwidths.

    Every kernel estimator predicts with one. Descent has one bandwidth per stage.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Centres: the training rows.
    kernel : Kernel
    bandwidths : ndarray of shape (S,)
        In [0, ∞].
    coefficients : ndarray of shape (S, n, k)
    offset : ndarray of shape (k,)

    Examples
    --------
    >>> import numpy as np
    >>> from bandfall.kernels import get_kernel
    >>> from bandfall.descent import KernelSum
    >>> bump = KernelSum(
    ...     np.zeros((1, 1)), get_kernel("gaussian"), np.ones(1), np.ones((1, 1, 1)), np.ones(1)
    ... )
    >>> bump.evaluate(np.array([[0.0], [50.0]]))
    array([[2.],
           [1.]])
    """

    X: np.ndarray
    kernel: Kernel
    bandwidths: np.ndarray
    coefficients: np.ndarray
    offset: np.ndarray

    def __post_init__(self) -> None:
        n_stages, n_rows, n_outputs = self.coefficients.shape
        shapes = (len(self.X), self.bandwidths.shape, self.offset.shape)
        if shapes != (n_rows, (n_stages,), (n_outputs,)):
            raise ValueError(
                f"{len(self.X)} centres, bandwidths {self.bandwidths.shape} and offset "
                f"{self.offset.shape} do not fit coefficients {self.coefficients.shape}"
            )

    def __len__(self) -> int:
        return len(self.bandwidths)

    @property
    def n_outputs(self) -> int:
        """Number of targets k."""
        return self.coefficients.shape[2]

    @property
    def nbytes(self) -> int:
        """Bytes of rows and coefficients."""
        return self.X.nbytes + self.coefficients.nbytes

    def evaluate(self, X: np.ndarray, *, backend: Backend = HOST) -> np.ndarray:
        """f at the rows of X, shape (m, k)."""
        return _plus(backend.sums(self, X), self.offset)

    def evaluate_staged(self, X: np.ndarray, *, backend: Backend = HOST) -> np.ndarray:
        """f after each bandwidth, shape (S, m, k)."""
        return _plus(backend.sums(self, X, cumulative=True), self.offset)

    def gradient(self, X: np.ndarray, *, backend: Backend = HOST) -> np.ndarray:
        """∂f/∂x at the rows of X, shape (m, d, k)."""
        return backend.gradient(self, X)

    def part(self, stages: slice) -> KernelSum:
        """The terms of some of the bandwidths, without the offset."""
        return replace(
            self,
            bandwidths=self.bandwidths[stages],
            coefficients=self.coefficients[stages],
            offset=np.zeros_like(self.offset),
        )

    def compress(self, tolerance: float, *, backend: Backend = HOST) -> tuple[KernelSum, float]:
        """The same function with as few of its bandwidths as `tolerance` allows.

        Profiles of neighbouring bandwidths are nearly linearly dependent, so a few of them can
        represent all. `tolerance` is the largest root-mean-square change at centres, relative to
        the root mean square of f − offset. Returns the smaller sum and the change; the sum itself
        and 0 if no bandwidth can be saved.
        """
        if not tolerance > 0:
            raise ValueError(f"tolerance={tolerance!r} must be above 0")
        if len(self) < 3 or not np.any(self.bandwidths > 0):
            return self, 0.0
        rows = check_rows(self.X)
        exact = self.evaluate(rows, backend=backend)
        size = _root_mean_square(exact - self.offset) or 1.0
        spread = distance_range(self.X, self.kernel.geometry)
        merge = merge_stages(self.kernel, self.bandwidths, self.coefficients, spread)
        for n_nodes in range(2, len(self)):
            bandwidths, coefficients = merge(n_nodes)
            if len(bandwidths) == len(self):
                break
            smaller = replace(self, bandwidths=bandwidths, coefficients=coefficients)
            change = _root_mean_square(smaller.evaluate(rows, backend=backend) - exact) / size
            if change <= tolerance:
                return smaller, change
        return self, 0.0


def _plus(sums: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """sums + offset in float64: with a large offset, float32 would lose important digits."""
    wide = sums.astype(np.result_type(sums, offset), copy=False)
    wide += offset
    return wide


def _root_mean_square(values: np.ndarray) -> float:
    peak = float(np.abs(values).max(initial=0.0)) or 1.0  # squares of large targets overflow
    return peak * math.sqrt(float(np.mean((values / peak) ** 2)))


def check_rows(X: np.ndarray) -> np.ndarray:
    """At most 1,000 rows of X, at which the error of merging is measured."""
    return X[:: max(1, math.ceil(len(X) / 1000))]


def distance_range(X: np.ndarray, geometry: Geometry = EUCLIDEAN) -> tuple[float, float]:
    """Smallest positive and largest distance that matter between rows of X."""
    some = check_rows(X).astype(np.float64)
    centred = some - some.mean(axis=0)
    power = geometry.p  # saves a root for each distance
    distances = geometry.block(centred, centred, power)
    largest = float(distances.max()) or 1.0
    smallest = float(distances[distances > 0].min(initial=largest))
    return 0.5 * smallest ** (1.0 / power), 2.0 * largest ** (1.0 / power)


def merge_stages(
    kernel: Kernel, bandwidths: np.ndarray, coefficients: np.ndarray, spread: tuple[float, float]
) -> Callable[[int], tuple[np.ndarray, np.ndarray]]:
    """A function that writes Σ_s k_{σ_s} c_s with J of its bandwidths; bandwidth 0 is kept.

    An interpolative decomposition: a pivoted QR factorisation of the profiles k(d/σ_s), as
    functions of distances d in `spread` and weighted by the size of c_s, picks the bandwidths whose
    combinations k_{σ_s} ≈ Σ_j T_js k_{σ_j} give the others best, hence c_j ← Σ_s T_js c_s.
    """
    positive = np.flatnonzero(bandwidths > 0)
    zero = coefficients[bandwidths == 0].sum(axis=0, keepdims=True)
    unit = float(np.abs(coefficients).max(initial=0.0)) or 1.0  # squares of large ones overflow
    sizes = np.array([float(np.linalg.norm(coefficients[s] / unit)) for s in positive])
    sizes = np.maximum(sizes, 1e-12 * sizes.max(initial=1e-300))
    distances = np.append(np.geomspace(*spread, 400), 0.0)
    profiles = np.stack([kernel(distances / bandwidths[s]) for s in positive], axis=1)
    R, order = linalg.qr(profiles * sizes, mode="r", pivoting=True)

    def merge(n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
        n = min(n_nodes, len(positive))
        kept, rest = order[:n], order[n:]
        T = linalg.solve_triangular(R[:n, :n], R[:n, n:])
        T *= sizes[kept][:, None] / sizes[rest]
        merged = coefficients[positive[kept]] + np.einsum(
            "js,snk->jnk", T.astype(coefficients.dtype), coefficients[positive[rest]]
        )
        chosen = bandwidths[positive[kept]]
        if np.any(zero):
            chosen, merged = np.append(chosen, 0.0), np.concatenate([merged, zero])
        falling = np.argsort(-chosen)
        return chosen[falling], merged[falling]

    return merge
