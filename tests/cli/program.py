"""Runs the built program, whose path is in the environment variable DSANALYZE, with its own state and cache folders."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

PROGRAM = os.environ.get("DSANALYZE", "dsanalyze")


def block_device_counter(folder):
    """The kernel's own account of the block device that a folder lies on; None where no block device is behind it."""
    number = os.stat(folder).st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    mounts = [line.split() for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]
    counter = pathlib.Path("/sys/dev/block") / device / "stat"
    return counter if any(mount[2] == device for mount in mounts) and counter.is_file() else None


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

    def photographs(self, samples=60, folder=None):
        """A folder of small real JPEG files."""
        data = (folder or self.folder) / "data"
        run = self.run_program("dataset", "make", data, "--samples", samples, "--quiet")
        if "apt install" in run.stderr or "package" in run.stderr:
            self.skipTest("the photographs' package is not installed")
        self.assertEqual(run.returncode, 0, run.stderr)
        return data

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
