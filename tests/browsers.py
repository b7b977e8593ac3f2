"""A real browser and Node.js for tests of pages; where a test insists on them, it says so.

With BANDFALL_REQUIRE_BROWSER=1, as continuous integration sets it, what is missing is a failure;
elsewhere the tests are skipped with the reason.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")

_OVERLAPS = """
const bad = [];
for (const svg of document.querySelectorAll("svg[role=img]")) {
  const frame = svg.getBoundingClientRect();
  const boxes = [...svg.querySelectorAll("text")].map(
    (text) => [text.textContent, text.getBoundingClientRect()]);
  boxes.forEach(([name, a], i) => {
    if (a.width === 0) return;
    if (a.left < frame.left - 1 || a.right > frame.right + 1) bad.push(`clipped: ${name}`);
    for (const [other, b] of boxes.slice(i + 1)) {
      const apart = a.right <= b.left || b.right <= a.left
        || a.bottom <= b.top + 2 || b.bottom <= a.top + 2;
      if (!apart && b.width > 0) bad.push(`${name} on ${other}`);
    }
  });
}
return bad;"""


def missing(reason):
    """Skip, or fail where browser tests are required."""
    if os.environ.get("BANDFALL_REQUIRE_BROWSER") == "1":
        pytest.fail(f"BANDFALL_REQUIRE_BROWSER=1, but {reason}")
    pytest.skip(reason)


def find_chromium():
    """Path of the system's Chromium."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    return found or missing("chromium is not installed: apt-get install chromium")


def run_node(script, value=None):
    """What a script prints with ``answer(…)``, given `value` as ``input``."""
    node = shutil.which("node") or missing("Node.js is not installed: apt-get install nodejs")
    source = (
        f"const input = {json.dumps(value)};\n"
        "const answer = (value) => process.stdout.write(JSON.stringify(value, (_, item) =>\n"
        "  ArrayBuffer.isView(item) ? Array.from(item) : item));\n" + script
    )
    done = subprocess.run([node, "-"], input=source.encode(), capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


class Browser:
    """Chromium without a window, and what happened in it: errors and requests."""

    def __init__(self):
        chromium = find_chromium()
        chromedriver = shutil.which("chromedriver") or missing(
            "chromedriver is not installed: apt-get install chromium-driver"
        )
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for flag in _FLAGS:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(chromedriver))

    def open(self, address, *, width=1280, height=900, dark=False):
        """Go to a page as it looks at this size and in this colour scheme, with clean logs."""
        command = self.driver.execute_cdp_cmd
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        command("Emulation.setEmulatedMedia", {"features": [scheme]})
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        command("Emulation.setDeviceMetricsOverride", size)
        self.driver.get("about:blank")
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(str(address))
        return self

    def run(self, script, *arguments):
        """The value of a piece of JavaScript in the page."""
        return self.driver.execute_script(script, *arguments)

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def find_all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def wait(self, script, seconds=20):
        """Until a JavaScript condition holds; returns its value."""
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.driver, seconds, 0.02).until(
            lambda _: self.run(f"return {script}"), message=f"never came true: {script}"
        )

    def errors(self):
        """Whatever the console was told."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self):
        """Addresses asked for that lie outside the page and this machine's disk."""
        messages = [
            json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")
        ]
        asked = [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]
        inside = ("file:", "blob:", "data:", "about:", "chrome:")
        return [address for address in asked if not address.startswith(inside)]

    def too_wide(self):
        """By how many pixels the page is wider than the window."""
        return self.run("return document.documentElement.scrollWidth - innerWidth")

    def overlaps(self):
        """Labels of charts that lie on each other or leave their chart."""
        return self.run(_OVERLAPS)

    def serious_issues(self):
        """What axe-core finds serious or critical."""
        if not AXE.exists():
            missing("axe-core is not installed: npm install --no-save axe-core@4.14.0")
        self.run(AXE.read_text(encoding="utf-8"))
        results = self.driver.execute_async_script(
            "const done = arguments[0]; axe.run().then(done, (error) => done({error: `${error}`}))"
        )
        assert "error" not in results, results
        return [
            f"{found['id']}: {node['html'][:160]} ({node['failureSummary']})"
            for found in results["violations"]
            if found["impact"] in ("serious", "critical")
            for node in found["nodes"]
        ]

    def close(self):
        self.driver.quit()
