"""Fused products on a GPU: kernels in numbers, rows in memory, launches of Triton's kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType

import torch
from torch import Tensor

from bandfall._products.base import GIBIBYTE
from bandfall._typing import Values
from bandfall.kernels._kernel import Kernel, vanishing_bandwidth
from bandfall.kernels._profiles import EXPONENTIAL, FORMULAS, MATERN32, MATERN52, RATIONAL

_BLOCK = 128  # rows; a program's tile is a part of a block in each direction
_DIRECT_FEATURES = 12  # up to here differences in registers serve, beyond tensor cores
_OUTPUTS = (4, 2, 1)  # right-hand sides per pass
_SPLIT_ERROR = 2.0**-21
_LONGEST_SUM = 256  # blocks of rows that one program adds up at new rows: more would round more
_LOG2E = math.log2(math.e)
_PROFILES = {
    EXPONENTIAL: "exponential",
    MATERN32: "matern32",
    MATERN52: "matern52",
    RATIONAL: "rational",
}


@dataclass(frozen=True)
class TritonForm:
    """A built-in kernel as the Triton kernels evaluate it.

    k is a profile of q = fold · u^exponent. In units of the points, q = (total · factor)^power
    with total = Σ_k |z_k|^p and power = exponent / p.
    """

    profile: str  # "exponential": 2^−q, "rational": 1/(1 + q), "matern32" and "matern52" of √q
    p: float
    exponent: float
    fold: float
    # Beyond this q the profile is below 1e-12, and the rounding of q without effect.
    vanished: float

    @property
    def power(self) -> float:
        """The exponent of a scaled total."""
        return self.exponent / self.p

    @property
    def by_logarithms(self) -> bool:
        """Whether neither a product nor a square root gives q; see `triton_kernels._scaled`."""
        return self.power not in (1.0, 0.5)

    @property
    def constants(self) -> dict[str, str | float]:
        """Constants of a Triton kernel."""
        return {"PROFILE": self.profile, "POWER": self.power, "P": self.p}

    def scale(self, bandwidth: float, unit: float, dtype: torch.dtype) -> float:
        """The factor of `triton_kernels._scaled` at a bandwidth, for points in units.

        At bandwidth 0 it is so large that only coinciding rows count.
        """
        limit = float(torch.finfo(dtype).max) ** 0.8
        if bandwidth <= unit * vanishing_bandwidth(torch.finfo(dtype)):
            return limit
        if not self.by_logarithms:
            return min(self.fold ** (1.0 / self.power) * (unit / bandwidth) ** self.p, limit)
        if math.isinf(bandwidth):
            return -limit
        return math.log2(self.fold) + self.exponent * math.log2(unit / bandwidth)

    def limits(self, scales: list[float]) -> tuple[float, float]:
        """The squared distances, in units, between which cancellation would show at any scale.

        Below the first, ‖x‖² + ‖z‖² itself is so small that its rounding hardly moves k.
        """
        largest = torch.finfo(torch.float32).max
        if self.by_logarithms:
            exponent = (math.log2(self.vanished) - min(scales)) / self.power
            return 0.0, 2.0**exponent if exponent < 127.0 else largest
        harmless = 4.0 if self.power == 1.0 else 0.0
        vanished = self.vanished ** (1.0 / self.power)
        return (
            min(harmless / max(max(scales), 1.0 / largest), largest),
            min(vanished / max(min(scales), 1.0 / largest), largest),
        )

    def slope_factor(self, bandwidth: float, unit: float) -> float:
        """Factor that turns `triton_kernels._slope` into k′(u) u^(1−p) unit^(p−1) / bandwidth^p.

        With k = f(q), k′(u) u^(1−p) = exponent · f′(q) · q / u^p. If the power of u does not
        cancel, `_slope` divides by the total, and the bandwidth drops out.
        """
        steepness = self.exponent
        if self.profile == "rational":
            steepness *= 0.5  # `_slope` has the factor 2 of the Cauchy kernel
        elif self.profile == "exponential":
            steepness *= self.fold / _LOG2E
        else:
            steepness = 1.0
        if self.by_logarithms or (self.profile == "rational" and self.power != 1.0):
            return steepness / (self.fold * unit)
        return steepness * unit ** (self.p - 1.0) / bandwidth**self.p


def triton_form(kernel: Kernel) -> TritonForm:
    """The form of a built-in kernel."""
    formula = FORMULAS[kernel.profile]
    exponential = formula.kind == EXPONENTIAL
    fold = formula.fold * _LOG2E if exponential else formula.fold
    exponent = 2.0 if formula.squared else float(kernel.power)
    profile = _PROFILES[formula.kind]
    return TritonForm(profile, kernel.geometry.p, exponent, fold, formula.vanished)


def fused_available(kernel: Kernel, device: torch.device) -> bool:
    """Whether the Triton kernels can be used: a CUDA device, Triton, and a built-in kernel."""
    if device.type != "cuda" or not kernel.built_in:
        return False
    try:
        import triton
    except ImportError:
        return False
    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    return version >= (3, 3) and torch.cuda.get_device_capability(device) >= (7, 0)


@dataclass(frozen=True)
class Launch:
    """Shape of a program's tile and options of the compiler; tuned on an H200."""

    rows: int
    columns: int = 128
    programs_per_core: int = 2
    max_registers: int | None = None

    @property
    def constants(self) -> dict[str, int]:
        """Compile-time constants and options of the compiler."""
        sizes = {"BLOCK": _BLOCK, "ROWS": self.rows, "COLUMNS": self.columns}
        options = {"num_warps": 4, "num_stages": 1, "enable_fp_fusion": True}
        registers = {} if self.max_registers is None else {"maxnreg": self.max_registers}
        return sizes | options | registers


class FusedRows:
    """Rows on a device in the layout of `triton_kernels`.

    Coordinates are divided by `unit`, a power of two that brings them into [−1, 1]: exact, at any
    scale of the data. With `split`, half-precision parts for tensor cores are prepared; `centre`
    only moves their origin, and that of norms. With `odd`, rows are padded to an odd number of
    blocks, as the circle of the square product needs.
    """

    def __init__(self, X: Tensor, unit: float, centre: Tensor, split: bool, odd: bool):
        self.n_rows, self.n_features = X.shape
        n_blocks = -(-self.n_rows // _BLOCK)
        self.n_blocks = n_blocks + (1 - n_blocks % 2 if odd else 0)
        self.stride = self.n_blocks * _BLOCK
        padded = X[:1].repeat(self.stride, 1)
        padded[: self.n_rows] = X
        padded /= unit
        blocks = padded.view(self.n_blocks, _BLOCK, self.n_features)
        self.points = blocks.transpose(1, 2).contiguous()
        self.depth, self.chunk = 0, 16
        self.high = self.low = self.norms = self.points
        if split:
            self._split(padded - centre / unit)
        self.arguments = self.points, self.high, self.low, self.norms

    def _split(self, centred: Tensor) -> None:
        """Two half-precision parts with 22 bits between them, unless rows span too far."""
        scale = _kernels().SPLIT_SCALE
        self.chunk = _chunk(self.n_features)
        depth = -(-self.n_features // self.chunk) * self.chunk
        parts = centred.new_zeros((2, self.stride, depth), dtype=torch.float16)
        centred *= scale
        parts[0, :, : self.n_features] = centred
        rest = centred - parts[0, :, : self.n_features]
        parts[1, :, : self.n_features] = rest
        rest -= parts[1, :, : self.n_features]
        norms = torch.linalg.vector_norm(centred, dim=1, dtype=torch.float64)
        if bool((torch.linalg.vector_norm(rest, dim=1) > _SPLIT_ERROR * norms).any()):
            return
        self.depth = depth
        self.high, self.low = parts
        self.norms = ((norms / scale) ** 2).to(torch.float32)


class FusedProduct:
    """K(σ) @ block for one set of rows; every pair is evaluated once, and K is not stored."""

    def __init__(self, X: Tensor, kernel: Kernel, budget: int):
        self.form = triton_form(kernel)
        self.budget = budget
        self.unit = _unit(X)
        wide = _on_tensor_cores(self.form, X)
        # Near rows are placed together, so that few tiles have distances that cancel.
        self._order = _nearby_order(X) if wide else None
        ordered = X if self._order is None else X[self._order]
        self.rows = FusedRows(ordered, self.unit, X.mean(0), split=wide, odd=True)
        self._cores = _n_cores(X.device)

    def product(self, bandwidth: float, block: Tensor) -> Tensor:
        """K(bandwidth) @ block, of shape (n, k)."""
        rows = self.rows
        values = block.new_zeros((block.shape[1], rows.stride))
        values[:, : rows.n_rows] = block.T if self._order is None else block[self._order].T
        result = torch.empty_like(values)
        scale = self.form.scale(bandwidth, self.unit, values.dtype)
        for first, count in _passes(len(values)):
            part = slice(first, first + count)
            result[part] = self._pass(scale, values[part])
        product = result[:, : rows.n_rows].T
        if self._order is None:
            return product
        return torch.empty_like(product).index_copy_(0, self._order, product)

    def _pass(self, scale: float, values: Tensor) -> Tensor:
        rows, launch = self.rows, _launch(self.rows, len(values))
        planes, tiles = self._planes(launch, values)
        leap = _coprime(_steps(rows, launch)) if rows.depth else 1
        _kernels().symmetric_product[(len(planes),)](
            *rows.arguments, values, planes, values.new_full((1,), scale),
            *self.form.limits([scale]), rows.n_blocks, rows.stride, tiles, leap,
            rows.n_features, **_constants(self.form, rows, launch, len(values)),
        )  # fmt: skip
        return planes.sum(0)

    def max_distance(self) -> float:
        """Largest distance between two rows."""
        rows = self.rows
        launch = _launch(rows, 1, direct=True)
        n_programs, tiles = _shares(rows, launch, launch.programs_per_core * self._cores)
        largest = rows.points.new_empty(n_programs)
        _kernels().largest_distance[(n_programs,)](
            rows.points, largest, rows.n_blocks, tiles, rows.n_features,
            P=self.form.p, HELD=_held(rows, 0), **launch.constants,
        )  # fmt: skip
        total = float(largest.max())
        root = math.sqrt(total) if self.form.p == 2.0 else total ** (1.0 / self.form.p)
        return root * self.unit

    def _planes(self, launch: Launch, values: Tensor) -> tuple[Tensor, int]:
        """One zeroed plane of partial sums per program, as many as fit; tiles per program."""
        wanted = launch.programs_per_core * self._cores
        plane = values.numel() * values.element_size()
        fitting = self.budget // plane
        if not fitting:
            raise MemoryError(
                f"a product with {values.shape[0]} column(s) over {self.rows.n_rows} rows needs "
                f"at least {plane / GIBIBYTE:.2f} GiB, over the memory_budget of "
                f"{self.budget / GIBIBYTE:.2f} GiB"
            )
        if self._cores < fitting < wanted:
            fitting -= fitting % self._cores  # a whole number of programs on each core
        n_programs, tiles = _shares(self.rows, launch, min(wanted, fitting))
        return values.new_zeros((n_programs, *values.shape)), tiles


class FusedCross:
    """Sums over stages at new rows, f(x) = Σ_s k_{σ_s}(x, X) c_s, and their gradients.

    `budget` bounds the memory of partial sums; there is always at least one.
    """

    def __init__(self, X_new: Tensor, X: Tensor, kernel: Kernel, budget: int):
        self.form = triton_form(kernel)
        self.budget = budget
        self.unit = max(_unit(X), _unit(X_new))
        wide = _on_tensor_cores(self.form, X)
        centre = X.mean(0)
        self.new = FusedRows(X_new, self.unit, centre, split=wide, odd=False)
        self.rows = FusedRows(X, self.unit, centre, split=wide, odd=False)
        if min(self.new.depth, self.rows.depth) == 0:
            self.new.depth = self.rows.depth = 0

    def product(self, bandwidths: Values, coefficients: Tensor) -> Tensor:
        """f at the new rows, shape (m, k), for coefficients of shape (S, n, k)."""
        values, scales = self._values(coefficients), self._scales(bandwidths, coefficients)
        result = values.new_empty((values.shape[1], self.new.stride))
        for first, count in _passes(len(result)):
            part = slice(first, first + count)
            result[part] = self._pass(scales, values[:, part].contiguous())
        return result[:, : self.new.n_rows].T

    def gradient(self, bandwidths: Values, coefficients: Tensor) -> Tensor:
        """∂f/∂x at the new rows, shape (m, d, k)."""
        scales = self._scales(bandwidths, coefficients)
        factors = coefficients.new_tensor(
            [self.form.slope_factor(float(b), self.unit) for b in bandwidths]
        )
        values = self._values(coefficients * factors[:, None, None])
        parts = [self._gradient_pass(scales, v.contiguous()) for v in values.unbind(1)]
        return torch.stack(parts, -1)

    def _values(self, coefficients: Tensor) -> Tensor:
        n_stages, n_rows, n_outputs = coefficients.shape
        values = coefficients.new_zeros((n_stages, n_outputs, self.rows.stride))
        values[:, :, :n_rows] = coefficients.swapaxes(1, 2)
        return values

    def _scales(self, bandwidths: Values, like: Tensor) -> list[float]:
        return [self.form.scale(float(b), self.unit, like.dtype) for b in bandwidths]

    def _grid(self, launch: Launch, values: Tensor, width: int) -> tuple[tuple[int, int], int]:
        """Strips of new rows times parts of the training rows; blocks in a part.

        Each part sums `width` numbers per new row.
        """
        n_strips, n_blocks = self.new.stride // launch.rows, self.rows.n_blocks
        wanted = 8 * launch.programs_per_core * _n_cores(values.device)
        fitting = self.budget // (width * self.new.stride * values.element_size())
        blocks = min(max(1, n_blocks * n_strips // wanted), _LONGEST_SUM)
        blocks = max(blocks, -(-n_blocks // max(1, fitting)))
        return (n_strips, -(-n_blocks // blocks)), blocks

    def _pass(self, scales: list[float], values: Tensor) -> Tensor:
        new, rows = self.new, self.rows
        n_stages, n_outputs, _ = values.shape
        launch = _launch(rows, n_outputs)
        grid, blocks = self._grid(launch, values, n_outputs)
        partial = values.new_empty((grid[1], n_outputs, new.stride))
        _kernels().cross_product[grid](
            *new.arguments, new.stride, *rows.arguments, rows.stride,
            values, values.new_tensor(scales), partial, *self.form.limits(scales), n_stages,
            rows.n_blocks, blocks, rows.n_features,
            **_constants(self.form, rows, launch, n_outputs),
        )  # fmt: skip
        return partial.sum(0)

    def _gradient_pass(self, scales: list[float], values: Tensor) -> Tensor:
        new, rows, launch = self.new, self.rows, _launch(self.rows, 1, direct=True)
        grid, blocks = self._grid(launch, values, new.n_features)
        partial = values.new_zeros((grid[1], new.n_features, new.stride))
        _kernels().cross_gradient[grid](
            new.points, new.stride, rows.points, rows.stride, values, values.new_tensor(scales),
            partial, len(scales), rows.n_blocks, blocks, rows.n_features,
            **self.form.constants, **launch.constants,
        )  # fmt: skip
        return partial.sum(0)[:, : new.n_rows].T


def _kernels() -> ModuleType:
    from bandfall._products import triton_kernels

    return triton_kernels


def _unit(X: Tensor) -> float:
    """The power of two that brings |X| into [0, 1]."""
    largest = float(X.abs().max())
    return 2.0 ** math.frexp(largest)[1] if largest > 0.0 else 1.0


def _nearby_order(X: Tensor) -> Tensor:
    """Rows in the order of a k-d tree's leaves: halved at the median of the widest feature."""
    depth = max(0, (len(X) // _BLOCK).bit_length() - 1)
    order = torch.arange(len(X), device=X.device)
    n_even = len(X) >> depth << depth  # the few others stay at the end
    for level in range(depth):
        parts = order[:n_even].view(1 << level, -1)
        values = X[parts]
        widest = (values.amax(1) - values.amin(1)).argmax(1)
        values = values.gather(2, widest[:, None, None].expand(*parts.shape, 1))[:, :, 0]
        order[:n_even] = parts.gather(1, values.argsort(1)).view(-1)
    return order


def _on_tensor_cores(form: TritonForm, X: Tensor) -> bool:
    """Whether to compute distances by a matrix product: many features, and a Euclidean norm."""
    return form.p == 2.0 and X.dtype == torch.float32 and X.shape[1] > _DIRECT_FEATURES


def _launch(rows: FusedRows, n_outputs: int, direct: bool = False) -> Launch:
    if rows.depth and not direct:
        return Launch(rows=128 if n_outputs == 1 else 64, columns=64)
    if rows.n_features > 8 or n_outputs > 1 or rows.points.dtype == torch.float64:
        return Launch(rows=8, programs_per_core=3, max_registers=168)
    return Launch(rows=16)


def _chunk(n_features: int) -> int:
    """Features per step on tensor cores: many, with few zeros added."""
    if n_features <= 16:
        return 16
    return 32 if (n_features - 1) % 64 < 32 else 64


def _held(rows: FusedRows, depth: int) -> int:
    """Features to keep in registers: all or none."""
    return rows.n_features if depth == 0 and rows.n_features <= _DIRECT_FEATURES else 0


def _constants(
    form: TritonForm, rows: FusedRows, launch: Launch, n_outputs: int
) -> dict[str, str | float]:
    return {
        **form.constants,
        "HELD": _held(rows, rows.depth),
        "DEPTH": rows.depth,
        "CHUNK": rows.chunk,
        "OUTPUTS": n_outputs,
        **launch.constants,
    }


def _shares(rows: FusedRows, launch: Launch, n_programs: int) -> tuple[int, int]:
    """Programs to start and tiles for each, the latter equal but for the last program."""
    n_tiles = rows.stride // launch.rows * _steps(rows, launch)
    tiles = -(-n_tiles // n_programs)
    return -(-n_tiles // tiles), tiles


def _steps(rows: FusedRows, launch: Launch) -> int:
    """Tiles of one strip of rows: half way round the circle of blocks, its own included."""
    return (rows.n_blocks // 2 + 1) * (_BLOCK // launch.columns)


def _coprime(length: int) -> int:
    """A step that visits all of a circle, golden-section apart."""
    leap = max(1, round(0.618 * length))
    while math.gcd(leap, length) > 1:
        leap += 1
    return leap


def _passes(n_outputs: int) -> list[tuple[int, int]]:
    """Right-hand sides in groups of four, two and one: (first, count)."""
    passes, first = [], 0
    while first < n_outputs:
        count = next(size for size in _OUTPUTS if size <= n_outputs - first)
        passes.append((first, count))
        first += count
    return passes


def _n_cores(device: torch.device) -> int:
    if device.type != "cuda":  # Triton's interpreter
        return 1
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
