"""All experiments by name, in the paper's order."""

from __future__ import annotations

from collections.abc import Sequence

from bandfall._paper.descriptions import TABLE1, TABLE3
from bandfall._paper.experiment import Experiment
from bandfall._paper.networks import FIGURE3
from bandfall._paper.real_curves import REAL_FIGURES
from bandfall._paper.shift import FIGURE2
from bandfall._paper.sine import SINE_FIGURES
from bandfall._paper.stages import FIGURE5
from bandfall._paper.tables import SCORE_TABLES

ALL = "all"

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in sorted(
        [
            *SINE_FIGURES,
            FIGURE2,
            FIGURE3,
            *REAL_FIGURES,
            FIGURE5,
            TABLE1,
            TABLE3,
            *(table.experiment() for table in SCORE_TABLES),
        ],
        key=lambda experiment: experiment.name,
    )
}


def select(names: Sequence[str]) -> list[Experiment]:
    """The experiments with these names, in the paper's order; all if there are no names.

    Examples
    --------
    >>> [experiment.name for experiment in select(["table2", "figure1", "table2"])]
    ['figure1', 'table2']
    """
    unknown = [name for name in names if name not in EXPERIMENTS and name != ALL]
    if unknown:
        allowed = ", ".join([*EXPERIMENTS, ALL])
        raise ValueError(f"no experiment is called {unknown[0]!r}; allowed: {allowed}")
    if not names or ALL in names:
        return list(EXPERIMENTS.values())
    return [experiment for name, experiment in EXPERIMENTS.items() if name in names]
