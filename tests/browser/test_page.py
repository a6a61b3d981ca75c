"""The whole page: its look, its charts and tables, keyboard, accessibility, without scripts, with hostile names, and what it asks of the network."""

import os
import pathlib
import re
import unittest

from selenium.common.exceptions import NoAlertPresentException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

import chromium
import pages

MOST_BYTES = 600_000
SHOTS = os.environ.get("SHOTS", "")
AXE = os.environ.get("AXE", "")
# record(s) of a page, by the page's name
PAGES = {"minio": ["minio"], "no-accelerator": ["no-accelerator"], "page": ["page"], "least": ["least"], "hostile": ["hostile"],
         "comparison": ["minio", "lru", "no-cache"], "emulated": ["emulated"],
         "sweep": [f"sweep-{cache}-{cores}" for cache in (25, 50, 100) for cores in (4, 8)], "whatif": ["whatif"], "whatif-sweep": ["whatif-sweep"],
         "whatif-servers": ["whatif-servers"],
         "simulate": ["simulate"], "simulate-sizes": ["simulate-sizes"], "doctor": ["doctor"], "gate": ["gate"], "hostile-doctor": ["hostile-doctor"]}
# Those that have something to slide; without a rate, and in records of other kinds, there is nothing.
SLIDING = {"minio", "no-accelerator", "page", "hostile", "comparison", "emulated", "sweep"}

OVERFLOWING = """
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  return [...document.body.querySelectorAll('*')].filter((element) => element.getBoundingClientRect().right > width + 0.5)
    .map((element) => element.tagName + '.' + element.className + ' ' + element.textContent.slice(0, 60));
"""
DRAWN = "return [...document.querySelectorAll('canvas')].every((canvas) => canvas.dataset.drawn === 'true');"
COLOURS = """
  return [...document.querySelectorAll('canvas')].map((canvas) => {
    const pixels = new Uint32Array(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.buffer);
    return [canvas.dataset.chart, new Set(pixels).size];
  });
"""
# Each chart with the texts of the table that it points to.
CHARTS = """
  const charts = JSON.parse(document.getElementById('record').textContent).charts;
  return [...document.querySelectorAll('canvas[data-chart]')].map((canvas) => {
    const table = document.getElementById(canvas.getAttribute('aria-describedby'));
    return { name: canvas.dataset.chart, chart: charts[canvas.dataset.chart],
             cells: table === null ? [] : [...table.querySelectorAll('th, td')].map((cell) => cell.textContent) };
  });
"""
INTERACTIVE = "a[href], button, input, select, summary, textarea, [tabindex='0']"
FOCUS = """
  const element = document.activeElement;
  const style = getComputedStyle(element);
  return [element === document.body ? '' : element.dataset.testNumber || element.tagName,
          (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1) || style.boxShadow !== 'none'];
"""
NUMBER_INTERACTIVE = """
  return [...document.querySelectorAll(arguments[0])].filter((element) => element.checkVisibility({ visibilityProperty: true }) && !element.disabled)
    .map((element, at) => { element.dataset.testNumber = String(at + 1); return String(at + 1); });
"""
UNITS = {"%": 0.01, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "ns": 1e-9, "us": 1e-6, "µs": 1e-6,
         "ms": 1e-3, "min": 60, "h": 3600, "x": 1}


def numbers(text):
    """What a cell may stand for: each number in it, with and without its unit, and a time of minutes and seconds."""
    found = []
    for number, unit in re.findall(r"(-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?)\s*([A-Za-zµ%]*)", text):
        value = float(number.replace(",", ""))
        found += [value, value * UNITS.get(unit, 1)]
    time = re.fullmatch(r"(?:(\d+) h )?(\d+) min(?: (\d+) s)?", text.strip())
    if time:
        found.append(3600 * int(time[1] or 0) + 60 * int(time[2]) + int(time[3] or 0))
    return found


def holds(values, number):
    """A value that is the number as people are shown it, to three digits."""
    return any(abs(value - number) <= max(0.006 * abs(number), 1e-9) for value in values)


class Page(pages.PageTest):
    def open(self, name, width=1280, scheme="light"):
        self.browser.look(width, scheme)
        page = self.page_of(*PAGES[name])
        self.browser.open(page)
        self.browser.wait_for(DRAWN)
        return page

    def test_it_fits_its_window_draws_its_charts_and_says_nothing_on_the_console(self):
        for name in PAGES:
            for width in chromium.WIDTHS:
                for scheme in chromium.SCHEMES:
                    with self.subTest(page=name, width=width, scheme=scheme):
                        self.open(name, width, scheme)
                        self.assertEqual(self.browser.run(OVERFLOWING), [])
                        for chart, colours in self.browser.run(COLOURS):
                            self.assertGreater(colours, 3, f"chart {chart} is blank")
                        if SHOTS:
                            self.browser.screenshot(pathlib.Path(SHOTS) / f"{name}-{width}-{scheme}.png")
                        self.assertEqual(self.browser.messages(), [])

    def test_the_schemes_differ(self):
        grounds = []
        for scheme in chromium.SCHEMES:
            self.open("minio", scheme=scheme)
            grounds.append(self.browser.run("return getComputedStyle(document.body).backgroundColor + getComputedStyle(document.body).color;"))
        self.assertNotEqual(*grounds)

    def test_every_chart_has_a_table_that_holds_its_numbers(self):
        charts = 0
        for name in PAGES:
            self.open(name)
            for one in self.browser.run(CHARTS):
                with self.subTest(page=name, chart=one["name"]):
                    charts += 1
                    self.assertTrue(one["cells"], "no table")
                    values = [value for cell in one["cells"] for value in numbers(cell)]
                    points = [point for series in one["chart"]["series"] for point in series["points"]]
                    self.assertTrue(points)
                    missing = [point for point in points if not holds(values, point[1])]
                    self.assertEqual(missing, [], f"not in the table: {one['cells'][:40]}")
        self.assertGreater(charts, 10)

    def test_tab_reaches_everything_and_shows_where_it_is(self):
        for width in chromium.WIDTHS:
            self.open("minio", width)
            wanted = set(self.browser.run(NUMBER_INTERACTIVE, INTERACTIVE))
            self.assertGreater(len(wanted), 8)
            reached = set()
            for _ in range(2 * len(wanted)):
                ActionChains(self.browser.driver).send_keys(Keys.TAB).perform()
                number, visible = self.browser.run(FOCUS)
                if number in reached or not number:
                    break
                reached.add(number)
                self.assertTrue(visible, f"no focus to be seen on element {number}")
            self.assertEqual(wanted - reached, set())

    def test_arrow_keys_move_the_sliders(self):
        self.open("minio")
        count = self.browser.run("return document.querySelectorAll('#whatif input[type=range]').length;")
        self.assertEqual(count, 5)
        for at in range(count):
            slider = self.browser.driver.find_elements("css selector", "#whatif input[type=range]")[at]
            said = "return [arguments[0].value, arguments[0].getAttribute('aria-valuetext'), document.querySelector('.whatif-command').textContent];"
            before = self.browser.run(said, slider)
            slider.send_keys(Keys.ARROW_LEFT)
            after = self.browser.run(said, slider)
            self.assertEqual(int(after[0]), int(before[0]) - 1)
            self.assertNotEqual(after[1], before[1])
            self.assertNotEqual(after[2], before[2])
            slider.send_keys(Keys.END)
            self.assertEqual(self.browser.run("return arguments[0].value === arguments[0].max;", slider), True)

    def test_an_accessibility_checker_finds_no_violation(self):
        if not AXE:
            self.skipTest("axe is not there: scripts/browser-test takes it from PyPI, which could not be reached")
        axe = pathlib.Path(AXE).read_text()
        for name in PAGES:
            for width in chromium.WIDTHS:
                for scheme in chromium.SCHEMES:
                    with self.subTest(page=name, width=width, scheme=scheme):
                        self.open(name, width, scheme)
                        # Folded parts count too.
                        self.browser.run("document.querySelectorAll('details').forEach((part) => { part.open = true; });")
                        self.browser.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": axe})
                        result = self.browser.driver.execute_async_script(
                            "const done = arguments[0]; axe.run(document, { resultTypes: ['violations'] }).then(done, (error) => done(String(error)));")
                        found = [(one["id"], node["html"][:160], node.get("failureSummary", "")[:300]) for one in result["violations"] for node in one["nodes"]]
                        self.assertEqual(found, [])
                        self.assertGreater(len(result["passes"]), 10)

    def test_without_scripts_it_can_be_read_and_every_table_is_there(self):
        tables = "return [...document.querySelectorAll('table[id]')].map((table) => [table.id, table.textContent]);"
        for name in PAGES:
            with self.subTest(page=name):
                page = self.open(name)
                with_scripts = self.browser.run(tables)
                self.browser.scripts(False)
                try:
                    self.browser.open(page)
                    without = self.browser.run(tables)
                    self.assertEqual(self.browser.run("return [...document.querySelectorAll('canvas')].filter((c) => c.checkVisibility()).length;"), 0)
                    text = self.browser.run("return document.body.innerText;")
                    self.assertEqual(self.browser.run(OVERFLOWING), [])
                finally:
                    self.browser.scripts(True)
                self.assertEqual([table for table in with_scripts if table not in without], [])
                self.assertNotIn("undefined", text)
                if name in SLIDING:
                    self.assertIn("need a browser that runs scripts", text)

    def test_names_from_outside_run_nothing_and_stay_text(self):
        page = self.open("hostile")
        self.assertRaises(NoAlertPresentException, lambda: self.browser.driver.switch_to.alert)
        self.assertIsNone(self.browser.run("return window.hacked === undefined ? null : window.hacked;"))
        self.assertEqual(self.browser.run("return document.querySelectorAll('img, svg, iframe').length;"), 0)
        self.assertIn("window.hacked=1", self.browser.run("return document.body.innerText;"))
        self.assertEqual(self.browser.messages(), [])
        self.assertNotIn("</script><script>window", page.read_text())

    def test_it_is_one_small_file_that_asks_for_nothing(self):
        for name in PAGES:
            with self.subTest(page=name):
                page = self.open(name)
                self.assertLessEqual(page.stat().st_size, MOST_BYTES)
                self.assertEqual(self.browser.requests(), [page.resolve().as_uri()])
                self.assertEqual(self.browser.run("return performance.getEntriesByType('resource').filter((e) => !e.name.startsWith('data:')).length;"), 0)
                policy = self.browser.run("return document.querySelector('meta[http-equiv=Content-Security-Policy]').content;")
                self.assertIn("default-src 'none'", policy)
                self.assertNotRegex(policy, "script-src[^;]*unsafe")

    def test_as_many_as_may_be_compared_are_a_small_file_too(self):
        page = self.page_of(*PAGES["sweep"], "minio", "lru", "no-cache", "page", "no-accelerator", "hostile")
        self.assertLessEqual(page.stat().st_size, MOST_BYTES)
        self.assertRaisesRegex(AssertionError, "at most 12", self.page_of, *PAGES["sweep"] * 2, "minio")

    def test_its_policy_stops_a_script_that_got_in(self):
        page = self.open("minio")
        text = page.read_text()
        broken = page.with_name("with a stranger's script.html")
        broken.write_text(text.replace("</body>", "<script>window.hacked = 1;</script></body>"))
        self.assertNotEqual(broken.read_text(), text)
        self.browser.open(broken)
        self.assertIsNone(self.browser.run("return window.hacked === undefined ? null : window.hacked;"))


if __name__ == "__main__":
    unittest.main()
