"""The page's look: in windows of every width, light and dark."""

import os
import pathlib
import unittest

import chromium
import pages
from pages import OVERFLOWING, PAGES

SHOTS = os.environ.get("SHOTS", "")
COLOURS = """
  return [...document.querySelectorAll('canvas')].map((canvas) => {
    const pixels = new Uint32Array(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.buffer);
    return [canvas.dataset.chart, new Set(pixels).size];
  });
"""


class Look(pages.SamplePageTest):
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


if __name__ == "__main__":
    unittest.main()
