"""Solvers by name."""

from __future__ import annotations

from bandfall.descent._euler import Euler
from bandfall.descent._fit import Solver
from bandfall.descent._flow import Flow
from bandfall.descent._schedules import MIN_SHRINK

_NAMED: dict[str, type[Flow] | type[Euler]] = {"flow": Flow, "euler": Euler}


def get_solver(solver: str | Solver) -> Solver:
    """A default `Flow` for "flow" or `Euler` for "euler"; a solver is returned unchanged."""
    if isinstance(solver, str):
        if solver not in _NAMED:
            raise ValueError(
                f"solver={solver!r} is unknown; allowed: 'flow', 'euler', Flow(...), Euler(...)"
            )
        return _NAMED[solver]()
    if not hasattr(solver, "run"):
        raise TypeError(f"solver={solver!r} must be 'flow', 'euler', or a solver with a method run")
    if not solver.shrink >= MIN_SHRINK:
        raise ValueError(
            f"solver={solver!r} must shrink the bandwidth by at least {MIN_SHRINK:g} at a time"
        )
    return solver
