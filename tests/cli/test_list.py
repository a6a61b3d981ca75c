import unittest

from program import ProgramTest

PROVENANCES = {"measured", "paper", "derived", "assumed"}


class List(ProgramTest):
    def test_every_kind_is_listed_with_its_numbers_flagged(self):
        for kind in ("workloads", "servers", "datasets", "storage", "prices"):
            document = self.json_of("list", kind)
            self.assertEqual((document["schema"], document["kind"]), ("dsanalyze.list/1", kind))
            self.assertTrue(document["items"])
            for item in document["items"]:
                self.assertTrue(item["numbers"], item["name"])
                for number in item["numbers"]:
                    self.assertIn(number["provenance"], PROVENANCES)
                    self.assertTrue(number["source"])

    def test_the_papers_nine_workloads_and_two_servers_are_there(self):
        self.assertEqual(len(self.json_of("list", "workloads")["items"]), 9)
        self.assertEqual({item["name"] for item in self.json_of("list", "servers")["items"]}, {"config-ssd-v100", "config-hdd-1080ti"})

    def test_the_console_shows_flags_and_sources_on_request(self):
        usual = self.succeeds("list", "workloads").stdout
        self.assertIn("[derived]", usual)
        self.assertNotIn("Figure 1", usual)
        self.assertLessEqual(max(map(len, usual.splitlines())), 80)
        self.assertIn("Figure 1", self.succeeds("list", "workloads", "--verbose").stdout)

    def test_scenarios_are_listed_with_where_their_figures_come_from(self):
        items = self.json_of("list", "scenarios")["items"]
        self.assertGreaterEqual(len(items), 4)
        for item in items:
            self.assertIn("Assumed:", item["config"]["source"])
        self.assertIn("coordl-table-6-shuffled", self.succeeds("list", "scenarios").stdout)

    def test_what_to_list_must_be_said(self):
        self.assertIn("workloads, servers, datasets, storage, prices, scenarios", self.fails(2, "list"))

    def test_a_broken_configuration_names_file_and_field(self):
        (self.folder / "workloads").mkdir()
        (self.folder / "workloads" / "bad.json").write_text('{"name": "bad", "unheard": 1}')
        self.environment["DSANALYZE_DATA_DIR"] = str(self.folder)
        self.assertIn("bad.json", self.fails(2, "list", "workloads"))


if __name__ == "__main__":
    unittest.main()
