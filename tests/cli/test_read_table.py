"""Tables as people have them: each gives a sane model, or one line that names what to do."""

import gzip
import json
import os
import threading
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest

from bandfall._cli.read_table import read_file
from bandfall.report._columns import kind_of
from odd_tables import IDS, csv_of, fit, numbers, table_of, with_column
from shared_files import suite_files
from shell import call, one_line, quick_flagship

pytestmark = pytest.mark.usefixtures("quick_models")


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
    "line ends of old Macs": (csv_of(numbers(), lineterminator="\r"), 0.9),
    "integers beyond 64 bits": (csv_of(with_column([10**30 + i**3 for i in range(120)])), 0.9),
    "a huge target": (csv_of(numbers().assign(y=lambda t: t["y"] * 1e290)), 0.9),
    "a tiny target": (csv_of(numbers().assign(y=lambda t: t["y"] * 1e-290)), 0.9),
}
NEED_ENCODING = {
    "ids": (csv_of(with_column(IDS)), 0.9),
    "ISO dates": (csv_of(dates("%Y-%m-%d")), 0.99),
    "German dates": (csv_of(dates("%d.%m.%Y")), 0.99),
    "American dates": (csv_of(dates("%m/%d/%Y")), 0.99),
    "500 levels": (csv_of(levels()), 0.9),
    "a huge scale": (csv_of(numbers().assign(a=lambda t: t["a"] * 1e290)), 0.9),
}
# Bytes of the file, a pattern of the error, and options.
REFUSED = {
    "duplicated names": (b"a,a,y\n" + b"1,2,3\n" * 9, "more than one column called 'a'; rename"),
    "no names": (b",\n" + b"1,\n" * 9, r"no column 'y' \(has: \)"),
    "one row": (b"a,y\n1,2\n", "too few to train on"),
    "header only": (b"a,y\n", "has a header but no rows"),
    "infinity": (b"a,y\n" + b"1,2\n" * 9 + b"inf,3\n", "infinity: column 'a'"),
    "no target at all": (b"a,y\n" + b"1,\n" * 9, "no row of .* has a value in the target 'y'"),
    "target of text": (b"a,y\n" + b"1,2\n" * 9 + b"1,yes\n", "'y' of .* 'yes' in row 10"),
    "target infinite": (b"a,y\n" + b"1,2\n" * 9 + b"1,inf\n", "'y' of .* infinite value in row 10"),
    "integer beyond float64": (
        b"a,y\n" + b"1,2\n" * 9 + b"1,1" + b"0" * 400 + b"\n",
        "'y' of .* infinite value in row 10",
    ),
    "classes as regression": (
        b"a,y\n" + b"1,yes\n2,no\n" * 9,
        "for classes, use --task classification",
        "--task",
        "regression",
    ),
    "target of dates": (
        csv_of(dates("%Y-%m-%d").set_axis(["y", "a"], axis=1)),
        "'2023-01-15' in row 1, where a n",
    ),
    "target of names": (b"a,y\n1,Ann\n2,Bob\n3,Cy\n" + b"4,Di\n5,Ed\n6,Fay\n", "'Ann' in row 1"),
    "no feature varies": (
        b"a,b,y\n" + b"".join(b"1,x,%d\n" % i for i in range(18)),
        "no feature varies in the training",
    ),
    "rows too long": (b"a,y\n" + b"1,2\n" * 9 + b"1,2,3\n", "in line 11, saw 3"),
    "old Excel": (b"\xd0\xcf\x11\xe0" + bytes(600), "d.csv"),
}


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


@pytest.mark.parametrize("name", NEED_ENCODING)
def test_ids_dates_levels_and_scales_give_a_sane_model(name, tmp_path):
    check_sane(*NEED_ENCODING[name], tmp_path)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_used_is_one_line(name, tmp_path):
    data, complaint, *options = REFUSED[name]
    done = fit(data, tmp_path, *options)
    assert done.exit_code == 2
    line = done.stderr.splitlines()[-1]
    assert not (tmp_path / "m").exists()
    assert pd.Series([line]).str.contains(complaint).all(), line


class TestIds:
    """Columns that look like ids are named, with what to do about them."""

    def test_text_is_left_out_and_may_be_kept_beside_predictions(self, tmp_path):
        done = fit(csv_of(numbers().assign(no=IDS)), tmp_path)
        assert "nearly all values differ" in done.stdout
        assert "to copy 'no' into the predictions, use predict --keep no" in done.stderr
        kept = call("predict", tmp_path / "m", tmp_path / "d.csv", "--keep", "no").stdout
        assert kept.startswith("no,prediction\n")

    def test_numbers_are_kept(self, tmp_path):
        done = fit(csv_of(numbers().assign(no=range(1, 121))), tmp_path)
        assert "left out" not in done.stdout
        assert "'no' looks like an id and is used as a feature; if it is an id" in one_line(done, 0)
        done = fit(csv_of(numbers().assign(no=range(1, 121))), tmp_path, "--drop", "no")
        assert done.stderr == ""
        kept = call("predict", tmp_path / "m", tmp_path / "d.csv", "--keep", "no").stdout
        assert kept.startswith("no,prediction\n")


def test_a_self_tuning_model_says_why_it_stopped(tmp_path):
    done = fit(csv_of(numbers()), tmp_path)
    assert "where held-out rows were predicted best" in done.stdout
    assert "where held-out rows were predicted best" in call("inspect", tmp_path / "m").stdout


class TestReading:
    """What is guessed is said, and what is said is obeyed."""

    @pytest.mark.parametrize(
        ("data", "style", "said"),
        [
            (csv_of(numbers()), "point", ""),
            (csv_of(numbers(), sep=";", decimal=","), "comma", "separator ';', decimal comma"),
            (csv_of(numbers(), sep="\t"), "point", "separator '\\t'"),
            ("gr\xf6\xdfe,y\n1,2\n".encode("cp1252"), "point", "encoding cp1252"),
            (b'a,y\n"1,234",2\n', "point", ""),
            (b"a;y\n1,234;2\n", "comma", "separator ';', decimal comma"),
            (b"Width, cm;y\n1,5;2\n2,5;3\n", "comma", "separator ';'"),
        ],
    )
    def test_guesses(self, data, style, said, tmp_path, capsys):
        (tmp_path / "d").write_bytes(data)
        assert read_file(str(tmp_path / "d"))[1] == style
        printed = capsys.readouterr().err
        assert said in printed
        assert bool(said) == bool(printed)

    def test_points_group_thousands_in_a_file_with_decimal_commas(self, tmp_path):
        """Also in new files that show no decimal comma."""
        lines = [f"{i // 20 + 1}.{i % 20:03d};{i},5;{i + 1}.000" for i in range(120)]
        lines[:3] = ["950;0,5;900", "k.A.;1,5;2.000", "952;2,5;3.000"]
        done = fit("\n".join(["km;b;y", *lines, ""]).encode(), tmp_path, "--json")
        assert "'km': text read as numbers (decimal comma)" in done.stderr
        assert json.loads(done.stdout)["test"]["r2"] > 0.9
        (tmp_path / "new.csv").write_text("km;b\n4.017;77\n4017;77\n")
        first, second = call("predict", tmp_path / "m", tmp_path / "new.csv").stdout.split()[1:]
        assert first == second
        assert float(first) == pytest.approx(78_000.0, rel=0.1)

    def test_numbers_far_up_and_text_far_down(self):
        """A column is of one kind, however far down the first word stands: no digit is lost."""
        table, _ = table_of(b"code,y\n" + b"007,1\n" * 40 + b"x1,2\n")
        assert set(table["code"]) == {"007", "x1"}

    def test_another_encoding_far_down(self):
        table, _ = table_of(b"a,y\n" + b"o,1\n" * 5000 + "ö,2\n".encode("cp1252"))
        assert table["a"].iloc[-1] == "ö"

    def test_only_an_empty_field_is_missing_text(self, tmp_path):
        (tmp_path / "d").write_text('a,b,c\nNone,NA,\nx,1,2\n,"",3\n')
        table, _ = read_file(str(tmp_path / "d"))
        assert table["a"].tolist()[:2] == ["None", "x"]
        assert table["a"].isna().tolist() == [False, False, True]
        np.testing.assert_array_equal(table["b"], [np.nan, 1.0, np.nan])
        np.testing.assert_array_equal(table["c"], [np.nan, 2.0, 3.0])

    def test_text_that_looks_like_numbers_stays_text_where_the_model_says_so(self, tmp_path):
        (tmp_path / "d").write_text("a,y\n01,1\n02,2\n")
        table, _ = read_file(str(tmp_path / "d"), ["a"])
        assert table["a"].tolist() == ["01", "02"]

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
    def test_a_pipe(self, tmp_path):
        """As shells make one for ``bandfall fit <(zcat data.csv.gz)``."""
        os.mkfifo(tmp_path / "pipe")
        writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b"a,y\n1,2\n",))
        writer.start()
        table, _ = read_file(str(tmp_path / "pipe"))
        writer.join()
        assert table.to_dict("list") == {"a": [1], "y": [2]}


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
        read, _ = read_file(str(self.sheet(table, tmp_path)))
        kinds = {name: kind_of(read[name]) for name in read.columns}
        assert kinds["day"] == "datetime"
        assert kinds["open"] == "boolean"
        assert kinds["mixed"] == "number"
        assert kinds["text"] == "text"
        assert set(read["text"]) == {"x", "2"}

    def test_damaged(self, tmp_path):
        file = self.sheet(numbers(), tmp_path)
        with zipfile.ZipFile(file) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        members["xl/worksheets/sheet1.xml"] = b"<worksheet><oops"
        with zipfile.ZipFile(file, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        done = call("fit", file, "--target", "y", "--out", tmp_path / "m")
        assert "cannot be read as a table" in one_line(done)

    def test_other_archives(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "d.zip", "w") as archive:
            archive.writestr("d.csv", csv_of(numbers()))
        done = call("fit", tmp_path / "d.zip", "--target", "y", "--out", tmp_path / "m")
        assert "cannot be read as a table" in one_line(done)

    def test_without_openpyxl(self, tmp_path, monkeypatch):
        file = self.sheet(numbers(), tmp_path)
        monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
        done = call("fit", file, "--target", "y", "--out", tmp_path / "m")
        assert "openpyxl" in one_line(done)


def as_load_reads(file, n_rows):
    """Features as categories, dates and numbers, and the target: without our reading."""
    X = pd.read_csv(file, keep_default_na=False, na_values=[""], nrows=n_rows)
    y = X.pop(X.columns[-1]).astype(float)
    for column in X.columns:
        if not pd.api.types.is_numeric_dtype(X[column]):
            iso = X[column].dropna().str.fullmatch(r"\d{4}-\d\d-\d\d(T\d\d:\d\d)?")
            X[column] = pd.to_datetime(X[column]) if iso.all() else X[column].astype("category")
    return X, y


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


def test_gzip_of_standard_input(tmp_path):
    done = call(
        *("fit", "-", "--target", "y", "--out", tmp_path / "m"),
        stdin=gzip.compress(csv_of(numbers(), sep=";", decimal=",")),
    )
    assert "standard input: read with separator ';', decimal comma" in one_line(done, 0)
