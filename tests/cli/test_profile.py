import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

from program import PROGRAM, ProgramTest, block_device_counter

SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "reports" / "schemas" / "profile-1.json"
EMULATED = ["emulated:imagenet-1k,samples=20000", "--preset", "config-ssd-v100", "--workload", "resnet18", "--cache-size", "35%", "--batch-size", "32"]


def bytes_read_of(counter):
    return int(counter.read_text().split()[2]) * 512


def run_of(result, name):
    return next(run for run in result["runs"] if run["name"] == name)


class Profile(ProgramTest):
    def profile(self, *arguments):
        return self.json_of("profile", *arguments, "--quiet")

    def test_a_dry_run_prints_the_plan_and_touches_nothing(self):
        data = self.photographs()
        shutil.rmtree(self.folder / "cache", ignore_errors=True)
        before = sorted(path for path in self.folder.rglob("*") if "cache" not in path.parts)
        run = self.succeeds("profile", data, "--dry-run")
        for line in ("runs:", "subset:", "reads:", "evicts:", "holds:", "cores:", "cache:"):
            self.assertIn(f"plan: {line}", run.stdout)
        plan = self.json_of("profile", data, "--dry-run")
        self.assertEqual(plan["schema"], "dsanalyze.plan/1")
        self.assertEqual(plan["runs"], ["fetch", "prep", "full"])
        self.assertEqual(sorted(path for path in self.folder.rglob("*") if "cache" not in path.parts), before)
        self.assertFalse((self.folder / "state").exists())

    def test_without_an_accelerator_g_is_absent_and_asked_for_and_nothing_is_emulated(self):
        data = self.photographs()
        run = self.succeeds("profile", data, "--time-budget", "6s", "--batch-size", "2")  # P takes a window of some batches, on a busy machine too.
        self.assertIn("what the accelerators can consume [G]", " ".join(run.stdout.split()))
        self.assertFalse(run.stdout.lower().startswith("emulated"), run.stdout)
        saved = json.loads(pathlib.Path(re.search(r"^saved: (.*)$", run.stdout, re.M).group(1)).read_text())
        self.assertIsNone(saved["rates"].get("G"))
        self.assertNotIn("synthetic", [run["name"] for run in saved["runs"]])
        self.assertEqual((saved["settings"]["storage"], saved["settings"]["prep"]), ("real", "real"))

    def test_an_emulated_verdict_begins_with_that_word_and_the_printed_next_command_runs(self):
        run = self.succeeds("profile", *EMULATED, "--scale", "1:1000", "--time-budget", "5s")
        self.assertTrue(run.stdout.startswith("emulated"), run.stdout)
        following = shlex.split(re.search(r"^next: +(.*)$", run.stdout, re.M).group(1))
        self.assertEqual(following[:2], ["dsanalyze", "whatif"])
        self.assertIn("100 %", self.succeeds(*following[1:]).stdout)
        self.assertIn("cache", self.succeeds("whatif", "--cache-size", "50%").stdout)

    def test_the_next_command_is_a_profile_when_rates_are_missing_and_quotes_what_a_shell_would_split(self):
        out = self.folder / "my profile.json"
        run = self.succeeds("profile", *EMULATED, "--scale", "1:1000", "--runs", "fetch", "--time-budget", "1s", "-o", out)
        self.assertRegex(run.stdout, r"(?m)^next: +dsanalyze profile ")
        run = self.succeeds("profile", *EMULATED, "--scale", "1:1000", "--time-budget", "5s", "-o", out)
        self.assertEqual(shlex.split(re.search(r"^next: +(.*)$", run.stdout, re.M).group(1))[2], str(out))
        self.assertFalse((self.folder / "state").exists())

    def test_json_is_one_valid_document_with_progress_on_stderr_and_none_when_quiet(self):
        out = self.folder / "result.json"
        run = self.succeeds("profile", *EMULATED, "--scale", "1:1000", "--time-budget", "3s", "--json", "-o", out, "--observed", "5000")
        document = json.loads(run.stdout)
        self.assertEqual(json.loads(out.read_text()), document)
        self.assertIn("plan: runs:", run.stderr)
        self.assertIn("[S]", run.stderr)
        if document.get("bottleneck"):  # On a busy machine three seconds do not measure all rates.
            self.assertEqual(document["observed"]["samples_per_s"], 5000)
            self.assertTrue(0 <= document["observed"]["unused_fraction"] < 1)
        quiet = self.succeeds("profile", *EMULATED, "--scale", "1:1000", "--time-budget", "1s", "--runs", "fetch", "--quiet")
        self.assertEqual(quiet.stderr, "")

    def test_results_follow_the_schema(self):
        try:
            import jsonschema
        except ImportError:
            self.skipTest("python3-jsonschema is not installed")
        schema = json.loads(SCHEMA.read_text())
        data = self.photographs()
        for arguments in (
            [*EMULATED, "--scale", "1:1000"],
            [data, "--observed", "500", "--accelerator", "emulated:800"],
            [data, "--runs", "fetch,full"],
            [data, "--runs", "full"],
        ):
            with self.subTest(arguments=arguments):
                jsonschema.validate(self.profile(*arguments, "--time-budget", "2s"), schema)

    def test_every_workload_can_be_planned_on_the_paper_s_server(self):
        names = [item["name"] for item in self.json_of("list", "workloads")["items"]]
        self.assertGreaterEqual(len(names), 9)
        for name in names:
            with self.subTest(workload=name):
                self.assertIn("virtual", self.succeeds("profile", "emulated:imagenet-1k,samples=20000", "--preset", "config-ssd-v100", "--workload", name,
                                                       "--dry-run").stdout)

    def test_minio_hits_the_same_items_every_epoch_and_reads_the_others(self):
        data = self.photographs()
        run = run_of(self.profile(data, "--subset", "100%", "--runs", "full", "--cache-size", "35%", "--epochs", "4", "--batch-size", "16", "--time-budget", "4s", "--io",
                                  "pread"),
                     "full")
        whole, *later = run["epochs"]
        self.assertGreaterEqual(len(later), 2)
        self.assertEqual((whole["cache_hits"], whole["cache_misses"]), (0, 60))
        total = sum(file.stat().st_size for file in data.rglob("*.jpg"))
        largest = max(file.stat().st_size for file in data.rglob("*.jpg"))
        self.assertEqual(whole["requested_bytes"], total)
        for epoch in later:
            self.assertEqual((epoch["cache_hits"], epoch["requested_bytes"]), (later[0]["cache_hits"], later[0]["requested_bytes"]))
            self.assertEqual(epoch["cache_hits"] + epoch["cache_misses"], 60)
            held = total - epoch["requested_bytes"]
            self.assertLessEqual(held, 0.35 * total + 1)
            self.assertGreater(held, 0.35 * total - largest)
            if epoch["storage_bytes"] is not None and block_device_counter(data):
                self.assertGreaterEqual(epoch["storage_bytes"], 0.98 * epoch["requested_bytes"])
                self.assertLessEqual(epoch["storage_bytes"], epoch["requested_bytes"] + 4096 * epoch["cache_misses"])

    def test_storage_bytes_are_those_of_the_block_layer_and_cached_runs_have_none(self):
        data = self.photographs()
        counter = block_device_counter(data)
        if counter is None:
            self.skipTest(f"{data} lies on no block device of its own, so nothing outside the process counts its reads")
        before = bytes_read_of(counter)
        fetch = run_of(self.profile(data, "--runs", "fetch", "--time-budget", "2s"), "fetch")
        self.assertGreater(fetch["requested_bytes"], 0)
        self.assertGreaterEqual(bytes_read_of(counter) - before, 0.95 * fetch["storage_bytes"])
        self.assertGreaterEqual(fetch["storage_bytes"], 0.98 * fetch["requested_bytes"])
        self.assertLessEqual(fetch["storage_bytes"], 1.02 * fetch["requested_bytes"])
        cached = self.profile(data, "--runs", "prep,cached", "--accelerator", "emulated:100000", "--time-budget", "3s")
        self.assertEqual(fetch["storage_proof"], "proved")
        for name in ("prep", "cached"):
            self.assertEqual(run_of(cached, name)["storage_bytes"], 0)
            self.assertEqual(run_of(cached, name)["storage_proof"], "proved")

    def test_direct_reads_are_what_was_asked_for_in_whole_blocks(self):
        data = self.photographs()
        if block_device_counter(data) is None:
            self.skipTest(f"{data} lies on no block device of its own")
        try:
            os.close(os.open(next(data.rglob("*.jpg")), os.O_RDONLY | os.O_DIRECT))
        except OSError:
            self.skipTest("this filesystem refuses direct I/O")
        fetch = run_of(self.profile(data, "--runs", "fetch", "--direct", "--time-budget", "2s"), "fetch")
        self.assertGreaterEqual(fetch["storage_bytes"], fetch["requested_bytes"])
        self.assertLessEqual(fetch["storage_bytes"], fetch["requested_bytes"] + 4096 * fetch["cache_misses"])

    def test_what_cannot_be_proved_is_not_trusted_and_exits_with_4_when_trust_is_required(self):
        if not os.access("/dev/shm", os.W_OK):
            self.skipTest("there is no /dev/shm, whose files no cold run can read from storage")
        with tempfile.TemporaryDirectory(prefix="dsanalyze-test-", dir="/dev/shm") as memory:
            data = self.photographs(20, pathlib.Path(memory))
            run = self.run_program("profile", data, "--runs", "fetch", "--time-budget", "1s", "--require-trusted", "--json")
            self.assertEqual(run.returncode, 4, run.stderr)
            document = json.loads(run.stdout)
            self.assertFalse(document["trusted"])
            self.assertTrue({"not-evicted", "cold-run-read-memory", "storage-not-metered"} & {finding["code"] for finding in document["findings"]})
            self.assertIn("not to be trusted", self.succeeds("profile", data, "--runs", "fetch", "--time-budget", "1s").stdout)

    def test_a_counter_that_never_moves_proves_no_cached_run(self):
        if not os.access("/dev/shm", os.W_OK):
            self.skipTest("there is no /dev/shm, whose files the counters never see")
        with tempfile.TemporaryDirectory(prefix="dsanalyze-test-", dir="/dev/shm") as memory:
            document = self.profile(self.photographs(20, pathlib.Path(memory)), "--runs", "prep", "--time-budget", "1s")
        self.assertFalse(document["trusted"])
        said = [finding["message"] for finding in document["findings"] if finding["code"] == "storage-not-metered"]
        self.assertEqual(len(said), 1)
        self.assertIn("counted nothing when files of the dataset were read cold", said[0])
        self.assertEqual(run_of(document, "prep")["storage_proof"], "unproved")

    def test_unusual_ways_to_run_it_end_well(self):
        data = self.photographs(20)
        (self.folder / "one").mkdir()
        shutil.copy(next(data.rglob("*.jpg")), self.folder / "one")
        (self.folder / "link").symlink_to(data)
        for arguments in (
            [self.folder / "one"],
            [self.folder / "link", "--runs", "full"],
            ["--cache", "lru", "--cache-size", "50%", data],
            [data, "--cache", "none"],
            [data, "--cache", "page"],
            [data, "--step", "independent", "--accelerators", "4", "--accelerator", "emulated:300", "--batch-size", "4"],
            [data, "--dtype", "uint8", "--layout", "nhwc", "--cores", "1", "--workers", "4", "--io-depth", "1"],
            [data, "--max-storage-rate", "20MB/s", "--batch-size", "4096", "--dtype", "uint8", "--epochs", "2"],
        ):
            with self.subTest(arguments=arguments):
                result = self.profile(*arguments, "--time-budget", "1s")
                self.assertTrue(all(epoch["seconds"] >= 0 for run in result["runs"] for epoch in run["epochs"]))

    def test_a_file_that_goes_away_during_the_run_is_a_failed_sample(self):
        data = self.photographs(20)
        gone = sorted(data.rglob("*.jpg"))[0]
        with subprocess.Popen([PROGRAM, "profile", str(data), "--runs", "fetch", "--time-budget", "4s", "--error-budget", "50%", "--json"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment) as process:
            for line in process.stderr:
                if line.startswith("plan: cores"):
                    break
            gone.unlink()
            stdout, _ = process.communicate(timeout=60)
        document = json.loads(stdout)
        self.assertEqual(process.returncode, 0, stdout)
        self.assertTrue(any(finding["code"] == "samples-failed" and gone.name in finding["message"] for finding in document["findings"]))

    def test_stdout_that_is_no_terminal_gets_80_columns_and_no_colour(self):
        self.environment["COLUMNS"] = "80"
        text = self.succeeds("profile", *EMULATED, "--scale", "1:1000", "--time-budget", "2s", "--observed", "900").stdout
        self.assertNotIn("\x1b", text)
        lines = [line for line in text.splitlines() if not line.startswith(("saved:", "next:"))]
        self.assertLessEqual(max(map(len, lines)), 80)


class ControlGroup(ProgramTest):
    """Limits of the group that the program runs in; v1, whose groups root may make where it is mounted writable."""

    def plan_in(self, controller, limits):
        mount = pathlib.Path("/sys/fs/cgroup") / controller
        group = mount / f"dsanalyze-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError as error:
            self.skipTest(f"no cgroup can be made in {mount}: {error}")
        self.addCleanup(group.rmdir)
        try:
            for name, value in limits.items():
                (group / name).write_text(str(value))
        except OSError as error:
            self.skipTest(f"{group} takes no limit: {error}")
        arguments = ["profile", "emulated:imagenet-1k", "--storage", "null", "--prep", "null", "--dry-run", "--json"]
        script = f"echo $$ > {group}/cgroup.procs && exec {shlex.join([PROGRAM, *arguments])}"
        run = subprocess.run(["sh", "-c", script], capture_output=True, text=True, env=self.environment, timeout=60, check=False)
        if "cgroup.procs" in run.stderr:
            self.skipTest(f"no process may enter {group}")
        self.assertEqual(run.returncode, 0, run.stderr)
        return json.loads(run.stdout)

    def test_a_memory_limit_bounds_what_is_held(self):
        limit = 512 << 20
        plan = self.plan_in("memory", {"memory.limit_in_bytes": limit})
        self.assertLess(plan["memory_bytes"], limit)
        self.assertLess(plan["cache_bytes"], limit)

    def test_a_cpu_limit_bounds_the_cores(self):
        plan = self.plan_in("cpu", {"cpu.cfs_period_us": 100000, "cpu.cfs_quota_us": 100000})
        self.assertIn("cores: 1, 1 prep workers; 16 reads in flight", plan["lines"])


if __name__ == "__main__":
    unittest.main()
