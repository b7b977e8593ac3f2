"""Whatever is wrong with the input: one line, exit code 2, no traceback, nothing overwritten."""

import errno
import gzip
import io
import json
import os
from pathlib import Path

import numpy as np
import pytest

from bandfall._cli import outputs
from bandfall._cli.rows import feature_numbers
from bandfall._cli.terminal import InputError
from bandfall._files import atomic, model_file
from odd_tables import table_of
from shell import Y, call, frame, one_line


@pytest.fixture
def fit(tmp_path):
    """Fit on the given bytes; returns the complaint and checks that nothing was written."""
    out = tmp_path / "m.bandfall"

    def complaint(data, *options, target="y", name="data.csv"):
        (tmp_path / name).write_bytes(data)
        done = call("fit", tmp_path / name, *Y[:1], target, *Y[2:], "--out", out, *options)
        assert not out.exists()
        return one_line(done)

    return complaint


def csv_bytes(table):
    return table.to_csv(index=False).encode()


def test_missing_file(tmp_path):
    done = call("fit", tmp_path / "no.csv", *Y, "--out", tmp_path / "m")
    assert "no.csv does not exist" in one_line(done)


def test_directory(tmp_path):
    done = call("fit", tmp_path, *Y, "--out", tmp_path / "m")
    assert "is a directory" in one_line(done)


def test_missing_target(fit):
    line = fit(csv_bytes(frame()), target="Y")
    assert "no column 'Y'" in line
    assert "it has: width, höhe, y" in line


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
    assert "'five' in row 5" in line
    assert "--drop width" in line


def test_text_far_down():
    table = frame().astype(object)
    table.loc[44, "höhe"] = "hoch"
    with pytest.raises(InputError, match="'hoch' in row 45"):
        feature_numbers(table_of(csv_bytes(table))[0], "d.csv", remedy="drop it")


def test_dates_in_parquet(tmp_path):
    table = frame()
    table["when"] = np.datetime64("2020-01-01")
    table.to_parquet(tmp_path / "d.parquet")
    done = call("fit", tmp_path / "d.parquet", *Y, "--out", tmp_path / "m")
    assert "column 'when'" in one_line(done)


def test_infinite_value(fit):
    table = frame()
    table.loc[7, "width"] = np.inf
    assert "infinite value in row 8" in fit(csv_bytes(table))


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\xef\xbb\xbf"])
def test_empty_file(fit, data):
    assert "is empty" in fit(data)


def test_header_only(fit):
    assert "has a header but no rows" in fit(b"a,b,y\n")


def test_no_rows_after_dropping(fit):
    table = frame()
    table["höhe"] = np.nan
    line = fit(csv_bytes(table))
    assert "no row without missing values" in line
    assert "'höhe'" in line


def test_too_few_rows(fit):
    assert "too few to train on" in fit(csv_bytes(frame(4)))


def test_duplicate_headers(fit):
    line = fit(b"a,b,a,b,y\n" + b"1,2,3,4,5\n" * 9)
    assert "more than one column called 'a', 'b'" in line


def test_unnamed_column(fit):
    line = fit(b"a,,y\n" + b"0,2,5\n" * 9)
    assert "column 2 of" in line
    assert "name it in the header" in line


@pytest.mark.parametrize("row", [b"1,2,3,4\n", b"1,2,3,4\n" * 9])
def test_too_many_fields(fit, row):
    assert "not a proper table" in fit(b"a,b,y\n1,2,3\n2,3,4\n" + row)


def test_all_rows_too_long(fit):
    assert "not a proper table" in fit(b"a,b,y\n" + b"1,2,3,4\n" * 9)


def test_not_in_the_encoding_that_was_named(fit):
    data = "a,größe,y\n1,2,3\n".encode("latin-1")
    assert "is not utf-8 text; name its --encoding" in fit(data, "--encoding", "utf-8")
    assert "--encoding klingon is not known" in fit(data, "--encoding", "klingon")


def test_in_no_encoding_that_is_known(fit):
    assert "name its --encoding" in fit(b"a,b\x81\xff,y\n1,2,3\n")


def test_binary(fit):
    assert "neither CSV nor Parquet nor Excel" in fit(b"\x7fELF\0\0\0\0" * 100)


def test_damaged_gzip(fit):
    packed = gzip.compress(csv_bytes(frame(5000)))
    assert "cannot be unpacked" in fit(packed[: len(packed) // 2])


def test_damaged_parquet(tmp_path):
    frame().to_parquet(tmp_path / "d.parquet")
    data = (tmp_path / "d.parquet").read_bytes()
    (tmp_path / "d.parquet").write_bytes(data[: len(data) // 2])
    done = call("fit", tmp_path / "d.parquet", *Y, "--out", tmp_path / "m")
    assert "cannot be read as Parquet" in one_line(done)


def test_huge_file():
    with pytest.raises(InputError, match="more than 500 values"):
        table_of(csv_bytes(frame(300)), max_cells=500)


def test_compressed_bomb_stops_early():
    bomb = gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(b"a,y\n" + b"1,2\n" * 2_000_000)))
    with pytest.raises(InputError, match="more than 200,000 values"):
        table_of(bomb, max_cells=200_000)
    assert bomb.tell() < 4_000_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--test-fraction", 1), "--test-fraction must be at least 0 and below 1; got 1"),
        (("--test-fraction", -0.1), "--test-fraction must be"),
    ],
)
def test_options_out_of_range(fit, options, message):
    assert message in fit(csv_bytes(frame()), *options)


@pytest.mark.parametrize(
    ("options", "message"), [(("--model", "forest"), "krr-cv"), (("--max-rows", 1), "--max-rows")]
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
        done = call("fit", data, *Y, "--out", data, "--force")
        assert "would overwrite the input" in one_line(done)
        assert data.read_bytes() == before

    @pytest.mark.parametrize("command", ["fit", "report"])
    def test_something_else(self, data, tmp_path, command):
        precious = tmp_path / "thesis.txt"
        precious.write_text("years of work")
        done = call(command, data, *Y, "--out", precious)
        assert "was not written by this command" in one_line(done)
        assert precious.read_text() == "years of work"

    def test_force(self, data, tmp_path):
        (tmp_path / "old").write_text("nothing precious")
        done = call("fit", data, *Y, "--out", tmp_path / "old", "--force")
        assert done.exit_code == 0

    def test_bad_input_leaves_an_old_model(self, model, tmp_path):
        before = model.read_bytes()
        (tmp_path / "bad.csv").write_text("a,y\n1,x\n")
        one_line(call("fit", tmp_path / "bad.csv", *Y, "--out", model))
        assert model.read_bytes() == before

    def test_predictions_over_data(self, model, data):
        before = data.read_bytes()
        one_line(call("predict", model, data, "--out", data))
        one_line(call("predict", model, data, "--out", model, "--force"))
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
        arguments = (model, data) if command == "predict" else (data, *Y)
        before = sorted(tmp_path.iterdir())
        done = call(command, *arguments, "--out", tmp_path / ("m" * 250))
        assert "cannot be written: File name too long" in one_line(done)
        assert sorted(tmp_path.iterdir()) == before

    @pytest.mark.parametrize("command", ["fit", "report", "predict"])
    def test_devices_and_pipes(self, model, data, tmp_path, command):
        os.mkfifo(tmp_path / "pipe")
        arguments = (model, data) if command == "predict" else (data, *Y)
        done = call(command, *arguments, "--out", tmp_path / "pipe", "--force")
        assert "is not a regular file" in one_line(done)

    def test_missing_or_wrong_directory(self, data, tmp_path):
        done = call("fit", data, *Y, "--out", tmp_path / "no" / "m")
        assert "does not exist" in one_line(done)
        done = call("fit", data, *Y, "--out", tmp_path)
        assert "is a directory" in one_line(done)


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
        assert "no columns 'width', 'höhe'" in line

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
    assert "the header of" in fit(b"a" * 200_000 + b",y\n1,2\n")


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


def test_report_needs_a_target(tmp_path):
    frame().to_csv(tmp_path / "d.csv", index=False)
    done = call("report", tmp_path / "d.csv", "--out", tmp_path / "r.html")
    assert "name the column to predict: --target" in one_line(done)


def test_explore_finds_out_before_it_opens_a_page(tmp_path):
    frame().to_csv(tmp_path / "d.csv", index=False)
    done = call("explore", tmp_path / "d.csv")
    assert "name the column to predict: --target" in one_line(done)
    assert "needs the table" in one_line(call("explore", "--target", "y"))
    done = call("explore", tmp_path / "nothing.csv", "--target", "y")
    assert "nothing.csv does not exist" in one_line(done)


def test_compare_needs_held_out_rows(tmp_path):
    frame().to_csv(tmp_path / "d.csv", index=False)
    done = call("compare", tmp_path / "d.csv", *Y[:2], "--test-fraction", 0)
    assert "--test-fraction must be above 0" in one_line(done)


class TestDiskFull:
    """The disk fills up while the work is done: `--out` could be written before."""

    @pytest.fixture
    def full(self, monkeypatch, tmp_path):
        """A directory that nothing can be written to any more."""
        original = atomic.write_atomically
        directory = tmp_path / "full"
        directory.mkdir()

        def write(file, data):
            if Path(file).resolve().parent == directory:
                raise OSError(errno.ENOSPC, "No space left on device", str(file))
            original(file, data)

        for module in (outputs, model_file):
            monkeypatch.setattr(module, "write_atomically", write)
        return directory

    def test_the_trained_model_is_kept_elsewhere(self, full, tmp_path, monkeypatch):
        frame().to_csv(tmp_path / "d.csv", index=False)
        spare = tmp_path / "spare"
        spare.mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(spare))
        done = call("fit", tmp_path / "d.csv", *Y, "--out", full / "m.bandfall")
        line = one_line(done, code=1)
        (kept,) = spare.iterdir()
        assert "No space left on device" in line
        assert str(kept) in line
        assert call("inspect", kept).exit_code == 0

    def test_a_model_that_cannot_be_kept_anywhere_is_said_to_be_lost(
        self, full, tmp_path, monkeypatch
    ):
        frame().to_csv(tmp_path / "d.csv", index=False)
        monkeypatch.chdir(full)
        monkeypatch.setenv("HOME", str(tmp_path / "nowhere"))
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
        done = call("fit", tmp_path / "d.csv", *Y, "--out", full / "m.bandfall")
        assert "the model is lost" in one_line(done, code=1)

    def test_predictions_and_pages_end_with_code_1(self, full, tmp_path):
        frame().to_csv(tmp_path / "d.csv", index=False)
        model = tmp_path / "m.bandfall"
        assert call("fit", tmp_path / "d.csv", *Y, "--out", model).exit_code == 0
        done = call("predict", model, tmp_path / "d.csv", "--out", full / "p.csv")
        assert done.exit_code == 1
        assert "No space left" in done.stderr
        done = call("report", model, "--out", full / "r.html", "--no-rivals")
        assert "No space left" in one_line(done, code=1)
