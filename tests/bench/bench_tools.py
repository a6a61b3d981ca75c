"""What the measuring scripts here have in common: cgroups, devices' counters, profiles, rounds and their medians."""
import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

MEGABYTE = 1_000_000


def clean_up_on_signals():
    """Makes a termination what an interrupt is, so that every `with` gives back what it took."""

    def stop(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGHUP, stop)


def say(text=""):
    print(text, flush=True)


class Failure(Exception):
    """What was to hold does not."""


def require(holds, what):
    if not holds:
        raise Failure(what)


def campaign_parser(text, count):
    """Of a script that does something once for each of `count` seeds, from a program's path on."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--lines", type=argparse.FileType("a"))
    return parser


def seeds_of(arguments):
    return range(arguments.seed, arguments.seed + arguments.count)


def keep_line(arguments, line):
    """In the file that --lines names, if any."""
    if arguments.lines:
        arguments.lines.write(json.dumps(line) + "\n")
        arguments.lines.flush()


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().strip()


class Disk:
    """The whole disk under a path: a partition has no limits and counters of its own in a cgroup."""

    def __init__(self, path):
        device = os.stat(path).st_dev
        self.number = f"{os.major(device)}:{os.minor(device)}"
        self.folder = os.path.realpath(f"/sys/dev/block/{self.number}")
        if os.path.exists(self.folder + "/partition"):
            self.folder = os.path.dirname(self.folder)
            self.number = read(self.folder + "/dev")
        if not os.path.exists(self.folder + "/stat"):
            sys.exit(f"{path}: no block device lies under it ({self.number}); give a --scratch folder on a local disk")

    def counters(self):
        """(requests, bytes) that the device has read so far, for whomever."""
        fields = read(self.folder + "/stat").split()
        return int(fields[0]), int(fields[2]) * 512

    def describe(self):
        parts = [os.path.basename(self.folder)]
        scheduler = re.search(r"\[(.+?)\]", read(f"{self.folder}/queue/scheduler"))
        if scheduler:
            parts.append(f"scheduler {scheduler[1]}")
        for name, unit in (("queue/max_sectors_kb", " KiB a request at most"), ("queue/read_ahead_kb", " KiB of read-ahead")):
            if os.path.exists(f"{self.folder}/{name}"):
                parts.append(read(f"{self.folder}/{name}") + unit)
        return ", ".join(parts)


class ControlGroup:
    """A cgroup of its own for the programs that are started in it; removed whatever happens."""

    def __init__(self, controller, v1_limits=(), v2_limits=()):
        self.limits = v1_limits
        root = f"/sys/fs/cgroup/{controller}"
        if not os.path.isdir(root):
            root, self.limits = "/sys/fs/cgroup", v2_limits
        self.folder = f"{root}/dsanalyze-bench-{os.getpid()}-{time.monotonic_ns()}"

    def __enter__(self):
        os.mkdir(self.folder)
        try:
            for file, text in self.limits:
                write(f"{self.folder}/{file}", text)
        except BaseException:
            os.rmdir(self.folder)
            raise
        return self

    def enter(self):
        """For a child, between fork and exec."""
        write(self.folder + "/cgroup.procs", str(os.getpid()))

    def read_totals(self, disk):
        """(requests, bytes) that programs in this group have read from the disk so far, as its throttle counted them."""
        if os.path.exists(self.folder + "/io.stat"):
            fields = next((line.split()[1:] for line in read(self.folder + "/io.stat").splitlines() if line.startswith(disk.number + " ")), [])
            counted = dict(field.split("=") for field in fields)
            return int(counted.get("rios", 0)), int(counted.get("rbytes", 0))
        lines = [read(f"{self.folder}/blkio.throttle.{name}").splitlines() for name in ("io_serviced", "io_service_bytes")]
        return tuple(next((int(line.split()[2]) for line in each if line.startswith(f"{disk.number} Read")), 0) for each in lines)

    def memory_peak(self):
        """The most that the group held: processes' memory, shared memory, and pages of files that were not dropped yet."""
        for name in ("memory.max_usage_in_bytes", "memory.peak"):
            if os.path.exists(f"{self.folder}/{name}"):
                return int(read(f"{self.folder}/{name}"))
        return 0

    def __exit__(self, *_):
        for _ in range(100):
            # Only children of ours are ever in there.
            for process in read(self.folder + "/cgroup.procs").split():
                try:
                    os.kill(int(process), signal.SIGKILL)
                except ProcessLookupError:
                    pass
            try:
                os.rmdir(self.folder)
                return
            except OSError:
                time.sleep(0.05)
        say(f"the cgroup {self.folder} could not be removed")


def throttle(disk, bytes_per_s=0, requests_per_s=0):
    """A group whose reads of the disk are limited (v1 blkio, or v2 io)."""
    v1, v2 = [], []
    if bytes_per_s:
        v1.append(("blkio.throttle.read_bps_device", f"{disk.number} {bytes_per_s}"))
        v2.append(("io.max", f"{disk.number} rbps={bytes_per_s}"))
    if requests_per_s:
        v1.append(("blkio.throttle.read_iops_device", f"{disk.number} {requests_per_s}"))
        v2.append(("io.max", f"{disk.number} riops={requests_per_s}"))
    return ControlGroup("blkio", v1, v2)


def run(arguments, group=None, good=(0,), watch=None):
    """The standard output of a program that is started in `group`; `watch(process)` is called now and then while it runs."""
    arguments = [str(argument) for argument in arguments]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=group.enter if group else None) as process:
        try:
            while True:
                try:
                    output, errors = process.communicate(timeout=0.1 if watch else None)
                    break
                except subprocess.TimeoutExpired:
                    watch(process)
        except BaseException:
            # Asked first: the program then takes away the cgroup that it has made for itself.
            process.terminate()
            try:
                process.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
    if process.returncode not in good:
        raise RuntimeError(f"{' '.join(arguments)}: exit {process.returncode}\n{output[-500:]}\n{errors[-2000:]}")
    return output


def profile(program, arguments, group=None, watch=None):
    """The record of `dsanalyze profile`."""
    return json.loads(run([program, "profile", *arguments, "--json", "--quiet", "-o", "/dev/null"], group, good=(0, 4), watch=watch))


def run_of(record, name):
    return next(each for each in record["runs"] if each["name"] == name)


def resident_peak(process):
    """Peak of resident memory, shared segments counted, of a running process; 0 when it has gone."""
    try:
        for line in read(f"/proc/{process.pid}/status").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def ratios(above, below):
    return [a / b for a, b in zip(above, below)]


def spread(rounds, form="{:.3f}"):
    """Median and range of the rounds."""
    return f"{form.format(statistics.median(rounds))} [{form.format(min(rounds))}, {form.format(max(rounds))}]"


class Datasets:
    """The datasets that the measurements read, made in a scratch folder when first asked for."""

    def __init__(self, program, scratch, samples):
        self.program = program
        self.scratch = scratch
        self.samples = samples
        # Indexes are kept here, not in the user's cache, and made in advance: listing shards anew takes a request for each sample under a disk's limit.
        os.environ["XDG_CACHE_HOME"] = os.path.join(scratch, "cache")
        os.environ["XDG_STATE_HOME"] = os.path.join(scratch, "state")

    def folder(self):
        """JPEG files of about 120 KB."""
        return self._made("folder", lambda path: [self.program, "dataset", "make", path, "--samples", self.samples, "--quiet"])

    def tar(self):
        """The same in shards, samples in random order."""
        source = self.folder()
        return self._made("tar", lambda path: [self.program, "dataset", "convert", source, path, "--to", "tar", "--shard-size", "128MiB", "--quiet"])

    def small(self):
        """A few hundred of them: what stays in any page cache."""
        return self._made("small", lambda path: [self.program, "dataset", "make", path, "--samples", 300, "--quiet"])

    def _made(self, name, command):
        path = os.path.join(self.scratch, f"{name}-{self.samples}")
        if not os.path.isdir(path):
            say(f"making {path}")
            try:
                run(command(path))
                run([self.program, "dataset", "index", path, "--quiet"])
                os.sync()
            except BaseException:
                shutil.rmtree(path, ignore_errors=True)
                raise
        return path


def describe_machine(disk, scratch):
    """One line for a table's head."""
    model = next((line.split(":", 1)[1].strip() for line in read("/proc/cpuinfo").splitlines() if line.startswith("model name")), "unknown CPU")
    memory = int(next(line.split()[1] for line in read("/proc/meminfo").splitlines() if line.startswith("MemTotal"))) / (1 << 20)
    generations = "/sys/kernel/mm/lru_gen/enabled"
    lists = "multi-generational" if os.path.exists(generations) and int(read(generations), 16) & 1 else "classic, two lists"
    filesystem = max((line.split() for line in read("/proc/mounts").splitlines() if os.path.realpath(scratch).startswith(line.split()[1])),
                     key=lambda fields: len(fields[1]))[2]
    groups = "v1" if os.path.isdir("/sys/fs/cgroup/blkio") else "v2"
    fio = run(["fio", "--version"]).strip() if shutil.which("fio") else "no fio"
    return (f"{os.cpu_count()} cores ({model}), {memory:.1f} GiB; disk {disk.describe()}; {filesystem}; Linux {os.uname().release}, page replacement: {lists}; "
            f"cgroups {groups}; {fio}; {time.strftime('%Y-%m-%d')}")
