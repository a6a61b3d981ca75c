import json
import unittest

from program import ProgramTest

# S and C from the 25 % and 50 % columns of [DS-Analyzer, Table 5]; G and P above all its rates.
TABLE_5 = "G=30000,P=20000,C=251952,S=4698.5"
MIX_RATES = ("whatif", "--rates", "G=1375,P=2000,C=100000,S=50000")
FIVE = [{"name": f"job-{ratio}", "speed_ratio": ratio, "batch_size": 32, "epochs": round(20 * ratio)} for ratio in (1, 0.6, 0.45, 0.28, 0.2)]


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
        self.assertIn("prep is the bottleneck at 10,208 samples/s [P]; more memory buys nothing", found["then"])

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
        self.assertIn("unchanged", self.succeeds("whatif", "--rates", TABLE_5, "-o", file).stdout)
        self.assertEqual(json.loads(file.read_text())["schema"], "dsanalyze.whatif/1")

    def test_a_full_disk_is_an_error_and_leaves_nothing(self):
        self.assertIn("No space left", self.fails(1, "whatif", "--rates", TABLE_5, "-o", "/dev/full"))
        with open("/dev/full", "w", encoding="utf-8") as full:
            run = self.run_program("whatif", "--rates", TABLE_5, stdout=full)
        self.assertEqual(run.returncode, 1)
        self.assertIn("No space left", run.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])


class JobMix(ProgramTest):
    def mix(self, jobs, **root):
        path = self.folder / "mix.json"
        path.write_text(json.dumps({"samples": 10000, "jobs": jobs, **root}))
        return path

    def answers_of(self, jobs, *options, rates=MIX_RATES):
        return self.json_of(*rates, "--job-mix", self.mix(jobs), *options)["job_mix"]["answers"]

    def test_five_jobs_of_different_speed_finish_earlier_when_they_share_and_earlier_still_with_a_store(self):
        answers = self.answers_of(FIVE, "--share", "none,coordinated,dependent", "--staging-size", "0%,10%,25%", "--staging-policy", "refcnt,lru")
        ways = [(answer["share"], answer.get("staging_fraction"), answer.get("staging_policy")) for answer in answers]
        self.assertEqual(ways, [("none", None, None), ("coordinated", None, None), ("dependent", 0, "refcnt"), ("dependent", 0.1, "refcnt"),
                                ("dependent", 0.1, "lru"), ("dependent", 0.25, "refcnt"), ("dependent", 0.25, "lru")])
        none, coordinated, dependent, refcnt, lru, more, _ = answers
        self.assertIn("one batch size", coordinated["not_predicted"])
        self.assertLess(dependent["mean_completion_seconds"], none["mean_completion_seconds"])
        self.assertLess(refcnt["makespan_seconds"], dependent["makespan_seconds"])
        self.assertLess(refcnt["prepared_per_fastest"], lru["prepared_per_fastest"])
        self.assertLess(more["prepared_per_fastest"], refcnt["prepared_per_fastest"])
        self.assertEqual(len(none["jobs"]), 5)

    def test_the_console_shows_ways_and_jobs_in_80_columns(self):
        text = self.succeeds(*MIX_RATES, "--job-mix", self.mix(FIVE), "--share", "none,dependent", "--staging-size", "0%,10%").stdout
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        for words in ("job mix", "nothing", "dependent, store of 10 %, refcnt", "makespan", "job-0.45"):
            self.assertIn(words, text)

    def test_the_same_seed_gives_the_same_answer(self):
        self.assertEqual(self.answers_of(FIVE, "--seed", "7"), self.answers_of(FIVE, "--seed", "7"))

    def test_options_that_do_not_go_together_are_named(self):
        mix = self.mix(FIVE)
        for words, message in ((("--job-mix", mix, "--search"), "--search: does not answer for a job mix"),
                               (("--job-mix", mix, "--validate"), "--validate: does not answer"),
                               (("--job-mix", mix, "--jobs", "4"), "--jobs: the job mix says"),
                               (("--job-mix", mix, "--servers", "4"), "--servers: a job mix shares one server"),
                               (("--job-mix", mix, "--storage", "2x,3x"), "one value of each other list"),
                               (("--job-mix", mix, "--share", "none", "--staging-size", "5%"), "add --share dependent"),
                               (("--job-mix", mix, "--staging-size", "4GiB"), "--staging-size: found \"4GiB\", expected a percentage"),
                               (("--job-mix", mix, "--staging-policy", "fifo"), "--staging-policy"),
                               (("--staging-size", "5%"), "--staging-size: is of jobs that differ; add --job-mix FILE"),
                               (("--jobs", "4", "--share", "dependent"), "add --job-mix FILE"),
                               (("--job-mix", self.folder / "absent.json"), "absent.json")):
            with self.subTest(words=words):
                self.assertIn(message, self.fails(1 if words[-1] == self.folder / "absent.json" else 2, *MIX_RATES, *words))

    def test_what_is_wrong_with_the_file_is_named_by_its_place(self):
        for job, place in (({"samples_per_s": 0}, "/jobs/0/samples_per_s"), ({"subset": "9-1000000"}, "/jobs/0/subset"), ({"epochs": 1e12}, "/jobs/0/epochs"),
                           ({"color": 1}, "/jobs/0/color"), ({"name": 5}, "/jobs/0/name")):
            with self.subTest(job=job):
                path = self.mix([{"samples_per_s": 5, "batch_size": 4, "epochs": 1, **job}])
                self.assertIn(f"{path}: {place}", self.fails(2, *MIX_RATES, "--job-mix", path))
        path.write_text(" " * (17 << 20))
        self.assertIn("mix.json", self.fails(1, *MIX_RATES, "--job-mix", path))


if __name__ == "__main__":
    unittest.main()
