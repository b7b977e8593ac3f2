"""Fused kernel products for CUDA: distance, profile and sum in one pass, nothing n² stored.

Triton cannot call array functions, so the five profiles of `bandfall.kernels` stand here once
more, in `_profile`; the tests compare them.

Rows are padded to whole blocks with copies of a real row and weight zero: no masks. Points are
stored block by block, ``points[block, feature, row in block]``. Squared distances come from differences, exact to rounding
at any bandwidth (DEPTH 0), or for many features from tensor cores with operands split into
two half-precision parts (DEPTH features, zeros added); a tile in which that cancels is taken
from differences.
"""

from __future__ import annotations

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
# Below this share of ‖x‖² + ‖z‖², a squared distance loses too many digits to cancellation.
NEAR = tl.constexpr(0.0625)
# Half-precision parts are 2¹⁴ times the points, which lie in [−1, 1]: −2aᵀb = −2⁻²⁷ dot.
SPLIT_SCALE = 2.0**14

# `_profile` takes q = fold · u², so that exponentials need no further factor.
FOLDS = {
    "gaussian": 0.5 * LOG2E.value,
    "matern12": LOG2E.value**2,
    "matern32": 3.0,
    "matern52": 5.0,
    "cauchy": 1.0,
}


@triton.jit
def _profile(q, KERNEL: tl.constexpr):
    """k(u) from q = fold · u²."""
    if KERNEL == "gaussian":
        return tl.exp2(-q)
    elif KERNEL == "matern12":
        return tl.exp2(-tl.sqrt(q))
    elif KERNEL == "matern32":
        a = tl.sqrt(tl.minimum(q, 1e30))  # (1 + ∞)·0 is not a number
        return (1.0 + a) * tl.exp2(a * -LOG2E)
    elif KERNEL == "matern52":
        q = tl.minimum(q, 1e30)
        a = tl.sqrt(q)
        return (1.0 + a + q * (1.0 / 3.0)) * tl.exp2(a * -LOG2E)
    else:
        tl.static_assert(KERNEL == "cauchy")
        return 1.0 / (1.0 + q)


@triton.jit
def _load_each(address, stride, COUNT: tl.constexpr):
    """A tuple of COUNT tensors that lie `stride` apart, to be kept in registers."""
    tensors = ()
    for k in tl.static_range(COUNT):
        tensors = tensors + (tl.load(address + k * stride),)
    return tensors


@triton.jit
def _address(points, start, D, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """Where the first feature of rows start … start + SIZE lies; they share a block."""
    block_size = D.to(tl.int64) * BLOCK
    return points + start // BLOCK * block_size + start % BLOCK + tl.arange(0, SIZE)


@triton.jit
def _differences(held, a, b, D, HELD: tl.constexpr, BLOCK: tl.constexpr):
    """‖a_i − b_j‖² as a sum of squared differences; `held` has a's features if HELD > 0."""
    if HELD > 0:
        gap = held[0][:, None] - tl.load(b)[None, :]
        squared = gap * gap
        for k in tl.static_range(1, HELD):
            gap = held[k][:, None] - tl.load(b + k * BLOCK)[None, :]
            squared = tl.fma(gap, gap, squared)
    else:
        squared = tl.zeros([a.shape[0], b.shape[0]], a.dtype.element_ty)
        for _ in range(D):
            gap = tl.load(a)[:, None] - tl.load(b)[None, :]
            squared = tl.fma(gap, gap, squared)
            a += BLOCK
            b += BLOCK
    return squared


@triton.jit
def _squared_distances(
    held, a, a_high, a_low, a_norms, a_start, b, b_high, b_low, b_norms, b_start, D,
    HELD: tl.constexpr, DEPTH: tl.constexpr, CHUNK: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """‖a_i − b_j‖²: differences if DEPTH is 0, else ‖a‖² + ‖b‖² − 2aᵀb on tensor cores.

    With a = high + low to 22 bits the product of the two low parts is below rounding.
    """
    rows = _address(a, a_start, D, ROWS, COLUMNS)
    columns = _address(b, b_start, D, COLUMNS, COLUMNS)
    if DEPTH == 0:
        squared = _differences(held, rows, columns, D, HELD, COLUMNS)
    else:
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
        squared = tl.maximum(norms - dot * 2.0**-27, 0.0)
        if tl.min(squared - norms * NEAR) < 0.0:
            squared = _differences((), rows, columns, D, 0, COLUMNS)
    return squared


@triton.jit
def _share(n_blocks, tiles_per_program, PER_BLOCK: tl.constexpr):
    """The span of tiles this program owns, and how many tiles one strip of rows has.

    An odd number of blocks lies on a circle. A strip of rows meets the blocks from its own to
    half way round: every pair of different blocks meets once, and all strips are equally long.
    """
    reach = (n_blocks // 2 + 1).to(tl.int64)
    first = tl.program_id(0) * tiles_per_program.to(tl.int64)
    last = tl.minimum(first + tiles_per_program, n_blocks * PER_BLOCK * reach)
    return first, last, reach


@triton.jit
def _strip_span(first, last, reach, strip):
    """The offsets on the circle that this program visits for one strip."""
    begin = tl.maximum(first - strip * reach, 0).to(tl.int32)
    end = tl.minimum(last - strip * reach, reach).to(tl.int32)
    return begin, end


@triton.jit
def _first_column(strip, offset, n_blocks, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    block = strip // (COLUMNS // ROWS) + offset
    return tl.where(block >= n_blocks, block - n_blocks, block) * COLUMNS


@triton.jit(do_not_specialize=["n_blocks", "tiles_per_program", "D"])
def symmetric_product(
    points, high, low, norms, values, scratch, scale,
    n_blocks, stride, tiles_per_program, D,
    KERNEL: tl.constexpr, HELD: tl.constexpr, DEPTH: tl.constexpr, CHUNK: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, OUTPUTS: tl.constexpr,
):  # fmt: skip
    """Each program's share of K @ values, every pair of rows evaluated once.

    A tile of K serves its rows, and transposed its columns. Each program adds to a plane of
    `scratch` (programs, OUTPUTS, stride) of its own; their sum, in fixed order, is the
    product: the same bits in every run.
    """
    scale = tl.load(scale)
    scratch += tl.program_id(0).to(tl.int64) * OUTPUTS * stride
    first, last, reach = _share(n_blocks, tiles_per_program, COLUMNS // ROWS)
    for strip in range((first // reach).to(tl.int32), tl.cdiv(last, reach).to(tl.int32)):
        start = strip * ROWS
        rows = start + tl.arange(0, ROWS)
        held = _load_each(_address(points, start, D, ROWS, COLUMNS), COLUMNS, HELD)
        row_values = _load_each(values + rows, stride, OUTPUTS)
        sums = ()
        for _ in tl.static_range(OUTPUTS):
            sums = sums + (tl.zeros([ROWS, COLUMNS], scratch.dtype.element_ty),)
        begin, end = _strip_span(first, last, reach, strip)
        for offset in range(begin, end):
            column = _first_column(strip, offset, n_blocks, ROWS, COLUMNS)
            columns = column + tl.arange(0, COLUMNS)
            squared = _squared_distances(
                held, points, high, low, norms, start, points, high, low, norms, column, D,
                HELD, DEPTH, CHUNK, ROWS, COLUMNS,
            )  # fmt: skip
            K = _profile(squared * scale, KERNEL)
            updated = ()
            for k in tl.static_range(OUTPUTS):
                address = scratch + k * stride + columns
                column_values = tl.load(values + k * stride + columns)
                updated = updated + (tl.fma(K, column_values[None, :], sums[k]),)
                mirrored = tl.sum(K * row_values[k][:, None], 0)
                # The own block mirrors itself.
                tl.store(address, tl.load(address) + mirrored, mask=offset > 0)
            sums = updated
        tl.debug_barrier()
        for k in tl.static_range(OUTPUTS):
            address = scratch + k * stride + rows
            tl.store(address, tl.load(address) + tl.sum(sums[k], 1))
        tl.debug_barrier()  # other threads may meet these rows as columns


@triton.jit(do_not_specialize=["n_blocks", "blocks_per_program", "D"])
def cross_product(
    new_points, new_high, new_low, new_norms, new_stride,
    points, high, low, norms, stride,
    values, scales, partial, n_stages, n_blocks, blocks_per_program, D,
    KERNEL: tl.constexpr, HELD: tl.constexpr, DEPTH: tl.constexpr, CHUNK: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, OUTPUTS: tl.constexpr,
):  # fmt: skip
    """partial[part, output, new row] = Σ_stages K_new(scale) @ values[stage, output].

    One squared distance serves every stage; `partial` (parts, OUTPUTS, new_stride) is summed
    over the parts into which the columns are split.
    """
    start = tl.program_id(0) * ROWS
    part = tl.program_id(1)
    held = _load_each(_address(new_points, start, D, ROWS, COLUMNS), COLUMNS, HELD)
    sums = ()
    for _ in tl.static_range(OUTPUTS):
        sums = sums + (tl.zeros([ROWS, COLUMNS], scales.dtype.element_ty),)
    end = tl.minimum((part + 1) * blocks_per_program, n_blocks)
    for block in range(part * blocks_per_program, end):
        squared = _squared_distances(
            held, new_points, new_high, new_low, new_norms, start,
            points, high, low, norms, block * COLUMNS, D, HELD, DEPTH, CHUNK, ROWS, COLUMNS,
        )  # fmt: skip
        address = values + block * COLUMNS + tl.arange(0, COLUMNS)
        for stage in range(n_stages):
            K = _profile(squared * tl.load(scales + stage), KERNEL)
            updated = ()
            for k in tl.static_range(OUTPUTS):
                updated = updated + (tl.fma(K, tl.load(address)[None, :], sums[k]),)
                address += stride
            sums = updated
    partial += part.to(tl.int64) * OUTPUTS * new_stride + start + tl.arange(0, ROWS)
    for k in tl.static_range(OUTPUTS):
        tl.store(partial + k * new_stride, tl.sum(sums[k], 1))


@triton.jit(do_not_specialize=["n_blocks", "tiles_per_program", "D"])
def largest_distance(
    points, largest, n_blocks, tiles_per_program, D,
    HELD: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """largest[program] = max ‖x_i − x_j‖² over the program's share of tiles."""
    first, last, reach = _share(n_blocks, tiles_per_program, COLUMNS // ROWS)
    seen = tl.zeros([ROWS, COLUMNS], largest.dtype.element_ty)
    for strip in range((first // reach).to(tl.int32), tl.cdiv(last, reach).to(tl.int32)):
        rows = _address(points, strip * ROWS, D, ROWS, COLUMNS)
        held = _load_each(rows, COLUMNS, HELD)
        begin, end = _strip_span(first, last, reach, strip)
        for offset in range(begin, end):
            column = _first_column(strip, offset, n_blocks, ROWS, COLUMNS)
            columns = _address(points, column, D, COLUMNS, COLUMNS)
            squared = _differences(held, rows, columns, D, HELD, COLUMNS)
            seen = tl.maximum(seen, squared)
    tl.store(largest + tl.program_id(0), tl.max(seen))
