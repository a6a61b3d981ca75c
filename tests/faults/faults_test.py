"""Lets the Nth system call of a run fail, for every call and every N: the result is the same, or samples are missing and named, or the run ends with
one line that says why. Never a hang, a crash, a wrong byte, a file left behind.

usage: faults_test.py PROBE FAIL_NTH_LIBRARY IMAGES_FOLDER
"""

import concurrent.futures
import dataclasses
import errno
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

PROBE, LIBRARY, IMAGES = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
SECONDS = 20
AT_ONCE = 2
ALLOCATIONS_TRIED = 40

# What each call may fail with. Marked with "=": comes and goes, or does not matter, so the result must be the same.
FAULTS = {
    "open": "EMFILE EIO =EINTR", "openat": "EMFILE EIO =EINTR", "fopen": "EMFILE", "read": "EIO end =EINTR =short", "pread": "EIO end =EINTR =short",
    "preadv2": "EIO end =EINTR =EAGAIN =short", "write": "ENOSPC", "pwrite": "ENOSPC", "fsync": "EIO", "linkat": "EIO", "rename": "EIO",
    "fstat": "EIO", "stat": "EIO", "lstat": "EIO", "fstatat": "EIO", "fdopendir": "ENOMEM", "readdir": "EIO", "mmap": "ENOMEM", "ftruncate": "ENOSPC",
    "memfd_create": "EMFILE", "fcntl": "EPERM", "fadvise": "=EINVAL", "madvise": "=EINVAL", "eventfd": "EMFILE", "pthread_create": "EAGAIN",
    "uring_init": "ENOMEM EPERM", "uring_register_files": "ENOMEM", "uring_register_update": "ENOMEM", "uring_register": "EINVAL",
    "uring_submit": "=EINTR =EAGAIN", "uring_wait": "=EINTR =EAGAIN", "uring_open": "EMFILE EIO =EINTR", "uring_read": "EIO end =EINTR =EAGAIN =short",
    "malloc": "ENOMEM",
}


@dataclasses.dataclass(frozen=True)
class Run:
    """What the probe said."""
    code: int
    samples: dict
    failed: tuple
    failures: int
    error: str
    problem: str  # of its form; empty when it has none


def parse(code, output, error):
    samples, failed, failures, problem = {}, [], -1, ""
    for line in output.splitlines():
        words = line.split(" ")
        if words[0] == "sample":
            key = (words[1], words[2])
            if key in samples:
                problem = f"{key} came twice"
            samples[key] = words[3]
        elif words[0] == "failed":
            failed.append(line[len("failed "):])
        elif words[0] == "end":
            failures = int(words[1])
    if code not in (0, 1):
        problem = f"ended with {code}: {error.strip()[-500:]}"
    if code == 1 and not (error.startswith("error: ") and error.count("\n") == 1 and len(error) > 20):
        problem = f"failed without one line that says why: {error!r}"
    return Run(code, samples, tuple(failed), failures, error.strip(), problem)


class Way:
    """One way of reading one dataset, in a folder of its own."""

    def __init__(self, folder, dataset, engine, cache, order, writes_index=False):
        self.name = f"{dataset.name} {engine} {cache} {order}" + (" index" if writes_index else "")
        self.arguments = [str(dataset), engine, cache, order]
        self.dataset = dataset
        self.folder = folder
        self.writes_index = writes_index

    def run(self, number, fault=None):
        """(Run, counts of calls)."""
        place = self.folder / f"run-{number}"
        for name in ("tmp", "cache", "index"):
            (place / name).mkdir(parents=True)
        environment = {**os.environ, "LD_PRELOAD": str(LIBRARY), "TMPDIR": str(place / "tmp"), "XDG_CACHE_HOME": str(place / "cache"), "FAIL_NTH": fault or ""}
        if not fault:
            environment["FAIL_NTH_COUNTS"] = str(place / "counts")
        arguments = self.arguments + ([str(place / "index" / "x.dsidx")] if self.writes_index else [])
        try:
            done = subprocess.run([PROBE, *arguments], capture_output=True, text=True, env=environment, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL)
            run = parse(done.returncode, done.stdout, done.stderr)
        except subprocess.TimeoutExpired:
            run = Run(-1, {}, (), 0, "", f"hung for {SECONDS} s")
        left = [str(path.relative_to(place)) for path in place.rglob("*") if path.is_file() and path.name not in ("counts", "x.dsidx")]
        if left:
            run = dataclasses.replace(run, problem=f"left behind: {left}")
        counts = {}
        if (place / "counts").exists():
            counts = {name: int(count) for name, count in (line.split() for line in (place / "counts").read_text().splitlines())}
        shutil.rmtree(place)
        return run, counts


def judge(run, whole, must_be_same):
    """What is wrong with a run in which something failed; empty when nothing is."""
    if run.problem:
        return run.problem
    if run.code == 1:
        return f"failed although what failed comes and goes: {run.error}" if must_be_same else ""
    wrong = [key for key, digest in run.samples.items() if whole.samples.get(key) != digest]
    if wrong:
        return f"wrong bytes: {wrong}"
    missing = len(whole.samples) - len(run.samples)
    if missing != run.failures - whole.failures:
        return f"{missing} samples are missing and {run.failures} are said to have failed"
    if missing and not set(run.failed) - set(whole.failed):
        return "samples are missing and none is named"
    if missing and must_be_same:
        return f"samples are missing although what failed comes and goes: {run.failed}"
    return ""


def faults_of(counts, allocations):
    """(call, number, what, whether the result must be the same)"""
    for call, whats in FAULTS.items():
        count = counts.get(call, 0) if call != "malloc" or allocations else 0
        numbers = range(1, count + 1)
        if call == "malloc":
            numbers = range(1, count + 1, max(1, count // ALLOCATIONS_TRIED))
        for number in numbers:
            for what in whats.split():
                bare = what.lstrip("=")
                yield call, number, str(getattr(errno, bare, bare)), what.startswith("=")


class Faults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="dsanalyze-faults-")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        images = {name: (IMAGES / name).read_bytes() for name in ("jpeg/20.jpg", "jpeg/21.jpg", "png/8.png", "png/14.png", "webp/0.webp")}
        # libwebp 1.2 ends the process when its allocations fail, so it is not in the shards, where they do.
        cls.pictures = cls.folder / "folder"
        for number, (name, content) in enumerate(images.items()):
            path = cls.pictures / f"class-{number % 2}" / pathlib.Path(name).name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        cls.shards = cls.folder / "tar"
        cls.shards.mkdir()
        for shard in range(2):
            with tarfile.open(cls.shards / f"{shard}.tar", "w") as tar:
                for number, (name, content) in enumerate(list(images.items())[shard:shard + 2]):
                    info = tarfile.TarInfo(f"{number}{pathlib.Path(name).suffix}")
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
        header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (5, 40), }".ljust(117) + b"\n"
        cls.rows = cls.folder / "rows.npy"
        cls.rows.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(range(200)))

    def check(self, dataset, engine, cache, order, writes_index=False, allocations=True):
        way = Way(self.folder, dataset, engine, cache, order, writes_index)
        before = sorted(str(path) for path in dataset.rglob("*"))
        whole, counts = way.run(0)
        if engine.startswith("uring") and whole.code == 1 and "io_uring cannot be used" in whole.error:
            self.skipTest(whole.error)
        self.assertEqual((whole.code, whole.problem, whole.failures), (0, "", 0), whole.error)
        self.assertEqual(len(whole.samples), 2 * (4 if dataset == self.shards else 5))
        tried = list(faults_of(counts, allocations))
        self.assertGreater(len(tried), 50)
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            runs = list(pool.map(lambda job: way.run(job[0] + 1, ":".join(map(str, job[1][:3])))[0], enumerate(tried)))
        wrong = [f"{way.name}: {call} {number} {what}: {problem}" for (call, number, what, same), run in zip(tried, runs) if (problem := judge(run, whole, same))]
        ends = {"identical": 0, "samples missing": 0, "error": 0}
        for run in runs:
            ends["error" if run.code == 1 else "identical" if len(run.samples) == len(whole.samples) else "samples missing"] += 1
        print(f"{way.name}: {len(runs)} faults: {ends}")
        if os.environ.get("DSANALYZE_FAULTS_SHOW"):
            for message in sorted({run.error for run in runs if run.code == 1} | {name for run in runs for name in run.failed}):
                print("   ", message)
        self.assertEqual(before, sorted(str(path) for path in dataset.rglob("*")), "the dataset is as it was")
        self.assertFalse(wrong, "\n" + "\n".join(wrong))

    def test_a_folder_of_images_read_by_threads(self):
        self.check(self.pictures, "threads", "minio", "random", allocations=False)

    def test_a_folder_of_images_read_by_io_uring(self):
        self.check(self.pictures, "uring", "minio", "random", allocations=False)

    def test_tar_shards_read_by_threads(self):
        self.check(self.shards, "threads", "minio", "shards")

    def test_tar_shards_read_by_io_uring(self):
        self.check(self.shards, "uring", "lru", "shards")

    def test_an_array_by_an_index_file(self):
        self.check(self.rows, "threads", "minio", "sequential", writes_index=True)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
