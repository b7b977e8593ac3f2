"""Every experiment in a tiny size on made-up data, its figures, tables, claims and report."""

import json
import re

import numpy as np
import pytest

from bandfall._paper.double_descent import (
    CURVES,
    ErrorCurve,
    curve_claims,
    floor_grid,
    second_descent,
    sweep_scores,
)
from bandfall._paper.experiment import Data, Size
from bandfall._paper.methods import SPEEDS, method_key, score_split
from bandfall._paper.report import read_summaries, write_html, write_markdown, write_outcome
from bandfall._paper.run import EXPERIMENTS, missing_modules, read_runs, run_experiments, select
from bandfall._paper.tables import SHAPES, Quartiles, compare_cell, published_cells, tally
from bandfall.datasets import Split, make_sine, paper_splits
from bandfall.datasets._sources import SOURCES
from shared_files import data_directory, shared_file

TINY = Size(seeds=0.005, n_floors=5, max_epochs=300)

RUNNABLE = [e for e in EXPERIMENTS.values() if not missing_modules(e)]


class ToyData(Data):
    """Small made-up splits under the names of the real sets."""

    def splits(self, dataset, n_splits, size=None, n_train=None):
        seed = list(SHAPES).index(dataset)
        generator = np.random.RandomState(seed)
        X = generator.normal(size=(40 * 3, 2))
        y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * generator.normal(size=len(X))
        return paper_splits(X, y, size=size or 40, n_train=n_train)[:n_splits]

    def table_shape(self, dataset):
        rows, features = SHAPES[dataset]
        return rows, features + 1

    def __init__(self, sets=tuple(SHAPES)):
        self.sets = sets


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """A directory in which everything was run once."""
    out = tmp_path_factory.mktemp("paper")
    run(out, RUNNABLE)
    return out


def run(out, experiments, data=None, **options):
    data = data or ToyData()
    names = []
    for finished in run_experiments(list(experiments), data=data, size=TINY, out=out, **options):
        write_outcome(finished, out)
        names.append(finished.name)
    return {summary.name: summary for summary in read_summaries(out, names)}


def test_everything_is_there():
    names = [f"figure{i}" for i in range(1, 8)] + [f"table{i}" for i in range(1, 7)]
    assert list(EXPERIMENTS) == names
    assert [e.name for e in select([])] == names
    assert [e.name for e in select(["all", "table2"])] == names
    with pytest.raises(ValueError, match="'table7'; allowed: figure1"):
        select(["table7"])


@pytest.mark.parametrize("name", [e.name for e in RUNNABLE])
def test_every_experiment_runs_and_writes_its_files(out, name):
    (summary,) = read_summaries(out, [name])
    kind = name.rstrip("0123456789")
    for suffix in ("pdf", "png") if kind == "figure" else ():
        assert (out / "figures" / f"{name}.{suffix}").stat().st_size > 5_000
    if kind == "table":
        assert (out / "tables" / f"{name}.md").stat().st_size > 50
    assert summary.claims
    assert bool(summary.caption) == (kind == "figure")
    assert summary.complete == (name in ("figure5", "table1", "table3"))


@pytest.mark.parametrize("table", [2, 4, 5, 6])
def test_every_published_cell_stands_beside_ours(out, table):
    (summary,) = read_summaries(out, [f"table{table}"])
    assert len(summary.comparisons) == len(published_cells_of(table))
    assert {c.verdict for c in summary.comparisons} == {"not judged"}
    arranged, compared = summary.tables
    assert len(compared.rows) == len(published_cells_of(table))
    kernels = {2: 1, 4: 1, 5: 2, 6: 2}[table]
    cells = len(published_cells_of(table)) / kernels
    assert len(arranged.rows) == cells
    assert {len(row) for row in [arranged.header, *arranged.rows]} == {len(arranged.header)}


def published_cells_of(table):
    return [cell for cell in published_cells() if cell.table == table]


@pytest.mark.parametrize("name", ["figure1", "figure3", "figure5", "table2", "table4"])
def test_two_workers_give_the_numbers_of_one(out, tmp_path, name):
    summary = run(tmp_path, select([name]), n_jobs=2)[name]
    (before,) = read_summaries(out, [name])
    assert summary.claims == before.claims
    assert summary.tables == before.tables
    assert summary.comparisons == before.comparisons


@pytest.mark.parametrize("name", ["figure2", "figure4", "figure7", "table1", "table2", "table6"])
@pytest.mark.parametrize("sets", [("power",), ("cpu", "power", "superconductors")])
def test_experiments_run_on_the_sets_there_are(out, tmp_path, name, sets):
    summary = run(tmp_path, select([name]), ToyData(sets))[name]
    (whole,) = read_summaries(out, [name])
    assert summary.notes[-1].startswith("Not run on these data sets: ")
    assert "U.K. Temperature" in summary.notes[-1]
    expected = [c for c in whole.comparisons if c.cell["dataset"] in sets]
    assert summary.comparisons == expected
    assert 0 < len(summary.claims) <= len(whole.claims)


def test_the_page_holds_everything_and_needs_nothing(out, tmp_path):
    summaries = read_summaries(out, EXPERIMENTS)
    page = tmp_path / "report.html"
    write_html(summaries, read_runs(out), out / "figures", page)
    text = page.read_text(encoding="utf-8")
    for experiment in RUNNABLE:
        assert f'<h2 id="{experiment.name}">' in text
    assert text.count('src="data:image/png;base64,') == len(RUNNABLE) - 6
    assert not re.search(r'(src|href)="(?!data:|#)', text)
    assert "30 hours" in text
    assert "<code>bandfall paper run</code>" in text
    assert "Where the paper's text and the author's scripts differ" in text.replace("&#39;", "'")
    for cell in ("KGD-D, 0.02", "KRR-MML", "KGF-CV", "MLP", "0.80 (0.65, 0.89)"):
        assert cell in text
    assert text.count("<table>") == text.count("</table>")


def test_the_markdown_page_has_its_figures(out, tmp_path):
    summaries = read_summaries(out, EXPERIMENTS)
    page = tmp_path / "reproduction.md"
    write_markdown(summaries, read_runs(out), out / "figures", page)
    text = page.read_text(encoding="utf-8")
    images = re.findall(r"\]\((reproduction/figure\d\.png)\)", text)
    assert len(images) == len(RUNNABLE) - 6
    assert all((tmp_path / image).exists() for image in images)
    assert "## Table 6" in text
    assert "0.80 (0.65, 0.89)" in text


# Methods


def test_methods_score_what_they_predict():
    X, y, X_test, y_test = make_sine(random_state=0)
    split = paper_splits(np.vstack([X, X_test]), np.append(y, y_test), size=120, n_train=100)[0]
    scores = score_split(split, 0, "gaussian", ["KGD-D", "KRR-CV", "KRR-MML", "KGF-CV"])
    keys = [method_key("KGD-D", speed) for speed in SPEEDS] + ["KRR-CV", "KRR-MML", "KGF-CV"]
    assert list(scores) == keys
    for score in scores.values():
        assert 0.9 < score["test_r2"] <= 1.0
        json.dumps(score, allow_nan=False)


@pytest.mark.parametrize("dataset", SHAPES)
def test_methods_come_close_to_the_authors_numbers(dataset):
    oracle = json.loads(shared_file("oracle/splits.json").read_text())
    expected = oracle[SOURCES[dataset].stem]["0"]
    split = Data(data_directory()).splits(dataset, 1)[0]
    scores = score_split(split, 0, "gaussian", ["KGD-D", "KRR-CV", "KRR-MML"])
    found = {method: score["test_r2"] for method, score in scores.items()}
    for speed in SPEEDS:
        assert abs(found[method_key("KGD-D", speed)] - expected["kgdd"][f"{speed:g}"]) < 0.02
    for method, key in (("KRR-CV", "krr_cv"), ("KRR-MML", "krr_mml")):
        assert abs(found[method] - expected[key]["test_r2"]) < 0.02


# Comparison and claims


def test_verdicts():
    cell = next(c for c in published_cells_of(2) if c.min_speed == 0.1 and c.dataset == "cpu")

    def compare(median, lower=0.58, upper=0.87, p=0.001):
        return compare_cell(cell, Quartiles(median, lower, upper), p)

    assert compare(0.785).verdict == "agrees"
    assert compare(0.786).verdict == "differs"
    assert compare(0.77, lower=0.545).reason == "lower off by 0.035"
    agreeing, significant = tally([compare(0.77)])
    assert agreeing.holds
    assert significant.holds
    assert not tally([compare(0.77, p=0.2)])[1].holds
    assert not tally([compare(0.5)])[0].holds


def test_second_descents_are_found():
    rising_again = np.array([1.0, 0.3, 0.9, 0.8, 0.2])
    assert second_descent(rising_again).height == pytest.approx(0.6)
    for monotone in (np.linspace(1, 0, 9), np.linspace(0, 1, 9), np.ones(4)):
        assert second_descent(monotone).height == 0.0
    curves = dict.fromkeys(CURVES, ErrorCurve(rising_again, rising_again, rising_again))
    assert curve_claims("x", curves, double=True)[0].holds
    assert not curve_claims("x", curves, double=False)[0].holds


def test_sweeps_show_what_the_paper_claims():
    split = Split(*make_sine(random_state=3))
    scores = sweep_scores(split, "gaussian", floor_grid(1e-4, 1.1, 30))
    curves = {name: ErrorCurve(*[1.0 - np.array(values)] * 3) for name, values in scores.items()}
    assert [claim.holds for claim in curve_claims("x", curves, double=True)] == [True] * 3


def test_available_data_are_told_from_missing_ones(tmp_path, monkeypatch):
    monkeypatch.delenv("BANDFALL_DATA", raising=False)
    monkeypatch.setattr("bandfall.datasets._real.download_table", _unreachable)
    (tmp_path / "power.csv").write_text("other")
    data, missing = Data(tmp_path).available()
    assert data.sets == ()
    assert list(missing) == list(SHAPES)
    assert "compactiv.csv.gz" in missing["cpu"]
    assert "power.csv is not the" in missing["power"]
    assert "could not be reached" in missing["superconductors"]


def _unreachable(source):
    raise OSError("could not be reached")
