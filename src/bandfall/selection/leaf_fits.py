"""Training the leaves of a member: here, or on workers, one a task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bandfall.backends import HOST
from bandfall.backends.workers import own_backend
from bandfall.descent import Path, Status
from bandfall.metric import scaled
from bandfall.selection.candidates import Trial
from bandfall.selection.deadline import PATH, Deadline
from bandfall.selection.jobs import parallel_map
from bandfall.selection.leaves import Divided, FittedLeaf, LeafStore, fit_leaf
from bandfall.selection.leaves_joined import held_out_predictions, path_of_leaves, root_for_columns
from bandfall.selection.logistic import in_its_loss
from bandfall.selection.parts import Part
from bandfall.selection.paths import fit_member_path, needs_digits
from bandfall.selection.work import FINAL_FITS

SMALLEST_LEAF = 2000  # rows: smaller leaves save little time
_HARDLY_ANY = 200  # rows of a leaf after an interrupt: its model is thrown away
CALLS_PER_THREAD = 4  # of workers, under way at a time: more may join


class Fitted(NamedTuple):
    """Metric and path of a member, and what its leaves predicted for rows not seen (n, k)."""

    root: np.ndarray
    path: Path
    held_out: np.ndarray | None = None


def fit_leaves(
    part: Part,
    trial: Trial,
    Z: np.ndarray,
    root: np.ndarray,
    deadline: Deadline,
    interrupted: Callable[[], bool],
    store: LeafStore | None = None,
) -> Fitted:
    """Metric and path over the training rows of a part, leaf by leaf, on workers if there are any.

    Once time is over, the leaves that are left are trained on some of their rows; once
    `interrupted` says yes, on very few, and the status of the path says so.
    """
    rows = part.rows
    divided = Divided.of(part, trial, scaled(Z, root))
    partition, leaves = divided.leaves(rows.leaf_rows)
    entries = PATH * rows.final_share(len(part)) * len(part) ** 2
    entries /= sum(len(numbers) ** 2 for numbers in leaves)
    helpers = rows.backend.helpers(LeafTrainer(rows.backend.budget))

    def one(numbers: np.ndarray) -> FittedLeaf:
        share = entries * len(numbers) ** 2
        if deadline.left <= 0.0:
            most = _HARDLY_ANY if interrupted() else SMALLEST_LEAF
            numbers = numbers[:: -(-len(numbers) // most)]
            deadline.give_up(f"some leaves were trained on at most {most:,} of their rows")
        with deadline.work.task(FINAL_FITS, share):
            leaf = divided.take(numbers)
            key = "" if store is None else leaf.key(trial)
            found = None if store is None else store.load(key)
            if found is not None:
                return found
            if helpers is None:
                found = train_leaf(leaf, trial, interrupted)
            else:
                found = helpers.call([("leaf", (replace(leaf, backend=HOST), trial))])[0]
            if store is not None and found.path.status is not Status.INTERRUPTED:
                store.save(key, found)
            return found

    try:
        n_jobs = None if helpers is None else CALLS_PER_THREAD * max(1, len(helpers.threads()))
        fitted = parallel_map(one, leaves, n_rows=max(map(len, leaves)), n_jobs=n_jobs)
    finally:
        if helpers is not None:
            helpers.close()
    held_out = held_out_predictions(partition, divided.X, fitted)
    places = rows.views[trial.candidate.encoding].places
    root, X = as_encoded(root, Z, places)
    path = path_of_leaves(X, divided.y, divided.weights, partition, fitted, places)
    return Fitted(root, path, held_out)


def train_leaf(
    leaf: Divided, trial: Trial, interrupted: Callable[[], bool] = lambda: False
) -> FittedLeaf:
    """Stop, metric and path of one leaf."""

    def fit(leaf: Divided, X: np.ndarray, trial: Trial) -> Path:
        rows, numbers = leaf.rows(X), np.arange(len(leaf))
        path = fit_member_path(rows, numbers, X, trial, lambda _: interrupted())
        if needs_digits(path, trial):
            X = X.astype(np.float64)
            path = fit_member_path(rows, numbers, X, trial, lambda _: interrupted())
        return in_its_loss(path, trial, leaf.classes)

    return fit_leaf(leaf, trial, fit)


class LeafTrainer:
    """What a worker holds to train leaves, whose rows come with each call: nothing.

    Parameters
    ----------
    budget : int
        Bytes for kernel matrices.
    """

    nbytes = 0

    def __init__(self, budget: int):
        self.budget = budget

    def leaf(self, leaf: Divided, trial: Trial, _: None = None) -> FittedLeaf:
        """One leaf, trained."""
        return train_leaf(replace(leaf, backend=own_backend(self.budget, len(leaf))), trial)


def as_encoded(
    root: np.ndarray, Z: np.ndarray, places: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Metric and scaled rows for columns that stand at `places` of Z.

    Rows are scaled anew: stages of bandwidth zero know them by the bits that `predict` finds.
    """
    root = root_for_columns(root, places)
    return root, scaled(np.take(Z, places, axis=1), root)
