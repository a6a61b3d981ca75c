import base64
import hashlib
import json
import pathlib
import re
import unittest

from program import ProgramTest

SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "reports" / "schemas" / "report-1.json"
EMULATED = ("profile", "emulated:imagenet-1k,samples=2000", "--preset", "config-ssd-v100", "--workload", "resnet18", "--scale", "1:1000", "--time-budget", "2s")


class Report(ProgramTest):
    def setUp(self):
        super().setUp()
        self.profile = self.folder / "a.json"
        self.succeeds(*EMULATED, "-o", self.profile)

    def page(self, *files):
        place = self.folder / "report.html"
        self.succeeds("report", *files, "-o", place)
        return place.read_text(encoding="utf-8")

    def changed(self, name, change):
        """A copy of the record with a change."""
        record = json.loads(self.profile.read_text())
        change(record)
        place = self.folder / name
        place.write_text(json.dumps(record))
        return place

    def test_the_page_is_one_file_of_at_most_600_kb_that_asks_the_network_for_nothing(self):
        page = self.page(self.profile)
        self.assertLess(len(page.encode()), 600_000)
        without_scripts = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
        self.assertFalse(re.findall(r"\ssrc=|@import|url\(", without_scripts))
        for target in re.findall(r'href="([^"]*)"', without_scripts):
            self.assertTrue(target.startswith("#") or target == "data:,", target)

    def test_the_policy_of_the_page_allows_exactly_its_own_styles_and_scripts(self):
        page = self.page(self.profile)
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
        self.assertTrue(policy.startswith("default-src 'none'"))
        bodies = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL) + re.findall(r"<style>(.*?)</style>", page, flags=re.DOTALL)
        digests = {"sha256-" + base64.b64encode(hashlib.sha256(body.encode()).digest()).decode() for body in bodies}
        self.assertEqual(set(re.findall(r"'(sha256-[^']*)'", policy)), digests)
        self.assertGreater(len(bodies), 4)
        self.assertIn("Chart.js v3", page)

    def test_the_record_in_the_page_is_the_record(self):
        page = self.page(self.profile)
        island = json.loads(re.search(r'<script type="application/json" id="record">(.*?)</script>', page, flags=re.DOTALL)[1])
        self.assertEqual(island["results"][0]["rates"], json.loads(self.profile.read_text())["rates"])

    def test_the_name_of_the_output_chooses_the_format_and_an_option_overrules_it(self):
        self.assertTrue(self.page(self.profile).startswith("<!DOCTYPE html>"))
        markdown = self.folder / "report.md"
        self.succeeds("report", self.profile, "-o", markdown)
        self.assertTrue(markdown.read_text().startswith("# "))
        self.succeeds("report", self.profile, "--format", "json", "-o", markdown)
        self.assertEqual(json.loads(markdown.read_text())["schema"], "dsanalyze.report/1")

    def test_json_holds_the_record_and_its_curves(self):
        document = self.json_of("report", self.profile)
        self.assertEqual(document["schema"], "dsanalyze.report/1")
        self.assertEqual(document["results"][0]["label"], "a.json")
        self.assertIn("cache", document["results"][0]["curves"])
        try:
            import jsonschema
        except ImportError:
            self.skipTest("python3-jsonschema is not installed")
        jsonschema.validate(document, json.loads(SCHEMA.read_text()))

    def test_several_profiles_stand_side_by_side(self):
        def slower(record):
            record["rates"]["S"]["samples_per_s"] /= 2
            record["rates"]["S"]["ci95_samples_per_s"] = {"low": 1, "high": record["rates"]["S"]["samples_per_s"]}
            record["settings"]["batch_size"] = 7

        other = self.changed("b.json", slower)
        self.assertIn("0.500x", self.succeeds("report", self.profile, other).stdout)
        page = self.page(self.profile, other)
        self.assertIn("2 results side by side", page)
        self.assertRegex(page, r'<th scope="row">batch size</th><td class="differs">512</td><td class="differs">7</td>')

    def test_profile_writes_the_page_of_its_result_and_refuses_one_file_for_both(self):
        html, record = self.folder / "p.html", self.folder / "p.json"
        self.assertIn(f"report: {html}", self.succeeds(*EMULATED, "--html", html, "-o", record).stdout)
        again = self.page(record)
        self.assertEqual(html.read_text(encoding="utf-8"), again)
        self.assertIn("--html", self.run_program(*EMULATED, "--html", record, "-o", record).stderr)
        self.assertIn("no-such", self.fails(1, *EMULATED, "--html", self.folder / "no-such" / "p.html"))

    def test_without_a_result_it_is_the_last_profile(self):
        self.assertIn("there is no profile yet", self.fails(2, "report"))
        self.succeeds(*EMULATED)
        self.assertIn("rates", self.succeeds("report").stdout)

    def test_a_record_of_an_older_version_is_shown_without_what_it_lacks(self):
        def older(record):
            for name in ("started_utc", "distributions", "order", "observed"):
                record.pop(name, None)
            for run in record["runs"]:
                for name in ("stall_seconds", "mlperf_storage_au", "failures", "windows", "void_windows"):
                    run.pop(name, None)

        self.assertIn('id="rates"', self.page(self.changed("old.json", older)))

    def test_what_is_no_result_is_refused_with_what_can_be_shown(self):
        self.assertIn("dsanalyze.profile/1", self.fails(2, "report", self.changed("x.json", lambda record: record.update(schema="dsanalyze.error/1"))))
        torn = self.folder / "torn.json"
        torn.write_text("{")
        self.assertIn("torn.json", self.fails(2, "report", torn))
        self.assertIn("not-there.json", self.fails(1, "report", self.folder / "not-there.json"))
        self.assertIn('did you mean "html"?', self.fails(2, "report", self.profile, "--format", "htlm"))

    def test_a_report_does_not_overwrite_its_own_result(self):
        before = self.profile.read_bytes()
        run = self.run_program("report", self.profile, "-o", self.profile)
        self.assertEqual(run.returncode, 2)
        self.assertIn("is one of the results", run.stderr)
        self.assertEqual(self.profile.read_bytes(), before)


if __name__ == "__main__":
    unittest.main()
