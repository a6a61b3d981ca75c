"""Several jobs on one server, run: what each trains on, what is read and prepared for it, and what happens when one is killed."""

import json
import os
import pathlib
import signal
import subprocess
import time
import unittest

from program import PROGRAM, ProgramTest

EMULATED = ["emulated:imagenet-1k,samples=600", "--storage", "emulated:200MB/s", "--prep", "emulated:2000", "--cores", "2", "--accelerator",
            "emulated:4000", "--batch-size", "32", "--runs", "full", "--time-budget", "60s"]
REAL = ["--runs", "full", "--accelerator", "emulated:4000", "--batch-size", "8", "--time-budget", "60s", "--subset", "100%"]


def full_run(result):
    return next(run for run in result["runs"] if run["name"] == "full")


def job_processes(profile):
    """The processes that a running profile has started."""
    children = pathlib.Path(f"/proc/{profile.pid}/task/{profile.pid}/children")
    return [int(each) for each in children.read_text().split()]


class RunningProfiles(ProgramTest):
    def start(self, *arguments):
        return subprocess.Popen([PROGRAM, "profile", *map(str, arguments), "--json", "--quiet"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=self.environment)

    def wait_for_jobs(self, profile, jobs):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and profile.poll() is None:
            started = job_processes(profile)
            if len(started) == jobs:
                return started
            time.sleep(0.02)
        self.fail("the jobs did not start")
        return []


class Jobs(RunningProfiles):
    def check_shared(self, result, jobs, epochs, samples):
        self.assertEqual(len(result["jobs"]), jobs)
        digests = {epoch["epoch"]: set() for epoch in result["jobs"][0]["epochs"]}
        self.assertEqual(sorted(digests), list(range(epochs)))
        for job in result["jobs"]:
            self.assertEqual(job["end"], "finished", result["findings"])
            self.assertEqual(job["samples"], samples * epochs)
            for epoch in job["epochs"]:
                self.assertEqual(epoch["samples"], samples)
                digests[epoch["epoch"]].add(epoch["digest"])
        for of_epoch in digests.values():
            self.assertEqual(len(of_epoch), 1, "not all jobs trained on the same samples")
        self.assertEqual(result["sharing"]["samples_prepared"], samples * epochs)
        self.assertEqual(result["sharing"]["preparations_per_sample"], 1)
        self.assertEqual(result["sharing"]["departures"], 0)

    def check_epochs_add_up(self, result):
        """What the run's epochs say is what its jobs, or their coordinator, fetched in all."""
        full = full_run(result)
        for field in ("cache_hits", "cache_misses", "requested_bytes"):
            self.assertEqual(sum(epoch[field] for epoch in full["epochs"]), full[field], field)
            if result["sharing"]["producers"] == "jobs":
                self.assertEqual(sum(epoch[field] for job in result["jobs"] for epoch in job["epochs"]), full[field], field)
        self.assertEqual(full["beyond_epochs"], {"requested_bytes": 0, "cache_hits": 0, "cache_misses": 0})

    def test_coordinated_jobs_take_every_batch_from_one_preparation(self):
        data = self.photographs(48)
        for producers in ("jobs", "coordinator"):
            with self.subTest(producers=producers):
                result = self.json_of("profile", data, *REAL, "--jobs", "3", "--share", "coordinated", "--producers", producers, "--cache-size", "100%",
                                      "--epochs", "4")
                self.check_shared(result, 3, 4, 48)
                full = full_run(result)
                self.check_epochs_add_up(result)
                self.assertEqual([epoch["cache_misses"] for epoch in full["epochs"]], [48, 0, 0, 0])
                self.assertEqual([epoch["requested_bytes"] for epoch in full["epochs"]], [full["requested_bytes"], 0, 0, 0])
                if full["storage_bytes"] is not None:
                    self.assertNotIn(None, [epoch["storage_bytes"] for epoch in full["epochs"]])
                self.assertEqual(full["cache_misses"], 48)  # each sample is read once in the whole run, in whole pages
                self.assertTrue(0 <= full["requested_bytes"] - result["dataset"]["bytes"] < 48 * 4096, full["requested_bytes"])
                self.assertEqual(full["cache_hits"], 3 * 48)

    def test_a_cache_that_holds_a_part_is_read_past_by_the_rest_once_an_epoch(self):
        result = self.json_of("profile", *EMULATED, "--jobs", "4", "--share", "coordinated", "--cache-size", "35%", "--epochs", "3")
        self.check_shared(result, 4, 3, 600)
        full = full_run(result)
        self.check_epochs_add_up(result)
        held = full["cache_hits"] // 2  # of two epochs
        self.assertEqual([epoch["cache_hits"] for epoch in full["epochs"]], [0, held, held])
        self.assertEqual([epoch["storage_bytes"] for epoch in full["epochs"]], [epoch["requested_bytes"] for epoch in full["epochs"]])
        self.assertEqual(full["cache_hits"], 2 * held)
        self.assertEqual(full["cache_misses"], 600 + 2 * (600 - held))
        self.assertEqual(full["storage_bytes"], full["requested_bytes"])

    def test_jobs_for_themselves_prepare_each_sample_for_each_of_them(self):
        result = self.json_of("profile", *EMULATED, "--jobs", "3", "--cache-size", "100%", "--epochs", "2")
        self.assertGreaterEqual(result["sharing"]["samples_prepared"], 3 * 2 * 600)
        self.assertEqual([job["job"] for job in result["jobs"]], [0, 1, 2])
        digests = {job["epochs"][0]["digest"] for job in result["jobs"]}
        self.assertEqual(len(digests), 1)  # each all samples, whatever their order
        self.assertGreaterEqual(full_run(result)["cache_misses"], 600)
        for epoch in full_run(result)["epochs"]:
            self.assertEqual(epoch["cache_hits"] + epoch["cache_misses"], 3 * 600)
            self.assertEqual(epoch["storage_bytes"], epoch["requested_bytes"])
            self.assertEqual(epoch["requested_bytes"], sum(job["epochs"][epoch["epoch"]]["requested_bytes"] for job in result["jobs"]))

    def test_what_jobs_for_themselves_fetch_beyond_their_epochs_is_told_and_one_hits_what_another_has_read(self):
        result = self.json_of("profile", *EMULATED, "--jobs", "2", "--cache-size", "50%", "--epochs", "2")
        full = full_run(result)
        for field in ("requested_bytes", "cache_hits", "cache_misses"):
            self.assertEqual(full[field], sum(epoch[field] for epoch in full["epochs"]) + full["beyond_epochs"][field], field)
            self.assertEqual(full[field], sum(job[field] for job in result["jobs"]), field)
        for epoch in full["epochs"][:2]:
            self.assertEqual(epoch["cache_hits"] + epoch["cache_misses"], 2 * 600)
        self.assertGreater(full["epochs"][0]["cache_hits"], 0)  # neither has seen a sample twice
        self.assertLess(full["epochs"][0]["cache_hits"], full["epochs"][1]["cache_hits"])

    def test_of_real_storage_an_epoch_of_jobs_for_themselves_says_what_all_of_them_read_meanwhile(self):
        data = self.photographs(48)
        result = self.json_of("profile", data, *REAL, "--jobs", "2", "--cache", "none", "--epochs", "2", "--direct")
        full = full_run(result)
        if full["storage_bytes"] is None:
            self.skipTest("nothing here counts what storage delivers")
        read = [epoch["storage_bytes"] for epoch in full["epochs"]]
        self.assertNotIn(None, read)
        self.assertLessEqual(sum(read), full["storage_bytes"])
        # Jobs for themselves end by their own clocks: one may train an epoch more.
        self.assertEqual([epoch["cache_misses"] for epoch in full["epochs"]], [epoch["samples"] for epoch in full["epochs"]])
        for job in result["jobs"]:
            self.assertEqual([epoch["storage_bytes"] for epoch in job["epochs"]], [None] * len(job["epochs"]))

    def test_a_search_gives_up_the_worse_half_epoch_by_epoch(self):
        data = self.photographs()
        search = ["--runs", "full", "--accelerator", "cpu", "--batch-size", "8", "--time-budget", "60s", "--subset", "100%", "--cache-size", "100%",
                  "--jobs", "4", "--trials", "6", "--stop-at", "1epoch", "--epochs", "4"]
        for share in ("coordinated", "none"):
            with self.subTest(share=share):
                result = self.json_of("profile", data, *search, "--share", share)
                trials = result["trials"]
                self.assertEqual([trial["trial"] for trial in trials], list(range(6)))
                # 4 begin; 2 give way to the 2 that wait; then 2 of 4 end, then 1 of 2; the last trains all its epochs.
                epochs = sorted(trial["epochs"] for trial in trials)
                self.assertEqual(epochs[:2] + epochs[5:], [1, 1, 4])
                self.assertLessEqual(epochs[4], 3)
                for trial in trials:
                    self.assertEqual(trial["judged_by"], "loss")
                    self.assertEqual(trial["end"], "finished" if trial["epochs"] == 4 else "stopped")
                    self.assertGreater(trial["value"], 0)
                self.assertEqual(sorted(job["end"] for job in result["jobs"]), ["finished", "stopped", "stopped", "stopped"])
                if share == "coordinated":
                    self.assertEqual(result["sharing"]["preparations_per_sample"], 1)

    def test_several_accelerators_a_job_take_a_batch_each(self):
        result = self.json_of("profile", *EMULATED, "--jobs", "2", "--accelerators", "4", "--share", "coordinated", "--epochs", "2")
        self.check_shared(result, 2, 2, 600)

    def test_a_job_that_is_killed_is_told_and_the_others_finish(self):
        slow = [each.replace("emulated:4000", "emulated:1000") for each in EMULATED]
        slow += ["--jobs", "3", "--share", "coordinated", "--epochs", "4", "--cache-size", "100%"]
        with self.start(*slow) as profile:
            jobs = self.wait_for_jobs(profile, 3)
            os.kill(jobs[1], signal.SIGKILL)
            out, err = profile.communicate(timeout=100)
        self.assertEqual(profile.returncode, 0, err)
        result = json.loads(out)
        ends = sorted(job["end"] for job in result["jobs"])
        self.assertEqual(ends, ["died", "finished", "finished"])
        self.assertFalse(result["trusted"])
        failed = [finding["message"] for finding in result["findings"] if finding["code"] == "job-failed"]
        self.assertEqual(len(failed), 1)
        self.assertIn("signal 9", failed[0])
        alive = [job for job in result["jobs"] if job["end"] == "finished"]
        for job in alive:
            self.assertEqual([epoch["samples"] for epoch in job["epochs"]], [600] * 4)
        self.assertEqual(alive[0]["epochs"][3]["digest"], alive[1]["epochs"][3]["digest"])
        for epoch in full_run(result)["epochs"]:  # what the one that died had fetched is not known; that is no zero
            self.assertEqual(epoch["cache_hits"] is None, epoch["storage_bytes"] is None)
            if epoch["cache_hits"] is not None:
                self.assertEqual(epoch["cache_hits"] + epoch["cache_misses"], 600)

    def test_an_interrupted_profile_leaves_no_job_behind(self):
        with self.start(*EMULATED, "--jobs", "3", "--share", "coordinated", "--epochs", "900") as profile:
            jobs = self.wait_for_jobs(profile, 3)
            profile.send_signal(signal.SIGINT)
            profile.communicate(timeout=60)
        self.assertEqual(profile.returncode, 130)
        for job in jobs:
            self.assertFalse(pathlib.Path(f"/proc/{job}").exists())

    def test_a_profile_that_is_killed_takes_its_jobs_with_it(self):
        with self.start(*EMULATED, "--jobs", "3", "--share", "coordinated", "--epochs", "900") as profile:
            jobs = self.wait_for_jobs(profile, 3)
            profile.kill()
            profile.communicate(timeout=60)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and any(pathlib.Path(f"/proc/{job}/exe").exists() for job in jobs):
            time.sleep(0.05)
        self.assertFalse([job for job in jobs if pathlib.Path(f"/proc/{job}/exe").exists()])

    def test_the_process_of_a_job_is_started_by_the_program_alone(self):
        run = subprocess.run([PROGRAM, "__job"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, close_fds=True, timeout=60, check=False)
        self.assertNotEqual(run.returncode, 0)


if __name__ == "__main__":
    unittest.main()
