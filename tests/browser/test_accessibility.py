"""The page before an accessibility checker. Two classes, as these run side by side."""

import os
import pathlib
import unittest

import chromium
import pages
from pages import PAGES

AXE = os.environ.get("AXE", "")


class Accessible(pages.SamplePageTest):
    def check(self, scheme, widths, options):
        if not AXE:
            self.skipTest("axe is not there: scripts/browser-test takes it from PyPI, which could not be reached")
        axe = pathlib.Path(AXE).read_text()
        for name in PAGES:
            for width in widths:
                with self.subTest(page=name, width=width, scheme=scheme):
                    self.open(name, width, scheme)
                    # Folded parts count too.
                    self.browser.run("document.querySelectorAll('details').forEach((part) => { part.open = true; });")
                    self.browser.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": axe})
                    result = self.browser.driver.execute_async_script(
                        "const [options, done] = arguments; axe.run(document, options).then(done, (error) => done(String(error)));",
                        {"resultTypes": ["violations"], **options})
                    found = [(one["id"], node["html"][:160], node.get("failureSummary", "")[:300]) for one in result["violations"] for node in one["nodes"]]
                    self.assertEqual(found, [])
                    self.assertGreater(len(result["passes"]), 0 if options else 10)


class Light(Accessible):
    def test_an_accessibility_checker_finds_no_violation(self):
        self.check("light", chromium.WIDTHS, {})


class Dark(Accessible):
    def test_an_accessibility_checker_finds_no_violation(self):
        """What a scheme changes is colours."""
        self.check("dark", chromium.WIDTHS[:1], {"runOnly": ["color-contrast"]})


if __name__ == "__main__":
    unittest.main()
