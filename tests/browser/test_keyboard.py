"""The page with the keyboard alone."""

import unittest

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

import chromium
import pages

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


class Keyboard(pages.SamplePageTest):
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
        self.assertEqual(count, 4)
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


if __name__ == "__main__":
    unittest.main()
