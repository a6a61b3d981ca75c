"""The whole page: its charts and tables, without scripts, with hostile names, and what it asks of the network."""

import re
import unittest

from selenium.common.exceptions import NoAlertPresentException

import pages
from pages import OVERFLOWING, PAGES, SLIDING

MOST_BYTES = 600_000
# Each chart with the texts of the table that it points to.
CHARTS = """
  const charts = JSON.parse(document.getElementById('record').textContent).charts;
  return [...document.querySelectorAll('canvas[data-chart]')].map((canvas) => {
    const table = document.getElementById(canvas.getAttribute('aria-describedby'));
    return { name: canvas.dataset.chart, chart: charts[canvas.dataset.chart],
             cells: table === null ? [] : [...table.querySelectorAll('th, td')].map((cell) => cell.textContent) };
  });
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


class Page(pages.SamplePageTest):
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
