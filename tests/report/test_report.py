"""The report: complete, self-contained, safe with any names, and alive in a real browser."""

import re
import warnings
from html import escape
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bandfall import (
    BandfallClassifier,
    BandfallRegressor,
    KernelDescentRegressor,
    KernelRidgeRegressor,
    load_model,
    save_model,
)
from bandfall._cli import compare
from bandfall._estimators import training
from bandfall._estimators.training import FitProgress
from bandfall._explore.page import WhatIf, render_explorer
from bandfall._progress import PathProgress
from bandfall.descent import Flow
from bandfall.report import report_on
from bandfall.report._columns import LabelledRows
from bandfall.report._findings import study
from bandfall.report._page import render_page
from bandfall.report._score import RivalScore
from shell import INTERRUPTED, Y, call, frame, press_ctrl_c

EVIL = '"><script>alert(1)</script>'
SECTIONS = ("score", "path", "slices", "features", "errors", "data", "model")


def rows(seed=0, n=80):
    table = frame(n, seed)
    return LabelledRows(table[["width", "höhe"]].to_numpy(), table["y"].to_numpy())


def fitted():
    return make_pipeline(StandardScaler(), KernelDescentRegressor()).fit(*rows())


@pytest.fixture(scope="module")
def findings():
    return study(fitted(), rows(), rows(1), ["width", "höhe"])


def page_of(findings, **options):
    options = {"target": "y", "source": "d.csv", "details": {"estimator": "KGD-D"}} | options
    return render_page(findings, **options)


@pytest.fixture(scope="module")
def page(findings):
    train, test = rows(), rows(1)
    models = dict(list(compare.rivals_for(np.zeros(1), False).items())[:3])
    results = compare.score_rivals(models, train, test)
    facts = {"seconds": 0.2, "n_rows": len(train.y)}
    ours = compare.RivalScore.of("ours", findings.outputs, test.y, findings.target, **facts)
    return page_of(findings, rivals=[*results, ours], model_name="ours")


class TestFindings:
    def test_progress_rises_from_start_to_end(self):
        shares = []
        study(fitted(), rows(), rows(1), ["width", "höhe"], progress=shares.append)
        assert shares == sorted(shares)
        assert shares[-1] == 1.0

    def test_stages_add_up(self, findings):
        stages = findings.stages
        start = -(np.mean(rows(1).y - rows().y.mean()) ** 2) / np.var(rows(1).y)
        np.testing.assert_allclose(stages.scored_loss[0], 1 - start, rtol=1e-9)
        np.testing.assert_allclose(stages.scored_loss[-1], findings.loss, rtol=1e-9)
        assert (np.diff(stages.train_loss) < 1e-9).all()

    def test_last_frame_of_slices_is_the_model(self, findings):
        for one in findings.slices:
            X = np.tile(_typical(rows().X), (len(one.points.grid), 1))
            X[:, ["width", "höhe"].index(one.feature)] = one.points.grid
            np.testing.assert_allclose(one.values[-1, :, 0], fitted().predict(X), rtol=1e-9)

    def test_important_features_come_first(self):
        train = rows()
        X = np.column_stack([train.X, np.random.default_rng(0).normal(size=len(train.X))])
        model = KernelDescentRegressor().fit(X, train.X[:, 1])
        found = study(model, LabelledRows(X, train.X[:, 1]), None, ["a", "b", "c"])
        assert found.slices[0].feature == "b"
        assert not found.held_out

    def test_model_without_path(self):
        model = KernelRidgeRegressor(penalty=0.1).fit(*rows())
        found = study(model, rows(), rows(1), ["a", "b"])
        assert found.stages is None
        text = page_of(found)
        assert 'id="path"' not in text
        assert 'id="slices"' in text

    def test_constant_target_and_feature(self):
        X = np.column_stack([rows().X, np.ones(80)])
        y = np.full(80, 3.0)
        found = study(KernelDescentRegressor().fit(X, y), LabelledRows(X, y), None, ["a", "b", "c"])
        assert "Predicting y" in page_of(found)

    def test_no_r2_for_equal_targets(self):
        X, y = rows().X, np.full(80, 3.0)
        model = KernelDescentRegressor().fit(X, y)
        found = study(model, LabelledRows(X, y), LabelledRows(X[:20], y[:20]), ["a", "b"])
        assert np.isnan(found.loss)
        own = RivalScore.of("bandfall", found.outputs, y[:20], found.target, seconds=1.0, n_rows=80)
        text = page_of(found, rivals=[own])
        assert "R² is not defined on 20 held-out rows: their targets are all equal." in text
        assert "difference" not in text


def _typical(X):
    scaled = (X - np.median(X, axis=0)) / X.std(axis=0)
    return X[np.argmin((scaled**2).sum(axis=1))]


class TestFilm:
    def test_starts_at_the_mean_and_ends_at_the_model(self, findings):
        stages = findings.stages
        train_r2 = 1 - stages.train_loss[stages.moments]
        np.testing.assert_allclose(train_r2[0], 0.0, atol=1e-9)
        np.testing.assert_allclose(train_r2[-1], 0.999, atol=1e-6)
        assert 15 < len(train_r2) <= 31
        assert np.diff(train_r2).max() < 0.25

    def test_a_path_of_few_stages_shows_them_all(self):
        model = KernelDescentRegressor(solver=Flow(resolution=3.0)).fit(*rows())
        stages = study(model, rows(), None, ["a", "b"]).stages
        assert stages.moments.tolist() == list(range(len(model.path_) + 1))

    def test_several_paths_keep_step(self):
        class Average(KernelDescentRegressor):
            """As an average of members: more stages than the path it shows."""

            def staged_predict(self, X):
                for values in super().staged_predict(X):
                    yield 0.9 * values
                    yield values

        model = Average().fit(*rows())
        found = study(model, rows(), rows(1), ["a", "b"])
        assert len(found.stages.bandwidth) == 2 * len(model.path_)
        assert "film-data" in page_of(found)


@pytest.fixture(scope="module")
def odd():
    """What is found about a table of text, times, gaps and columns of no use."""
    n, random = 90, np.random.default_rng(0)
    days = pd.Series(pd.date_range("2019-12-01", periods=n, freq="3D"))
    table = pd.DataFrame(
        {
            "bought": days.dt.strftime("%d.%m.%Y"),
            "price": [f"{1000 + 9 * i:,}".replace(",", ".") + ",50" for i in random.permutation(n)],
            "month": random.choice(["month 10", "month 2", "month 1"], n),
            "stay": pd.to_timedelta(random.uniform(1, 9, n), unit="h"),
            "area": random.normal(size=n),
            "id": [f"No. {i} of a long list of things" for i in range(n)],
            "constant": "always",
        }
    )
    y = np.arange(n) + 20.0 * (table["month"] == "month 2") + 5 * table["area"].to_numpy()
    table.loc[::7, "area"] = np.nan
    table.loc[::5, "month"] = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is read and left out
        model = BandfallRegressor(kernels=("gaussian",), max_rounds=0).fit(table, y)
    return study(model, LabelledRows(table, y), None, list(table.columns))


class TestData:
    def test_missing_values_are_counted(self):
        table = frame(60)[["width", "höhe"]]
        y = table["width"].to_numpy() + 1.0
        table.loc[:6, "höhe"] = np.nan
        model = BandfallRegressor(kernels=("gaussian",), max_rounds=0).fit(table, y)
        found = study(model, LabelledRows(table, y), None, ["width", "höhe"])
        text = page_of(found)
        assert re.search(r"<td>höhe</td><td[^>]*>7</td>", text)
        assert re.search(r"<td>width</td><td[^>]*>0</td>", text)

    def test_what_a_time_limit_has_cut_short_is_named(self):
        table = frame(60)[["width", "höhe"]]
        model = BandfallRegressor(max_rounds=0, kernels="gaussian").fit(table, table["width"])
        model.skipped_ = ["trained on 10 of 60 rows"]  # small fits are never short of time
        page = model.report(None, table, table["width"]).html
        assert "<dt>skipped</dt><dd>trained on 10 of 60 rows</dd>" in page


class TestWarnings:
    def test_unknown_categories_are_named_once(self):
        def towns(*names: str) -> LabelledRows:
            table = frame(80)[["width"]].assign(town=[*names] * (80 // len(names)))
            return LabelledRows(table, table["width"].to_numpy())

        train, test = towns("Rom", "Oslo"), towns("Rom", "Bern", "Graz", "Wien")
        model = BandfallRegressor(kernels=("gaussian",), max_rounds=0).fit(*train)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = study(model, train, test, ["width", "town"])
            render_explorer(found, WhatIf(found), target="width", source="towns")
        assert [str(one.message)[:30] for one in caught] == ["categories never seen in train"]


class TestSlices:
    def test_categories_are_bars_and_numbers_have_a_rug(self):
        table = frame(80)[["width"]].assign(town=["<b>ä</b>", "Rom"] * 40)
        y = table["width"].to_numpy() + (table["town"] == "Rom")
        model = BandfallRegressor(kernels=("gaussian",), max_rounds=0).fit(table, y)
        found = study(model, LabelledRows(table, y), LabelledRows(table, y), ["width", "town"])
        text = page_of(found)
        assert 'class="rug"' in text
        assert 'class="band"' in text
        assert "&lt;b&gt;ä&lt;/b&gt;" in text
        assert "<b>ä" not in text

    def test_text_that_is_dates_or_numbers_is_a_line_in_order(self, odd):
        kinds = {one.feature: one.points.kind for one in odd.slices}
        assert kinds == {
            "bought": "datetime",
            "price": "number",
            "month": "level",
            "stay": "duration",
            "area": "number",
        }
        for one in odd.slices:
            assert (np.diff(one.points.grid) > 0).all()
        months = next(one for one in odd.slices if one.feature == "month")
        assert months.points.labels == ["month 1", "month 10", "month 2", "missing"]

    def test_columns_that_are_not_used_have_no_slice_and_say_so(self, odd):
        assert set(odd.unused) == {"id", "constant"}
        assert "not used: constant" in page_of(odd)
        assert not {"id", "constant"} & {odd.features[j] for j in odd.order}

    def test_missing_values_are_dashes(self, odd):
        cells = re.findall(r"<td[^>]*>([^<]*)</td>", page_of(odd))
        assert "–" in cells
        assert not {"nan", "None", "NaT", "<NA>"} & set(cells)

    def test_the_rug_is_a_sample_of_all_rows(self):
        X = np.sort(np.random.default_rng(0).uniform(size=(3000, 1)), axis=0)
        model = KernelRidgeRegressor(penalty=0.1).fit(X[::30], X[::30, 0])
        (one,) = study(model, LabelledRows(X, X[:, 0]), None, ["a"]).slices
        assert len(one.rug) == 1000
        np.testing.assert_allclose(
            np.quantile(one.rug, [0.1, 0.5, 0.9]), [0.1, 0.5, 0.9], atol=0.05
        )

    def test_every_slice_has_its_own_scale(self):
        X = np.random.default_rng(0).normal(size=(80, 2))
        y = 100 * X[:, 0] + X[:, 1]
        found = study(KernelDescentRegressor().fit(X, y), LabelledRows(X, y), None, ["a", "b"])
        text = page_of(found)
        ticks = [re.findall(r'text-anchor="end">([^<]*)<', part) for part in text.split("<figure>")]
        slices = [
            t
            for t, part in zip(ticks, text.split("<figure>"), strict=True)
            if "slice along" in part
        ]
        assert slices[0] != slices[1]


@pytest.fixture(scope="module")
def sure():
    """A model with intervals, and what is found about it."""
    model = BandfallRegressor(kernels=("gaussian",), max_rounds=0).fit(*rows())
    return model, study(model, rows(), rows(1, n=200), ["width", "höhe"])


class TestIntervals:
    def test_shares_are_those_of_held_out_rows(self, sure):
        model, findings = sure
        intervals, test = findings.intervals, rows(1, n=200)
        ends = model.predict_interval(test.X, intervals.coverages[9])
        share = np.mean((ends[:, 0] <= test.y) & (test.y <= ends[:, 1]))
        assert intervals.shares[9] == pytest.approx(share)
        np.testing.assert_allclose(intervals.lower, model.predict_interval(test.X, 0.9)[:, 0])

    def test_the_page_shows_them(self, sure):
        text = page_of(sure[1])
        assert '<section id="intervals">' in text
        assert "90% intervals contain" in text
        assert "Do intervals contain as many rows as promised?" in text

    def test_models_without_intervals_and_rows_that_were_seen_have_none(self, findings):
        assert findings.intervals is None
        text = page_of(findings)
        assert 'id="intervals"' not in text
        model = BandfallRegressor(kernels=("gaussian",), max_rounds=0).fit(*rows())
        found = study(model, rows(), None, ["a", "b"])
        assert found.intervals is None
        assert found.held_out

    @pytest.mark.filterwarnings("ignore:values far outside")
    def test_too_few_rows_for_an_interval_are_reported(self):
        few = rows(n=6)
        model = BandfallRegressor(kernels=("gaussian",), max_rounds=0).fit(*few)
        found = study(model, few, rows(1), ["a", "b"])
        assert np.all(np.isinf(found.intervals.upper))
        text = page_of(found)
        assert "Do intervals contain as many rows as promised?" in text


class TestTrials:
    def test_every_member_is_listed_with_its_weight(self, sure):
        model, findings = sure
        section = (
            page_of(findings).partition('<section id="members">')[2].partition("</section>")[0]
        )
        weights = re.findall(r"<li>(\d+)%: ", section)
        assert len(weights) == len(model.members_)
        assert sum(map(int, weights)) == pytest.approx(100, abs=2)


class TestRivals:
    def page(self, findings, errors):
        facts = {"seconds": 0.2, "n_rows": 80, "target": findings.target}
        ours, other = (
            compare.RivalScore(name, {"r2": r2, "mae": 0.1}, losses=losses, **facts)
            for name, r2, losses in (("ours", 0.9, findings.residuals**2), ("other", 0.5, errors))
        )
        return page_of(findings, rivals=[ours, other], model_name="ours")

    def test_a_clear_difference_is_shown_with_its_margin(self, findings):
        worse = findings.residuals**2 + np.var(findings.scored.y) * np.linspace(0.4, 0.6, 80)
        assert re.search(r">−0\.5000 ± 0\.01\d\d</td>", self.page(findings, worse))

    def test_chance_is_no_clear_difference(self, findings):
        noise = np.random.default_rng(0).normal(scale=np.var(findings.scored.y), size=80)
        assert "no clear difference" in self.page(findings, findings.residuals**2 + noise)


def cards_of(page):
    """Value, label and style of the numbers at the top."""
    marks = re.findall(r'<div class="card ([^"]*)"><b>([^<]*)</b><span>([^<]*)</span>', page)
    return [(value, label, style) for style, value, label in marks]


class TestCards:
    def test_the_score_comes_first_and_then_the_band(self, sure):
        (score, rule, style), (band, label, _), *others = cards_of(page_of(sure[1]))
        assert (score, style) == (f"{sure[1].scores['r2']:.3f}", "main")
        assert rule == "R² on held-out rows (predicting the mean: 0)"
        assert float(band[1:]) == pytest.approx(sure[1].half_width, rel=0.01)
        assert label == "contains 90% of held-out errors"
        assert not any("bandwidth" in text for _, text, _ in others)

    def test_a_score_no_better_than_the_mean_says_so(self):
        random = np.random.default_rng(0)
        noise = LabelledRows(random.normal(size=(80, 2)), random.normal(size=80))
        test = LabelledRows(random.normal(size=(80, 2)), random.normal(size=80))
        found = study(KernelDescentRegressor().fit(*noise), noise, test, ["a", "b"])
        _, label, style = cards_of(page_of(found))[0]
        assert label.endswith("no better than predicting the mean (0)")
        assert style == "poor"


def test_features_that_tell_the_target_are_named():
    found = study(fitted(), rows(), rows(1), ["width", EVIL])
    story = found.model.story
    known = {name: getattr(story, name) for name in dir(story) if not name.startswith("_")}
    found.model.story = SimpleNamespace(**known | {"leaks": {EVIL: "alone it explains 99.9 %"}})
    score = page_of(found).partition('<section id="score"')[2].partition("</section>")[0]
    assert "Is this known before the target?" in score
    assert f"<li><b>{escape(EVIL)}</b>: alone it explains 99.9 %</li>" in score


class TestPage:
    def test_links_are_in_the_order_of_the_sections(self, page):
        links = re.findall(r'<a href="#([\w-]+)">', page)
        assert links == re.findall(r'<section id="([\w-]+)">', page)

    def test_sections_and_links(self, page):
        for name in SECTIONS:
            assert f'<section id="{name}">' in page
            assert f'href="#{name}"' in page

    def test_nothing_is_loaded(self, page):
        assert "default-src 'none'" in page
        assert not re.search(r"""(src|href)=["'](?!#)""", page)
        assert "@import" not in page
        assert "url(" not in page
        assert "http" not in re.sub(r'http-equiv="', "", page)

    def test_tags_are_closed(self, page):
        class Checker(HTMLParser):
            void = frozenset({"meta", "input", "br"})
            stack: list = []  # noqa: RUF012

            def handle_starttag(self, tag, attributes):
                if tag not in self.void:
                    self.stack.append(tag)

            def handle_endtag(self, tag):
                assert self.stack.pop() == tag

        checker = Checker()
        checker.feed(page)
        assert checker.stack == []

    def test_size_is_small(self, page):
        assert len(page) < 1_000_000

    def test_hostile_names_stay_text(self):
        evil = '"><script>alert(1)</script>'
        found = study(fitted(), rows(), None, [evil, "</script><b>"])
        text = page_of(found, target=evil, source=evil, details={evil: evil})
        assert "<script>alert" not in text
        assert "</script><b>" not in text
        assert text.count("<script") == 2

    def test_no_held_out_rows_is_said(self):
        assert "No rows were held out" in page_of(study(fitted(), rows(), None, ["a", "b"]))


class TestFromPython:
    def test_writes_and_shows_the_page(self, tmp_path):
        train, test = rows(), rows(1)
        model = KernelDescentRegressor().fit(*train)
        file = tmp_path / "r.html"
        made = model.report(file, *train, X_test=test.X, y_test=test.y, target="höhe")
        text = (tmp_path / "r.html").read_text(encoding="utf-8")
        assert text == made.html
        assert "Predicting höhe" in text
        assert made.findings.scores["r2"] == pytest.approx(model.score(*test))
        assert "held-out rows" in repr(made)
        assert made._repr_html_().startswith('<iframe srcdoc="&lt;!doctype html')

    def test_alone_it_shows_scores_of_held_out_rows(self, tmp_path):
        table = frame(80)[["width", "höhe"]].assign(town=["Rom", None] * 40)
        y = frame(80)["y"].to_numpy() + np.random.default_rng(5).normal(size=80)
        model = BandfallRegressor(kernels=("gaussian",), max_rounds=0).fit(table, y)
        made = model.report(tmp_path / "r.html", table, y)
        assert made.findings.scores["r2"] == pytest.approx(model.best_score_, abs=0.02)
        assert made.findings.scores["r2"] < model.score(table, y) - 0.01
        assert "held-out rows" in repr(made)
        assert "no test rows were given" in made.html
        assert "R² on training rows" not in made.html

    def test_models_without_held_out_rows_are_not_scored(self):
        model = KernelDescentRegressor().fit(*rows())
        made = model.report(None, *rows())
        assert "No rows were held out" in made.html
        assert 'class="card main"' not in made.html
        assert "training rows" in repr(made)

    def test_other_rows_are_not_taken_for_those_of_training(self):
        model = BandfallRegressor(kernels=("gaussian",), max_rounds=0).fit(*rows())
        for other in (rows(1), rows(n=40)):
            with pytest.raises(ValueError, match="X_test and y_test"):
                model.report(None, *other)

    def test_models_keep_no_rows_for_reports(self, tmp_path):
        model = BandfallRegressor(kernels=("gaussian",), max_rounds=0).fit(*rows())
        with pytest.raises(ValueError, match=r"report\(file, X, y\)"):
            model.report()
        model.save(tmp_path / "m")
        given = load_model(tmp_path / "m").report(None, *rows()).findings.scores
        assert given == pytest.approx(model.report(None, *rows()).findings.scores)

    def test_frames_pipelines_and_a_search(self):
        train = frame(60)
        X, y = train[["width", "höhe"]], train[["y"]]
        pipeline = make_pipeline(StandardScaler(), KernelDescentRegressor()).fit(X, y["y"])
        assert "höhe" in report_on(pipeline, None, X, y).html
        search = BandfallRegressor(max_rounds=0, kernels=("gaussian",)).fit(X, y["y"])
        assert "What was chosen" in search.report(None, X, y["y"]).html
        polars = pytest.importorskip("polars")
        assert "höhe" in search.report(None, polars.from_pandas(X), y["y"]).html

    def test_what_cannot_be_reported_on(self):
        model = KernelDescentRegressor()
        with pytest.raises(NotFittedError):
            model.report()
        model.fit(*rows())
        with pytest.raises(ValueError, match="both X_test and y_test"):
            model.report(X_test=rows().X)
        with pytest.raises(ValueError, match="both X and y"):
            model.report(None, rows().X)
        with pytest.raises(ValueError, match="one target"):
            model.report(None, rows().X, np.zeros((80, 2)))


class TestCommand:
    @pytest.fixture
    def model(self, tmp_path):
        frame().to_csv(tmp_path / "d.csv", index=False)
        options = ("--target", "y", "--model", "kgdd", "--out", tmp_path / "m")
        assert call("fit", tmp_path / "d.csv", *options).exit_code == 0
        return tmp_path / "m"

    def test_from_a_model(self, model, tmp_path):
        for _ in range(2):  # the second replaces its own page without asking
            done = call("report", model, "--out", tmp_path / "r.html", "--no-rivals")
            assert done.exit_code == 0, done.output
        assert "Predicting y" in (tmp_path / "r.html").read_text(encoding="utf-8")

    def test_with_rivals(self, model, tmp_path, monkeypatch):
        chosen = dict(list(compare.rivals_for(np.zeros(1), False).items())[:2])
        monkeypatch.setattr("bandfall._cli.report.rivals_for", lambda *_: chosen)
        out = tmp_path / "r.html"
        done = call("report", model, "--out", out)
        assert done.exit_code == 0, done.output
        assert "bandfall (this model)" in out.read_text(encoding="utf-8")

    @pytest.mark.parametrize("choice", ["auto", "kgdd"])
    def test_a_report_on_a_model_that_ctrl_c_cut_short(self, tmp_path, monkeypatch, choice):
        where = (FitProgress, "tried") if choice == "auto" else (PathProgress, "reach")
        press_ctrl_c(monkeypatch, *where)
        frame().to_csv(tmp_path / "d.csv", index=False)
        arguments = (*Y[:2], "--model", choice, "--out", tmp_path / "m")
        done = call("fit", tmp_path / "d.csv", *arguments)
        assert (INTERRUPTED in done.stderr) == (choice == "auto")
        assert done.exit_code == 130
        done = call("report", tmp_path / "m", "--out", tmp_path / "r.html", "--no-rivals")
        assert done.exit_code == 0, done.output
        assert "Ctrl-C" in (tmp_path / "r.html").read_text(encoding="utf-8")

    def test_a_second_ctrl_c_writes_nothing(self, tmp_path, monkeypatch):
        press_ctrl_c(monkeypatch, FitProgress, "tried")
        press_ctrl_c(monkeypatch, training, "fit_members")
        frame().to_csv(tmp_path / "d.csv", index=False)
        done = call("fit", tmp_path / "d.csv", *Y[:2], "--out", tmp_path / "m")
        assert "nothing was written" in done.stderr
        assert done.exit_code == 130
        assert not (tmp_path / "m").exists()

    def test_model_without_rows(self, tmp_path):
        save_model(KernelRidgeRegressor().fit(*rows()), tmp_path / "m")
        done = call("report", tmp_path / "m", "--out", tmp_path / "r.html")
        assert done.exit_code == 2
        assert "contains no rows" in done.stderr
        assert not (tmp_path / "r.html").exists()


def page_about_classes():
    X, y = rows().X, np.where(rows().y > 0.5, "high", "low")
    return (
        BandfallClassifier(kernels=("gaussian",), max_rounds=0)
        .fit(X, y)
        .report(None, X, y, X_test=X, y_test=y)
        .html
    )


@pytest.mark.browser
class TestBrowser:
    @pytest.fixture
    def visit(self, chromium, page, tmp_path):
        """Opens the report; afterwards nothing may have gone wrong or left the machine."""

        def go(text=page, **options):
            file = tmp_path / "page.html"
            file.write_text(text, encoding="utf-8")
            chromium.open(file.as_uri(), **options)
            chromium.wait("document.documentElement.dataset.ready === 'yes'")
            return chromium

        yield go
        assert chromium.errors() == []
        assert chromium.requests() == []

    def test_film_and_tips(self, visit):
        browser = visit()
        line = "document.querySelector('[data-film]').getAttribute('d')"
        last = browser.run(f"return {line}")
        browser.run(
            "const slider = document.getElementById('film-slider'); slider.value = 0;"
            "slider.dispatchEvent(new Event('input'))"
        )
        assert browser.run(f"return {line}") != last
        assert browser.text("#film-text").startswith("bandwidth ")
        browser.run(
            "document.querySelector('[data-tip]').dispatchEvent("
            "new PointerEvent('pointerover', {bubbles: true}))"
        )
        assert browser.text("#tip") != ""

    @pytest.mark.parametrize("width", [390, 1280])
    @pytest.mark.parametrize("dark", [False, True])
    def test_fits_and_is_accessible(self, visit, width, dark):
        browser = visit(width=width, dark=dark)
        assert browser.too_wide() <= 0
        flat = "svg.getBoundingClientRect().height < 10"
        assert (
            browser.run(
                f"return [...document.querySelectorAll('svg')].filter((svg) => {flat}).length"
            )
            == 0
        )
        assert browser.serious_issues() == []

    @pytest.mark.parametrize("width", [390, 1280])
    def test_pages_with_intervals_and_about_classes_fit(self, visit, width, sure):
        for text in (page_of(sure[1]), page_about_classes()):
            browser = visit(text, width=width)
            assert browser.too_wide() <= 0
            assert browser.overlaps() == []

    @pytest.mark.parametrize("dark", [False, True])
    def test_pages_with_intervals_and_about_classes_are_accessible(self, visit, dark, sure):
        for text in (page_of(sure[1]), page_about_classes()):
            assert visit(text, dark=dark).serious_issues() == []

    def test_no_column_is_cut_and_no_label_without_a_tip(self, visit, odd):
        for text in (page_of(odd), page_about_classes(), None):
            browser = visit(text, width=1280) if text else visit(width=1280)
            wide = ".filter((t) => t.scrollWidth > t.clientWidth).map((t) => t.textContent)"
            assert browser.run(f"return [...document.querySelectorAll('.scroll')]{wide}") == []
            cut = ".filter((t) => t.textContent.endsWith('…') && !t.dataset.tip).length"
            assert browser.run(f"return [...document.querySelectorAll('text, td')]{cut}") == 0
            assert browser.overlaps() == []

    @pytest.mark.parametrize("width", [390, 1280])
    def test_labels_neither_touch_nor_leave_their_chart(self, visit, width):
        assert visit(width=width).overlaps() == []

    def test_names_beside_bars_fit_on_a_phone(self, visit):
        names = ["Verkaufsdatum", "nearest neighbours (k = 5)"]
        text = page_of(study(fitted(), rows(), rows(1), names))
        assert visit(text, width=390).overlaps() == []

    def test_prints_in_colour(self, visit):
        browser = visit()
        printed = browser.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": False})
        assert len(printed["data"]) > 20_000
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        kept = "return getComputedStyle(document.querySelector('svg .bar')).printColorAdjust"
        assert browser.run(kept) == "exact"
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})

    def test_hostile_names_run_nothing(self, visit):
        code = "document.title='owned'"
        evil = f"<img src=x onerror={code}>\"'</script><script>{code}</script>"
        found = study(fitted(), rows(), rows(1), [evil, "</svg>" + evil])
        browser = visit(page_of(found, target=evil, source=evil, details={evil: evil}))
        assert "owned" not in browser.run("return document.title").split("Predicting")[0]
        assert browser.run("return document.querySelectorAll('img').length") == 0


def test_rows_in_place_of_the_file_are_refused_in_words():
    model = fitted()
    X, y = np.zeros((4, 2)), np.zeros(4)
    with pytest.raises(TypeError, match="takes the file first; got ndarray instead of a path"):
        report_on(model, X, y)


def test_a_path_of_one_stage_has_one_bandwidth():
    model = KernelDescentRegressor(max_r2=0.01).fit(*rows())
    assert len(model.path_) == 1
    page = report_on(model, None, *rows()).html
    assert "One stage, of bandwidth" in page
    assert "1 stages" not in page
