"""What-if answers from a saved profile: by the closed form, by the epoch simulator and by running them; and profiles that are none."""

import copy
import json
import math
import unittest

from program import ProgramTest

DEVICES = ("emulated:imagenet-1k,samples=2000", "--storage", "emulated:60MB/s", "--prep", "emulated:500", "--cores", "4", "--accelerator", "emulated:3000",
           "--batch-size", "32", "--cache-size", "50%", "--time-budget", "6s")


class FromAProfile(ProgramTest):
    profile_text = None

    def setUp(self):
        super().setUp()
        self.path = self.folder / "profile.json"
        if FromAProfile.profile_text is None:
            self.succeeds("profile", *DEVICES, "-o", self.path)
            FromAProfile.profile_text = self.path.read_text()
        self.path.write_text(FromAProfile.profile_text)

    def broken(self, change):
        document = copy.deepcopy(json.loads(FromAProfile.profile_text))
        change(document)
        file = self.folder / "broken.json"
        file.write_text(json.dumps(document))
        return file

    def test_the_profile_says_how_sizes_and_times_are_distributed(self):
        document = json.loads(FromAProfile.profile_text)
        distributions = document["distributions"]
        for name in ("sample_bytes", "prep_seconds", "request_seconds"):
            quantiles = distributions[name]["quantiles"]
            self.assertEqual(len(quantiles), 101)
            self.assertEqual(quantiles, sorted(quantiles))
            self.assertLessEqual(quantiles[0], distributions[name]["mean"])
            self.assertLessEqual(distributions[name]["mean"], quantiles[-1])
        self.assertGreater(distributions["prep_seconds"]["mean"], 0.0015)  # 500 samples/s and core

    def test_the_samples_of_each_answer_are_moved_through_the_loader(self):
        result = self.json_of("whatif", self.path, "--cache-size", "0%,100%")
        self.assertEqual(len(result["answers"]), 3)
        for answer in result["answers"]:
            self.assertLess(answer["samples_per_s"], 1.001 * min(answer[rate] for rate in "GPF"))
            simulated = answer["simulated"]
            self.assertGreaterEqual(simulated["stall_p99_seconds"], simulated["stall_p50_seconds"])
            self.assertGreater(simulated["first_batch_seconds"], 0)
        text = self.succeeds("whatif", self.path, "--cache-size", "0%,100%").stdout
        self.assertIn("stall p99", text)
        self.assertLessEqual(max(map(len, text.splitlines())), 96)

    def test_the_scatter_between_runs_widens_the_intervals(self):
        def half_width(*options):
            answer = self.json_of("whatif", self.path, *options)["answers"][0]
            interval = answer["ci95_samples_per_s"]
            return (interval["high"] - interval["low"]) / 2 / answer["samples_per_s"]

        alone = half_width()
        self.assertAlmostEqual(half_width("--run-scatter", "10%"), math.hypot(alone, 1.959964 * math.sqrt(2) * 0.1), delta=0.01)
        self.assertIn("--run-scatter", self.fails(2, "whatif", self.path, "--run-scatter", "much"))
        self.assertIn("typed rates", self.fails(2, "whatif", "--rates", "P=735,C=1e6,S=900", "--run-scatter", "2%"))

    def test_a_profile_of_several_ranks_gives_n_and_is_of_one_server_alone(self):
        def ranks(document):
            document["settings"].update(world=4, partition="partitioned")
            document["rates"]["N"] = dict(document["rates"]["S"], samples_per_s=2000, ci95_samples_per_s={"low": 1990, "high": 2010})

        file = self.broken(ranks)
        parted = ("--servers", "4", "--partition", "partitioned")
        result = self.json_of("whatif", file, *parted)
        self.assertIn("one-server-alone", [finding["code"] for finding in result["findings"]])
        self.assertEqual(result["source"]["N"], 2000)
        typed = self.json_of("whatif", file, *parted, "--rates", "N=9000")
        self.assertEqual(typed["source"]["N"], 9000)
        self.assertGreater(typed["answers"][1]["F"], result["answers"][1]["F"])
        self.assertEqual(typed["answers"][0]["F"], result["answers"][0]["F"])
        self.assertIn("beside a profile only N", self.fails(2, "whatif", file, "--rates", "S=5,N=9000"))
        self.assertIn("profile with --partition", self.fails(2, "whatif", self.path, *parted))

    def test_answers_are_run_and_what_cannot_be_run_says_why(self):
        done = self.run_program("whatif", self.path, "--cache-size", "0%", "--servers", "2", "--validate", "--time-budget", "6s", "--json")
        self.assertIn(done.returncode, (0, 1, 4))  # how near they come is no matter of this test
        result = json.loads(done.stdout)
        outcome = {0: "passed", 1: "failed", 4: "undecided"}[done.returncode]
        self.assertEqual(result["validation"]["outcome"], outcome)
        servers = [answer for answer in result["answers"] if "servers" in answer["change"]]
        self.assertIn("several servers", servers[0]["not_measured"])
        for answer in result["answers"]:
            self.assertNotEqual("measured" in answer, "not_measured" in answer)
        self.assertEqual(result["validation"]["measured"] + result["validation"]["not_measured"], 3)

    def test_answers_of_several_jobs_are_run_as_several_jobs(self):
        done = self.run_program("whatif", self.path, "--jobs", "2", "--share", "none,coordinated,unified-producer", "--validate", "--time-budget", "8s", "--json")
        self.assertIn(done.returncode, (0, 1, 4), done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual(result["validation"]["measured"], 4)
        self.assertTrue(all(answer["measured"]["samples_per_s"] > 0 for answer in result["answers"]))

    def test_typed_rates_cannot_be_run(self):
        self.assertIn("needs a profile", self.fails(2, "whatif", "--rates", "G=1,P=2,C=3,S=4", "--validate"))
        self.assertIn("--simulate: is gone: ", self.fails(2, "whatif", self.path, "--simulate"))
        self.assertIn("--validate", self.fails(2, "whatif", self.path, "--time-budget", "10s"))

    def test_jobs_servers_batches_and_reads_are_asked_about(self):
        asked = ("whatif", self.path, "--jobs", "4", "--share", "none,coordinated,unified-producer", "--batch-size", "64", "--io-depth", "4",
                 "--cache", "lru")
        answers = self.json_of(*asked)["answers"]
        alone = [one for one in answers if len(one["change"]) == 2 and one["change"].get("jobs") == 4]
        self.assertEqual({one["change"]["share"] for one in alone}, {"none", "coordinated", "unified-producer"})
        by_share = {one["change"]["share"]: one for one in alone}
        self.assertAlmostEqual(by_share["none"]["P"], by_share["coordinated"]["P"] / 4, delta=1)
        servers = self.json_of("whatif", self.path, "--servers", "2", "--partition", "partitioned,locality", "--network", "10Gbit/s")["answers"]
        self.assertEqual({one["servers"]["fetch_detail"] for one in servers if "servers" in one} - {"storage", "cache", "network"}, set())
        self.assertEqual(len(servers), 3)

    def test_locality_is_balanced_from_peers_or_from_storage(self):
        asked = ("whatif", self.path, "--servers", "2", "--partition", "none,locality")
        both = self.json_of(*asked, "--balance-from", "peers,storage", "--network", "10Gbit/s")["answers"]
        balanced = {one["change"]["balance_from"]: one["servers"] for one in both if one["change"].get("partition") == "locality"}
        self.assertEqual(set(balanced), {"peers", "storage"})
        self.assertEqual(balanced["storage"]["network_bytes_server_epoch"], 0)
        moved = balanced["peers"]["network_bytes_server_epoch"]
        self.assertGreater(moved, 0)
        self.assertAlmostEqual(balanced["storage"]["storage_bytes_server_epoch"] - balanced["peers"]["storage_bytes_server_epoch"], moved, delta=1)
        self.assertNotIn("balance_from", [one for one in both if one["change"].get("partition") == "none"][0]["change"])
        # Nothing crosses a network then, so none need be given.
        alone = self.json_of(*asked, "--balance-from", "storage")["answers"]
        self.assertEqual({one["change"]["balance_from"] for one in alone if one["change"].get("partition") == "locality"}, {"storage"})
        refused = self.fails(2, "whatif", self.path, "--servers", "2", "--partition", "partitioned", "--balance-from", "storage", "--network", "1GB/s")
        self.assertIn("--balance-from storage does not go together with any --partition but locality", refused)
        self.assertIn('did you mean "storage"', self.fails(2, *asked, "--balance-from", "storag"))
        self.assertIn("--balance-from does not go with --search", self.fails(2, "whatif", self.path, "--balance-from", "storage", "--search", "--prices", "x"))

    def test_lists_that_lack_their_base_say_what_to_add(self):
        self.assertIn("--jobs 8", self.fails(2, "whatif", self.path, "--share", "coordinated"))
        self.assertIn("--servers 2", self.fails(2, "whatif", self.path, "--partition", "locality"))
        self.assertIn("--network", self.fails(2, "whatif", self.path, "--servers", "2", "--partition", "locality"))
        self.assertIn("one at a time", self.fails(2, "whatif", self.path, "--servers", "2", "--jobs", "2"))
        self.assertIn("4096", self.fails(2, "whatif", self.path, "--servers", "5000").replace(",", ""))
        self.assertIn('did you mean "coordinated"', self.fails(2, "whatif", self.path, "--jobs", "2", "--share", "coordinate"))

    def test_a_dataset_that_changed_is_not_validated_against(self):
        file = self.broken(lambda document: document["dataset"].update(digest="another"))
        self.assertIn("profile again", self.fails(2, "whatif", file, "--validate"))

    def test_profiles_that_are_none_name_the_field_and_answer_nothing(self):
        def rate(name, **fields):
            return lambda document: document["rates"][name].update(fields)

        cases = (
            (lambda document: document.update(schema="dsanalyze.profile/2"), "/schema"),
            (lambda document: document["rates"].update(P=None), "prep"),
            (lambda document: document["rates"].update(S=None), "fetch"),
            (lambda document: document["rates"].pop("C"), "C"),
            (rate("P", samples_per_s=-1), "/rates/P/samples_per_s"),
            (rate("S", samples_per_s=0), "/rates/S/samples_per_s"),
            (rate("G", samples_per_s="fast"), "/rates/G/samples_per_s"),
            (rate("F", samples_per_s=1e9, ci95_samples_per_s={"low": 1e9, "high": 1e9}), "/rates/F/samples_per_s"),
            (rate("P", ci95_samples_per_s={"low": 5, "high": 1}), "ci95_samples_per_s"),
            (lambda document: document["distributions"]["prep_seconds"].update(quantiles=[2, 1]), "/distributions/prep_seconds/quantiles"),
            (lambda document: document["dataset"].update(bytes=1), "/dataset/bytes"),
        )
        for change, field in cases:
            with self.subTest(field=field):
                done = self.run_program("whatif", self.broken(change), "--cache-size", "50%", "--json")
                self.assertEqual(done.returncode, 2, done.stderr)
                document = json.loads(done.stdout)
                self.assertEqual(document["schema"], "dsanalyze.error/1")
                self.assertIn(field, done.stdout)
                self.assertNotIn("answers", document)

    def test_numbers_that_json_does_not_have_and_files_cut_off_are_refused(self):
        file = self.folder / "torn.json"
        text = FromAProfile.profile_text
        document = json.loads(text)
        document["rates"]["S"]["samples_per_s"] = math.nan
        file.write_text(json.dumps(document))
        self.fails(2, "whatif", file)
        for share in (0, 0.1, 0.5, 0.9, 0.99):
            file.write_text(text[:int(len(text) * share)])
            self.fails(2, "whatif", file)


if __name__ == "__main__":
    unittest.main()
