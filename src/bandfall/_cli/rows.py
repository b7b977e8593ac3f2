"""Rows for models: columns that a command names, read as numbers, training and held-out rows.

Errors name the column and the row; rows are counted from 1, without the header.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import pandas as pd

from bandfall._cli.options import MIN_ROWS, Choices, Roles, Style
from bandfall._cli.read_table import name_of, read_file
from bandfall._cli.terminal import InputError, counted, note
from bandfall._targets.scores import unseen_words
from bandfall._typing import Weights
from bandfall.report._columns import kind_of
from bandfall.tables import _text as text
from bandfall.tables import read_table
from bandfall.tables._kinds import prepare_table
from bandfall.tables._table import LARGEST

Features: TypeAlias = pd.DataFrame | np.ndarray  # rows as an estimator takes them

# A text column with more levels than this, or with numbers among its levels, is assumed to hold
# numbers with typing errors.
_MOST_CLASSES = 20
_ROWS_PER_CLASS = 10  # a target with fewer rows per value than this is not offered as classes
_FEW_VALUES = 5  # a numeric target with at most this many values may be meant as classes


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
        by_row = {"y": self.y, "weights": self.weights, "time": self.time, "group": self.group}
        some = {name: one[rows] for name, one in by_row.items() if one is not None}
        return replace(self, X=self.X.iloc[rows], **some)

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
    source: str, roles: Roles, style: Style | None = None, task: str = "regression"
) -> Dataset:
    """Features and targets of a file; rows without a target are left out and counted."""
    roles.check()
    table, style = read_file(source, style)
    name, as_text = name_of(source), list(style.text)
    require_columns(table, [*roles.decisive, *roles.drop, *roles.keep, *as_text], name)
    features = [column for column in table.columns if column not in roles.no_features]
    if not features:
        raise InputError(f"{name} has no column besides the target {', '.join(roles.targets)!r}")
    check_plain(table[list(dict.fromkeys([*features, *roles.decisive]))], name)
    columns = [table[one] for one in roles.targets]
    with style.as_usual():
        targets = targets_of(columns, name, classes=_are_classes(task, columns))
    known = ~pd.isna(targets).any(axis=1)
    if not known.any():
        raise InputError(f"no row of {name} has a value in the target {', '.join(roles.targets)!r}")
    n_rows, table = len(table), table[known]
    n_without = n_rows - len(table)
    check_finite(table[features], name)
    with style.as_usual():
        weights = None if roles.weights is None else weight_numbers(table[roles.weights], name)
    categories = {column: "category" for column in as_text if column in features}
    loaded = Dataset(
        X=table[features].astype(categories),
        y=np.ascontiguousarray(targets[known, 0] if len(roles.targets) == 1 else targets[known]),
        source=name,
        roles=roles,
        style=style,
        weights=weights,
        time=None if roles.time is None else times(table[roles.time], name),
        group=None if roles.group is None else _groups(table[roles.group]),
        n_without_target=n_without,
    )
    if n_without:
        note(f"{n_without:,} of {n_rows:,} rows have no target and are left out")
    return loaded


def targets_of(columns: list[pd.Series], name: str, *, classes: bool) -> np.ndarray:
    """Targets (n, k): numbers, or classes as text; NaN or None for missing values."""
    if classes:
        return target_labels(columns[0])[:, None]
    return np.stack([target_numbers(column, name) for column in columns], axis=1)


def _are_classes(task: str, targets: list[pd.Series]) -> bool:
    """Whether a table is trained on classes; notes what ``--task auto`` decided."""
    if task == "classification" and len(targets) > 1:
        raise InputError("--task classification takes one --target")
    if task == "regression" or len(targets) > 1:
        return False
    target, known = targets[0], targets[0].dropna()
    kind, n_levels, n_rows = kind_of(target), int(known.nunique()), len(known)
    if task == "classification":
        if n_levels > max(_MOST_CLASSES, n_rows // 2):  # training would take too long
            raise InputError(
                f"--task classification: {target.name!r} has {n_levels:,} different values in "
                f"{n_rows:,} rows, too many to be classes"
            )
        return True
    if kind == "text":
        most = min(max(_MOST_CLASSES, n_rows // _ROWS_PER_CLASS), n_rows - 1)  # names differ
        few = 2 <= n_levels <= most and not _reads_as_numbers(known)
        if few:
            note(f"{target.name!r} has {n_levels} text values: training a classifier")
        return few
    if kind == "boolean":
        note(f"{target.name!r} has the values true and false: training a classifier")
        return n_levels == 2
    if 2 <= n_levels <= _FEW_VALUES < n_rows // _ROWS_PER_CLASS:
        note(
            f"{target.name!r} has only {n_levels} values and is predicted as a number; if they are "
            "classes, use --task classification"
        )
    return False


def _reads_as_numbers(column: pd.Series) -> bool:
    """Whether some text is a number, or all of it dates or numbers of one style."""
    levels = [str(level) for level in column.unique()]
    numbers = any(text.is_number(level, "point") for level in levels)
    return bool(numbers or text.style_of("number", levels) or text.style_of("datetime", levels))


def _groups(column: pd.Series) -> np.ndarray:
    """Group numbers; every row without a group is a separate group."""
    codes = pd.factorize(column)[0]
    return np.where(codes < 0, len(codes) + np.arange(len(codes)), codes)


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
    return replace(table, X=numeric, n_dropped=n_dropped).take(np.flatnonzero(complete))


def split_table(table: Dataset, choices: Choices) -> tuple[Dataset, Dataset | None]:
    """Training rows, at most `max_rows`, and rows held out at random, by group or by time."""
    test_fraction, max_rows = choices.test_fraction, choices.max_rows
    if not 0 <= test_fraction < 1:
        raise InputError(f"--test-fraction must be at least 0 and below 1; got {test_fraction}")
    n_test = max(round(test_fraction * len(table)), 2) if test_fraction > 0 else 0
    if len(table) - n_test < MIN_ROWS:
        raise InputError(
            f"{table.source} has {counted(len(table), 'row')} that can be used, too few to train "
            f"on {MIN_ROWS} and hold out {n_test}"
        )
    order = np.random.default_rng(choices.seed).permutation(len(table))
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
    if scored is not None:
        _check_weights(scored, "held-out")
        if table.has_classes and (
            strange := unseen_words(scored.y, np.unique(rows.y), "held-out rows")
        ):
            note(strange)
    return rows, scored


def _check_weights(part: Dataset, which: str) -> None:
    if part.weights is not None and not part.weights.any():
        raise InputError(
            f"column {part.roles.weights!r} of {part.source} gives all {len(part):,} {which} rows "
            "the weight 0; hold out others, with another --seed or without --time-split"
        )


def _held_out(table: Dataset, order: np.ndarray, n_test: int) -> np.ndarray:
    """Which rows are held out, about `n_test` of them; groups and equal times stay together."""
    held_out = np.zeros(len(table), dtype=bool)
    held_out[order[:n_test]] = True
    if n_test == 0 or (table.time is None and table.group is None):
        return held_out
    if table.time is not None:
        cut = np.sort(table.time)[-n_test]
        late, later = table.time >= cut, table.time > cut
        # Rows at the cut belong to the part that brings the number closer to `n_test`.
        held_out = later if n_test - later.sum() < late.sum() - n_test else late
        why = (
            f"column {table.roles.time!r} of {table.source} has too few different times to hold "
            f"out the last {n_test} rows"
        )
    else:
        assert table.group is not None
        _, group, sizes = np.unique(table.group, return_inverse=True, return_counts=True)
        held_out = _some_groups(group, sizes, order, n_test)
        why = (
            f"column {table.roles.group!r} of {table.source} has {len(sizes)} groups, which cannot "
            f"be divided into {len(table) - n_test} rows to train on and {n_test} held out"
        )
    if held_out.sum() < 2 or np.sum(~held_out) < MIN_ROWS:
        raise InputError(why)
    return held_out


def _some_groups(
    group: np.ndarray, sizes: np.ndarray, order: np.ndarray, n_test: int
) -> np.ndarray:
    """Rows of groups in random order, taken while they bring the number closer to `n_test`."""
    chosen, n_chosen = np.zeros(len(sizes), dtype=bool), 0
    for one in dict.fromkeys(group[order]):
        if abs(n_chosen + sizes[one] - n_test) < abs(n_chosen - n_test):
            chosen[one], n_chosen = True, n_chosen + sizes[one]
    return chosen[group]


def require_columns(table: pd.DataFrame, columns: list[str], name: str) -> None:
    """Raise InputError unless the table has all `columns`."""
    missing = [column for column in columns if column not in table.columns]
    if not missing:
        return
    known = [str(column) for column in table.columns]
    plain = missing[0].strip().casefold()
    close = [column for column in known if column.casefold() == plain]
    close = close or difflib.get_close_matches(missing[0], known, 1)
    hint = f"; did you mean {close[0]!r}?" if close and len(missing) == 1 else ""
    there = ", ".join(known[:10]) + (", …" if len(known) > 10 else "")
    plural = "columns" if len(missing) > 1 else "column"
    listed = ", ".join(map(repr, missing))
    raise InputError(f"{name} has no {plural} {listed}{hint} (it has: {there})")


def check_plain(table: pd.DataFrame, name: str) -> None:
    """Raise InputError if a column holds lists or other nested values."""
    for column in table.columns:
        values = table[column] if table[column].dtype == object else ()
        if any(isinstance(value, list | dict | np.ndarray) for value in values):
            raise InputError(
                f"column {column!r} of {name} holds lists or other nested values; split them into "
                f"columns, or leave it out with --drop {quoted(column)}"
            )


def check_finite(table: pd.DataFrame, name: str) -> None:
    """Raise InputError if a number is infinite."""
    for column in table.columns:
        if kind_of(table[column]) == "number":
            remedy = f"; leave the field empty, or the column out with --drop {quoted(column)}"
            refuse(
                np.isinf(_floats(table[column])), table[column], name, "an infinite value", remedy
            )


def refuse(wrong: np.ndarray, column: pd.Series, name: str, what: str, remedy: str = "") -> None:
    """Raise InputError with the first wrong row, if there is any."""
    if wrong.any():
        row = column.index[int(np.argmax(wrong))] + 1
        raise InputError(f"column {column.name!r} of {name} has {what} in row {row}{remedy}")


def quoted(name: object) -> str:
    """A name, quoted if a shell needs it."""
    return f"'{name}'" if set(' ()[]*?;&|$#!<>"\\') & set(str(name)) else str(name)


def target_numbers(column: pd.Series, name: str) -> np.ndarray:
    """A target as numbers, NaN for missing values."""
    check_plain(column.to_frame(), name)
    repeated = 2 * column.nunique() <= column.count()
    hint = "; for classes, use --task classification" if repeated else ""
    values = _numbers(column, name, f"a target must be a number{hint}")
    huge = np.abs(values) > LARGEST
    refuse(huge, column, name, f"a value beyond ±{LARGEST:g}", "; use a larger unit")
    return values


def target_labels(column: pd.Series) -> np.ndarray:
    """Classes as text, None for missing values; whole numbers without decimals."""
    form = "{:.15g}".format if kind_of(column) == "number" else str
    missing = column.isna().to_numpy()
    labels = [None if gone else form(value) for value, gone in zip(column, missing, strict=True)]
    return np.array(labels, dtype=object)


def feature_numbers(table: pd.DataFrame, name: str, *, remedy: str) -> np.ndarray:
    """All features as float64, NaN for missing values, for models that take only numbers.

    In `remedy`, "{}" stands for the name of a wrong column.
    """
    numbers = np.empty(table.shape)
    for j, column in enumerate(table.columns):
        numbers[:, j] = _numbers(table[column], name, remedy.replace("{}", quoted(column)))
    return numbers


def weight_numbers(column: pd.Series, name: str) -> np.ndarray:
    """Weights of rows: finite, none missing, none negative, not all zero."""
    weights = _numbers(column, name, "weights must be numbers")
    wrong = np.isnan(weights) | (weights < 0)
    first = weights[np.argmax(wrong)]
    what = "no value" if np.isnan(first) else f"{first:g}"
    refuse(wrong, column, name, what, "; weights must be 0 or more")
    if not weights.any():
        raise InputError(f"column {column.name!r} of {name} gives every row the weight 0")
    return weights


def times(column: pd.Series, name: str) -> np.ndarray:
    """Numbers that order rows in time, from numbers, dates, or dates written as text."""
    read = prepare_table(read_table(column.to_frame()), warn=False).columns[0]
    if read.kind not in ("number", "datetime"):
        doubtful = text.is_ambiguous_date(read.levels)
        wrong = "dates whose day and month are in doubt" if doubtful else repr(str(column.iloc[0]))
        raise InputError(
            f"column {column.name!r} of {name} has {wrong}; --time-split needs numbers, or dates "
            "as 2024-12-31"
        )
    values = np.asarray(read.values, dtype=np.float64)
    refuse(np.isnan(values), column, name, "no value", "; --time-split needs one in every row")
    return values


def _numbers(column: pd.Series, name: str, remedy: str) -> np.ndarray:
    """A column as numbers; text is read as by the estimators."""
    if (kind := kind_of(column)) in ("number", "boolean"):
        values = _floats(column)
        refuse(np.isinf(values), column, name, "an infinite value")
        return values
    check_plain(column.to_frame(), name)
    levels = [str(level) for level in column.dropna().unique()]
    style = text.style_of("number", levels) or "point"
    for level in levels:
        if kind != "text" or not (text.is_number(level, style) or text.is_gap(level)):
            shown = level if len(level) <= 30 else level[:27] + "…"
            wrong = np.array([str(value) == level for value in column])
            refuse(wrong, column, name, repr(shown), f", where a number should be; {remedy}")
    return _at_levels(column, text.read(levels, style))


def _floats(column: pd.Series) -> np.ndarray:
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def _at_levels(column: pd.Series, values: np.ndarray) -> np.ndarray:
    """The values of the levels of a column in each row, NaN for missing ones."""
    known = dict(zip(column.dropna().unique(), values, strict=True))
    return column.astype(object).map(known).to_numpy(dtype=np.float64, na_value=np.nan)
