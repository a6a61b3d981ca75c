import json
import unittest

from program import ProgramTest

# S and C from the 25 % and 50 % columns of [DS-Analyzer, Table 5]; G and P above all its rates.
TABLE_5 = "G=30000,P=20000,C=251952,S=4698.5"


class WhatIf(ProgramTest):
    def test_the_35_percent_column_of_table_5_is_predicted_within_0_2_percent(self):
        answers = self.json_of("whatif", "--rates", TABLE_5, "--cache-size", "25%,35%,50%")["answers"]
        predicted = {answer["change"].get("cache_fraction"): answer["samples_per_s"] for answer in answers}
        for fraction, samples_per_s in ((0.25, 6226), (0.35, 7157), (0.50, 9225)):
            self.assertAlmostEqual(predicted[fraction] / samples_per_s, 1, delta=0.002)
        self.assertAlmostEqual(predicted[0.35] / 7164, 1, delta=0.002)

    def test_the_console_shows_one_factor_at_a_time_and_all_shows_combinations(self):
        asked = ("whatif", "--rates", TABLE_5, "--cache-size", "50%", "--accelerator-speed", "2x")
        self.assertNotIn("cache 50 %, 2x accelerator speed", " ".join(self.succeeds(*asked).stdout.split()))
        self.assertIn("cache 50 %, 2x accelerator speed", " ".join(self.succeeds(*asked, "--all").stdout.split()).replace(" 9,225 fetch [F] 1.96x", ""))
        self.assertEqual(len(self.json_of(*asked)["answers"]), 4)

    def test_lines_fit_80_columns_and_have_no_colour_in_a_pipe(self):
        text = self.succeeds("whatif", "--rates", TABLE_5, "--cache-size", "25%,50%", "--find", "cache,cores,accelerators,storage").stdout
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        self.assertNotIn("\x1b", text)
        self.assertIn("\x1b", self.succeeds("whatif", "--rates", TABLE_5, "--find", "cache", "--color", "always").stdout)

    def test_find_names_what_binds_then(self):
        found = self.json_of("whatif", "--rates", "G=12000,P=10208,C=251952,S=4698.5", "--find", "cache")["found"][0]
        self.assertAlmostEqual(found["value"], 0.55, delta=0.01)
        self.assertIn("prep binds at 10,208 samples/s [P]; more memory buys nothing", found["then"])

    def test_errors_of_typed_rates_become_intervals(self):
        for sign in ("±", "+-"):
            answer = self.json_of("whatif", "--rates", f"G=9000,P=1000{sign}2%,C=90000,S=5000")["answers"][0]
            self.assertAlmostEqual(answer["ci95_samples_per_s"]["low"], 980)
            self.assertAlmostEqual(answer["ci95_samples_per_s"]["high"], 1020)

    def test_absolute_values_without_a_base_are_refused_with_what_to_add(self):
        self.assertIn("--base cores=", self.fails(2, "whatif", "--rates", TABLE_5, "--cores", "8"))
        self.assertIn("--base dataset=", self.fails(2, "whatif", "--rates", TABLE_5, "--cache-size", "4GiB"))
        self.assertIn("--base", self.fails(2, "whatif", "--rates", TABLE_5, "--storage", "530MB/s"))
        self.assertEqual(self.json_of("whatif", "--rates", TABLE_5, "--cores", "2x")["answers"][1]["change"], {"cores_factor": 2.0})

    def test_a_base_gives_meaning_to_absolute_values(self):
        base = "cores=24,accelerators=8,dataset=146GB,samples=1281167"
        answers = self.json_of("whatif", "--rates", TABLE_5, "--base", base, "--cores", "12", "--storage", "emulated:hdd")["answers"]
        self.assertIn(10000, [round(answer["P"]) for answer in answers])
        self.assertGreater(answers[0]["epoch_seconds"], 0)

    def test_mistakes_are_named_with_what_was_expected(self):
        self.assertIn("S (storage)", self.fails(2, "whatif", "--rates", "P=1,C=2"))
        self.assertIn('did you mean "cores"?', self.fails(2, "whatif", "--rates", TABLE_5, "--base", "core=24"))
        self.assertIn('did you mean "cache"?', self.fails(2, "whatif", "--rates", TABLE_5, "--find", "cash"))
        self.assertIn("--accelerators", self.fails(2, "whatif", "--rates", TABLE_5, "--base", "accelerators=8", "--accelerators", "0"))
        self.assertIn("--cores", self.fails(2, "whatif", "--rates", TABLE_5, "--base", "cores=8", "--cores", "0"))
        self.assertIn("--storage", self.fails(2, "whatif", "--rates", TABLE_5, "--storage", "fast"))
        self.assertIn("--base describes", self.fails(2, "whatif", "profile.json", "--base", "cores=8"))

    def test_without_a_profile_it_says_how_to_get_one(self):
        self.assertIn("dsanalyze profile", self.fails(2, "whatif"))

    def test_the_last_profile_by_name_is_used(self):
        profiles = self.folder / "state" / "dsanalyze" / "profiles"
        profiles.mkdir(parents=True)
        for name in ("profile-20250101-000000.json", "profile-20250102-000000-2.json", "profile-20250102-000000-10.json", "other.json"):
            (profiles / name).write_text("{}")
        self.assertIn("profile-20250102-000000-10.json", self.fails(2, "whatif"))

    def test_a_profile_that_is_none_is_refused_and_a_missing_one_named(self):
        broken = self.folder / "broken.json"
        broken.write_text('{"schema": "dsanalyze.whatif/1"}')
        self.assertIn("broken.json", self.fails(2, "whatif", broken))
        self.assertIn("missing.json", self.fails(1, "whatif", self.folder / "missing.json"))

    def test_output_is_written_whole_beside_the_console(self):
        file = self.folder / "answer.json"
        self.assertIn("unchanged, by the rates", self.succeeds("whatif", "--rates", TABLE_5, "-o", file).stdout)
        self.assertEqual(json.loads(file.read_text())["schema"], "dsanalyze.whatif/1")

    def test_a_full_disk_is_an_error_and_leaves_nothing(self):
        self.assertIn("No space left", self.fails(1, "whatif", "--rates", TABLE_5, "-o", "/dev/full"))
        with open("/dev/full", "w", encoding="utf-8") as full:
            run = self.run_program("whatif", "--rates", TABLE_5, stdout=full)
        self.assertEqual(run.returncode, 1)
        self.assertIn("No space left", run.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
