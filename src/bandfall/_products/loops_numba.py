"""Compiled loops over rows, with numba: distances, profiles, sums and gradients.

Inner loops run over contiguous columns and contain only arithmetic, which the compiler vectorises.
Rows are passed as rows, (m, d), and as columns, (d, n); d is even (a feature of zeros changes no
distance). No loop is parallel: callers distribute blocks of rows over their own threads.
"""

from __future__ import annotations

import math
import warnings
from contextlib import suppress

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core.caching import FunctionCache
from numba.extending import intrinsic

from bandfall.kernels._profiles import EXPONENTIAL, MATERN32, MATERN52, RATIONAL

float32, int32, int64 = np.float32, np.int32, np.int64

# Products may be fused with sums; nothing else is rearranged. Divisions are not checked.
_OPTIONS = {"nogil": True, "fastmath": {"contract"}, "error_model": "numpy"}
_CHUNK = 1024  # columns: a row of distances and its features stay in the first-level cache


class _Cache(FunctionCache):
    """Compiled code on disk. A damaged file or a full disk costs time, and a warning."""

    def load_overload(self, sig, target_context):
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:
            self._warn(error)
            with suppress(Exception):
                self.flush()  # begin a new index
            return None

    def save_overload(self, sig, data):
        try:
            super().save_overload(sig, data)
        except Exception as error:
            self._warn(error)

    def _warn(self, error):
        warnings.warn(
            f"numba's cache in {self.cache_path} cannot be used, so code is compiled again, which "
            f"takes some seconds ({type(error).__name__}: {error}). NUMBA_CACHE_DIR sets another",
            RuntimeWarning,
            stacklevel=2,
        )


def compiled(function):
    """Compile on first call; the result is cached on disk if a directory is writable."""
    dispatcher = njit(**_OPTIONS)(function)
    with suppress(RuntimeError):  # neither beside the package nor in the user's cache
        dispatcher._cache = _Cache(function)
    return dispatcher


def _inlined(function):
    return njit(forceinline=True, **_OPTIONS)(function)


def inner(function):
    return njit(**_OPTIONS)(function)


@intrinsic
def _bits(context, x):
    """The bits of a float32 as int32."""
    return types.int32(types.float32), lambda _, builder, __, values: builder.bitcast(
        values[0], ir.IntType(32)
    )


@intrinsic
def _from_bits(context, i):
    """The float32 of some bits."""
    return types.float32(types.int32), lambda _, builder, __, values: builder.bitcast(
        values[0], ir.FloatType()
    )


def _on_int32(operation):
    """An operation of two int32: numba's own widen."""

    @intrinsic
    def operate(context, i, j):
        return types.int32(types.int32, types.int32), lambda _, builder, __, values: getattr(
            builder, operation
        )(*values)

    return operate


_minus, _left, _right = map(_on_int32, ("sub", "shl", "ashr"))  # i − j, i · 2ʲ, ⌊i / 2ʲ⌋

_LOG2E = float32(1.4426950408889634)
_LN2 = float32(0.6931471805599453)
_LN2_HIGH = float32(0.693359375)  # nine bits: its multiples by small integers are exact
_LN2_LOW = float32(0.6931471805599453 - 0.693359375)
_ROUND = float32(12582912.0)  # 1.5 · 2²³: adding it leaves the nearest integer in the last bits
_MINUS_ONE = int32(-0x3F800000)  # minus the bits of 1
_LOWEST = float32(-87.33)  # below, exp would not be a normal number
_TINY = 1.2e-38
_HALVED = int32(1.5 * (127 - 0.0450466) * 2**23)  # minus half the bits of t: about t^(−1/2)
_THIRD = int32(4.0 / 3.0 * (127 - 0.0450466) * 2**23)  # minus a third of them: t^(−1/3)


@_inlined
def _exp_near_zero(r):
    """e^r for |r| ≤ ln 2 / 2: the polynomial of least relative error, 3e-9, with 1 + r in front."""
    y = float32(0.00138145406)
    y = y * r + float32(0.00836874545)
    y = y * r + float32(0.041668389)
    y = y * r + float32(0.166665211)
    y = y * r + float32(0.49999994)
    return y * (r * r) + r + float32(1.0)


@_inlined
def exp_of(x):
    """e^x for x ≤ 0, relative error below 2e-7; 0 where it would be subnormal.

    x = n ln 2 + r with |r| ≤ ln 2 / 2, so that e^x = 2ⁿ e^r.
    """
    shifted = x * _LOG2E + _ROUND
    n = shifted - _ROUND
    r = x - n * _LN2_HIGH
    r = r - n * _LN2_LOW
    power = _from_bits(_minus(_left(_bits(shifted), int32(23)), _MINUS_ONE))
    return _exp_near_zero(r) * power if x > _LOWEST else float32(0.0)


@_inlined
def power_of(t, high, low):
    """t^(high + low) for t > 0, relative error below 3e-7, and 0 for t = 0.

    With t = m 2ⁿ, m in [√½, √2): log₂ t = n + 2/ln 2 · artanh((m − 1)/(m + 1)). `high` has few
    enough bits for high · n to be exact; `low` is the rest of the exponent.
    """
    n = _right(_minus(_bits(t), int32(0x3F3504F3)), int32(23))
    m = _from_bits(_minus(_bits(t), _left(n, int32(23))))
    s = (m - float32(1.0)) / (m + float32(1.0))
    q = s * s
    y = float32(1.0 / 9.0)
    y = y * q + float32(1.0 / 7.0)
    y = y * q + float32(1.0 / 5.0)
    y = y * q + float32(1.0 / 3.0)
    logarithm = (y * q * s + s) * (float32(2.0) * _LOG2E)
    whole = high * float32(n)
    rest = low * float32(n) + (high + low) * logarithm
    shifted = whole + rest + _ROUND
    k = shifted - _ROUND
    value = _exp_near_zero(((whole - k) + rest) * _LN2)
    value = value * _from_bits(_minus(_left(_bits(shifted), int32(23)), _MINUS_ONE))
    return value if (t > float32(0.0)) & (k > float32(-126.5)) else float32(0.0)


@_inlined
def _split(exponent):
    """An exponent as the two parts that `power_of` takes."""
    high = round(exponent * 1024.0) / 1024.0
    return float32(high), float32(exponent - high)


@_inlined
def _other_root(t):
    """√t by arithmetic, which runs in parallel with the processor's square-root unit."""
    y = _from_bits(_minus(_HALVED, _right(_bits(t), int32(1))))  # t^(−1/2) within 3.5 %
    e = t * y * y
    y = y * (float32(1.875) + e * (float32(-1.25) + float32(0.375) * e))  # within 1e-4
    near = t * y
    return near + (float32(0.5) * near) * (float32(1.0) - near * y)


@_inlined
def _two_thirds(t):
    """t^(2/3) = t y with y = t^(−1/3), a root of y^−3 − t, by Newton's method."""
    y = _from_bits(_minus(_THIRD, int32(float32(_bits(t)) * float32(1.0 / 3.0))))
    third = t * float32(1.0 / 3.0)
    y = y * (float32(4.0 / 3.0) - (third * y) * (y * y))
    y = y * (float32(4.0 / 3.0) - (third * y) * (y * y))
    y = y * (float32(4.0 / 3.0) - (third * y) * (y * y))
    return t * y


@inner
def _add_features(row, a, b, c, d, p):
    """Add |a − c_j|^p + |b − d_j|^p to a row: two features of one row and of all columns."""
    if p == 2.0:
        for j in range(row.size):
            s, t = a - c[j], b - d[j]
            row[j] += s * s + t * t
    elif p == 1.0:
        for j in range(row.size):
            row[j] += abs(a - c[j]) + abs(b - d[j])
    elif p == 1.5:
        for j in range(row.size):
            s, t = abs(a - c[j]), abs(b - d[j])
            row[j] += s * math.sqrt(s) + t * _other_root(t)
    elif p == 1.25:
        for j in range(row.size):
            s, t = abs(a - c[j]), abs(b - d[j])
            row[j] += s * math.sqrt(math.sqrt(s)) + t * _other_root(_other_root(t))
    else:
        high, low = _split(p)
        for j in range(row.size):
            s, t = abs(a - c[j]), abs(b - d[j])
            row[j] += power_of(s, high, low) + power_of(t, high, low)


@inner
def _measure(A, i, columns, first, last, p, power, row):
    """‖a_i − b_j‖_p**power of some columns, into a row."""
    row[:] = 0
    for k in range(0, A.shape[1], 2):
        c, d = columns[k, first:last], columns[k + 1, first:last]
        _add_features(row, A[i, k], A[i, k + 1], c, d, p)
    if power == 0.5 * p:
        for j in range(row.size):
            row[j] = math.sqrt(row[j])
    elif power == 1.0 and p == 1.5:
        for j in range(row.size):
            row[j] = _two_thirds(row[j])
    elif power != p:
        high, low = _split(power / p)
        for j in range(row.size):
            row[j] = power_of(row[j], high, low)


@inner
def _profile(D, scale, kind, out):
    if kind == EXPONENTIAL:
        for j in range(D.size):
            out[j] = exp_of(-(D[j] * scale))
    elif kind == MATERN32:
        for j in range(D.size):
            v = min(D[j] * scale, float32(100.0))
            out[j] = (v + float32(1.0)) * exp_of(-v)
    elif kind == MATERN52:
        for j in range(D.size):
            v = min(D[j] * scale, float32(100.0))
            h = v + float32(1.5)
            out[j] = (h * h + float32(0.75)) * float32(1.0 / 3.0) * exp_of(-v)
    elif kind == RATIONAL:
        for j in range(D.size):
            out[j] = float32(1.0) / (float32(1.0) + D[j] * scale)
    else:
        for j in range(D.size):
            out[j] = D[j]


@compiled
def evaluate(D, scale, kind, out):
    """A profile of scale · D into out, both flat."""
    for first in range(0, D.size, _CHUNK):
        _profile(D[first : first + _CHUNK], scale, kind, out[first : first + _CHUNK])


@compiled
def fill(A, columns, start, stop, p, power, scale, kind, out):
    """A profile of scaled distances**power, or these themselves, into out (m, stop − start)."""
    D = np.empty(_CHUNK, np.float32)
    for first in range(start, stop, _CHUNK):
        last = min(first + _CHUNK, stop)
        row = D[: last - first]
        for i in range(A.shape[0]):
            _measure(A, i, columns, first, last, p, power, row)
            _profile(row, scale, kind, out[i, first - start : last - start])


def summing(function):
    """Allow the compiler to reorder sums."""
    return njit(nogil=True, fastmath={"contract", "reassoc", "nsz"})(function)


@summing
def dot(x, y):
    total = float32(0.0)
    for j in range(x.size):
        total += x[j] * y[j]
    return total


@inner
def add_multiple(total, factor, x):
    for j in range(x.size):
        total[j] += factor * x[j]


@compiled
def product(A, columns, p, power, scale, kind, right, left, total, other):
    """Add K @ rightᵀ to total (m, k) and, unless `other` is empty, left K to other (k, n).

    K is evaluated a part of a row at a time, and never stored. right has shape (k, n), left
    (m, k); totals are float64, and sums over one call's rows or columns float32.
    """
    n_outputs = right.shape[0]
    D = np.empty(_CHUNK, np.float32)
    K = np.empty(_CHUNK, np.float32)
    below = np.zeros((n_outputs, _CHUNK), np.float32)
    both = other.size > 0
    for first in range(0, columns.shape[1], _CHUNK):
        last = min(first + _CHUNK, columns.shape[1])
        n = last - first
        for i in range(A.shape[0]):
            _measure(A, i, columns, first, last, p, power, D[:n])
            _profile(D[:n], scale, kind, K[:n])
            for o in range(n_outputs):
                total[i, o] += dot(K[:n], right[o, first:last])
                if both:
                    add_multiple(below[o, :n], left[i, o], K[:n])
        if both:
            for o in range(n_outputs):
                for j in range(n):
                    other[o, first + j] += below[o, j]
                    below[o, j] = 0


@compiled
def sums(A, columns, start, stop, p, power, scales, kind, weights, out):
    """Add Σ_j K_ij weights[s, :, j] over the columns start … stop − 1 to out[s], or all to out[0].

    K is a profile of scales[s] · distance**power, or [distance = 0] for a negative scale. Weights
    have shape (S, k, n); out (S, m, k) or (1, m, k) is float64, sums over a chunk float32.
    """
    D = np.empty(_CHUNK, np.float32)
    K = np.empty(_CHUNK, np.float32)
    for first in range(start, stop, _CHUNK):
        last = min(first + _CHUNK, stop)
        n = last - first
        for i in range(A.shape[0]):
            _measure(A, i, columns, first, last, p, power, D[:n])
            for s in range(scales.size):
                if scales[s] >= float32(0.0):
                    _profile(D[:n], scales[s], kind, K[:n])
                else:
                    for j in range(n):
                        K[j] = float32(1.0) if D[j] == float32(0.0) else float32(0.0)
                place = min(s, out.shape[0] - 1)
                for o in range(weights.shape[1]):
                    out[place, i, o] += dot(K[:n], weights[s, o, first:last])


@inner
def _slope(D, scale, kind, out):
    """−d/dD of a profile of scale · D, but for constants: see `gradient`."""
    if kind == MATERN52:
        for j in range(D.size):
            v = min(D[j] * scale, float32(100.0))
            out[j] = (float32(1.0) + v) * exp_of(-v)
    elif kind == RATIONAL:
        for j in range(D.size):
            v = float32(1.0) / (float32(1.0) + D[j] * scale)
            out[j] = v * v
    else:
        for j in range(D.size):
            out[j] = exp_of(-(D[j] * scale))


@inner
def _add_product(W, slopes, coefficients):
    for j in range(W.size):
        W[j] += slopes[j] * coefficients[j]


@inner
def _divide(W, D, order):
    """W / D**order, or 0 if D is 0; finite for any positive D."""
    if order == 0.0:
        for j in range(W.size):
            W[j] = W[j] if D[j] > float32(0.0) else float32(0.0)
        return
    least = float32(_TINY ** (0.5 / max(order, 0.5)))
    if order == 1.0:
        for j in range(W.size):
            W[j] = W[j] / max(D[j], least) if D[j] > float32(0.0) else float32(0.0)
    elif order == 0.5:
        for j in range(W.size):
            W[j] = W[j] / math.sqrt(max(D[j], least)) if D[j] > float32(0.0) else float32(0.0)
    else:
        high, low = _split(order)
        for j in range(W.size):
            power = power_of(max(D[j], least), high, low)
            W[j] = W[j] / power if D[j] > float32(0.0) else float32(0.0)


@inner
def _signed_powers(a, b, p, out):
    """sgn(z_j) |z_j|^(p−1), z_j = a − b_j."""
    if p == 2.0:
        for j in range(b.size):
            out[j] = a - b[j]
    elif p == 1.0:
        for j in range(b.size):
            z = a - b[j]
            out[j] = float32(1.0) if z > 0 else (float32(-1.0) if z < 0 else float32(0.0))
    elif p == 1.5:
        for j in range(b.size):
            z = a - b[j]
            root = math.sqrt(abs(z))
            out[j] = root if z > 0 else -root
    elif p == 1.25:
        for j in range(b.size):
            z = a - b[j]
            root = math.sqrt(math.sqrt(abs(z)))
            out[j] = root if z > 0 else -root
    else:
        high, low = _split(p - 1.0)
        for j in range(b.size):
            z = a - b[j]
            power = power_of(abs(z), high, low)
            out[j] = power if z > 0 else -power


@compiled
def gradient(A, columns, start, stop, p, power, scales, kind, order, coefficients, out):
    """Add Σ_j W_ij sgn(z) |z|^(p−1) over the columns start … stop − 1 to out (m, d, k).

    W_ij = D_ij^(−order) Σ_s coefficients[s, :, j] · slope(scales[s] D_ij), D = distance**power;
    coefficients have shape (S, k, n) and include the constants of the slope.
    """
    n_outputs = coefficients.shape[1]
    D = np.empty(_CHUNK, np.float32)
    work = np.empty(_CHUNK, np.float32)
    W = np.empty((n_outputs, _CHUNK), np.float32)
    for first in range(start, stop, _CHUNK):
        last = min(first + _CHUNK, stop)
        n = last - first
        for i in range(A.shape[0]):
            _measure(A, i, columns, first, last, p, power, D[:n])
            W[:] = 0
            for s in range(scales.size):
                _slope(D[:n], scales[s], kind, work[:n])
                for o in range(n_outputs):
                    _add_product(W[o, :n], work[:n], coefficients[s, o, first:last])
            for o in range(n_outputs):
                _divide(W[o, :n], D[:n], order)
            for k in range(out.shape[1]):
                _signed_powers(A[i, k], columns[k, first:last], p, work[:n])
                for o in range(n_outputs):
                    out[i, k, o] += dot(W[o, :n], work[:n])
