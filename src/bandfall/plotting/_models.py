"""Displays of self-tuning models: their trials, their intervals, their decision boundaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np

from bandfall._models.member import Member
from bandfall._typing import ArrayLike, Estimator, Frame, State, TableLike
from bandfall.plotting import _style as style
from bandfall.plotting._style import Axes, AxesLike, drawn_model, finish

Trials: TypeAlias = dict[str, np.ndarray]  # a column each of what was tried

_COLOURS = {"standard": style.BLUE, "steps": style.ORANGE, "quantile": style.GREEN}
# Kernels that a search tries under one encoding have different lines.
_LINES = {"gaussian": "-", "matern12": "--", "matern32": "-.", "matern52": ":", "laplace-1": ":"}
_LINES |= {"laplace^1.4": "--", "laplace-1.25": "-."}
_CANDIDATE = ("encoding", "n_rounds", "kernel", "min_speed")
_COVERAGES = np.arange(0.1, 0.96, 0.05)
MAX_DOTS = 2000


@dataclass(kw_only=True, eq=False, repr=False)
class SelectionDisplay:
    """R² on held-out rows against rounds of the learned metric, and against speed.

    Left: the best trial of every encoding after each round. Right: the speeds of every encoding
    (colours) and kernel (lines) at its best number of rounds. Circles are the members of
    the average; their areas are the weights. A configuration that was tried twice is shown with
    the score on more rows. Build it with `from_estimator`.

    Parameters
    ----------
    selection : dict of str to ndarray
        ``selection_`` of a `BandfallRegressor`.
    members : sequence of Member
        Its ``members_``.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : array of two matplotlib Axes

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> from sklearn.datasets import make_friedman1
    >>> from bandfall import BandfallRegressor
    >>> from bandfall.plotting import SelectionDisplay
    >>> X, y = make_friedman1(60, random_state=0)
    >>> model = BandfallRegressor(kernels=("gaussian",), max_rounds=1).fit(X, y)
    >>> SelectionDisplay.from_estimator(model).axes_[0].get_ylabel()
    'R² on held-out rows'
    """

    selection: Trials
    members: Sequence[Member] = ()

    @classmethod
    def from_estimator(cls, estimator: Estimator, *, axes: AxesLike = None) -> Self:
        """Display a fitted `BandfallRegressor`, or a pipeline ending in one."""
        model, _ = drawn_model(estimator)
        return cls(selection=model.selection_, members=model.members_).plot(axes=axes)

    def plot(self, *, axes: AxesLike = None) -> Self:
        """Draw on the two given axes, or on new ones."""
        self.figure_, self.axes_ = style.panels(axes, 1, 2, (8.0, 3.4), sharey=True)
        left, right = self.axes_
        # The last trial of every candidate, which is the one on the most rows.
        latest = {key: row for row, key in enumerate(_candidates(self.selection))}
        table = {name: column[sorted(latest.values())] for name, column in self.selection.items()}
        if latest:
            _draw_rounds(left, table)
            self._draw_speeds(right, table)
            self._mark_members(table)
            scores = np.sort(table["score"])
            floor = scores[len(scores) // 20]
            left.set_ylim(bottom=floor - 0.05 * (scores[-1] - floor + 1e-9))
            right.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
        left.set(xlabel="rounds of the learned metric", ylabel="R² on held-out rows")
        right.set(xlabel="slowest accepted R² speed")
        for ax in self.axes_:
            ax.spines[["top", "right"]].set_visible(False)
        return self

    def _draw_speeds(self, ax: Axes, table: Trials) -> None:
        taken = {
            (member.candidate.encoding, str(member.candidate.kernel)): member.candidate.n_rounds
            for member in reversed(self.members)
        }
        for encoding, kernel in dict.fromkeys(zip(table["encoding"], table["kernel"], strict=True)):
            ours = (table["encoding"] == encoding) & (table["kernel"] == kernel)
            best = table["n_rounds"][ours][np.argmin(table["loss"][ours])]
            ours &= table["n_rounds"] == taken.get((encoding, kernel), best)
            order = np.flatnonzero(ours)[np.argsort(table["min_speed"][ours])]
            ax.plot(
                table["min_speed"][order],
                table["score"][order],
                marker="o",
                markersize=4,
                linestyle=_LINES.get(kernel, "-"),
                color=_COLOURS.get(encoding, style.GREY),
                label=f"{encoding}, {kernel}",
            )
        ax.set_xscale("log")

    def _mark_members(self, table: Trials) -> None:
        scores = dict(zip(_candidates(table), table["score"], strict=True))
        marks = []
        for member in self.members:
            summary = member.candidate.summary()
            key = tuple(summary[name] for name in _CANDIDATE)
            if key in scores:
                marks.append((member.candidate, scores[key], 250.0 * member.weight))
        heights, sizes = [score for _, score, _ in marks], [size for *_, size in marks]
        rings: State = {"facecolors": "none", "edgecolors": "black", "linewidths": 1.4}
        for ax, name in zip(self.axes_, ("n_rounds", "min_speed"), strict=True):
            at = [getattr(candidate, name) for candidate, *_ in marks]
            ax.scatter(at, heights, s=sizes, label="members, by weight", zorder=5, **rings)


def _candidates(table: Trials) -> list[tuple]:
    return list(zip(*(table[name].tolist() for name in _CANDIDATE), strict=True))


def _draw_rounds(ax: Axes, table: Trials) -> None:
    for encoding in dict.fromkeys(table["encoding"]):
        ours = table["encoding"] == encoding
        rounds = np.unique(table["n_rounds"][ours])
        best = [table["score"][ours & (table["n_rounds"] == r)].max() for r in rounds]
        colour = _COLOURS.get(encoding, style.GREY)
        ax.plot(rounds, best, "o-", color=colour, markersize=4, label=encoding)
    ax.locator_params(axis="x", integer=True)


@dataclass(kw_only=True, eq=False, repr=False)
class IntervalDisplay:
    """Observed against promised coverage, and errors against the widths of intervals.

    Left: the share of rows inside, on the diagonal if the promise holds; the band shows what
    chance allows with these numbers of held-out and new rows. Right: distances from the middle of
    the interval against half its width and, for tenths of the rows, the distance that contains the
    promised share, on the diagonal if all widths are right. Build it with `from_estimator`.

    Parameters
    ----------
    coverages, shares : ndarray of shape (c,)
        Promised and observed coverages.
    half_widths, errors : ndarray of shape (n,)
        For one coverage: half the width, and the distance of the target from the middle.
    coverage : float
        This coverage.
    n_held_out : int
        Rows that the intervals were learned from.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : array of two matplotlib Axes

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> from sklearn.datasets import make_friedman1
    >>> from bandfall import BandfallRegressor
    >>> from bandfall.plotting import IntervalDisplay
    >>> X, y = make_friedman1(120, noise=1.0, random_state=0)
    >>> model = BandfallRegressor(kernels=("gaussian",), max_rounds=0).fit(X[:60], y[:60])
    >>> IntervalDisplay.from_estimator(model, X[60:], y[60:]).axes_[0].get_xlabel()
    'promised coverage'
    """

    coverages: np.ndarray
    shares: np.ndarray
    half_widths: np.ndarray
    errors: np.ndarray
    coverage: float
    n_held_out: int

    @classmethod
    def from_estimator(
        cls,
        estimator: Estimator,
        X: TableLike,
        y: ArrayLike,
        *,
        coverage: float = 0.9,
        axes: AxesLike = None,
    ) -> Self:
        """Display a fitted `BandfallRegressor`, or a pipeline ending in one, on unseen rows.

        Each target of a row counts separately.
        """
        model, X = drawn_model(estimator, X)
        y = np.asarray(y, dtype=float)
        ends = model.predict_interval(X, [*_COVERAGES, coverage])
        lower, upper = ends[..., 0, :].reshape(y.size, -1), ends[..., 1, :].reshape(y.size, -1)
        target = y.reshape(-1, 1)
        inside = (lower <= target) & (target <= upper)
        middle, half = 0.5 * (lower + upper)[:, -1], 0.5 * (upper - lower)[:, -1]
        display = cls(
            coverages=_COVERAGES,
            shares=inside[:, :-1].mean(axis=0),
            half_widths=half,
            errors=np.abs(target[:, 0] - middle),
            coverage=coverage,
            n_held_out=model.interval_["n_rows"],
        )
        return display.plot(axes=axes)

    def plot(self, *, axes: AxesLike = None) -> Self:
        """Draw on the two given axes, or on new ones."""
        self.figure_, self.axes_ = style.panels(axes, 1, 2, (8.0, 3.6))
        left, right = self.axes_
        promised = self.coverages
        grey: State = {"color": style.GREY, "linewidth": 0.8}
        chance = 1.0 / len(self.errors) + 1.0 / max(1, self.n_held_out)
        slack = 2.0 * np.sqrt(promised * (1.0 - promised) * chance)
        band: State = {"color": style.GREY, "alpha": 0.2, "linewidth": 0}
        left.fill_between(promised, promised - slack, promised + slack, **band)
        left.plot([0, 1], [0, 1], **grey)
        left.plot(promised, self.shares, "o-", color=style.BLUE, markersize=4)
        left.set(
            xlabel="promised coverage", ylabel="share of rows inside", xlim=(0, 1), ylim=(0, 1)
        )
        known = np.isfinite(self.half_widths)
        half, errors = self.half_widths[known], self.errors[known]
        some = slice(None, None, max(1, -(-len(half) // MAX_DOTS)))
        right.scatter(half[some], errors[some], s=6, color=style.BLUE, alpha=0.35, linewidths=0)
        if len(half):
            tenths = np.array_split(np.argsort(half, kind="stable"), min(10, len(half)))
            widths = [half[rows].mean() for rows in tenths]
            inside = [np.quantile(errors[rows], self.coverage) for rows in tenths]
            label = f"{self.coverage:.0%} of errors are below"
            right.plot(widths, inside, "o-", color=style.VERMILION, markersize=4, label=label)
            ends = [half.min(), half.max()]
            right.plot(ends, ends, label="end of the interval", **grey)
            right.legend(fontsize=8, frameon=False, loc="upper left")
        right.set(xlabel="half the width", ylabel="distance from the middle")
        for ax in self.axes_:
            finish(ax)
        return self


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
        axes: AxesLike = None,
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
        pair = _checked_features(features, rows.shape[1])
        x, y_axis = (_values_along(rows[:, j], resolution) for j in pair)
        asked = np.tile(np.nanmedian(rows, axis=0), (resolution**2, 1))
        asked[:, pair] = np.stack(np.meshgrid(x, y_axis), axis=-1).reshape(-1, 2)
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
        display = cls(
            grid=(x, y_axis),
            probabilities=np.stack([staged[i].reshape(resolution, resolution, -1) for i in shown]),
            stages=shown + 1,
            bandwidths=path.bandwidths[kept],
            n_stages=len(staged),
            classes=model.classes_,
            names=(names[pair[0]], names[pair[1]]),
            points=None if y is None else rows[:, pair],
            labels=None if y is None else np.asarray(y),
        )
        return display.plot(axes=axes)

    def plot(self, *, axes: AxesLike = None) -> Self:
        """Draw on the given axes, one per panel, or on new ones."""
        from matplotlib.colors import to_rgb

        n_panels, (x, y) = len(self.stages), self.grid
        size = (2.7 * n_panels + 0.4, 3.0)
        self.figure_, self.axes_ = style.panels(axes, 1, n_panels, size, sharey=True)
        colours = [style.CYCLE[j % len(style.CYCLE)] for j in range(len(self.classes))]
        extent = (x[0], x[-1], y[0], y[-1])
        steps = zip(self.axes_, self.probabilities, self.stages, self.bandwidths, strict=True)
        for ax, probabilities, stage, bandwidth in steps:
            mixed = probabilities @ np.array([to_rgb(colour) for colour in colours])
            pale = 0.4 + 0.6 * np.clip(mixed, 0.0, 1.0)  # points stay visible
            ax.imshow(pale, origin="lower", extent=extent, aspect="auto", interpolation="bilinear")
            for margin in _margins(probabilities):
                if margin.min() < 0 < margin.max():
                    ax.contour(x, y, margin, levels=[0.0], colors="black", linewidths=1.1)
            self._draw_points(ax, colours)
            title = f"stage {stage} of {self.n_stages}, bandwidth {bandwidth:.2g}"
            ax.set_title(title, fontsize=9)
            ax.set(xlabel=self.names[0], xlim=extent[:2], ylim=extent[2:])
        self.axes_[0].set_ylabel(self.names[1])
        return self

    def _draw_points(self, ax: Axes, colours: list[str]) -> None:
        if self.points is None or self.labels is None:
            return
        some = slice(None, None, max(1, -(-len(self.points) // 1000)))
        points, labels = self.points[some], self.labels[some]
        edge: State = {"edgecolors": "white", "linewidths": 0.4}
        for colour, label in zip(colours, self.classes, strict=True):
            x, y = points[labels == label].T
            ax.scatter(x, y, s=10, label=str(label), color=colour, **edge)


def _checked_features(features: Sequence[int], n_features: int) -> list[int]:
    pair = list(features)
    valid = len(pair) == 2 and all(isinstance(j, int | np.integer) for j in pair)
    if not valid or pair[0] == pair[1] or not all(0 <= j < n_features for j in pair):
        raise ValueError(f"features={features!r} must be two different columns of {n_features}")
    return pair


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
