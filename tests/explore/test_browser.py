"""The playground in a real browser: used as a person would, by pointer and by keyboard."""

import pytest
from selenium.webdriver import ActionChains, Keys

from bandfall._explore import render_playground

pytestmark = pytest.mark.browser

SOLVED = "document.documentElement.dataset.solved"
SWEPT = "document.documentElement.dataset.swept"
CURVE = "document.querySelector('#model .line.a:not(.spike)').getAttribute('d')"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    file = tmp_path_factory.mktemp("explore") / "play <ground> ä.html"
    file.write_text(render_playground(), encoding="utf-8")
    return file.as_uri()


@pytest.fixture
def visit(chromium, page):
    """Opens the playground; afterwards nothing may have gone wrong or left the machine."""

    def go(address="", **options):
        chromium.open(page + address, **options)
        chromium.wait(SOLVED)
        return chromium

    yield go
    assert chromium.errors() == []
    assert chromium.requests() == []


def slide(browser, name, value):
    browser.run(
        "const s = document.getElementById(arguments[0]); s.value = arguments[1];"
        "s.dispatchEvent(new Event('input'));",
        name,
        value,
    )
    browser.wait(SOLVED)


class TestUse:
    def test_scrubbing_moves_curve_cursors_and_text(self, visit):
        browser = visit()
        seen = []
        for place in (0, 40, 90):
            slide(browser, "scrub", place)
            cursors = browser.run(
                "return [...document.querySelectorAll('.linked .cursor')].slice(0, 3)"
                ".map((path) => path.getAttribute('d'))"
            )
            seen.append((browser.run(f"return {CURVE}"), *cursors, browser.text("#now")))
        assert all(len(set(values)) == 3 for values in zip(*seen, strict=True))
        assert seen[0][-1].startswith("time 0 · bandwidth ")

    def test_play_runs_to_the_end_and_stops(self, visit):
        browser = visit()
        slide(browser, "scrub", 0)
        browser.find("#play").click()
        assert browser.text("#play") == "Pause"
        browser.wait("document.getElementById('play').textContent === 'Play'")
        assert browser.run("return scrub.value === scrub.max")

    def test_dragging_a_point_bends_the_curve(self, visit):
        browser = visit()
        before = browser.run(f"return {CURVE}")
        point = browser.find("#model .points circle")
        ActionChains(browser.driver).drag_and_drop_by_offset(point, 0, -80).perform()
        browser.wait(f"{SOLVED} && {CURVE} !== {before!r}")
        assert len(browser.find_all("#model .points circle")) == 20
        browser.wait("location.hash.includes('p=')")

    def test_clicks_add_and_double_clicks_remove_points(self, visit):
        browser = visit()
        browser.find("#clear").click()
        assert browser.text("#now") == "Add at least two points."
        chart = browser.find("#model svg")
        for x, y in ((-200, 20), (0, -60), (150, 70)):
            ActionChains(browser.driver).move_to_element_with_offset(chart, x, y).click().perform()
        browser.wait(f"{SOLVED} && document.querySelectorAll('.points circle').length === 3")
        browser.wait("document.getElementById('now').textContent.startsWith('time')")
        ActionChains(browser.driver).double_click(browser.find(".points circle")).perform()
        browser.wait("document.querySelectorAll('.points circle').length === 2")

    @pytest.mark.parametrize("kernel", ["matern12", "matern32", "matern52", "cauchy"])
    def test_another_kernel_gives_another_curve(self, visit, kernel):
        browser = visit()
        before = browser.run(f"return {CURVE}")
        browser.find(f"#kernel option[value={kernel}]").click()
        browser.wait(f"{SOLVED} && {CURVE} !== {before!r}")
        browser.wait(f"location.hash.includes('kernel={kernel}')")

    def test_every_data_set_and_slider(self, visit):
        browser = visit()
        for name in ("twoscale", "steps", "sine"):
            browser.find(f"#data option[value={name}]").click()
            browser.wait(SOLVED)
            assert "test R²" in browser.text("#now")
        for name, value in (
            ("n", 50),
            ("noise", 0.4),
            ("speed", -1.6),
            ("floor", 20),
            ("constant", 10),
        ):
            before = browser.run(
                f"return {CURVE} + document.querySelector('#model .b').getAttribute('d')"
            )
            slide(browser, name, value)
            after = browser.run(
                f"return {CURVE} + document.querySelector('#model .b').getAttribute('d')"
            )
            assert before != after, name
        assert browser.text("#n-text") == "50"
        assert "time 1000" in browser.text("#now")

    def test_floors_make_a_double_descent_that_can_be_clicked(self, visit):
        browser = visit()
        browser.wait(SWEPT)
        errors = browser.run(
            "return Playground.sweep.sort((a, b) => b.floor - a.floor).map((row) => 1 - row.testR2)"
        )
        assert len(errors) == 42
        valley = min(range(42), key=lambda i: errors[i])
        hill = max(range(valley, 42), key=lambda i: errors[i])
        assert errors[hill] > 5 * errors[valley]
        assert errors[hill] > 5 * errors[-1]
        chart = browser.find("#floor-plot svg")
        ActionChains(browser.driver).move_to_element(chart).click().perform()
        browser.wait(SOLVED)
        clicked = browser.run("return Playground.state.floor")
        assert 0 < clicked < 41
        error = browser.run("return 1 - Playground.film.testR2.at(-1)")
        assert error == pytest.approx(errors[clicked], rel=1e-6)

    def test_errors_of_other_points_are_not_shown(self, visit):
        browser = visit()
        browser.wait(SWEPT)
        lines = (
            "[...document.querySelectorAll('#floor-plot .line')].map((p) => p.getAttribute('d'))"
        )
        before = browser.run(f"return {lines}")
        browser.run("Playground.change(State.fresh('twoscale'))")
        browser.wait(f"{lines}.every((d, i) => d !== {before}[i])")

    def test_clicking_a_linked_plot_moves_the_time(self, visit):
        browser = visit()
        chart = browser.find("#r2-plot svg")
        ActionChains(browser.driver).move_to_element(chart).click().perform()
        middle = browser.run(
            "return Playground.film.time[Playground.frame] / Playground.film.time.at(-1)"
        )
        assert 0.3 < middle < 0.7

    def test_the_story(self, visit):
        browser = visit()
        said = set()
        for button in browser.find_all("[data-step]"):
            button.click()
            browser.wait(SOLVED)
            assert button.get_attribute("aria-pressed") == "true"
            said.add(browser.text("#story-text"))
        assert len(said) == 4


class TestClear:
    def test_everything_is_cleared(self, visit):
        browser = visit()
        browser.wait(SWEPT)
        browser.find("#clear").click()
        browser.wait(SOLVED)
        drawn = browser.run(
            "return [...document.querySelectorAll('svg .line, svg .cursor, svg circle, svg .dot')]"
            ".filter((mark) => mark.tagName === 'circle' || mark.getAttribute('d')).length"
        )
        assert drawn == 0
        assert browser.run("return data.value") == "own"
        assert browser.text("#now") == "Add at least two points."

    def test_while_the_solver_is_busy(self, visit):
        browser = visit()
        browser.run("redraw.click(); clear.click();")
        browser.wait(SOLVED)
        browser.run("return new Promise((done) => setTimeout(done, 700))")
        assert browser.text("#now") == "Add at least two points."
        assert browser.run("return Playground.sweep.length") == 0


class TestPhone:
    @pytest.fixture
    def phone(self, visit):
        browser = visit(width=390)
        command = browser.driver.execute_cdp_cmd
        command("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 1})
        yield browser
        command("Emulation.setTouchEmulationEnabled", {"enabled": False})

    def touch(self, browser, *places):
        """A finger goes down at the first place, along the others, and up."""

        def send(kind, points):
            points = [{"x": x, "y": y} for x, y in points]
            event = {"type": kind, "touchPoints": points}
            browser.driver.execute_cdp_cmd("Input.dispatchTouchEvent", event)

        send("touchStart", places[:1])
        for place in places[1:]:
            send("touchMove", [place])
        send("touchEnd", [])

    def place(self, browser, selector):
        return browser.run(
            "const box = document.querySelector(arguments[0]);"
            "box.scrollIntoView({block: 'center'});"
            "const {x, y, width, height} = box.getBoundingClientRect();"
            "return [x + width / 2, y + height / 2]",
            selector,
        )

    def test_a_finger_drags_a_point(self, phone):
        before = phone.run(f"return {CURVE}")
        x, y = self.place(phone, "#model .points circle")
        self.touch(phone, (x, y), (x, y - 15), (x, y - 40), (x, y - 60))
        phone.wait(f"{SOLVED} && {CURVE} !== {before!r}")
        assert len(phone.find_all("#model .points circle")) == 20
        assert phone.run("return Playground.state.points !== null")
        now = self.place(phone, "#model .points circle")
        assert now[0] == pytest.approx(x, abs=3)

    def test_a_finger_adds_a_point_but_scrolls_without_adding_one(self, phone):
        phone.find("#clear").click()
        phone.wait(SOLVED)
        x, y = self.place(phone, "#model svg")
        self.touch(phone, (x, y))
        phone.wait("document.querySelectorAll('#model .points circle').length === 1")
        self.touch(phone, (x + 60, y), (x + 60, y - 30), (x + 60, y - 90), (x + 60, y - 150))
        assert len(phone.find_all("#model .points circle")) == 1


class TestState:
    def test_a_link_shows_the_same_picture(self, visit):
        browser = visit("#d=steps&kernel=matern32&n=40&speed=0.05&time=4&truth=0")
        assert browser.run("return [data.value, kernel.value, n.value]") == [
            "steps",
            "matern32",
            "40",
        ]
        slide(browser, "scrub", 50)
        browser.wait("!location.hash.includes('time=4&')")
        picture = browser.find("#model").get_attribute("innerHTML")
        link = browser.run("return location.hash")
        browser = visit(link)
        assert browser.find("#model").get_attribute("innerHTML") == picture

    def test_a_changed_address_changes_the_picture(self, visit):
        browser = visit()
        browser.run("location.hash = 'd=twoscale&kernel=cauchy'")
        browser.wait("document.getElementById('kernel').value === 'cauchy'")

    def test_a_hostile_address_is_only_text(self, visit):
        browser = visit(
            "#d=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E&kernel=<b>&p=<svg onload=alert(1)>"
        )
        assert browser.run("return [data.value, kernel.value]") == ["sine", "gaussian"]


class TestKeyboard:
    def test_everything_by_keyboard_alone(self, visit):
        browser = visit()
        keys = ActionChains(browser.driver)
        reached = []
        for _ in range(40):
            keys.send_keys(Keys.TAB).perform()
            reached.append(
                browser.run(
                    "return document.activeElement.id || document.activeElement.dataset.step"
                )
            )
            if reached[-1] == "reset":
                break
        wanted = {
            "0",
            "1",
            "2",
            "3",
            "model",
            "play",
            "scrub",
            "data",
            "kernel",
            "n",
            "noise",
            "speed",
        }
        assert wanted | {"floor", "constant", "show-ridge", "redraw", "clear", "reset"} <= set(
            reached
        )

    def test_points_by_keyboard(self, visit):
        browser = visit()
        browser.run("document.getElementById('model').focus()")
        before = browser.run(f"return {CURVE}")
        keys = ActionChains(browser.driver)
        keys.send_keys(Keys.ARROW_RIGHT).key_down(Keys.SHIFT).send_keys(Keys.ARROW_UP).key_up(
            Keys.SHIFT
        )
        keys.perform()
        browser.wait(f"{SOLVED} && {CURVE} !== {before!r}")
        assert browser.text("#spoken").startswith("point ")
        ActionChains(browser.driver).send_keys(Keys.ENTER).perform()
        browser.wait("document.querySelectorAll('.points circle').length === 21")
        ActionChains(browser.driver).send_keys(Keys.DELETE).send_keys(Keys.DELETE).perform()
        browser.wait("document.querySelectorAll('.points circle').length === 19")

    def test_time_by_keyboard(self, visit):
        browser = visit()
        browser.run("document.getElementById('scrub').focus()")
        before = browser.text("#now")
        ActionChains(browser.driver).send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT).perform()
        assert browser.text("#now") != before


class TestLooks:
    @pytest.mark.parametrize("width", [390, 1280])
    @pytest.mark.parametrize("dark", [False, True])
    def test_fits_and_is_accessible(self, visit, width, dark):
        browser = visit(width=width, dark=dark)
        browser.wait(SWEPT)
        assert browser.too_wide() <= 0
        colour = browser.run("return getComputedStyle(document.body).backgroundColor")
        assert colour == ("rgb(20, 23, 28)" if dark else "rgb(255, 255, 255)")
        small = browser.run(
            "return [...document.querySelectorAll('svg')].filter((svg) =>"
            "svg.getBoundingClientRect().width < 250).length"
        )
        assert small == 0
        assert browser.serious_issues() == []

    @pytest.mark.parametrize("width", [390, 700, 1280])
    def test_labels_neither_touch_nor_leave_their_plot(self, visit, width):
        browser = visit(width=width)
        names = browser.run("return Object.keys(Data.SETS)")
        for name in names:
            browser.run("Playground.change(State.fresh(arguments[0]))", name)
            browser.wait(SOLVED)
            assert browser.overlaps() == [], name
        browser.run("Playground.change({...State.fresh('sine'), speed: 0.0026, n: 300, noise: 1})")
        browser.wait(SOLVED)
        assert browser.overlaps() == []

    def test_a_turned_phone_is_drawn_anew(self, visit):
        browser = visit(width=390)
        size = {"width": 844, "height": 390, "deviceScaleFactor": 1, "mobile": True}
        browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.wait("document.querySelector('#model svg').viewBox.baseVal.width > 500")
        assert browser.too_wide() <= 0


def test_scrubbing_asks_the_solver_for_nothing(visit):
    browser = visit("#d=sine&n=300")
    job = browser.run(f"return {SOLVED}")
    for place in range(0, 100, 10):
        slide(browser, "scrub", place)
    assert browser.run(f"return {SOLVED}") == job


def test_page_is_small_and_complete():
    text = render_playground()
    assert len(text.encode()) < 200_000
    assert "{{" not in text
    assert "http" not in text.replace('http-equiv="', "")
    assert "default-src 'none'" in text
