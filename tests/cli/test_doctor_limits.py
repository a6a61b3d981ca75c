"""The doctor under limits that are real: cgroups, ulimits, affinity. The version of cgroups that this kernel does not have is drawn."""

import os
import re
import resource
import time
import unittest

from doctor_program import DoctorTest

MIB = 1 << 20


def limited(which, soft, hard):
    return lambda: resource.setrlimit(which, (soft, hard))


class DoctorOfLimits(DoctorTest):
    def drawn_group(self, version, files):
        """A cgroup of either version, in files that the program takes for the kernel's."""
        folder = "/sys/fs/cgroup"
        kind, options = ("cgroup2 cgroup2", "rw") if version == 2 else ("cgroup cgroup", "rw,cpu,memory,pids")
        return self.with_files({
            folder: files,
            "/proc/self/cgroup": "0::/\n" if version == 2 else "4:cpu,memory,pids:/\n",
            "/proc/self/mountinfo": f"30 29 0:26 / {folder} rw,relatime - {kind} {options}\n",
        })

    def test_a_quota_of_cpu_time_that_the_workers_exceed_is_found(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("a quota of more than one core, below the CPUs allowed, needs two")
        enter, _ = self.control_group("cpu", {1: {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "150000"}, 2: {"cpu.max": "150000 100000"}})
        self.finds("cpu-quota", "note", "1.5 cores", before=enter, mends="cpu")
        self.finds("cpu-quota", "warning", ("1.5 cores", "2 workers are asked for"), "--workers", 2, before=enter, mends="cpu")
        free, _ = self.control_group("cpu", {1: {"cpu.cfs_quota_us": "-1"}, 2: {"cpu.max": "max"}})
        self.assert_not_found(self.examine("--workers", 2, before=free), "cpu-quota")

    def test_a_group_that_was_stopped_by_its_quota_is_found(self):
        # Before all others, so that the quota stops it on a busy machine too.
        enter, group = self.control_group("cpu", {1: {"cpu.cfs_period_us": "20000", "cpu.cfs_quota_us": "5000", "cpu.shares": "262144"},
                                                  2: {"cpu.max": "5000 20000", "cpu.weight": "10000"}})

        def enter_and_work():
            enter()
            begun = time.monotonic()
            periods, stopped = 0, 0
            while (stopped < 5 or stopped < periods / 2) and time.monotonic() < begun + 30:
                statistics = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
                periods, stopped = int(statistics["nr_periods"]), int(statistics["nr_throttled"])
                sum(range(10000))

        self.finds("cpu-quota", "warning", "it was stopped in ", before=enter_and_work, mends="cpu")

    def test_a_limit_of_memory_that_the_cache_exceeds_is_found(self):
        text = str(256 * MIB)
        enter, _ = self.control_group("memory", {1: {"memory.limit_in_bytes": text}, 2: {"memory.max": text}})
        free, _ = self.control_group("memory", {1: {}, 2: {}})
        large, small = ("--cache-size", "300MiB"), ("--cache-size", "16MiB")
        self.finds("memory-limit", "problem", ("256 MiB", "300 MiB"), *large, before=enter, mends="memory")
        self.assert_not_found(self.examine(*large, before=free), "memory-limit")
        self.finds("memory-limit", "warning", "256 MiB", before=enter, mends="memory")
        self.finds("memory-limit", "note", ("256 MiB", "16 MiB"), *small, before=enter, mends="memory")

    def test_a_limit_of_threads_that_workers_and_readers_exceed_is_found(self):
        enter, _ = self.control_group("pids", {version: {"pids.max": "20"} for version in (1, 2)})
        check = self.finds("threads", "problem", "more (pids.max)", before=enter, mends="pids")["threads"]
        self.assertLess(int(re.search(r"allows (\d+) more", check["found"]).group(1)), 20)
        free, _ = self.control_group("pids", {version: {"pids.max": "max"} for version in (1, 2)})
        self.assert_not_found(self.examine(before=free), "threads")

    def test_both_versions_of_control_groups_are_read(self):
        drawn = {
            1: {"cpu.cfs_quota_us": "50000\n", "cpu.cfs_period_us": "100000\n", "memory.limit_in_bytes": f"{256 * MIB}\n",
                "memory.usage_in_bytes": f"{56 * MIB}\n", "pids.max": "30\n", "pids.current": "7\n"},
            2: {"cpu.max": "50000 100000\n", "memory.max": f"{256 * MIB}\n", "memory.current": f"{56 * MIB}\n", "pids.max": "30\n", "pids.current": "7\n"},
        }
        for version, files in drawn.items():
            with self.subTest(version):
                asked = ("--cache-size", "201MiB", "--workers", 2)
                checks = self.examine_both_ways(*asked, prefix=self.drawn_group(version, files))
                self.assert_found(checks, "cpu-quota", "warning", ("0.5 cores", "2 workers"), mends="cpu")
                self.assert_found(checks, "memory-limit", "problem", ("256 MiB", "200 MiB are left", "201 MiB"), mends="memory")
                self.assert_found(checks, "threads", "problem", "23 more (pids.max)", mends="pids")
                free = {"cpu.cfs_quota_us": "-1\n", "cpu.max": "max 100000\n", "memory.limit_in_bytes": "9223372036854771712\n", "memory.max": "max\n",
                        "pids.max": "max\n"}
                checks = self.examine(*asked, prefix=self.drawn_group(version, {name: free.get(name, text) for name, text in files.items()}))
                for code in ("cpu-quota", "memory-limit", "threads"):
                    self.assert_not_found(checks, code)

    def test_memory_past_which_a_group_is_slowed_down_is_a_limit_too(self):
        files = {"memory.max": "max\n", "memory.high": f"{128 * MIB}\n", "memory.current": f"{28 * MIB}\n"}
        self.finds("memory-limit", "problem", ("128 MiB", "memory.high", "100 MiB are left"), "--cache-size", "101MiB", prefix=self.drawn_group(2, files),
                   mends="memory")
        self.finds("memory-limit", "warning", "100 MiB are left", "--cache-size", "61MiB", prefix=self.drawn_group(2, files), mends="memory")

    def test_a_low_limit_of_open_files_is_found_and_a_high_one_is_not(self):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if hard != resource.RLIM_INFINITY and hard < 4096:
            self.skipTest("the hard limit is low itself")
        self.finds("open-files", "warning", "100 at once", before=limited(resource.RLIMIT_NOFILE, 100, hard), mends="ulimit -n 4096")
        self.finds("open-files", "problem", "40 at once", before=limited(resource.RLIMIT_NOFILE, 40, hard), mends="ulimit -n 4096")
        self.finds("open-files", "warning", "100 at once", before=limited(resource.RLIMIT_NOFILE, 100, 100), mends="nofile")
        checks = self.examine(before=limited(resource.RLIMIT_NOFILE, 1024, hard))
        self.assertEqual((checks["open-files"]["status"], checks["open-files"]["commands"]), ("ok", []))

    def test_a_low_limit_of_locked_memory_is_found_where_the_kernel_counts_rings_by_it(self):
        low = limited(resource.RLIMIT_MEMLOCK, 64 << 10, 64 << 10)
        for release, found in (("5.10.0-8-amd64", True), ("5.12.0", False)):
            with self.subTest(release):
                kernel = self.with_files({"/proc/sys/kernel/osrelease": release + "\n"})
                checks = self.examine_both_ways(before=low, **self.as_other_user(kernel))
                if found:
                    self.assert_found(checks, "locked-memory", "warning", "64 KiB", mends="memlock")
                else:
                    self.assert_not_found(checks, "locked-memory")

    def test_a_low_limit_of_a_users_threads_is_found_and_does_not_bind_root(self):
        other = self.as_other_user()
        self.finds("threads", "warning", "may run 20 (ulimit -u)", before=limited(resource.RLIMIT_NPROC, 20, 4096), mends="ulimit -u 4096", **other)
        self.assert_not_found(self.examine(before=limited(resource.RLIMIT_NPROC, 4096, 4096), **other), "threads")
        self.assert_not_found(self.examine(before=limited(resource.RLIMIT_NPROC, 20, 4096)), "threads")

    def test_fewer_cpus_than_the_machine_has_are_found(self):
        allowed = sorted(os.sched_getaffinity(0))
        if len(allowed) < 2:
            self.skipTest("one CPU cannot be made fewer")
        one = {"before": lambda: os.sched_setaffinity(0, allowed[:1])}
        checks = self.finds("cpu-affinity", "note", "1 of ", mends=("taskset -pc ", "cpu"), **one)
        self.assertEqual(checks["workers"]["status"], "ok")
        checks = self.finds("cpu-affinity", "problem", ("1 of ", "--cores 2 asks for more"), "--cores", 2,
                            mends=("taskset -pc ", "cpu"), **one)
        self.finds("workers", "warning", "2 prep workers on 1 usable core", "--workers", 2, mends="--workers 1", **one)
        both = self.examine("--workers", 2, before=lambda: os.sched_setaffinity(0, allowed[:2]))
        self.assert_not_found(both, "workers")
        self.assert_not_found(both, "cpu-affinity")


if __name__ == "__main__":
    unittest.main()
