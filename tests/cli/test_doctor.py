import ctypes
import json
import os
import pathlib
import platform
import resource
import shutil
import struct
import subprocess
import unittest

from program import PROGRAM, ProgramTest

CHECKS_OF_A_DISK = {"dataset-access", "filesystem", "disk-type", "disk-scheduler", "read-ahead", "access-time", "direct-io", "page-cache"}
IO_URING_SETUP = 425  # on every architecture
EPERM = 1


def forbid_io_uring():
    """A filter of system calls, as a container's security profile is: io_uring_setup is refused, all else allowed."""
    load, jump_if_equal, answer = 0x20, 0x15, 0x06
    program = b"".join(struct.pack("HBBI", *line) for line in
                       [(load, 0, 0, 0), (jump_if_equal, 0, 1, IO_URING_SETUP), (answer, 0, 0, 0x00050000 | EPERM), (answer, 0, 0, 0x7FFF0000)])
    instructions = ctypes.create_string_buffer(program)
    libc = ctypes.CDLL(None, use_errno=True)
    description = ctypes.create_string_buffer(struct.pack("HxxxxxxP" if struct.calcsize("P") == 8 else "HxxP", 4, ctypes.addressof(instructions)))
    no_new_privileges, seccomp, filter_mode = 38, 22, 2
    if libc.prctl(no_new_privileges, 1, 0, 0, 0) != 0 or libc.prctl(seccomp, filter_mode, description, 0, 0) != 0:
        os._exit(77)


class Doctor(ProgramTest):
    def examine(self, *arguments, before=None, prefix=()):
        """Check by code, of a run with something done to its process first."""
        run = subprocess.run([*prefix, PROGRAM, "doctor", *map(str, arguments), "--json"], capture_output=True, text=True, env=self.environment, timeout=60,
                             check=False, preexec_fn=before)
        self.assertEqual(run.returncode, 0, run.stderr)
        document = json.loads(run.stdout)
        self.assertEqual(document["schema"], "dsanalyze.doctor/1")
        return {check["code"]: check for check in document["checks"]}

    def dataset(self):
        """Small arrays: no photographs are needed to be read."""
        folder = self.folder / "arrays of mine"
        folder.mkdir(exist_ok=True)
        header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (64, 256), }".ljust(117) + b"\n"
        (folder / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(64 * 256))
        return folder

    def in_mount_namespace(self, *script):
        """The words before a command that runs it where the mounts of `script` are; skips where that is not permitted."""
        if shutil.which("unshare") is None:
            self.skipTest("there is no unshare")
        for words in (["unshare", "-m"], ["unshare", "-m", "-U", "-r"]):
            prefix = [*words, "sh", "-c", " && ".join(script) + ' && exec "$@"', "sh"]
            if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0:
                return prefix
        return self.skipTest("this user may not mount in a namespace")

    def test_a_machine_is_examined_without_a_dataset_and_every_check_says_what_it_found(self):
        checks = self.examine()
        self.assertFalse(CHECKS_OF_A_DISK & set(checks))
        for code, check in checks.items():
            self.assertTrue(check["found"] and check["why"], code)
            if check["status"] in ("warning", "problem"):
                self.assertTrue(check["mend"], code)
            if check["status"] == "ok":
                self.assertIsNone(check["mend"], code)

    def test_with_a_dataset_the_disk_is_examined_too_and_the_console_keeps_to_its_width(self):
        data = self.dataset()
        self.assertLess(CHECKS_OF_A_DISK - {"read-ahead", "disk-scheduler", "disk-type", "access-time", "page-cache", "direct-io"}, set(self.examine(data)))
        usual, verbose = self.succeeds("doctor", data), self.succeeds("doctor", data, "-v")
        self.assertIn("fine", usual.stdout.splitlines()[0])
        self.assertGreater(len(verbose.stdout.splitlines()), len(usual.stdout.splitlines()))
        for line in usual.stdout.splitlines():
            is_command = line.startswith(" " * 11) and line[11:].startswith(("here ", "on host ", "at start "))
            self.assertTrue(len(line) <= 80 or is_command, line)

    def test_strict_is_for_warnings_and_problems_and_findings_alone_are_no_failure(self):
        workers = ("--workers", 1024)
        self.assertEqual(self.examine(*workers)["workers"]["status"], "warning")
        self.assertEqual(self.run_program("doctor", *workers).returncode, 0)
        self.assertEqual(self.run_program("doctor", *workers, "--strict").returncode, 1)
        strict = self.run_program("doctor", *workers, "--strict", "--json")
        self.assertEqual((strict.returncode, json.loads(strict.stdout)["schema"]), (1, "dsanalyze.doctor/1"))
        usual = self.run_program("doctor", "--strict", "--json")  # whatever this machine has: steal comes and goes
        counts = json.loads(usual.stdout)["counts"]
        self.assertEqual(usual.returncode, 1 if counts["warning"] + counts["problem"] else 0)

    def test_a_low_limit_of_open_files_is_found_and_a_high_one_is_not(self):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        for soft, status in ((100, "warning"), (40, "problem"), (1024, "ok")):
            if hard != resource.RLIM_INFINITY and hard < 4096:
                self.skipTest("the hard limit is low itself")
            with self.subTest(soft):
                check = self.examine(before=lambda soft=soft: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)))["open-files"]
                self.assertEqual(check["status"], status)
                self.assertEqual([each["command"] for each in check["commands"]], [] if status == "ok" else ["ulimit -n 4096"])

    def test_fewer_cpus_than_the_machine_has_are_found(self):
        allowed = sorted(os.sched_getaffinity(0))
        if len(allowed) < 2:
            self.skipTest("one CPU cannot be made fewer")
        one = self.examine(before=lambda: os.sched_setaffinity(0, allowed[:1]))
        self.assertEqual((one["cpu-affinity"]["status"], one["workers"]["status"]), ("note", "ok"))
        asked = self.examine("--cores", 2, before=lambda: os.sched_setaffinity(0, allowed[:1]))
        self.assertEqual(asked["cpu-affinity"]["status"], "problem")

    def test_a_security_profile_that_forbids_io_uring_is_found(self):
        if platform.machine() not in ("x86_64", "aarch64", "riscv64"):
            self.skipTest("the filter's system call has another number here")
        check = self.examine(before=forbid_io_uring)["io-uring"]
        self.assertEqual(check["status"], "note")
        self.assertIn("refused", check["found"])
        self.assertEqual(self.examine("--io", "uring", before=forbid_io_uring)["io-uring"]["status"], "problem")
        self.assertNotIn("io-uring", self.examine("--io", "pread", before=forbid_io_uring))

    def test_a_dataset_in_memory_on_layers_or_with_strict_access_times_is_found(self):
        data = self.dataset()
        place = self.folder / "mounted"
        for folder in (place, self.folder / "memory"):
            folder.mkdir()
        copy = f"mkdir '{place}/d' && cp '{data}/x.npy' '{place}/d/'"
        with self.subTest("memory"):
            prefix = self.in_mount_namespace(f"mount -t tmpfs none '{place}'", copy)
            check = self.examine(place / "d", prefix=prefix)["filesystem"]
            self.assertEqual(check["status"], "problem")
            self.assertIn("memory", check["found"])
            self.assertEqual(check["commands"][0]["where"], "here")
        with self.subTest("strict access times"):
            prefix = self.in_mount_namespace(f"mount -t tmpfs -o strictatime none '{place}'", copy)
            self.assertEqual(self.examine(place / "d", prefix=prefix)["access-time"]["status"], "warning")
            prefix = self.in_mount_namespace(f"mount -t tmpfs -o noatime none '{place}'", copy)
            self.assertEqual(self.examine(place / "d", prefix=prefix)["access-time"]["status"], "ok")
        with self.subTest("layers"):
            layers = f"mount -t tmpfs none '{self.folder}/memory' && mkdir '{self.folder}/memory/u' '{self.folder}/memory/w'"
            options = f"lowerdir={self.folder}/lower,upperdir={self.folder}/memory/u,workdir={self.folder}/memory/w"
            shutil.copytree(data, self.folder / "lower" / "d")
            prefix = self.in_mount_namespace(layers, f"mount -t overlay overlay -o '{options}' '{place}'")
            self.assertEqual(self.examine(place / "d", prefix=prefix)["filesystem"]["status"], "warning")

    def test_a_control_group_that_gives_less_than_a_core_is_found(self):
        version_1 = {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "50000"}
        for top, files in (("", {"cpu.max": "50000 100000"}), ("cpu", version_1), ("cpu,cpuacct", version_1)):
            hierarchy = pathlib.Path("/sys/fs/cgroup") / top
            if not (hierarchy / "cgroup.procs").is_file():
                continue
            group = hierarchy / f"dsanalyze-test-{os.getpid()}"
            try:
                group.mkdir()
            except OSError:
                continue
            try:
                for name, text in files.items():
                    (group / name).write_text(text)
                check = self.examine(before=lambda group=group: (group / "cgroup.procs").write_text(str(os.getpid())))["cpu-quota"]
                self.assertEqual(check["status"], "note")
                self.assertIn("0.5 cores", check["found"])
                asked = self.examine("--workers", 2, before=lambda group=group: (group / "cgroup.procs").write_text(str(os.getpid())))["cpu-quota"]
                self.assertEqual(asked["status"], "warning")
                return
            except OSError:
                continue
            finally:
                group.rmdir()
        self.skipTest("this user may not make a control group with a quota of CPU time")

    def test_names_with_blanks_and_control_characters_are_shown_and_quoted(self):
        data = self.dataset()
        hostile = self.folder / "a\x1b[2J 'b"
        data.rename(hostile)
        run = self.succeeds("doctor", hostile)
        self.assertNotIn("\x1b", run.stdout)
        self.assertEqual(json.loads(self.succeeds("doctor", hostile, "--json").stdout)["dataset"], str(hostile))

    def test_what_a_profile_refuses_the_doctor_refuses_in_the_same_words(self):
        self.assertIn("--workers", self.fails(2, "doctor", "--workers", "many"))
        self.assertIn("--epochs", self.fails(2, "doctor", "--epochs", "3"))
        missing = self.folder / "nowhere"
        self.assertEqual(self.fails(1, "doctor", missing).splitlines()[0].removeprefix("dsanalyze doctor"),
                         self.fails(1, "profile", missing).splitlines()[0].removeprefix("dsanalyze profile"))

    def test_a_profile_tells_the_doctors_warnings_with_its_findings_and_a_dry_run_with_its_plan(self):
        data = self.dataset()
        plan = self.json_of("profile", data, "--prep", "null", "--dry-run")
        self.assertNotIn("doctor-workers", [finding["code"] for finding in plan["findings"]])
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        low = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
        arguments = [PROGRAM, "profile", str(data), "--prep", "null", "--runs", "fetch", "--time-budget", "2s"]
        dry = subprocess.run([*arguments, "--dry-run"], capture_output=True, text=True, env=self.environment, timeout=60, check=True, preexec_fn=low)
        self.assertIn("[doctor-open-files]", dry.stdout)
        run = subprocess.run([*arguments, "--json"], capture_output=True, text=True, env=self.environment, timeout=60, check=True, preexec_fn=low)
        self.assertEqual([finding["code"] for finding in json.loads(run.stdout)["findings"]].count("doctor-open-files"), 1)
        self.assertEqual(run.stderr.count("open files:"), 1)

    def test_emulated_storage_and_prep_ask_nothing_of_disk_and_cores(self):
        checks = self.examine("emulated:imagenet-1k", "--storage", "emulated:ssd", "--prep", "emulated:400", "--workers", 512)
        self.assertFalse((CHECKS_OF_A_DISK | {"workers", "open-files", "io-uring"}) & set(checks))


if __name__ == "__main__":
    unittest.main()
