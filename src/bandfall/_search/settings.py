"""Every number that steers the search and the final fits, with the measurement behind it.

Nothing here depends on the machine. docs/research.md has the tables of the measurements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

Families = Mapping[str, tuple[str, ...]]  # names of kernels, by name of the encoding

SPEEDS = tuple(float(f"{0.1 * 10 ** (-i / 2):.1g}") for i in range(9))  # 0.1, 0.03, … 1e-05
PENALTIES = tuple(float(f"{10.0 * 10 ** (-i / 2):.1g}") for i in range(13))  # 10, 3, … 1e-05


@dataclass(frozen=True)
class Settings:
    """Settings of a search and of the final fits."""

    # Rows and folds ---------------------------------------------------------------------------
    # Training rows of each rung; each rung has fewer candidates than the one before.
    rung_rows: tuple[int, ...] = (2000, 5000, 10000)
    growth: float = 1.5  # least growth of training rows from rung to rung
    # More than two rungs, and leaves of more than half of `leaf_rows` rows (or `usual_leaf`), need
    # a loss that falls by this share for twice the rows, as on smooth tables without noise.
    # Elsewhere larger leaves are no better: U.K. temperatures .2 % worse, and house_8L .1 %, in two
    # or three times the time.
    min_gain_rows: float = 0.3
    usual_leaf: int = 5000
    fold_rows: int = 1500  # with fewer rows, each row is held out in a fold; otherwise one part is
    n_folds: int = 5
    few_rows: int = 300  # with fewer rows, finalists are judged on two partitions: one is luck
    race_folds: int = 2  # for all candidates, from `few_rows` on; finalists get all folds
    # For classes, each row is held out up to `class_rows` rows: losses of few rows vary too much.
    # `class_folds` folds serve from `fold_rows` rows on: on seven tables with rare classes, five
    # folds have 1.006 times the log-loss, in twice the time.
    class_rows: int = 100_000
    class_folds: int = 3
    class_train_rows: int = 3333  # most training rows of such a fold
    held_out_rows: int = 2500  # maximum number of rows held out in one part
    # Minimum, but at most a third of all: with fewer, the coverage of intervals varies too much.
    fewest_held_out: int = 500

    # Candidates -------------------------------------------------------------------------------
    # Families of different kinds make a good average: smooth and rough profiles, norms that mix
    # features and norms that add them up. More of them cost time and hardly lower test errors.
    families: Families = field(
        default_factory=lambda: {
            "standard": ("gaussian", "matern32", "matern12", "laplace-1"),
            "quantile": ("laplace-1.25",),
            "target": ("laplace-1",),
            "pairs": ("gaussian",),
        }
    )
    # Below `constant_rows` rows, numbers also try Gaussians of one bandwidth, relative to the
    # largest distance, trained until R² rises by less than `least_speed`: RMSE .75 on 20 points of
    # a sine, .96 on other curves, .991, 1.000, 1.000 and .997 on tables of 20, 50, 80 and 300 rows,
    # .999 of 600. Four widths are no better. A speed of 1e-5 ends too early on the sine.
    constant_rows: int = 500
    constant_widths: tuple[float, ...] = (0.2, 0.8)
    least_speed: float = 1e-7
    # From `fold_rows` rows on, which can choose among more families, with at most `more_columns`
    # columns; for classes up to `exact_rows` rows. More would make fits and predictions slow.
    more_columns: int = 500
    more_for_numbers: Families = field(default_factory=lambda: {"quantile": ("laplace^1.4",)})
    # Also tried from `fold_rows` rows on, if the best trial leaves less than the share `exact` of
    # the variance: steps have twelve times the columns, and help tables almost free of noise. Of
    # more than `many_rows` rows, less than `exact_of_many`: power −7.7 % (41,932 rows) and −3.3 %
    # (15,000), fried, 2dplanes, superconductors and U.K. temperatures ±0; noisier ones would not
    # gain: house_8L +.2 %, gas_turbine +.5 and −.8 %.
    exact_families: Families = field(default_factory=lambda: {"steps": ("gaussian",)})
    exact: float = 0.01
    exact_of_many: float = 0.15
    many_rows: int = 10_000
    # Classes often follow thresholds of single columns, which steps can follow.
    class_families: Families = field(
        default_factory=lambda: {
            "standard": ("gaussian", "laplace^1.4"),
            "steps": ("gaussian",),
            "quantile": ("laplace^1.4", "laplace-1.25"),
            "target": ("laplace^1.4",),
            "pairs": ("gaussian",),
        }
    )
    more_for_classes: Families = field(default_factory=lambda: {"steps": ("laplace-1.25",)})
    # With fewer rows, classes choose among two kernels: with more kernels the held-out log-loss
    # falls and that of new rows rises.
    few_kernel_rows: int = 700
    few_kernels: tuple[str, ...] = ("gaussian", "matern12")
    first_speeds: tuple[float, ...] = SPEEDS[:7:2]  # later, the best and its neighbours are tried
    # Relative to the least loss. A family goes on to more folds within `max_ratio_folds`, and
    # to further rounds of its metric if two of them would bring it there. It goes on to more rows,
    # which take longer, within `max_ratio_rows` or if it is in the average of this rung.
    max_ratio_folds: float = 1.4
    max_ratio_rows: float = 1.05

    # Metric -----------------------------------------------------------------------------------
    max_rounds: int = 10  # rounds of slopes
    min_gain: float = 0.01  # relative fall of the loss by a round that improves a metric
    patience: int = 2  # consecutive rounds without improvement before the metric is final
    # Scales by marginal likelihood: from at most `likelihood_rows` rows, for encodings of at most
    # `likelihood_columns` columns, with a prior of standard deviation `likelihood_prior` on the
    # logarithms, in at most `likelihood_steps` evaluations. Twice the rows halve the error once
    # in ten tables, for four times the time.
    likelihood_rows: int = 300
    likelihood_columns: int = 300
    likelihood_prior: float = 1.0
    likelihood_steps: int = 25

    # Paths ------------------------------------------------------------------------------------
    shrink: float = 0.5  # bandwidths fall by the factor 1 + shrink from stage to stage
    tolerance: float = 1e-2  # of the flow per stage; too small to change held-out scores
    max_dimension: int = 32  # of Krylov spaces
    max_r2: float = 1.0 - 1e-6  # on training rows: no path is trained beyond
    first_max_r2: float = 0.9999  # before anything is known
    beyond: float = 0.1  # a path goes on until this share of the residual at the best stop is left
    worse: float = 0.05  # a path ends if its loss exceeds its minimum so far by this share
    # A training error of final paths below `left` times the held-out error is small enough. The
    # last per mille of the targets takes a slow path half of its products and most of its
    # bandwidths, which slow down predictions, and changes them by less than a percent.
    left: float = 0.03
    final_tolerance: float = 0.03  # error of the final flow, relative to the held-out error
    # If rounding may exceed this share of the held-out error, a member is fitted in float64. With a
    # half, moving a row by 1e-7 moved predictions of a smooth table by up to 14 % of their error.
    rounded: float = 0.1

    # Average ----------------------------------------------------------------------------------
    n_members: int = 4  # maximum number of models to average
    caution: float = 0.3  # below `few_rows` rows, see `greedy_weights`: RMSE .997 with 80 rows
    light: float = 0.1  # models with less weight hardly change predictions, and cost as much

    # Time -------------------------------------------------------------------------------------
    usual_path: tuple[int, int] = (15, 550)  # bandwidths and products of a typical final path
    quick_rows: int = 1000  # for measuring the pace of search and final fits
    hurried_rows: int = 9000  # of a final fit after Ctrl-C, which then takes seconds
    # Of a time limit, for the first ladder of speeds. With a tenth, few candidates were tried.
    first_share: float = 0.025
    fewest_rows: int = 100  # for a search, however short the time
    fewest_fitted: int = 200  # for a final fit
    grace: float = 0.5  # seconds by which a final fit may exceed the limit

    # Leaves -----------------------------------------------------------------------------------
    overlapping: float = 1.3  # rows of all leaves together, relative to those that are divided
    leaf_paths: float = 1.9  # over all rows of a leaf: its own, and two over two thirds of them
    again_rows: int = 20_000  # with fewer, leaves are trained again with the rows held out
    smallest_leaf: int = 2000  # rows, if time is short; smaller leaves save little time
    # Held-out rows of all leaves together: one in `evidence`, but between `few_evidence` (or a
    # sixth of all rows, if that is less) and `most_evidence`.
    evidence: int = 50
    few_evidence: int = 500
    most_evidence: int = 10_000
    judging: int = 3  # one in three other rows chooses; with half, training stops too early
    fewest_judging: int = 50  # rows for a choice in a leaf, or that replace those of the search
    farthest: float = 0.9  # stops of a leaf go up to this R² at least, or to `beyond`

    # Log-loss of classes ----------------------------------------------------------------------
    # Maximum numbers of rows for the log-loss, in all and in one leaf: a larger Cholesky factor
    # takes longer than a search.
    log_loss_rows: int = 100_000
    cholesky_rows: int = 10_000
    # Above `exact_rows` rows, final fits are computed in float32. Models with the log-loss are
    # compared after training on at most `penalty_rows` rows of a part.
    exact_rows: int = 5000
    penalty_rows: int = 2500
    first_penalty: float = 0.3  # suits most members
    # Rows² × columns of all rungs and of the first: as many as three classes of 10,000 rows have,
    # and ten classes of 2,000 rows.
    rung_entries: float = 3e8
    first_entries: float = 4e7
    leaf_columns: int = 10  # most classes for the log-loss in leaves
    member_columns: int = 60  # in all members together: four members of fifteen classes
    # Kernels of one wide bandwidth, relative to the largest distance, and their first penalties:
    # the first suits classes that follow a rule, and tables below `few_kernel_rows` rows; the
    # others, nearly additive or rough, suit noisy classes.
    wide: tuple[tuple[str, float, float], ...] = (
        ("gaussian", 0.25, 0.003),
        ("laplace-1", 1.0, 1.0),
        ("laplace", 1.0, 1.0),
    )
    # Training rows of a part by which wide kernels, their penalties and metrics are chosen.
    wide_rows: int = 1000
    wide_finalists: int = 3  # that are trained on all parts
    wide_max_ratio: float = 1.25  # times the least loss: those that go on
    wide_rounds: int = 3
    wide_min_gain: float = 0.02  # relative fall of the loss by a round that helped

    def up_to(self, n_rows: int) -> Settings:
        """A copy with rungs of at most `n_rows` rows."""
        rungs = [rows for rows in self.rung_rows if rows < n_rows]
        return replace(self, rung_rows=(*rungs, min(n_rows, self.rung_rows[-1])))
