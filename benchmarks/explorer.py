"""The playground in Chromium: how soon it is ready, how fast it solves, how smoothly it scrubs.

    python benchmarks/explorer.py

Prints, for 20, 100 and 300 points: milliseconds until the page is ready, milliseconds of a solve
with all its frames on 400 grid positions (median of seven), seconds for all floors, and frames a
second while the time slider moves.
"""

import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
from bandfall._explore import render_playground
from browsers import Browser

SCRUB = """
const done = arguments[0]; const start = performance.now(); let frames = 0;
const tick = (now) => {
  scrub.value = frames % scrub.max; scrub.dispatchEvent(new Event("input")); frames += 1;
  if (now - start < 2000) requestAnimationFrame(tick); else done((1000 * frames) / (now - start));
};
requestAnimationFrame(tick);
"""
READY = "return performance.getEntriesByType('navigation')[0].domComplete"


def measure(browser, page, n_points):
    browser.open(f"{page}#d=sine&n={n_points}")
    browser.wait("document.documentElement.dataset.solved")
    ready = browser.run(READY)
    solves = []
    for seed in range(7):
        browser.run("Playground.change({seed: arguments[0]})", seed)
        browser.wait("document.documentElement.dataset.solved")
        solves.append(browser.run("return Playground.film.milliseconds"))
    start = time.perf_counter()
    browser.wait("document.documentElement.dataset.swept", seconds=120)
    floors = time.perf_counter() - start
    rate = browser.driver.execute_async_script(SCRUB)
    return ready, sorted(solves)[3], floors, rate


def main():
    browser = Browser()
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "playground.html"
        file.write_text(render_playground(), encoding="utf-8")
        print("points  ready, ms  solve, ms  floors, s  frames/s")
        for n_points in (20, 100, 300):
            ready, solve, floors, rate = measure(browser, file.as_uri(), n_points)
            print(f"{n_points:6}  {ready:9.0f}  {solve:9.0f}  {floors:9.1f}  {rate:8.0f}")
    browser.close()


if __name__ == "__main__":
    main()
