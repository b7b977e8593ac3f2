"""All experiments by name, in the paper's order."""

from __future__ import annotations

from collections.abc import Sequence

from bandfall._paper.double_descent import DOUBLE_DESCENT
from bandfall._paper.experiment import Experiment
from bandfall._paper.figures import FIGURES
from bandfall._paper.tables import TABLES

_ALL = sorted((*DOUBLE_DESCENT, *FIGURES, *TABLES), key=lambda experiment: experiment.name)
EXPERIMENTS = {experiment.name: experiment for experiment in _ALL}


def select(names: Sequence[str]) -> list[Experiment]:
    """The experiments with these names, in the paper's order; all if there are no names."""
    unknown = [name for name in names if name not in EXPERIMENTS and name != "all"]
    if unknown:
        allowed = ", ".join([*EXPERIMENTS, "all"])
        raise ValueError(f"no experiment is called {unknown[0]!r}; allowed: {allowed}")
    chosen = names if names and "all" not in names else list(EXPERIMENTS)
    return [experiment for name, experiment in EXPERIMENTS.items() if name in chosen]
