import json
import unittest

from program import ProgramTest

RATES = ("--rates", "G=20000±2%,P=10200±1%,C=251952,S=4698.5±1%")
BASE = ("--base", "cores=24,accelerators=8,dataset=146GiB,samples=1281167,cache=35%")
SEARCH = ("--search", "--prices", "google-us-central1", "--measured-accelerator", "v100")


class Search(ProgramTest):
    def search(self, *arguments):
        return self.json_of("whatif", *RATES, *BASE, *SEARCH, *arguments)["search"]

    def test_the_cheapest_that_reaches_a_time_does_so_with_its_whole_interval(self):
        search = self.search("--target", "3min")
        self.assertEqual(search["reach"], "conditionally")
        self.assertTrue(search["cheapest"]["assumptions"])
        self.assertAlmostEqual(search["target"]["epoch_seconds"], 180)
        self.assertLessEqual(search["setups"], 10000)
        self.assertGreater(search["setups"], 2000)
        for name in ("cheapest", "cheapest_hour"):
            point = search[name]
            self.assertGreaterEqual(point["ci95_samples_per_s"]["low"], 1281167 / 180 * (1 - 1e-9))
            self.assertAlmostEqual(point["cost_per_hour"], sum(point["costs_per_hour"].values()))
            self.assertAlmostEqual(point["cost_per_epoch"], point["cost_per_hour"] * point["epoch_seconds"] / 3600)
        self.assertLess(search["cheapest_hour"]["cost_per_hour"], search["cheapest"]["cost_per_hour"])
        self.assertLess(search["cheapest"]["cost_per_epoch"], search["cheapest_hour"]["cost_per_epoch"])

    def test_the_front_is_simulated_and_nothing_on_it_is_dominated(self):
        search = self.search()
        self.assertTrue(2 <= len(search["front"]) <= 20)
        self.assertGreater(search["simulated"], 0)
        points = [point["simulated"] or point for point in search["front"]]
        self.assertEqual(points, sorted(points, key=lambda point: point["cost_per_epoch"]))
        self.assertEqual(points, sorted(points, key=lambda point: -point["epoch_seconds"]))

    def test_a_rate_is_a_target_too(self):
        for text in ("5000", "5000/s", "5000 samples/s", "5k"):
            self.assertAlmostEqual(self.search("--target", text)["target"]["samples_per_s"], 5000)

    def test_a_target_out_of_reach_is_said_with_the_best_there_is(self):
        search = self.search("--target", "1s")
        self.assertEqual((search["reach"], search["cheapest"]), ("no", None))
        self.assertIn("target-out-of-reach", [finding["code"] for finding in search["findings"]])
        self.assertIn("Out of reach", self.succeeds("whatif", *RATES, *BASE, *SEARCH, "--target", "1s").stdout)

    def test_lists_narrow_the_search(self):
        search = self.search("--cores", "8,16", "--cache-size", "20%,50%", "--accelerators", "2")
        for point in search["front"]:
            self.assertIn(point["setup"]["cores"], (8, 16))
            self.assertIn(point["setup"]["cache_fraction"], (0.2, 0.5))
            self.assertEqual(point["setup"]["accelerators"], 2)

    def test_several_servers_are_searched_when_asked_for_and_said_to_be_an_upper_bound(self):
        alone = self.search("--target", "10s")
        self.assertEqual(alone["reach"], "no")
        several = self.search("--target", "10s", "--servers", "1,2,4,8,16,32")
        self.assertEqual(several["reach"], "conditionally")
        self.assertGreater(several["cheapest"]["setup"]["servers"], 1)
        self.assertIn(several["cheapest"]["setup"]["partition"], ("none", "partitioned", "locality"))
        self.assertIn("servers-in-closed-form", [finding["code"] for finding in several["findings"]])
        self.assertEqual({point["setup"]["servers"] for point in alone["front"]}, {1})

    def test_the_console_fits_80_columns_and_names_list_and_day(self):
        text = self.succeeds("whatif", *RATES, *BASE, *SEARCH, "--target", "3min").stdout
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        self.assertIn("google-us-central1 of 20", text)
        self.assertIn("Cheapest an epoch that reaches 3min", " ".join(text.split()))
        self.assertIn("provided that", " ".join(text.split()))
        self.assertNotIn("surely", text.replace("surely faster", ""))

    def test_old_prices_have_an_age_and_a_warning(self):
        document = self.json_of("list", "prices")["items"][0]["config"]
        file = self.folder / "dated.json"
        for date, old in (("2001-01-01", True), ("2999-01-01", False)):
            document["date"] = date
            file.write_text(json.dumps(document))
            search = self.json_of("whatif", *RATES, *BASE, "--search", "--prices", file)["search"]
            self.assertEqual("prices-old" in [finding["code"] for finding in search["findings"]], old)
            self.assertEqual(search["prices"]["age_days"] > 365, old)

    def test_a_global_batch_larger_than_the_dataset_is_refused(self):
        small = ("--rates", "G=4000,P=1952,C=150000,S=18440", "--base", "cores=2,accelerators=1,batch=256,dataset=174MiB,samples=1500")
        search = self.json_of("whatif", *small, *SEARCH, "--target", "10min")["search"]
        for point in search["front"]:
            self.assertLessEqual(256 * point["setup"]["accelerators"], 1500)
        self.assertIn("global batch", self.fails(2, "whatif", *small, *SEARCH, "--accelerators", "8"))

    def test_a_price_list_of_ones_own_is_read_from_a_file(self):
        document = self.json_of("list", "prices")["items"][0]["config"]
        document["name"] = "mine"
        file = self.folder / "mine.json"
        file.write_text(json.dumps(document))
        arguments = ("whatif", *RATES, *BASE, "--search", "--prices", file)
        self.assertEqual(self.json_of(*arguments)["search"]["prices"]["name"], "mine")
        document["core"]["price"]["value"] = 0
        file.write_text(json.dumps(document))
        self.assertIn("mine.json: /core/price/value: found 0, expected a number above 0", self.fails(2, *arguments))
        document["core"]["price"]["value"] = -1
        file.write_text(json.dumps(document))
        self.assertIn("/core/price/value", self.fails(2, *arguments))
        file.write_text(json.dumps(document)[:200])
        self.assertIn("mine.json", self.fails(2, *arguments))

    def test_mistakes_are_named_with_what_was_expected(self):
        whatif = ("whatif", *RATES, *BASE)
        self.assertIn("did you mean \"google-us-central1\"?", self.fails(2, *whatif, "--search", "--prices", "google-us-central"))
        self.assertIn("--prices", self.fails(2, *whatif, "--search"))
        self.assertIn("belongs to --search", self.fails(2, *whatif, "--target", "3min"))
        self.assertIn("belongs to --search", self.fails(2, *whatif, "--prices", "owned-server"))
        for target in ("soon", "0", "0s", "-5", "5000/h", "NaN", "inf"):
            self.assertIn("--target", self.fails(2, *whatif, *SEARCH, f"--target={target}"))
        self.assertIn("did you mean \"v100\"?", self.fails(2, *whatif, "--search", "--prices", "owned-server", "--measured-accelerator", "v10"))
        self.assertIn("--accelerator-speed", self.fails(2, *whatif, *SEARCH, "--accelerator-speed", "2x"))
        self.assertIn("--storage", self.fails(2, *whatif, *SEARCH, "--storage", "2x"))

    def test_what_the_search_cannot_do_without_is_named(self):
        self.assertIn("G=", self.fails(2, "whatif", "--rates", "P=10200,C=251952,S=4698", *BASE, *SEARCH))
        self.assertIn("--base accelerators=", self.fails(2, "whatif", *RATES, "--base", "cores=24,dataset=146GiB,samples=1281167", *SEARCH))
        self.assertIn("--base cores=", self.fails(2, "whatif", *RATES, "--base", "accelerators=8,dataset=146GiB,samples=1281167", *SEARCH))
        self.assertIn("samples=", self.fails(2, "whatif", *RATES, "--base", "cores=24,accelerators=8", *SEARCH))


if __name__ == "__main__":
    unittest.main()
