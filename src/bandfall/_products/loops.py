"""The inner loops: distances, profiles and gradients by blocks, and products of vectors.

`Loops` with NumPy is for any kernel and dtype, `CompiledLoops` with numba for the built-in kernels
in float32, if there is enough work to justify compilation. Double precision always uses NumPy, so
small fits and the paper's figures are the same to the bit.
"""

from __future__ import annotations

import math
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bandfall._threads import CACHE_ENTRIES, scratch
from bandfall._typing import Array, DTypeLike, Values
from bandfall.kernels._kernel import Kernel, kernel_matrices, kernel_matrix, vanishing_bandwidth
from bandfall.kernels._profiles import DISTANCE, FORMULAS, PowerSlope

if TYPE_CHECKING:
    import torch


# Use compiled loops from this many kernel entries on. Where NumPy has no matrix product for
# distances, features count.
_WORTH_COMPILING = 400 * 400


class Loops:
    """Distances of rows to the n rows X, and what is evaluated from them, with NumPy.

    Distances are computed in float64; they and K(σ) have the given dtype.
    """

    block_entries = CACHE_ENTRIES  # for `evaluate` at a time, which passes over them several times

    def __init__(self, kernel: Kernel, X: np.ndarray, dtype: DTypeLike):
        self._kernel, self.dtype = kernel, np.dtype(dtype)
        self._mean = np.asarray(X, dtype=np.float64).mean(axis=0)
        rows = self.placed(X)
        # The rows X in the form of `distances`; equal rows stay equal. Norms other than the
        # Euclidean one read them column by column.
        self.own = rows if kernel.geometry.rotates else np.asfortranarray(rows)
        self._squares = kernel.geometry.squares(self.own)

    def placed(self, X_new: np.ndarray) -> np.ndarray:
        """Other rows in the form of `distances`."""
        return np.asarray(X_new, dtype=np.float64) - self._mean

    def distances(self, rows: np.ndarray, columns: slice, out: np.ndarray) -> np.ndarray:
        """distance**power of rows to some of X, into out (m, len of columns), contiguous."""
        squares = None if self._squares is None else self._squares[columns]
        kernel = self._kernel
        out[...] = kernel.geometry.block(rows, self.own[columns], kernel.power, squares=squares)
        return out

    def evaluate(self, distances: np.ndarray, bandwidth: float, out: np.ndarray) -> np.ndarray:
        """K(bandwidth) from contiguous distances."""
        work = scratch("work", distances.shape, self.dtype)
        return kernel_matrix(self._kernel, distances, bandwidth, out=out, work=work)

    def weights(self, coefficients: np.ndarray) -> np.ndarray:
        """Coefficients (S, n, k) in the form of `add_sums`."""
        return coefficients.astype(self.dtype, copy=False)

    def add_sums(
        self,
        rows: np.ndarray,
        columns: slice,
        bandwidths: Values,
        weights: np.ndarray,
        out: np.ndarray,
        n_entries: int,
    ) -> None:
        """Add the sums over some of X to out (S, m, k) or, for all stages together, (1, m, k).

        `n_entries` bounds the kernel entries in memory at a time.
        """
        shape = (len(rows), columns.stop - columns.start)
        distances = self.distances(rows, columns, scratch("distances", shape, self.dtype))
        if len(weights) * distances.size <= n_entries:
            several = len(weights), *shape
            K, work = scratch("kernel", several, self.dtype), scratch("work", several, self.dtype)
            kernel_matrices(self._kernel, distances, np.asarray(bandwidths), K, work)
            terms = K @ weights[:, columns]
            out += terms if len(out) > 1 else terms.sum(axis=0)
            return
        K, last = scratch("kernel", shape, self.dtype), math.nan
        for s, bandwidth in enumerate(bandwidths):
            if bandwidth != last:
                self.evaluate(distances, bandwidth, K)
                last = bandwidth
            out[s if len(out) > 1 else 0] += K @ weights[s, columns]

    def gradient(
        self, rows: np.ndarray, columns: slice, bandwidths: Values, coefficients: np.ndarray
    ) -> np.ndarray:
        """Contribution of some of X to the gradient of Σ_s k_{σ_s}(x, X) c_s at rows, (m, d, k)."""
        X = self.own[columns]
        distances = self.distances(rows, columns, np.empty((len(rows), len(X)), self.dtype))
        some = coefficients[:, columns]
        return gradient_block(rows, X, distances, self._kernel, bandwidths, some)


class Form(NamedTuple):
    """The parameters of a kernel for numba's loops."""

    kind: int
    factor: float  # the profile is a function of factor · q
    p: float  # of the norm
    power: float  # to which distances are raised
    # The slope k′(u) u^(1−p) is −constant · q^(−order) times a function of factor · q.
    constant: float
    order: float

    def scale(self, bandwidth: float) -> np.float32 | None:
        """The factor of distances**power at a bandwidth; None if it counts as 0."""
        if bandwidth <= vanishing_bandwidth(np.finfo(np.float32)):
            return None
        return np.float32(0.0 if math.isinf(bandwidth) else self.factor * bandwidth**-self.power)


def form_of(kernel: Kernel) -> Form | None:
    """The form of a built-in kernel; None for a user's own."""
    if not kernel.built_in:
        return None
    formula = FORMULAS[kernel.profile]
    p, power = kernel.geometry.p, float(kernel.power)
    factor = math.sqrt(formula.fold) if formula.squared else formula.fold
    constant, order = formula.constant, 0.0
    if isinstance(kernel.slope, PowerSlope):
        constant, order = kernel.slope.exponent, p / kernel.slope.exponent - 1.0
    return Form(formula.kind, factor, p, power, constant, order)


class CompiledLoops(Loops):
    """Loops with numba, over rows X in float32; distances come from differences, without loss."""

    # Entries are read and written once, in less time than a small task takes to reach a thread.
    block_entries = 1 << 20
    dtype = np.dtype(np.float32)

    def __init__(self, kernel: Kernel, X: np.ndarray):
        self._code = compiled_code()
        form = form_of(kernel)
        assert form is not None
        self._kernel, self._form = kernel, form
        self._width = X.shape[1]
        self.own = self.placed(X)
        self._columns = np.ascontiguousarray(self.own.T)

    def placed(self, X_new: np.ndarray) -> np.ndarray:
        return even_features(X_new)

    def distances(self, rows: np.ndarray, columns: slice, out: np.ndarray) -> np.ndarray:
        self._code.fill(rows, *self._some(columns), np.float32(1.0), DISTANCE, out)
        return out

    def evaluate(self, distances: np.ndarray, bandwidth: float, out: np.ndarray) -> np.ndarray:
        scale = self._form.scale(bandwidth)
        if scale is None:
            return kernel_matrix(self._kernel, distances, bandwidth, out=out)
        self._code.evaluate(distances.reshape(-1), scale, self._form.kind, out.reshape(-1))
        return out

    def weights(self, coefficients: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(coefficients.transpose(0, 2, 1), dtype=np.float32)

    def add_sums(
        self,
        rows: np.ndarray,
        columns: slice,
        bandwidths: Values,
        weights: np.ndarray,
        out: np.ndarray,
        n_entries: int,
    ) -> None:
        scales = [self._form.scale(float(bandwidth)) for bandwidth in bandwidths]
        # A negative scale stands for bandwidth 0.
        factors = np.array([-1.0 if scale is None else scale for scale in scales], np.float32)
        self._code.sums(rows, *self._some(columns), factors, self._form.kind, weights, out)

    def gradient(
        self, rows: np.ndarray, columns: slice, bandwidths: Values, coefficients: np.ndarray
    ) -> np.ndarray:
        form = self._form
        used = usable_bandwidths(bandwidths, np.finfo(np.float32))
        sigmas = np.asarray(bandwidths, dtype=float)[used]
        scales = (form.factor * sigmas**-form.power).astype(np.float32)
        # q^(−order) = D^(−order) σ^(power · order).
        constants = -form.constant * sigmas ** (form.power * form.order - form.p)
        weights = self.weights(coefficients[used] * constants[:, None, None])
        out = np.zeros((len(rows), self._width, coefficients.shape[2]), np.float32)
        slope = scales, form.kind, form.order, weights
        self._code.gradient(rows, *self._some(columns), *slope, out)
        return out

    def _some(self, columns: slice) -> tuple[np.ndarray, int, int, float, float]:
        """Arguments of a compiled loop for some of the rows X."""
        return self._columns, columns.start, columns.stop, self._form.p, self._form.power


def loops_over(X: np.ndarray, kernel: Kernel, dtype: np.dtype, n_entries: float) -> Loops:
    """Choose loops over rows X (n, d) for `n_entries` kernel entries in all."""
    if compiled_form(kernel, X, dtype, n_entries) is None:
        return Loops(kernel, X, dtype)
    return CompiledLoops(kernel, X)


def loops_for_sums(X: np.ndarray, kernel: Kernel, dtype: DTypeLike) -> Loops:
    """Choose loops for sums at new rows by the rows X alone.

    Sums of large coefficients magnify the rounding of K, so one row and many have the same K.
    NumPy's loops compute in float64, because the order in which BLAS adds depends on the number
    of new rows.
    """
    if compiled_form(kernel, X, dtype, len(X) ** 2) is None:
        return Loops(kernel, X, np.float64)
    return CompiledLoops(kernel, X)


def compiled_form(kernel: Kernel, X: np.ndarray, dtype: DTypeLike, n_entries: float) -> Form | None:
    """The compiled form of a kernel; None if NumPy is used."""
    exact = X.dtype == np.float32 and np.dtype(dtype) == np.float32
    work = n_entries * (1 if kernel.geometry.rotates else max(1, X.shape[1]))
    if not exact or work < _WORTH_COMPILING:
        return None
    if kernel.geometry.rotates and X.shape[1] > 200:  # a matrix product is faster
        return None
    form = form_of(kernel)
    return form if form is not None and can_compile() else None


def fill_tile(
    kernel: Kernel,
    form: Form,
    rows: np.ndarray,
    columns: np.ndarray,
    bandwidth: float,
    out: np.ndarray,
) -> np.ndarray:
    """K(bandwidth) between rows (m, d) and columns (d, n) in one pass, into `out`; d is even."""
    scale = form.scale(bandwidth)
    kind, factor = (DISTANCE, np.float32(1.0)) if scale is None else (form.kind, scale)
    compiled_code().fill(rows, columns, 0, columns.shape[1], form.p, form.power, factor, kind, out)
    return out if scale is not None else kernel_matrix(kernel, out, bandwidth, out=out)


def symmetric_product(
    entries: np.ndarray, height: int, share: int, n_shares: int, block: np.ndarray
) -> np.ndarray:
    """Contribution of every `n_shares`-th strip of K to K @ block, shape (n, k), float32.

    `entries` are consecutive strips of `height` rows of K, each from its diagonal to the right.
    """
    vectors = np.ascontiguousarray(block.T)
    total = np.zeros_like(vectors)
    pairs_code().symmetric_product(entries, len(block), height, share, n_shares, vectors, total)
    return total.T


def orthogonalised(basis: Array, n_vectors: int, image: Array) -> tuple[Array, Array, Array]:
    """Orthogonalise vectors (k, n) against the first `n_vectors` of a basis (k, m, n), twice.

    Returns the vectors, their overlaps (k,) with the last basis vector, and squared norms (k,).
    """
    n_outputs, n_rows = image.shape
    if compiled_vectors(basis, n_rows):
        vectors = np.array(image, order="C")
        overlaps, squares = np.empty(n_outputs), np.empty(n_outputs)
        pairs_code().orthogonalise(basis, n_vectors, vectors, overlaps, squares)
        return vectors, overlaps, squares
    Q = basis[:, :n_vectors]
    first = Q @ image[:, :, None]  # (k, m, 1)
    vectors = image - (first.swapaxes(1, 2) @ Q)[:, 0, :]
    again = Q @ vectors[:, :, None]
    vectors = vectors - (again.swapaxes(1, 2) @ Q)[:, 0, :]
    return vectors, first[:, -1, 0], (vectors * vectors).sum(1)


def compiled_vectors(array: Array, n_rows: int) -> bool:
    """Whether to use compiled loops for vectors of this kind and length."""
    return (
        isinstance(array, np.ndarray)
        and array.dtype == np.float32
        and n_rows**2 >= _WORTH_COMPILING
        and can_compile()
    )


def even_features(X: np.ndarray) -> np.ndarray:
    """Contiguous rows with a feature of zeros if the number of features is odd."""
    rows = np.zeros((len(X), X.shape[1] + X.shape[1] % 2), X.dtype)
    rows[:, : X.shape[1]] = X
    return rows


@lru_cache(maxsize=1)
def can_compile() -> bool:
    """Whether numba can be imported and compiles loops here."""
    try:
        from numba import config

        from bandfall._products import loops_numba  # noqa: F401
    except ImportError:
        return False
    return not getattr(config, "DISABLE_JIT", False)


def compiled_code() -> ModuleType:
    """The compiled loops; for callers that checked `can_compile`."""
    from bandfall._products import loops_numba

    return loops_numba


def pairs_code() -> ModuleType:
    """The compiled loops over pairs of rows; for callers that checked `can_compile`."""
    from bandfall._products import pairs_numba

    return pairs_numba


def gradient_block(
    new: Array,
    train: Array,
    distances: Array,
    kernel: Kernel,
    bandwidths: Values,
    coefficients: Array,
    xp: ModuleType = np,
) -> Array:
    """The contribution of one block to `cross_gradient`, shape (m, d, k), with NumPy or torch."""
    if kernel.slope is None:
        raise ValueError(f"kernel {kernel.name!r} was given without a derivative")
    limits = xp.finfo(distances.dtype)
    largest = float(limits.max) / 4.0  # finite, and slopes vanish long before
    used = usable_bandwidths(bandwidths, limits)
    weights = [xp.zeros_like(distances) for _ in range(coefficients.shape[2])]
    q, work = xp.empty_like(distances), xp.empty_like(distances)
    for s in used:  # slopes once for all outputs
        bandwidth = float(bandwidths[s])
        with np.errstate(over="ignore"):
            scaled = xp.multiply(distances, bandwidth**-kernel.power, out=q)
            slopes = kernel.slope(xp.clip(scaled, 0.0, largest, out=q), xp)
            for output, W in enumerate(weights):
                W += xp.multiply(
                    slopes, coefficients[s, :, output] / bandwidth**kernel.geometry.p, out=work
                )
    elsewhere = distances > 0
    parts = []
    for W in weights:
        W *= elsewhere  # a row's own term is zero; as a difference of large numbers it is noise
        parts.append(kernel.geometry.pull(W, new, train, xp))
    return xp.stack(parts, -1)


def usable_bandwidths(bandwidths: Values, limits: np.finfo | torch.finfo) -> np.ndarray:
    """Which stages have a gradient: not those of bandwidth ∞ or (practically) 0."""
    values = np.asarray(bandwidths, dtype=float)
    return np.flatnonzero((values > vanishing_bandwidth(limits)) & np.isfinite(values))
