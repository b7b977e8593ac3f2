"""Loading a table for training: roles of columns, training rows and held-out rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from bandfall._cli.classes import Task, are_classes, target_labels
from bandfall._cli.columns import (
    check_finite,
    check_plain,
    feature_numbers,
    require_columns,
    target_numbers,
    times,
    weight_numbers,
)
from bandfall._cli.read_table import Style, name_of, read_file
from bandfall._cli.terminal import InputError, counted, note
from bandfall._targets.scores import unseen_words
from bandfall._typing import Weights

MIN_ROWS = 4


@dataclass(frozen=True)
class Roles:
    """The roles that options give to columns; all other columns are features."""

    targets: list[str]
    drop: list[str] = field(default_factory=list)
    keep: list[str] = field(default_factory=list)  # not features, but copied into predictions
    weights: str | None = None
    time: str | None = None  # the latest rows by this column are held out
    group: str | None = None  # rows with the same value are held out together
    text: list[str] = field(default_factory=list)  # text even if it looks like numbers or dates
    missing: list[str] = field(default_factory=list)  # words that stand for a missing value

    @property
    def named(self) -> list[str]:
        """All columns that options name."""
        return [*self.decisive, *self.drop, *self.keep, *self.text]

    @property
    def decisive(self) -> list[str]:
        """Columns whose values training reads: targets, weights, time and group."""
        single = [one for one in (self.weights, self.time, self.group) if one is not None]
        return [*self.targets, *single]

    @property
    def no_features(self) -> set[str]:
        """Columns that a model does not see; time is a feature unless it is dropped."""
        single = {one for one in (self.weights, self.group) if one is not None}
        return {*self.targets, *self.drop, *self.keep, *single}

    def check(self) -> None:
        """Raise InputError if two roles contradict each other."""
        for target in self.targets:
            for option, columns in (
                ("--drop", self.drop),
                ("--keep", self.keep),
                ("--weights", [self.weights]),
                ("--group", [self.group]),
            ):
                if target in columns:
                    raise InputError(f"--target {target} is also in {option}")
        if len(set(self.targets)) < len(self.targets):
            raise InputError("--target names one column twice")
        if self.time is not None and self.group is not None:
            raise InputError("use --time-split or --group, not both")


@dataclass(frozen=True)
class Dataset:
    """Rows ready for training."""

    X: pd.DataFrame  # (n, d): features as read
    y: np.ndarray  # (n,) or (n, k)
    source: str
    roles: Roles
    style: Style = field(default_factory=Style)
    weights: Weights = None  # (n,)
    time: np.ndarray | None = None  # (n,)
    group: np.ndarray | None = None  # (n,)
    n_dropped: int = 0  # rows with missing features, which some models cannot use
    n_without_target: int = 0

    def take(self, rows: np.ndarray) -> Dataset:
        """Some of the rows."""
        return replace(
            self,
            X=self.X.iloc[rows],
            y=self.y[rows],
            weights=None if self.weights is None else self.weights[rows],
            time=None if self.time is None else self.time[rows],
            group=None if self.group is None else self.group[rows],
        )

    @property
    def has_classes(self) -> bool:
        """Whether the target is a class, not a number."""
        return self.y.dtype == object

    @property
    def target(self) -> str:
        """Names of the targets, for messages."""
        return ", ".join(self.roles.targets)

    def __len__(self) -> int:
        return len(self.y)


def load_table(
    source: str, roles: Roles, style: Style | None = None, task: Task = Task.REGRESSION
) -> Dataset:
    """Features and targets of a file; rows without a target are left out and counted."""
    roles.check()
    table, style = read_file(source, style, text=roles.text, missing=roles.missing)
    name = name_of(source)
    require_columns(table, roles.named, name)
    features = [column for column in table.columns if column not in roles.no_features]
    if not features:
        raise InputError(f"{name} has no column besides the target {', '.join(roles.targets)!r}")
    check_plain(table[features], name, features=True)
    check_plain(table[list(dict.fromkeys(roles.decisive))], name)
    columns = [table[one] for one in roles.targets]
    with style.as_usual():
        targets = targets_of(columns, name, classes=are_classes(task, columns))
    known = ~pd.isna(targets).any(axis=1)
    n_without = int(np.sum(~known))
    if not known.any():
        raise InputError(f"no row of {name} has a value in the target {', '.join(roles.targets)!r}")
    n_rows, table = len(table), table[known]
    check_finite(table[features], name)
    with style.as_usual():
        weights = None if roles.weights is None else weight_numbers(table[roles.weights], name)
    as_text = {column: "category" for column in roles.text if column in features}
    loaded = Dataset(
        X=table[features].astype(as_text),
        y=np.ascontiguousarray(targets[known, 0] if len(roles.targets) == 1 else targets[known]),
        source=name,
        roles=roles,
        style=style,
        weights=weights,
        time=None if roles.time is None else times(table[roles.time], name),
        group=None if roles.group is None else _groups(table[roles.group]),
        n_without_target=n_without,
    )
    if style.remarks:
        note(f"{name}: {style.remarks}")
    if n_without:
        note(f"{n_without:,} of {n_rows:,} rows have no target and are left out")
    return loaded


def targets_of(columns: list[pd.Series], name: str, *, classes: bool) -> np.ndarray:
    """Targets (n, k): numbers, or classes as text; NaN or None for missing values."""
    if classes:
        return target_labels(columns[0])[:, None]
    return np.stack([target_numbers(column, name) for column in columns], axis=1)


def _groups(column: pd.Series) -> np.ndarray:
    """Group numbers; every row without a group is a separate group."""
    codes = pd.factorize(column)[0]
    alone = codes < 0
    codes[alone] = len(codes) + np.arange(int(alone.sum()))
    return codes


def only_numbers(table: Dataset, choice: str) -> Dataset:
    """The complete rows of a numeric table, for models that need them."""
    remedy = (
        f"--model {choice} takes numbers only: use --model auto, or leave it out with --drop {{}}"
    )
    with table.style.as_usual():
        numbers = feature_numbers(table.X, table.source, remedy=remedy)
    complete = ~np.isnan(numbers).any(axis=1)
    if not complete.any():
        worst = table.X.columns[int(np.argmax(np.isnan(numbers).sum(axis=0)))]
        raise InputError(
            f"{table.source} has no row without missing values; most are missing in column "
            f"{worst!r}: use --model auto, which accepts missing values"
        )
    n_dropped = int(np.sum(~complete))
    if n_dropped:
        note(
            f"{n_dropped:,} of {len(table):,} rows have missing values and were left out; "
            "--model auto accepts missing values"
        )
    numeric = pd.DataFrame(numbers, columns=table.X.columns, index=table.X.index)
    rows = np.flatnonzero(complete)
    return replace(replace(table, X=numeric).take(rows), n_dropped=n_dropped)


def split_table(
    table: Dataset, test_fraction: float, seed: int, max_rows: int | None
) -> tuple[Dataset, Dataset | None]:
    """Training rows, at most `max_rows`, and rows held out at random, by group or by time."""
    if not 0 <= test_fraction < 1:
        raise InputError(f"--test-fraction must be at least 0 and below 1; got {test_fraction}")
    if max_rows is not None and max_rows < MIN_ROWS:
        raise InputError(f"--max-rows must be at least {MIN_ROWS}; got {max_rows}")
    n_test = round(test_fraction * len(table))
    if test_fraction > 0:
        n_test = max(n_test, 2)
    if len(table) - n_test < MIN_ROWS:
        raise InputError(
            f"{table.source} has {counted(len(table), 'row')} that can be used, too few to train "
            f"on {MIN_ROWS} and hold out {n_test}"
        )
    order = np.random.default_rng(seed).permutation(len(table))
    held_out = _held_out(table, order, n_test)
    train, test = order[~held_out[order]], order[held_out[order]]
    if max_rows is not None and len(train) > max_rows:
        note(
            f"training on a random {max_rows:,} of {len(train):,} rows; use --max-rows "
            f"{len(train)} for all of them"
        )
        train = train[:max_rows]
    rows, scored = table.take(np.sort(train)), table.take(np.sort(test)) if n_test else None
    _check_weights(rows, "training")
    _check_weights(scored, "held-out")
    if scored is not None and table.has_classes:
        strange = unseen_words(scored.y, np.unique(rows.y), "held-out rows")
        if strange:
            note(strange)
    return rows, scored


def _check_weights(part: Dataset | None, which: str) -> None:
    if part is not None and part.weights is not None and not part.weights.any():
        raise InputError(
            f"column {part.roles.weights!r} of {part.source} gives all {len(part):,} {which} rows "
            "the weight 0; hold out others, with another --seed or without --time-split"
        )


def _held_out(table: Dataset, order: np.ndarray, n_test: int) -> np.ndarray:
    """Which rows are held out, about `n_test` of them."""
    held_out = np.zeros(len(table), dtype=bool)
    if n_test == 0:
        return held_out
    if table.time is not None:
        return _latest(table, n_test)
    if table.group is None:
        held_out[order[:n_test]] = True
        return held_out
    # Take groups in random order while that brings the number of rows closer to `n_test`.
    _, group, sizes = np.unique(table.group, return_inverse=True, return_counts=True)
    chosen, n_chosen = np.zeros(len(sizes), dtype=bool), 0
    for one in dict.fromkeys(group[order]):
        if abs(n_chosen + sizes[one] - n_test) < abs(n_chosen - n_test):
            chosen[one], n_chosen = True, n_chosen + sizes[one]
    held_out = chosen[group]
    if n_chosen < 2 or len(table) - n_chosen < MIN_ROWS:
        raise InputError(
            f"column {table.roles.group!r} of {table.source} has {len(sizes)} groups, which cannot "
            f"be divided into {len(table) - n_test} rows to train on and {n_test} held out"
        )
    return held_out


def _latest(table: Dataset, n_test: int) -> np.ndarray:
    """The last rows in time; rows with equal times stay together."""
    assert table.time is not None
    ordered = np.sort(table.time)
    cut = ordered[len(ordered) - n_test]
    # Rows at the cut belong to the part that brings the number closer to `n_test`.
    n_from, n_after = int(np.sum(table.time >= cut)), int(np.sum(table.time > cut))
    late = table.time > cut if n_test - n_after < n_from - n_test else table.time >= cut
    if late.sum() < 2 or len(table) - late.sum() < MIN_ROWS:
        raise InputError(
            f"column {table.roles.time!r} of {table.source} has too few different times to hold "
            f"out the last {n_test} rows"
        )
    return late


def split_words(roles: Roles) -> str:
    """How rows were held out, in words."""
    if roles.time is not None:
        return f"the last by {roles.time}"
    return "chosen at random" if roles.group is None else f"whole groups of {roles.group}"
