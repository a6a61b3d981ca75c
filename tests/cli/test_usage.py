import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import time
import unittest

from program import PROGRAM, ProgramTest

TABLE_5 = "G=30000,P=20000,C=251952,S=4698.5"


class Usage(ProgramTest):
    def test_alone_it_shows_what_to_do_next(self):
        text = self.succeeds().stdout
        self.assertIn("What to do next", text)
        for command in ("profile", "whatif", "dataset", "list"):
            self.assertIn(f"dsanalyze {command} ", text)

    def test_version(self):
        self.assertRegex(self.succeeds("--version").stdout, r"^dsanalyze \d+\.\d+\.\d+")
        self.assertEqual(self.json_of("--version")["tool"]["name"], "dsanalyze")

    def test_every_command_has_help_with_an_example_within_80_columns(self):
        for command in ("profile", "whatif", "dataset", "list"):
            text = self.succeeds(command, "--help", "all").stdout
            self.assertIn("Example", text)
            self.assertIn("--color", text)
            self.assertLessEqual(max(map(len, text.splitlines())), 80)
            self.assertEqual(self.succeeds("help", command, "all").stdout, text)
            self.assertEqual(self.succeeds("help", command).stdout, self.succeeds(command, "--help").stdout)

    def test_the_first_help_of_a_command_with_many_options_is_by_task(self):
        text = self.succeeds("profile", "--help").stdout
        self.assertIn("dsanalyze profile -- python3 train.py", text)
        self.assertIn("All options: dsanalyze profile --help all", text)
        self.assertLess(len(text.splitlines()), len(self.succeeds("profile", "--help", "all").stdout.splitlines()) / 2)

    def test_help_is_one_document_with_json(self):
        self.assertEqual(self.json_of("whatif", "--help")["command"], "whatif")

    def test_help_wins_over_mistakes(self):
        self.assertIn("dsanalyze whatif", self.succeeds("whatif", "--nonsense", "--help").stdout)

    def test_near_names_are_suggested(self):
        self.assertIn('did you mean "whatif"?', self.fails(2, "whatfi"))
        self.assertIn('did you mean "--cache-size"?', self.fails(2, "whatif", "--cach-size", "25%"))
        self.assertIn('did you mean "verify"?', self.fails(2, "dataset", "verfy", "data"))
        self.assertIn('did you mean "--preset"?', self.fails(2, "dataset", "make", "data", "--prest", "x"))
        self.assertIn('did you mean "workloads"?', self.fails(2, "list", "workload"))
        self.assertIn('did you mean "always"?', self.fails(2, "list", "workloads", "--color", "allways"))

    def test_missing_and_wrong_values_are_usage_errors(self):
        self.assertIn("--cache-size", self.fails(2, "whatif", "--cache-size"))
        self.assertIn("--seed", self.fails(2, "list", "workloads", "--seed", "many"))
        self.assertIn("unexpected argument", self.fails(2, "list", "workloads", "servers"))
        self.assertIn("dsanalyze profile -- python3 train.py", self.fails(2, "profile", "python3", "train.py"))
        self.assertIn("a command is missing", self.fails(2, "--find"))

    def test_errors_have_the_exit_code_of_a_program_that_stands_for_another_where_it_does(self):
        for arguments in (("whatif",), ("list", "workloads"), ("nosuch",), ("list", "profile"), ()):
            self.fails(2, *arguments, "--passive")
        self.fails(125, "profile", "--passive", "--nosuch")
        self.fails(125, "--quiet", "profile", "--passive", "--nosuch")
        for options, exit_code in ((("--passive", "--nosuch", "--", "true"), 125), (("--nosuch", "--", "true", "--passive"), 2)):
            self.assertEqual(self.run_program("profile", *options).returncode, exit_code)

    def test_a_real_run_is_asked_nothing_and_the_way_out_is_named(self):
        run = self.run_program("profile", "--passive", "--hang-timeout", "1s", "--", "true")
        self.assertEqual(run.returncode, 125)
        self.assertIn("--hang-timeout: is for phases; py-spy dump --pid PID says where a training stands that nothing is asked of", " ".join(run.stderr.split()))

    def test_common_options_may_stand_before_the_command(self):
        run = self.succeeds("--json", "--seed", "3", "list", "storage")
        self.assertEqual(json.loads(run.stdout)["schema"], "dsanalyze.list/1")

    def test_quiet_leaves_stderr_empty(self):
        self.assertEqual(self.succeeds("whatif", "--rates", TABLE_5, "--quiet").stderr, "")

    def test_data_are_found_by_the_environment_and_a_wrong_one_is_an_error(self):
        configs = self.folder / "configs"
        (configs / "workloads").mkdir(parents=True)
        self.environment["DSANALYZE_DATA_DIR"] = str(self.folder)
        self.assertEqual(self.json_of("list", "workloads")["items"], [])
        self.environment["DSANALYZE_DATA_DIR"] = str(self.folder / "nowhere")
        self.assertIn("DSANALYZE_DATA_DIR", self.fails(2, "list", "workloads"))

    def test_a_seed_is_any_number_of_64_bits(self):
        self.succeeds("list", "workloads", "--seed", 2**64 - 1)
        self.assertIn("expected a whole number in [0, 18446744073709551615]", self.fails(2, "list", "workloads", "--seed", 2**64))

    def test_a_closed_stdout_is_an_error(self):
        read, write = os.pipe()
        os.close(read)
        with os.fdopen(write, "w") as pipe:
            self.assertNotEqual(self.run_program("list", "workloads", stdout=pipe).returncode, 0)

    def test_one_interrupt_ends_it_while_stdout_is_not_read(self):
        read, write = os.pipe()
        self.addCleanup(os.close, read)
        size = fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
        with os.fdopen(write, "w") as pipe:
            run = subprocess.Popen([PROGRAM, "profile", "--help", "all"], stdout=pipe, stderr=subprocess.PIPE, env=self.environment)
        self.addCleanup(run.kill)
        deadline = time.monotonic() + 60
        while int.from_bytes(fcntl.ioctl(read, termios.FIONREAD, bytes(4)), sys.byteorder) < size:
            self.assertLess(time.monotonic(), deadline, "the pipe does not fill")
            time.sleep(0.02)
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=60)
        self.assertEqual(run.returncode, 130)


if __name__ == "__main__":
    unittest.main()
