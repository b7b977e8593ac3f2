"""The published tables: complete, spot-checked by eye, and equal to the paper's source."""

from collections import Counter

import pytest

from bandfall._paper.tables import published_cells
from bandfall.datasets._sources import SOURCES
from published_tex import read_tables
from shared_files import shared_file

SPEEDS = (0.02, 0.05, 0.1, 0.2, 0.5)


def find(table, dataset, method, min_speed=None, kernel="gaussian"):
    (cell,) = (
        cell
        for cell in published_cells()
        if cell[:5] == (table, dataset, method, min_speed, kernel)
    )
    return cell


def test_every_cell_is_there_once():
    kernels = {2: ["gaussian"], 5: ["matern12", "matern32"], 6: ["matern52", "cauchy"]}
    expected = []
    for table, names in kernels.items():
        rivals = ["KRR-CV", "KRR-MML"] + ["KGF-CV"] * (table != 2)
        methods = [("KGD-D", speed) for speed in SPEEDS] + [(rival, None) for rival in rivals]
        expected += [
            (table, dataset, *method, kernel)
            for dataset in SOURCES
            for method in methods
            for kernel in names
        ]
    for dataset in SOURCES:
        expected += [(4, dataset, "KGF-CV", None, "gaussian"), (4, dataset, "MLP", None, None)]
    found = [(c.table, c.dataset, c.method, c.min_speed, c.kernel) for c in published_cells()]
    assert Counter(found) == Counter(expected)
    assert Counter(cell.table for cell in published_cells()) == {2: 28, 4: 8, 5: 64, 6: 64}


def test_every_cell_makes_sense():
    for cell in published_cells():
        assert -1 < cell.lower <= cell.median <= cell.upper < 1
        assert (cell.p_value is not None) == (cell.method == "KGD-D")
        assert cell.significant == (cell.p_value is not None and cell.p_value < 0.05)


@pytest.mark.parametrize(
    ("cell", "values"),
    [
        ((2, "cpu", "KGD-D", 0.02), (0.80, 0.65, 0.89, 4.7e-7, True)),
        ((2, "power", "KGD-D", 0.1), (0.67, 0.55, 0.76, 5.5e-10, True)),
        ((2, "superconductors", "KRR-MML"), (0.57, 0.46, 0.64, None, False)),
        ((2, "uk_temperature", "KGD-D", 0.05), (0.52, 0.40, 0.63, 0.97, False)),
        ((4, "uk_temperature", "MLP", None, None), (0.29, 0.047, 0.49, None, False)),
        ((5, "superconductors", "KGD-D", 0.02, "matern12"), (0.68, 0.58, 0.76, 7e-10, True)),
        ((5, "power", "KGD-D", 0.05, "matern32"), (0.67, 0.55, 0.75, 0.014, True)),
        ((6, "uk_temperature", "KGD-D", 0.1, "cauchy"), (0.55, 0.45, 0.64, 3.6e-6, True)),
        ((6, "power", "KGD-D", 0.2, "matern52"), (0.65, 0.55, 0.74, 0.057, False)),
        ((6, "cpu", "KGF-CV", None, "cauchy"), (0.74, 0.50, 0.83, None, False)),
    ],
)
def test_cells_read_off_by_eye(cell, values):
    found = find(*cell)
    assert (found.median, found.lower, found.upper, found.p_value, found.significant) == values


def test_equal_to_the_papers_source():
    tex = shared_file("paper/paper.tex").read_text()
    assert [cell._asdict() for cell in published_cells()] == read_tables(tex)
