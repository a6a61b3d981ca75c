"""Files and folders stay small: a long one is usually two things."""

import collections
import unittest

import repository

MOST_LINES = 500
MOST_FILES = 45
SOURCES = {".cpp", ".hpp", ".py", ".build", ".js", ".css"}


def lines(text):
    return text.count("\n") + (not text.endswith("\n") and text != "")


class Sizes(unittest.TestCase):
    def test_no_source_file_has_more_than_500_lines(self):
        long = [f"{repository.name(path)}: {lines(text)} lines" for path, text in repository.text_files() if path.suffix in SOURCES and lines(text) > MOST_LINES]
        self.assertFalse(long, "\n" + "\n".join(long))

    def test_no_folder_has_more_than_45_files(self):
        count = collections.Counter(path.parent for path in repository.files())
        full = [f"{repository.name(folder)}: {files} files" for folder, files in count.items() if files > MOST_FILES]
        self.assertFalse(full, "\n" + "\n".join(full))

    def test_lines_are_counted_with_and_without_a_last_newline(self):
        self.assertEqual([lines(""), lines("a"), lines("a\n"), lines("a\nb")], [0, 1, 1, 2])


if __name__ == "__main__":
    unittest.main()
