"""The CPU as accelerator: a network that learns from the real batches, its losses in the result."""

import json
import pathlib
import unittest

from program import ProgramTest

try:
    import jsonschema
except ImportError:
    jsonschema = None  # Debian: python3-jsonschema

SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "reports" / "schemas" / "profile-1.json"
# All of them each epoch, however slow a busy machine finds storage to be.
SHORT = ["--batch-size", "16", "--time-budget", "5s", "--subset", "100%"]


def full_run(result):
    return next(run for run in result["runs"] if run["name"] == "full")


class ReferenceTrainer(ProgramTest):
    def labelled(self):
        """Photographs in two classes."""
        data = self.photographs()
        flat = self.folder / "classes"
        for number, file in enumerate(sorted(data.rglob("*.jpg"))):
            folder = flat / ("even" if number % 2 == 0 else "odd")
            folder.mkdir(parents=True, exist_ok=True)
            file.rename(folder / f"{number}.jpg")
        return flat

    def test_a_profile_learns_says_what_and_that_the_cpu_does_it(self):
        data = self.labelled()
        page, trace, saved = self.folder / "page.html", self.folder / "trace.json", self.folder / "saved.json"
        # Five runs, of which each is to end a window beside whatever else runs here.
        long = [word.replace("5s", "15s") for word in SHORT]
        run = self.succeeds("profile", data, "--accelerator", "cpu", *long, "--workers", "1", "--html", page, "--trace-events", trace, "-o", saved)
        self.assertIn("plan: trains: a reference network of 12,482 parameters, float, 1 thread", run.stderr)
        self.assertRegex(" ".join(run.stdout.split()), r"learned loss \d.* in the (first|only) epoch.* \(run full\)")
        self.assertIn("accelerator-shares-cores", run.stdout)
        self.assertFalse(run.stdout.lower().startswith("emulated"), run.stdout)
        result = json.loads(saved.read_text())
        if jsonschema is not None:
            jsonschema.validate(result, json.loads(SCHEMA.read_text()))
        self.assertEqual([result["settings"][name] for name in ("accelerator", "accelerator_name", "accelerator_precision")], ["cpu", "cpu", "float"])
        self.assertTrue(result["host"]["accelerator"]["shares_cores"])
        self.assertGreater(result["rates"]["G"]["samples_per_s"], 0)
        self.assertIn("CPU", result["rates"]["G"]["method"])
        training = full_run(result)["training"]
        self.assertEqual((training["classes"], training["parameters"], training["precision"]), (2, 192 * 64 + 64 + 64 * 2 + 2, "float"))
        self.assertEqual(training["loss_by_step"][0]["step"], 0)
        self.assertEqual({epoch["samples"] for epoch in training["loss_by_epoch"][:-1]}, {60})
        self.assertNotIn("mlperf_storage_au", full_run(result))
        self.assertIn('id="training"', page.read_text())
        self.assertIn("loss-by-epoch", page.read_text())
        self.assertIn('"the CPU"', trace.read_text())
        self.assertIn("accelerator-shares-cores", self.succeeds("whatif", saved, "--cores", "2").stdout)

    def test_equal_batches_give_equal_losses_whatever_the_cache_and_the_workers(self):
        data = self.labelled()
        losses = []
        for workers, *cache in ((1, "none"), (1, "minio", "--cache-size", "50%"), (2, "lru", "--cache-size", "50%")):
            arguments = [*SHORT, "--runs", "full", "--quiet", "--workers", workers, "--cache", *cache]
            result = self.json_of("profile", data, "--accelerator", "cpu:double", *arguments)
            losses.append({each["step"]: each["loss"] for each in full_run(result)["training"]["loss_by_step"]})
        steps = set.intersection(*(set(each) for each in losses))
        self.assertGreaterEqual(len(steps), 8)
        for other in losses[1:]:
            self.assertEqual({step: other[step] for step in steps}, {step: losses[0][step] for step in steps})

    def test_what_the_network_cannot_learn_from_is_refused_with_what_to_do(self):
        data = self.photographs()
        flat = self.folder / "flat"
        flat.mkdir()
        for number, file in enumerate(data.rglob("*.jpg")):
            file.rename(flat / f"{number}.jpg")
        self.assertIn("A folder for each class gives labels", self.fails(2, "profile", flat, "--accelerator", "cpu"))
        self.assertIn("--prep emulated", self.fails(2, "profile", flat, "--accelerator", "cpu", "--prep", "emulated:100"))
        self.assertIn("--step independent", self.fails(2, "profile", flat, "--accelerator", "cpu", "--step", "independent"))
        self.assertIn('did you mean "cpu:double"?', self.fails(2, "profile", flat, "--accelerator", "cpu:duble"))

    def test_the_doctor_and_the_dry_run_know_it(self):
        data = self.labelled()
        plan = self.json_of("profile", data, "--accelerator", "cpu:double", "--accelerators", "2", "--dry-run")
        self.assertIn("synthetic", plan["runs"])
        self.assertTrue(any("double, 2 threads" in line for line in plan["lines"]), plan["lines"])
        self.assertEqual(self.run_program("doctor", data, "--accelerator", "cpu").returncode, 0)


if __name__ == "__main__":
    unittest.main()
