"""The displays: what is drawn is what was computed, on one line from a fitted estimator."""

import os
import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bandfall import KernelDescentRegressor, KernelRidgeRegressor
from bandfall.datasets import make_sine
from bandfall.plotting import BoundDisplay, DoubleDescentDisplay, KernelShiftDisplay, PathDisplay
from bandfall.theory import degrees_of_freedom, fine_log, kernel_shift

matplotlib.use("agg")

X, y, X_new, y_new = make_sine(random_state=8, n_test=20)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    from matplotlib import pyplot as plt

    plt.close("all")


@pytest.fixture(params=["flow", "euler"])
def model(request):
    return KernelDescentRegressor(solver=request.param).fit(X, y)


@pytest.fixture
def pipeline():
    return make_pipeline(StandardScaler(), KernelDescentRegressor()).fit(X, y)


def test_path_display_draws_the_log(model):
    display = PathDisplay.from_estimator(model)
    log = fine_log(model)
    bandwidth, r2, speed, threshold = display.lines_
    assert_allclose(bandwidth.get_ydata()[:-1], np.where(log.bandwidth > 0, log.bandwidth, np.nan))
    assert_allclose(r2.get_xdata(), np.append(log.time, model.path_.time))
    assert_allclose(r2.get_ydata()[-1], model.path_.r2)
    assert_allclose(speed.get_ydata()[:-1], log.speed)
    assert set(threshold.get_ydata()) == {model.min_speed}
    display.figure_.canvas.draw()


def test_path_display_takes_axes(model):
    from matplotlib import pyplot as plt

    _, axes = plt.subplots(3, 1)
    display = PathDisplay.from_estimator(model, axes=axes)
    assert display.axes_[1] is axes[1]
    display.figure_.canvas.draw()
    with pytest.raises(ValueError, match="give 3 axes, one for each panel; got 2"):
        display.plot(axes=axes[:2])


def test_path_display_refuses_an_empty_path():
    path = KernelDescentRegressor().fit(X, np.ones(len(X))).path_
    with pytest.raises(ValueError, match="constant"):
        PathDisplay.from_estimator(path)


def test_shift_display(model):
    display = KernelShiftDisplay.from_estimator(model, X_new)
    assert_allclose(display.shift, kernel_shift(X, X_new, "gaussian", display.bandwidths))
    assert_allclose(display.path_weights.sum(), 1.0)
    assert set(display.path_bandwidths) == set(model.path_.log.bandwidth)
    assert display.regions_.one_below < display.regions_.zero_above
    names = {text.get_text() for text in display.ax_.texts}
    assert names == {"one", "peak", "zero"}
    display.figure_.canvas.draw()
    two_rows = KernelDescentRegressor("cauchy").fit(X[:2], y[:2])
    one_point = KernelShiftDisplay.from_estimator(two_rows, X_new[:1], ax=display.ax_)
    assert one_point.ax_ is display.ax_
    assert one_point.expected is None  # two rows make no quadruple


def test_bound_display(model):
    display = BoundDisplay.from_estimator(model, X_new, y_new, derivative_bound=7.0, noise=0.2)
    final = np.abs(model.predict(X_new) - y_new)
    assert_allclose(display.error[-1], final, atol=1e-6)
    assert_allclose(display.error[0], np.abs(y.mean() - y_new))
    assert display.error_time[-1] == model.path_.time
    assert np.all(display.error[-1] <= display.bound.total[-1])
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert len(labels) == 4
    display.figure_.canvas.draw()
    plain = BoundDisplay.from_estimator(model.path_, X_new, residual="measured", ax=display.ax_)
    assert plain.error is None
    with pytest.raises(ValueError, match="y_new must be"):
        BoundDisplay.from_estimator(model, X_new, y_new[:3])


def test_double_descent_display():
    floors = [0.5, 1.0, 0.01]
    descent = KernelDescentRegressor(max_time=50.0, max_r2=1.0)
    display = DoubleDescentDisplay.from_estimator(
        descent, X, y, X_new, y_new, bandwidths=floors, label="falling"
    )
    assert display.bandwidths.tolist() == [1.0, 0.5, 0.01]
    by_hand = descent.set_params(min_bandwidth=0.5).fit(X, y)
    assert_allclose(display.test_error[1], 1 - by_hand.score(X_new, y_new))
    assert_allclose(display.degrees_of_freedom[1], degrees_of_freedom(by_hand))
    assert display.ax_.xaxis_inverted()
    scaled = make_pipeline(StandardScaler(), KernelRidgeRegressor())
    again = DoubleDescentDisplay.from_estimator(
        scaled, X, y, X_new, y_new, bandwidths=floors, ax=display.ax_
    )
    assert again.ax_.xaxis_inverted()
    assert len(again.ax_.get_legend().get_texts()) == 4
    again.plot(x="degrees_of_freedom").figure_.canvas.draw()
    with pytest.raises(ValueError, match="x='time'"):
        again.plot(x="time")
    with pytest.raises(ValueError, match="neither min_bandwidth nor bandwidth"):
        DoubleDescentDisplay.from_estimator(StandardScaler(), X, y, X_new, y_new)


def test_pipelines_see_transformed_points(pipeline):
    """One line from a fitted pipeline: new points go through its first steps."""
    inside = pipeline[:-1].transform(X_new)
    shift = KernelShiftDisplay.from_estimator(pipeline, X_new).shift
    assert_allclose(shift, KernelShiftDisplay.from_estimator(pipeline[-1], inside).shift)
    bound = BoundDisplay.from_estimator(pipeline, X_new).bound
    assert_allclose(bound.shift, BoundDisplay.from_estimator(pipeline[-1], inside).bound.shift)
    assert PathDisplay.from_estimator(pipeline).min_speed == 0.1


@pytest.mark.slow
def test_nothing_is_imported_before_it_is_drawn():
    code = (
        "import sys, bandfall.plotting\n"
        "assert 'matplotlib' not in sys.modules\n"
        "sys.modules['matplotlib'] = None\n"
        "try:\n"
        "    bandfall.plotting._style.pyplot()\n"
        "except ImportError as error:\n"
        "    assert 'pip install matplotlib' in str(error)\n"
        "else:\n"
        "    raise AssertionError\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
