"""What must not stand in any file: notes to oneself, paths of somebody's machine, whitespace at line ends."""

import re
import unittest

import repository

# Written in pieces, so that this file does not find itself.
NOTE_TO_SELF = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX")) + r")\b")
# /home/u and /home/user are nobody's.
MACHINE_PATH = re.compile(r"(?<![\w.~*}])/(?:home|root|Users|work|workspace)/(?!(?:u|user)\b)\w")
LINE_END_SPACE = re.compile(r"[ \t]+$", re.MULTILINE)
MAY_NAME_NOTES = {"CHANGELOG.md"}
FUZZ_INPUTS = "tests/fuzz/corpus/"  # are what they are, and some happen to be text


def problems(name, text):
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if name not in MAY_NAME_NOTES and NOTE_TO_SELF.search(line):
            found.append(f"{name}:{number}: a note to oneself: finish it, or write it into CHANGELOG.md's known limits")
        if MACHINE_PATH.search(line):
            found.append(f"{name}:{number}: a path of somebody's machine: {line.strip()}")
        if LINE_END_SPACE.search(line):
            found.append(f"{name}:{number}: whitespace at the line's end")
    return found


class Text(unittest.TestCase):
    def test_no_file_has_notes_to_oneself_or_machine_paths(self):
        found = [problem for path, text in repository.text_files() if not repository.name(path).startswith(FUZZ_INPUTS)
                 for problem in problems(repository.name(path), text)]
        self.assertFalse(found, "\n" + "\n".join(found))

    def test_the_check_finds_what_it_looks_for(self):
        self.assertTrue(problems("x.cpp", "// TO" + "DO later\n"))
        self.assertFalse(problems("CHANGELOG.md", "TO" + "DO\n"))
        self.assertTrue(problems("x.cpp", 'open("/ho' + 'me/someone/data")\n'))
        self.assertFalse(problems("x.cpp", 'open("/proc/self/io")\n'))
        self.assertTrue(problems("x.cpp", "int a; \n"))


if __name__ == "__main__":
    unittest.main()
