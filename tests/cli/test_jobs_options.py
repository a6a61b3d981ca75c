"""Several jobs on one server, as asked for: what the plan says of them, and what is refused, with the reason and what to do."""

import re
import unittest

from program import ProgramTest

EMULATED = ["emulated:imagenet-1k,samples=4000", "--storage", "emulated:ssd", "--prep", "emulated:200", "--cores", "2", "--accelerator", "emulated:500",
            "--batch-size", "32", "--scale", "1:1000", "--dry-run"]


class JobsOptions(ProgramTest):
    def plan(self, *arguments):
        return self.json_of("profile", *EMULATED, *arguments)

    def line(self, *arguments):
        return next(line for line in self.plan(*arguments)["lines"] if line.startswith("jobs: "))

    def refused(self, *arguments):
        return self.fails(2, "profile", *EMULATED, *arguments)

    def test_the_plan_says_who_prepares_and_how_much_is_staged(self):
        self.assertFalse(any(line.startswith("jobs:") for line in self.plan()["lines"]))
        self.assertEqual(self.line("--jobs", "8"), "jobs: 8 in the full run, each for itself")
        coordinated = self.line("--jobs", "8", "--share", "coordinated")
        self.assertIn("each job its part", coordinated)
        self.assertIn("at most 20 batches", coordinated)
        self.assertIn("by the coordinator", self.line("--jobs", "8", "--share", "coordinated", "--producers", "coordinator"))
        self.assertIn("jobs: 1 in the full run, coordinated", self.line("--share", "coordinated", "--jobs", "1"))
        self.assertIn("full", self.plan("--jobs", "2")["runs"])

    def test_the_plan_holds_the_memory_of_every_job(self):
        data = self.photographs()

        def slots(*arguments):
            lines = self.json_of("profile", data, "--batch-size", "4", "--dry-run", *arguments)["lines"]
            size, unit = re.search(r"batch slots ([\d.,]+) (\w+)", " ".join(lines)).groups()
            return float(size.replace(",", "")) * {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[unit]

        one = slots()
        self.assertAlmostEqual(slots("--jobs", "8") / one, 8, delta=0.1)
        batch = one / 5  # four ahead, and one that the accelerator has
        self.assertAlmostEqual(slots("--jobs", "8", "--share", "coordinated") - 4 * 2**20, 20 * batch, delta=batch)

    def test_a_search_is_planned_with_its_trials(self):
        search = ["--jobs", "4", "--trials", "16"]
        self.assertIn("a search of 16 trials", self.line(*search))
        self.assertIn("the worse half ends every 1 epoch", self.line(*search, "--stop-at", "1epoch"))
        self.assertIn("the worse half ends every 2 epochs", self.line(*search, "--stop-at", "2 epochs", "--share", "coordinated"))

    def test_numbers_and_names_that_make_no_sense_are_refused(self):
        for arguments, words in ((["--jobs", "0"], "--jobs: "),
                                 (["--jobs", "65"], "--jobs: "),
                                 (["--jobs", "many"], "--jobs: "),
                                 (["--share", "cordinated"], 'did you mean "coordinated"?'),
                                 (["--share", "unified-producer"], "expected none, coordinated"),
                                 (["--share", "coordinated", "--producers", "job"], 'did you mean "jobs"?'),
                                 (["--job", "2"], 'did you mean "--jobs"?'),
                                 (["--trails", "2"], 'did you mean "--trials"?'),
                                 (["--jobs", "2", "--batch-copy", "gpu"], "expected none, cpu"),
                                 (["--trials", "0"], "--trials: "),
                                 (["--stop-at", "1"], "1epoch or 3epochs"),
                                 (["--stop-at", "0epochs"], "--stop-at: "),
                                 (["--stop-at", "epoch"], "1epoch or 3epochs"),
                                 (["--stop-at", "1.5epochs"], "1epoch or 3epochs"),
                                 (["--stop-at", "1epochs later"], "1epoch or 3epochs"),
                                 (["--stop-at", "99999999999999999999epochs"], "--stop-at: ")):
            with self.subTest(arguments):
                self.assertIn(words, self.refused(*arguments))

    def test_what_does_not_go_together_is_refused_with_what_to_use(self):
        shared = ["--jobs", "4", "--share", "coordinated"]
        for arguments, words in ((["--jobs", "4", "--producers", "coordinator"], "pass --share coordinated"),
                                 (["--producers", "jobs"], "pass --share coordinated"),
                                 ([*shared, "--cache", "lru"], "use --producers coordinator"),
                                 ([*shared, "--cache", "page-model:linux"], "use --producers coordinator"),
                                 ([*shared, "--order", "sequential"], "use --order random"),
                                 ([*shared, "--order", "shards"], "use --order random"),
                                 ([*shared, "--step", "independent"], "leave out --step"),
                                 ([*shared, "--runs", "prep,fetch"], "add full to --runs"),
                                 (["--jobs", "2", "--runs", "cached"], "add full to --runs"),
                                 (["--batch-copy", "cpu"], "use --jobs or --share coordinated"),
                                 (["--trials", "4"], "use --jobs 2 or more"),
                                 (["--jobs", "4", "--trials", "3"], "use more --trials"),
                                 (["--jobs", "4", "--stop-at", "1epoch"], "pass --trials N"),
                                 (["--jobs", "4", "--trials", "8", "--stop-at", "3epochs"], "use more --epochs"),
                                 (["--jobs", "4", "--trace", self.folder / "trace"], "--trace "),
                                 ([*shared, "--trace-events", self.folder / "events.json"], "trace one job alone"),
                                 (["--jobs", "8", "--accelerators", "33"], "at most 256 emulated ones")):
            with self.subTest(arguments):
                self.assertIn(words, " ".join(self.refused(*arguments).split()))
        self.assertEqual([path for path in self.folder.iterdir() if path.is_file()], [])

    def test_caches_of_one_process_work_where_one_process_prepares(self):
        for cache in ("lru", "page-model:random"):
            self.assertIn("by the coordinator", self.line("--jobs", "4", "--share", "coordinated", "--producers", "coordinator", "--cache", cache,
                                                          "--cache-size", "35%"))


if __name__ == "__main__":
    unittest.main()
