"""Coordinated jobs that are killed, stopped and starved, from outside; the long campaign is tests/bench/job_faults.py."""

import json
import os
import random
import signal
import time
import unittest

import job_watch
from program import PROGRAM

SAMPLES, BATCH, EPOCHS = 320, 16, 4
BATCHES = SAMPLES // BATCH
EMULATED = [f"emulated:imagenet-1k,samples={SAMPLES}", "--storage", "emulated:500MB/s", "--prep", "emulated:8000", "--cores", "2", "--accelerator",
            "emulated:1600", "--batch-size", BATCH, "--runs", "full", "--time-budget", "100s", "--subset", "100%", "--cache-size", "100%",
            "--share", "coordinated"]
SEED = int(os.environ.get("DSANALYZE_TEST_SEED", "11"))


class JobFaults(unittest.TestCase):
    def setUp(self):
        self.places = job_watch.Places()
        self.addCleanup(self.places.close)

    def start(self, jobs, epochs, *more):
        run = job_watch.Watched(PROGRAM, self.places, [*EMULATED, "--jobs", jobs, "--epochs", epochs, *more], jobs)
        self.addCleanup(run.close)
        return run

    def result_of(self, run):
        code, out, err = run.finish()
        self.assertEqual(code, 0, err)
        return json.loads(out)

    def check_alive(self, result, count):
        """Every sample exactly once an epoch, the same for all that lived."""
        alive = [job for job in result["jobs"] if job["end"] == "finished"]
        self.assertEqual(len(alive), count, result["findings"])
        for job in alive:
            self.assertEqual([(epoch["epoch"], epoch["samples"]) for epoch in job["epochs"]], [(epoch, SAMPLES) for epoch in range(EPOCHS)])
        self.assertEqual(len({epoch["digest"] for job in alive for epoch in job["epochs"]}), 1, "not all trained on the same samples in all epochs")

    def check_nothing_left(self, run):
        self.assertEqual(self.places.left_behind(run.shared_before), [])

    def test_jobs_killed_at_any_time_cost_the_others_no_sample(self):
        draw = random.Random(SEED)
        for number, producers in enumerate(["jobs", "jobs", "coordinator"]):
            with self.subTest(seed=SEED, number=number, producers=producers):
                run = self.start(4, EPOCHS, "--producers", producers)
                at = [draw.randrange(1, BATCHES * (EPOCHS - 1)), BATCHES * draw.randrange(1, EPOCHS) - draw.randrange(2)][number % 2]
                victims = 1 + number % 2  # two at once, too
                self.assertTrue(run.wait_for_batches(at))
                for victim in draw.sample(run.look(), victims):
                    job_watch.strike(victim, signal.SIGKILL)
                result = self.result_of(run)
                self.check_alive(result, 4 - victims)
                self.assertEqual(result["sharing"]["departures"], victims)
                self.check_nothing_left(run)

    def test_a_job_that_is_killed_while_the_others_start_leaves_them_all_epochs(self):
        run = self.start(4, EPOCHS)
        while not run.look() and run.profile.poll() is None:
            continue
        job_watch.strike(run.look()[0], signal.SIGKILL)
        self.check_alive(self.result_of(run), 3)

    def test_a_stopped_job_is_waited_for_and_nothing_is_prepared_twice(self):
        run = self.start(3, EPOCHS)
        self.assertTrue(run.wait_for_batches(BATCHES))
        victim = run.look()[SEED % 3]
        job_watch.strike(victim, signal.SIGSTOP)
        self.wait_for_standstill(run, victim)
        job_watch.strike(victim, signal.SIGCONT)
        result = self.result_of(run)
        self.check_alive(result, 3)
        sharing = result["sharing"]
        self.assertEqual((sharing["taken_over_batches"], sharing["departures"], sharing["samples_prepared"]), (0, 0, SAMPLES * EPOCHS))
        self.assertGreater(sharing["late_reports"], 0)

    def wait_for_standstill(self, run, victim):
        """Until the others have waited longer for the stopped job than their deadline is."""
        deadline = time.monotonic() + 60
        since, seen = time.monotonic(), None
        while time.monotonic() < deadline and time.monotonic() - since < 1:
            now = [run.position(each) for each in run.look() if each != victim]
            if now != seen:
                since, seen = time.monotonic(), now
            time.sleep(0.01)

    def test_jobs_whose_coordinator_is_killed_end_with_an_error(self):
        run = self.start(3, 1000)
        self.assertTrue(run.wait_for_batches(3))
        run.profile.kill()
        run.profile.wait()
        self.check_nothing_left(run)  # no process either, and it waits for them
        _, _, errors = run.finish()
        self.assertEqual(errors.count("the group's host is gone"), 3, errors)

    def test_rounds_of_crash_and_restart_leave_nothing(self):
        draw = random.Random(SEED)
        for number in range(4):
            with self.subTest(seed=SEED, number=number):
                run = self.start(2, 1000)
                run.wait_for_jobs()
                if number % 2:
                    self.assertTrue(run.wait_for_batches(draw.randrange(1, BATCHES)))
                job_watch.strike(run.look()[0], signal.SIGKILL)
                run.profile.kill()
                run.finish()
                self.check_nothing_left(run)

    def test_a_memory_limit_below_the_need_is_refused_before_any_work(self):
        groups = list(job_watch.limited_groups())
        if not groups:
            self.skipTest("no cgroup with a memory limit can be made here: it takes root, and the memory controller")
        for version, make in groups:
            with self.subTest(version=version):
                command = [*EMULATED, "--jobs", 32, "--epochs", 2]  # their processes alone need 256 MiB
                self.assertEqual(job_watch.within_limit(PROGRAM, self.places, make, 128, command), "refused")


if __name__ == "__main__":
    unittest.main()
