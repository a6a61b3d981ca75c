"""All views of a record say the same: console, Markdown, page and JSON, and `dsanalyze whatif` beside them."""

import json
import pathlib
import re
import unittest

from program import ProgramTest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECORDS = sorted([*(ROOT / "docs" / "examples" / "results").glob("*.json"), *(ROOT / "tests" / "corpus" / "predictions" / "rows" / "bases").glob("*.json")])
# "1,204 ± 31 samples/s [P]"
RATE = re.compile(r"([\d,.]+)(?: ± [\d,.]+)? samples/s \[([GPSCFNH])\]")
OF_OTHER_WORKERS = re.compile(r"\d+ workers reach [^\]]*\]")
ISLAND = re.compile(r'<script[^>]*id="record"[^>]*>(.*?)</script>', re.S)


def number(text):
    return float(text.rstrip(".").replace(",", ""))


def shown(text):
    """Of a number as it is shown: what it may be."""
    digits = text.rstrip(".").partition(".")[2]
    return 0.51 * 10 ** -len(digits)


class OneAnswer(ProgramTest):
    def same(self, one, other, name):
        """A page has seven digits."""
        if isinstance(one, dict):
            for part, value in one.items():
                self.same(value, other[part], f"{name} {part}")
        elif isinstance(one, float):
            self.assertAlmostEqual(one, other, delta=1e-6 * abs(other), msg=name)
        else:
            self.assertEqual(one, other, name)

    def live_of(self, path):
        page = self.folder / "page.html"
        self.succeeds("report", path, "--format", "html", "-o", page)
        return json.loads(ISLAND.search(page.read_text()).group(1))["live"][0]

    def test_the_page_the_sliders_and_whatif_begin_with_one_answer(self):
        for path in RECORDS:
            with self.subTest(path=path.name):
                first = self.json_of("whatif", path)["answers"][0]
                live = self.live_of(path)
                for name in live["columns"][1:]:
                    self.same(live["base"][name], first.get(name, ""), name)
                for axis in live["axes"]:
                    at_now = [point for point in axis["points"] if point[0] == axis["now"]]
                    self.assertTrue(not axis["points"] or at_now, axis["name"])
                    for point in at_now:
                        self.assertEqual(dict(zip(live["columns"][1:], point[1:])), {name: live["base"][name] for name in live["columns"][1:]}, axis["name"])

    def test_a_rate_has_one_value_in_all_views(self):
        for path in RECORDS:
            with self.subTest(path=path.name):
                known = {letter: rate["samples_per_s"] for letter, rate in json.loads(path.read_text())["rates"].items() if rate}
                views = [self.succeeds(*words).stdout for words in (("report", path), ("report", path, "--format", "markdown"), ("whatif", path))]
                told = [(letter, text) for view in views for text, letter in RATE.findall(OF_OTHER_WORKERS.sub("", " ".join(view.replace("\\", "").split())))]
                self.assertTrue(told)
                for letter, text in told:
                    self.assertAlmostEqual(number(text), known[letter], delta=shown(text), msg=letter)


if __name__ == "__main__":
    unittest.main()
