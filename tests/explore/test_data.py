"""The explorer of a model: what-ifs, its server, and its page in a real browser."""

import http.client
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import warnings
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bandfall import BandfallClassifier, BandfallRegressor, KernelDescentRegressor
from bandfall._explore.page import WhatIf, render_explorer
from bandfall._explore.server import Explorer
from bandfall.report._columns import LabelledRows
from bandfall.report._findings import study
from shell import Y, call, frame

CODE = "document.title='owned'"
EVIL = f"<img src=x onerror={CODE}>\"'</script><script>{CODE}</script>"
SOURCES = Path(__file__).parents[2] / "src"


def table(n=60, seed=0):
    """Two features of numbers with hostile names, one of text with hostile values."""
    made = frame(n, seed)[["width", "höhe"]].assign(town=[EVIL, "Rom", "Oslo"] * (n // 3))
    made.columns = [f"width {EVIL}", "höhe", "town"]
    y = made.iloc[:, 0] + np.sin(2 * made["höhe"]) + (made["town"] == "Rom")
    return LabelledRows(made, y.to_numpy())


@pytest.fixture(scope="module")
def model():
    rows = table()
    return BandfallRegressor(max_rounds=1, kernels=("gaussian",)).fit(rows.X, rows.y)


@pytest.fixture(scope="module")
def findings(model):
    return study(model, table(), table(30, 1), list(table().X.columns))


@pytest.fixture(scope="module")
def what_if(findings):
    return WhatIf(findings)


def page_of(findings, what_if, **options):
    return render_explorer(findings, what_if, target=EVIL, source=EVIL, **options)


class TestWhatIf:
    def test_unchanged_rows_have_their_predictions(self, model, what_if):
        data = what_if.as_data()
        predictions = [row["outputs"][0] for row in data["rows"]]
        np.testing.assert_allclose(predictions, model.predict(what_if.rows), rtol=1e-6)
        json.dumps(data, allow_nan=False)

    def test_one_change_is_in_the_table(self, what_if):
        data = what_if.as_data()
        for place, feature in enumerate(data["features"]):
            point = len(feature["labels"]) - 1
            want = what_if.predict(1, {place: point})
            np.testing.assert_allclose(feature["outputs"][1][point], want, rtol=1e-6)

    def test_several_changes(self, model, what_if):
        changed = what_if.rows.iloc[[2]].copy()
        changes = {}
        for place, feature in enumerate(what_if.features):
            changes[place] = 1
            changed.isetitem(feature.column, [feature.points.values.iloc[1]])
        np.testing.assert_allclose(what_if.predict(2, changes), model.predict(changed))

    def test_missing_numbers_and_model_without_names(self):
        X = np.random.default_rng(0).normal(size=(40, 2))
        plain = make_pipeline(StandardScaler(), KernelDescentRegressor()).fit(X, X[:, 0])
        found = study(plain, LabelledRows(X, X[:, 0]), None, ["a", "b"])
        assert "What if" in page_of(found, WhatIf(found))
        holes = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 1, np.nan, X[:, 1])})
        searched = BandfallRegressor(max_rounds=0, kernels=("gaussian",)).fit(holes, X[:, 0])
        found = study(searched, LabelledRows(holes, X[:, 0]), None, ["a", "b"])
        json.dumps(WhatIf(found).as_data(), allow_nan=False)

    def test_no_value_can_be_chosen_where_values_are_missing(self):
        random = np.random.default_rng(0)
        X = pd.DataFrame({
            "size": np.where(np.arange(60) % 5, random.normal(size=60), np.nan),
            "town": random.choice(["Rom", "Oslo", None], 60),
            "day": pd.Series(pd.date_range("2024-01-01", periods=60)).where(np.arange(60) % 7 > 0),
            "full": random.normal(size=60),
        })  # fmt: skip
        y = X["full"] + X["size"].fillna(2.0) + (X["town"] == "Rom")
        model = BandfallRegressor(max_rounds=0, kernels=("gaussian",)).fit(X, y)
        found = WhatIf(study(model, LabelledRows(X, y.to_numpy()), None, list(X.columns)))
        for place, feature in enumerate(found.features):
            assert ("missing" in feature.points.labels) == (feature.name != "full")
            if feature.name == "full":
                continue
            gap = found.rows.iloc[[0]].copy()
            gap[feature.name] = None if feature.name == "town" else np.nan
            chosen = feature.points.labels.index("missing")
            assert found.predict(0, {place: chosen}) == pytest.approx(model.predict(gap))


@pytest.fixture(scope="module")
def stays():
    """What is found about a classifier with dates as text, times of day and categories."""
    n, random = 90, np.random.default_rng(0)
    days = pd.Series(pd.date_range("2024-01-05", periods=n, freq="D"))
    X = pd.DataFrame(
        {
            "arrival": days.dt.strftime("%Y-%m-%d"),
            "booked": days - pd.to_timedelta(random.integers(0, 9000, n), unit="min"),
            "town": random.choice(["Rom", "Oslo", EVIL], n),
            "age": random.uniform(20, 80, n),
        }
    )
    late = (np.arange(n) > 45) + (X["town"] == "Rom").to_numpy(int)
    y = np.array(["short", "long", f"very long {EVIL}"])[late]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of text that is read
        model = BandfallClassifier(kernels=("gaussian",), max_rounds=0).fit(X, y)
    return study(model, LabelledRows(X, y), None, list(X.columns))


class TestClasses:
    def test_each_kind_of_feature_has_its_control(self, stays):
        kinds = {one.name: one.points.kind for one in WhatIf(stays).features}
        assert kinds == {
            "arrival": "datetime",
            "booked": "datetime",
            "town": "level",
            "age": "number",
        }
        labels = {one.name: one.points.labels for one in WhatIf(stays).features}
        assert max(map(len, labels["arrival"])) == len("2024-01-05")  # whole days
        assert max(map(len, labels["booked"])) == len("2024-01-05 13:37")

    def test_outputs_are_probabilities(self, stays):
        data = WhatIf(stays).as_data()
        assert data["classes"] == list(stays.model.last.classes_)
        assert all(row["actual"] in data["classes"] for row in data["rows"])
        for feature in data["features"]:
            np.testing.assert_allclose(np.sum(feature["outputs"], axis=2), 1.0, atol=1e-4)
        json.dumps(data, allow_nan=False)


@pytest.fixture
def explorer(findings, what_if):
    served = Explorer(page_of(findings, what_if, live=True), what_if)
    yield served
    served.close()


def ask(explorer, path, *, method="GET", host=None):
    """Status, headers and text of a request."""
    connection = http.client.HTTPConnection(urlsplit(explorer.address).netloc, timeout=10)
    connection.request(method, path, headers={"Host": host or explorer.host})
    reply = connection.getresponse()
    text = reply.read().decode()
    connection.close()
    return reply.status, reply.headers, text


class TestServer:
    def test_the_page_and_its_answers(self, explorer, what_if):
        home = f"/{explorer.token}/"
        status, headers, text = ask(explorer, home)
        assert status == 200
        assert "What if" in text
        assert "<script>document.title" not in text
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["Cache-Control"] == "no-store"
        status, _, text = ask(explorer, home + "predict?row=1&changes=0:3,1:4")
        want = what_if.predict(1, {0: 3, 1: 4})
        assert json.loads(text)["outputs"] == pytest.approx(want)

    def test_nothing_without_the_token_or_under_another_name(self, explorer):
        for path in ("/", "/predict", f"/{explorer.token}", f"/{explorer.token}x/", "//", "/../"):
            assert ask(explorer, path)[0] == 404, path
        assert ask(explorer, f"/{explorer.token}/nothing")[0] == 404
        assert ask(explorer, f"/{explorer.token}/", host="evil.example:80")[0] == 404
        assert len(explorer.token) >= 20

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
    def test_only_get_is_understood(self, explorer, method):
        assert ask(explorer, f"/{explorer.token}/", method=method)[0] == 501

    @pytest.mark.parametrize(
        "query",
        ["", "row=0", "row=x&changes=0:0", "row=0&changes=", "row=99&changes=0:0",
         "row=-1&changes=0:0", "row=0&changes=99:0", "row=0&changes=0:9999", "row=0&changes=0:-1",
         "row=0&changes=0:0:0", "row=1e9&changes=0:0"],
    )  # fmt: skip
    def test_bad_questions_are_refused(self, explorer, query):
        assert ask(explorer, f"/{explorer.token}/predict?{query}")[0] == 400

    @pytest.mark.parametrize("target", [b"http://[", b"*", b"x", b"//[::1", b"\xff\x00", b"?" * 99])
    def test_a_malformed_target_is_refused_without_a_traceback(self, explorer, target, capfd):
        with socket.create_connection(explorer.host.split(":"), timeout=10) as connection:
            host = explorer.host.encode()
            connection.sendall(b"GET " + target + b" HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
            reply = connection.recv(100)
        assert reply.split()[1][:1] == b"4"
        explorer.close()  # all threads are done
        assert capfd.readouterr() == ("", "")

    def test_a_client_that_leaves_early_prints_nothing(self, explorer, capfd):
        explorer._page = "page" * 10**6
        for _ in range(5):
            connection = socket.create_connection(explorer.host.split(":"), timeout=10)
            path, host = f"/{explorer.token}/", explorer.host
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        assert ask(explorer, path)[0] == 200
        assert capfd.readouterr() == ("", "")

    def test_listens_on_loopback_only(self, explorer):
        assert urlsplit(explorer.address).hostname == "127.0.0.1"
        assert explorer._server.server_address[0] == "127.0.0.1"


@pytest.mark.browser
class TestBrowser:
    ANSWER = "document.getElementById('what-if-answer').textContent"
    SLIDE = (
        "const s = document.querySelectorAll('#what-if-controls label')[arguments[0]]"
        ".querySelector('input, select'); s.value = arguments[1];"
        "for (const name of ['input', 'change']) s.dispatchEvent(new Event(name));"
    )

    @pytest.fixture
    def alone(self, chromium, findings, what_if, tmp_path):
        """The page in a file; afterwards nothing may have gone wrong or left the machine."""
        file = tmp_path / "explorer.html"
        file.write_text(page_of(findings, what_if), encoding="utf-8")

        def go(**options):
            return chromium.open(file.as_uri(), **options)

        yield go
        assert chromium.errors() == []
        assert chromium.requests() == []

    @pytest.fixture
    def classes(self, chromium, stays, tmp_path):
        """The same about classes."""
        file = tmp_path / "classes.html"
        file.write_text(page_of(stays, WhatIf(stays)), encoding="utf-8")
        yield lambda **options: chromium.open(file.as_uri(), **options)
        assert chromium.errors() == []
        assert chromium.requests() == []

    def test_what_if_without_a_server(self, alone, what_if):
        browser = alone()
        before = browser.run(f"return {self.ANSWER}")
        browser.run(self.SLIDE, 0, 5)
        assert browser.run(f"return {self.ANSWER}") != before
        browser.run(self.SLIDE, 1, 3)  # the first goes back: one change at a time
        assert browser.run("return document.querySelectorAll('.changed').length") == 1
        browser.find("#what-if-reset").click()
        assert browser.run(f"return {self.ANSWER}") == before

    def test_hostile_names_values_and_files_run_nothing(self, alone):
        browser = alone()
        browser.run(self.SLIDE, 0, 5)
        assert browser.run("return document.title").startswith("Predicting <img")
        assert browser.run("return document.querySelectorAll('img').length") == 0
        assert EVIL in browser.run("return document.body.innerText + document.body.textContent")

    @pytest.mark.parametrize("width", [390, 1280])
    @pytest.mark.parametrize("dark", [False, True])
    def test_fits_and_is_accessible(self, alone, width, dark):
        browser = alone(width=width, dark=dark)
        assert browser.too_wide() <= 0
        assert browser.overlaps() == []
        assert browser.serious_issues() == []

    @pytest.mark.parametrize("width", [390, 1280])
    @pytest.mark.parametrize("dark", [False, True])
    def test_pages_about_classes_fit_and_are_accessible(self, classes, width, dark):
        browser = classes(width=width, dark=dark)
        assert browser.too_wide() <= 0
        assert browser.overlaps() == []
        assert browser.serious_issues() == []

    def test_dates_have_a_slider_and_categories_a_list(self, classes, stays):
        browser = classes()
        names = [one.name for one in WhatIf(stays).features]
        control = "document.querySelectorAll('#what-if-controls label')[{}].querySelector('{}')"
        kinds = {"arrival": "range", "booked": "range", "town": "select-one"}
        for name, kind in kinds.items():
            one = control.format(names.index(name), "input, select")
            assert browser.run(f"return {one}.type") == kind
        lists = control.format(names.index("town"), "select")
        options = browser.run(f"return [...{lists}.options].map((one) => one.textContent)")
        assert options[1:] == sorted([EVIL, "Oslo", "Rom"])
        before = browser.run("return document.getElementById('what-if-classes').innerText")
        browser.run(self.SLIDE, names.index("arrival"), 39)
        after = browser.run("return document.getElementById('what-if-classes').innerText")
        assert after != before
        assert "long" in browser.run(f"return {self.ANSWER}")
        shown = browser.run("return document.querySelector('.changed output').textContent")
        assert shown == WhatIf(stays).features[names.index("arrival")].points.labels[39]
        assert browser.run("return document.querySelectorAll('img').length") == 0

    def test_the_film_plays_probabilities(self, classes):
        browser = classes()
        lines = "[...document.querySelectorAll('[data-film]')].map((one) => one.getAttribute('d'))"
        last = browser.run(f"return {lines}")
        browser.run(
            "const slider = document.getElementById('film-slider'); slider.value = 0;"
            "slider.dispatchEvent(new Event('input'))"
        )
        first = browser.run(f"return {lines}")
        assert len(first) == 4 * 3
        assert all(a != b for a, b in zip(first, last, strict=True))
        assert "log-loss" in browser.text("#film-text")

    def test_live_predictions(self, chromium, explorer, what_if):
        chromium.open(explorer.address)
        chromium.run(self.SLIDE, 0, 5)
        first = chromium.run(f"return {self.ANSWER}")
        chromium.run(self.SLIDE, 1, 2)
        chromium.wait(f"{self.ANSWER} !== '{first}'")
        want = what_if.predict(0, {0: 5, 1: 2})
        got = chromium.run(f"return {self.ANSWER}").replace("−", "-")
        assert float(got) == pytest.approx(want[0], rel=1e-3)
        assert chromium.errors() == []
        here = f"http://{explorer.host}/{explorer.token}/"
        assert all(address.startswith(here) for address in chromium.requests())


class TestCommand:
    @pytest.fixture(autouse=True)
    def quiet(self, monkeypatch, tmp_path):
        monkeypatch.chdir(tmp_path)
        frame().to_csv("d.csv", index=False)

    def test_a_model_with_and_without_other_rows(self, tmp_path):
        assert call("fit", "d.csv", *Y, "--out", "m").exit_code == 0
        frame(20, 5).to_csv("new.csv", index=False)
        for more in ((), ("new.csv",)):
            done = call("explore", "m", *more, "--out", "e.html", "--no-open")
            assert done.exit_code == 0, done.output
        assert "new.csv" in (tmp_path / "e.html").read_text(encoding="utf-8")

    def test_rows_of_training_are_left_out(self, tmp_path):
        assert call("fit", "d.csv", *Y, "--out", "m").exit_code == 0
        done = call("explore", "m", "d.csv", "--out", "e.html", "--no-open")
        assert "48 of the 60 rows in d.csv trained the model: left out" in done.stderr
        assert "on 12 held-out rows" in (tmp_path / "e.html").read_text(encoding="utf-8")
        assert call("fit", "d.csv", *Y, "--out", "all", "--test-fraction", 0).exit_code == 0
        done = call("explore", "all", "d.csv", "--out", "e.html", "--no-open")
        assert "fewer than two rows that the model was not trained on" in done.stderr

    def test_serves_until_interrupted(self, tmp_path):
        # A background shell has its children ignore Ctrl-C.
        start = (
            "import signal, runpy; signal.signal(signal.SIGINT, signal.default_int_handler); "
            "runpy.run_module('bandfall', run_name='__main__')"
        )
        assert call("fit", "d.csv", *Y, "--out", "m").exit_code == 0
        command = [sys.executable, "-c", start, "explore", "m", "--no-open", "--json"]
        paths = os.pathsep.join([str(SOURCES), os.environ.get("PYTHONPATH", "")])
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": paths},
        )
        try:
            address = json.loads(process.stdout.readline())["address"]
            assert "What if" in urlopen(address, timeout=10).read().decode()
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
            assert process.returncode == 0
            assert "Traceback" not in errors.decode()
        finally:
            process.kill()
            process.communicate()
