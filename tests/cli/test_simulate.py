import json
import unittest

from program import ProgramTest

POLICIES = ("minio", "lru", "page-model:random", "page-model:linux")
SCENARIO = {
    "name": "small",
    "description": "a small one",
    "source": "made up",
    "dataset": {"samples": 2000, "mean_sample_bytes": 110000},
    "epochs": 4,
    "policies": ["none", "minio", "lru", "belady"],
    "cache_sizes": ["35%", "65%"],
    "seed": 3,
}


class Simulate(ProgramTest):
    def scenario(self, **changes):
        path = self.folder / "scenario.json"
        path.write_text(json.dumps({**SCENARIO, **changes}))
        return path

    def recorded(self, *options):
        """A trace of a real loader with emulated devices, and the profile that it comes from."""
        trace, profile = self.folder / "run.trace", self.folder / "profile.json"
        self.succeeds("profile", "emulated:imagenet-1k,samples=1500", "--scale", "1:100", "--storage", "emulated:2GB/s", "--prep", "emulated:20000",
                      "--accelerator", "emulated:9000", "--cache-size", "35%", "--runs", "full", "--time-budget", "2s", "--trace", trace, "-o", profile,
                      "--quiet", *options)
        return trace, json.loads(profile.read_text())

    def test_a_scenario_counts_what_each_policy_finds(self):
        document = self.json_of("simulate", self.scenario())
        self.assertEqual(document["schema"], "dsanalyze.simulate/1")
        self.assertEqual((document["source"]["from"], document["accesses"], document["dataset"]["bytes"]), ("scenario", 8000, 220_000_000))
        cases = {(case["policy"], round(case["cache_fraction"], 2)): case for case in document["cases"]}
        self.assertEqual(len(cases), 7)
        self.assertEqual(cases["none", 0]["later_epochs"]["read_amplification"], 1)
        for share, held in ((0.35, 700), (0.65, 1300)):
            minio = cases["minio", share]
            self.assertEqual([epoch["hits"] for epoch in minio["epochs"]], [0, held, held, held])
            self.assertAlmostEqual(minio["later_epochs"]["read_amplification"], 1 - share)
            self.assertEqual(minio["items_held"], held)
            self.assertLessEqual(cases["lru", share]["later_epochs"]["hits"], cases["belady", share]["later_epochs"]["hits"])
            self.assertLessEqual(cases["belady", share]["later_epochs"]["hits"], 3 * held)

    def test_the_same_seed_gives_the_same_document(self):
        seedless = {key: value for key, value in SCENARIO.items() if key != "seed"}
        path = self.folder / "scenario.json"
        path.write_text(json.dumps(seedless))
        one, same, other = (self.json_of("simulate", path, "--seed", seed)["cases"] for seed in (5, 5, 6))
        self.assertEqual(one, same)
        self.assertNotEqual(one, other)

    def test_typed_policies_and_sizes_take_the_place_of_the_scenarios(self):
        cases = self.json_of("simulate", self.scenario(), "--policy", "lru", "--cache-size", "10%,20MB")["cases"]
        self.assertEqual([(case["policy"], case["cache_bytes"]) for case in cases], [("lru", 22_000_000), ("lru", 20_000_000)])

    def test_jobs_share_a_cache(self):
        document = self.json_of("simulate", self.scenario(jobs=3, stagger_fraction=0.2, policies=["minio"], cache_sizes=["50%"]))
        case = document["cases"][0]
        self.assertEqual((document["jobs"], len(case["jobs"])), (3, 3))
        self.assertAlmostEqual(case["later_epochs"]["read_amplification"], 1.5, delta=0.05)
        for epoch, all_jobs in enumerate(case["epochs"]):
            self.assertEqual(all_jobs["hits"], sum(job["epochs"][epoch]["hits"] for job in case["jobs"]))

    def test_shards_and_lognormal_sizes_and_cost_aware_admission(self):
        path = self.scenario(dataset={"samples": 3000, "mean_sample_bytes": 100000, "sample_bytes_deviation": 1}, storage="hdd",
                             order={"kind": "shards", "shard_samples": 100, "shuffle_buffer_samples": 200}, policies=["minio", "minio:cost-aware"],
                             cache_sizes=["35%"])
        first, aware = self.json_of("simulate", path)["cases"]
        self.assertGreater(aware["later_epochs"]["hits"], first["later_epochs"]["hits"])

    def test_a_pipeline_behind_the_cache_gives_times_and_what_binds(self):
        pipeline = {"prep": {"cores": 24, "samples_per_s_per_core": 425}, "accelerators": {"count": 8, "samples_per_s": 2620}, "batch_size": 64}
        dataset = {"samples": 40000, "mean_sample_bytes": 114000}
        path = self.scenario(dataset=dataset, storage="ssd", pipeline=pipeline, policies=["none", "minio", "belady"], cache_sizes=["35%", "80%"], epochs=3)
        times = {(case["policy"], round(case["cache_fraction"], 2)): case["pipeline"] for case in self.json_of("simulate", path)["cases"]}
        storage = 530e6 / 114000
        for case, binds, rate in ((("none", 0), "io", storage), (("minio", 0.35), "io", storage / 0.65), (("minio", 0.8), "cpu", 24 * 425)):
            self.assertEqual(times[case]["bottleneck"], binds)
            self.assertAlmostEqual(times[case]["samples_per_s"] / rate, 1, delta=0.03)
            self.assertAlmostEqual(times[case]["epoch_seconds"], 40000 / times[case]["samples_per_s"], delta=0.05)
            self.assertGreater(times[case]["first_batch_seconds"], 0)
        self.assertGreater(times["minio", 0.35]["stalls"]["fetch"], 0.2)
        self.assertLess(times["minio", 0.8]["stalls"]["fetch"], 0.02)
        self.assertIsNone(times["belady", 0.35])
        self.assertIn("bottleneck", self.succeeds("simulate", path).stdout)
        self.assertIn("/pipeline", self.fails(2, "simulate", self.scenario(storage="ssd", pipeline=pipeline, jobs=2)))

    def test_every_scenario_that_comes_with_the_program_runs(self):
        items = self.json_of("list", "scenarios")["items"]
        self.assertGreaterEqual(len(items), 4)
        for item in items:
            with self.subTest(item["name"]):
                document = self.json_of("simulate", item["name"], "--policy", "minio")
                self.assertEqual(document["source"]["name"], item["name"])
                self.assertLess(document["cases"][0]["later_epochs"]["miss_fraction"], 1)

    def test_the_console_shows_one_table_within_80_columns(self):
        text = self.succeeds("simulate", self.scenario()).stdout
        self.assertIn("caches: 35 % = 73.4 MiB, 65 % = 136 MiB", text)
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        self.assertEqual(sum(line.startswith("  minio ") for line in text.splitlines()), 2)

    def test_the_simulated_cache_has_the_real_ones_hits(self):
        for cache in POLICIES:
            with self.subTest(cache):
                trace, profile = self.recorded("--cache", cache)
                full = next(run for run in profile["runs"] if run["name"] == "full")
                document = self.json_of("simulate", "--trace", trace, "--policy", cache)
                self.assertEqual(document["dataset"]["samples"], 1500)
                self.assertEqual(document["recorded"]["epochs"], document["cases"][0]["epochs"])
                real = {epoch["epoch"]: (epoch["cache_hits"], epoch["cache_misses"]) for epoch in full["epochs"] if epoch["samples"] == 1500}
                simulated = {epoch["epoch"]: (epoch["hits"], epoch["misses"]) for epoch in document["cases"][0]["epochs"]}
                self.assertGreaterEqual(len(real), 2)
                for epoch, counts in real.items():
                    self.assertEqual(simulated[epoch], counts)

    def test_a_trace_is_put_before_all_policies(self):
        trace, _ = self.recorded("--admit", "cost-aware")
        document = self.json_of("simulate", "--trace", trace)
        self.assertEqual([case["policy"] for case in document["cases"]], [*POLICIES, "belady"])
        self.assertEqual({case["cache_bytes"] for case in document["cases"]}, {document["recorded"]["cache_bytes"]})
        self.assertEqual(document["recorded"]["policy"], "minio:cost-aware")
        same = self.json_of("simulate", "--trace", trace, "--policy", "minio:cost-aware")
        self.assertEqual(same["cases"][0]["epochs"], same["recorded"]["epochs"])
        self.assertIn("recorded with minio:cost-aware", self.succeeds("simulate", "--trace", trace).stdout)

    def test_a_trace_that_cannot_be_written_is_said_before_anything_runs(self):
        asked = ("profile", "emulated:imagenet-1k,samples=100", "--storage", "emulated:2GB/s", "--prep", "emulated:20000", "--runs", "full", "--accelerator",
                 "emulated:9000", "--trace")
        self.assertIn("does not exist", self.fails(1, *asked, self.folder / "no" / "run.trace"))
        self.assertIn("the full run", self.fails(2, *asked[:7], "fetch", "--trace", self.folder / "run.trace"))

    def test_a_full_disk_ends_the_profile_with_the_files_name(self):
        self.assertIn("cannot write /dev/full: No space left on device",
                      self.fails(1, "profile", "emulated:imagenet-1k,samples=100", "--scale", "1:100", "--storage", "emulated:2GB/s", "--prep", "emulated:20000",
                                 "--runs", "full", "--accelerator", "emulated:9000", "--time-budget", "2s", "--trace", "/dev/full", "--quiet"))

    def test_mistakes_are_named_with_what_was_expected(self):
        scenario = self.scenario()
        self.assertIn("what to simulate is missing", self.fails(2, "simulate"))
        self.assertIn("give one", self.fails(2, "simulate", scenario, "--trace", "run.trace"))
        self.assertIn("coordl-table-6-shuffled", self.fails(2, "simulate", "coordl-table-6-shufled"))
        self.assertIn("No such file", self.fails(1, "simulate", self.folder / "none.json"))
        self.assertIn("No such file", self.fails(1, "simulate", "--trace", self.folder / "none"))
        self.assertIn("did you mean belady?", self.fails(2, "simulate", scenario, "--policy", "minio,beladi"))
        self.assertIn("names no /storage", self.fails(2, "simulate", scenario, "--policy", "minio:cost-aware"))
        for size in ("0", "0%", "-1GiB", "nan", "1e30GiB", "101%", "35%,"):
            self.assertIn("--cache-size", self.fails(2, "simulate", scenario, "--cache-size", size))
        self.assertIn("/jobs", self.fails(2, "simulate", self.scenario(jobs=0)))
        self.assertIn('did you mean "epochs"?', self.fails(2, "simulate", self.scenario(epoch=3)).replace("'", '"'))
        self.assertIn("imagenet-1k", self.fails(2, "simulate", self.scenario(dataset={"preset": "imagenet"})))
        self.assertIn("of memory", self.fails(1, "simulate", self.scenario(dataset={"samples": 4_000_000_000, "mean_sample_bytes": 1}, jobs=1024)))

    def test_a_torn_or_changed_trace_is_refused_with_the_place(self):
        trace, _ = self.recorded()
        whole = trace.read_bytes()
        trace.write_bytes(whole[: len(whole) // 2])
        self.assertIn("the file is torn", self.fails(1, "simulate", "--trace", trace))
        trace.write_bytes(whole[:131] + bytes([whole[131] ^ 1]) + whole[132:])
        self.assertIn("at byte 128: found sample", self.fails(1, "simulate", "--trace", trace))
        trace.write_bytes(whole[:136] + bytes([whole[136] ^ 1]) + whole[137:])
        self.assertIn("checksum", self.fails(1, "simulate", "--trace", trace))
        enormous = whole[:16] + (4_294_967_294).to_bytes(8, "little") + whole[24:]
        trace.write_bytes(enormous)
        self.assertIn("of memory", self.fails(1, "simulate", "--trace", trace))
        trace.write_bytes(b"{}")
        self.assertIn("at byte 2: the file ends", self.fails(1, "simulate", "--trace", trace))
        trace.write_bytes(b"x" * 300)
        self.assertIn("is it a trace", self.fails(1, "simulate", "--trace", trace))


if __name__ == "__main__":
    unittest.main()
