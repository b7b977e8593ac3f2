"""Benchmarks keep up with the code that they measure."""

import importlib
import json
import sys
from functools import partial
from pathlib import Path

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


class StandIn:
    """Three small tables in place of OpenML's suite."""

    def __init__(self, tabarena):
        self.loaded = []
        self.tabarena = tabarena

    def tasks(self):
        return [11, 12, 13]

    def load(self, number):
        self.loaded.append(number)
        generator = np.random.default_rng(number)
        X = pd.DataFrame(generator.normal(size=(120, 2)), columns=["a", "b"])
        X["kind"] = np.where(X["a"] > 0, "left", "right")
        score = X["a"] + X["b"]
        y = {11: score, 12: score > 0, 13: pd.cut(score, 3, labels=["low", "mid", "high"])}[number]
        parts = X[:80], X[80:], y[:80], y[80:]
        return self.tabarena.Task(f"table {number}", *parts, regression=number == 11)


def test_tabarena_on_a_stand_in(benchmarks, tmp_path, monkeypatch, capsys):
    tabarena = importlib.import_module("tabarena")
    quick = {"kernels": ("gaussian",), "max_rounds": 0}
    for name in ("BandfallRegressor", "BandfallClassifier"):
        monkeypatch.setattr(tabarena, name, partial(getattr(bandfall, name), **quick))
    methods = [*tabarena.BOOSTERS, "LR (default)", "CAT (tuned)"]
    published = pd.DataFrame(
        [
            {"dataset": f"table {number}", "method": method, "metric_error": 0.3 + 0.1 * i}
            for number in (11, 12, 13, 14)
            for i, method in enumerate(methods)
        ]
    )
    published.to_parquet(tmp_path / "published.parquet")
    arguments = ["--published", str(tmp_path / "published.parquet"), "--out", str(tmp_path)]
    source = StandIn(tabarena)
    tabarena.main([*arguments, "--kind", "regression"], source)
    first = capsys.readouterr().out
    assert "regression: 1 tables" in first
    assert "classes" not in first
    tabarena.main(arguments, source)
    output = capsys.readouterr().out
    assert source.loaded == [11, 12, 13, 12, 13]  # the first one is known by then
    for line in ("regression: 1 tables", "classes: 2 tables", "of 5 untuned methods"):
        assert line in output
    lines = (tmp_path / "results.jsonl").read_text().splitlines()
    errors = [json.loads(line)["error"] for line in lines]
    assert all(0 <= error < 0.5 for error in errors)
    tabarena.main([*arguments, "--max-rows", "100", "--tasks", "11"], source)
    assert "ahead on 1" in capsys.readouterr().out
