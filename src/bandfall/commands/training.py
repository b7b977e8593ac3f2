"""From a table to a trained model: choose columns, split rows, fit with a bar, score."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from sklearn.base import BaseEstimator
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import bandfall
from bandfall.commands.tables import read_table, require_columns, to_numbers
from bandfall.commands.terminal import Bar, GentleInterrupt, InputError, note
from bandfall.estimators import KernelDescentRegressor, KernelRidgeCV
from bandfall.operators import check_device

# Rows beyond which training is on a random sample unless --max-rows says otherwise.
MAX_ROWS = {"auto": 10_000, "kgdd": 10_000, "krr-cv": 2_000}
MIN_ROWS = 4
USUAL_TRIALS = 24


class ModelChoice(StrEnum):
    """What ``--model`` takes."""

    AUTO = "auto"
    KGDD = "kgdd"
    KRR_CV = "krr-cv"


class Device(StrEnum):
    """What ``--device`` takes."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


DataArgument = Annotated[
    str, typer.Argument(metavar="DATA", help="CSV, CSV.gz or Parquet file; - for standard input.")
]
TargetOption = Annotated[str, typer.Option("--target", help="Column to predict.")]
DropOption = Annotated[
    list[str] | None, typer.Option("--drop", metavar="COL", help="Column to leave out; repeatable.")
]
FractionOption = Annotated[
    float, typer.Option("--test-fraction", help="Share of rows held out to score the model.")
]
SeedOption = Annotated[int, typer.Option("--seed", help="Of the random choice of rows.")]
RowsOption = Annotated[
    int | None,
    typer.Option(
        "--max-rows",
        help="Train on a random sample of so many rows [default: 10000; krr-cv: 2000].",
    ),
]
ModelOption = Annotated[
    ModelChoice,
    typer.Option(
        "--model",
        help="auto: tunes itself; kgdd: the paper's method; krr-cv: kernel ridge by CV.",
    ),
]
DeviceOption = Annotated[Device, typer.Option("--device", help="Where to compute.")]


@dataclass(frozen=True)
class Table:
    """Numbers ready for training.

    Attributes
    ----------
    X : DataFrame of shape (n, d)
    y : ndarray of shape (n,)
    source, target : str
    n_dropped : int
        Rows left out because a value was missing.
    """

    X: pd.DataFrame
    y: np.ndarray
    source: str
    target: str
    n_dropped: int

    def take(self, rows: np.ndarray) -> Table:
        """Some of the rows."""
        return Table(self.X.iloc[rows], self.y[rows], self.source, self.target, self.n_dropped)

    def __len__(self) -> int:
        return len(self.y)


def load_table(source: str, target: str, drop: list[str] | None) -> Table:
    """Features and target of a file; rows with missing values are left out."""
    table = read_table(source)
    name = "standard input" if source == "-" else source
    drop = drop or []
    require_columns(table, [target, *drop], name)
    if target in drop:
        raise InputError(f"--target {target} is also in --drop")
    features = [column for column in table.columns if column != target and column not in drop]
    if not features:
        raise InputError(f"{name} has no column beside the target {target!r}")
    numbers = to_numbers(table[[*features, target]], name)
    complete = ~np.isnan(numbers).any(axis=1)
    if not complete.any():
        worst = [*features, target][int(np.argmax(np.isnan(numbers).sum(axis=0)))]
        raise InputError(
            f"{name} has no row without missing values; column {worst!r} misses most of them"
        )
    n_dropped = int(np.sum(~complete))
    if n_dropped:
        note(f"{n_dropped:,} of {len(table):,} rows have missing values and were left out")
    numbers = numbers[complete]
    X = pd.DataFrame(numbers[:, :-1], columns=[str(feature) for feature in features])
    return Table(X, np.ascontiguousarray(numbers[:, -1]), name, target, n_dropped)


def split_table(
    table: Table, test_fraction: float, seed: int, max_rows: int
) -> tuple[Table, Table | None]:
    """Training rows and held-out rows, chosen at random."""
    if not 0 <= test_fraction < 1:
        raise InputError(f"--test-fraction must be at least 0 and below 1; got {test_fraction}")
    if max_rows < MIN_ROWS:
        raise InputError(f"--max-rows must be at least {MIN_ROWS}; got {max_rows}")
    n_test = round(test_fraction * len(table))
    if test_fraction > 0:
        n_test = max(n_test, 2)
    if len(table) - n_test < MIN_ROWS:
        raise InputError(
            f"{table.source} has {len(table)} complete rows, too few to train on "
            f"{MIN_ROWS} and hold out {n_test}"
        )
    order = np.random.default_rng(seed).permutation(len(table))
    train, test = order[n_test:], order[:n_test]
    if len(train) > max_rows:
        note(
            f"training on a random {max_rows:,} of {len(train):,} rows; --max-rows {len(train)} "
            "takes all of them"
        )
        train = train[:max_rows]
    return table.take(np.sort(train)), table.take(np.sort(test)) if n_test else None


def make_estimator(choice: ModelChoice, device: Device = Device.AUTO) -> BaseEstimator:
    """The estimator that ``--model`` stands for."""
    flagship = getattr(bandfall, "BandfallRegressor", None)
    if choice is ModelChoice.KRR_CV:
        estimator: Any = make_pipeline(StandardScaler(), KernelRidgeCV(n_jobs=-1))
    elif choice is ModelChoice.AUTO and flagship is not None:
        estimator = flagship()
    else:
        estimator = make_pipeline(StandardScaler(), KernelDescentRegressor())
    return _on_device(estimator, device)


def _on_device(estimator: Any, device: Device) -> Any:
    last = last_step(estimator)
    if "device" not in last.get_params():
        if device is Device.CUDA:
            raise InputError(f"--device cuda: {type(last).__name__} computes on the CPU only")
        return estimator
    if device is Device.CUDA:
        try:
            check_device(device.value)
        except (ValueError, ImportError) as error:
            raise InputError(f"--device cuda: {error}") from None
    # Without a GPU, NumPy is meant: torch on the CPU is not needed.
    last.set_params(device=None if device is Device.CPU else device.value)
    return estimator


def last_step(estimator: Any) -> Any:
    """The estimator itself, or the one at the end of a pipeline."""
    return estimator[-1] if isinstance(estimator, Pipeline) else estimator


@dataclass(frozen=True)
class Trained:
    """A fitted estimator, how long it took, and whether it was stopped early by Ctrl-C."""

    estimator: Any
    seconds: float
    interrupted: bool


def train(estimator: Any, table: Table) -> Trained:
    """Fit with a bar; Ctrl-C ends training after the current stage and keeps what is there.

    A model that tunes itself ends its search instead and fits the best it has found.
    """
    start = time.monotonic()
    model = last_step(estimator)
    if not hasattr(model, "set_callbacks"):
        estimator.fit(table.X, table.y)
        return Trained(estimator, time.monotonic() - start, False)
    with GentleInterrupt() as interrupt, Bar("fit", 1.0) as bar:
        model.set_callbacks(_Watch(bar, interrupt))
        try:
            estimator.fit(table.X, table.y)
        finally:
            model.set_callbacks()
    return Trained(estimator, time.monotonic() - start, interrupt.asked)


class _Watch:
    """A scikit-learn callback: moves the bar, and ends training on request.

    A path tells by its R² how far it is. A search does not know how many trials it will make;
    their usual number stands in.
    """

    def __init__(self, bar: Bar, interrupt: GentleInterrupt):
        self._bar, self._interrupt = bar, interrupt
        self._n_tasks = 0

    def setup(self, estimator: Any, context: Any) -> None: ...

    def teardown(self, estimator: Any, context: Any) -> None: ...

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None: ...

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, fitted_estimator: Any = None
    ) -> bool:
        self._n_tasks += 1
        path = getattr(fitted_estimator, "path_", None)
        if path is not None:
            self._bar.update(path.r2 / getattr(estimator, "max_r2", 1.0))
        else:
            self._bar.update(self._n_tasks / max(USUAL_TRIALS, self._n_tasks + 1))
        return self._interrupt.asked


def scores(y: np.ndarray, predictions: np.ndarray) -> dict[str, float]:
    """R², mean absolute and root mean squared error."""
    return {
        "r2": float(r2_score(y, predictions)) if len(y) > 1 else float("nan"),
        "mae": float(mean_absolute_error(y, predictions)),
        "rmse": float(root_mean_squared_error(y, predictions)),
    }


def model_notes(train_table: Table, test_table: Table | None, seconds: float) -> dict[str, Any]:
    """What a model file keeps for `inspect` and `report` beside the model."""
    notes: dict[str, Any] = {
        "target": train_table.target,
        "source": Path(train_table.source).name,
        "n_dropped": train_table.n_dropped,
        "seconds": seconds,
        "train": {"X": train_table.X.to_numpy(), "y": train_table.y},
    }
    if test_table is not None:
        notes["test"] = {"X": test_table.X.to_numpy(), "y": test_table.y}
    return notes
