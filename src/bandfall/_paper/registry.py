"""All experiments by name, in the paper's order."""

from __future__ import annotations

from collections.abc import Sequence

from bandfall._paper.descriptions import DESCRIPTIONS
from bandfall._paper.double_descent import DOUBLE_DESCENT
from bandfall._paper.experiment import Experiment
from bandfall._paper.networks import FIGURE3
from bandfall._paper.score_tables import SCORE_TABLES
from bandfall._paper.shift import FIGURE2
from bandfall._paper.stages import FIGURE5

_ALL = (*DOUBLE_DESCENT, FIGURE2, FIGURE3, FIGURE5, *DESCRIPTIONS, *SCORE_TABLES)
EXPERIMENTS = {e.name: e for e in sorted(_ALL, key=lambda experiment: experiment.name)}


def select(names: Sequence[str]) -> list[Experiment]:
    """The experiments with these names, in the paper's order; all if there are no names."""
    unknown = [name for name in names if name not in EXPERIMENTS and name != "all"]
    if unknown:
        allowed = ", ".join([*EXPERIMENTS, "all"])
        raise ValueError(f"no experiment is called {unknown[0]!r}; allowed: {allowed}")
    chosen = names if names and "all" not in names else list(EXPERIMENTS)
    return [experiment for name, experiment in EXPERIMENTS.items() if name in chosen]
