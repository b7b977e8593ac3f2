"""Tables 2, 4, 5 and 6: test R² of all methods on the splits of the real data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from bandfall._paper.comparison import compare_cell, comparison_table, p_value_text, tally
from bandfall._paper.experiment import Comparison, Data, Experiment, Outcome, Results, Size, Task
from bandfall._paper.layout import TextTable
from bandfall._paper.methods import method_key, score_split
from bandfall._paper.names import DATASETS, KERNELS
from bandfall._paper.published import PublishedCell, published_cells
from bandfall._paper.summaries import quartiles, superiority_p_value

N_SPLITS = {"cpu": 100, "power": 200, "superconductors": 200, "uk_temperature": 200}
_RIVALS = ("KRR-CV", "KRR-MML")
# Approximate seconds of one method on one split.
_COST = {"KGD-D": 0.13, "KRR-CV": 0.03, "KRR-MML": 0.08, "KGF-CV": 0.12, "MLP": 0.08}


@dataclass(frozen=True)
class ScoreTable:
    """A table of test R², declared."""

    number: int  # in the paper
    title: str
    kernels: tuple[str, ...]  # its columns
    # Computed for every kernel; the MLP has no kernel and is shown in the first column.
    methods: tuple[str, ...]
    # By method: allowed difference to the published median, which is rounded to 0.01.
    median_tolerance: dict[str, float]
    quartile_tolerance: float = 0.03

    @property
    def cells(self) -> Sequence[PublishedCell]:
        """The published cells."""
        return published_cells(self.number)

    def experiment(self) -> Experiment:
        """The experiment, for the engine."""
        return Experiment(f"table{self.number}", self.title, self.tasks, self.summarise)

    def tasks(self, data: Data, size: Size) -> list[Task]:
        """One task per data set, kernel and split; its methods share the distances."""
        return [
            Task(
                f"{dataset}/{kernel}/{seed}",
                score_split,
                {"split": split, "seed": seed, "kernel": kernel, "methods": self.methods},
                cost=sum(_COST[method] for method in self.methods),
            )
            for dataset, n_splits in N_SPLITS.items()
            for kernel in self.kernels
            for seed, split in enumerate(data.splits(dataset, size.count(n_splits)))
        ]

    def summarise(self, results: Results, size: Size) -> Outcome:
        """The table, the comparison with published cells, and the verdicts."""
        scores = _by_cell(results)
        comparisons = [self._compare(cell, scores) for cell in self.cells]
        return Outcome(
            tables=[
                self._arranged(comparisons),
                comparison_table(f"table{self.number}_comparison", comparisons),
            ],
            comparisons=comparisons,
            claims=tally(comparisons),
        )

    def _compare(
        self, cell: PublishedCell, scores: dict[tuple[str, str, str], list[float]]
    ) -> Comparison:
        kernel = cell.kernel or self.kernels[0]
        key = method_key(cell.method, cell.min_speed)
        r2 = scores[cell.dataset, kernel, key]
        p_value = None
        if cell.p_value is not None:
            rivals = (scores[cell.dataset, kernel, rival] for rival in _RIVALS)
            p_value = superiority_p_value(r2, *rivals)
        return compare_cell(
            cell,
            quartiles(r2),
            p_value,
            median_tolerance=self.median_tolerance[cell.method],
            quartile_tolerance=self.quartile_tolerance,
            complete=len(r2) == N_SPLITS[cell.dataset],
        )

    def _arranged(self, comparisons: Sequence[Comparison]) -> TextTable:
        """Our numbers in the layout of the paper, with kernels as columns."""
        with_p = any(c.cell["min_speed"] is not None for c in comparisons)
        header = ["Data", "Method, $v_{R^2}$" if with_p else "Method"]
        for kernel in self.kernels:
            column = "Test R²" if self.number in (2, 4) else f"Test R², {KERNELS[kernel]}"
            header += [f"{column}: 50 %, (25 %, 75 %)"] + ["p-value"] * with_p
        rows: dict[tuple[str, str], list[str]] = {}
        for c in comparisons:
            method = c.cell["method"]
            label = method if c.cell["min_speed"] is None else f"{method}, {c.cell['min_speed']:g}"
            row = rows.setdefault((c.cell["dataset"], label), [DATASETS[c.cell["dataset"]], label])
            row.append("{median:.2f}, ({lower:.2f}, {upper:.2f})".format(**c.ours))
            if with_p:
                row.append(p_value_text(c.ours["p_value"]))
        caption = f"{self.title}: median and first and third quartile of R² on test data."
        return TextTable(f"table{self.number}", caption, header, list(rows.values()))


def _by_cell(results: Results) -> dict[tuple[str, str, str], list[float]]:
    """Test R² over the splits, by data set, kernel and method."""
    scores: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for key, result in results.items():
        dataset, kernel, _ = key.split("/")
        for method, score in result.items():
            scores[dataset, kernel, method].append(score["test_r2"])
    return scores


_ADDITIONAL = {"KGD-D": 0.02, "KRR-CV": 0.02, "KRR-MML": 0.02, "KGF-CV": 0.02}

SCORE_TABLES = (
    ScoreTable(
        2,
        "KGD-D against constant bandwidth, Gaussian kernel",
        ("gaussian",),
        ("KGD-D", "KRR-CV", "KRR-MML"),
        {"KGD-D": 0.015, "KRR-CV": 0.015, "KRR-MML": 0.015},
    ),
    ScoreTable(
        4,
        "Gradient flow with cross-validation, and a neural network",
        ("gaussian",),
        ("KGF-CV", "MLP"),
        {"KGF-CV": 0.02, "MLP": 0.08},
    ),
    ScoreTable(
        5,
        "KGD-D against constant bandwidth, Matérn 1/2 and 3/2 kernels",
        ("matern12", "matern32"),
        ("KGD-D", "KRR-CV", "KRR-MML", "KGF-CV"),
        _ADDITIONAL,
    ),
    ScoreTable(
        6,
        "KGD-D against constant bandwidth, Matérn 5/2 and Cauchy kernels",
        ("matern52", "cauchy"),
        ("KGD-D", "KRR-CV", "KRR-MML", "KGF-CV"),
        _ADDITIONAL,
    ),
)
