"""The commands do what they say, for people and for machines."""

import gzip
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import time
import types

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

import bandfall
from bandfall import KernelRidgeRegressor, load_model, save_model
from bandfall._cli import compare, terminal, training
from bandfall._cli.options import Choices
from bandfall._cli.training import make_estimator
from bandfall._estimators.training import FitProgress
from bandfall._progress import PathProgress
from bandfall.report._columns import LabelledRows
from shell import INTERRUPTED, Y, call, frame, one_line, press_ctrl_c


@pytest.fixture
def csv(tmp_path):
    frame().to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "data.csv"


@pytest.fixture
def model(csv, tmp_path):
    done = call("fit", csv, *Y, "--out", tmp_path / "m.bandfall")
    assert done.exit_code == 0, done.output
    return tmp_path / "m.bandfall"


@pytest.fixture
def few_rivals(monkeypatch):
    """The quick ones only."""
    chosen = dict(list(compare.rivals_for(np.zeros(1), False).items())[:3])
    for module in ("compare", "report"):
        monkeypatch.setattr(f"bandfall._cli.{module}.rivals_for", lambda *_: dict(chosen))


def test_version_and_help():
    assert call("--version").stdout == f"bandfall {bandfall.__version__}\n"
    for name in ("demo", "fit", "predict", "inspect", "report", "explore", "compare", "paper"):
        assert name in call("--help").stdout
        shown = call(name, "--help")
        assert shown.exit_code == 0
        assert "[[" not in shown.stdout  # typer puts brackets around optional arguments


class TestFit:
    def test_for_people(self, csv, tmp_path):
        done = call("fit", csv, *Y, "--out", tmp_path / "m")
        assert done.exit_code == 0
        assert "held-out R²" in done.stdout
        assert done.stderr == ""
        assert list(load_model(tmp_path / "m").feature_names_in_) == ["width", "höhe"]
        assert done.stdout == call("inspect", tmp_path / "m").stdout

    def test_for_machines(self, csv, tmp_path):
        done = call("fit", csv, *Y, "--out", tmp_path / "m", "--json")
        result = json.loads(done.stdout)
        assert result["path"]["n_rows"] == 48
        assert result["test"]["n_rows"] == 12
        assert result["test"]["r2"] > 0.5
        assert result["path"]["status"] == "r2_reached"
        assert not result["interrupted"]

    @pytest.mark.parametrize("choice", ["auto", "kgdd"])
    def test_models(self, csv, tmp_path, choice, quick_models):
        done = call("fit", csv, *Y, "--out", tmp_path / "m", "--model", choice, "--json")
        assert json.loads(done.stdout)["test"]["r2"] > 0.5
        assert call("inspect", tmp_path / "m").exit_code == 0

    def test_what_a_time_limit_cut_short_is_printed(self, csv, tmp_path, no_least_time):
        arguments = ("fit", csv, *Y, "--out", tmp_path / "m", "--model", "auto")
        arguments += ("--max-seconds", 1e-9)
        skipped = json.loads(call(*arguments, "--json").stdout)["skipped"]
        assert any(one.startswith("the search ended early") for one in skipped)
        assert load_model(tmp_path / "m").skipped_ == skipped
        assert "skipped" in call(*arguments).stdout
        assert "skipped" in call("inspect", tmp_path / "m").stdout

    @pytest.mark.parametrize("bad", [("--max-seconds", 0), ("--model", "kgdd", "--max-seconds", 9)])
    def test_times_that_mean_nothing_are_refused(self, csv, tmp_path, bad):
        assert "--max-seconds" in one_line(call("fit", csv, *Y, "--out", tmp_path / "m", *bad))

    def test_same_seed_same_file(self, csv, tmp_path):
        for name in ("a", "b"):
            call("fit", csv, *Y, "--out", tmp_path / name, "--seed", 3)
        a, b = (load_model(tmp_path / name)[-1].path_ for name in ("a", "b"))
        np.testing.assert_array_equal(a.X, b.X)

    def test_all_rows(self, csv, tmp_path):
        done = call("fit", csv, *Y, "--out", tmp_path / "m", "--test-fraction", 0)
        assert done.exit_code == 0
        assert len(load_model(tmp_path / "m")[-1].path_.X) == 60

    def test_sample_is_announced(self, csv, tmp_path):
        done = call("fit", csv, *Y, "--out", tmp_path / "m", "--max-rows", 20)
        assert "training on a random 20 of 48 rows" in one_line(done, 0)
        assert len(load_model(tmp_path / "m")[-1].path_.X) == 20

    def test_rows_with_missing_values_are_left_out(self, tmp_path):
        table = frame()
        table.loc[[3, 7], "width"] = np.nan
        table.to_csv(tmp_path / "d.csv", index=False)
        done = call("fit", tmp_path / "d.csv", *Y, "--out", tmp_path / "m")
        assert "2 of 60 rows have missing values" in one_line(done, 0)

    def test_model_file_of_an_earlier_run_is_replaced(self, csv, model):
        before = model.read_bytes()
        done = call("fit", csv, *Y, "--out", model, "--max-rows", 30)
        assert done.exit_code == 0
        assert model.read_bytes() != before

    def test_drop(self, tmp_path):
        frame().assign(city="Oslo").to_csv(tmp_path / "d.csv", index=False)
        done = call("fit", tmp_path / "d.csv", *Y, "--drop", "city", "--out", tmp_path / "m")
        assert done.exit_code == 0, done.output

    def test_ctrl_c_keeps_the_model_so_far(self, csv, tmp_path, monkeypatch):
        press_ctrl_c(monkeypatch, PathProgress, "reach")
        done = call("fit", csv, *Y, "--out", tmp_path / "m", "--json")
        assert done.exit_code == 130
        assert "m holds the model found so far" in done.stderr
        assert json.loads(done.stdout)["interrupted"]
        assert json.loads(done.stdout)["path"]["status"] == "interrupted"
        assert len(load_model(tmp_path / "m")[-1].path_) == 1
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def test_ctrl_c_ends_a_search(self, csv, tmp_path, monkeypatch):
        press_ctrl_c(monkeypatch, FitProgress, "tried")
        done = call("fit", csv, *Y[:2], "--out", tmp_path / "m", "--json")
        assert done.exit_code == 130
        assert INTERRUPTED in done.stderr
        assert json.loads(done.stdout)["interrupted"]
        tried = load_model(tmp_path / "m").selection_
        assert set(tried["n_rounds"]) == {0}  # no metric was learned further

    def test_ctrl_c_before_training_writes_nothing(self, csv, tmp_path, monkeypatch):
        def interrupted(*arguments):
            raise KeyboardInterrupt

        monkeypatch.setattr("bandfall._cli.training.load_table", interrupted)
        done = call("fit", csv, *Y, "--out", tmp_path / "m")
        assert "nothing was written" in one_line(done, 130)
        assert not (tmp_path / "m").exists()


class TestFormats:
    def check(self, source, tmp_path, stdin=None):
        arguments = (*Y, "--out", tmp_path / "m", "--test-fraction", 0)
        done = call("fit", source, *arguments, stdin=stdin)
        assert done.exit_code == 0, done.output
        path = load_model(tmp_path / "m")[-1].path_
        assert path.X.shape == (60, 2)

    def test_gzip_by_content(self, csv, tmp_path):
        (tmp_path / "packed").write_bytes(gzip.compress(csv.read_bytes()))
        self.check(tmp_path / "packed", tmp_path)

    def test_parquet(self, tmp_path):
        frame().to_parquet(tmp_path / "d.parquet")
        self.check(tmp_path / "d.parquet", tmp_path)

    @pytest.mark.parametrize("packed", [False, True])
    def test_standard_input(self, csv, tmp_path, packed):
        data = csv.read_bytes()
        self.check("-", tmp_path, gzip.compress(data) if packed else data)

    def test_parquet_on_standard_input(self, tmp_path):
        frame().to_parquet(tmp_path / "d.parquet")
        self.check("-", tmp_path, (tmp_path / "d.parquet").read_bytes())

    @pytest.mark.parametrize("separator", [";", "\t"])
    def test_other_separators(self, tmp_path, separator):
        frame().to_csv(tmp_path / "d.csv", index=False, sep=separator)
        self.check(tmp_path / "d.csv", tmp_path)

    def test_byte_order_mark_and_blank_lines(self, csv, tmp_path):
        (tmp_path / "d.csv").write_bytes(b"\xef\xbb\xbf\r\n\n" + csv.read_bytes() + b"\n\n")
        self.check(tmp_path / "d.csv", tmp_path)

    def test_mixed_line_endings(self, csv, tmp_path):
        lines = csv.read_text().splitlines()
        ends = ["\r\n", "\n", "\r\n", "\n"] * 20
        text = "".join(line + end for line, end in zip(lines, ends, strict=False))
        (tmp_path / "d.csv").write_bytes(text.encode())
        self.check(tmp_path / "d.csv", tmp_path)

    def test_truth_values_and_integers_are_numbers(self, tmp_path):
        table = frame()
        table["width"] = table["width"] > 0
        table["höhe"] = (10 * table["höhe"]).round().astype("Int64")
        table.to_parquet(tmp_path / "d.parquet")
        self.check(tmp_path / "d.parquet", tmp_path)


class TestPredict:
    def test_to_standard_output(self, model, csv):
        done = call("predict", model, csv)
        lines = done.stdout.splitlines()
        assert lines[0] == "prediction"
        expected = load_model(model).predict(frame()[["width", "höhe"]])
        np.testing.assert_allclose([float(line) for line in lines[1:]], expected, rtol=5e-6)
        assert done.stderr == ""

    def test_to_a_file_twice(self, model, csv, tmp_path):
        for _ in range(2):
            done = call("predict", model, csv, "--out", tmp_path / "p.csv")
            assert done.exit_code == 0
            assert "wrote 60 predictions" in done.stderr
        assert len(pd.read_csv(tmp_path / "p.csv")) == 60

    def test_reordered_and_further_columns(self, model, tmp_path):
        table = frame()
        table["note"] = "text that nobody asked for"
        table[["note", "höhe", "width"]].to_csv(tmp_path / "d.csv", index=False)
        done = call("predict", model, tmp_path / "d.csv", "--json")
        expected = load_model(model).predict(frame()[["width", "höhe"]])
        np.testing.assert_allclose(json.loads(done.stdout)["predictions"], expected, rtol=1e-12)

    def test_missing_values_are_refused(self, model, tmp_path):
        table = frame()
        table.loc[2, "width"] = np.nan
        table.to_csv(tmp_path / "d.csv", index=False)
        line = one_line(call("predict", model, tmp_path / "d.csv"))
        assert "missing values in row 3" in line
        assert "--model auto" in line

    def test_model_without_names_and_two_targets(self, tmp_path):
        table = frame()
        X = table[["width", "höhe"]].to_numpy()
        y = np.stack([table["y"], -table["y"]], axis=1)
        save_model(KernelRidgeRegressor().fit(X, y), tmp_path / "m")
        table[["width", "höhe"]].to_csv(tmp_path / "d.csv", index=False)
        done = call("predict", tmp_path / "m", tmp_path / "d.csv")
        assert done.stdout.splitlines()[0] == "prediction_1,prediction_2"


class TestInspect:
    def test_warns_of_nothing(self, tmp_path):
        """`fit` has said what is odd about the rows."""
        table = frame()
        table["day"] = [f"2024-01-{1 + i % 28:02d}" for i in range(len(table))]
        table.to_csv(tmp_path / "d.csv", index=False)
        fast = ("--model", "auto", "--max-seconds", 1e-9)
        done = call("fit", tmp_path / "d.csv", "--target", "y", *fast, "--out", tmp_path / "m")
        assert "'day'" in done.stderr
        assert call("inspect", tmp_path / "m").stderr == ""

    def test_for_people(self, model):
        text = call("inspect", model).stdout
        for part in (
            "KernelDescentRegressor",
            "width, höhe",
            "held-out R²",
            f"bandfall {bandfall.__version__}",
        ):
            assert part in text

    def test_for_machines(self, model):
        summary = json.loads(call("inspect", model, "--json").stdout)
        assert summary["features"] == ["width", "höhe"]
        assert summary["target"] == "y"
        assert summary["path"]["n_rows"] == 48
        assert summary["test"]["n_rows"] == 12
        assert summary["bytes"] == model.stat().st_size

    def test_model_from_python(self, tmp_path):
        table = frame()
        save_model(KernelRidgeRegressor().fit(table[["width"]], table["y"]), tmp_path / "m")
        assert "KernelRidgeRegressor" in call("inspect", tmp_path / "m").stdout


def test_report_of_a_model_saved_in_python_takes_its_rows(tmp_path):
    table = frame().rename(columns={"y": "target"})
    table.to_csv(tmp_path / "rows.csv", index=False)
    model = KernelRidgeRegressor().fit(table[["width", "höhe"]], table["target"])
    save_model(model, tmp_path / "m")
    out = ("--out", tmp_path / "r.html", "--no-rivals")
    line = one_line(call("report", tmp_path / "m", *out))
    assert "as in `bandfall report MODEL DATA`" in line
    done = call("report", tmp_path / "m", tmp_path / "rows.csv", *out)
    assert done.exit_code == 0, done.output
    assert "width" in (tmp_path / "r.html").read_text(encoding="utf-8")
    line = one_line(call("report", tmp_path / "rows.csv", tmp_path / "rows.csv", *out))
    assert "cannot be read as a bandfall model" in line


def test_compare(csv, few_rivals, quick_models):
    done = call("compare", csv, *Y[:2], "--json")
    result = json.loads(done.stdout)
    names = [one["name"] for one in result["models"]]
    assert "bandfall (KGD-D)" in names
    assert len(names) >= 4
    assert [one["r2"] for one in result["models"]] == sorted(
        (one["r2"] for one in result["models"]), reverse=True
    )
    assert "bandfall (KGD-D)" in call("compare", csv, *Y[:2]).stdout


def test_every_rival_runs():
    table = frame(40)
    X, y = table[["width", "höhe"]].to_numpy(), table["y"].to_numpy()
    models = compare.rivals_for(y, False)
    results = compare.score_rivals(models, LabelledRows(X, y), LabelledRows(X, y))
    assert len(results) == len(models)
    assert max(one.score for one in results) > 0.9


@pytest.mark.parametrize(
    ("package", "prefix", "name"),
    [
        ("lightgbm", "LGBM", "LightGBM"),
        ("xgboost", "XGB", "XGBoost"),
        ("catboost", "CatBoost", "CatBoost"),
    ],
)
def test_boosters_are_compared_where_installed(monkeypatch, package, prefix, name):
    class Classifier(HistGradientBoostingClassifier):
        def fit(self, X, y, sample_weight=None):
            assert set(y) == {0, 1}  # as XGBoost takes classes
            return super().fit(X, y, sample_weight)

    def make(cls):
        return lambda random_state, **silent: cls(random_state=random_state)

    there = {
        f"{prefix}Regressor": make(HistGradientBoostingRegressor),
        f"{prefix}Classifier": make(Classifier),
    }
    monkeypatch.setitem(sys.modules, package, types.SimpleNamespace(**there))
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(60, 2)))
    for y in (X[0].to_numpy(), np.where(X[0] > 0, "yes", "no")):
        rows, model = LabelledRows(X, y), compare.rivals_for(y, y.dtype.kind == "U")[name]
        models = ({name: model}, {"gradient boosting": model})
        one, same = (compare.score_rivals(m, rows, rows)[0] for m in models)
        assert one.name == name
        assert one.rank == same.rank


def test_kernel_ridge_takes_a_sample():
    table = frame(40)
    X, y = table[["width", "höhe"]].to_numpy(), table["y"].to_numpy()
    name = "kernel ridge (CV)"
    rows, models = LabelledRows(X, y), {name: compare.rivals_for(y, False)[name]}
    results = compare.score_rivals(models, rows, rows, kernel_ridge_rows=30)
    assert results[0].n_rows == 30


def test_device():
    for device in ("cpu", "auto"):
        assert make_estimator(Choices(model="kgdd", device=device))[-1].device == device


def test_device_may_be_the_address_of_a_scheduler():
    model = make_estimator(Choices(model="kgdd", device="tcp://10.0.0.1:8786"))
    assert model[-1].device == "tcp://10.0.0.1:8786"
    with pytest.raises(terminal.InputError, match="--device tpu: "):
        make_estimator(Choices(model="kgdd", device="tpu"))


def test_a_missing_scheduler_fails_in_one_line(csv, tmp_path, monkeypatch):
    from bandfall._products import dask_backend

    monkeypatch.setattr(dask_backend.connect, "__defaults__", (0.2,))
    address = "tcp://127.0.0.1:1"
    done = call("fit", csv, *Y, "--device", address, "--out", tmp_path / "m")
    line = one_line(done)
    assert address in line
    assert "no scheduler answers" in line


def test_device_that_is_not_there(csv, tmp_path, monkeypatch):
    def no_gpu(device):
        raise ValueError("torch sees no GPU")

    monkeypatch.setattr(training, "check_device", no_gpu)
    done = call("fit", csv, *Y, "--device", "cuda", "--out", tmp_path / "m")
    assert "--device cuda: torch sees no GPU" in one_line(done)


class TestTerminal:
    def test_no_bar_without_a_terminal(self, capfd):
        with terminal.Bar("fit") as bar:
            bar.reach(0.5)
        assert capfd.readouterr().err == ""

    def test_bar_after_a_while_in_a_terminal(self):
        screen = io.StringIO()
        console = Console(file=screen, force_terminal=True, width=100)
        with terminal.Bar("fit", after=0.4, console=console) as bar:
            for share in (0.2, 0.1):  # what has been done stays done
                bar.reach(share)
            time.sleep(0.1)
            assert "fit" not in screen.getvalue()
            time.sleep(1.0)
        assert "20%" in screen.getvalue()
        assert "10%" not in screen.getvalue()

    def test_json_has_no_nan(self, capsys):
        terminal.print_json({"a": float("nan"), "b": [float("inf"), 1.0]})
        assert json.loads(capsys.readouterr().out) == {"a": None, "b": [None, 1.0]}


def test_a_model_needs_a_file_name(csv, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "--out -" in one_line(call("fit", csv, *Y, "--out", "-"))
    assert not (tmp_path / "-").exists()


def test_unknown_commands_suggest_the_nearest():
    assert "Did you mean 'predict'" in call("predct").stderr


def test_as_a_process(csv, tmp_path):
    """The entry point itself: exit code, streams, no terminal needed, a reader that leaves."""
    command = [sys.executable, "-m", "bandfall"]
    done = subprocess.run(
        [*command, "fit", csv, "--target", "nope", "--out", tmp_path / "m"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 2
    assert done.stderr.startswith("bandfall: ")
    assert done.stdout == ""


def test_notes_hold_no_machine_paths(model):
    """A model file can be given away."""
    assert str(model.parent).encode() not in model.read_bytes()
    assert b"cos\nsystem" not in model.read_bytes()
    with pytest.raises((pickle.UnpicklingError, ValueError, KeyError, IndexError, EOFError)):
        pickle.loads(model.read_bytes())
