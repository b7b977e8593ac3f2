"""Files of strangers at the shell: a sane model, or one line that names what to do."""

import json

import numpy as np
import pandas as pd
import pytest

from bandfall._targets.scores import score_numbers
from odd_tables import csv_of, fit, numbers, with_column
from shell import call, one_line

N = 120

pytestmark = pytest.mark.usefixtures("quick_models")


def line_over(column):
    """A table whose target is a straight line over the rows, as this column writes them."""
    return pd.DataFrame({"c": column, "y": np.arange(float(N))})


SANE = {
    "durations as pandas writes them": line_over(pd.to_timedelta(np.arange(N) * 7, unit="h")),
    "whole days": line_over(pd.to_timedelta(np.arange(N), unit="D")),
    "dollars": line_over([f"${1000 * i:,}.50" for i in range(N)]),
    "euros": line_over([f"{i},50 €" for i in range(N)]),
    "failed formulas": line_over([*map(str, range(N - 2)), "#DIV/0!", "#REF!"]),
    "moments with offsets": line_over(
        pd.date_range("2024-03-30", periods=N, freq="h", tz="Europe/Berlin").map(str)
    ),
    "moments in UTC": line_over(
        pd.date_range("2024-03-01", periods=N, freq="h").strftime("%Y-%m-%dT%H:%M:%SZ")
    ),
    "line ends inside fields": with_column(["one\ntwo", "b,c", 'said "x"'] * 40),
    "a line end in a name": numbers().rename(columns={"a": "a\n(cm)"}),
    "blanks around the target": numbers().rename(columns={"y": " y "}),
    "yes and no": with_column(["yes", "no", "yes", None] * 30),
    "truth values in two ways": with_column(["TRUE", "FALSE", "1", "0"] * 30),
    "numbers among words": with_column([1, "x", 2.5, "3 kg", None, "7"] * 20),
    "a target of dollars": numbers().assign(y=lambda t: t["y"].map("${:.4f}".format)),
}


@pytest.mark.parametrize("name", SANE)
def test_a_sane_model(name, tmp_path):
    done = fit(csv_of(SANE[name]), tmp_path, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["test"]["r2"] > 0.9
    assert "left out" not in done.stderr
    assert call("predict", tmp_path / "m", tmp_path / "d.csv").exit_code == 0


REFUSED = {
    "JSON": (numbers().to_json(orient="records", indent=1).encode(), "d.csv"),
    "a web page": (b"\n<!DOCTYPE html>\n<table><tr><td>1</td></tr></table>\n", "no column 'y'"),
    "bytes": (bytes(range(256)) * 9, "d.csv"),
    "a remark above the header": (
        b"# made by a machine\n" + csv_of(numbers()),
        "with a header in its first line: Length of header",
    ),
    "two remarks above the header": (
        b"# made by a machine\n# at night\n" + csv_of(numbers()),
        "Expected 1 fields in line 3, saw 3",
    ),
    "a mark and nothing else": (b"\xef\xbb\xbf", "is empty"),
    "blank lines": (b"\n\n\n", "is empty"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_one_line_that_says_what_to_do(name, tmp_path):
    data, complaint = REFUSED[name]
    done = fit(data, tmp_path)
    assert done.exit_code == 2
    assert complaint in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("target", ["Y", " y ", " Y"])
def test_a_name_that_differs_in_blanks_or_capitals_is_suggested(target, tmp_path):
    line = one_line(fit(csv_of(numbers()), tmp_path, target=target))
    assert f"no column {target!r}; did you mean 'y'?" in line


@pytest.mark.parametrize("seed", [-1, 2**32])
@pytest.mark.parametrize("command", ["fit", "compare"])
def test_seeds_are_checked_first(command, seed, tmp_path):
    done = call(command, tmp_path / "d.csv", "--target", "y", "--seed", seed)
    assert done.exit_code == 2
    assert "--seed" in done.stderr


@pytest.mark.parametrize("word", ["NA", "#DIV/0!", "nan"])
def test_one_row_without_a_number(word, tmp_path):
    """Nothing else in the column says that it is one of numbers; the model does."""
    table = numbers()
    table.loc[::5, "a"] = np.nan
    assert fit(csv_of(table), tmp_path).exit_code == 0
    words, empty = (
        call("predict", tmp_path / "m", "-", stdin=f"a,b\n{value},1\n".encode())
        for value in (word, "")
    )
    assert words.exit_code == 0, words.output
    assert words.stdout == empty.stdout


class TestWeights:
    @pytest.mark.parametrize(("n_zero", "which"), [(24, "24 held-out"), (96, "weight")])
    @pytest.mark.parametrize("command", ["fit", "compare"])
    def test_no_row_of_a_part_counts(self, tmp_path, command, n_zero, which):
        weights = np.arange(N) < N - n_zero if n_zero == 24 else np.arange(N) >= n_zero
        table = numbers().assign(w=weights.astype(int), day=range(N))
        table.to_csv(tmp_path / "d.csv", index=False)
        out = ("--out", tmp_path / "m") if command == "fit" else ()
        options = ("--target", "y", "--weights", "w", "--time", "day")
        line = one_line(call(command, tmp_path / "d.csv", *options, *out))
        assert which in line

    def test_rows_that_do_not_count_are_not_scored(self):
        y, predictions = np.array([1.0, 2.0, 9.0]), np.array([1.0, 2.5, 0.0])
        scored = score_numbers(y, predictions, np.array([2.0, 2.0, 0.0]))
        assert scored == score_numbers(y[:2], predictions[:2])
        assert np.isnan(score_numbers(y, predictions, np.array([1.0, 0.0, 0.0]))["r2"])


class TestExcel:
    @pytest.fixture
    def book(self, tmp_path):
        openpyxl = pytest.importorskip("openpyxl")

        def write(*rows):
            workbook = openpyxl.Workbook()
            for row in (*rows, *numbers().itertuples(index=False)):
                workbook.active.append(list(row))
            workbook.save(tmp_path / "d.xlsx")
            return call("fit", tmp_path / "d.xlsx", "--target", "y", "--out", tmp_path / "m")

        return write

    def test_a_title_above_the_header(self, book):
        done = book(["My experiment"], [], ["a", "b", "y"])
        assert "no column 'y' (has: My experiment)" in done.stderr

    def test_failed_formulas_are_missing(self, book):
        done = book(["a", "b", "y"], ["#DIV/0!", 1.0, 0.5], [1.0, "#REF!", 0.5])
        assert done.exit_code == 0, done.output
        assert done.stderr == ""
