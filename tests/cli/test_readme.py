"""What README and docs/commands.md show can be done: each line of its shell blocks runs as written, with the program built here and small stand-ins for what it names.

Plans stand in for most profiles, which other tests make. What needs more than the program, ranks that mpirun starts and jobs that attach by libdsanalyze,
runs in earnest: as after scripts/demo, with DSANALYZE=build/release/dsanalyze."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

from program import PROGRAM, ProgramTest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", ROOT / "docs" / "commands.md")
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
GATE_EXIT_CODES = (0, 3, 4)  # the same, slower, cannot tell: all are answers

# In place of the program: short runs of ranks, whose profiles are not the last one that later lines ask; plans of all other profiles; predictions that are not
# run; a group of one epoch.
STAND_IN = f"""#!/bin/sh
case $1 in
  profile)
    case "$*" in
      *--partition*) XDG_STATE_HOME=$XDG_STATE_HOME/ranks; export XDG_STATE_HOME; set -- "$@" --batch-size 4 --time-budget 1s --peer-timeout 20s;;
      *--dry-run*) ;;
      *) shift; set -- profile --dry-run "$@";;
    esac;;
  whatif)
    for word; do
      shift
      [ "$word" = --validate ] || set -- "$@" "$word"
    done;;
  share) shift; set -- share --epochs 1 --batch-size 8 "$@";;
esac
exec {PROGRAM} "$@"
"""
# In place of the programs that a gate compares: a recorded profile, each time as one of its own.
RECORDED = """#!/bin/sh
n=$(cat counter 2>/dev/null || echo 1)
echo $((n + 1)) >counter
sed "s/\\"started_utc\\": \\"[^\\"]*\\"/\\"started_utc\\": \\"$(printf 2026-01-01T00:%02d:%02dZ $((n / 60)) $((n % 60)))\\"/" profile.json
"""
EMULATED = ["emulated:imagenet-1k,samples=600", "--storage", "emulated:200MB/s", "--prep", "emulated:4000", "--cores", "2", "--accelerator", "emulated:8000",
            "--batch-size", "8", "--time-budget", "2s"]


def lines_of(text):
    """The command lines of the text's shell blocks, continued ones joined."""
    return [line for block in BLOCK.findall(text) for line in block.replace("\\\n", " ").splitlines() if line.strip()]


def shown():
    """Every line that a page shows, once."""
    return list(dict.fromkeys(line for page in PAGES for line in lines_of(page.read_text())))


def with_stand_ins(line):
    for name, small in [("DATASET", "data"), ("/shared/meet", "meet"), ("--samples 5000", "--samples 24")]:
        line = line.replace(name, small)
    return line


class Readme(ProgramTest):
    def setUp(self):
        super().setUp()
        self.photographs(64)
        self.program(self.folder / "bin" / "dsanalyze", STAND_IN)
        self.environment["PATH"] = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        for name in ("DSANALYZE_LIBRARY", "LD_LIBRARY_PATH"):
            self.environment.pop(name, None)
        # mpirun as the page says that it wants it here: more ranks than cores, by root in a container, on all cores.
        self.environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
                                OMPI_MCA_hwloc_base_binding_policy="none")

    @staticmethod
    def program(place, body):
        place.parent.mkdir()
        place.write_text(body)
        place.chmod(0o755)

    def leave_results(self):
        """Profiles as earlier lines left them, the last one and those under the names that later lines have."""
        self.succeeds("profile", *EMULATED)
        (last,) = (self.folder / "state").rglob("profile-*.json")
        for second, name in enumerate(["profile", "before", "after", "run-0", "run-1", "run-2"]):
            record = dict(json.loads(last.read_text()), trusted=True, started_utc=f"2026-01-01T00:00:{second:02}Z")
            (self.folder / f"{name}.json").write_text(json.dumps(record, indent=1))
        self.succeeds("gate", "accept", self.folder / "run-0.json", "--baseline", self.folder / "baselines")
        for side in ("old", "new"):
            self.program(self.folder / side / "dsanalyze", RECORDED)
        (self.folder / "train.py").write_text(PYTHON.findall((ROOT / "docs" / "client.md").read_text())[0])

    def shell(self, line):
        return subprocess.run(["bash", "-c", line], cwd=self.folder, capture_output=True, text=True, env=self.environment, timeout=120, check=False)

    def test_every_line_works(self):
        self.leave_results()
        for line in shown():
            with self.subTest(line=line):
                if "--memory-limit" in line and os.geteuid() != 0:
                    self.skipTest("only root may hold the page cache to a limit")
                if line.startswith("mpirun") and shutil.which("mpirun") is None:
                    self.skipTest("mpirun is not installed")
                command = with_stand_ins(line)
                if "--rank 0 --world 2" in command:  # once for each rank
                    command = f"{command.partition('#')[0].replace('--rank 0', '--rank 1')} & {command}\nwait $!"
                run = self.shell(command)
                self.assertIn(run.returncode, GATE_EXIT_CODES if " gate " in f" {command} " else (0,), run.stdout + run.stderr)
                if line.startswith("mpirun"):
                    self.assertIn("4 ranks", run.stdout)
                if " share " in line:
                    jobs = int(re.search(r"--jobs (\d+)", line)[1])
                    self.assertEqual(run.stdout.count("epoch 0: 64 samples"), jobs, run.stdout + run.stderr)


class TheTestItself(unittest.TestCase):
    def test_lines_are_those_of_shell_blocks(self):
        self.assertEqual(lines_of("```sh\na \\\n  --b\n\nc # d\n```\n```python\nx\n```\n"), ["a    --b", "c # d"])

    def test_the_page_shows_what_needs_more_than_the_program(self):
        self.assertTrue(any(line.startswith("mpirun") for line in shown()))
        self.assertTrue(any("share" in line and "-- python3" in line for line in shown()))


if __name__ == "__main__":
    unittest.main()
