"""Solvers by name, and the keywords that their settings were before."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from bandfall.descent.euler import Euler
from bandfall.descent.fit import Solver
from bandfall.descent.flow import Flow
from bandfall.schedules import MIN_SHRINK
from bandfall.warning import warn_caller

__all__ = ["get_solver", "replaced_settings", "with_settings", "without_old_settings"]

Function = TypeVar("Function", bound=Callable[..., Any])

_NAMED: dict[str, type[Flow] | type[Euler]] = {"flow": Flow, "euler": Euler}
# Keywords of `KernelDescentRegressor` and `floor_sweep` up to 0.1, gone after it.
OLD_SETTINGS = ("resolution", "step_size", "max_iter")


def get_solver(solver: str | Solver) -> Solver:
    """`Flow` for "flow" and `Euler` for "euler", with their defaults; a solver as it is."""
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


def with_settings(solver: str | Solver, settings: Mapping[str, Any]) -> str | Solver:
    """The solver with those of the settings that it has; the name itself where it has none."""
    made: Any = get_solver(solver)
    names = {field.name for field in fields(made)}
    own = {name: value for name, value in settings.items() if name in names}
    return replace(made, **own) if own else solver


def replaced_settings(
    owner: str, solver: str | Solver, settings: Mapping[str, Any]
) -> str | Solver:
    """`with_settings`, with a warning where settings were given as keywords of `owner`."""
    unknown = [name for name in settings if name not in OLD_SETTINGS]
    if unknown:
        raise TypeError(f"{owner} got an unexpected keyword argument {unknown[0]!r}")
    if not settings:
        return solver
    replaced = with_settings(solver, settings)
    given = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    warn_caller(
        f"{given} will be no parameters of {owner} from version 0.3 on: settings of the solver go "
        f"with it, here solver={replaced!r}",
        FutureWarning,
    )
    return replaced


def without_old_settings(function: Function) -> Function:
    """Leave the catch-all for old keywords out of what documentation and scikit-learn see."""
    signature = inspect.signature(function)
    named = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    function.__signature__ = signature.replace(parameters=named)  # type: ignore[attr-defined]
    return function
