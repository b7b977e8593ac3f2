"""The model of the self-tuning estimators: a weighted average of paths over encoded tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeGuard, TypeVar

import numpy as np

from bandfall.backends import HOST, Backend
from bandfall.checks import ShapeChecker, check_instance, check_real
from bandfall.descent import Path
from bandfall.encoding import Schema, Table, TableEncoder, encode_all
from bandfall.metric import scaled, slopes
from bandfall.novelty import nearest_distances
from bandfall.partitioned import in_step
from bandfall.selection.members import Member
from bandfall.selection.parts import Rows
from bandfall.targets import Numbers, Target

__all__ = ["Average"]

_ROUNDING = 1e-6  # of the sum of weights
Kind = TypeVar("Kind", bound=Target, covariant=True)
Columns = Mapping[str, np.ndarray]  # rows under every encoding, by its name


@dataclass(frozen=True, eq=False)
class Average(Generic[Kind]):
    """A weighted sum of members, each a path over columns of its own encoding and metric.

    Attributes
    ----------
    members : tuple of Member
        Heaviest first; weights have sum one.
    encoders : dict of str to TableEncoder
        By name of the encoding; those that members use, and no others.
    target : Target
        From outputs (m, k), which are the sum, to answers.
    n_rows : int
        Training rows that count; members rest on fewer if there was no time for all.
    novelty_scale : float
        Distance that 99 % of rows like those in training stay within, in the metric of the
        `plainest` member.
    """

    members: tuple[Member, ...]
    encoders: Mapping[str, TableEncoder]
    target: Kind
    n_rows: int
    novelty_scale: float = 1.0

    def __post_init__(self) -> None:
        check_instance("members", self.members, tuple)
        check_instance("encoders", self.encoders, dict)
        if not self.members:
            raise ValueError("it has no members")
        for encoder in self.encoders.values():
            check_instance("an encoder", encoder, TableEncoder)
        schemas = [encoder.schema for encoder in self.encoders.values()]
        if len({(schema.width, str(schema.names)) for schema in schemas}) > 1:
            raise ValueError("the names of columns differ between encoders")
        for member in self.members:
            check_instance("a member", member, Member)
            self._check_columns(member)
        if abs(math.fsum(member.weight for member in self.members) - 1.0) > _ROUNDING:
            raise ValueError("the weights of its members do not sum to one")
        if {member.candidate.encoding for member in self.members} != set(self.encoders):
            raise ValueError("encoders do not fit its members")
        check_instance("n_rows", self.n_rows, int)
        check_real("n_rows", self.n_rows, 1)
        check_real("novelty_scale", self.novelty_scale, 1e-300, 1e300)

    def _check_columns(self, member: Member) -> None:
        encoder = self.encoders.get(member.candidate.encoding)
        if encoder is None:
            raise ValueError(f"a member has no encoder named {member.candidate.encoding!r}")
        if encoder.width != member.path.X.shape[1]:
            raise ValueError("the columns of an encoder do not fit the path of a member")
        shapes = ShapeChecker(k=self.target.n_columns)  # members may rest on different rows
        shapes("the residual of a member", member.path.residual, "n k")

    def __len__(self) -> int:
        """Most training rows that a member rests on."""
        return max(len(member.path.X) for member in self.members)

    @property
    def schema(self) -> Schema:
        """What columns of tables are taken for."""
        return next(iter(self.encoders.values())).schema

    @property
    def complete(self) -> bool:
        """Whether the heaviest member rests on all training rows."""
        return self.n_rows == len(self.heaviest.path.X)

    @property
    def heaviest(self) -> Member:
        """The member of most weight."""
        return self.members[0]

    @property
    def plainest(self) -> Member:
        """The heaviest member whose encoding keeps distances beyond the training range."""
        plain = [one for one in self.members if one.candidate.encoding == "standard"]
        return (plain or self.members)[0]

    def encode(self, table: Table) -> dict[str, np.ndarray]:
        """Columns of new rows under every encoding; the table is read and checked once."""
        return encode_all(self.encoders, table)

    def rows_of(self, member: Member, columns: Columns) -> np.ndarray:
        """Encoded columns as rows of a member's path."""
        return scaled(columns[member.candidate.encoding], member.root)

    def evaluate(self, columns: Columns, *, backend: Backend = HOST) -> np.ndarray:
        """Outputs at encoded rows, (m, k) in float64."""
        outputs = [
            member.weight
            * member.path.evaluate(self.rows_of(member, columns), backend=backend).astype(
                np.float64
            )
            for member in self.members
        ]
        return np.sum(outputs, axis=0)

    def staged(self, columns: Columns, *, backend: Backend = HOST) -> Iterator[np.ndarray]:
        """The same after every stage; the member with the most stages sets the pace."""
        staged = [
            member.path.evaluate_staged(self.rows_of(member, columns), backend=backend)
            for member in self.members
        ]
        n_stages = max(map(len, staged))
        steps = [in_step(len(stages), n_stages) for stages in staged]
        for places in zip(*steps, strict=True):
            outputs = [
                member.weight * stages[place].astype(np.float64)
                for member, stages, place in zip(self.members, staged, places, strict=True)
            ]
            yield np.sum(outputs, axis=0)

    def gradient(self, table: Table, columns: Columns, *, backend: Backend = HOST) -> np.ndarray:
        """Derivatives of outputs by features, (m, d, k); NaN for columns without numbers."""
        total = np.zeros((len(table), self.schema.width, self.target.n_columns))
        for member in self.members:
            encoder = self.encoders[member.candidate.encoding]
            rows = self.rows_of(member, columns)
            inner = member.path.gradient(rows, backend=backend).astype(np.float64)
            inner = scaled(inner.swapaxes(1, 2), member.root).swapaxes(1, 2)
            inner *= encoder.jacobian(table)[:, :, None]
            for column, source in enumerate(encoder.sources):
                total[:, source] += member.weight * inner[:, column]
        return total

    def novelty(
        self, columns: Columns, *, enough: float | None = None, backend: Backend = HOST
    ) -> np.ndarray:
        """How far rows are from the training rows, in units of `novelty_scale`, shape (m,).

        Where it is at most `enough`, anything up to that may come out, in half the time.
        """
        path = self.plainest.path
        nearest = nearest_distances(
            self.rows_of(self.plainest, columns),
            path.X,
            enough=None if enough is None else enough * self.novelty_scale,
            geometry=path.kernel.geometry,
            backend=backend,
        )
        return nearest / self.novelty_scale

    def novelty_among(self, numbers: np.ndarray, *, backend: Backend = HOST) -> np.ndarray:
        """Novelty of training rows among all others, shape (m,); 0 if it cannot be known."""
        path = self.plainest.path
        if len(path.X) < 2 or not self.complete:
            return np.zeros(len(numbers))
        nearest = nearest_distances(
            path.X[numbers], path.X, own=numbers, geometry=path.kernel.geometry, backend=backend
        )
        return nearest / self.novelty_scale

    def importances(self, rows: Rows, ended: Callable[[], bool]) -> np.ndarray:
        """Shares of the features in the size of slopes, in deviations of encoded columns (d,)."""
        shares = np.zeros(self.schema.width)
        for member in self.members:
            encoding, path = member.candidate.encoding, member.path
            steepness = slopes(
                path.model, path.scale, member.root, backend=rows.backend, ended=ended
            )
            squares = steepness**2 * rows.views[encoding].variances
            shares += member.weight * np.bincount(
                self.encoders[encoding].sources, weights=squares, minlength=len(shares)
            )
        sizes = np.sqrt(shares)
        return sizes / sizes.sum() if sizes.sum() > 0 else sizes

    def with_paths(self, change: Callable[[Path], Path]) -> Average[Kind]:
        """The same with every member's path changed."""
        members = [replace(member, path=change(member.path)) for member in self.members]
        return replace(self, members=tuple(members))


def predicts_numbers(average: Average[Target]) -> TypeGuard[Average[Numbers]]:
    """Whether an average predicts numbers, which have intervals."""
    return isinstance(average.target, Numbers)
