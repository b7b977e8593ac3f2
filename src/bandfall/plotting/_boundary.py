"""Decision boundaries during training: nearly straight first, finer as the bandwidth falls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from bandfall._typing import ArrayLike, Estimator, Frame, State, TableLike
from bandfall.plotting._style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    VERMILION,
    Axes,
    AxesLike,
    drawn_model,
    panels,
)

_COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, GREY)


@dataclass(kw_only=True, eq=False, repr=False)
class BoundaryDisplay:
    """Probabilities of the classes over two features, at moments of training.

    There is one panel per moment. Colours of the classes are mixed by their probabilities, and
    lines show where the most probable class changes. A model trained with the log-loss has one
    moment only. Build it with `from_estimator`.

    Parameters
    ----------
    grid : tuple of two ndarray of shape (g,)
        Values of the two features.
    probabilities : ndarray of shape (p, g, g, c)
        By panel, second feature, first feature and class.
    stages, bandwidths : ndarray of shape (p,)
        Stage of each panel, and the bandwidth of the heaviest member there.
    n_stages : int
    classes : ndarray of shape (c,)
    names : tuple of two str
        Names of the features.
    points, labels : ndarray of shape (n, 2) and (n,), or None
        Rows to draw, and their classes.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : array of p matplotlib Axes

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> from sklearn.datasets import make_moons
    >>> from bandfall import BandfallClassifier
    >>> from bandfall.plotting import BoundaryDisplay
    >>> X, y = make_moons(60, noise=0.2, random_state=0)
    >>> model = BandfallClassifier(kernels=("gaussian",), max_rounds=0).fit(X, y)
    >>> len(BoundaryDisplay.from_estimator(model, X, y, n_panels=1).axes_)
    1
    """

    grid: tuple[np.ndarray, np.ndarray]
    probabilities: np.ndarray
    stages: np.ndarray
    bandwidths: np.ndarray
    n_stages: int
    classes: np.ndarray
    names: tuple[str, str]
    points: np.ndarray | None = None
    labels: np.ndarray | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Estimator,
        X: TableLike,
        y: ArrayLike | None = None,
        *,
        features: Sequence[int] = (0, 1),
        n_panels: int = 4,
        resolution: int = 80,
        axes: AxesLike | None = None,
    ) -> Self:
        """From a fitted `BandfallClassifier`, or a pipeline that ends in one.

        Parameters
        ----------
        estimator : fitted classifier
        X : array-like or frame of numbers, of shape (n_samples, n_features)
            Rows like the training rows. The picture spans their range; all other features are
            fixed at their medians.
        y : array-like of shape (n_samples,), optional
            Classes of these rows; if given, the rows are drawn.
        features : pair of int, default=(0, 1)
            Columns of the two axes.
        n_panels : int, default=4
            Maximum number of moments of training, evenly spaced in stages, including the last.
        resolution : int, default=80
            Points along each feature.
        axes : array of matplotlib Axes, optional
            One for each panel.
        """
        rows = np.asarray(X, dtype=float)
        first, second = _checked_features(features, rows.shape[1])
        grid = _values_along(rows[:, first], resolution), _values_along(rows[:, second], resolution)
        asked = np.tile(np.nanmedian(rows, axis=0), (resolution**2, 1))
        asked[:, second], asked[:, first] = (
            part.ravel() for part in np.meshgrid(grid[1], grid[0], indexing="ij")
        )
        names = [f"feature {j + 1}" for j in range(rows.shape[1])]
        table: TableLike = asked
        if isinstance(X, Frame):
            names = [str(name) for name in X.columns]
            table = type(X)(dict(zip(X.columns, asked.T, strict=True)))
        model, inner = drawn_model(estimator, table)
        staged = [np.asarray(stage) for stage in model.staged_predict_proba(inner)]
        shown = np.unique(np.linspace(0, len(staged) - 1, n_panels).round().astype(int))
        path = model.path_  # of the heaviest member
        kept = -(-(shown + 1) * len(path) // len(staged)) - 1
        panels = np.stack([staged[i] for i in shown])
        display = cls(
            grid=grid,
            probabilities=panels.reshape(len(shown), resolution, resolution, -1),
            stages=shown + 1,
            bandwidths=path.bandwidths[kept],
            n_stages=len(staged),
            classes=model.classes_,
            names=(names[first], names[second]),
            points=None if y is None else rows[:, [first, second]],
            labels=None if y is None else np.asarray(y),
        )
        return display.plot(axes=axes)

    def plot(self, *, axes: AxesLike | None = None) -> Self:
        """Draw on the given axes, one per panel, or on new ones."""
        n_panels = len(self.stages)
        size = (2.7 * n_panels + 0.4, 3.0)
        self.figure_, self.axes_ = panels(axes, 1, n_panels, size, sharey=True)
        for number, ax in enumerate(self.axes_):
            self._draw_panel(ax, number)
        self.axes_[0].set_ylabel(self.names[1])
        return self

    def _draw_panel(self, ax: Axes, number: int) -> None:
        from matplotlib.colors import to_rgb

        x, y = self.grid
        probabilities = self.probabilities[number]
        colours = np.array([to_rgb(_colour(j)) for j in range(len(self.classes))])
        image = 0.4 + 0.6 * np.clip(probabilities @ colours, 0.0, 1.0)  # pale, points stay visible
        extent = (x[0], x[-1], y[0], y[-1])
        ax.imshow(image, origin="lower", extent=extent, aspect="auto", interpolation="bilinear")
        for margin in _margins(probabilities):
            if margin.min() < 0 < margin.max():
                ax.contour(x, y, margin, levels=[0.0], colors="black", linewidths=1.1)
        if self.points is not None and self.labels is not None:
            self._draw_points(ax, self.points, self.labels)
        stage = f"stage {self.stages[number]} of {self.n_stages}"
        ax.set_title(f"{stage}, bandwidth {self.bandwidths[number]:.2g}", fontsize=9)
        ax.set(xlabel=self.names[0], xlim=extent[:2], ylim=extent[2:])

    def _draw_points(self, ax: Axes, points: np.ndarray, labels: np.ndarray) -> None:
        step = max(1, -(-len(points) // 1000))
        points, labels = points[::step], labels[::step]
        for j, label in enumerate(self.classes):
            chosen = labels == label
            how: State = {"color": _colour(j), "edgecolors": "white", "linewidths": 0.4}
            x, y = points[chosen].T
            ax.scatter(x, y, s=10, label=str(label), **how)


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _checked_features(features: Sequence[int], n_features: int) -> tuple[int, int]:
    pair = tuple(features)
    valid = len(pair) == 2 and all(isinstance(j, int | np.integer) for j in pair)
    if not valid or pair[0] == pair[1] or not all(0 <= j < n_features for j in pair):
        raise ValueError(f"features={features!r} must be two different columns of {n_features}")
    return pair[0], pair[1]


def _values_along(column: np.ndarray, resolution: int) -> np.ndarray:
    low, high = np.nanmin(column), np.nanmax(column)
    room = 0.15 * (high - low) or 0.5
    return np.linspace(low - room, high + room, resolution)


def _margins(probabilities: np.ndarray) -> Iterator[np.ndarray]:
    """The lead of each class over all others; with two classes, only the first."""
    n_classes = probabilities.shape[-1]
    for j in range(1, 2) if n_classes == 2 else range(n_classes if n_classes > 2 else 0):
        others = np.delete(probabilities, j, axis=-1).max(axis=-1)
        yield probabilities[..., j] - others
