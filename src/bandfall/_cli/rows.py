"""Rows for models: columns that a command names, read as numbers, training and held-out rows.

Errors name the column and the row; rows are counted from 1, without the header.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from sklearn.model_selection import GroupShuffleSplit

from bandfall._cli.options import MIN_ROWS, Choices
from bandfall._cli.read_table import at_levels, name_of, read_file
from bandfall._cli.terminal import InputError, counted, note
from bandfall._targets.scores import unseen_words
from bandfall._typing import Weights
from bandfall.report._columns import kind_of
from bandfall.tables import _text as text
from bandfall.tables import read_table
from bandfall.tables._kinds import prepare_table

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
    choices: Choices
    style: str = "point"  # of numbers that fit both styles
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

    def __len__(self) -> int:
        return len(self.y)


def load_table(source: str, choices: Choices) -> Dataset:
    """Features and targets of a file; rows without a target are left out and counted."""
    choices.check()
    table, style = read_file(source, choices.text, choices.missing)
    name, as_text = name_of(source), choices.text
    require_columns(table, [*choices.named, *as_text], name)
    features = [column for column in table.columns if column not in choices.no_features]
    if not features:
        raise InputError(f"{name} has no column besides the target {choices.target!r}")
    columns = [table[one] for one in choices.targets]
    with text.usual_style(style):
        targets = targets_of(columns, name, classes=_are_classes(choices.task, columns))
    known = ~pd.isna(targets).any(axis=1)
    n_without = int(np.sum(~known))
    if not known.any():
        raise InputError(f"no row of {name} has a value in the target {choices.target!r}")
    if n_without:
        note(f"{n_without:,} of {len(table):,} rows have no target and are left out")
    table, categories = table[known], dict.fromkeys(set(as_text) & set(features), "category")
    return Dataset(
        X=table[features].astype(categories),
        y=np.ascontiguousarray(targets[known, 0] if len(columns) == 1 else targets[known]),
        source=name,
        choices=choices,
        style=style,
        weights=None if choices.weights is None else numbers_of(table[choices.weights], name),
        time=None if choices.time is None else _times(table[choices.time], name),
        group=None if choices.group is None else _groups(table[choices.group]),
        n_without_target=n_without,
    )


def targets_of(columns: list[pd.Series], name: str, *, classes: bool) -> np.ndarray:
    """Targets (n, k): numbers, or classes as text; NaN or None for missing values."""
    if not classes:
        return np.stack([target_numbers(column, name) for column in columns], axis=1)
    form = "{:.15g}".format if kind_of(columns[0]) == "number" else str
    labels = columns[0].astype(object).map(form, na_action="ignore")
    return labels.where(labels.notna(), None).to_numpy(object)[:, None]


def _are_classes(task: str, targets: list[pd.Series]) -> bool:
    """Whether a table is trained on classes; notes what ``--task auto`` decided."""
    if task == "regression" or (task == "auto" and len(targets) > 1):
        return False
    target, known = targets[0], targets[0].dropna()
    kind, n_levels, n_rows = kind_of(target), int(known.nunique()), len(known)
    if task == "classification":
        if len(targets) > 1:
            raise InputError("--task classification takes one --target")
        if n_levels > max(_MOST_CLASSES, n_rows // 2):  # training would take too long
            raise InputError(
                f"--task classification: {target.name!r} has {n_levels:,} different values in "
                f"{n_rows:,} rows, too many to be classes"
            )
        return True
    if kind in ("text", "boolean"):
        most = min(max(_MOST_CLASSES, n_rows // _ROWS_PER_CLASS), n_rows - 1)  # names differ
        few = 2 <= n_levels <= most and not (kind == "text" and _reads_as_numbers(known))
        if few:
            note(f"{target.name!r} has {n_levels} {kind} values: training a classifier")
        return few
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


def only_numbers(table: Dataset) -> Dataset:
    """The complete rows of a numeric table, for models that need them."""
    for name, column in table.X.items():
        if kind_of(column) not in ("number", "boolean"):
            raise InputError(
                f"column {name!r} of {table.source} does not hold plain numbers, which --model "
                "kgdd needs: use --model auto, or leave it out with --drop"
            )
    complete = table.X.notna().all(axis=1).to_numpy()
    n_dropped = int(np.sum(~complete))
    if n_dropped:
        note(
            f"{n_dropped:,} of {len(table):,} rows have missing values and are left out; "
            "--model auto accepts missing values"
        )
    complete_rows = table.take(np.flatnonzero(complete))
    return replace(complete_rows, X=complete_rows.X.astype(np.float64), n_dropped=n_dropped)


def split_table(table: Dataset) -> tuple[Dataset, Dataset | None]:
    """Training rows, at most `max_rows`, and rows held out at random, by group or by time."""
    test_fraction, max_rows = table.choices.test_fraction, table.choices.max_rows
    n_test = max(round(test_fraction * len(table)), 2) if test_fraction > 0 else 0
    if len(table) - n_test < MIN_ROWS:
        raise InputError(
            f"{table.source} has {counted(len(table), 'row')} that can be used, too few to train "
            f"on {MIN_ROWS} and hold out {n_test}"
        )
    order = np.random.default_rng(table.choices.seed).permutation(len(table))
    held_out = _held_out(table, order, n_test)
    train, test = order[~held_out[order]], order[held_out[order]]
    if max_rows is not None and len(train) > max_rows:
        note(
            f"training on a random {max_rows:,} of {len(train):,} rows; use --max-rows "
            f"{len(train)} for all of them"
        )
        train = train[:max_rows]
    rows, scored = table.take(np.sort(train)), table.take(np.sort(test)) if n_test else None
    if scored is not None and scored.weights is not None and not scored.weights.any():
        raise InputError(
            f"column {table.choices.weights!r} of {table.source} gives all {n_test} held-out rows "
            "the weight 0; hold out others, with another --seed or without --time"
        )
    if scored is not None and table.has_classes and set(scored.y) - set(rows.y):
        note(unseen_words(scored.y, np.unique(rows.y), "held-out rows"))
    return rows, scored


def _held_out(table: Dataset, order: np.ndarray, n_test: int) -> np.ndarray:
    """Which rows are held out, about `n_test` of them; groups and equal times stay together."""
    choices, held_out = table.choices, np.zeros(len(table), dtype=bool)
    held_out[order[:n_test]] = True
    if n_test == 0 or (table.time is None and table.group is None):
        return held_out
    if table.time is not None:
        cut = np.sort(table.time)[-n_test]
        late, later = table.time >= cut, table.time > cut
        # Rows at the cut belong to the part that brings the number closer to `n_test`.
        held_out = later if n_test - later.sum() < late.sum() - n_test else late
    elif table.group is not None and np.ptp(table.group) > 0:
        splitter = GroupShuffleSplit(1, test_size=choices.test_fraction, random_state=choices.seed)
        held_out = np.isin(np.arange(len(table)), next(splitter.split(order, None, table.group))[1])
    else:
        held_out[:] = False
    if held_out.sum() < 2 or np.sum(~held_out) < MIN_ROWS:
        raise InputError(
            f"column {choices.time or choices.group!r} of {table.source} has too few different "
            f"values to hold out {n_test} of {len(table)} rows"
        )
    return held_out


def require_columns(table: pd.DataFrame, columns: list[str], name: str) -> None:
    """Raise InputError unless the table has all `columns`."""
    missing = [column for column in columns if column not in table.columns]
    if not missing:
        return
    known = [str(column) for column in table.columns]
    plain = missing[0].strip().casefold()
    close = [column for column in known if column.casefold() == plain]
    close = close or difflib.get_close_matches(missing[0], known, 1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    there = ", ".join(known[:10]) + (", …" if len(known) > 10 else "")
    raise InputError(f"{name} has no column {', '.join(map(repr, missing))}{hint} (has: {there})")


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
    classes = 2 * column.nunique() <= column.count()
    hint = "; for classes, use --task classification" if classes else ""
    values = numbers_of(column, name, hint)
    refuse(np.isinf(values), column, name, "an infinite value")
    return values


def _times(column: pd.Series, name: str) -> np.ndarray:
    """Numbers that order rows in time, from numbers, dates, or dates written as text."""
    read = prepare_table(read_table(column.to_frame()), warn=False).columns[0]
    if read.kind not in ("number", "datetime"):
        doubtful = text.is_ambiguous_date(read.levels)
        wrong = "dates whose day and month are in doubt" if doubtful else repr(str(column.iloc[0]))
        raise InputError(
            f"column {column.name!r} of {name} has {wrong}; --time needs numbers, or dates as "
            "2024-12-31"
        )
    values = np.asarray(read.values, dtype=np.float64)
    refuse(np.isnan(values), column, name, "no value", "; --time needs one in every row")
    return values


def numbers_of(column: pd.Series, name: str, hint: str = "") -> np.ndarray:
    """A column as numbers, NaN for missing values; text is read as by the estimators."""
    kind = kind_of(column)
    if kind in ("number", "boolean"):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    levels = [str(level) for level in column.dropna().unique()]
    style = text.style_of("number", levels) or "point"
    for level in levels:
        if kind != "text" or not (text.is_number(level, style) or text.is_gap(level)):
            shown = level if len(level) <= 30 else level[:27] + "…"
            wrong = column.map(str).to_numpy() == level
            refuse(wrong, column, name, repr(shown), f", where a number should be{hint}")
    return at_levels(column, text.read(levels, style)).to_numpy(dtype=np.float64)
