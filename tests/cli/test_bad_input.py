"""Whatever is wrong with the input: one line, exit code 2, no traceback, nothing overwritten."""

import errno
import gzip
import json
import os

import numpy as np
import pytest

from shell import Y, call, frame, one_line


@pytest.fixture
def fit(tmp_path):
    """Fit on the given bytes; returns the complaint, and checks that nothing was written.

    A note may stand above it.
    """
    out = tmp_path / "m.bandfall"

    def complaint(data, *options, target="y", name="data.csv"):
        (tmp_path / name).write_bytes(data)
        done = call("fit", tmp_path / name, *Y[:1], target, *Y[2:], "--out", out, *options)
        assert not out.exists()
        assert done.exit_code == 2, done.output
        assert "Traceback" not in done.output
        return done.stderr.splitlines()[-1]

    return complaint


def csv_bytes(table):
    return table.to_csv(index=False).encode()


def test_missing_file(tmp_path):
    done = call("fit", tmp_path / "no.csv", *Y, "--out", tmp_path / "m")
    assert "no.csv: No such file" in one_line(done)


def test_directory(tmp_path):
    done = call("fit", tmp_path, *Y, "--out", tmp_path / "m")
    assert "Is a directory" in one_line(done)


def test_missing_target(fit):
    line = fit(csv_bytes(frame()), target="Y")
    assert "no column 'Y'" in line
    assert "has: width, höhe, y" in line


def test_misspelt_target(fit):
    assert "did you mean 'width'?" in fit(csv_bytes(frame()), target="widht")


def test_missing_column_to_drop(fit):
    assert "no column 'city'" in fit(csv_bytes(frame()), "--drop", "city")


def test_target_dropped(fit):
    assert "also in --drop" in fit(csv_bytes(frame()), "--drop", "y")


def test_nothing_but_the_target(fit):
    assert "no column besides the target" in fit(csv_bytes(frame()[["y"]]))


def test_text_in_a_number_column(fit):
    table = frame().astype(object)
    table.loc[[4, 9], "width"] = ["five", "ten"]
    line = fit(csv_bytes(table))
    assert "column 'width'" in line
    assert "leave it out with --drop" in line


def test_dates_in_parquet(tmp_path):
    table = frame()
    table["when"] = np.datetime64("2020-01-01")
    table.to_parquet(tmp_path / "d.parquet")
    done = call("fit", tmp_path / "d.parquet", *Y, "--out", tmp_path / "m")
    assert "column 'when'" in one_line(done)


@pytest.mark.parametrize("value", [[1, 2], {"a": 1}])
def test_lists_and_records_in_parquet(tmp_path, value):
    table = frame()
    table["odd"] = [value] * len(table)
    table.to_parquet(tmp_path / "d.parquet")
    arguments = (tmp_path / "d.parquet", "--target", "y", "--out", tmp_path / "m")
    arguments += ("--max-seconds", "0.5")
    assert "column 'odd' holds values of type" in one_line(call("fit", *arguments))
    assert call("fit", *arguments, "--drop", "odd").exit_code == 0


def test_infinite_value(fit):
    table = frame()
    table.loc[7, "width"] = np.inf
    assert "infinity" in fit(csv_bytes(table))


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\xef\xbb\xbf"])
def test_empty_file(fit, data):
    assert "is empty" in fit(data)


def test_header_only(fit):
    assert "has a header but no rows" in fit(b"a,b,y\n")


def test_no_rows_after_dropping(fit):
    table = frame()
    table["höhe"] = np.nan
    assert "0 rows that can be used" in fit(csv_bytes(table))


def test_too_few_rows(fit):
    assert "too few to train on" in fit(csv_bytes(frame(4)))


def test_duplicate_headers(fit):
    line = fit(b"a,b,a,b,y\n" + b"1,2,3,4,5\n" * 9)
    assert "more than one column called 'a', 'b'" in line


def test_unnamed_column(fit):
    assert "no column 'b' (has: a, y)" in fit(b"a,,y\n" + b"0,2,5\n" * 9, target="b")


@pytest.mark.parametrize("row", [b"1,2,3,4\n", b"1,2,3,4\n" * 9])
def test_too_many_fields(fit, row):
    assert "cannot be read as a table" in fit(b"a,b,y\n1,2,3\n2,3,4\n" + row)


def test_all_rows_too_long(fit):
    assert "cannot be read as a table" in fit(b"a,b,y\n" + b"1,2,3,4\n" * 9)


def test_damaged_gzip(fit):
    packed = gzip.compress(csv_bytes(frame(5000)))
    assert "cannot be read as a table" in fit(packed[: len(packed) // 2])


def test_damaged_parquet(tmp_path):
    frame().to_parquet(tmp_path / "d.parquet")
    data = (tmp_path / "d.parquet").read_bytes()
    (tmp_path / "d.parquet").write_bytes(data[: len(data) // 2])
    done = call("fit", tmp_path / "d.parquet", *Y, "--out", tmp_path / "m")
    assert "cannot be read as a table" in one_line(done)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--test-fraction", 1), "too few to train on"),
        (("--weights", "nothing"), "no column 'nothing'"),
    ],
)
def test_options_out_of_range(fit, options, message):
    assert message in fit(csv_bytes(frame()), *options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--model", "forest"), "kgdd"),
        (("--max-rows", 1), "--max-rows"),
        (("--test-fraction", -0.1), "--test-fraction"),
    ],
)
def test_unknown_choice(options, message, tmp_path):
    done = call("fit", "d.csv", *Y[:2], *options, "--out", tmp_path / "m")
    assert done.exit_code == 2
    assert message in done.stderr


class TestNothingIsOverwritten:
    @pytest.fixture
    def data(self, tmp_path):
        frame().to_csv(tmp_path / "d.csv", index=False)
        return tmp_path / "d.csv"

    @pytest.fixture
    def model(self, data, tmp_path):
        call("fit", data, *Y, "--out", tmp_path / "m")
        return tmp_path / "m"

    def test_input_as_output(self, data):
        before = data.read_bytes()
        done = call("fit", data, *Y, "--out", data)
        assert "would overwrite the input" in one_line(done)
        assert data.read_bytes() == before

    def test_bad_input_leaves_an_old_model(self, model, tmp_path):
        before = model.read_bytes()
        (tmp_path / "bad.csv").write_text("a,y\n1,x\n")
        one_line(call("fit", tmp_path / "bad.csv", *Y, "--out", model))
        assert model.read_bytes() == before

    def test_predictions_over_data(self, model, data):
        before = data.read_bytes()
        one_line(call("predict", model, data, "--out", data))
        one_line(call("predict", model, data, "--out", model))
        assert data.read_bytes() == before

    @pytest.mark.parametrize("command", ["fit", "report", "predict"])
    def test_a_place_that_cannot_be_written_is_found_out_first(
        self, model, data, tmp_path, command, monkeypatch
    ):
        """Here, because the name of the temporary file is too long for the system."""

        def never(*_, **__):
            raise AssertionError("the work has begun")

        monkeypatch.setattr(f"bandfall._cli.{command}.read_model_file", never, raising=False)
        monkeypatch.setattr("bandfall._cli.training.load_table", never)
        arguments = (data, *Y) if command == "fit" else (model, data)
        before = sorted(tmp_path.iterdir())
        done = call(command, *arguments, "--out", tmp_path / ("m" * 250))
        assert "cannot be written: File name too long" in one_line(done)
        assert sorted(tmp_path.iterdir()) == before

    @pytest.mark.parametrize("command", ["fit", "report", "predict"])
    def test_devices_and_pipes(self, model, data, tmp_path, command):
        os.mkfifo(tmp_path / "pipe")
        arguments = (data, *Y) if command == "fit" else (model, data)
        done = call(command, *arguments, "--out", tmp_path / "pipe")
        assert "is not a regular file" in one_line(done)

    def test_missing_or_wrong_directory(self, data, tmp_path):
        done = call("fit", data, *Y, "--out", tmp_path / "no" / "m")
        assert "does not exist" in one_line(done)
        done = call("fit", data, *Y, "--out", tmp_path)
        assert "is not a regular file" in one_line(done)


class TestPredict:
    @pytest.fixture
    def model(self, tmp_path):
        frame().to_csv(tmp_path / "d.csv", index=False)
        call("fit", tmp_path / "d.csv", *Y, "--out", tmp_path / "m")
        return tmp_path / "m"

    def complaint(self, model, table, tmp_path):
        table.to_csv(tmp_path / "new.csv", index=False)
        out = tmp_path / "p.csv"
        line = one_line(call("predict", model, tmp_path / "new.csv", "--out", out))
        assert not out.exists()
        return line

    def test_missing_columns(self, model, tmp_path):
        line = self.complaint(model, frame()[["y"]], tmp_path)
        assert "no column 'width', 'höhe'" in line

    def test_renamed_column(self, model, tmp_path):
        line = self.complaint(model, frame().rename(columns={"width": "Width"}), tmp_path)
        assert "no column 'width'; did you mean 'Width'?" in line

    def test_text(self, model, tmp_path):
        line = self.complaint(
            model, frame().astype(object).replace({"höhe": {}}).assign(width="w"), tmp_path
        )
        assert "column 'width'" in line
        assert "row 1" in line

    def test_not_a_model(self, tmp_path):
        (tmp_path / "m").write_text("no model")
        frame().to_csv(tmp_path / "d.csv", index=False)
        line = one_line(call("predict", tmp_path / "m", tmp_path / "d.csv"))
        assert "cannot be read as a bandfall model" in line

    def test_missing_model(self, tmp_path):
        for command in ("predict", "inspect"):
            arguments = [tmp_path / "no"] + [tmp_path / "d.csv"] * (command == "predict")
            assert "No such file" in one_line(call(command, *arguments))

    def test_truncated_model(self, model, tmp_path):
        model.write_bytes(model.read_bytes()[:-9])
        line = one_line(call("predict", model, tmp_path / "d.csv"))
        assert "truncated" in line


def test_a_very_long_name_in_the_header(fit):
    assert "field larger than" in fit(b"a" * 200_000 + b",y\n1,2\n")


def test_inspecting_a_pipe_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in one_line(call("inspect", tmp_path / "pipe"))


class TestHostileNames:
    """Names from strangers' files are shown as they are, and never steer the terminal."""

    NAMES = ("power [kw]", "[/x]", "[bold red]", "\x1b[2J", "ab\u202egnp", "\x9b31m", "\\[b]")

    @pytest.fixture
    def model(self, tmp_path):
        table = frame()
        table.columns = [*self.NAMES[:2], "y"]
        for name in self.NAMES[2:]:
            table[name] = np.random.default_rng(len(name)).normal(size=len(table))
        target, out = "goal [/y] \x1b]0;", tmp_path / "m [b]"
        table.rename(columns={"y": target}).to_csv(tmp_path / "d.csv", index=False)
        arguments = ("--target", target, *Y[2:], "--out", out)
        self.fitted = call("fit", tmp_path / "d.csv", *arguments)
        assert self.fitted.exit_code == 0, self.fitted.output
        return out

    def test_fit_and_inspect(self, model):
        shown = " ".join(call("inspect", model).stdout.split())
        for text in ("power [kw], [/x], [bold red]", "\\x1b[2J, ab\\u202egnp, \\x9b31m, \\[b]"):
            assert text in shown
        for output in (shown, self.fitted.stdout):
            assert "goal [/y] \\x1b]0;" in output
            assert not set("\x1b\x9b\u202e") & set(output)

    def test_errors(self, model, tmp_path):
        frame().to_csv(tmp_path / "new.csv", index=False)
        line = one_line(call("predict", model, tmp_path / "new.csv"))
        assert "'power [kw]'" in line
        assert not set("\x1b\x9b\u202e") & set(line)

    def test_json(self, model):
        text = call("inspect", model, "--json").stdout
        assert not set("\x1b\x9b\u202e") & set(text)
        assert json.loads(text)["features"] == list(self.NAMES)


@pytest.mark.parametrize("command", ["report", "explore"])
def test_pages_need_a_model(tmp_path, command):
    frame().to_csv(tmp_path / "d.csv", index=False)
    done = call(command, tmp_path / "d.csv", "--out", tmp_path / "r.html")
    assert "cannot be read as a bandfall model" in one_line(done)
    assert "No such file" in one_line(call(command, tmp_path / "no", "--out", tmp_path / "r.html"))


@pytest.mark.parametrize("command", ["report", "explore"])
def test_pages_need_a_model_of_one_target(tmp_path, command):
    frame().to_csv(tmp_path / "d.csv", index=False)
    call("fit", tmp_path / "d.csv", *Y, "--target", "width", "--out", tmp_path / "m")
    done = call(command, tmp_path / "m", tmp_path / "d.csv", "--out", tmp_path / "r.html")
    assert "a page is about one target" in one_line(done)


@pytest.mark.parametrize("options", [("--test-fraction", 0), ("--target", "width")])
def test_compare_needs_held_out_rows_and_one_target(tmp_path, options):
    frame().to_csv(tmp_path / "d.csv", index=False)
    done = call("compare", tmp_path / "d.csv", *Y[:2], *options)
    assert options[0] in one_line(done)


@pytest.mark.parametrize("command", ["fit", "predict", "report"])
def test_a_disk_that_fills_up_is_a_failure(tmp_path, monkeypatch, command):
    """`--out` could be written before the work began."""
    frame().to_csv(tmp_path / "d.csv", index=False)
    assert call("fit", tmp_path / "d.csv", *Y, "--out", tmp_path / "m").exit_code == 0

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    arguments = (
        (tmp_path / "d.csv", *Y) if command == "fit" else (tmp_path / "m", tmp_path / "d.csv")
    )
    done = call(command, *arguments, "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert "No space left on device" in done.stderr.splitlines()[-1]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["d.csv", "m"]
