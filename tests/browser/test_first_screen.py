"""What a stranger sees without scrolling: the verdict, how sure it is, how the epoch is split, the one thing to do first."""

import os
import pathlib
import unittest

import chromium
import pages
import records

SHOTS = os.environ.get("SHOTS", "")
LONG = "a name that somebody made very long, " * 60
# Where each part ends, in pixels from the top; null where the page has none.
ENDS = """
  const end = (element) => element ? element.getBoundingClientRect().bottom + window.scrollY : null;
  const term = (name) => [...document.querySelectorAll('section:first-child dl > div')].find((one) => one.firstChild.textContent === name);
  return { verdict: end(document.querySelector('h1')), split: end(document.querySelector('section:first-child .epoch')),
           advice: end(term('Do first')), confidence: end(term('Is it sure')) };
"""


def with_long_names():
    """Names from outside, and texts that quote them, go on and on."""
    record = records.full()
    record["dataset"].update(path="/data/" + LONG)
    record["settings"].update(dataset="/data/" + LONG, workload=LONG, storage_name=LONG, accelerator_name=LONG)
    record["host"].update(cpu_model=LONG, kernel=LONG)
    record["bottleneck"].update(reason=LONG)
    record["advice"] = [{"code": "more-cache", "text": "Hold the dataset /data/" + LONG + " in memory.", "evidence": [LONG], "steps": []}]
    return record


def not_trusted():
    record = with_long_names()
    record["trusted"] = False
    record["findings"] = [{"code": "cold-run-read-memory", "severity": "error", "message": f"run \"fetch\" read /data/{LONG} from memory: S is no rate of storage."}]
    return record


class FirstScreen(pages.PageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.kinds |= {"long-names": with_long_names(), "not-trusted": not_trusted()}

    def ends(self, name, width, height, scheme):
        self.browser.look(width, scheme, height)
        self.browser.open(self.page_of(name))
        if SHOTS:
            self.browser.screenshot(pathlib.Path(SHOTS) / f"first-{name}-{width}-{scheme}.png", height)
        return self.browser.run(ENDS)

    def test_it_holds_verdict_confidence_split_and_advice(self):
        for name in ("minio", "balanced", "lru", "emulated", "no-accelerator", "least", "hostile", "long-names", "not-trusted"):
            for scheme in chromium.SCHEMES:
                with self.subTest(page=name, scheme=scheme):
                    ends = self.ends(name, 1280, 900, scheme)
                    split = {"split"} if name in ("no-accelerator", "least") else set()
                    self.assertEqual({part for part, end in ends.items() if end is None} - split, set())
                    self.assertLessEqual(max(end for end in ends.values() if end is not None), 900, ends)

    def test_on_a_telephone_it_holds_verdict_and_advice_and_nothing_is_wider(self):
        for name in ("minio", "balanced", "lru", "emulated", "no-accelerator", "least", "hostile", "long-names", "not-trusted"):
            for scheme in chromium.SCHEMES:
                with self.subTest(page=name, scheme=scheme):
                    ends = self.ends(name, 390, 844, scheme)
                    self.assertLessEqual(max(ends["verdict"], ends["advice"]), 844, ends)
                    self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth;"), 390)


if __name__ == "__main__":
    unittest.main()
