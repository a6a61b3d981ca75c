"""Every way to read, order and cache, from `dataset make` to `profile`."""

import ctypes
import errno
import json
import pathlib
import platform
import struct
import subprocess
import sys
import unittest

from program import PROGRAM, ProgramTest


def refuse_io_uring():
    """As container runtimes do: io_uring_setup (425 everywhere) fails with EPERM, by a seccomp filter of this process and its children."""
    load_number, if_equal, answer = 0x20, 0x15, 0x06
    allow, refuse = 0x7FFF0000, 0x00050000 | errno.EPERM
    steps = [(load_number, 0, 0, 0), (if_equal, 0, 1, 425), (answer, 0, 0, refuse), (answer, 0, 0, allow)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HL", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, set_seccomp, filter_mode = 38, 22, 2
    if libc.prctl(no_new_privileges, 1, 0, 0, 0) != 0 or libc.prctl(set_seccomp, filter_mode, program, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"no seccomp on {platform.release()}")


def full_run(result):
    return next(run for run in result["runs"] if run["name"] == "full")


class Ways(ProgramTest):
    def profile(self, *arguments):
        return self.json_of("profile", *arguments, "--quiet")

    def short(self, data, *arguments):
        return self.profile(data, "--batch-size", "8", "--time-budget", "4s", "--subset", "100%", "--accelerator", "null", "--runs", "fetch,full", *arguments)

    def shards(self):
        shards = self.folder / "shards"
        if not shards.exists():
            self.succeeds("dataset", "convert", self.photographs(), shards, "--to", "tar", "--shard-size", "500KB")
        return shards

    def test_each_order_uses_every_sample_once_an_epoch_and_says_how_well_it_shuffles(self):
        quality = {}
        for order in ("random", "sequential", "shards"):
            result = self.short(self.shards(), "--order", order, *([] if order == "random" else ["--shuffle-buffer", "4"]))
            quality[order] = result["order"]
            self.assertEqual(result["order"]["kind"], order)
            self.assertEqual(result["settings"]["shuffle_buffer_samples"], 0 if order == "random" else 4)
            epochs = full_run(result)["epochs"]
            self.assertEqual({epoch["samples"] for epoch in epochs}, {result["dataset"]["samples"]})
            self.assertEqual(len({epoch["digest"] for epoch in epochs}), 1)
        self.assertGreater(quality["sequential"]["rank_correlation"], 0.9)
        self.assertLess(quality["sequential"]["mean_displacement"], quality["random"]["mean_displacement"])

    def test_pytorch_measures_the_accelerator_that_the_full_run_emulates(self):
        data = self.photographs()
        self.environment["PATH"] = f"{pathlib.Path(sys.executable).parent}:{self.environment['PATH']}"
        result = self.profile(data, "--accelerator", "pytorch:cpu", "--workload", "squeezenet", "--batch-size", "2", "--accelerators", "2", "--time-budget", "4s")
        settings, ingestion = result["settings"], result["rates"]["G"]
        self.assertEqual((settings["accelerator"], settings["accelerator_name"]), ("pytorch", "pytorch:cpu"))
        self.assertAlmostEqual(ingestion["samples_per_s"], 2 * settings["accelerator_samples_per_s"], delta=1e-6 * ingestion["samples_per_s"])
        self.assertGreater(ingestion["windows"], 0)
        self.assertIn("squeezenet1_0, batches of 2: PyTorch", ingestion["method"])
        self.assertIn("measured-on-cpu", [finding["code"] for finding in result["findings"]])

    def test_a_network_that_pytorch_has_not_is_refused_with_what_to_do(self):
        data = self.photographs()
        self.environment["PATH"] = f"{pathlib.Path(sys.executable).parent}:{self.environment['PATH']}"
        self.assertIn("Pass --workload NAME", self.fails(2, "profile", data, "--accelerator", "pytorch"))
        self.assertIn("none of torchvision's", self.fails(2, "profile", data, "--accelerator", "pytorch", "--workload", "ssd-resnet18"))
        self.assertIn("--accelerator emulated:RATE", self.fails(2, "profile", data, "--accelerator", "pytorch", "--workload", "resnet18", "--partition", "partitioned"))
        self.assertIn("finds no CUDA device", self.fails(1, "profile", data, "--accelerator", "pytorch:cuda", "--workload", "resnet18", "--batch-size", "2"))
        self.environment["PATH"] = str(self.folder)
        self.assertIn("python3", self.fails(2, "profile", data, "--accelerator", "pytorch", "--workload", "resnet18"))

    def test_an_order_that_a_dataset_cannot_have_is_refused_with_what_to_do(self):
        self.assertIn("dataset convert", self.fails(2, "profile", self.photographs(), "--order", "shards"))
        self.assertIn("no shards", self.fails(2, "profile", "emulated:imagenet-1k", "--storage", "emulated:ssd", "--prep", "null", "--order", "shards"))
        self.assertIn("--order sequential or shards", self.fails(2, "profile", self.photographs(), "--shuffle-buffer", "10"))
        self.assertIn("--order shards", self.fails(2, "profile", self.photographs(), "--order", "sequential", "--readers", "2"))

    def test_the_result_says_which_way_was_taken_to_read(self):
        result = self.short(self.photographs(), "--io", "pread")
        self.assertEqual((result["settings"]["io"], result["settings"]["read_mode"]), ("pread", "buffered"))
        run = self.run_program("profile", self.photographs(), "--io", "uring", "--direct", "--batch-size", "8", "--time-budget", "3s", "--runs", "fetch",
                               "--json", "--quiet")
        if run.returncode == 2:  # the kernel, or a container, refuses it
            self.assertIn("--io auto", run.stdout)
        else:
            self.assertIn('"io": "uring"', run.stdout)
            self.assertIn('"read_mode": "direct"', run.stdout)
        result = self.short(self.photographs())
        self.assertIn(result["settings"]["io"], ("pread", "uring"))

    def test_where_the_kernel_refuses_io_uring_auto_reads_by_threads_and_says_so(self):
        data = self.photographs()
        arguments = [PROGRAM, "profile", str(data), "--batch-size", "8", "--time-budget", "4s", "--runs", "fetch", "--json", "--quiet"]

        def run(*more):
            return subprocess.run([*arguments, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment, timeout=60,
                                  check=False, preexec_fn=refuse_io_uring)

        try:
            result = json.loads(run().stdout)
        except subprocess.SubprocessError:
            self.skipTest("this kernel takes no system call filter")
        self.assertEqual(result["settings"]["io"], "pread")
        self.assertIn("io-uring-refused", [finding["code"] for finding in result["findings"]])
        asked = run("--io", "uring")
        self.assertEqual(asked.returncode, 2)
        self.assertIn("--io auto", asked.stdout)

    def test_the_storage_curve_tells_of_the_size_of_requests_and_how_many_are_in_flight(self):
        result = self.profile("emulated:imagenet-1k,samples=500", "--storage", "emulated:hdd", "--prep", "null", "--runs", "fetch", "--batch-size", "16", "--time-budget", "4s")
        self.assertTrue(result["curves"]["S_by_request"])
        for point in result["curves"]["S_by_request"]:
            self.assertTrue(all(point[what] > 0 for what in ("request_bytes", "concurrency", "bytes_per_s")), point)

    def test_cost_aware_admission_holds_more_samples_whose_reads_take_more_of_the_disk_s_time(self):
        results = {}
        for admission in ("first", "cost-aware"):
            results[admission] = self.profile("emulated:imagenet-1k,samples=400", "--storage", "emulated:hdd", "--prep", "null", "--accelerator", "null",
                                              "--cache-size", "35%", "--admit", admission, "--runs", "fetch,full", "--batch-size", "16",
                                              "--time-budget", "12s")
        first, aware = (full_run(results[name])["epochs"][1] for name in ("first", "cost-aware"))
        self.assertGreater(aware["cache_hits"], first["cache_hits"])
        self.assertLess(aware["cache_misses"] * 0.008 + aware["requested_bytes"] / 150e6, first["cache_misses"] * 0.008 + first["requested_bytes"] / 150e6)
        self.assertIn("minio", self.fails(2, "profile", "emulated:imagenet-1k", "--storage", "emulated:hdd", "--prep", "null", "--cache", "lru", "--admit",
                                          "cost-aware"))

    def test_the_page_cache_is_held_to_a_size_where_that_is_permitted(self):
        arguments = ("profile", self.photographs(), "--cache", "page", "--memory-limit", "50%", "--prep", "null", "--accelerator", "null", "--runs", "full",
                     "--batch-size", "8", "--time-budget", "4s", "--quiet", "--json")
        run = self.run_program(*arguments)
        if run.returncode == 1:
            self.assertIn("systemd-run", run.stdout)
        else:
            self.assertIn("page-cache-limited", run.stdout)
            self.assertIn("cannot be held", run.stdout)
        groups = [(group, group.name.split("-")[1]) for group in pathlib.Path("/sys/fs/cgroup").glob("**/dsanalyze-*")]  # Benches have groups, too.
        left = [group for group, process in groups if process.isdigit() and not pathlib.Path("/proc", process).exists()]
        self.assertEqual(left, [])
        self.assertIn("--cache page", self.fails(2, "profile", self.photographs(), "--memory-limit", "50%"))
        self.assertIn("found 0 bytes", self.fails(2, "profile", self.photographs(), "--cache", "page", "--memory-limit", "0B"))

    def test_page_models_stand_in_for_the_page_cache_on_emulated_storage(self):
        for model in ("page-model:linux", "page-model:random"):
            result = self.profile("emulated:imagenet-1k,samples=400", "--storage", "emulated:530MB/s", "--prep", "null", "--accelerator", "null", "--cache",
                                  model, "--cache-size", "50%", "--runs", "full", "--batch-size", "16", "--time-budget", "4s")
            epochs = full_run(result)["epochs"]
            self.assertLess(max(epoch["cache_hits"] for epoch in epochs[1:]), 400 * 0.6)
            self.assertGreater(max(epoch["cache_hits"] for epoch in epochs[1:]), 0)
        self.assertIn("--cache page", self.fails(2, "profile", self.photographs(), "--cache", "page-model:linux"))

    def test_a_stand_in_keeps_batches_whole_and_failures_are_counted_by_cause(self):
        data = self.folder / "damaged"
        self.succeeds("dataset", "make", data, "--samples", "40")
        images = sorted(data.glob("*/*.jpg"))
        images[3].write_bytes(images[3].read_bytes()[:500])
        images[7].write_bytes(b"")
        common = (data, "--batch-size", "10", "--time-budget", "4s", "--subset", "100%", "--error-budget", "50%", "--accelerator", "null",
                  "--runs", "full")
        for what, samples in (("skip", 38), ("substitute", 40)):
            run = full_run(self.profile(*common, "--on-error", what))
            self.assertEqual({epoch["samples"] for epoch in run["epochs"]}, {40})
            causes = {failure["cause"]: failure for failure in run["failures"]}
            self.assertIn("the sample is empty", causes)
            self.assertEqual(len(causes), 2)
            self.assertEqual(sum(failure["count"] for failure in causes.values()), run["samples_failed"])
            self.assertTrue(run["epochs"][0]["digest"].startswith(f"{samples}-"), run["epochs"][0]["digest"])


if __name__ == "__main__":
    unittest.main()
