"""Files stay small: a long one is usually two things."""

import unittest

import repository

MOST_LINES = 500
SOURCES = {".cpp", ".hpp", ".py", ".build", ".js", ".css"}


def lines(text):
    return text.count("\n") + (not text.endswith("\n") and text != "")


class Sizes(unittest.TestCase):
    def test_no_source_file_has_more_than_500_lines(self):
        long = [f"{repository.name(path)}: {lines(text)} lines" for path, text in repository.text_files() if path.suffix in SOURCES and lines(text) > MOST_LINES]
        self.assertFalse(long, "\n" + "\n".join(long))

    def test_lines_are_counted_with_and_without_a_last_newline(self):
        self.assertEqual([lines(""), lines("a"), lines("a\n"), lines("a\nb")], [0, 1, 1, 2])


if __name__ == "__main__":
    unittest.main()
