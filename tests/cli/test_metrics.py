"""`profile --metrics`, read by the parser of Prometheus's own client library."""

import json
import unittest

from program import ProgramTest

try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
    from prometheus_client.parser import text_string_to_metric_families as plain_text_families
except ImportError:
    text_string_to_metric_families = None  # Debian: python3-prometheus-client

ACCELERATOR = ("--accelerator", "emulated:2000", "--batch-size", "8", "--time-budget", "4s", "--quiet")
EMULATED = ("profile", "emulated:imagenet-1k", "--storage", "emulated:ssd", "--prep", "emulated:500", "--cores", "2", "--scale", "1:5000", *ACCELERATOR)


class Metrics(ProgramTest):
    def parsed(self, file):
        if text_string_to_metric_families is None:
            self.skipTest("python3-prometheus-client is not installed")
        return {family.name: family for family in text_string_to_metric_families(file.read_text())}

    def test_another_parser_reads_the_figures_that_the_record_has(self):
        file, profile = self.folder / "dsanalyze.prom", self.folder / "profile.json"
        self.succeeds(*EMULATED, "--metrics", file, "-o", profile)
        families, record = self.parsed(file), json.loads(profile.read_text())
        for family in families.values():
            self.assertTrue(family.documentation)
            self.assertTrue(not family.unit or family.name.endswith("_" + family.unit))
            for sample in family.samples:
                self.assertEqual(sample.labels["dataset"], "emulated:imagenet-1k")
        rates = {sample.labels["rate"]: sample.value for sample in families["dsanalyze_rate_samples_per_second"].samples}
        self.assertEqual(rates, {name: rate["samples_per_s"] for name, rate in record["rates"].items() if rate})
        utilisation = {sample.labels["run"]: sample.value for sample in families["dsanalyze_run_mlperf_storage_au_ratio"].samples}
        full = next(run for run in record["runs"] if run["name"] == "full")
        self.assertAlmostEqual(utilisation["full"] * 100, full["mlperf_storage_au"]["value"])
        self.assertEqual(families["dsanalyze_run_stall_seconds"].type, "summary")
        # The textfile collector reads the older text format; there TYPE knows gauges and summaries too.
        self.assertGreaterEqual({family.name for family in plain_text_families(file.read_text())}, set(families))

    def test_a_hostile_name_of_a_dataset_stays_in_its_label(self):
        data = self.photographs().rename(self.folder / 'a"} 1\n# EOF\\')
        file = self.folder / "x.prom"
        self.succeeds("profile", data, "--runs", "prep", *ACCELERATOR, "--metrics", file)
        families = self.parsed(file)
        self.assertEqual(families["dsanalyze_profile_trusted"].samples[0].labels["dataset"], str(data).replace("\n", "\\x0a"))

    def test_metrics_that_cannot_be_written_are_said_before_the_run_or_cost_nothing_else(self):
        self.assertIn("does not exist", self.fails(1, *EMULATED, "--metrics", self.folder / "none" / "x"))
        self.assertIn("--metrics and -o", self.fails(2, *EMULATED, "--metrics", self.folder / "x", "-o", self.folder / "x"))
        run = self.run_program(*EMULATED[:-1], "--runs", "fetch", "--metrics", "/dev/full")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("its metrics are lost", run.stderr)


if __name__ == "__main__":
    unittest.main()
