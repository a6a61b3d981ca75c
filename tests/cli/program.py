"""Runs the built program, whose path is in the environment variable DSANALYZE, with its own state and cache folders."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

PROGRAM = os.environ.get("DSANALYZE", "dsanalyze")


class ProgramTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dsanalyze-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.environment = dict(os.environ, XDG_STATE_HOME=str(self.folder / "state"), XDG_CACHE_HOME=str(self.folder / "cache"))
        self.environment.pop("DSANALYZE_DATA_DIR", None)

    def run_program(self, *arguments, stdout=subprocess.PIPE):
        return subprocess.run([PROGRAM, *map(str, arguments)], stdout=stdout, stderr=subprocess.PIPE, text=True, env=self.environment, timeout=120, check=False)

    def succeeds(self, *arguments):
        run = self.run_program(*arguments)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run

    def json_of(self, *arguments):
        """The one document that a successful command leaves with --json."""
        return json.loads(self.succeeds(*arguments, "--json").stdout)

    def fails(self, exit_code, *arguments):
        """What a failing command says on stderr; with --json its error document is checked too."""
        run = self.run_program(*arguments)
        self.assertEqual(run.returncode, exit_code, run.stderr)
        self.assertEqual(run.stdout, "")
        as_json = self.run_program(*arguments, "--json")
        self.assertEqual(as_json.returncode, exit_code)
        document = json.loads(as_json.stdout)
        self.assertEqual(document["schema"], "dsanalyze.error/1")
        return run.stderr
