import json
import resource
import subprocess
import unittest

from doctor_program import DoctorTest
from program import PROGRAM

CHECKS_OF_A_DISK = {"dataset-access", "filesystem", "disk-type", "disk-scheduler", "read-ahead", "access-time", "direct-io", "page-cache"}


class Doctor(DoctorTest):
    def test_a_machine_is_examined_without_a_dataset_and_every_check_says_what_it_found(self):
        checks = self.examine()
        self.assertFalse(CHECKS_OF_A_DISK & set(checks))
        for code, check in checks.items():
            self.assertTrue(check["found"] and check["why"], code)
            if check["status"] in ("warning", "problem"):
                self.assertTrue(check["fix"], code)
            if check["status"] == "ok":
                self.assertIsNone(check["fix"], code)

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
        self.assertEqual((strict.returncode, json.loads(strict.stdout)["schema"]), (1, "dsanalyze.doctor/2"))
        usual = self.run_program("doctor", "--strict", "--json")  # whatever this machine has: steal comes and goes
        counts = json.loads(usual.stdout)["counts"]
        self.assertEqual(usual.returncode, 1 if counts["warning"] + counts["problem"] else 0)

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
