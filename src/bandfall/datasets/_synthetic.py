"""Generators of the paper's two synthetic data sets.

They draw from NumPy's legacy generator in the order of the published experiments, so a
seed gives exactly the points of a figure.
"""

from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions, validate_params

_COUNT = [Interval(Integral, 1, None, closed="left")]
_NOISE = [Interval(Real, 0, None, closed="left")]

Sample = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@validate_params(
    {
        "n_samples": _COUNT,
        "n_test": _COUNT,
        "test_points": [StrOptions({"uniform", "grid"})],
        "noise": _NOISE,
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=True,
)
def make_sine(
    n_samples: int = 20,
    *,
    n_test: int = 100,
    test_points: str = "uniform",
    noise: float = 0.2,
    random_state: int | np.random.RandomState | None = None,
) -> Sample:
    r"""A noisy sine: the data of Figures 1, 3 and 6.

    .. math:: y = \sin(2\pi x) + \varepsilon,\quad x \sim U(-1, 1),\quad
        \varepsilon \sim N(0, \text{noise}^2)

    Training points, their noise and, for ``test_points="uniform"``, test points are drawn in this
    order. The panels of Figures 1, 3 and 6 are ``random_state=8`` with a grid of 300 (Figure 3:
    101) test points; the curves of Figures 1 and 6 are seeds 0 to 99 with 100 uniform ones.

    Parameters
    ----------
    n_samples, n_test : int
        Numbers of training and test points.
    test_points : {"uniform", "grid"}, default="uniform"
        Drawn from U(−1, 1), or evenly spaced on [−1, 1], ends included.
    noise : float, default=0.2
        Standard deviation of the noise in the training targets.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    X : ndarray of shape (n_samples, 1)
    y : ndarray of shape (n_samples,)
    X_test : ndarray of shape (n_test, 1)
    y_test : ndarray of shape (n_test,)
        Without noise.

    Examples
    --------
    >>> from bandfall.datasets import make_sine
    >>> X, y, X_test, y_test = make_sine(random_state=8, test_points="grid", n_test=300)
    >>> X.shape, y.shape, X_test.shape, y_test.shape
    ((20, 1), (20,), (300, 1), (300,))
    """
    generator = check_random_state(random_state)
    x = generator.uniform(-1.0, 1.0, n_samples)
    y = _sine(x) + generator.normal(0.0, noise, n_samples)
    if test_points == "grid":
        x_test = np.linspace(-1.0, 1.0, n_test)
    else:
        x_test = generator.uniform(-1.0, 1.0, n_test)
    return x[:, None], y, x_test[:, None], _sine(x_test)


@validate_params(
    {"n_samples": _COUNT, "n_test": _COUNT, "noise": _NOISE, "random_state": ["random_state"]},
    prefer_skip_nested_validation=True,
)
def make_two_scale(
    n_samples: int = 100,
    *,
    n_test: int = 500,
    noise: float = 0.2,
    random_state: int | np.random.RandomState | None = None,
) -> Sample:
    r"""A fast sine between two straight lines: the data of Figure 5 (``random_state=16``).

    .. math:: y = \varepsilon + \begin{cases} x + 1 & x \le -1\\ \sin(10\pi x) & |x| < 1\\
        x - 1 & x \ge 1 \end{cases},\quad x \sim N(0, 1)

    Parameters
    ----------
    n_samples, noise, random_state
        As in `make_sine`, which also describes the result; points are drawn before noise.
    n_test : int, default=500
        Number of test points, evenly spaced on [−3, 3], ends included.
    """
    generator = check_random_state(random_state)
    x = generator.normal(0.0, 1.0, n_samples)
    y = _two_scale(x) + generator.normal(0.0, noise, n_samples)
    x_test = np.linspace(-3.0, 3.0, n_test)
    return x[:, None], y, x_test[:, None], _two_scale(x_test)


def _sine(x: np.ndarray) -> np.ndarray:
    return np.sin(2.0 * np.pi * x)


def _two_scale(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < 1.0, np.sin(10.0 * np.pi * x), x - np.sign(x))
