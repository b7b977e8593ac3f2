"""The model of the self-tuning estimators: a weighted average of paths over encoded tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from bandfall._checks import ShapeChecker, check_number
from bandfall._models.member import Member
from bandfall._models.metric import scaled, slopes
from bandfall._models.novelty import nearest_distances
from bandfall._products import HOST, Backend
from bandfall._targets import Target
from bandfall.descent import Path
from bandfall.descent._partition import in_step
from bandfall.tables import Schema, Table, TableEncoder
from bandfall.tables._encoder import encode_all

_ROUNDING = 1e-6  # allowed error of the sum of weights
Kind = TypeVar("Kind", bound=Target, covariant=True)
Columns = Mapping[str, np.ndarray]  # encoded rows, by name of the encoding


@dataclass(frozen=True, eq=False)
class Average(Generic[Kind]):
    """A weighted sum of members; each member is a path with its own encoding and metric."""

    members: tuple[Member, ...]  # heaviest first; the weights sum to one
    encoders: Mapping[str, TableEncoder]  # those of the members, by name of the encoding
    target: Kind  # turns outputs (m, k) into answers
    # Training rows with a positive weight. With a time limit, members may be trained on fewer.
    n_rows: int
    # 99 % of rows like the training rows are this near to one, in the metric of the `plainest`.
    novelty_scale: float = 1.0

    def __post_init__(self) -> None:
        if not self.members:
            raise ValueError("the average has no members")
        schemas = [encoder.schema for encoder in self.encoders.values()]
        if len({str((schema.names, schema.readings)) for schema in schemas}) > 1:
            raise ValueError("the names or kinds of columns differ between encoders")
        if abs(math.fsum(member.weight for member in self.members) - 1.0) > _ROUNDING:
            raise ValueError("the weights of the members do not sum to one")
        if {member.candidate.encoding for member in self.members} != set(self.encoders):
            raise ValueError("members and encoders have different encodings")
        for member in self.members:
            if self.encoders[member.candidate.encoding].width != member.path.X.shape[1]:
                raise ValueError("an encoder and the path of its member differ in width")
            shapes = ShapeChecker(k=self.target.n_columns)  # n may differ between members
            shapes("the residual of a member", member.path.residual, "n k")
        check_number("n_rows", self.n_rows, 1)
        check_number("novelty_scale", self.novelty_scale, 1e-300, 1e300)

    def __len__(self) -> int:
        """Largest number of training rows of a member."""
        return max(len(member.path.X) for member in self.members)

    @property
    def schema(self) -> Schema:
        """Names and kinds of the columns of tables."""
        return next(iter(self.encoders.values())).schema

    @property
    def complete(self) -> bool:
        """Whether the heaviest member was trained on all rows."""
        return self.n_rows == len(self.heaviest.path.X)

    @property
    def residual(self) -> np.ndarray | None:
        """Errors at all training rows (n, k); None if a member was trained on fewer."""
        if any(len(member.path.residual) != self.n_rows for member in self.members):
            return None
        residuals = [member.path.residual for member in self.members]
        return np.tensordot([member.weight for member in self.members], np.stack(residuals), 1)

    @property
    def heaviest(self) -> Member:
        """The member with the largest weight."""
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
        total = np.zeros((len(next(iter(columns.values()))), self.target.n_columns))
        for member in self.members:
            outputs = member.path.evaluate(self.rows_of(member, columns), backend=backend)
            total += member.weight * outputs.astype(np.float64)
        return total

    def staged(self, columns: Columns, *, backend: Backend = HOST) -> Iterator[np.ndarray]:
        """Outputs after every stage; the member with the most stages sets the pace."""
        staged = [
            member.path.evaluate_staged(self.rows_of(member, columns), backend=backend)
            for member in self.members
        ]
        n_stages = max(map(len, staged))
        if not n_stages:  # nothing was left to train
            yield self.evaluate(columns, backend=backend)
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

    def novelty(self, columns: Columns, *, backend: Backend = HOST) -> np.ndarray:
        """Distance to the nearest training row, in units of `novelty_scale`, shape (m,)."""
        path, rows = self.plainest.path, self.rows_of(self.plainest, columns)
        nearest = nearest_distances(rows, path.X, geometry=path.kernel.geometry, backend=backend)
        return nearest / self.novelty_scale

    def novelty_among(self, numbers: np.ndarray, *, backend: Backend = HOST) -> np.ndarray:
        """Novelty of training rows relative to all others, shape (m,); 0 if it is unknown."""
        path = self.plainest.path
        if len(path.X) < 2 or not self.complete:
            return np.zeros(len(numbers))
        nearest = nearest_distances(
            path.X[numbers], path.X, own=numbers, geometry=path.kernel.geometry, backend=backend
        )
        return nearest / self.novelty_scale

    def importances(
        self, variances: Columns, ended: Callable[[], bool], *, backend: Backend = HOST
    ) -> np.ndarray:
        """Relative root mean square slope along each feature (d,), per deviation of its columns.

        `variances` (width,) of the columns of every encoding are taken over all training rows.
        """
        shares = np.zeros(self.schema.width)
        for member in self.members:
            encoding, path = member.candidate.encoding, member.path
            steepness = slopes(path.model, path.scale, member.root, backend=backend, ended=ended)
            squares = steepness**2 * variances[encoding]
            shares += member.weight * np.bincount(
                self.encoders[encoding].sources, weights=squares, minlength=len(shares)
            )
        sizes = np.sqrt(shares)
        return sizes / sizes.sum() if sizes.sum() > 0 else sizes

    def with_paths(self, change: Callable[[Path], Path]) -> Average[Kind]:
        """A copy in which `change` was applied to every member's path."""
        members = tuple(replace(member, path=change(member.path)) for member in self.members)
        return replace(self, members=members)
