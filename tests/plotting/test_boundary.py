"""Decision boundaries along training: what is drawn is what the classifier says."""

import matplotlib
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris, make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bandfall import BandfallClassifier
from bandfall.plotting import BoundaryDisplay

matplotlib.use("agg")

FAST = {"kernels": ("gaussian",), "max_rounds": 0}


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    from matplotlib import pyplot as plt

    plt.close("all")


@pytest.fixture(scope="module")
def moons():
    return make_moons(80, noise=0.2, random_state=0)


@pytest.fixture(scope="module")
def model(moons):
    return BandfallClassifier(**FAST).fit(*moons)


def test_the_last_panel_is_the_model(model, moons):
    display = BoundaryDisplay.from_estimator(model, *moons, n_panels=3, resolution=20)
    x, y = np.meshgrid(*display.grid)
    expected = model.predict_proba(np.column_stack([x.ravel(), y.ravel()]))
    assert_allclose(display.probabilities[-1].reshape(-1, 2), expected, rtol=1e-6)
    stages = list(model.staged_predict_proba(np.column_stack([x.ravel(), y.ravel()])))
    assert display.stages[0] == 1
    assert display.stages[-1] == display.n_stages == len(stages)
    assert_allclose(display.probabilities[0].reshape(-1, 2), stages[0], rtol=1e-6)
    assert display.bandwidths[-1] == model.path_.bandwidths[-1]
    display.figure_.canvas.draw()


def test_other_features_stay_at_their_medians():
    pandas = pytest.importorskip("pandas")
    X, y = load_iris(return_X_y=True)
    table = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    labels = np.array(["one", "two", "three"])[y]
    model = make_pipeline(
        StandardScaler().set_output(transform="pandas"), BandfallClassifier(**FAST)
    ).fit(table, labels)
    display = BoundaryDisplay.from_estimator(
        model, table, labels, features=(3, 2), n_panels=2, resolution=15
    )
    row = pandas.DataFrame([np.median(X, axis=0)], columns=table.columns)
    row["d"], row["c"] = display.grid[0][4], display.grid[1][9]
    assert_allclose(display.probabilities[-1, 9, 4], model.predict_proba(row)[0], rtol=1e-6)
    assert display.axes_[0].get_xlabel() == "d"
    assert display.axes_[0].get_ylabel() == "c"


def test_axes_of_the_caller(model, moons):
    from matplotlib import pyplot as plt

    _, axes = plt.subplots(1, 2)
    display = BoundaryDisplay.from_estimator(model, moons[0], n_panels=2, resolution=8, axes=axes)
    assert display.axes_[1] is axes[1]
    assert not display.axes_[1].collections or display.points is None
    with pytest.raises(ValueError, match="one for each panel"):
        display.plot(axes=axes[:1])


@pytest.mark.parametrize("features", [(0, 0), (0, 2), (0,), (-1, 0), ("a", "b")])
def test_two_different_columns_are_needed(model, moons, features):
    with pytest.raises(ValueError, match="two different columns"):
        BoundaryDisplay.from_estimator(model, *moons, features=features)
