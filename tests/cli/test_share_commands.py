"""The commands that `share` starts as jobs: what is said of one that never attached, and how each finds libdsanalyze."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from program import PROGRAM
from test_share import EMULATED, JOB, LIBRARY, MINIMAL_C, MINIMAL_PY, ROOT, ShareTest, digest_of


class LateGroup:
    """A group that waits for a command which does not attach."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dsanalyze-test-"))
        (self.folder / "job.sh").write_text(f"[ $DSANALYZE_JOB = 1 ] && exec sleep 100\nexec {MINIMAL_C}\n")
        environment = dict(os.environ, XDG_RUNTIME_DIR=str(self.folder), XDG_STATE_HOME=str(self.folder), XDG_CACHE_HOME=str(self.folder))
        with open(self.folder / "errors", "w", encoding="utf-8") as errors:
            self.process = subprocess.Popen([PROGRAM, "share", *EMULATED, "--jobs", "2", "--epochs", "1", "--", "sh", self.folder / "job.sh"],
                                            stdout=subprocess.DEVNULL, stderr=errors, env=environment)

    def lines_about_it(self):
        return [line for line in (self.folder / "errors").read_text().splitlines() if "not attached yet" in line]

    def end(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder)


def setUpModule():
    WaitedFor.group = LateGroup()  # what it is waited for takes ten seconds, in which the other tests run


def tearDownModule():
    WaitedFor.group.end()


class Unattached(ShareTest):
    def test_a_command_that_never_attached_is_an_error_that_says_what_a_job_does(self):
        record, run = self.record(*EMULATED, "--jobs", 1, "--", sys.executable, "-c", "print(1)", exit_code=1)
        self.assertEqual(record["commands"], [{"job": 0, "exit_status": 0, "signal": None, "attached": False, "batches_taken": 0}])
        for words in ("error: the command ", "'print(1)'", "without having attached", "dsa_attach()", "DSANALYZE_GROUP", "docs/client.md"):
            self.assertIn(words, run.stderr)
        self.assertIn("shared nothing, for no job attached", run.stdout)

    def test_the_error_is_told_of_those_alone_that_never_attached_and_the_others_train(self):
        which = self.script(f'case $DSANALYZE_JOB in 1) exec {MINIMAL_C};; *) exit 0;; esac\n')
        record, run = self.record(*EMULATED, "--jobs", 3, "--epochs", 1, "--", *which, exit_code=1)
        self.assertEqual([command["attached"] for command in record["commands"]], [False, True, False])
        self.assertIn("(DSANALYZE_JOB 0, 2)", run.stderr)
        self.assertEqual(record["samples_taken"], 600)
        self.assertIn("the command of job 2 never attached, and ended with exit status 0", " ".join(run.stdout.split()))

    def test_a_command_whose_jobs_took_no_batch_is_an_error_however_they_went(self):
        for how in ("leave", "die"):
            with self.subTest(how=how):
                record, run = self.record(*EMULATED, "--jobs", 2, "--", sys.executable, JOB, self.folder, f"--{how}-at-once", exit_code=1)
                self.assertEqual(record["commands"], [{"job": job, "exit_status": 0, "signal": None, "attached": True, "batches_taken": 0} for job in (0, 1)])
                for words in ("error: the command ", "(DSANALYZE_JOB 0, 1)", "took no batch", "dsa_next()", "docs/client.md"):
                    self.assertIn(words, run.stderr)
                self.assertNotIn("without having attached", run.stderr)
                self.assertIn("the command of job 1 attached, took no batch, and ended with exit status 0", " ".join(run.stdout.split()))

    def test_the_batches_of_all_jobs_of_a_command_are_its_batches(self):
        which = self.script(f'{sys.executable} {JOB} {self.folder} --leave-at-once\nsetsid -w {MINIMAL_C} >/dev/null\n')
        record, run = self.record(*EMULATED, "--jobs", 1, "--epochs", 2, "--", *which)
        self.assertNotIn("error:", run.stderr)
        self.assertEqual(len(record["jobs"]), 2)
        self.assertEqual(record["commands"][0]["batches_taken"], record["batches_taken"])
        self.assertGreater(record["batches_taken"], 0)

    def test_what_fails_before_it_attaches_is_told_with_its_status_alone(self):
        record, run = self.record(*EMULATED, "--jobs", 1, "--", *self.script("exit 7\n"), exit_code=1)
        self.assertEqual(record["commands"][0]["exit_status"], 7)
        self.assertIn("the command of job 0 ended: exit status 7, without having attached", run.stderr)
        self.assertNotIn("error:", run.stderr)

    def test_a_job_that_its_command_starts_counts_as_the_commands(self):
        ways = {"as it is": f"{MINIMAL_C} >/dev/null\ntrue\n", "in a session of its own": f"setsid -w {MINIMAL_C} >/dev/null\ntrue\n",
                "with the group's address alone": f'env -i DSANALYZE_GROUP="$DSANALYZE_GROUP" LD_LIBRARY_PATH="$LD_LIBRARY_PATH" {MINIMAL_C} >/dev/null\n'}
        for name, way in ways.items():
            with self.subTest(way=name):
                record, run = self.record(*EMULATED, "--jobs", 1, "--epochs", 1, "--", *self.script(way))
                self.assertNotIn("error:", run.stderr)
                self.assertIs(record["commands"][0].get("attached"), True)

    def test_a_job_that_is_no_commands_hides_none_that_never_attached(self):
        lost = f'env -i DSANALYZE_GROUP="$DSANALYZE_GROUP" LD_LIBRARY_PATH="$LD_LIBRARY_PATH" setsid -w {MINIMAL_C} >/dev/null\n'
        for name, others in {"a command's job in a session of its own": f"setsid -w {MINIMAL_C} >/dev/null\n", "somebody else's job": lost}.items():
            with self.subTest(other=name):
                which = self.script(f"case $DSANALYZE_JOB in 1) {others};; *) exit 0;; esac\n")
                record, run = self.record(*EMULATED, "--jobs", 2, "--epochs", 1, "--", *which, exit_code=1)
                self.assertEqual(record["samples_taken"], 600)
                self.assertEqual([command.get("attached") for command in record["commands"]], [False, others != lost])
                self.assertIn("(DSANALYZE_JOB 0)" if others != lost else "(DSANALYZE_JOB 0, 1)", run.stderr)
                self.assertEqual("One job that did attach was no command's" in run.stderr, others == lost)


class TheLibrary(ShareTest):
    """Jobs find libdsanalyze without having it installed, and without a word in their environment."""

    def setUp(self):
        super().setUp()
        for name in ("DSANALYZE_LIBRARY", "LD_LIBRARY_PATH"):
            self.environment.pop(name, None)

    def job_environment(self, program=PROGRAM):
        run = subprocess.run([program, "share", *EMULATED, "--jobs", "1", "--", "env"], capture_output=True, text=True, env=self.environment, timeout=60,
                             check=False)
        return dict(line.split("=", 1) for line in run.stdout.splitlines() if re.match(r"\w+=", line))

    def test_the_programs_of_the_page_run_as_written(self):
        program = self.folder / "minimal"
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            self.skipTest("no compiler is installed")
        subprocess.run([compiler, MINIMAL_PY.parent / "minimal.c", "-I", ROOT / "include", "-L", LIBRARY.parent, "-ldsanalyze", "-o", program], check=True)
        which = self.script(f'[ "$DSANALYZE_JOB" = 0 ] && exec {program}\nexec {sys.executable} {MINIMAL_PY}\n')
        _, run = self.record(*EMULATED, "--jobs", 2, "--epochs", 1, "--", *which)
        self.assertEqual(run.stdout.count(digest_of(600)), 2, run.stdout)

    def test_jobs_that_others_start_are_told_where_it_is(self):
        script = self.script(f'eval "$({PROGRAM} share {" ".join(EMULATED)} --jobs 1 --epochs 1 &)"\n{sys.executable} {MINIMAL_PY}\n')
        job = self.start(*script)
        output, errors = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 0, errors)
        self.assertIn(digest_of(600), output)

    def test_what_the_environment_says_already_comes_first(self):
        self.environment.update(DSANALYZE_LIBRARY="/own/libdsanalyze.so.0", LD_LIBRARY_PATH="/own:/other")
        told = self.job_environment()
        self.assertEqual(told["DSANALYZE_LIBRARY"], "/own/libdsanalyze.so.0")
        self.assertEqual(told["LD_LIBRARY_PATH"], f"/own:/other:{LIBRARY.parent}")

    def test_it_is_found_where_program_and_library_were_installed_together_and_moved(self):
        build, meson = os.environ.get("DSANALYZE_BUILD"), os.environ.get("DSANALYZE_MESON")
        if not meson or not build:
            self.skipTest("meson is not installed")
        subprocess.run([meson, "install", "-C", build, "--no-rebuild", "--quiet", "--tags", "devel,runtime", "--destdir", self.folder / "there"], check=True,
                       capture_output=True, env=dict(os.environ, DESTDIR=""))
        self.environment["DSANALYZE_DATA_DIR"] = str(ROOT / "configs")
        (self.folder / "there").rename(self.folder / "moved here")
        (program,) = (self.folder / "moved here").rglob("bin/dsanalyze")
        library = pathlib.Path(self.job_environment(program)["DSANALYZE_LIBRARY"])
        self.assertTrue(library.samefile(next((self.folder / "moved here").rglob("libdsanalyze.so.0"))))
        self.assertEqual(self.job_environment(program)["LD_LIBRARY_PATH"], str(library.parent))


class WaitedFor(unittest.TestCase):
    group = None

    def test_a_command_that_runs_on_and_does_not_attach_is_named_once(self):
        deadline = time.monotonic() + 60
        while not self.group.lines_about_it() and time.monotonic() < deadline:
            time.sleep(0.05)
        (told,) = self.group.lines_about_it()
        found = re.search(r"the command of job 1 \(sh .*/job.sh; process (\d+)\) has not attached yet, 10 s after the first job joined the group: "
                          "the first epoch waits for it$", told)
        self.assertIsNotNone(found, told)
        self.assertIn("sleep", pathlib.Path(f"/proc/{found[1]}/cmdline").read_text())
        time.sleep(0.3)
        self.assertEqual(len(self.group.lines_about_it()), 1)


if __name__ == "__main__":
    unittest.main()
