import base64
import hashlib
import json
import pathlib
import re
import unittest

from program import ProgramTest

SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "reports" / "schemas" / "report-1.json"
EMULATED = ("profile", "emulated:imagenet-1k,samples=2000", "--preset", "config-ssd-v100", "--workload", "resnet18", "--scale", "1:1000", "--time-budget", "6s")
RATES = ("whatif", "--rates", "G=9800,P=10200±2%,C=252000,S=4700±2%", "--base", "cores=24,accelerators=8,batch=512,dataset=146GiB,samples=1281167,cache=35%")
SCENARIO = {"name": "small", "description": "one job, small", "source": "made up", "dataset": {"samples": 500, "mean_sample_bytes": 1000},
            "policies": ["minio", "lru"], "cache_sizes": ["25%", "50%"], "seed": 1}


class Report(ProgramTest):
    record_text = ""  # one profile for all tests: long enough to have its rates on a busy machine

    def setUp(self):
        super().setUp()
        self.profile = self.folder / "a.json"
        if not Report.record_text:
            self.succeeds(*EMULATED, "-o", self.profile)
            Report.record_text = self.profile.read_text()
        self.profile.write_text(Report.record_text)

    def saved(self, name, *command):
        """The JSON record that a command prints, in a file."""
        place = self.folder / name
        place.write_text(json.dumps(self.json_of(*command)))
        return place

    def every_kind(self):
        scenario = self.folder / "scenario.json"
        scenario.write_text(json.dumps(SCENARIO))
        return {"whatif": self.saved("whatif.json", *RATES, "--cache-size", "25%,75%", "--cores", "12,48", "--find", "cache"),
                "simulate": self.saved("simulate.json", "simulate", scenario),
                "doctor": self.saved("doctor.json", "doctor"),
                "gate": self.saved_gate("gate.json")}

    def saved_gate(self, name):
        """Of one run a side nothing can be told: exit 4, and a record all the same."""
        other = self.changed("other.json", lambda record: record["rates"]["P"].update(windows=1))
        run = self.run_program("gate", "--baseline", self.profile, other, "--json")
        self.assertEqual(run.returncode, 4, run.stderr)
        place = self.folder / name
        place.write_text(run.stdout)
        return place

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
        self.assertEqual([curve["name"] for curve in document["results"][0]["curves"]], ["cores", "cache_fraction", "accelerator_speed", "storage_factor"])
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

    def test_records_of_every_kind_are_shown_in_every_format(self):
        for kind, place in self.every_kind().items():
            with self.subTest(kind=kind):
                page = self.page(place)
                self.assertTrue(page.startswith("<!DOCTYPE html>"))
                self.assertIn(f"<title>dsanalyze: {place.name}</title>", page)
                self.assertTrue(self.succeeds("report", place, "--format", "markdown").stdout.startswith("# "))
                self.assertGreater(len(self.succeeds("report", place).stdout), 100)
                document = self.json_of("report", place)
                self.assertEqual(document["results"][0]["record"], json.loads(place.read_text()))
                self.assertIsNone(document["results"][0]["curves"])

    def test_every_combination_of_two_factors_is_a_map_in_every_format(self):
        place = self.every_kind()["whatif"]
        self.assertRegex(self.page(place), r'<td class="number heat heat-9">[\d,]+ \[[FPG]\]</td>')
        self.assertIn("samples/s; rows: cache, columns: cores", self.succeeds("report", place).stdout)
        self.assertIn("| 35 % (unchanged) |", self.succeeds("report", place, "--format", "markdown").stdout)

    def test_profiles_that_differ_in_two_settings_and_fill_a_grid_are_a_map(self):
        def set_up(cache, cores):
            def change(record):
                record["settings"].update(cores=cores, cache_size={"fraction": cache})
            return change

        sweep = [self.changed(f"{cache}-{cores}.json", set_up(cache, cores)) for cache in (0.25, 0.5) for cores in (8, 16)]
        self.assertIn("Two settings at once", self.page(*sweep))
        self.assertNotIn("Two settings at once", self.page(*sweep[:3]))

    def test_results_of_several_kinds_in_one_report_are_refused_by_name(self):
        whatif = self.saved("whatif.json", *RATES, "--cores", "12")
        message = self.fails(2, "report", self.profile, whatif)
        self.assertIn("a.json is a result of `dsanalyze profile`, whatif.json one of `dsanalyze whatif`", message)
        self.assertIn("only results of one kind", message)

    def test_a_record_with_a_wrong_field_is_refused_by_its_place(self):
        record = json.loads(self.saved("whatif.json", *RATES, "--cores", "12").read_text())
        record["answers"][1]["bottleneck"] = "tpu"
        place = self.folder / "wrong.json"
        place.write_text(json.dumps(record))
        self.assertIn("wrong.json: /answers/1/bottleneck", self.fails(2, "report", place))

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
        for name, content in (("page.html", "<!doctype html>"), ("empty.json", ""), ("other.json", '{"a": 1}'), ("list.json", "[1]")):
            other = self.folder / name
            other.write_text(content)
            message = self.fails(2, "report", other)
            self.assertIn(f"{name}: no result of dsanalyze", message)
            self.assertIn("dsanalyze profile -o FILE", message)
            self.assertNotIn("syntax error", message)
        self.assertIn("dsanalyze profile -o FILE", self.fails(1, "report", self.folder / "not-there.json"))
        self.assertIn('did you mean "html"?', self.fails(2, "report", self.profile, "--format", "htlm"))

    def test_a_report_does_not_overwrite_its_own_result(self):
        before = self.profile.read_bytes()
        run = self.run_program("report", self.profile, "-o", self.profile)
        self.assertEqual(run.returncode, 2)
        self.assertIn("is one of the results", run.stderr)
        self.assertEqual(self.profile.read_bytes(), before)


if __name__ == "__main__":
    unittest.main()
