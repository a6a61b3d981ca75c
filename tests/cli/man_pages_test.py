"""The manual pages that the build made from the help pages: nothing is lost on the way, and mandoc, where there is one, has nothing to complain of."""

import os
import pathlib
import re
import shutil
import subprocess
import unittest

HELP = pathlib.Path(os.environ["HELP_PAGES"])
PROGRAM = os.environ["DSANALYZE"]
MANUAL = pathlib.Path(os.environ["MANUAL_PAGES"])


HEADING = re.compile(r"^#+ .*\n", re.MULTILINE)


def pages():
    """(help page, manual page) of each command; a short page is the begin of another one's help."""
    for page in sorted(HELP.glob("*.md")):
        if page.stem != "common" and not page.stem.endswith("-short"):
            yield page, MANUAL / ("dsanalyze.1" if page.stem == "dsanalyze" else f"dsanalyze-{page.stem}.1")


def words(text):
    return {word.strip(".,;:") for word in re.findall(r"[\w%.,;:/+=-]+", text)}


class ManualPages(unittest.TestCase):
    def test_there_is_one_for_each_help_page_with_the_usual_sections(self):
        self.assertGreaterEqual(len(list(pages())), 6)
        for page, manual in pages():
            text = manual.read_text()
            for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "SEE ALSO"):
                self.assertIn(f".SH {section}\n", text, manual.name)
            self.assertEqual(".SH EXIT STATUS\n" in text, page.stem != "dsanalyze", manual.name)

    def test_every_word_of_the_help_page_is_in_the_manual_page(self):
        for page, manual in pages():
            shown = re.sub(r"\\f[BR]|\\&", "", manual.read_text()).replace("\\-", "-").replace("\\e", "\\")
            command = [] if page.stem == "dsanalyze" else [page.stem]
            source = subprocess.run([PROGRAM, *command, "--help", *(["all"] if command else [])], capture_output=True, text=True, timeout=60, check=True).stdout
            headings = "".join(HEADING.findall(page.read_text() + (HELP / "common.md").read_text()))
            said = words(source if command else source.partition("\nOptions of every command\n")[0])
            self.assertFalse(said - words(shown) - words(headings) - words("Exit codes: 0 1 2 3 4 130 interrupted."), manual.name)

    def test_mandoc_accepts_them(self):
        if not shutil.which("mandoc"):
            self.skipTest("mandoc is not installed")
        for _, manual in pages():
            run = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", manual], capture_output=True, text=True, timeout=60, check=False)
            complaints = [line for line in run.stdout.splitlines() if "missing date" not in line]
            self.assertFalse(complaints, manual.name)


if __name__ == "__main__":
    unittest.main()
