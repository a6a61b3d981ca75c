import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time
import unittest

from program import PROGRAM, ProgramTest, block_device_counter

EMULATED = ["emulated:imagenet-1k,samples=20000", "--preset", "config-ssd-v100", "--workload", "resnet18", "--scale", "1:1000"]
NOBODY = 65534


class BadInput(ProgramTest):
    def files(self):
        return sorted(path for path in self.folder.rglob("*") if path.is_file() and "cache" not in path.parts)

    def refuses(self, exit_code, *arguments, says=()):
        """Fails with this code, says so, leaves no file, traceback or hint of C++."""
        before = self.files()
        text = self.fails(exit_code, *arguments)
        for words in says:
            self.assertIn(words, text)
        self.assertNotRegex(text, r"std::|terminate called|filesystem error")
        self.assertEqual(self.files(), before)
        return text

    # ---- datasets

    def test_what_is_no_dataset_is_refused_with_what_to_do(self):
        empty = self.folder / "empty"
        empty.mkdir()
        file = self.folder / "file"
        file.write_text("no dataset")
        for command in (["profile"], ["dataset", "info"], ["dataset", "verify"]):
            self.refuses(1, *command, self.folder / "nowhere", says=["nowhere", "no such folder", "check the path"])
            self.refuses(1, *command, empty, says=[str(empty), "is empty", "give a folder of images"])
            self.refuses(1, *command, file, says=[str(file), "is not a folder", "give a folder"])
        self.refuses(2, "profile", says=["which training, or which dataset?", "profile -- python3 train.py", "dataset make"])

    def test_formats_that_are_not_read_yet_are_named(self):
        for name, word in (("train.tfrecord", "TFRecord"), ("train.rec", "RecordIO")):
            folder = self.folder / name.replace(".", "_")
            folder.mkdir()
            (folder / name).write_bytes(b"\0" * 600)
            self.assertIn(word.lower(), self.refuses(1, "profile", folder, says=["not yet"]).lower())

    def damaged(self):
        data = self.photographs()
        truncated, empty, text, *_ = sorted(data.rglob("*.jpg"))
        truncated.write_bytes(truncated.read_bytes()[:500])
        empty.write_bytes(b"")
        text.write_text("not a JPEG file")
        return data, (truncated, empty, text)

    def test_damaged_files_are_skipped_named_and_counted_within_the_error_budget(self):
        data, bad = self.damaged()
        result = self.json_of("profile", data, "--runs", "prep,full", "--batch-size", "16", "--time-budget", "4s", "--error-budget", "20%", "--subset", "100%")
        failed = [finding["message"] for finding in result["findings"] if finding["code"] == "samples-failed"]
        self.assertTrue(failed)
        truncated, empty, text = (any(file.name in message for message in failed) for file in bad)
        self.assertTrue(empty and (truncated or text), failed)  # The first of each cause is named.
        self.assertGreater(sum(run["samples_failed"] for run in result["runs"]), 0)

    def test_more_damage_than_the_error_budget_or_any_with_on_error_fail_ends_the_run(self):
        data, bad = self.damaged()
        self.json_of("profile", data, "--runs", "full", "--batch-size", "16", "--time-budget", "4s")  # A few samples that fail again and again are tolerated.
        bad = sorted(data.rglob("*.jpg"))[:12]
        for file in bad[3:]:
            file.write_bytes(b"")
        self.refuses(1, "profile", data, "--runs", "full", "--batch-size", "16", "--time-budget", "4s", says=["error budget", "dataset verify"])
        text = self.refuses(1, "profile", data, "--runs", "full", "--batch-size", "16", "--time-budget", "4s", "--on-error", "fail", says=["--on-error skip"])
        self.assertTrue(any(file.name in text for file in bad))

    # ---- options

    def test_absurd_numbers_name_their_option(self):
        data = self.folder / "empty"
        data.mkdir()
        counts = ("--accelerators", "--batch-size", "--workers", "--cores", "--io-depth", "--epochs")
        amounts = ("--observed", "--time-budget", "--subset", "--cache-size", "--max-storage-rate", "--error-budget", "--scale")
        for option in counts + amounts:
            for value in ("-1", "nan", "inf", "1e99", "many", "99999999999999999999999999"):
                with self.subTest(option=option, value=value):
                    self.refuses(2, "profile", data, option, value, says=[option])
        for option in (*counts, "--observed", "--scale"):
            with self.subTest(option=option):
                self.refuses(2, "profile", data, option, "0", says=[option])
        for rate in ("0", "-5", "nan", "1e30"):
            self.refuses(2, "profile", data, "--accelerator", f"emulated:{rate}", says=["--accelerator"])
            self.refuses(2, "profile", data, "--prep", f"emulated:{rate}", says=["--prep"])
        self.refuses(2, *("profile", *EMULATED[:1], "--storage", "emulated:0MB/s", "--prep", "null"), says=["--storage"])
        for option in ("--time-budget", "--subset"):
            self.refuses(2, "profile", *EMULATED, option, "0", says=[option])
        self.refuses(2, "profile", data, "--seed", "-1", says=["--seed: found"])

    def test_a_number_without_a_unit_is_refused_with_its_readings(self):
        amount = '"35" has no unit; write 35% (of the dataset) or 35B'
        for words, option, readings in ((("profile", "x", "--cache-size", "35"), "--cache-size", amount), (("profile", "x", "--subset", "35"), "--subset", amount),
                                        (("profile", "x", "--memory-limit", "35"), "--memory-limit", amount), (("share", "x", "--jobs", "2", "--staging-size", "35"), "--staging-size", amount),
                                        (("profile", "x", "--error-budget", "0.1"), "--error-budget", '"0.1" has no unit; write 0.1% or 10%'),
                                        (("dataset", "make", "x", "--bytes", "35"), "--bytes", '"35" has no unit; write 35B or 35MB'),
                                        (("whatif", "--rates", "P=1,C=2,S=3", "--cache-size", "25%,35"), "--cache-size", amount),
                                        (("simulate", "coordl-table-6-shuffled", "--cache-size", "25%,35"), "--cache-size", amount)):
            with self.subTest(words):
                self.refuses(2, *words, says=[f"{option}: {readings}"])

    def test_options_without_value_or_given_twice_are_told_so_in_plain_words(self):
        self.refuses(2, "profile", "x", "--batch-size", says=["--batch-size: its value is missing"])
        self.refuses(2, "profile", "x", "--runs", "prep", "--runs", "full", says=["--runs: is given more than once"])

    def test_unknown_names_come_with_a_suggestion(self):
        self.refuses(2, "profil", "x", says=['did you mean "profile"?'])
        self.refuses(2, "profile", "x", "--acelerator", "null", says=['did you mean "--accelerator"?'])
        self.refuses(2, "profile", "x", "--cache", "minoi", says=['did you mean "minio"?'])
        self.refuses(2, "profile", "x", "--workload", "resnt18", says=['did you mean "resnet18"?'])
        self.refuses(2, "profile", *EMULATED, "--runs", "fetsh", says=["fetsh", "fetch"])
        self.refuses(2, "profile", "emulated:imagenet-1kk", "--storage", "null", "--prep", "null", says=['did you mean "imagenet-1k"?'])

    def test_what_does_not_go_together_is_refused_with_the_reason(self):
        data = self.photographs(4)
        self.refuses(2, "profile", data, "--cache", "page", "--direct", says=["page cache"])
        self.refuses(2, "profile", data, "--runs", "cached", says=["needs an accelerator"])
        self.refuses(2, "profile", data, "--preset", "config-ssd-v100", says=["--workload"])
        self.refuses(2, "profile", data, "--cores", "1024", says=["--cores 1024"])
        self.refuses(2, "profile", "emulated:imagenet-1k", says=["--storage"])
        self.refuses(2, "profile", data, "--accelerator", "cuda", says=["--accelerator pytorch:cuda"])

    def test_a_cache_larger_than_memory_is_refused_before_anything_runs(self):
        text = self.refuses(2, "profile", "emulated:imagenet-22k", "--storage", "null", "--prep", "null", "--cache-size", "900GiB")
        self.assertRegex(text, r"--cache-size 900 GiB: only .* of memory are available")

    def test_an_unknown_key_of_a_configuration_is_named_with_its_file_and_place(self):
        file = self.folder / "workload.json"
        configs = pathlib.Path(__file__).resolve().parents[2] / "configs"
        workload = json.loads((configs / "workloads" / "resnet18.json").read_text())
        file.write_text(json.dumps({**workload, "batchsize": 3}))
        self.refuses(2, "profile", "x", "--workload", file, says=[str(file), "batchsize"])
        file.write_text("{")
        self.refuses(2, "profile", "x", "--workload", file, says=[str(file)])

    # ---- where results go

    def test_an_output_that_cannot_be_written_is_refused_before_the_measurement(self):
        started = time.monotonic()
        run = ["profile", *EMULATED, "--time-budget", "10min", "-o"]
        self.refuses(1, *run, self.folder / "no" / "such" / "result.json", says=["does not exist", "make it first"])
        self.refuses(1, *run, self.folder, says=["it is a folder"])
        self.assertLess(time.monotonic() - started, 300)  # ten minutes were not measured

    def test_a_full_disk_leaves_no_part_of_a_result(self):
        run = ["profile", *EMULATED, "--runs", "fetch", "--time-budget", "1s", "--quiet", "-o"]
        self.refuses(1, *run, "/dev/full", says=["/dev/full", "No space left"])
        self.assertTrue(pathlib.Path("/dev/full").is_char_device())
        disk = self.folder / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", disk], capture_output=True, check=False).returncode != 0:
            self.skipTest("no small filesystem may be mounted here")
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        self.refuses(1, *run, disk / "result.json", says=["No space left"])
        self.assertEqual(list(disk.iterdir()), [])

    def test_a_profile_that_cannot_be_saved_is_still_told(self):
        blocked = self.folder / "blocked"
        blocked.write_text("a file where a folder should be")
        self.environment["XDG_STATE_HOME"] = str(blocked)
        run = self.succeeds("profile", *EMULATED, "--runs", "fetch", "--time-budget", "1s")
        self.assertIn("storage can supply", run.stdout)
        self.assertIn("not saved:", run.stdout)
        self.assertIn("give a place with -o FILE", " ".join(run.stderr.split()))

    def test_without_a_home_nothing_is_kept_but_all_is_told(self):
        for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
            self.environment.pop(name, None)
        data = self.folder / "data"
        data.mkdir()
        (data / "a.jpg").write_bytes(b"\xff\xd8\xff")
        self.assertIn("samples  1", self.succeeds("dataset", "info", data).stdout)
        self.assertIn("not saved:", self.succeeds("profile", *EMULATED, "--runs", "fetch", "--time-budget", "1s").stdout)

    def test_a_reader_that_goes_away_ends_the_program_quietly(self):
        for command in (["list", "workloads"], ["profile", "--help"], ["profile", *EMULATED, "--runs", "fetch", "--time-budget", "1s", "--json"]):
            with subprocess.Popen([PROGRAM, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment) as process:
                process.stdout.close()
                text = process.stderr.read()
                process.wait(timeout=60)
            self.assertNotRegex(text, "terminate called|std::")

    # ---- interrupts

    @contextlib.contextmanager
    def running(self, *arguments):
        with subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment,
                              start_new_session=True) as process:
            try:
                for line in process.stderr:
                    if line.startswith("plan: cores"):
                        break
                time.sleep(0.5)  # into the first run; nothing depends on how far
                yield process
            finally:
                if process.poll() is None:
                    process.kill()

    def ends_interrupted(self, process):
        stdout, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, stderr)
        document = json.loads(stdout)
        self.assertEqual((document["schema"], document["error"]["kind"]), ("dsanalyze.error/1", "interrupted"))
        self.assertNotIn("terminate called", stderr)
        with self.assertRaises(ProcessLookupError):
            os.killpg(process.pid, 0)

    def test_an_interrupt_ends_with_130_and_leaves_nothing(self):
        data = self.photographs()
        for dataset in ([data], EMULATED):
            for number in (signal.SIGINT, signal.SIGTERM):
                with self.subTest(dataset=dataset[0], signal=number):
                    before = self.files()
                    with self.running("profile", *dataset, "--time-budget", "5min", "--json", "-o", self.folder / "result.json") as process:
                        process.send_signal(number)
                        self.ends_interrupted(process)
                    self.assertEqual(self.files(), before)

    def test_a_second_interrupt_ends_at_once(self):
        with self.running("profile", *EMULATED, "--time-budget", "5min", "--json") as process:
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGTERM)
            self.ends_interrupted(process)

    # ---- other users

    def as_nobody(self, *arguments):
        if os.geteuid() != 0:
            self.skipTest("only root can run the program as another user")
        home = self.folder / "nobody"
        home.mkdir(exist_ok=True)
        os.chown(home, NOBODY, NOBODY)
        environment = {**self.environment, "XDG_STATE_HOME": str(home / "state"), "XDG_CACHE_HOME": str(home / "cache")}

        def run(*words):
            return subprocess.run([PROGRAM, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd="/",
                                  user=NOBODY, group=NOBODY, extra_groups=[], timeout=120, check=False)

        self.folder.chmod(0o755)
        try:
            run("--version").check_returncode()
        except (OSError, subprocess.CalledProcessError):
            self.skipTest("another user cannot run the built program where it lies")
        return run(*arguments)

    def test_another_user_profiles_files_that_are_not_his_from_another_folder(self):
        data = self.photographs()
        for _ in range(3):
            run = self.as_nobody("profile", data, "--runs", "fetch,full", "--batch-size", "16", "--time-budget", "4s", "--json")
            self.assertEqual(run.returncode, 0, run.stderr)
            codes = {finding["code"] for finding in json.loads(run.stdout)["findings"]}
            if "not-evicted" not in codes:  # The kernel may hold on to pages for reasons of its own.
                break
        if block_device_counter(data):
            # Looking whether files are cold must not warm them up.
            self.assertNotIn("cold-run-read-memory", codes)

    def test_files_and_folders_that_may_not_be_read_are_named(self):
        data = self.photographs()
        file = sorted(data.rglob("*.jpg"))[0]
        file.chmod(0)
        run = self.as_nobody("profile", data, "--runs", "fetch", "--batch-size", "16", "--time-budget", "3s", "--error-budget", "20%", "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertTrue(any(file.name in finding["message"] and "Permission denied" in finding["message"] for finding in json.loads(run.stdout)["findings"]))
        locked = data / "locked"
        locked.mkdir(mode=0o700)
        run = self.as_nobody("profile", data, "--runs", "fetch", "--time-budget", "1s")
        self.assertEqual(run.returncode, 1)
        for words in (str(locked), "Permission denied", "make it readable"):
            self.assertIn(words, run.stderr)

    def test_names_from_outside_do_not_reach_the_terminal_as_commands(self):
        folder = self.folder / "a\x1b[2J\rb"
        folder.mkdir()
        (folder / "broken\x1b[31m.jpg").write_bytes(b"no photograph")
        for arguments in (("profile", folder, "--time-budget", "2s"), ("profile", folder / "nowhere"), ("\x1b[2J",), ("profile", "--\x1b[2J"), ("whatif", folder), ("dataset", "info", folder)):
            run = self.run_program(*arguments)
            for text in (run.stdout, run.stderr):
                self.assertNotIn("\x1b", text, arguments)
                self.assertNotIn("\r", text, arguments)


if __name__ == "__main__":
    unittest.main()
