"""Fused kernel products for CUDA: distance, profile and sum in one pass, nothing n² stored.

Formulas of `bandfall.kernels` are repeated here; tests compare them. Rows are padded to whole
blocks with copies of a real row and weight zero, and stored as ``points[block, feature, row]``.
Sums Σ|z_k|^P come from differences of features in registers (HELD of them) or read one by one; or,
for many features and P = 2, from tensor cores with operands split into two half-precision parts
(DEPTH features, zeros added), where a tile in which that cancels is taken from differences.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import libdevice

LOG2E = tl.constexpr(1.4426950408889634)
# Below this share of ‖x‖² + ‖z‖², a squared distance loses too many digits to cancellation …
NEAR = tl.constexpr(0.0625)
# By which share of ‖x‖² + ‖z‖² a squared distance from tensor cores may be wrong, at most.
BLUR = tl.constexpr(2.0**-16)
# Half-precision parts are 2¹⁴ times the points, which lie in [−1, 1]: −2aᵀb = −2⁻²⁷ dot.
SPLIT_SCALE = 2.0**14


@triton.jit
def _log2(x):
    """log₂ x, −∞ at 0: for float32 one instruction, 22 bits, where Triton's own takes twenty."""
    if COMPILED and x.dtype == tl.float32:
        return libdevice.fast_log2f(x)
    else:
        return tl.log2(x)


COMPILED = tl.constexpr(isinstance(_log2, triton.JITFunction))  # not in Triton's interpreter


@triton.jit
def _scaled(total, scale, POWER: tl.constexpr):
    """The argument of a profile, (total · scale)^POWER.

    For other powers than 1 and ½, `scale` is POWER times the binary logarithm of the factor. It
    is finite, so that a total of 0, the logarithm of which is −∞, gives 0 at any bandwidth.
    """
    if POWER == 1.0:
        return total * scale
    elif POWER == 0.5:
        return tl.sqrt(total * scale)
    else:
        return tl.exp2(_log2(total) * POWER + scale)


@triton.jit
def _profile(q, PROFILE: tl.constexpr):
    """k(u) from q = fold · u^power; see `fused.TritonForm`."""
    if PROFILE == "exponential":
        return tl.exp2(-q)
    elif PROFILE == "matern32":
        a = tl.sqrt(tl.minimum(q, 1e30))  # (1 + ∞)·0 is not a number
        return (1.0 + a) * tl.exp2(a * -LOG2E)
    elif PROFILE == "matern52":
        q = tl.minimum(q, 1e30)
        a = tl.sqrt(q)
        return (1.0 + a + q * (1.0 / 3.0)) * tl.exp2(a * -LOG2E)
    else:
        tl.static_assert(PROFILE == "rational")
        return 1.0 / (1.0 + q)


@triton.jit
def _slope(total, scale, PROFILE: tl.constexpr, POWER: tl.constexpr):
    """k′(u) u^(1−P) from total = Σ|z_k|^P > 0, up to the factor `Form.slope_factor`."""
    if PROFILE == "matern32":
        return -3.0 * tl.exp2(tl.sqrt(total * scale) * -LOG2E)
    elif PROFILE == "matern52":
        a = tl.sqrt(tl.minimum(total * scale, 1e30))
        return (1.0 + a) * tl.exp2(a * -LOG2E) * (-5.0 / 3.0)
    elif PROFILE == "exponential" and POWER == 0.5:
        a = tl.sqrt(tl.maximum(total * scale, 1e-36))
        return -tl.exp2(-a) * LOG2E / a
    else:
        q = _scaled(total, scale, POWER)
        if POWER != 1.0:
            q = tl.minimum(q, 1e30)  # ∞·0 is not a number
        k = _profile(q, PROFILE)
        slope = -k if PROFILE == "exponential" else -2.0 * k * k
        if POWER != 1.0:
            slope = slope * q / tl.maximum(total, 1e-36)
        return slope


@triton.jit
def _to_p(gap, P: tl.constexpr):
    """|gap|^P."""
    if P == 2.0:
        return gap * gap
    elif P == 1.0:
        return tl.abs(gap)
    elif P == 1.5:
        size = tl.abs(gap)
        return size * tl.sqrt(size)
    else:
        return tl.exp2(_log2(tl.abs(gap)) * P)


@triton.jit
def _plus_to_p(total, gap, P: tl.constexpr):
    """total + |gap|^P."""
    if P == 2.0:
        return tl.fma(gap, gap, total)
    else:
        return total + _to_p(gap, P)


@triton.jit
def _pull(gap, P: tl.constexpr):
    """sgn(gap) |gap|^(P−1)."""
    if P == 2.0:
        return gap
    else:
        if P == 1.0:
            size = tl.where(gap == 0.0, 0.0, 1.0).to(gap.dtype)
        elif P == 1.5:
            size = tl.sqrt(tl.abs(gap))
        else:
            size = tl.exp2(_log2(tl.abs(gap)) * (P - 1.0))
        return tl.where(gap < 0.0, -size, size)


@triton.jit
def _load_each(address, stride, COUNT: tl.constexpr):
    """A tuple of COUNT tensors that lie `stride` apart, to be kept in registers."""
    tensors = ()
    for k in tl.static_range(COUNT):
        tensors += (tl.load(address + k * stride),)
    return tensors


@triton.jit
def _address(points, start, D, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """Address of the first feature of rows start … start + SIZE, which share a block."""
    block_size = D.to(tl.int64) * BLOCK
    return points + start // BLOCK * block_size + start % BLOCK + tl.arange(0, SIZE)


@triton.jit
def _held_differences(held, others, P: tl.constexpr, HELD: tl.constexpr):
    """Σ_k |a_ik − b_jk|^P of features in registers."""
    total = _to_p(held[0][:, None] - others[0][None, :], P)
    for k in tl.static_range(1, HELD):
        total = _plus_to_p(total, held[k][:, None] - others[k][None, :], P)
    return total


@triton.jit
def _differences(a, b, D, P: tl.constexpr, BLOCK: tl.constexpr):
    """Σ_k |a_ik − b_jk|^P for any number of features."""
    total = tl.zeros([a.shape[0], b.shape[0]], a.dtype.element_ty)
    for _ in range(D):
        total = _plus_to_p(total, tl.load(a)[:, None] - tl.load(b)[None, :], P)
        a += BLOCK
        b += BLOCK
    return total


@triton.jit
def _totals(
    held, others, a, a_high, a_low, a_norms, a_start, b, b_high, b_low, b_norms, b_start,
    harmless, vanished, D,
    P: tl.constexpr, HELD: tl.constexpr, DEPTH: tl.constexpr, CHUNK: tl.constexpr,
    BLOCK: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Σ_k |a_ik − b_jk|^P: differences if DEPTH is 0, else ‖a‖² + ‖b‖² − 2aᵀb on tensor cores.

    With a = high + low to 22 bits the product of the two low parts is below rounding.
    """
    rows = _address(a, a_start, D, ROWS, BLOCK)
    columns = _address(b, b_start, D, COLUMNS, BLOCK)
    if HELD > 0:
        total = _held_differences(held, others, P, HELD)
    elif DEPTH == 0:
        total = _differences(rows, columns, D, P, BLOCK)
    else:
        tl.static_assert(P == 2.0)
        i, j, chunk = tl.arange(0, ROWS), tl.arange(0, COLUMNS), tl.arange(0, CHUNK)
        depth = tl.full((), DEPTH, tl.int64)
        a_index = a_start * depth + i[:, None] * DEPTH + chunk[None, :]
        b_index = b_start * depth + j[None, :] * DEPTH + chunk[:, None]
        dot = tl.zeros([ROWS, COLUMNS], tl.float32)
        for k in range(0, DEPTH, CHUNK):
            high = tl.load(a_high + a_index + k)
            other_high = tl.load(b_high + b_index + k)
            dot = tl.dot(high, tl.load(b_low + b_index + k), dot)
            dot = tl.dot(tl.load(a_low + a_index + k), other_high, dot)
            dot = tl.dot(high, other_high, dot)
        norms = tl.load(a_norms + a_start + i)[:, None] + tl.load(b_norms + b_start + j)[None, :]
        total = tl.maximum(norms - dot * 2.0**-27, 0.0)
        near = tl.minimum((norms - harmless) * NEAR, vanished + norms * BLUR)
        if tl.min(total - near) < 0.0:
            total = _differences(rows, columns, D, P, BLOCK)
    return total


@triton.jit
def _share(n_blocks, tiles_per_program, n_strips, STEPS: tl.constexpr):
    """The span of tiles this program owns, and how many tiles one strip of rows has.

    An odd number of blocks lies on a circle. A strip of rows meets the blocks from its own to
    half way round: every pair of different blocks meets once, and all strips are equally long.
    """
    length = (n_blocks // 2 + 1).to(tl.int64) * STEPS
    first = tl.program_id(0) * tiles_per_program.to(tl.int64)
    last = tl.minimum(first + tiles_per_program, n_strips * length)
    return first, last, length


@triton.jit
def _strip_span(first, last, length, strip):
    """The steps round the circle that this program takes for one strip."""
    begin = tl.maximum(first - strip * length, 0).to(tl.int32)
    end = tl.minimum(last - strip * length, length).to(tl.int32)
    return begin, end


@triton.jit
def _first_column(
    strip, step, n_rows, BLOCK: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    column = strip // (BLOCK // ROWS) * BLOCK + step * COLUMNS
    return tl.where(column >= n_rows, column - n_rows, column)


@triton.jit(do_not_specialize=["n_blocks", "tiles_per_program", "leap", "D"])
def symmetric_product(
    points, high, low, norms, values, scratch, scale, harmless, vanished,
    n_blocks, stride, tiles_per_program, leap, D,
    PROFILE: tl.constexpr, POWER: tl.constexpr, P: tl.constexpr,
    HELD: tl.constexpr, DEPTH: tl.constexpr, CHUNK: tl.constexpr,
    BLOCK: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, OUTPUTS: tl.constexpr,
):  # fmt: skip
    """Each program's share of K @ values, every pair of rows evaluated once.

    A tile of K serves its rows, and transposed its columns. Each program adds to a plane of
    `scratch` (programs, OUTPUTS, stride) of its own; their sum, in fixed order, is the
    product: the same bits in every run. A strip takes every `leap`-th step round the circle, so
    that costly tiles, which lie together, are shared by all programs.
    """
    scale = tl.load(scale)  # an array: a number would be passed as float32
    scratch += tl.program_id(0).to(tl.int64) * OUTPUTS * stride
    n_strips = n_blocks * (BLOCK // ROWS)
    first, last, length = _share(n_blocks, tiles_per_program, n_strips, BLOCK // COLUMNS)
    for strip in range((first // length).to(tl.int32), tl.cdiv(last, length).to(tl.int32)):
        start = strip * ROWS
        rows = start + tl.arange(0, ROWS)
        held = _load_each(_address(points, start, D, ROWS, BLOCK), BLOCK, HELD)
        row_values = _load_each(values + rows, stride, OUTPUTS)
        sums = ()
        for _ in tl.static_range(OUTPUTS):
            sums += (tl.zeros([ROWS, COLUMNS], scratch.dtype.element_ty),)
        begin, end = _strip_span(first, last, length, strip)
        step = (begin * leap % length).to(tl.int32)
        column = _first_column(strip, step, n_blocks * BLOCK, BLOCK, ROWS, COLUMNS)
        others = _load_each(_address(points, column, D, COLUMNS, BLOCK), BLOCK, HELD)
        for _ in range(begin, end):
            # Start loads early: the sums now, then the next features.
            columns = column + tl.arange(0, COLUMNS)
            column_values = _load_each(values + columns, stride, OUTPUTS)
            column_sums = _load_each(scratch + columns, stride, OUTPUTS)
            next_step = step + leap
            next_step = tl.where(next_step >= length, next_step - length, next_step).to(tl.int32)
            ahead = _first_column(strip, next_step, n_blocks * BLOCK, BLOCK, ROWS, COLUMNS)
            others_ahead = _load_each(_address(points, ahead, D, COLUMNS, BLOCK), BLOCK, HELD)
            totals = _totals(
                held, others, points, high, low, norms, start, points, high, low, norms, column,
                harmless, vanished, D, P, HELD, DEPTH, CHUNK, BLOCK, ROWS, COLUMNS,
            )  # fmt: skip
            K = _profile(_scaled(totals, scale, POWER), PROFILE)
            updated = ()
            for k in tl.static_range(OUTPUTS):
                updated += (tl.fma(K, column_values[k][None, :], sums[k]),)
                mirrored = tl.sum(K * row_values[k][:, None], 0)
                mirrored = tl.where(step < BLOCK // COLUMNS, 0.0, mirrored)  # the own block
                tl.store(scratch + k * stride + columns, column_sums[k] + mirrored)
            sums = updated
            step, column, others = next_step, ahead, others_ahead
        tl.debug_barrier()
        for k in tl.static_range(OUTPUTS):
            address = scratch + k * stride + rows
            tl.store(address, tl.load(address) + tl.sum(sums[k], 1))
        tl.debug_barrier()  # other threads may meet these rows as columns


@triton.jit(do_not_specialize=["n_blocks", "blocks_per_program", "D"])
def cross_product(
    new_points, new_high, new_low, new_norms, new_stride,
    points, high, low, norms, stride,
    values, scales, partial, harmless, vanished, n_stages, n_blocks, blocks_per_program, D,
    PROFILE: tl.constexpr, POWER: tl.constexpr, P: tl.constexpr,
    HELD: tl.constexpr, DEPTH: tl.constexpr, CHUNK: tl.constexpr,
    BLOCK: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, OUTPUTS: tl.constexpr,
):  # fmt: skip
    """partial[part, output, new row] = Σ_stages K_new(scale) @ values[stage, output].

    One distance serves every stage; `partial` (parts, OUTPUTS, new_stride) is summed
    over the parts into which the columns are split.
    """
    start = tl.program_id(0) * ROWS
    part = tl.program_id(1)
    held = _load_each(_address(new_points, start, D, ROWS, BLOCK), BLOCK, HELD)
    sums = ()
    for _ in tl.static_range(OUTPUTS):
        sums += (tl.zeros([ROWS, COLUMNS], scales.dtype.element_ty),)
    end = tl.minimum((part + 1) * blocks_per_program, n_blocks) * (BLOCK // COLUMNS)
    for block in range(part * blocks_per_program * (BLOCK // COLUMNS), end):
        others = _load_each(_address(points, block * COLUMNS, D, COLUMNS, BLOCK), BLOCK, HELD)
        totals = _totals(
            held, others, new_points, new_high, new_low, new_norms, start,
            points, high, low, norms, block * COLUMNS, harmless, vanished, D,
            P, HELD, DEPTH, CHUNK, BLOCK, ROWS, COLUMNS,
        )  # fmt: skip
        address = values + block * COLUMNS + tl.arange(0, COLUMNS)
        for stage in range(n_stages):
            K = _profile(_scaled(totals, tl.load(scales + stage), POWER), PROFILE)
            updated = ()
            for k in tl.static_range(OUTPUTS):
                updated += (tl.fma(K, tl.load(address)[None, :], sums[k]),)
                address += stride
            sums = updated
    partial += part.to(tl.int64) * OUTPUTS * new_stride + start + tl.arange(0, ROWS)
    for k in tl.static_range(OUTPUTS):
        tl.store(partial + k * new_stride, tl.sum(sums[k], 1))


@triton.jit(do_not_specialize=["n_blocks", "blocks_per_program", "D"])
def cross_gradient(
    new_points, new_stride, points, stride, values, scales, partial,
    n_stages, n_blocks, blocks_per_program, D,
    PROFILE: tl.constexpr, POWER: tl.constexpr, P: tl.constexpr,
    BLOCK: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """partial[part, feature, new row] += Σ_j W_j sgn(z) |z|^(P−1), z = x − x_j.

    W = Σ_stages k′(u) u^(1−P) values[stage], u = ‖z‖ / bandwidth.

    From differences: nothing cancels, and a row's own term is zero.
    """
    start = tl.program_id(0) * ROWS
    part = tl.program_id(1)
    rows = _address(new_points, start, D, ROWS, BLOCK)
    partial += part.to(tl.int64) * D * new_stride + start + tl.arange(0, ROWS)
    end = tl.minimum((part + 1) * blocks_per_program, n_blocks) * (BLOCK // COLUMNS)
    for block in range(part * blocks_per_program * (BLOCK // COLUMNS), end):
        columns = _address(points, block * COLUMNS, D, COLUMNS, BLOCK)
        totals = _differences(rows, columns, D, P, BLOCK)
        W = tl.zeros([ROWS, COLUMNS], scales.dtype.element_ty)
        address = values + block * COLUMNS + tl.arange(0, COLUMNS)
        for stage in range(n_stages):
            slope = _slope(totals, tl.load(scales + stage), PROFILE, POWER)
            W = tl.fma(slope, tl.load(address)[None, :], W)
            address += stride
        W = tl.where(totals > 0.0, W, 0.0)
        a, b, sums = rows, columns, partial
        for _ in range(D):
            gap = tl.load(a)[:, None] - tl.load(b)[None, :]
            tl.store(sums, tl.load(sums) + tl.sum(W * _pull(gap, P), 1))
            a += BLOCK
            b += BLOCK
            sums += new_stride
        tl.debug_barrier()


@triton.jit(do_not_specialize=["n_blocks", "tiles_per_program", "D"])
def largest_distance(
    points, largest, n_blocks, tiles_per_program, D,
    P: tl.constexpr, HELD: tl.constexpr,
    BLOCK: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """largest[program] = max ‖x_i − x_j‖^P over the program's share of tiles."""
    n_strips = n_blocks * (BLOCK // ROWS)
    first, last, length = _share(n_blocks, tiles_per_program, n_strips, BLOCK // COLUMNS)
    seen = tl.zeros([ROWS, COLUMNS], largest.dtype.element_ty)
    for strip in range((first // length).to(tl.int32), tl.cdiv(last, length).to(tl.int32)):
        rows = _address(points, strip * ROWS, D, ROWS, BLOCK)
        held = _load_each(rows, BLOCK, HELD)
        begin, end = _strip_span(first, last, length, strip)
        for step in range(begin, end):
            column = _first_column(strip, step, n_blocks * BLOCK, BLOCK, ROWS, COLUMNS)
            columns = _address(points, column, D, COLUMNS, BLOCK)
            if HELD > 0:
                totals = _held_differences(held, _load_each(columns, BLOCK, HELD), P, HELD)
            else:
                totals = _differences(rows, columns, D, P, BLOCK)
            seen = tl.maximum(seen, totals)
    tl.store(largest + tl.program_id(0), tl.max(seen))
