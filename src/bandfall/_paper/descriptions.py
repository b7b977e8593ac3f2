"""Tables 1 and 3: the data sets and the kernels themselves."""

from __future__ import annotations

import math

import numpy as np

from bandfall._paper.experiment import (
    AGREES,
    DIFFERS,
    Claim,
    Comparison,
    Data,
    Experiment,
    Outcome,
    Result,
    Results,
    Size,
    Task,
)
from bandfall._paper.layout import TextTable
from bandfall._paper.names import DATASETS, KERNELS
from bandfall.kernels._kernel import get_kernel

# Table 1: rows and features.
SHAPES = {
    "cpu": (8192, 21),
    "power": (52416, 7),
    "superconductors": (21263, 81),
    "uk_temperature": (45568, 4),
}
# Table 3, with values of its formulas at the distance σ.
_FORMULAS = {
    "matern12": ("$\\exp(-u)$", math.exp(-1.0)),
    "matern32": (
        "$(1 + \\sqrt{3}u)\\exp(-\\sqrt{3}u)$",
        (1.0 + math.sqrt(3.0)) * math.exp(-math.sqrt(3.0)),
    ),
    "matern52": (
        "$(1 + \\sqrt{5}u + 5u^2/3)\\exp(-\\sqrt{5}u)$",
        (8.0 / 3.0 + math.sqrt(5.0)) * math.exp(-math.sqrt(5.0)),
    ),
    "cauchy": ("$(1 + u^2)^{-1}$", 0.5),
}


def describe_dataset(rows: int, columns: int) -> Result:
    """Rows and features of a table whose last column is the target."""
    return {"rows": rows, "features": columns - 1}


def describe_kernel(kernel: str) -> Result:
    """k(0), k(1) and k at a large scaled distance."""
    at_zero, at_one, far = get_kernel(kernel)(np.array([0.0, 1.0, 1e8]))
    return {"zero": float(at_zero), "one": float(at_one), "far": float(far)}


def _dataset_tasks(data: Data, size: Size) -> list[Task]:
    tasks = []
    for dataset in DATASETS:
        rows, columns = data.table_shape(dataset)
        arguments = {"rows": rows, "columns": columns}
        tasks.append(Task(dataset, describe_dataset, arguments, cost=0.01))
    return tasks


def _summarise_datasets(results: Results, size: Size) -> Outcome:
    comparisons = []
    for dataset, (rows, features) in SHAPES.items():
        published = {"rows": rows, "features": features}
        verdict = AGREES if results[dataset] == published else DIFFERS
        comparisons.append(Comparison({"dataset": dataset}, results[dataset], published, verdict))
    rows_of_text = [
        [DATASETS[d], f"{results[d]['rows']} × {results[d]['features']}"] for d in DATASETS
    ]
    return Outcome(
        tables=[TextTable("table1", "Real data sets.", ["Data set", "Size, n × d"], rows_of_text)],
        comparisons=comparisons,
        claims=[
            Claim(
                "The four data sets have the published sizes",
                "; ".join(": ".join(row) for row in rows_of_text),
                all(c.verdict == AGREES for c in comparisons),
            )
        ],
    )


def _kernel_tasks(data: Data, size: Size) -> list[Task]:
    return [Task(kernel, describe_kernel, {"kernel": kernel}, cost=0.01) for kernel in _FORMULAS]


def _summarise_kernels(results: Results, size: Size) -> Outcome:
    rows = [
        [KERNELS[kernel], formula, f"{results[kernel]['one']:.4f}"]
        for kernel, (formula, _) in _FORMULAS.items()
    ]
    worst = max(
        max(
            abs(results[kernel]["zero"] - 1.0),
            abs(results[kernel]["one"] - expected),
            abs(results[kernel]["far"]),
        )
        for kernel, (_, expected) in _FORMULAS.items()
    )
    header = ["Name", "Equation, $u = \\lVert x - x' \\rVert_2/\\sigma$", "k at u = 1"]
    return Outcome(
        tables=[TextTable("table3", "Additional kernels used.", header, rows)],
        claims=[
            Claim(
                "The kernels are those of Table 3, with k(0) = 1 and k(∞) = 0",
                f"largest difference at u = 0, 1 and ∞: {worst:.1e}",
                worst < 1e-12,
            )
        ],
    )


TABLE1 = Experiment(
    "table1", "The real data sets", _dataset_tasks, _summarise_datasets, seeded=False
)
TABLE3 = Experiment(
    "table3", "The additional kernels", _kernel_tasks, _summarise_kernels, seeded=False
)
