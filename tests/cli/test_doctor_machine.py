"""The doctor on machines that are spoiled: other files of /proc, /sys and /dev in a namespace, as the kernel writes them in that condition."""

import ctypes
import os
import pathlib
import re
import resource
import threading
import unittest

from doctor_program import DoctorTest, forbid_io_uring

CLOSED_BY_READER = 0x10
SWAPS = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"


def drawn_machine(**spoiled):
    """A machine without faults and cgroups, of as many CPUs as this one has, as files by place. `spoiled` changes the parts that it names."""
    online = pathlib.Path("/sys/devices/system/cpu/online").read_text()
    cpus = [int(name.name[3:]) for name in pathlib.Path("/sys/devices/system/cpu").glob("cpu[0-9]*")]
    system = {"cpu/online": online, "node/node0/cpulist": online, "clocksource/clocksource0/current_clocksource": "tsc\n",
              "clocksource/clocksource0/available_clocksource": "tsc hpet acpi_pm\n"}
    for cpu in cpus:
        system |= {f"cpu/cpu{cpu}/topology/thread_siblings_list": f"{cpu}\n", f"cpu/cpu{cpu}/cpufreq/scaling_driver": "acpi-cpufreq\n"}
        system |= {f"cpu/cpu{cpu}/cpufreq/scaling_governor": spoiled.get("governor", "performance") + "\n"}
        system |= {f"cpu/cpu{cpu}/cpufreq/{name}_max_freq": f"{spoiled.get(name, 3000000)}\n" for name in ("cpuinfo", "scaling")}
    ticks = f"1000 0 0 1000 0 0 0 {spoiled.get('stolen', 0)} 0 0\n"
    available = spoiled.get("available_kib", 64 << 20)
    devices = {name: "" for name in spoiled.get("devices", ("nvidia0", "nvidiactl", "nvidia-uvm"))}
    bus = {"pci/devices/0000:01:00.0/vendor": "0x10de\n", "pci/devices/0000:01:00.0/class": "0x030200\n"}
    driver = {"nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6 22:20:39 UTC 2023\nGCC version: 12\n"}
    return {
        "/proc/self/mountinfo": "",
        "/proc/self/cgroup": "",
        "/proc/stat": "cpu " + ticks + "".join(f"cpu{cpu} {ticks}" for cpu in cpus),
        "/proc/meminfo": f"MemTotal: {128 << 20} kB\nMemFree: {available} kB\nMemAvailable: {available} kB\nSwapTotal: 0 kB\n",
        "/proc/swaps": SWAPS + spoiled.get("swap", ""),
        "/proc/sys/vm/swappiness": "60\n",
        "/sys/kernel/mm": {"transparent_hugepage/enabled": spoiled.get("huge_pages", "always [madvise] never\n")},
        "/sys/devices/system": system | spoiled.get("system", {}),
        "/proc/driver": driver if spoiled.get("driver", True) else {"rtc": ""},
        "/sys/bus": bus if spoiled.get("bus", True) else {"pci/devices/0000:00:00.0/vendor": "0x8086\n"},
        "/dev": {"null": ""} | devices,
    }


def two_nodes():
    cpus = sorted(os.sched_getaffinity(0))
    return {"node/node0/cpulist": f"{cpus[0]}\n", "node/node1/cpulist": ",".join(map(str, cpus[1:])) + "\n"}


class DoctorOfMachines(DoctorTest):
    def on(self, *arguments, **spoiled):
        return self.examine_both_ways(*arguments, prefix=self.with_files(drawn_machine(**spoiled)))

    def test_a_machine_without_faults_has_no_findings_of_it(self):
        checks = self.on()
        codes = ["workers", "cpu-frequency", "cpu-steal", "memory-for-cache", "swap", "huge-pages", "numa", "gpu"]
        if float(re.search(r"takes (\d+) ns", checks["clock-source"]["found"]).group(1)) < 200:  # the real one, whatever it is called
            codes.append("clock-source")
        self.assertEqual({code: checks[code]["status"] for code in codes}, dict.fromkeys(codes, "ok"))

    def test_every_fault_of_a_machine_is_found_with_its_figure_and_what_mends_it(self):
        checks = self.on(governor="powersave", stolen=50, available_kib=600 << 10, swap="/dev/sda2 partition 8388604 4096 -2\n",
                         huge_pages="always madvise [never]\n", devices=(), system={"clocksource/clocksource0/current_clocksource": "hpet\n"})
        for code, says, mends in (
            ("cpu-frequency", ("powersave", "acpi-cpufreq"), "echo performance | "),
            ("cpu-steal", "4.8 % of the CPU time", None),
            ("memory-for-cache", "600 MiB of 128 GiB", None),
            ("swap", ("8 GiB on /dev/sda2", "4 MiB in use", "swappiness is 60"), "swapoff -a"),
            ("huge-pages", "never", "echo madvise"),
            ("gpu", ("535.54.03", "no /dev/nvidia0"), ("nvidia-modprobe", "gpu")),
            ("clock-source", "hpet", "echo tsc"),
        ):
            with self.subTest(code):
                self.assert_found(checks, code, "warning", says, mends)

    def test_other_faults_of_the_same_parts_are_found(self):
        checks = self.on("--cache-size", "61GiB", "--accelerator", "emulated:400", scaling=1500000, swap="/swap file 1048576 0 -2\n", driver=False, devices=(),
                         system={"clocksource/clocksource0/current_clocksource": "acpi_pm\n", "clocksource/clocksource0/available_clocksource": "acpi_pm\n"})
        for code, status, says, mends in (
            ("cpu-frequency", "warning", "are held below their highest frequency", "cpuinfo_max_freq"),
            ("memory-for-cache", "warning", ("61 GiB", "64 GiB of 128 GiB"), None),
            ("swap", "warning", ("1 GiB on /swap", "0 B in use"), "swapoff -a"),
            ("gpu", "warning", "1 of NVIDIA's on the bus, without a driver", "apt install nvidia-driver"),
            ("clock-source", "warning", "acpi_pm", "dmesg"),
        ):
            with self.subTest(code):
                self.assert_found(checks, code, status, says, mends)

    def test_what_is_worth_knowing_is_a_note(self):
        checks = self.on(governor="schedutil", swap="/swap file 1048576 0 -2\n", driver=False, devices=(), bus=False)
        for code, says, mends in (
            ("cpu-frequency", "schedutil", "echo performance | "),
            ("swap", ("1 GiB on /swap", "0 B in use"), "swapoff -a"),
            ("gpu", "none of NVIDIA's", None),
        ):
            with self.subTest(code):
                self.assert_found(checks, code, "note", says, mends)

    def test_more_than_is_free_for_the_cache_is_a_problem(self):
        checks = self.on("--cache-size", "65GiB")
        self.assert_found(checks, "memory-for-cache", "problem", ("64 GiB of 128 GiB", "65 GiB"))
        self.assertIn("--cache-size 38.4GiB", checks["memory-for-cache"]["fix"])

    def test_several_nodes_and_hyper_threads_are_found(self):
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) < 2:
            self.skipTest("one CPU is of one node, and no thread of another's core")
        checks = self.on("--workers", 1, system=two_nodes())
        self.assert_found(checks, "numa", "warning", "2 nodes", "numactl --cpunodebind=")
        self.assertIn("1 workers fit on node", checks["numa"]["fix"])
        siblings = {f"cpu/cpu{cpu}/topology/thread_siblings_list": f"{cpus[0]},{cpus[1]}\n" for cpu in cpus[:2]}
        checks = self.on("--workers", len(cpus), system=two_nodes() | siblings)
        self.assert_found(checks, "numa", "note", "2 nodes", "numactl --cpunodebind=")
        self.assert_found(checks, "workers", "note", f"which are {len(cpus) - 1} core")

    def test_what_is_stolen_while_the_doctor_watches_is_found(self):
        files = drawn_machine(stolen=10)
        start = files.pop("/proc/stat")
        texts = (start, start.replace(" 1000 0 0 1000 0 0 0 10 ", " 1015 0 0 1000 0 0 0 15 "))
        pipe = self.folder / "stat"
        os.mkfifo(pipe)
        libc = ctypes.CDLL(None, use_errno=True)
        watch = libc.inotify_init1(os.O_CLOEXEC)
        self.addCleanup(os.close, watch)
        self.assertGreaterEqual(libc.inotify_add_watch(watch, bytes(pipe), CLOSED_BY_READER), 0)

        def tell_the_next_text_at_every_look():
            # Two looks for the time stolen, then two for what other processes take.
            for look, text in enumerate((*texts, texts[1], texts[1])):
                if look > 0:
                    os.read(watch, 4096)
                pipe.write_text(text)

        self.assert_not_found(self.on(stolen=10), "cpu-steal")
        process = self.start(prefix=self.with_files(files, f"mount --bind '{pipe}' /proc/stat"))
        writer = threading.Thread(target=tell_the_next_text_at_every_look, daemon=True)
        writer.start()
        self.assert_found(self.checks_of(process), "cpu-steal", "warning", "25 % while watched for 200 ms")
        writer.join()

    def test_hidden_gpus_and_those_of_others_are_found(self):
        self.environment["CUDA_VISIBLE_DEVICES"] = "-1"
        self.assert_found(self.on(), "gpu", "warning", ("1 with driver 535.54.03", "CUDA_VISIBLE_DEVICES=-1"), "unset CUDA_VISIBLE_DEVICES")
        self.environment["CUDA_VISIBLE_DEVICES"] = "0"
        self.assertEqual(self.on()["gpu"]["status"], "ok")
        with self.subTest("the devices are root's"):
            checks = self.examine_both_ways(**self.as_other_user(self.with_files(drawn_machine())))
            self.assert_found(checks, "gpu", "warning", ("/dev/nvidiactl", "Permission denied"), ("usermod", "gpu"))

    def test_in_a_container_limits_are_for_what_starts_it_and_the_kernel_is_for_the_host(self):
        container = {"/run": {".containerenv": "engine=\"podman\"\n"}, "/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup": {"cpu.max": "50000 100000\n"},
                     "/proc/self/mountinfo": "30 29 0:26 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"}
        spoiled = drawn_machine(governor="powersave", huge_pages="always madvise [never]\n", devices=())
        low = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
        checks = self.examine_both_ways(prefix=self.with_files(spoiled | container), before=low)
        commands = {code: (check["commands"][0]["where"], check["commands"][0]["command"]) for code, check in checks.items() if check["commands"]}
        self.assertEqual(self.container, "podman")
        self.assertRegex(commands["cpu-quota"][1], r"^podman run --cpus=\d+ IMAGE$")
        self.assertEqual(commands["open-files"], ("launch", "podman run --ulimit nofile=4096:4096 IMAGE"))
        self.assertEqual(commands["gpu"], ("launch", "podman run --gpus all IMAGE"))
        self.assertEqual(commands["huge-pages"], ("host", "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"))
        self.assertEqual(commands["cpu-frequency"][0], "host")

    def test_a_kernel_that_forbids_io_uring_is_found_and_where_it_is_allowed_again(self):
        prefix = self.with_files({"/proc/sys/kernel/io_uring_disabled": "2\n"})
        self.assert_found(self.examine_both_ways(before=forbid_io_uring, prefix=prefix), "io-uring", "note", "refused", "sysctl kernel.io_uring_disabled=0")


if __name__ == "__main__":
    unittest.main()
