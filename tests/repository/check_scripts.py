"""The scripts, run with a search path that lacks things: what setup says, how it ends, and that --check changes nothing."""

import ast
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import repository

TOOLS = "awk bash c++ cat cut date dirname env g++ grep head id mkdir mktemp nproc pkg-config python3 rm sed sort tail tee".split()
SCRIPTS = ["scripts/setup", "scripts/demo", "scripts/test", "scripts/lint", "scripts/browser-test", ".ci/run"]


class Scripts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dsanalyze-scripts-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.path = self.folder / "bin"
        self.path.mkdir()
        for tool in TOOLS:
            if shutil.which(tool):
                (self.path / tool).symlink_to(shutil.which(tool))

    def stand_in(self, name, body):
        """A program of that name that does `body`."""
        (self.path / name).unlink(missing_ok=True)
        (self.path / name).write_text(f"#!/bin/bash\n{body}\n")
        (self.path / name).chmod(0o755)

    def run_script(self, *command, path=None):
        environment = {**os.environ, "PATH": str(path or self.path), "TMPDIR": str(self.folder), "LC_ALL": "C"}
        return subprocess.run([repository.ROOT / command[0], *command[1:]], capture_output=True, text=True, env=environment, timeout=120, check=False)

    def test_scripts_are_bash_that_parses(self):
        for script in SCRIPTS:
            run = subprocess.run(["bash", "-n", repository.ROOT / script], capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertTrue(os.access(repository.ROOT / script, os.X_OK), script)

    def test_the_package_is_python_of_the_oldest_version_that_is_supported(self):
        files = sorted((repository.ROOT / "python").rglob("*.py"))
        self.assertGreater(len(files), 20)
        for path in files:
            ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 8))

    def test_an_unknown_option_ends_with_2_and_the_usage(self):
        for script in ("scripts/setup", "scripts/demo", "scripts/test", "scripts/lint", "scripts/browser-test"):
            run = self.run_script(script, "--no-such-option")
            self.assertEqual(run.returncode, 2, script)
            self.assertIn("usage", run.stderr)
        self.assertEqual(self.run_script("scripts/setup", "--for", "nothing").returncode, 2)
        self.assertEqual(self.run_script("scripts/demo", "--samples", "-3").returncode, 2)

    def test_check_lists_what_is_missing_with_package_names_and_changes_nothing(self):
        self.stand_in("apt-get", f"touch {self.folder}/changed")
        run = self.run_script("scripts/setup", "--check", "--for", "build")
        self.assertEqual(run.returncode, 1)
        self.assertIn("program meson", run.stdout)
        self.assertIn("Debian: ninja-build   Fedora: ninja-build   Arch: ninja", run.stdout)
        self.assertFalse((self.folder / "changed").exists())

    def test_check_ends_with_0_when_nothing_is_missing(self):
        everything = self.run_script("scripts/setup", "--check", "--for", "build", path=os.environ["PATH"])
        self.assertEqual(everything.returncode, 0, everything.stdout)

    def test_an_old_program_counts_as_missing(self):
        self.stand_in("meson", "echo 0.61.2")
        self.assertIn("program meson>=1.0", self.run_script("scripts/setup", "--check", "--for", "build").stdout)
        self.stand_in("meson", "echo 1.10.0")
        self.assertNotIn("program meson", self.run_script("scripts/setup", "--check", "--for", "build").stdout)

    def test_a_build_is_configured_again_when_an_mpi_has_arrived_and_else_once(self):
        (self.folder / "scripts").mkdir()
        shutil.copy(repository.ROOT / "scripts" / "common.sh", self.folder / "scripts")
        self.stand_in("meson", f'echo "$@" >>{self.folder}/calls; mkdir -p build/x; : >build/x/build.ninja')
        self.stand_in("pkg-config", f"cat {self.folder}/mpi")

        def configured():
            (self.folder / "calls").write_text("")
            run = subprocess.run(["bash", "-ec", "source scripts/common.sh; configure build/x -Da=b"], cwd=self.folder, capture_output=True, text=True,
                                 env={**os.environ, "PATH": str(self.path)}, check=False)
            self.assertEqual(run.returncode, 0, run.stderr)
            return (self.folder / "calls").read_text()

        self.assertEqual(configured(), "setup build/x -Da=b\n")
        self.assertEqual(configured(), "")
        (self.folder / "mpi").write_text("4.1.4\n")
        self.assertEqual(configured(), "setup build/x --reconfigure\n")
        self.assertEqual(configured(), "")

    def failure(self, body):
        self.stand_in("id", "echo 0")
        self.stand_in("apt-get", body)
        run = self.run_script("scripts/setup", "--for", "build")
        self.assertEqual(run.returncode, 1)
        return run.stderr

    def test_a_mirror_out_of_reach_a_held_lock_and_an_unknown_package_are_told_apart(self):
        self.assertIn("mirror cannot be reached", self.failure("echo \"Temporary failure resolving 'mirror'\"; exit 100"))
        self.assertIn("lock", self.failure("echo 'E: Could not get lock /var/lib/dpkg/lock-frontend'; exit 100"))
        self.assertIn("made for Debian 12", self.failure("echo 'E: Unable to locate package meson'; exit 100"))

    def test_packages_that_do_not_help_are_not_taken_for_success(self):
        self.assertIn("still missing", self.failure("exit 0"))

    def test_without_apt_it_lists_what_to_install(self):
        run = self.run_script("scripts/setup", "--for", "build")
        self.assertEqual(run.returncode, 1)
        self.assertIn("no apt-get", run.stderr)
        self.assertIn("Arch: ninja", run.stderr)

    def test_without_root_and_sudo_it_says_what_root_should_run(self):
        self.stand_in("id", "echo 1000")
        self.stand_in("apt-get", "exit 0")
        run = self.run_script("scripts/setup", "--for", "build")
        self.assertEqual(run.returncode, 1)
        self.assertIn("no sudo", run.stderr)
        self.assertIn("apt-get install --no-install-recommends", run.stderr)


if __name__ == "__main__":
    unittest.main()
