"""Kernels as the Triton kernels evaluate them, with NumPy in the place of Triton."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import reference
from bandfall.kernels._kernel import KERNELS, get_kernel

torch = pytest.importorskip("torch")
from bandfall._products.fused import triton_form  # noqa: E402

NAMES = [*KERNELS, *reference.OTHER_KERNELS, "cauchy^1", "laplace-1^0.5", "laplace^0.02"]
UNIT = 8.0  # of the points, which are divided by it


def argument(form, total, scale):
    """What `triton_kernels._scaled` computes."""
    if form.by_logarithms:
        with np.errstate(divide="ignore", over="ignore"):
            return np.exp2(np.log2(total) * form.power + scale)
    return (total * scale) ** form.power


def profile(form, q):
    if form.profile in ("matern32", "matern52"):
        a = np.sqrt(q)
        return (1 + a + (q / 3 if form.profile == "matern52" else 0.0)) * np.exp(-a)
    return np.exp2(-q) if form.profile == "exponential" else 1 / (1 + q)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bandwidth", [1e-3, 0.7, 40.0, np.inf])
def test_profiles_of_scaled_sums_are_the_kernels(name, bandwidth):
    form, p = triton_form(get_kernel(name)), reference.norm_of(name)
    distance = np.array([0.0, 1e-4, 0.3, 2.0, 30.0])
    scale = form.scale(bandwidth, UNIT, torch.float64)
    found = profile(form, argument(form, (distance / UNIT) ** p, scale))
    expected = reference.profile(name, distance / bandwidth)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nothing_but_equal_rows_is_left_at_bandwidth_zero(name, dtype):
    form = triton_form(get_kernel(name))
    scale = form.scale(0.0, UNIT, dtype)
    assert scale <= torch.finfo(dtype).max
    k = profile(form, argument(form, np.array([0.0, 1e-6, 1.0]), scale))
    assert k[0] == 1.0
    assert np.all(k[1:] < 1e-7)


@pytest.mark.parametrize("name", NAMES)
def test_limits_of_cancellation_are_ordered_and_finite(name):
    form = triton_form(get_kernel(name))
    for bandwidths in ([0.0], [1e-3, 2.0], [np.inf], [0.0, np.inf]):
        scales = [form.scale(b, UNIT, torch.float32) for b in bandwidths]
        harmless, vanished = form.limits(scales)
        assert 0.0 <= harmless <= vanished <= torch.finfo(torch.float32).max


@pytest.mark.parametrize("name", [name for name in NAMES if "matern" not in name])
def test_slopes_are_derivatives_over_powers_of_the_distance(name):
    """k′(u) u^(1−p) unit^(p−1) / bandwidth^p, as `triton_kernels._slope` and its factor give it."""
    kernel, bandwidth = get_kernel(name), 0.7
    form, p = triton_form(kernel), kernel.geometry.p
    u = np.array([0.01, 0.3, 2.0, 9.0])
    total = (u * bandwidth / UNIT) ** p
    q = argument(form, total, form.scale(bandwidth, UNIT, torch.float64))
    k = profile(form, q)
    slope = -k if form.profile == "exponential" else -2.0 * k * k
    if form.profile == "exponential" and form.power == 0.5:
        slope *= np.log2(np.e) / q
    elif form.power != 1.0:
        slope *= q / total
    expected = kernel.derivative(u) * u ** (1.0 - p) * UNIT ** (p - 1.0) / bandwidth**p
    assert_allclose(slope * form.slope_factor(bandwidth, UNIT), expected, rtol=1e-9)
