"""The program with GPUs: a driver's library without a GPU stands for the real one, and NVIDIA's management library likewise."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

PROGRAM = os.environ["DSANALYZE"]
LIBRARIES = os.environ["FAKE_LIBRARIES"]


class GpuTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.place = pathlib.Path(cls.folder.name)
        cls.dataset = cls.place / "photos"
        made = subprocess.run([PROGRAM, "dataset", "make", cls.dataset, "--samples", "160"], capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stderr

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_program(self, *words, driver="", nvml="", decoder="", libraries=LIBRARIES):
        environment = dict(os.environ, FAKE_CUDA=driver, FAKE_NVML=nvml, FAKE_NVJPEG=decoder, XDG_STATE_HOME=str(self.place / "state"))
        environment.pop("LD_LIBRARY_PATH", None)
        if libraries:
            environment["LD_LIBRARY_PATH"] = libraries
        return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, env=environment, check=False, timeout=200)

    def profiled(self, *words, driver="bus=20e9", decoder="", seconds=9, batch=8):
        place = self.place / "profile.json"
        run = self.run_program("profile", self.dataset, "--batch-size", batch, "--cache-size", "100%", "--time-budget", seconds, "-o", place, *words, driver=driver, decoder=decoder)
        self.assertEqual(run.returncode, 0, run.stderr)
        return json.loads(place.read_text()), run.stdout

    def refused(self, *words, driver="", libraries=LIBRARIES):
        run = self.run_program("profile", self.dataset, "--time-budget", 5, *words, driver=driver, libraries=libraries)
        self.assertEqual(run.returncode, 2, run.stdout + run.stderr)
        return run.stderr

    def test_batches_go_to_the_gpu_and_h_is_measured(self):
        record, text = self.profiled("--accelerator", "cuda:500", seconds=9)
        self.assertIn("Fake GPU 0", record["host"]["accelerator"]["description"])
        self.assertIn("[H]", text)
        self.assertGreater(record["rates"]["G"]["samples_per_s"], 0)
        self.assertGreater(record["rates"]["H"]["bytes_per_s"], 0)
        points = {(point["copy_bytes"], point["streams"], point["pinned"]) for point in record["curves"]["H_by_copy"]}
        self.assertIn((65536, 1, True), points)
        self.assertIn((65536, 2, False), points)
        self.assertIn("full", [run["name"] for run in record["runs"]])

    def test_the_cure_of_copies_that_bind_is_predicted(self):
        record, _ = self.profiled("--accelerator", "cuda:4000", driver="bus=0.1e9")
        # As on a machine that does nothing else: copies are the slowest, and then prep.
        for name, rate in (("G", 4000), ("H", 200), ("P", 1000)):
            record["rates"][name].update(samples_per_s=rate, ci95_samples_per_s={"low": 0.99 * rate, "high": 1.01 * rate})
        record["curves"]["P_by_cores"] = [dict(record["rates"]["P"], cores=2)]
        given = self.place / "given.json"
        given.write_text(json.dumps(record))
        answer = self.run_program("whatif", given, "--transfer", "2x,40x", "--accelerator-speed", "2x", "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        result = json.loads(answer.stdout)
        found = {(each["change"].get("transfer_factor"), each["change"].get("accelerator_speed")): each for each in result["answers"]}
        self.assertAlmostEqual(found[(2, None)]["speedup"], 2, delta=0.01)  # An epoch's last batches wait for one another.
        self.assertEqual(found[(40, None)]["bottleneck"], "cpu")
        self.assertAlmostEqual(found[(None, 2)]["speedup"], 1, delta=0.01)
        self.assertEqual(found[(None, None)]["bottleneck_detail"], "transfer")

    def test_a_mesh_feeds_every_device_and_compares_with_a_broadcast(self):
        record, text = self.profiled("--accelerator", "cuda:1000", "--mesh", "2x2", "--input-sharding", "S0,R,R,S1", driver="devices=2,bus=20e9")
        self.assertEqual(record["settings"]["accelerators"], 2)
        self.assertEqual({point["feed"] for point in record["curves"]["H_by_feed"]}, {"direct", "broadcast"})
        self.assertIn("gpus-stand-for-several", [finding["code"] for finding in record["findings"]])
        self.assertIn("mesh 2x2 of devices", text)

    def test_what_there_is_not_is_said_with_what_to_do(self):
        self.assertIn("there is no NVIDIA driver here", self.refused("--accelerator", "cuda:100", libraries=""))
        self.assertIn("no GPU is shown to this process", self.refused("--accelerator", "cuda:100", driver="devices=0"))
        self.assertIn("of different versions", self.refused("--accelerator", "cuda:100", driver="init=803"))
        self.assertIn("how fast each GPU trains", self.refused("--accelerator", "cuda"))
        self.assertIn("not a number", self.refused("--accelerator", "cuda:fast"))
        self.assertIn("real GPUs", self.refused("--accelerator", "cuda:100", "--jobs", "2"))
        self.assertIn("--prep", self.refused("--accelerator", "cuda:100", "--prep", "null"))
        self.assertIn("expected the lengths of one to", self.refused("--accelerator", "cuda:100", "--mesh", "2by2"))
        self.assertIn("no axis 3", self.refused("--accelerator", "cuda:100", "--mesh", "2x2", "--input-sharding", "S3"))
        self.assertIn("cannot be divided into 4", self.refused("--accelerator", "cuda:100", "--mesh", "4", "--input-sharding", "R,S0"))
        self.assertIn("cuda:RATE", self.refused("--accelerator", "emulated:100", "--mesh", "2x2"))
        self.assertIn("the mesh says how many", self.refused("--accelerator", "cuda:100", "--mesh", "2x2", "--accelerators", "4"))
        run = self.run_program("profile", self.dataset, "--accelerator", "cuda:100", "--time-budget", 5, driver="memory=1000000")
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("use smaller batches", run.stderr)
        run = self.run_program("profile", self.dataset, "--accelerator", "cuda:100", "--batch-size", 16, "--time-budget", 5, driver="lost_after=2")
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("the GPU was lost", run.stderr)

    def test_a_budget_that_is_too_short_gives_no_verdict(self):
        # A batch alone takes a second to copy.
        run = self.run_program("profile", self.dataset, "--accelerator", "cuda:4000", "--batch-size", 160, "--time-budget", 1, "-o", self.place / "short.json", driver="bus=100e6")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("no verdict", run.stdout)
        self.assertEqual(self.run_program("report", self.place / "short.json").returncode, 0)

    def test_prep_is_split_between_gpu_and_cores(self):
        record, text = self.profiled("--accelerator", "cuda:4000", "--prep", "split:25%", seconds=9)
        self.assertEqual((record["settings"]["prep_place"], record["settings"]["gpu_share"]), ("split", 0.25))
        servers = record["curves"]["P_by_server"]
        self.assertEqual((servers["decoder"], servers["left_to_cpu_fraction"]), ("7 JPEG engines (nvJPEG 13.0)", 0))
        self.assertGreater(servers["gpu_samples_per_s"], 0)
        self.assertIn("25 % of each batch on the GPU", " ".join(text.split()))
        full = next(run for run in record["runs"] if run["name"] == "full")
        self.assertEqual(full["samples_failed"], 0)
        answer = json.loads(self.run_program("whatif", self.place / "profile.json", "--prep", "cpu,gpu,split", "--json").stdout)
        self.assertIn("answers", answer)
        self.assertEqual([each["change"].get("prep_place") for each in sorted(answer["answers"], key=str)].count(None), 1)
        self.assertEqual({each["change"].get("prep_place") for each in answer["answers"]}, {None, "cpu", "gpu", "split"})

    def test_prep_on_the_gpu_copies_nothing(self):
        record, text = self.profiled("--accelerator", "cuda:4000", "--prep", "gpu", seconds=12, driver="bus=100e6")
        self.assertEqual(record["settings"]["gpu_share"], 1)
        self.assertGreater(record["rates"]["P"]["samples_per_s"], 0)
        # Copies would be the bottleneck, but there are none until prep is the cores'.
        self.assertNotEqual(record["bottleneck"]["detail"], "transfer")
        self.assertIn("prep real, 100 % of each batch on the GPU", " ".join(text.split()))
        answer = json.loads(self.run_program("whatif", self.place / "profile.json", "--prep", "cpu", "--json").stdout)
        self.assertIn("answers", answer)
        found = {each["change"].get("prep_place"): each for each in answer["answers"]}
        self.assertLessEqual(found["cpu"]["samples_per_s"], record["rates"]["H"]["samples_per_s"] * 1.0001)

    def test_what_the_decoder_leaves_to_the_cores_is_said(self):
        record, text = self.profiled("--accelerator", "cuda:4000", "--prep", "gpu", seconds=12, decoder="fail")
        self.assertEqual(record["curves"]["P_by_server"]["left_to_cpu_fraction"], 1)
        self.assertIn("left-to-cores", [finding["code"] for finding in record["findings"]])
        self.assertIn("it leaves 100 % of them to the cores", " ".join(text.split()))
        run = self.run_program("whatif", self.place / "profile.json", "--prep", "split")
        self.assertEqual(run.returncode, 2, run.stdout)
        self.assertIn("what a GPU prepares is not known", run.stderr)

    def test_the_record_has_the_share_that_ran(self):
        record, _ = self.profiled("--accelerator", "cuda:4000", "--prep", "split:30%", "--runs", "prep", batch=5)
        self.assertAlmostEqual(record["settings"]["gpu_share"], 0.4)
        self.assertIn("a larger share", self.refused("--accelerator", "cuda:4000", "--prep", "split:30%", "--batch-size", "1"))

    def test_what_no_gpu_prepares_is_said(self):
        self.assertIn("cuda:RATE", self.refused("--accelerator", "emulated:100", "--prep", "gpu"))
        self.assertIn("of one GPU alone", self.refused("--accelerator", "cuda:100", "--accelerators", "2", "--prep", "split", driver="devices=2"))
        self.assertIn("share of a batch", self.refused("--accelerator", "cuda:100", "--prep", "split:0%"))
        self.assertIn("write 0.7% or 70%", self.refused("--accelerator", "cuda:100", "--prep", "split:0.7"))
        self.assertIn("is not a share", self.refused("--accelerator", "cuda:100", "--prep", "split:half"))
        self.assertIn("did you mean", self.refused("--accelerator", "cuda:100", "--prep", "spilt"))
        alone = self.place / "driver alone"
        alone.mkdir(exist_ok=True)
        for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
            if not (alone / name).exists():
                (alone / name).symlink_to(pathlib.Path(LIBRARIES, name))
        self.assertIn("pip install nvidia-nvjpeg", self.refused("--accelerator", "cuda:100", "--prep", "gpu", libraries=str(alone)))
        # Where that was not asked for, prep is the CPU's.
        run = self.run_program("profile", self.dataset, "--accelerator", "cuda:100", "--batch-size", 8, "--time-budget", 5, "-o", self.place / "cpu.json", libraries=str(alone))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertNotIn("P_by_server", json.loads((self.place / "cpu.json").read_text())["curves"])

    def test_the_doctor_tells_of_the_gpus(self):
        run = self.run_program("doctor", "--json", nvml="width=8,heat=1,errors=2,pid=1")
        checks = {check["code"]: check for check in json.loads(run.stdout)["checks"]}
        self.assertIn("8 lanes", checks["gpu-link"]["found"])
        self.assertIn("by heat", checks["gpu-clocks"]["found"])
        self.assertIn("2 memory errors", checks["gpu-memory"]["found"])
        self.assertIn("PID 1 with 1 GiB", checks["gpu-sharing"]["found"])
        # No GPU, no word of one.
        codes = [check["code"] for check in json.loads(self.run_program("doctor", "--json", libraries="").stdout)["checks"]]
        self.assertNotIn("gpu-link", codes)


if __name__ == "__main__":
    unittest.main()
