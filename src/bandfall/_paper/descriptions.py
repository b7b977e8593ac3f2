"""Tables 1 and 3: the data sets and the kernels themselves."""

from __future__ import annotations

import math

import numpy as np

from bandfall._paper.experiment import (
    AGREES,
    DATASETS,
    DIFFERS,
    KERNELS,
    Claim,
    Comparison,
    Data,
    Entry,
    Experiment,
    Outcome,
    Size,
    Task,
)
from bandfall._paper.layout import TextTable
from bandfall.kernels._kernel import get_kernel

# Table 1: rows and features.
SHAPES = {
    "cpu": (8192, 21),
    "power": (52416, 7),
    "superconductors": (21263, 81),
    "uk_temperature": (45568, 4),
}
# Table 3, with values of its formulas at the distance σ.
_R3, _R5 = math.sqrt(3.0), math.sqrt(5.0)
_FORMULAS = {
    "matern12": ("$\\exp(-u)$", math.exp(-1.0)),
    "matern32": ("$(1 + \\sqrt{3}u)\\exp(-\\sqrt{3}u)$", (1.0 + _R3) * math.exp(-_R3)),
    "matern52": (
        "$(1 + \\sqrt{5}u + 5u^2/3)\\exp(-\\sqrt{5}u)$",
        (8.0 / 3.0 + _R5) * math.exp(-_R5),
    ),
    "cauchy": ("$(1 + u^2)^{-1}$", 0.5),
}


def describe_kernel(kernel: str) -> Entry:
    """k(0), k(1) and k at a large scaled distance."""
    values = get_kernel(kernel)(np.array([0.0, 1.0, 1e8]))
    return dict(zip(("zero", "one", "far"), values.tolist(), strict=True))


def _dataset_tasks(data: Data, size: Size) -> list[Task]:
    shapes = {dataset: data.table_shape(dataset) for dataset in data.sets}
    return [
        Task(dataset, dict, {"rows": rows, "features": columns - 1}, cost=0.01)
        for dataset, (rows, columns) in shapes.items()
    ]


def _summarise_datasets(results: Entry, size: Size) -> Outcome:
    comparisons = []
    for dataset, ours in results.items():
        published = dict(zip(("rows", "features"), SHAPES[dataset], strict=True))
        verdict = AGREES if ours == published else DIFFERS
        comparisons.append(Comparison({"dataset": dataset}, ours, published, verdict))
    rows = [[DATASETS[d], f"{ours['rows']} × {ours['features']}"] for d, ours in results.items()]
    claim = Claim(
        f"The {'four ' if len(rows) == len(SHAPES) else ''}data sets have the published sizes",
        "; ".join(": ".join(row) for row in rows),
        all(c.verdict == AGREES for c in comparisons),
    )
    table = TextTable("table1", "Real data sets.", ["Data set", "Size, n × d"], rows)
    return Outcome(tables=[table], comparisons=comparisons, claims=[claim])


def _kernel_tasks(data: Data, size: Size) -> list[Task]:
    return [Task(kernel, describe_kernel, {"kernel": kernel}, cost=0.01) for kernel in _FORMULAS]


def _summarise_kernels(results: Entry, size: Size) -> Outcome:
    rows, differences = [], []
    for kernel, (formula, at_one) in _FORMULAS.items():
        ours = results[kernel]
        rows.append([KERNELS[kernel], formula, f"{ours['one']:.4f}"])
        differences += [abs(ours["zero"] - 1.0), abs(ours["one"] - at_one), abs(ours["far"])]
    header = ["Name", "Equation, $u = \\lVert x - x' \\rVert_2/\\sigma$", "k at u = 1"]
    claim = Claim(
        "The kernels are those of Table 3, with k(0) = 1 and k(∞) = 0",
        f"largest difference at u = 0, 1 and ∞: {max(differences):.1e}",
        max(differences) < 1e-12,
    )
    table = TextTable("table3", "Additional kernels used.", header, rows)
    return Outcome(tables=[table], claims=[claim])


DESCRIPTIONS = (
    Experiment(
        "table1", "The real data sets", _dataset_tasks, _summarise_datasets, (), False, True
    ),
    Experiment("table3", "The additional kernels", _kernel_tasks, _summarise_kernels, (), False),
)
