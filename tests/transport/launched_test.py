"""Ranks that a launcher started meet: through MPI, at a file, at a port, in network namespaces. What mpirun makes of ranks that leave without a word to MPI.

usage: launched_test.py [--mpi]      with --mpi the tests of MPI, else the others; exit 77: Open MPI or the module (DSANALYZE_MPI_MODULE) is not here
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "net"))
import networks  # noqa: E402

RANK = os.environ["LAUNCHED_RANK"]
MODULE = os.environ.get("DSANALYZE_MPI_MODULE", "")
LINE = re.compile(r"^rank (\d+) of (\d+) by ([^:]+): (\d+) addresses, last (\S+), key (\d+)$", re.MULTILINE)
WORLD = 4


def mpirun(*options):
    """Open MPI's command line for these machines; None where there is none."""
    program = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
    if not MODULE or program is None:
        return None
    version = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
    if "Open MPI" not in version and "OpenRTE" not in version:
        return None
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return [program, "--oversubscribe", "--mca", "btl", "self,tcp,vader", *root, *options, "-n", str(WORLD), RANK, RANK]


class Launched(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dsn-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.place = self.folder / "meet"
        self.key = self.folder / "key"
        self.key.write_bytes(os.urandom(32))
        self.key.chmod(0o600)

    def run_words(self, words, **options):
        # mpirun keeps sockets in its folder, whose name must be short. What MPI does not give back is no leak of ours.
        environment = {**os.environ, "TMPDIR": str(self.folder), "ASAN_OPTIONS": f"{os.environ.get('ASAN_OPTIONS', '')}:detect_leaks=0"}
        return subprocess.run(words, capture_output=True, text=True, timeout=120, env=environment, check=False, **options)

    def check_all_met(self, output, by, world=WORLD):
        lines = LINE.findall(output)
        self.assertEqual(sorted(int(line[0]) for line in lines), list(range(world)), output)
        self.assertEqual({line[1:] for line in lines}, {(str(world), by, str(world), *lines[0][4:])}, output)

    def check_nothing_left(self):
        self.assertEqual([path.name for path in self.folder.iterdir() if path.name.startswith("meet")], [])


@unittest.skipIf(mpirun() is None, "Open MPI or the module for it is not here")
class ThroughMpi(Launched):
    def test_ranks_meet_through_mpi_and_end_well(self):
        run = self.run_words([*mpirun(), "finish"])
        self.assertEqual(run.returncode, 0, run.stderr)
        self.check_all_met(run.stdout, "mpirun (Open MPI)")

    def test_with_a_key_file_all_have_its_key(self):
        run = self.run_words([*mpirun(), "finish", "--key-file", self.key])
        self.assertEqual(run.returncode, 0, run.stderr)
        self.check_all_met(run.stdout, "mpirun (Open MPI)")

    def test_mpirun_calls_it_a_failure_to_leave_without_finalize(self):
        run = self.run_words([*mpirun(), "leave"])
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("finalize", run.stderr)

    def test_with_recovery_the_others_outlive_a_killed_rank(self):
        run = self.run_words([*mpirun("--enable-recovery"), "lose"])
        self.check_all_met(run.stdout, "mpirun (Open MPI)")
        self.assertEqual(run.stdout.count("left with 7"), WORLD - 1)
        self.assertEqual(run.returncode, 0, "mpirun --enable-recovery returned something else than 0: docs/launching.md says that it never does")

    def test_without_recovery_mpirun_fails_after_a_killed_rank(self):
        run = self.run_words([*mpirun(), "lose"])
        self.assertEqual(run.returncode, 128 + 9)

    def test_under_mpirun_a_rendezvous_needs_no_mpi(self):
        run = self.run_words([*mpirun(), "leave", "--rendezvous", self.place])
        self.assertEqual(run.returncode, 0, run.stderr)
        self.check_all_met(run.stdout, "mpirun (Open MPI)")
        self.check_nothing_left()

    def test_a_launcher_of_another_mpi_is_named(self):
        environment = {**os.environ, "PMI_RANK": "0", "PMI_SIZE": "2", "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "TMPDIR": str(self.folder)}
        run = subprocess.run([RANK, RANK, "finish"], capture_output=True, text=True, timeout=120, env=environment, check=False)
        self.assertEqual(run.returncode, 1)
        self.assertIn("it finds 1 ranks where the launcher says 2", run.stderr)

    def test_srun_that_does_not_help_mpi_is_told_what_to_pass(self):
        environment = {**os.environ, "SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_JOB_ID": "5"}
        run = subprocess.run([RANK, RANK, "finish"], capture_output=True, text=True, timeout=120, env=environment, check=False)
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertIn("--rendezvous ~/.dsanalyze-5-0", run.stderr)
        self.assertIn("srun --mpi=", run.stderr)


class ByHand(Launched):
    def start_all(self, networks_used, *options, world=WORLD):
        """One process a namespace; their output together and their exit codes."""
        processes = []
        for rank in range(world):
            words = [RANK, RANK, "leave", "--rank", str(rank), "--world", str(world), "--listen", networks_used.addresses()[rank], *map(str, options)]
            processes.append(networks_used.start(rank, words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        outputs = [process.communicate(timeout=120)[0] for process in processes]
        return "".join(outputs), [process.returncode for process in processes]

    def test_ranks_with_addresses_of_their_own_meet_at_a_file_and_at_a_port(self):
        with networks.Networks(WORLD, or_loopback=True) as used:
            if used.loopback:
                print(f"over loopback: {used.why}", file=sys.stderr)
            for options in (["--rendezvous", self.place], ["--rendezvous", f"{used.addresses()[0]}:5999", "--key-file", self.key]):
                output, codes = self.start_all(used, *options)
                self.assertEqual(codes, [0] * WORLD, output)
                self.check_all_met(output, "by hand")
            self.assertIn(used.addresses()[-1], output)
        self.check_nothing_left()

    def test_other_machines_need_a_key(self):
        with networks.Networks(1, or_loopback=True) as used:
            output, codes = self.start_all(used, "--rendezvous", "198.18.0.1:5999", world=1)
        self.assertEqual(codes, [2])
        self.assertIn("--key-file FILE to all ranks", output)


if __name__ == "__main__":
    if "--mpi" in sys.argv and mpirun() is None:
        print("skipped: Open MPI or the module for it is not here")
        sys.exit(77)
    names = ["ThroughMpi"] if "--mpi" in sys.argv else ["ByHand"]
    unittest.main(argv=[sys.argv[0], *names])
