"""The display of a controlled run."""

import pytest

pytest.importorskip("torch")
matplotlib = pytest.importorskip("matplotlib")

from bandfall.neural._optimizer import LogRow, TangentLog  # noqa: E402
from bandfall.plotting import TangentLogDisplay  # noqa: E402


@pytest.fixture(autouse=True)
def _no_window():
    matplotlib.use("Agg")
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def test_display_draws_the_log():
    log = TangentLog([LogRow(i, 1 - i / 10, i / 10, 0.1, 0.0, 1e-4, True) for i in range(10)])
    display = TangentLogDisplay(log=log).plot()
    drawn = [ax.lines[0].get_ydata() for ax in display.axes_]
    assert drawn[0].tolist() == log.r2.tolist()
    assert drawn[1].tolist() == log.blend.tolist()
    assert display.figure_ is display.axes_[0].figure
    again = TangentLogDisplay(log=log).plot(axes=display.axes_)
    assert len(again.axes_[0].lines) == 2


def test_empty_log_is_refused():
    with pytest.raises(ValueError, match="log is empty"):
        TangentLogDisplay(log=TangentLog()).plot()
