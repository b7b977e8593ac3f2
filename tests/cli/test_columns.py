"""The part that each column plays, and tables of all kinds of columns from fit to report."""

import datetime
import decimal
import json
import warnings

import numpy as np
import pandas as pd
import pytest

from bandfall import BandfallRegressor, load_model
from bandfall._cli import training
from bandfall._cli.options import Choices
from bandfall._cli.read_table import read_file
from bandfall._cli.rows import Dataset, load_table, split_table
from bandfall._cli.stored import pack_rows, unpack_rows
from bandfall._cli.terminal import InputError
from bandfall._files import dump_bytes, load_bytes, read_model_file
from bandfall.report._columns import kind_of
from odd_tables import csv_of, fit, numbers, with_column
from shell import call, frame, one_line, quick_flagship

pytestmark = pytest.mark.usefixtures("quick_models")


class TestRoles:
    """What options say about columns."""

    def test_keep_when_predicting(self, tmp_path):
        fit(csv_of(numbers()), tmp_path)
        done = call("predict", tmp_path / "m", tmp_path / "d.csv", "--keep", "b", "--json")
        assert json.loads(done.stdout)["kept"]["b"] == numbers()["b"].tolist()
        done = call("predict", tmp_path / "m", tmp_path / "d.csv", "--keep", "B")
        assert "no column 'B'" in one_line(done)
        numbers().assign(prediction=1.0).to_csv(tmp_path / "d.csv", index=False)
        done = call("predict", tmp_path / "m", tmp_path / "d.csv", "--keep", "prediction")
        assert "--keep prediction: the predictions have a column of this name" in one_line(done)

    def test_weights(self, tmp_path):
        """Rows of weight zero count for nothing, however wrong they are."""
        table = numbers()
        table["w"] = 1.0
        wrong = table.sample(40, random_state=0).index
        table.loc[wrong, ["y", "w"]] = [1000.0, 0.0]
        done = fit(csv_of(table), tmp_path, "--weights", "w", "--json")
        assert json.loads(done.stdout)["test"]["r2"] > 0.8, done.output
        assert "w" not in load_model(tmp_path / "m").feature_names_in_

    def test_weights_of_pipelines(self, tmp_path):
        table = numbers().assign(w=2.0)
        done = fit(csv_of(table), tmp_path, "--weights", "w", "--model", "kgdd")
        assert done.exit_code == 0, done.output

    @pytest.mark.parametrize(("weight", "complaint"), [("-1", "egative"), ("", "NaN")])
    def test_bad_weights(self, weight, complaint, tmp_path):
        data = b"a,w,y\n1," + weight.encode() + b",2\n" + b"1,1,2\n" * 9
        assert complaint in one_line(fit(data, tmp_path, "--weights", "w"))

    @pytest.mark.parametrize("form", ["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%d.%m.%Y", "%m/%d/%Y", None])
    def test_time_split_holds_out_the_last(self, form, tmp_path):
        table = with_column(pd.date_range("2023-01-01", periods=120), "day")
        table["day"] = np.arange(120) if form is None else table["day"].dt.strftime(form)
        shuffled = table.sample(frac=1.0, random_state=1)
        done = fit(csv_of(shuffled), tmp_path, "--time", "day", "--drop", "day")
        assert "the last by day" in done.stdout
        kept = read_model_file(tmp_path / "m").notes["test"]["values"][:, -1]
        np.testing.assert_array_equal(np.sort(kept), np.sort(table["y"].iloc[-24:]))

    def test_the_search_holds_out_later_rows_too(self, tmp_path):
        table = with_column(np.arange(120), "day")
        done = fit(csv_of(table), tmp_path, "--time", "day")
        assert done.exit_code == 0, done.output
        held_out = load_model(tmp_path / "m").held_out_rows_
        assert np.array_equal(np.sort(held_out), np.arange(96)[-len(held_out) :])

    def test_dates_in_doubt(self, tmp_path):
        days = pd.date_range("2023-01-01", periods=12, freq="MS").strftime("%d/%m/%Y")
        data = csv_of(with_column(np.tile(days, 10), "day"))
        line = one_line(fit(data, tmp_path, "--time", "day"))
        assert "day and month are in doubt" in line

    def test_targets_written_as_text(self, tmp_path):
        """Numbers that only people can read: grouped by blanks, with per cent."""
        texts = [f"{1000 * value:,.1f} %".replace(",", " ") for value in numbers()["y"]]
        done = fit(csv_of(numbers().assign(y=texts)), tmp_path, "--json")
        assert json.loads(done.stdout)["test"]["r2"] > 0.9, done.output

    def test_moments_stay_together(self):
        day = np.repeat(np.arange(20), 5)
        table = Dataset(
            pd.DataFrame({"a": day}),
            day.astype(float),
            "d",
            Choices(["y"], time="day", test_fraction=0.23),
            time=day,
        )
        train, test = split_table(table)
        assert test.time.min() > train.time.max()
        assert len(test) == 25

    def test_groups_stay_together(self, tmp_path):
        table = with_column(np.repeat([f"p{i}" for i in range(12)], 10), "patient")
        table.to_csv(tmp_path / "d.csv", index=False)
        for seed in range(5):
            choices = Choices(["y"], group="patient", seed=seed)
            loaded = load_table(str(tmp_path / "d.csv"), choices)
            assert "patient" not in loaded.X.columns
            train, test = split_table(loaded)
            assert not set(train.group) & set(test.group)
            assert 10 <= len(test) <= 30

    def test_the_search_holds_out_whole_groups_too(self, tmp_path):
        """Rows of a patient are alike: a search that splits them would believe in its memory."""
        patients = np.repeat(np.arange(12), 10)
        table = numbers().assign(patient=patients)
        table["y"] = np.random.default_rng(0).normal(size=12)[patients]
        table["a"] = patients + np.random.default_rng(1).normal(0, 0.01, 120)
        done = fit(csv_of(table), tmp_path, "--group", "patient")
        assert done.exit_code == 0, done.output
        assert load_model(tmp_path / "m").best_score_ < 0.5
        fit(csv_of(table), tmp_path, "--drop", "patient")
        assert load_model(tmp_path / "m").best_score_ > 0.9

    def test_one_group_to_train_on_is_searched_by_rows(self, tmp_path):
        table = with_column(np.repeat(["a", "b"], 60), "patient")
        done = fit(csv_of(table), tmp_path, "--group", "patient", "--test-fraction", "0.5")
        assert done.exit_code == 0, done.output
        assert "one group: the search holds out single rows" in done.stderr

    def test_compare_holds_out_whole_groups(self, tmp_path, monkeypatch):
        told = []

        class Watched(BandfallRegressor):
            def fit(self, X, y, sample_weight=None, groups=None):
                told.append(groups)
                return super().fit(X, y, sample_weight, groups)

        watched = Watched(kernels=("gaussian",), max_rounds=0)
        monkeypatch.setattr(training.bandfall, "BandfallRegressor", lambda **_: watched)
        table = with_column(np.repeat(np.arange(12), 10), "patient")
        table.to_csv(tmp_path / "d.csv", index=False)
        done = call("compare", tmp_path / "d.csv", "--target", "y", "--group", "patient")
        assert done.exit_code == 0, done.output
        assert [len(set(groups)) for groups in told] == [9]

    def test_one_group_cannot_be_parted(self, tmp_path):
        data = csv_of(with_column("only", "patient"))
        assert "'patient'" in one_line(fit(data, tmp_path, "--group", "patient"))

    @pytest.mark.parametrize(
        ("options", "complaint"),
        [
            (("--time", "a", "--group", "b"), "not both"),
            (("--weights", "y"), "--target y is also in --weights"),
            (("--group", "C"), "no column 'C'"),
            (("--time", "name"), "'x'; --time needs numbers, or dates as 2024"),
        ],
    )
    def test_contradictions(self, options, complaint, tmp_path):
        data = csv_of(with_column("x", "name"))
        assert complaint in one_line(fit(data, tmp_path, *options))

    def test_several_targets(self, tmp_path):
        table = numbers().assign(z=lambda t: t["a"] - t["b"])
        done = fit(csv_of(table), tmp_path, "--target", "z", "--json")
        assert json.loads(done.stdout)["test"]["r2"] > 0.9
        done = call("predict", tmp_path / "m", tmp_path / "d.csv")
        assert done.stdout.splitlines()[0] == "prediction_y,prediction_z"
        line = one_line(call("report", tmp_path / "m", "--out", tmp_path / "r.html"))
        assert "one --target" in line


class TestMixedTables:
    """Text, dates and gaps all the way through."""

    def table(self):
        random = np.random.default_rng(1)
        table = numbers(seed=1)
        table["colour"] = random.choice(["red", "green", "blue"], len(table))
        table["open"] = random.random(len(table)) < 0.5
        table["day"] = pd.date_range("2024-01-01", periods=len(table))
        table["took"] = pd.to_timedelta(random.integers(1, 99, len(table)), unit="min")
        table["paid"] = pd.array([True, False, None] * (len(table) // 3), dtype="boolean")
        table["y"] += (table["colour"] == "red") * 2.0
        table.loc[::7, "a"] = np.nan
        table.loc[::11, "colour"] = None
        return table

    @pytest.fixture
    def file(self, tmp_path):
        self.table().to_parquet(tmp_path / "d.parquet")
        return tmp_path / "d.parquet"

    def test_report_and_inspect(self, file, tmp_path):
        done = call("fit", file, "--target", "y", "--out", tmp_path / "m", "--json")
        assert done.exit_code == 0, done.output
        fitted = json.loads(done.stdout)
        summary = json.loads(call("inspect", tmp_path / "m", "--json").stdout)
        assert summary["test"]["r2"] == pytest.approx(fitted["test"]["r2"], rel=1e-9)
        assert summary["kinds"]["colour"] == "text"
        assert summary["kinds"]["day"] == "datetime"
        assert sum(summary["importances"].values()) == pytest.approx(1.0)
        shown = call("inspect", tmp_path / "m").stdout
        assert "colour (text)" in shown
        assert "importances" in shown
        done = call("report", tmp_path / "m", "--out", tmp_path / "r.html", "--no-rivals")
        assert done.exit_code == 0, done.output
        assert "most often" in (tmp_path / "r.html").read_text(encoding="utf-8")

    def test_kinds_of_parquet(self, tmp_path):
        table = pd.DataFrame(
            {
                "date": [datetime.date(2024, 1, 1), None],
                "price": [decimal.Decimal("1.50"), None],
                "paid": [True, None],
                "took": pd.to_timedelta([1, 2], unit="h"),
                "level": pd.Categorical(["1", "2"]),
            }
        )
        table.to_parquet(tmp_path / "d.parquet")
        read, _ = read_file(str(tmp_path / "d.parquet"))
        kinds = [kind_of(read[name]) for name in read.columns]
        assert kinds == ["datetime", "number", "boolean", "duration", "text"]

    def test_compare(self, file):
        done = call("compare", file, "--target", "y", "--json")
        models = {one["name"]: one["r2"] for one in json.loads(done.stdout)["models"]}
        assert models["linear (ridge, CV)"] > 0.5
        assert len(models) == 8

    def test_another_kind_when_predicting(self, tmp_path):
        fit(csv_of(numbers()), tmp_path)
        numbers().assign(a="five").to_csv(tmp_path / "new.csv", index=False)
        line = one_line(call("predict", tmp_path / "m", tmp_path / "new.csv"))
        assert "column 'a'" in line
        assert "'five' in row 1" in line

    def test_codes_of_digits_stay_levels(self, tmp_path):
        """A column that was text in training is text in a table that has only its digits."""
        random = np.random.default_rng(0)
        codes = random.choice(["1", "2", "A"], 120)
        effect = pd.Series(codes).map({"1": 0.0, "2": 5.0, "A": 9.0})
        table = numbers().assign(code=codes, y=lambda t: t["y"] + effect)
        fit(csv_of(table), tmp_path, "--test-fraction", "0")
        digits = table[table["code"] != "A"]
        digits.to_csv(tmp_path / "new.csv", index=False)
        done = call("predict", tmp_path / "m", tmp_path / "new.csv", "--json")
        predictions = np.array(json.loads(done.stdout)["predictions"])
        assert np.corrcoef(predictions, digits["y"])[0, 1] > 0.95


class TestScores:
    """Scores that mean little say so."""

    def test_constant_target(self, tmp_path):
        done = fit(csv_of(numbers().assign(y=3.0)), tmp_path)
        assert "the target is constant" in done.stdout
        assert "not defined on 24 rows" in done.stdout
        done = fit(csv_of(numbers().assign(y=3.0)), tmp_path, "--json")
        assert json.loads(done.stdout)["test"]["r2"] is None

    def test_two_rows(self, tmp_path):
        done = fit(csv_of(numbers(8)), tmp_path)
        assert "on 2 rows, too few to be sure" in done.stdout

    def test_large_numbers_are_written_out(self, tmp_path):
        done = fit(csv_of(numbers().assign(y=lambda t: 1e6 * t["y"])), tmp_path, "--model", "kgdd")
        assert "e+0" not in done.stdout

    def test_warnings_are_notes(self, tmp_path, monkeypatch):
        def fitted(self, X, y, **_):
            for _ in range(3):
                warnings.warn("column 'a' looks odd", UserWarning, stacklevel=1)
            return original(self, X, y)

        cls = type(quick_flagship())
        original = cls.fit
        monkeypatch.setattr(cls, "fit", fitted)
        assert one_line(fit(csv_of(numbers()), tmp_path), 0) == "bandfall: column 'a' looks odd"


def test_kept_rows_that_are_damaged(tmp_path):
    """A model file may come from anyone: what it keeps beside the model is checked when read."""
    table = TestMixedTables().table()
    features = table.drop(columns="y")
    y = table["y"].to_numpy()
    packed = pack_rows(Dataset(features, y, "d", Choices(["y"]), weights=np.ones(120)))
    X, y, weights = unpack_rows(packed, features.columns)
    np.testing.assert_array_equal(weights, np.ones(120))
    pd.testing.assert_frame_equal(X, features, check_dtype=False)
    np.testing.assert_array_equal(y, table["y"])
    width = len(packed["kinds"])
    for field, value in [
        ("values", np.full((120, width), 99)),
        ("values", np.full((120, width), -2)),
        ("values", np.full((120, width), np.nan)),
        ("values", np.zeros((2, 2))),
        ("values", np.zeros((0, width))),
        ("values", np.zeros(5, dtype=np.int64)),
        ("values", "text"),
        ("levels", np.frombuffer(json.dumps([["a", 3, None]] * width).encode(), np.uint8)),
        ("levels", np.frombuffer(json.dumps(["abc"] * width).encode(), np.uint8)),
        ("levels", np.frombuffer(b"[[]]", np.uint8)),
        ("levels", np.frombuffer(b"[" * 100_000, np.uint8)),
        ("levels", np.zeros(0, dtype=np.int64)),
        ("kinds", ["other"] * width),
        ("kinds", [[]] * width),
        ("kinds", 3),
        ("weights", np.ones(3)),
    ]:
        with pytest.raises(InputError, match="cannot be read"):
            unpack_rows({**packed, field: value}, features.columns)
    with pytest.raises(InputError):
        unpack_rows(3, features.columns)


def test_many_texts_do_not_fill_the_header(tmp_path):
    """The header of a model file is small; text that is kept lies in its arrays."""
    random = np.random.default_rng(0)
    table = frame(300)
    table["text"] = ["".join(random.choice(list("abcdé"), 20_000)) for _ in range(300)]
    model = quick_flagship().fit(table[["width", "höhe"]], table["y"])
    rows = Dataset(table[["text"]], table["y"].to_numpy(), "d", Choices(["y"]))
    data = dump_bytes(model, notes={"test": pack_rows(rows)})
    X, _, _ = unpack_rows(load_bytes(data).notes["test"], ["text"])
    assert X["text"].tolist() == table["text"].tolist()


def kinds(tmp_path):
    """What the columns are to the model there."""
    readings = next(iter(load_model(tmp_path / "m").encoders_.values())).schema.readings
    return [reading.kind for reading in readings]


class TestWordsForMissingValues:
    """A word in a column of numbers: found, named, or said with --na; --text for the opposite."""

    def table(self, word, n_cells=6):
        prices = [f"{i % 40},50" for i in range(120)]
        prices[3 : 3 + n_cells] = [word] * n_cells
        return with_column(prices, "price")

    @pytest.mark.parametrize("word", ["k.A.", "unknown", "-", "?", "on request"])
    def test_a_word_in_a_few_cells_is_missing_and_named(self, word, tmp_path):
        done = fit(csv_of(self.table(word), sep=";", decimal=","), tmp_path)
        assert done.exit_code == 0, done.output
        assert f"numbers (decimal comma), missing: {word!r} (" in " ".join(done.stderr.split())
        assert kinds(tmp_path) == ["number"] * 3
        assert call("predict", tmp_path / "m", tmp_path / "d.csv").exit_code == 0

    def test_na_says_so(self, tmp_path):
        sizes = ["not measured" if i % 3 == 0 else str(i % 5) for i in range(120)]
        table = with_column(sizes, "size")
        done = fit(csv_of(table), tmp_path, "--na", "not measured")
        assert done.exit_code == 0, done.output
        model = load_model(tmp_path / "m")
        assert kinds(tmp_path)[0] == "number"
        lines = call("predict", tmp_path / "m", tmp_path / "d.csv").stdout.splitlines()
        # Python reads the file of a shell in the same way.
        expected = model.predict(table.drop(columns="y"))
        np.testing.assert_allclose(
            [float(line.split(",")[0]) for line in lines[1:]], expected, rtol=5e-6
        )

    def test_na_in_a_target_and_for_other_models(self, tmp_path):
        table = numbers().astype({"y": object})
        table.loc[3:9, "y"] = "later"
        done = fit(csv_of(table), tmp_path, "--na", "later", "--model", "kgdd")
        assert done.exit_code == 0, done.output
        assert "7 of 120 rows have no target" in done.stderr

    def test_na_in_other_files(self, tmp_path):
        self.table("missing!").to_parquet(tmp_path / "d.parquet")
        found, _ = read_file(str(tmp_path / "d.parquet"), missing=["missing!"])
        assert found["price"].isna().sum() == 6

    def test_text_keeps_what_looks_like_numbers(self, tmp_path):
        table = with_column([str(i % 7) for i in range(120)], "code")
        done = fit(csv_of(table), tmp_path, "--text", "code")
        assert done.exit_code == 0, done.output
        assert kinds(tmp_path)[0] == "category"
        assert call("predict", tmp_path / "m", tmp_path / "d.csv").exit_code == 0
        assert "no column 'kode'" in one_line(fit(csv_of(table), tmp_path, "--text", "kode"))

    def test_compare_takes_both(self, tmp_path):
        csv = tmp_path / "d.csv"
        csv.write_bytes(csv_of(self.table("nix")))
        options = ("--target", "y", "--na", "nix", "--text", "a", "--max-rows", "40")
        done = call("compare", csv, *options)
        assert done.exit_code == 0, done.output
