"""Jobs of one dataset that draw dependently: each gets its own epochs whole, prep is shared, and any of them may come, go or be killed."""

import json
import pathlib
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import test_schemas  # pylint: disable=wrong-import-position
from program import PROGRAM  # pylint: disable=wrong-import-position
from test_share import EMULATED, MINIMAL_C, ShareTest, digest_of, until  # pylint: disable=wrong-import-position

JOB = pathlib.Path(__file__).resolve().parent / "dependent_job.py"
SPEEDS = (0, 0.002, 0.004, 0.006, 0.01)  # seconds a batch, of five jobs


class DependentTest(ShareTest):
    def job(self, name, *options):
        return self.start(sys.executable, JOB, self.folder, "--name", name, *options)

    def job_that_takes_part(self, name, *options):
        """As job(), once it has its first batch: a group ends when no job takes part any more, also before the next one comes."""
        taken = self.folder / f"taken-{name}"
        taken.unlink(missing_ok=True)
        job = self.job(name, "--taken", taken, *options)
        until(lambda: taken.exists() or job.poll() is not None)
        return job

    def hurry(self):
        """Jobs that wait for it take no time from now on."""
        (self.folder / "hurry").touch()

    def ends_well(self, *jobs):
        for job in jobs:
            _, errors = job.communicate(timeout=60)
            self.assertEqual(job.returncode, 0, errors)

    def epochs_of(self, name):
        return json.loads((self.folder / f"job-{name}.json").read_text())

    def check_epochs(self, name, samples, count, versions=True):
        """Each sample once an epoch; with `versions`, no two epochs have the same version of one."""
        epochs = self.epochs_of(name)
        self.assertEqual(len(epochs), count)
        for epoch in epochs:
            self.assertEqual(sorted(sample for sample, _, _ in epoch), list(samples), name)
        seen = [(sample, content) for epoch in epochs for sample, _, content in epoch]
        if versions:
            self.assertEqual(len(set(seen)), len(seen), f"job {name} got a version twice")
        return {sample for sample in seen}


class Jobs(DependentTest):
    def test_five_commands_of_different_speed_get_their_epochs_and_share_prep(self):
        data = self.photographs(60)
        script = self.script("case $DSANALYZE_JOB in\n" + "".join(
            f"  {job}) exec {sys.executable} {JOB} {self.folder} --batch-size {job + 3} --epochs {6 - job} --seconds {seconds};;\n"
            for job, seconds in enumerate(SPEEDS)) + "esac\n")
        record, _ = self.record(data, "--share", "dependent", "--jobs", 5, "--staging-size", "25%", "--dtype", "uint8", "--", *script)
        versions = [self.check_epochs(job, range(60), 6 - job) for job in range(5)]
        self.assertTrue(any(versions[0] & other for other in versions[1:]), "no version was shared")
        drawn = 60 * (6 + 5 + 4 + 3 + 2)
        self.assertEqual(record["samples_taken"], drawn)
        self.assertLess(record["samples_prepared"], drawn)
        self.assertEqual(record["terms"]["share"], "dependent")
        self.assertEqual(record["dependent"]["samples_drawn"], drawn)
        self.assertEqual(record["dependent"]["store_samples"], 15)
        self.assertGreater(record["dependent"]["samples_from_store"], 0)
        self.assertEqual([job["end"] for job in record["jobs"]], ["left"] * 5)
        self.assertEqual(sorted(job["place"] for job in record["jobs"]), [0, 1, 2, 3, 4])
        self.assertLessEqual(record["memory"]["shared_bytes"], record["memory"]["bound_bytes"])
        if test_schemas.jsonschema is not None:
            self.assertEqual(test_schemas.Schemas.follows_its_schema(self, record), "share")

    def test_jobs_come_late_with_parts_of_the_dataset_and_the_group_ends_with_the_last(self):
        data = self.photographs(40)
        coordinator = self.share(data, "--share", "dependent", "--jobs", 3, "--dtype", "uint8", "--staging-policy", "lru", "--staging-size", "20%", "-o",
                                 self.folder / "share.json")
        first = self.job_that_takes_part("whole", "--epochs", 4, "--seconds", 0.5, "--batch-size", 4, "--hurry", self.folder / "hurry")
        part = self.job("part", "--epochs", 3, "--subset", "50%-100%,3", "--batch-size", 7)
        self.ends_well(part)
        late = self.job("late", "--epochs", 2, "--subset", "0-9", "--batch-size", 4)
        self.ends_well(late)
        self.hurry()
        self.ends_well(first)
        coordinator.wait(timeout=30)
        self.check_epochs("whole", range(40), 4)
        self.check_epochs("part", [3, *range(20, 40)], 3)
        self.check_epochs("late", range(10), 2)
        record = json.loads((self.folder / "share.json").read_text())
        self.assertEqual(record["end"], "left")
        self.assertEqual(record["samples_taken"], 160 + 63 + 20)
        self.nothing_is_left()

    def test_recorded_draws_are_replayed_with_what_the_store_did_and_with_other_stores(self):
        data = self.photographs(60)
        trace = self.folder / "run.draws"
        script = self.script("case $DSANALYZE_JOB in\n" + "".join(
            f"  {job}) exec {sys.executable} {JOB} {self.folder} --batch-size {job + 3} --epochs {6 - job} --seconds {seconds} {subset};;\n"
            for job, (seconds, subset) in enumerate(zip(SPEEDS, ("", "", "--subset 50%", "", "--subset 5-40,50")))) + "esac\n")
        record, _ = self.record(data, "--share", "dependent", "--jobs", 5, "--staging-size", "10%", "--dtype", "uint8", "--trace", trace, "--", *script)
        result = self.json_of("simulate", "--trace", trace, "--cache-size", "0%,10%,100%")
        if test_schemas.jsonschema is not None:
            self.assertEqual(test_schemas.Schemas.follows_its_schema(self, result), "simulate")
        made, draws = record["dependent"], result["draws"]
        self.assertEqual((draws["rounds"], draws["samples_drawn"]), (made["rounds"], made["samples_drawn"]))
        self.assertEqual((draws["recorded"]["samples_prepared"], draws["recorded"]["samples_from_store"], draws["recorded"]["places"]),
                         (made["samples_prepared"], made["samples_from_store"], made["store_samples"]))
        stores = {(store["policy"], store["places"]): store for store in draws["stores"]}
        self.assertEqual(set(stores), {(policy, places) for policy in ("refcnt", "lru") for places in (0, 6, 60)})
        for same in ("samples_prepared", "samples_from_store"):
            self.assertEqual(stores["refcnt", 6][same], draws["recorded"][same])
        self.assertEqual(stores["lru", 0]["samples_from_store"], 0)
        self.assertLess(stores["refcnt", 60]["samples_prepared"], stores["refcnt", 0]["samples_prepared"])
        text = self.succeeds("simulate", "--trace", trace, "--policy", "lru", "--cache-size", "1GiB").stdout
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        self.assertIn("(recorded)", text)
        self.assertIn("expected refcnt or lru", self.fails(2, "simulate", "--trace", trace, "--policy", "minio"))
        self.assertIn("--cache-size", self.fails(2, "simulate", "--trace", trace, "--cache-size", "much"))

    def test_a_trace_that_cannot_be_written_is_said_first_and_one_of_jobs_in_step_is_refused(self):
        data = self.photographs(20)
        words = ("share", data, "--share", "dependent", "--jobs", 1, "--trace")
        self.assertIn("absent", self.fails(1, *words, self.folder / "absent" / "run.draws"))
        self.assertIn("--trace: jobs that go in step", self.fails(2, "share", data, "--jobs", 1, "--trace", self.folder / "x"))

    def test_a_program_that_knows_nothing_of_it_runs_unchanged(self):
        record, run = self.record(*EMULATED, "--share", "dependent", "--jobs", 2, "--epochs", 2, "--", MINIMAL_C)
        for epoch in range(2):
            self.assertEqual(run.stdout.count(f"epoch {epoch}: 600 samples, digest {digest_of(600)}"), 2, run.stdout)
        self.assertEqual(record["end"], "commands-ended")
        self.assertEqual(record["samples_taken"], 2400)
        self.assertLess(record["samples_prepared"], 2400)


class SavedAndResumed(DependentTest):
    def coordinate(self, data, *options):
        return self.share(data, "--share", "dependent", "--jobs", 3, "--dtype", "uint8", "--staging-size", "20%", *options)

    def saved(self, coordinator, number=signal.SIGTERM):
        coordinator.send_signal(number)
        _, errors = coordinator.communicate(timeout=30)
        self.assertEqual(coordinator.returncode, 130, errors)
        self.assertIn("--resume", errors)

    def test_a_group_that_is_saved_twice_gives_each_job_the_rest_of_its_epochs(self):
        data = self.photographs(60)
        state = self.folder / "state"
        jobs = {"a": ("--batch-size", 4, "--epochs", 3, "--seconds", 0.2), "b": ("--batch-size", 7, "--epochs", 2, "--seconds", 0.5),
                "c": ("--subset", "25%-75%", "--epochs", 4, "--batch-size", 5, "--seconds", 0.4)}

        def start():
            return {name: self.job_that_takes_part(name, "--append", "--again", name, "--hurry", self.folder / "hurry", *options)
                    for name, options in jobs.items()}

        resume = []
        for number in (signal.SIGTERM, signal.SIGINT):
            coordinator = self.coordinate(data, "--save-state", state, *resume)
            started = start()
            time.sleep(0.2)
            self.saved(coordinator, number)
            resume = ["--resume", state]
            for name, job in started.items():
                _, errors = job.communicate(timeout=60)
                self.assertTrue(job.returncode == 0 or "host is gone" in errors, errors)
                if job.returncode == 0:
                    del jobs[name]
        self.assertTrue(jobs, "all jobs had ended before the group was saved")
        coordinator = self.coordinate(data, *resume)
        started = start()
        self.hurry()
        self.ends_well(*started.values())
        _, errors = coordinator.communicate(timeout=30)
        self.assertIn("goes on with batch", errors)
        self.check_epochs("a", range(60), 3)
        self.check_epochs("b", range(60), 2)
        self.check_epochs("c", range(15, 45), 4)

    def test_commands_go_on_by_their_numbers(self):
        data = self.photographs(40)
        state = self.folder / "state"
        script = self.script(f"exec {sys.executable} {JOB} {self.folder} --name $DSANALYZE_JOB --append --epochs 2 --batch-size 3 --seconds 0.5 "
                             f"--taken {self.folder}/taken-$DSANALYZE_JOB --hurry {self.folder}/hurry\n")
        words = ["share", data, "--share", "dependent", "--jobs", 2, "--dtype", "uint8"]
        first = self.start(PROGRAM, *words, "--save-state", state, "--", *script)
        until(lambda: all((self.folder / f"taken-{job}").exists() for job in (0, 1)) or first.poll() is not None)
        first.send_signal(signal.SIGTERM)
        _, errors = first.communicate(timeout=30)
        self.assertIn("--resume", errors)
        for name in ("0", "1"):
            self.assertTrue(0 < len(self.epochs_of(name)[0]) < 40, errors)
        self.hurry()
        second = self.run_program(*words, "--resume", state, "--", *script)
        self.assertEqual(second.returncode, 0, second.stderr)
        for name in ("0", "1"):
            self.check_epochs(name, range(40), 2)

    def test_a_command_that_comes_again_and_had_all_its_epochs_ends_well(self):
        data = self.photographs(30)
        state = self.folder / "state"
        script = self.script(f"exec {sys.executable} {JOB} {self.folder} --name $DSANALYZE_JOB --append --epochs 2 --batch-size 3 "
                             f"--seconds $((DSANALYZE_JOB * 5)) --taken {self.folder}/taken-$DSANALYZE_JOB --hurry {self.folder}/hurry\n")
        words = ["share", data, "--share", "dependent", "--jobs", 2, "--dtype", "uint8"]
        first = self.start(PROGRAM, *words, "--save-state", state, "--", *script)
        until(lambda: ((self.folder / "job-0.json").exists() and (self.folder / "taken-1").exists()) or first.poll() is not None)
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=30)
        self.check_epochs("0", range(30), 2)
        self.hurry()
        second = self.run_program(*words, "--resume", state, "--json", "--", *script)
        self.assertEqual(second.returncode, 0, second.stderr)
        self.assertIn("has had its epochs: 2", second.stderr)
        record = json.loads(second.stdout)
        if test_schemas.jsonschema is not None:
            self.assertEqual(test_schemas.Schemas.follows_its_schema(self, record), "share")
        self.assertEqual([command.get("had_all_epochs") for command in record["commands"]], [True, None])
        self.assertEqual([command["exit_status"] for command in record["commands"]], [0, 0])
        self.assertEqual(sorted(job["end"] for job in record["jobs"]), ["finished", "left"])
        self.assertEqual(record["refused"], 0)
        for name in ("0", "1"):
            self.check_epochs(name, range(30), 2)

    def test_what_cannot_be_resumed_is_refused_in_words(self):
        data = self.photographs(20)
        state = self.folder / "state"
        coordinator = self.coordinate(data, "--save-state", state)
        job = self.job_that_takes_part("a", "--append", "--again", "a", "--epochs", 2, "--batch-size", 2, "--seconds", 0.1)
        self.saved(coordinator)
        job.communicate(timeout=30)
        text = state.read_bytes()
        self.assertTrue(text.startswith(b"dsanalyze-dependent-group 1 "), text[:100])
        torn = self.folder / "torn"
        torn.write_bytes(text[:-20])
        foreign = self.folder / "foreign"
        foreign.write_text("{}")
        changed = self.folder / "changed"
        changed.write_bytes(text.replace(b'"seed": 1', b'"seed": 2'))
        base = ["share", data, "--share", "dependent", "--jobs", 2, "--dtype", "uint8", "--resume"]
        cases = [((*base, torn), "it is not whole"), ((*base, foreign), "found no state of a dependent group"), ((*base, changed), "checksum"),
                 ((*base, self.folder / "none"), "none"), ((*base, state, "--seed", 5), "pass --seed 1"), (("share", data, "--share", "dependent", "--jobs", 2, "--resume", state), "the prep of the saved group is"),
                 (("share", *EMULATED, "--share", "dependent", "--jobs", 2, "--resume", state), "the dataset of the saved group is"),
                 (("share", data, "--jobs", 2, "--resume", state), "--resume: only jobs that draw dependently"),
                 (("share", data, "--jobs", 2, "--save-state", state), "--save-state: only jobs that draw dependently"),
                 ((*base, state, "--save-state", self.folder / "no" / "folder"), "no/folder")]
        for words, message in cases:
            with self.subTest(words=words):
                run = self.run_program(*words, "--", "true")
                self.assertNotEqual(run.returncode, 0)
                self.assertIn(message, run.stderr)
        self.assertEqual(state.read_bytes(), text)


class Failures(DependentTest):
    def test_a_killed_job_leaves_the_draws_and_another_takes_its_place(self):
        data = self.photographs(30)
        coordinator = self.share(data, "--share", "dependent", "--jobs", 2, "--dtype", "uint8", "--staging-size", "30%")
        stays = self.job_that_takes_part("stays", "--epochs", 5, "--seconds", 0.5, "--batch-size", 4, "--hurry", self.folder / "hurry")
        for batches in (1, 3):
            killed = self.job("killed", "--kill-after", batches, "--batch-size", 5)
            _, errors = killed.communicate(timeout=60)
            self.assertEqual(killed.returncode, -signal.SIGKILL, errors)
        after = self.job("after", "--epochs", 1)
        self.ends_well(after)
        self.hurry()
        self.ends_well(stays)
        _, errors = coordinator.communicate(timeout=30)
        self.assertEqual(coordinator.returncode, 0, errors)
        self.assertEqual(errors.count("died: its samples leave the draws"), 2, errors)
        self.check_epochs("stays", range(30), 5)
        self.check_epochs("after", range(30), 1)
        self.nothing_is_left()

    def test_a_stopped_job_stops_no_other(self):
        coordinator = self.share(*EMULATED, "--share", "dependent", "--jobs", 2)
        stopped = self.job_that_takes_part("stopped", "--seconds", 0.001)
        stopped.send_signal(signal.SIGSTOP)
        fast = self.job("fast", "--epochs", 3)
        self.ends_well(fast)
        self.check_epochs("fast", range(600), 3, versions=False)
        stopped.kill()
        coordinator.communicate(timeout=30)
        self.assertEqual(coordinator.returncode, 0)

    def test_the_end_of_the_coordinator_is_an_error_at_each_job(self):
        coordinator = self.share(*EMULATED, "--share", "dependent", "--jobs", 3)
        jobs = [self.job_that_takes_part(name, "--seconds", 0.01) for name in ("one", "two")]
        coordinator.kill()
        for job in jobs:
            _, errors = job.communicate(timeout=30)
            self.assertEqual(job.returncode, 1)
            self.assertIn("the group's host is gone", errors)

    def test_what_cannot_be_is_said(self):
        cases = {
            ("--jobs", 2, "--staging-size", "10%"): "--staging-size does not go together with --share none or coordinated",
            ("--jobs", 2, "--staging-policy", "lru"): "--staging-policy does not go together with no --staging-size",
            ("--jobs", 2, "--share", "dependent", "--producers", "jobs"): "--share dependent does not go together with --producers jobs",
            ("--jobs", 2, "--share", "none"): "--share",
            ("--share", "dependent"): "Pass --jobs N",
            ("--jobs", 2, "--share", "dependent", "--held", 20): "pass --held",
            ("--jobs", 2, "--share", "dependent", "--staging-policy", "mru"): "refcnt"}
        for options, words in cases.items():
            with self.subTest(options=options):
                run = self.run_program("share", *EMULATED, *options, "--", "true")
                self.assertEqual(run.returncode, 2, run.stderr)
                self.assertIn(words, run.stderr)
        run = self.run_program("whatif", "--rates", "G=9800,P=10200,C=252000,S=4700", "--jobs", 4, "--share", "dependent")
        self.assertEqual(run.returncode, 2)

    def test_a_job_that_asks_for_what_is_not_there_is_refused_in_words(self):
        self.share(*EMULATED, "--share", "dependent", "--jobs", 1)
        for options, words in {("--subset", "600"): "no sample number below 600", ("--subset", ""): "subset", ("--batch-size", 2_000_000): "batch size"}.items():
            _, errors = self.job("refused", *options).communicate(timeout=30)
            self.assertIn(words, errors)
        there = self.job_that_takes_part("there", "--seconds", 0.01)
        _, errors = self.job("one-more").communicate(timeout=30)
        self.assertIn("the group has its 1 jobs", errors)
        there.kill()


if __name__ == "__main__":
    unittest.main()
