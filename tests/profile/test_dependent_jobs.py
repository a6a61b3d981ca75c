"""Jobs of different speed in a profile, which draw dependently: what each trains on, what sharing saves, and what happens when one is killed."""

import json
import os
import pathlib
import re
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from program import ProgramTest  # pylint: disable=wrong-import-position
from test_jobs import RunningProfiles, full_run  # pylint: disable=wrong-import-position
from test_schemas import SCHEMAS, closed, jsonschema  # pylint: disable=wrong-import-position

SPEEDS = (1, 0.6, 0.45, 0.28, 0.2)
FIVE = ["--jobs", "5", "--share", "dependent", "--job-speeds", ",".join(map(str, SPEEDS))]
EMULATED = ["emulated:imagenet-1k,samples=600", "--storage", "emulated:200MB/s", "--prep", "emulated:4000", "--cores", "2", "--accelerator",
            "emulated:3000", "--batch-size", "16", "--runs", "full", "--time-budget", "60s", "--subset", "100%"]
TWO_EPOCHS = [*EMULATED, "--epochs", "2"]
REAL = ["--runs", "full", "--accelerator", "emulated:400", "--batch-size", "8", "--time-budget", "60s", "--subset", "100%", "--dtype", "uint8"]


class DependentJobs(RunningProfiles):
    def check_jobs(self, result, jobs, epochs, samples):
        """Each of the jobs had each sample once in each of its epochs."""
        if jsonschema is not None:
            schema = json.loads((SCHEMAS / "profile-1.json").read_text())
            self.assertEqual([error.message for error in jsonschema.validators.validator_for(schema)(closed(schema)).iter_errors(result)], [])
        self.assertEqual([job["job"] for job in result["jobs"]], list(range(jobs)))
        digests = set()
        for job in result["jobs"]:
            self.assertEqual(job["end"], "finished", result["findings"])
            self.assertEqual([epoch["epoch"] for epoch in job["epochs"]], list(range(epochs)))
            self.assertEqual([epoch["samples"] for epoch in job["epochs"]], [samples] * epochs)
            self.assertEqual(job["samples"], samples * epochs)
            digests |= {epoch["digest"] for epoch in job["epochs"]}
        self.assertEqual(len(digests), 1, "an epoch had not each sample once")
        sharing = result["sharing"]
        self.assertEqual((sharing["share"], sharing["producers"], sharing["jobs"]), ("dependent", "coordinator", jobs))
        self.assertEqual(sharing["departures"], 0)
        drawn = sharing["dependent"]
        self.assertEqual(drawn["samples_drawn"], jobs * epochs * samples)
        self.assertEqual(drawn["samples_prepared"], sharing["samples_prepared"])
        self.assertAlmostEqual(sharing["preparations_per_sample"], drawn["samples_prepared"] / (epochs * samples))

    def check_saving(self, result):
        fastest = result["sharing"]["fastest"]
        self.assertEqual(fastest["samples_drawn"], result["jobs"][fastest["job"]]["samples"])
        self.assertGreater(fastest["independent_per_sample"], 1)
        self.assertLess(fastest["preparations_per_sample"], fastest["independent_per_sample"])
        self.assertGreaterEqual(fastest["preparations_per_sample"], 0.9)
        self.assertLess(result["sharing"]["preparations_per_sample"], len(result["jobs"]))

    def test_each_of_five_jobs_of_different_speed_gets_its_epochs_of_real_photographs_and_prep_is_shared(self):
        data = self.photographs(60)
        result = self.json_of("profile", data, *REAL, *FIVE, "--epochs", "3", "--staging-size", "25%", "--cache-size", "100%")
        self.check_jobs(result, 5, 3, 60)
        self.check_saving(result)
        drawn = result["sharing"]["dependent"]
        self.assertEqual((drawn["policy"], drawn["store_samples"]), ("refcnt", 15))
        self.assertGreater(drawn["samples_from_store"], 0)
        self.assertEqual([job["speed"] for job in result["jobs"]], list(SPEEDS))
        full = full_run(result)
        self.assertEqual(full["samples"], 5 * 3 * 60)
        # Each sample is read once, or twice where it is prepared a second time before the first is read.
        self.assertTrue(60 <= full["cache_misses"] <= 120, full["cache_misses"])
        self.assertEqual(full["cache_hits"] + full["cache_misses"], drawn["samples_prepared"])
        for epoch in full["epochs"]:  # which is no part of an epoch of one job
            self.assertIsNone(epoch["cache_misses"])
        settings = result["settings"]
        self.assertEqual((settings["job_speeds"], settings["staging_size"], settings["staging_policy"]), (list(SPEEDS), {"fraction": 0.25}, "refcnt"))

    def test_the_faster_a_job_the_earlier_it_ends(self):
        result = self.json_of("profile", *TWO_EPOCHS, *FIVE, "--staging-size", "10%", "--staging-policy", "lru")
        self.check_jobs(result, 5, 2, 600)
        self.check_saving(result)
        self.assertEqual(result["sharing"]["fastest"]["job"], 0)
        took = [job["seconds"] for job in result["jobs"]]
        self.assertEqual(took, sorted(took))

    def test_the_console_says_what_sharing_saved(self):
        text = self.succeeds("profile", *TWO_EPOCHS, *FIVE).stdout
        self.assertLessEqual(max(len(line) for line in text.splitlines() if not line.startswith(("saved:", "next:"))), 80)
        words = " ".join(text.split())
        self.assertIn("For each sample of the fastest job (job 0),", words)
        self.assertIn("so sharing saved", words)
        self.assertIn("drew dependently", words)
        self.assertIn("none was kept for later draws", words)

    def test_jobs_of_one_speed_one_job_and_a_null_accelerator_draw_too(self):
        same = ["--share", "dependent"]
        for jobs, more in (("3", []), ("1", []), ("2", ["--accelerators", "3"])):
            with self.subTest(jobs=jobs, more=more):
                result = self.json_of("profile", *TWO_EPOCHS, *same, "--jobs", jobs, *more)
                self.check_jobs(result, int(jobs), 2, 600)
                self.assertNotIn("speed", result["jobs"][0])
        null = [each.replace("emulated:3000", "null") for each in TWO_EPOCHS]
        self.check_jobs(self.json_of("profile", *null, *same, "--jobs", "2", "--cache", "lru", "--cache-size", "30%"), 2, 2, 600)

    def test_the_fastest_job_is_the_one_with_the_fastest_accelerators(self):
        small = [each.replace("600", "60") for each in TWO_EPOCHS]
        result = self.json_of("profile", *small, "--share", "dependent", "--jobs", "3", "--job-speeds", "0.3,0.6,1")
        self.check_jobs(result, 3, 2, 60)
        fastest = result["sharing"]["fastest"]
        self.assertEqual((fastest["job"], fastest["samples_drawn"]), (2, 120))
        self.assertGreater(fastest["independent_per_sample"], 1)
        self.assertLess(fastest["preparations_per_sample"], fastest["independent_per_sample"])

    def test_a_job_that_is_killed_leaves_the_draws_and_the_others_have_their_epochs(self):
        with self.start(*EMULATED, *FIVE, "--epochs", "3") as profile:
            jobs = self.wait_for_jobs(profile, 5)
            os.kill(jobs[1], signal.SIGKILL)
            out, err = profile.communicate(timeout=100)
        self.assertEqual(profile.returncode, 0, err)
        result = json.loads(out)
        self.assertEqual([job["end"] for job in result["jobs"]], ["finished", "died", "finished", "finished", "finished"])
        self.assertFalse(result["trusted"])
        failed = [finding["message"] for finding in result["findings"] if finding["code"] == "job-failed"]
        self.assertEqual(len(failed), 1)
        self.assertIn("signal 9", failed[0])
        alive = [job for job in result["jobs"] if job["end"] == "finished"]
        for job in alive:
            self.assertEqual([epoch["samples"] for epoch in job["epochs"]], [600] * 3)
        self.assertEqual(len({epoch["digest"] for job in alive for epoch in job["epochs"]}), 1)

    def test_jobs_whose_time_is_over_stop_and_the_result_says_so(self):
        slow = [each.replace("emulated:3000", "emulated:300").replace("60s", "4s") for each in EMULATED]
        result = self.json_of("profile", *slow, *FIVE, "--epochs", "100")
        self.assertEqual({job["end"] for job in result["jobs"]}, {"finished"})
        cut_short = [finding["message"] for finding in result["findings"] if finding["code"] == "jobs-cut-short"]
        self.assertEqual(len(cut_short), 1)
        self.assertIn("pass a longer --time-budget", cut_short[0])
        self.assertEqual(result["sharing"]["fastest"]["job"], 0)
        self.assertGreater(result["jobs"][0]["samples"], result["jobs"][4]["samples"])

    def test_an_interrupted_profile_leaves_no_job_behind(self):
        with self.start(*EMULATED, *FIVE, "--epochs", "900") as profile:
            jobs = self.wait_for_jobs(profile, 5)
            profile.send_signal(signal.SIGINT)
            profile.communicate(timeout=60)
        self.assertEqual(profile.returncode, 130)
        for job in jobs:
            self.assertFalse(os.path.exists(f"/proc/{job}"))


class Around(ProgramTest):
    """What is planned, refused, predicted and compared."""

    PLAN = ["emulated:imagenet-1k,samples=4000", "--storage", "emulated:ssd", "--prep", "emulated:200", "--cores", "2", "--accelerator", "emulated:500",
            "--batch-size", "32", "--scale", "1:1000", "--dry-run"]

    def test_the_plan_says_who_prepares_how_fast_the_jobs_are_and_what_is_kept(self):
        def line(*options):
            return next(each for each in self.json_of("profile", *self.PLAN, *options)["lines"] if each.startswith("jobs: "))

        plan = line(*FIVE, "--staging-size", "10%")
        for words in ("5 in the full run, which draw dependently", "at speeds 1 : 0.6 : 0.45 : 0.28 : 0.2", "at most 30 batches", "10 % of the subset, refcnt"):
            self.assertIn(words, plan)
        self.assertIn("no prepared samples kept", line("--jobs", "2", "--share", "dependent"))

    def test_the_plan_says_what_is_really_kept(self):
        def line(size):
            words = ["profile", self.photographs(20), "--dry-run", "--jobs", "2", "--share", "dependent", "--accelerator", "emulated:100"]
            return next(each for each in self.json_of(*words, "--staging-size", size)["lines"] if each.startswith("jobs: "))

        for size in ("999TiB", "1GiB"):
            self.assertIn("prepared samples kept for later draws: all of the subset, at most 11.6 MiB, refcnt", line(size))
        self.assertIn("kept for later draws: 6 MiB, refcnt", line("6MiB"))
        self.assertIn("kept for later draws: 50 % of the subset, refcnt", line("50%"))
        for size in ("0%", "1%", "1B", "500KiB"):
            self.assertIn("no prepared samples kept: ", line(size), size)

    def test_what_makes_no_sense_is_refused_with_what_to_use(self):
        dependent = ["--jobs", "3", "--share", "dependent"]
        for options, words in (([*dependent, "--job-speeds", "1,0.5"], "pass one for each of --jobs"),
                               ([*dependent, "--job-speeds", "1,fast,0.5"], '"fast" is not a factor'),
                               ([*dependent, "--job-speeds", "1,0,0.5"], "--job-speeds: "),
                               ([*dependent, "--job-speeds", "1,1,5000"], "expected a number in [0.001, 1000]"),
                               ([*dependent, "--job-speeds", "1,1,1", "--accelerator=null"], "use --accelerator emulated:RATE"),
                               (["--jobs", "2", "--share", "coordinated", "--job-speeds", "1,0.5"], "use --share dependent"),
                               (["--jobs", "2", "--job-speeds", "1,0.5"], "use --share dependent"),
                               (["--jobs", "2", "--share", "coordinated", "--staging-size", "10%"], "use --share dependent"),
                               ([*dependent, "--staging-policy", "lru"], "pass --staging-size"),
                               ([*dependent, "--staging-size", "10%", "--staging-policy", "fifo"], "expected refcnt, lru"),
                               ([*dependent, "--staging-size", "150%"], "a share is at most 100%"),
                               ([*dependent, "--producers", "jobs"], "leave out --producers"),
                               ([*dependent, "--order", "sequential"], "use --order random"),
                               ([*dependent, "--step", "independent"], "leave out --step"),
                               ([*dependent, "--trials", "8"], "use --share coordinated or none"),
                               ([*dependent, "--runs", "prep,fetch"], "add full to --runs"),
                               ([*dependent, "--accelerators", "33"], "pass at most 32 --accelerators"),
                               ([*dependent, "--trace", self.folder / "trace"], "--trace "),
                               (["--jobs", "2", "--share", "dependant"], 'did you mean "dependent"?'),
                               (["--jobs", "2", "--share", "dependent", "--job-speed", "1,2"], 'did you mean "--job-speeds"?')):
            with self.subTest(options):
                plan = [each for each in self.PLAN if each not in ("--accelerator", "emulated:500")] if "--accelerator=null" in options else self.PLAN
                self.assertIn(words.lower(), " ".join(self.fails(2, "profile", *plan, *options).split()).lower())

    def test_the_plan_holds_the_memory_of_prepared_samples_that_are_kept(self):
        data = self.photographs(20)
        words = ["profile", data, "--dry-run", "--jobs", "2", "--share", "dependent", "--accelerator", "emulated:100", "--batch-size", "1"]

        def held(*options):
            lines = self.json_of(*words, *options)["lines"]
            size, unit = re.search(r"at most ([\d.,]+) (\w+) of memory", " ".join(lines)).groups()
            return float(size.replace(",", "")) * {"MiB": 2**20, "GiB": 2**30}[unit]

        sample = 4 * 3 * 224 * 224
        self.assertAlmostEqual(held("--staging-size", "100%") - held(), 20 * sample, delta=sample)
        self.assertAlmostEqual(held("--staging-size", "6MB") - held(), 6e6, delta=sample)
        self.assertAlmostEqual(held("--staging-size", "6GB") - held(), 20 * sample, delta=sample)  # no more than there are

    def test_whatif_takes_the_servers_rates_and_asks_for_a_job_mix(self):
        result = self.folder / "profile.json"
        whole = [each for each in TWO_EPOCHS if each not in ("--runs", "full")]
        self.succeeds("profile", *whole, *FIVE, "-o", result)
        answer = self.json_of("whatif", result, "--cores", "4")
        notes = [finding["message"] for finding in answer["findings"] if finding["code"] == "one-job-alone"]
        self.assertIn("--job-mix FILE --share none,dependent", notes[0])
        mix = self.folder / "mix.json"
        mix.write_text(json.dumps({"jobs": [{"speed_ratio": speed, "batch_size": 16, "epochs": 2} for speed in SPEEDS]}))
        ways = self.json_of("whatif", result, "--job-mix", mix, "--share", "none,dependent")["job_mix"]["answers"]
        self.assertEqual([way["share"] for way in ways], ["none", "dependent"])
        self.assertLess(ways[1]["prepared_per_fastest"], ways[0]["prepared_per_fastest"])
        run = self.run_program("whatif", result, "--accelerator-speed", "2x", "--validate", "--time-budget", "10s", "--json")
        self.assertIn(run.returncode, (0, 1, 4), run.stderr)  # How far off it is, the machine says.
        validated = json.loads(run.stdout)
        self.assertTrue(any("measured" in each for each in validated["answers"]), validated["answers"])

    def test_the_gate_refuses_results_of_other_speeds_and_stores(self):
        def profiled(name, *options):
            path = self.folder / f"{name}.json"
            self.succeeds("profile", *TWO_EPOCHS, "--share", "dependent", "--jobs", "2", *options, "-o", path)
            return path

        one = profiled("one", "--job-speeds", "1,0.5", "--staging-size", "10%")
        same = profiled("same", "--job-speeds", "1,0.5", "--staging-size", "10%")
        self.assertIn(self.run_program("gate", "--baseline", one, same).returncode, (0, 3, 4))
        for field, options in (("settings.job_speeds", ["--job-speeds", "1,0.6", "--staging-size", "10%"]),
                               ("settings.staging_size", ["--job-speeds", "1,0.5", "--staging-size", "20%"]),
                               ("settings.staging_policy", ["--job-speeds", "1,0.5", "--staging-size", "10%", "--staging-policy", "lru"]),
                               ("settings.job_speeds", ["--staging-size", "10%"])):
            with self.subTest(field=field, options=options):
                self.assertIn(field, self.fails(2, "gate", "--baseline", one, profiled("other", *options)))

    def test_every_view_shows_the_jobs(self):
        result = self.folder / "profile.json"
        metrics = self.folder / "metrics.txt"
        self.succeeds("profile", *TWO_EPOCHS, *FIVE, "-o", result, "--metrics", metrics, "--html", self.folder / "page.html")
        self.assertIn("dsanalyze_sharing_fastest_preparations_per_sample", metrics.read_text())
        for form in ("console", "markdown", "html"):
            text = self.succeeds("report", result, "--format", form).stdout
            self.assertIn("drew dependently", " ".join(text.split()), form)


if __name__ == "__main__":
    unittest.main()
