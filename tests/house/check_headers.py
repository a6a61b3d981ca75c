"""Every public header was compiled alone: the library of one source a header, made at configuration, covers all headers that exist now.

usage: check_headers.py HEADER...      those that were compiled
"""

import sys
import unittest

import repository

COMPILED = []


class Headers(unittest.TestCase):
    def test_every_public_header_was_compiled_alone(self):
        include = repository.ROOT / "include"
        now = {str(path.relative_to(include)) for path in repository.files(".hpp", under=include)}
        self.assertGreater(len(now), 0)
        self.assertFalse(now - set(COMPILED), "new since the build was configured; run: meson setup --reconfigure")


if __name__ == "__main__":
    COMPILED, sys.argv[1:] = sys.argv[1:], []
    unittest.main()
