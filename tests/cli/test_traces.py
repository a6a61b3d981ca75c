"""What `profile` leaves for other programs: a trace of its full run."""

import collections
import json
import os
import unittest

from program import ProgramTest

SHORT = ("--accelerator", "emulated:2000", "--batch-size", "8", "--time-budget", "3s", "--quiet")
EMULATED = ("profile", "emulated:imagenet-1k", "--storage", "emulated:ssd", "--prep", "emulated:500", "--cores", "2", "--scale", "1:5000", *SHORT)


class Traces(ProgramTest):
    def traced(self, *command):
        file, profile = self.folder / "trace.json", self.folder / "profile.json"
        self.succeeds(*command, "--trace-events", file, "-o", profile)
        return json.loads(file.read_text()), json.loads(profile.read_text())

    def check_nested(self, events):
        tracks = collections.defaultdict(list)
        for event in events:
            if event["ph"] == "X":
                tracks[event["tid"]].append(event)
        for spans in tracks.values():
            around, last = [], 0
            for span in spans:
                begin, end = span["ts"], span["ts"] + span["dur"]
                self.assertGreaterEqual(begin, last)
                last = begin
                while around and around[-1] <= begin:
                    around.pop()
                if around:
                    self.assertLessEqual(end, around[-1])
                around.append(end)

    def test_a_trace_of_real_prep_nests_has_a_track_a_worker_and_agrees_with_the_record(self):
        trace, profile = self.traced("profile", self.photographs(), "--runs", "full", "--workers", "2", *SHORT)
        events = trace["traceEvents"]
        self.check_nested(events)
        names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
        self.assertEqual(len(set(names.values())), len(names))
        self.assertEqual({name for name in names.values() if name.startswith("prep worker")}, {"prep worker 1", "prep worker 2"})
        self.assertLessEqual({"epochs", "sampler", "accelerator 1"}, set(names.values()))

        run = next(run for run in profile["runs"] if run["name"] == "full")
        spent, samples = collections.Counter(), 0
        for event in events:
            if event["ph"] == "X" and names[event["tid"]].startswith("prep worker"):
                spent[event["name"]] += event["dur"] * 1e-6
                samples += event["name"] == "sample"
        for operator in run["prep_operators"]:
            # Begins and ends are floored to 1/8 microsecond.
            self.assertAlmostEqual(spent[operator["name"]] / samples, operator["seconds_per_sample"], delta=0.125e-6)
        self.assertEqual(sum(event["name"] == "read" for event in events), sum(epoch["cache_misses"] for epoch in run["epochs"]) or run["cache_misses"])
        self.assertIn("traced", [finding["code"] for finding in profile["findings"]])
        self.assertEqual(trace["otherData"]["dropped_spans"], 0)

    def test_the_name_of_the_dataset_cannot_break_the_trace(self):
        data = self.photographs().rename(self.folder / 'a"}],\n\x1b[2J')
        trace, _ = self.traced("profile", data, "--runs", "full", *SHORT)
        self.assertIn('a"}],\n\x1b[2J', trace["otherData"]["dataset"])

    def test_what_cannot_be_written_is_said_before_the_run(self):
        self.assertIn("does not exist", self.fails(1, *EMULATED, "--trace-events", self.folder / "none" / "trace.json"))
        self.assertIn("it is a folder", self.fails(1, *EMULATED, "--trace-events", self.folder))
        self.assertIn("the full run", self.fails(2, *EMULATED, "--runs", "fetch", "--trace-events", self.folder / "trace.json"))

    def test_a_disk_that_is_full_costs_the_trace_and_not_the_measurement(self):
        profile = self.folder / "profile.json"
        self.succeeds(*EMULATED, "--runs", "full", "--trace-events", "/dev/full", "-o", profile)
        document = json.loads(profile.read_text())
        self.assertIn("trace-not-written", [finding["code"] for finding in document["findings"]])
        self.assertGreater(document["runs"][0]["samples_per_s"], 0)

    def test_two_outputs_to_one_file_are_refused_however_it_is_spelt(self):
        (self.folder / "there").mkdir()
        (self.folder / "link").symlink_to("there")
        file = self.folder / "there" / "x.json"
        for other in (file, self.folder / "link" / "x.json", self.folder / "there" / ".." / "there" / "x.json"):
            message = self.fails(2, *EMULATED, "-o", file, "--trace-events", other)
            self.assertIn("--trace-events and -o name the same file", message)
        self.assertIn("--trace and --trace-events", self.fails(2, *EMULATED, "--trace", file, "--trace-events", file))
        file.write_text("")
        os.link(file, self.folder / "hard.json")
        self.assertIn("the same file", self.fails(2, *EMULATED, "-o", file, "--trace-events", self.folder / "hard.json"))
        self.assertEqual(file.read_text(), "")


if __name__ == "__main__":
    unittest.main()
