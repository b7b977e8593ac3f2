"""Tables as people have them: each gives a sane model, or one line that names what to do."""

import datetime
import decimal
import gzip
import importlib.util
import json
import os
import threading
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest

from bandfall import load_model
from bandfall.commands import csv_files, tables, training
from bandfall.commands.csv_files import Style
from bandfall.commands.tables import read_table
from bandfall.persistence import read_model_file
from shared_files import suite_files
from shell import call, frame, one_line, quick_flagship

# Sane only where the estimator encodes by `bandfall.encoding`.
needs_encoding = pytest.mark.skipif(
    importlib.util.find_spec("bandfall.estimators._front") is not None,
    reason="needs an estimator that takes any table",
)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(training.bandfall, "BandfallRegressor", quick_flagship)


def numbers(n=120, seed=0):
    """Two features that matter, and their target."""
    random = np.random.default_rng(seed)
    table = pd.DataFrame({"a": random.normal(size=n).round(3), "b": random.normal(size=n).round(3)})
    table["y"] = (np.sin(table["a"]) + table["b"]).round(4)
    return table


def csv_of(table, encoding="utf-8", **options):
    return table.to_csv(index=False, **options).encode(encoding)


def with_column(values, name="c"):
    table = numbers()
    table.insert(0, name, values)
    return table


def dates(form):
    """A straight line over 120 days, the dates written in this form."""
    days = pd.date_range("2023-01-15", periods=120)
    return pd.DataFrame({"day": days.strftime(form), "y": np.arange(120.0)})


def levels():
    """Numbers that matter, beside a column of 500 levels that matter a little."""
    level = np.random.default_rng(0).integers(0, 500, 600)
    table = numbers(600).assign(shop=[f"shop {i}" for i in level])
    table["y"] += 0.1 * np.sin(level)
    return table


def with_gaps():
    table = numbers()
    table.loc[::3, "a"] = np.nan
    table.loc[5:20, "y"] = np.nan
    return table


IDS = [f"{i:08x}-{i * 7919 % 65536:04x}" for i in range(120)]

# Bytes of the file, and the least R² on held-out rows.
SANE = {
    "plain": (csv_of(numbers()), 0.9),
    "semicolons": (csv_of(numbers(), sep=";"), 0.9),
    "tabs": (csv_of(numbers(), sep="\t"), 0.9),
    "bars": (csv_of(numbers(), sep="|"), 0.9),
    "decimal commas": (csv_of(numbers(), sep=";", decimal=","), 0.9),
    "decimal commas in quotes": (csv_of(numbers(), decimal=",", quoting=1), 0.9),
    "byte order mark": (csv_of(numbers(), "utf-8-sig"), 0.9),
    "Latin-1": (csv_of(numbers().rename(columns={"a": "größe", "b": "café"}), "latin-1"), 0.9),
    "UTF-16": (csv_of(numbers().rename(columns={"a": "größe"}), "utf-16"), 0.9),
    "unicode names": (csv_of(numbers().rename(columns={"a": "温度 🌡", "b": "ширина"})), 0.9),
    "names with separators": (csv_of(numbers().rename(columns={"a": "a; b, c"})), 0.9),
    "index column without a name": (numbers().to_csv().encode(), 0.9),
    "text labels without a name": (numbers().set_index(pd.Index(IDS)).to_csv().encode(), 0.9),
    "a comma too many in every line": (csv_of(numbers()).replace(b"\n", b",\n"), 0.9),
    "constant column": (csv_of(with_column(7)), 0.9),
    "constant text": (csv_of(with_column("same")), 0.9),
    "all missing": (csv_of(with_column(np.nan)), 0.9),
    "missing values and targets": (csv_of(with_gaps()), 0.3),
    "NA among numbers": (csv_of(with_gaps()).replace(b"\n,", b"\nNA,"), 0.3),
    "the word None among text": (csv_of(with_column(["None", "brick", "", "NA"] * 30)), 0.9),
    "truth values": (csv_of(with_column([True, False, None] * 40)), 0.8),
    "text": (csv_of(with_column(["red", "green", "blue"] * 40)), 0.8),
    "blanks after separators": (csv_of(numbers()).replace(b",", b", "), 0.9),
    "quotes everywhere": (csv_of(numbers(), quoting=1), 0.9),
    "Windows line ends": (csv_of(numbers(), lineterminator="\r\n"), 0.9),
}
NEED_ENCODING = {
    "ids": (csv_of(with_column(IDS)), 0.9),
    "ISO dates": (csv_of(dates("%Y-%m-%d")), 0.99),
    "German dates": (csv_of(dates("%d.%m.%Y")), 0.99),
    "American dates": (csv_of(dates("%m/%d/%Y")), 0.99),
    "500 levels": (csv_of(levels()), 0.9),
    "a huge scale": (csv_of(numbers().assign(a=lambda t: t["a"] * 1e290)), 0.9),
}
# Bytes of the file, and what the complaint says.
REFUSED = {
    "duplicated names": (b"a,a,y\n" + b"1,2,3\n" * 9, "more than one column called 'a'; rename"),
    "name missing in the middle": (b"a,,y\n" + b"1,2,3\n" * 9, "column 2 of"),
    "no names": (b",\n" + b"1,\n" * 9, "no column with a name; name them in the first line"),
    "one row": (b"a,y\n1,2\n", "too few to train on"),
    "header only": (b"a,y\n", "has a header and no rows"),
    "infinity": (b"a,y\n" + b"1,2\n" * 9 + b"inf,3\n", "'a' of .* infinite value in row 10"),
    "no target at all": (b"a,y\n" + b"1,\n" * 9, "no row of .* has a value in the target 'y'"),
    "target of text": (b"a,y\n" + b"1,2\n" * 9 + b"1,yes\n", "'y' of .* 'yes' in row 10"),
    "target infinite": (b"a,y\n" + b"1,2\n" * 9 + b"1,inf\n", "'y' of .* infinite value in row 10"),
    "rows too long": (b"a,y\n" + b"1,2\n" * 9 + b"1,2,3\n", "not a proper table"),
    "old Excel": (b"\xd0\xcf\x11\xe0" + bytes(600), "before 2007; save it as .xlsx or CSV"),
}


def fit(data, tmp_path, *options, target="y"):
    (tmp_path / "d.csv").write_bytes(data)
    out = tmp_path / "m"
    return call("fit", tmp_path / "d.csv", "--target", target, "--out", out, *options)


def check_sane(data, least_r2, tmp_path):
    done = fit(data, tmp_path, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["test"]["r2"] > least_r2
    predicted = call("predict", tmp_path / "m", tmp_path / "d.csv", "--json")
    result = json.loads(predicted.stdout)
    assert np.isfinite(np.array(result["predictions"], dtype=float)).all()
    assert call("inspect", tmp_path / "m").exit_code == 0


@pytest.mark.parametrize("name", SANE)
def test_nasty_tables_give_a_sane_model(name, tmp_path):
    check_sane(*SANE[name], tmp_path)


@needs_encoding
@pytest.mark.parametrize("name", NEED_ENCODING)
def test_ids_dates_levels_and_scales_give_a_sane_model(name, tmp_path):
    check_sane(*NEED_ENCODING[name], tmp_path)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_used_is_one_line(name, tmp_path):
    data, complaint = REFUSED[name]
    line = one_line(fit(data, tmp_path))
    assert not (tmp_path / "m").exists()
    assert pd.Series([line]).str.contains(complaint).all(), line


class TestReading:
    """What is guessed is said, and what is said is obeyed."""

    @pytest.mark.parametrize(
        ("data", "style", "said"),
        [
            (csv_of(numbers()), (",", ".", "utf-8"), ""),
            (csv_of(numbers(), sep=";", decimal=","), (";", ",", "utf-8"), "decimal comma"),
            (csv_of(numbers(), sep="\t"), ("\t", ".", "utf-8"), "separator tab"),
            ("gr\xf6\xdfe,y\n1,2\n".encode("cp1252"), (",", ".", "cp1252"), "encoding cp1252"),
            (b'a,y\n"1,234",2\n', (",", ".", "utf-8"), ""),
            (b"a;y\n1,234;2\n", (";", ",", "utf-8"), "separator ';', decimal comma"),
            (b"Width, cm;y\n1,5;2\n2,5;3\n", (";", ",", "utf-8"), "separator ';'"),
        ],
    )
    def test_guesses(self, data, style, said, tmp_path):
        (tmp_path / "d").write_bytes(data)
        _, found = read_table(str(tmp_path / "d"))
        assert (found.separator, found.decimal, found.encoding) == style
        assert said in found.remarks
        assert bool(said) == bool(found.remarks)

    def test_told_to_people_and_machines(self, tmp_path):
        done = fit(csv_of(numbers(), sep=";", decimal=","), tmp_path, "--json")
        assert "read with separator ';', decimal comma" in one_line(done, 0)
        reading = json.loads(done.stdout)["reading"]
        assert reading == {"separator": ";", "decimal": ",", "encoding": "utf-8"}

    def test_options_overrule(self, tmp_path):
        (tmp_path / "d").write_bytes("a;b:y\nä;1:2\n".encode("cp850"))
        table, _ = read_table(str(tmp_path / "d"), Style(":", ".", "cp850"))
        assert table.columns.tolist() == ["a;b", "y"]
        assert table["a;b"].tolist() == ["ä;1"]

    def test_tab_by_name(self, tmp_path):
        done = fit(csv_of(numbers(), sep="\t"), tmp_path, "--sep", "tab")
        assert done.exit_code == 0, done.output
        assert done.stderr == ""

    @pytest.mark.parametrize(
        ("option", "complaint"),
        [
            (("--sep", "ab"), "--sep must be one character"),
            (("--decimal", ";"), "--decimal must be '.' or ','"),
        ],
    )
    def test_options_out_of_range(self, option, complaint, tmp_path):
        assert complaint in one_line(fit(csv_of(numbers()), tmp_path, *option))

    def test_numbers_far_up_and_text_far_down(self, tmp_path, monkeypatch):
        """A column is of one kind, however far down the first word stands: no digit is lost."""
        monkeypatch.setattr(csv_files, "CHUNK_ROWS", 10)
        (tmp_path / "d").write_text("code,y\n" + "007,1\n" * 40 + "x1,2\n")
        table, _ = read_table(str(tmp_path / "d"))
        assert set(table["code"]) == {"007", "x1"}

    def test_another_encoding_far_down(self, tmp_path, monkeypatch):
        monkeypatch.setattr(csv_files, "CHUNK_ROWS", 10)
        (tmp_path / "d").write_bytes(b"a,y\n" + b"o,1\n" * 5000 + "ö,2\n".encode("cp1252"))
        table, style = read_table(str(tmp_path / "d"))
        assert style.encoding == "cp1252"
        assert table["a"].iloc[-1] == "ö"

    def test_only_an_empty_field_is_missing_text(self, tmp_path):
        (tmp_path / "d").write_text('a,b,c\nNone,NA,\nx,1,2\n,"",3\n')
        table, _ = read_table(str(tmp_path / "d"))
        assert table["a"].tolist()[:2] == ["None", "x"]
        assert table["a"].isna().tolist() == [False, False, True]
        np.testing.assert_array_equal(table["b"], [np.nan, 1.0, np.nan])
        np.testing.assert_array_equal(table["c"], [np.nan, 2.0, 3.0])

    def test_text_that_looks_like_numbers_stays_text_where_the_model_says_so(self, tmp_path):
        (tmp_path / "d").write_text("a,y\n01,1\n02,2\n")
        table, _ = read_table(str(tmp_path / "d"), text=["a"])
        assert table["a"].tolist() == ["01", "02"]

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
    def test_a_pipe(self, tmp_path):
        """As shells make one for ``bandfall fit <(zcat data.csv.gz)``."""
        os.mkfifo(tmp_path / "pipe")
        writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b"a,y\n1,2\n",))
        writer.start()
        table, _ = read_table(str(tmp_path / "pipe"))
        writer.join()
        assert table.to_dict("list") == {"a": [1], "y": [2]}

    def test_an_endless_pipe_is_refused(self, tmp_path, monkeypatch):
        monkeypatch.setattr(tables, "_MAX_SPOOLED", 1000)
        done = call("fit", "-", "--target", "y", "--out", tmp_path / "m", stdin=b"a,y\n" * 1000)
        assert "standard input is longer than" in one_line(done)


class TestExcel:
    @pytest.fixture(autouse=True)
    def openpyxl(self):
        return pytest.importorskip("openpyxl")

    def sheet(self, table, tmp_path, **options):
        table.to_excel(tmp_path / "d.xlsx", index=False, **options)
        return tmp_path / "d.xlsx"

    def test_fit_and_predict(self, tmp_path):
        table = with_column(["red", "green", None] * 40)
        table.loc[3, "a"] = np.nan
        file = self.sheet(table, tmp_path)
        arguments = ("--target", "y", "--out", tmp_path / "m", "--json")
        done = call("fit", file, *arguments)
        assert json.loads(done.stdout)["test"]["r2"] > 0.7, done.output
        assert call("predict", tmp_path / "m", file).exit_code == 0

    def test_kinds(self, tmp_path):
        days = pd.date_range("2024-01-01", periods=120)
        table = with_column(days, "day").assign(open=True, mixed=[1, "NA"] * 60, text=["x", 2] * 60)
        read, _ = read_table(str(self.sheet(table, tmp_path)))
        kinds = {name: tables.kind_of(read[name]) for name in read.columns}
        assert kinds["day"] == "datetime"
        assert kinds["open"] == "boolean"
        assert kinds["mixed"] == "number"
        assert kinds["text"] == "text"
        assert set(read["text"]) == {"x", "2"}

    def test_second_sheet_is_mentioned(self, tmp_path):
        with pd.ExcelWriter(tmp_path / "d.xlsx") as book:
            numbers().to_excel(book, sheet_name="one", index=False)
            numbers().to_excel(book, sheet_name="two", index=False)
        _, style = read_table(str(tmp_path / "d.xlsx"))
        assert "the first of 2 sheets is read, 'one'" in style.remarks

    def test_damaged(self, tmp_path):
        file = self.sheet(numbers(), tmp_path)
        with zipfile.ZipFile(file) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        members["xl/worksheets/sheet1.xml"] = b"<worksheet><oops"
        with zipfile.ZipFile(file, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        done = call("fit", file, "--target", "y", "--out", tmp_path / "m")
        assert "cannot be read as Excel" in one_line(done)

    def test_other_archives(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "d.zip", "w") as archive:
            archive.writestr("d.csv", csv_of(numbers()))
        done = call("fit", tmp_path / "d.zip", "--target", "y", "--out", tmp_path / "m")
        assert "zip archive; unpack it first" in one_line(done)

    def test_without_openpyxl(self, tmp_path, monkeypatch):
        file = self.sheet(numbers(), tmp_path)
        monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
        done = call("fit", file, "--target", "y", "--out", tmp_path / "m")
        assert "pip install 'bandfall[excel]'" in one_line(done)


class TestRoles:
    """What options say about columns."""

    def test_keep_is_no_feature_and_comes_back(self, tmp_path):
        table = with_column(IDS, "id")
        done = fit(csv_of(table), tmp_path, "--keep", "id")
        assert done.exit_code == 0, done.output
        assert "id" not in load_model(tmp_path / "m").feature_names_in_
        lines = call("predict", tmp_path / "m", tmp_path / "d.csv").stdout.splitlines()
        assert lines[0] == "prediction,id"
        assert [line.split(",")[1] for line in lines[1:]] == IDS
        # Where new rows have no such column, there is none to carry.
        table.drop(columns="id").to_csv(tmp_path / "new.csv", index=False)
        lines = call("predict", tmp_path / "m", tmp_path / "new.csv").stdout.splitlines()
        assert lines[0] == "prediction"

    def test_keep_when_predicting(self, tmp_path):
        fit(csv_of(numbers()), tmp_path)
        done = call("predict", tmp_path / "m", tmp_path / "d.csv", "--keep", "b", "--json")
        assert json.loads(done.stdout)["kept"]["b"] == numbers()["b"].tolist()
        done = call("predict", tmp_path / "m", tmp_path / "d.csv", "--keep", "B")
        assert "no column 'B'" in one_line(done)

    def test_predictions_with_kept_columns_are_recognised(self, tmp_path):
        fit(csv_of(numbers()), tmp_path)
        for _ in range(2):
            done = call(
                *("predict", tmp_path / "m", tmp_path / "d.csv"),
                *("--keep", "b", "--out", tmp_path / "p.csv"),
            )
            assert done.exit_code == 0, done.output

    def test_weights(self, tmp_path):
        """Rows of weight zero count for nothing, however wrong they are."""
        table = numbers()
        table["w"] = 1.0
        wrong = table.sample(40, random_state=0).index
        table.loc[wrong, ["y", "w"]] = [1000.0, 0.0]
        done = fit(csv_of(table), tmp_path, "--weights", "w", "--json")
        assert json.loads(done.stdout)["test"]["r2"] > 0.8, done.output
        assert "w" not in load_model(tmp_path / "m").feature_names_in_

    @pytest.mark.parametrize("choice", ["kgdd", "krr-cv"])
    def test_weights_of_pipelines(self, choice, tmp_path):
        table = numbers().assign(w=2.0)
        done = fit(csv_of(table), tmp_path, "--weights", "w", "--model", choice)
        assert done.exit_code == 0, done.output

    @pytest.mark.parametrize(("weight", "complaint"), [("-1", "has -1 in row 1"), ("", "no value")])
    def test_bad_weights(self, weight, complaint, tmp_path):
        data = b"a,w,y\n1," + weight.encode() + b",2\n" + b"1,1,2\n" * 9
        assert complaint in one_line(fit(data, tmp_path, "--weights", "w"))

    @pytest.mark.parametrize("form", ["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%d.%m.%Y", "%m/%d/%Y", None])
    def test_time_split_holds_out_the_last(self, form, tmp_path):
        table = with_column(pd.date_range("2023-01-01", periods=120), "day")
        table["day"] = np.arange(120) if form is None else table["day"].dt.strftime(form)
        shuffled = table.sample(frac=1.0, random_state=1)
        done = fit(csv_of(shuffled), tmp_path, "--time-split", "day", "--drop", "day")
        assert "the last by day" in done.stdout
        kept = read_model_file(tmp_path / "m").notes["test"]["y"]
        np.testing.assert_array_equal(np.sort(kept), np.sort(table["y"].iloc[-24:]))

    def test_dates_in_doubt(self, tmp_path):
        days = pd.date_range("2023-01-01", periods=12, freq="MS").strftime("%d/%m/%Y")
        data = csv_of(with_column(np.tile(days, 10), "day"))
        line = one_line(fit(data, tmp_path, "--time-split", "day"))
        assert "day and month are in doubt" in line

    def test_targets_written_as_text(self, tmp_path):
        """Numbers that only people can read: grouped by blanks, with per cent."""
        texts = [f"{1000 * value:,.1f} %".replace(",", " ") for value in numbers()["y"]]
        done = fit(csv_of(numbers().assign(y=texts)), tmp_path, "--json")
        assert json.loads(done.stdout)["test"]["r2"] > 0.9, done.output

    def test_moments_stay_together(self):
        from bandfall.commands.rows import Roles, Table, split_table

        day = np.repeat(np.arange(20), 5)
        table = Table(
            pd.DataFrame({"a": day}), day.astype(float), "d", Roles(["y"], time="day"), time=day
        )
        train, test = split_table(table, 0.23, 0, 1000)
        assert test.time.min() > train.time.max()
        assert len(test) == 25

    def test_groups_stay_together(self, tmp_path):
        from bandfall.commands.rows import Roles, load_table, split_table

        table = with_column(np.repeat([f"p{i}" for i in range(12)], 10), "patient")
        table.to_csv(tmp_path / "d.csv", index=False)
        loaded = load_table(str(tmp_path / "d.csv"), Roles(["y"], group="patient"))
        assert "patient" not in loaded.X.columns
        for seed in range(5):
            train, test = split_table(loaded, 0.2, seed, 1000)
            assert not set(train.group) & set(test.group)
            assert 10 <= len(test) <= 30

    def test_one_group_cannot_be_parted(self, tmp_path):
        data = csv_of(with_column("only", "patient"))
        assert "'patient'" in one_line(fit(data, tmp_path, "--group", "patient"))

    @pytest.mark.parametrize(
        ("options", "complaint"),
        [
            (("--time-split", "a", "--group", "b"), "exclude each other"),
            (("--keep", "y"), "--target y is also in --keep"),
            (("--weights", "y"), "--target y is also in --weights"),
            (("--group", "C"), "no column 'C'"),
            (("--time-split", "name"), "'x'; --time-split needs numbers, or dates as 2024"),
            (("--target", "y"), "--target names one column twice"),
        ],
    )
    def test_contradictions(self, options, complaint, tmp_path):
        data = csv_of(with_column("x", "name"))
        assert complaint in one_line(fit(data, tmp_path, *options))

    def test_several_targets(self, tmp_path):
        table = numbers().assign(z=lambda t: t["a"] - t["b"])
        done = fit(csv_of(table), tmp_path, "--target", "z", "--json")
        test = json.loads(done.stdout)["test"]
        assert set(test["targets"]) == {"y", "z"}
        assert test["targets"]["z"]["r2"] > 0.9
        done = call("predict", tmp_path / "m", tmp_path / "d.csv")
        assert done.stdout.splitlines()[0] == "prediction_y,prediction_z"
        assert "held-out R² z" in fit(csv_of(table), tmp_path, "--target", "z").stdout
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
        read, _ = read_table(str(tmp_path / "d.parquet"))
        kinds = [tables.kind_of(read[name]) for name in read.columns]
        assert kinds == ["datetime", "number", "boolean", "duration", "text"]

    def test_compare(self, file):
        done = call("compare", file, "--target", "y", "--json")
        models = {one["name"]: one["r2"] for one in json.loads(done.stdout)["models"]}
        assert models["linear (ridge, CV)"] > 0.5
        assert len(models) == 8

    def test_models_of_numbers_say_what_takes_text(self, file, tmp_path):
        done = call("fit", file, "--target", "y", "--model", "kgdd", "--out", tmp_path / "m")
        line = one_line(done)
        assert "column 'colour'" in line
        assert "--model auto, or leave it out with --drop colour" in line

    def test_another_kind_when_predicting(self, tmp_path):
        fit(csv_of(numbers()), tmp_path)
        numbers().assign(a="five").to_csv(tmp_path / "new.csv", index=False)
        line = one_line(call("predict", tmp_path / "m", tmp_path / "new.csv"))
        assert "column 'a'" in line
        assert "'five' in row 1" in line

    def test_a_target_that_cannot_be_read_costs_the_score_only(self, tmp_path):
        fit(csv_of(numbers()), tmp_path)
        numbers().assign(y="to do").to_csv(tmp_path / "new.csv", index=False)
        done = call("predict", tmp_path / "m", tmp_path / "new.csv")
        assert "no score: column 'y'" in one_line(done, 0)
        assert len(done.stdout.splitlines()) == 121

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
        assert json.loads(done.stdout)["scores"]["r2"] > 0.9


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
        assert "on 2 rows, too few to tell much" in done.stdout

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
    from bandfall.commands.kept_rows import pack_rows, unpack_rows
    from bandfall.commands.terminal import InputError

    table = TestMixedTables().table()
    features = table.drop(columns="y")
    packed = pack_rows(features, table["y"].to_numpy())
    X, y = unpack_rows(packed, features.columns)
    pd.testing.assert_frame_equal(X, features, check_dtype=False)
    np.testing.assert_array_equal(y, table["y"])
    text = next(column for column in packed["X"] if column["kind"] == "text")
    for field, value in [
        ("values", np.full(120, 99)),
        ("values", np.full(120, -2)),
        ("ends", np.array([5, 1, 9])),
        ("ends", np.array([1, 2, 10**9])),
        ("text", np.zeros(0, dtype=np.int64)),
        ("kind", "other"),
        ("kind", 3),
        ("values", np.zeros((2, 2))),
        ("values", np.zeros(5, dtype=np.int64)),
    ]:
        damaged = [{**one, field: value} if one is text else one for one in packed["X"]]
        with pytest.raises(InputError, match="cannot be read"):
            unpack_rows({**packed, "X": damaged}, features.columns)
    with pytest.raises(InputError):
        unpack_rows({"X": 3, "y": y}, None)


def as_load_reads(file, n_rows):
    """Features as categories, dates and numbers, and the target: without our reading."""
    X = pd.read_csv(file, keep_default_na=False, na_values=[""], nrows=n_rows)
    y = X.pop(X.columns[-1]).astype(float)
    for column in X.columns:
        if not pd.api.types.is_numeric_dtype(X[column]):
            iso = X[column].dropna().str.fullmatch(r"\d{4}-\d\d-\d\d(T\d\d:\d\d)?")
            X[column] = pd.to_datetime(X[column]) if iso.all() else X[column].astype("category")
    return X, y


@needs_encoding
@pytest.mark.skipif(not suite_files(), reason="needs the suite: name its home with BANDFALL_DATA")
@pytest.mark.parametrize("file", suite_files(), ids=lambda file: file.name.split(".")[0])
def test_the_shell_and_python_give_equal_predictions(file, tmp_path):
    """From the raw file, without any option that is made for it."""
    X, y = as_load_reads(file, 40)
    lines = gzip.decompress(file.read_bytes()).splitlines(keepends=True)[:41]
    (tmp_path / "d.csv").write_bytes(b"".join(lines))
    arguments = ("--target", y.name, "--test-fraction", 0, "--out", tmp_path / "m")
    done = call("fit", tmp_path / "d.csv", *arguments)
    assert done.exit_code == 0, done.output
    predicted = json.loads(call("predict", tmp_path / "m", tmp_path / "d.csv", "--json").stdout)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        expected = quick_flagship().fit(X, y).predict(X)
    np.testing.assert_allclose(predicted["predictions"], expected, rtol=1e-6, atol=1e-6 * np.std(y))


def test_many_texts_do_not_fill_the_header(tmp_path):
    """The header of a model file is small; text that is kept lies in its arrays."""
    random = np.random.default_rng(0)
    table = frame(300)
    table["text"] = ["".join(random.choice(list("abcdé"), 20_000)) for _ in range(300)]
    from bandfall.commands.kept_rows import pack_rows, unpack_rows
    from bandfall.persistence import dump_bytes, load_bytes

    model = quick_flagship().fit(table[["width", "höhe"]], table["y"])
    data = dump_bytes(model, notes={"test": pack_rows(table[["text"]], table["y"].to_numpy())})
    X, _ = unpack_rows(load_bytes(data).notes["test"], ["text"])
    assert X["text"].tolist() == table["text"].tolist()


def test_gzip_of_standard_input(tmp_path):
    done = call(
        *("fit", "-", "--target", "y", "--out", tmp_path / "m"),
        stdin=gzip.compress(csv_of(numbers(), sep=";", decimal=",")),
    )
    assert "standard input: read with separator ';', decimal comma" in one_line(done, 0)
