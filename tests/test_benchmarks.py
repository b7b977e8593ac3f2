"""Benchmarks keep up with the code that they measure."""

import importlib
import json
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import bandfall

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    before = set(sys.modules)
    yield
    for name in {path.stem for path in FOLDER.glob("*.py")} - before:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.py")))
def test_every_benchmark_can_be_imported(benchmarks, name):
    assert importlib.import_module(name).__doc__


class FakeOpenML:
    """Three small tables behind the part of OpenML's interface that the benchmark uses."""

    def __init__(self):
        self.loaded = []
        self.study = self.tasks = self

    def get_suite(self, name):
        assert name == "tabarena-v0.1"
        return SimpleNamespace(tasks=[11, 12, 13])

    def get_task(self, number):
        self.loaded.append(number)
        return SimpleNamespace(
            target_name="target",
            task_type="Supervised " + ("Regression" if number == 11 else "Classification"),
            get_dataset=lambda: SimpleNamespace(
                name=f"table {number}", get_data=partial(self.get_data, number)
            ),
            get_train_test_split_indices=self.get_split,
        )

    def get_split(self, *, fold, repeat):
        assert (fold, repeat) == (0, 0)
        order = np.random.default_rng(0).permutation(120)
        return order[:80], order[80:]

    def get_data(self, number, *, target, dataset_format):
        assert (target, dataset_format) == ("target", "dataframe")
        generator = np.random.default_rng(number)
        X = pd.DataFrame(generator.normal(size=(120, 2)), columns=["a", "b"])
        score = X["a"] + X["b"]
        X["kind"] = pd.Categorical(np.where(X["a"] > 0, "left", "right"))
        X.loc[generator.random(120) < 0.05, "b"] = np.nan
        classes = pd.cut(score, 3, labels=["low", "mid", "high"])
        y = {11: score, 12: (score > 0).astype("category"), 13: classes}[number]
        return X, y, [False, False, True], list(X.columns)


def test_tabarena_on_a_stand_in(benchmarks, tmp_path, monkeypatch, capsys):
    """The whole script but for the connection: suite, splits, published errors, tables."""
    tabarena = importlib.import_module("tabarena")
    quick = {"kernels": ("gaussian",), "max_rounds": 0}
    for name in ("BandfallRegressor", "BandfallClassifier"):
        monkeypatch.setattr(tabarena, name, partial(getattr(bandfall, name), **quick))
    openml = FakeOpenML()
    monkeypatch.setitem(sys.modules, "openml", openml)
    # CatBoost, XGBoost, LightGBM, a method without table 13, and one that was tuned.
    methods = [*tabarena.BOOSTERS, "LR (default)", "CAT (tuned)"]
    errors = dict(zip(methods, (4, 5, 6, 9, 1e-9), strict=True))
    published = pd.DataFrame(
        [
            {"dataset": f"table {number}", "method": method, "metric_error": error, "fold": 0}
            for number in (11, 12, 13, 14)
            for method, error in errors.items()
            if (number, method) != (13, "LR (default)")
        ]
    )
    published.to_parquet(tmp_path / "published.parquet")
    arguments = ["--published", str(tmp_path / "published.parquet"), "--out", str(tmp_path)]
    tabarena.main([*arguments, "--kind", "regression"])
    first = capsys.readouterr().out
    assert "regression: 1 tables" in first
    assert "classes" not in first
    tabarena.main(arguments)
    output = capsys.readouterr().out
    assert openml.loaded == [11, 12, 13, 12, 13]  # the first one is known by then
    lines = (tmp_path / "results.jsonl").read_text().splitlines()
    ours = {entry["name"]: entry["error"] for entry in map(json.loads, lines)}
    assert all(0 <= error < 0.6 for error in ours.values())
    for title, tables in {"regression": ("table 11",), "classes": ("table 12", "table 13")}.items():
        mean = np.prod([max(ours[name], 1e-6) / 4 for name in tables]) ** (1 / len(tables))
        assert (
            f"{title}: {len(tables)} tables; error relative to the best default booster {mean:.3f} "
            f"(geometric mean); ahead on {len(tables)}; by mean rank 1 of 5 untuned methods"
        ) in output
        for name in tables:
            assert f"| {name} | {ours[name]:.4g} | 4 | {ours[name] / 4:.3f} |" in output
    tabarena.main([*arguments, "--max-rows", "100", "--tasks", "12"])
    assert "classes: 1 tables" in capsys.readouterr().out
    assert openml.loaded == [11, 12, 13, 12, 13]
    (tmp_path / "results.jsonl").unlink()
    tabarena.main([*arguments, "--max-rows", "100", "--tasks", "12"])
    assert "table 12: left out, more than 100 rows" in capsys.readouterr().out


def test_every_part_of_the_flow_benchmark_runs(benchmarks, tmp_path, monkeypatch, capsys):
    flow = importlib.import_module("flow")

    def load(name, data, n_train=None, dtype=np.float64):
        X = np.random.default_rng(0).normal(size=(90, 3)).astype(dtype)
        y = np.sin(X[:, 0]) + X[:, 1]
        return X[:60], y[:60], X[60:], y[60:]

    monkeypatch.setattr(flow, "load", load)
    for part in flow.PARTS.values():
        part(None, tmp_path)
    words = capsys.readouterr().out
    assert "ratios: seconds" in words
    assert "uk_temperature" in words
    assert (tmp_path / "flow_scaling.png").exists()
