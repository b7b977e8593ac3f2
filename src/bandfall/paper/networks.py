"""Figure 3: neural networks of increasing complexity, the last with a controlled tangent kernel."""

from __future__ import annotations

from bandfall.paper.experiment import Data, Experiment, Outcome, Results, Size, Task


def _tasks(data: Data, size: Size) -> list[Task]:
    return []


def _summarise(results: Results, size: Size) -> Outcome:
    return Outcome()


FIGURE3 = Experiment(
    "figure3",
    "Neural networks of increasing complexity, the fifth with a controlled tangent kernel",
    _tasks,
    _summarise,
    requires=("matplotlib", "torch"),
)
