"""Fits members to rows that stay on workers and are never gathered in one place.

A sample of the rows is enough for the search, the encodings and the cuts. Each worker encodes and
divides its blocks; the pieces of a leaf are sent to the worker that trains it. Only trained leaves
come back. Cuts depend on the sample, and a leaf depends on its rows: neither the number of workers
nor lost workers change a bit of the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bandfall._fitting.leaf_fits import (
    CALLS_PER_THREAD,
    Fitted,
    LeafTrainer,
    held_out_predictions,
    path_of_leaves,
)
from bandfall._fitting.leaves import Divided
from bandfall._fitting.members import members_of, root_of
from bandfall._models.member import FittedLeaf, Member
from bandfall._models.metric import scaled
from bandfall._products import HOST
from bandfall._search.averaging import Tuned
from bandfall._search.candidates import Trial
from bandfall._search.clock import FINAL_FITS, PATH, Clock
from bandfall._search.jobs import parallel_map
from bandfall._search.parts import Part
from bandfall._search.rows import Rows
from bandfall._typing import State, TableLike
from bandfall.descent._partition import Partition, partition_rows
from bandfall.tables import TableEncoder, read_table

if TYPE_CHECKING:  # this module imports Dask
    from bandfall._products.dask_tasks import Blocks

SAMPLE_ROWS = 50_000  # gathered for the search, encodings and cuts
_MARGIN = 0.9  # target size of leaves over leaf_rows: the sample predicts sizes only roughly


def sample_numbers(n_rows: int) -> np.ndarray:
    """Sorted row numbers of the sample."""
    order = np.random.RandomState(0).permutation(n_rows)
    return np.sort(order[: min(n_rows, SAMPLE_ROWS)])


@dataclass(frozen=True)
class Division:
    """Divides a block of rows into pieces of leaves."""

    encoder: TableEncoder
    root: np.ndarray  # (width, width) or (width,): the metric
    partition: Partition  # in the coordinates of the metric


def divide_block(block: TableLike, division: Division, rows: Divided) -> list[Divided]:
    """For each leaf, its rows of a block.

    A task for a worker. `rows` is the block without its columns X.
    """
    Z = division.encoder.transform(read_table(_readable(block)), warn=False)
    dtype = rows.X.dtype
    rows = replace(rows, X=scaled(Z.astype(dtype), division.root).astype(dtype))
    return [rows.take(own) for own in division.partition.rows_of_leaves(rows.X)]


def train_pieces(
    pieces: Sequence[Divided], trial: Trial, trainer: LeafTrainer, most: int
) -> tuple[FittedLeaf, np.ndarray, np.ndarray]:
    """Join the pieces of a leaf and train it on at most `most` rows: a task for a worker.

    Returns the leaf, and the numbers and columns of all its rows.
    """
    leaf = _joined(pieces)
    some = np.arange(0, len(leaf), -(-len(leaf) // most))
    return trainer.leaf(leaf.take(some), trial), leaf.numbers, leaf.X


def fit_remote_members(
    blocks: Blocks,
    everything: Rows,
    sample: Rows,
    encoders: Mapping[str, TableEncoder],
    tuned: Tuned,
    clock: Clock,
) -> tuple[list[Member], Tuned]:
    """Fit the chosen models to the rows of blocks, leaf by leaf; see `fit_members`.

    `everything` has targets, groups and classes of all rows, but views of the `sample` only. After
    the clock, leaves that have not begun are trained on few of their rows.
    """
    part = Part(everything, np.arange(len(everything)), np.arange(0))
    seen = Part(sample, np.arange(len(sample)), np.arange(0))
    n_ladders = PATH * everything.final_share(len(part))
    clock.expect(FINAL_FITS, n_ladders * len(tuned.members) * len(part) ** 2)
    fitted: dict[Trial, Fitted] = {}
    for trial, _ in tuned.members:
        start = clock.now()
        fitted[trial] = _fit_remote_member(
            blocks, part, seen, encoders, trial, root_of(tuned, seen, trial), clock
        )
        if clock.now() - start > clock.left:
            break
    return members_of(fitted, tuned, part, clock)


def _fit_remote_member(
    blocks: Blocks,
    part: Part,
    seen: Part,
    encoders: Mapping[str, TableEncoder],
    trial: Trial,
    root: np.ndarray,
    clock: Clock,
) -> Fitted:
    """Fit one member: metric, path of all leaves, and their predictions of the evidence."""
    candidate, rows = trial.candidate, part.rows
    Z, _ = seen.columns(candidate.encoding)
    leaf_rows = max(10, int(_MARGIN * rows.leaf_rows * len(seen) / len(part)))
    mixes = candidate.kernel.geometry.rotates
    partition = partition_rows(scaled(Z, root), leaf_rows, axes=not mixes)
    division = Division(encoders[candidate.encoding], root, partition)
    without = Divided.of(part, trial, np.zeros((len(part), 0), Z.dtype))
    borders = zip(blocks.starts[:-1], blocks.starts[1:], strict=True)
    without = replace(without, backend=HOST)  # a Dask client cannot be pickled
    own = [(division, without.take(np.arange(first, last))) for first, last in borders]
    held = blocks.each("divide", divide_block, own)
    trainer = LeafTrainer(rows.backend.budget)
    share = PATH * rows.final_share(len(part)) * len(part) ** 2 / partition.n_leaves

    def one(leaf: int) -> tuple[FittedLeaf, np.ndarray, np.ndarray]:
        most = len(part)
        if clock.left <= 0.0:
            most = rows.settings.smallest_leaf
            if rows.leaf_rows > most:
                clock.skip(f"some leaves were trained on at most {most:,} of their rows")
        with clock.task(FINAL_FITS, share):
            pieces = blocks.pieces(held, leaf)
            return blocks.result("leaf", train_pieces, pieces, trial, trainer, most)

    leaves = list(range(partition.n_leaves))
    n_jobs = CALLS_PER_THREAD * blocks.n_threads
    results = parallel_map(one, leaves, n_rows=rows.leaf_rows, n_jobs=n_jobs)
    X = np.zeros((len(part), Z.shape[1]), Z.dtype)
    for _, numbers, columns in results:
        X[numbers] = columns
    fitted = [leaf for leaf, _, _ in results]
    held_out = held_out_predictions(partition, X, fitted)
    return Fitted(root, path_of_leaves(replace(without, X=X), partition, fitted, trial), held_out)


def _readable(block: TableLike) -> TableLike:
    """Convert integer arrays to floats, for `read_table`."""
    if isinstance(block, np.ndarray) and block.dtype.kind in "iub":
        return block.astype(np.float64)
    return block


def _joined(pieces: Sequence[Divided]) -> Divided:
    """Concatenate the pieces of one leaf."""
    first = pieces[0]
    names = ("X", "y", "numbers", "evidence", "judging")
    arrays: State = {name: np.concatenate([getattr(one, name) for one in pieces]) for name in names}
    if first.classes is None:
        return replace(first, **arrays)
    labels = np.concatenate([one.classes.labels for one in pieces if one.classes is not None])
    return replace(first, **arrays, classes=replace(first.classes, labels=labels))
