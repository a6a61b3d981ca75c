"""Less memory for the page cache and a slower disk, for one run of a benchmark. Root and version 1 of cgroups are needed."""
import collections
import os
import pathlib
import threading
import time


class Groups:
    """Cgroups for one run: memory for the page cache beside what the processes hold, or memory for all, and a throttled disk, that on which `folder` lies."""

    def __init__(self, folder, cache_bytes=None, bytes_per_second=None, requests_per_second=None, memory_bytes=None):
        self.cache_bytes, self.folders, self.done = cache_bytes, [], threading.Event()
        if bytes_per_second or requests_per_second:
            group = self.make("blkio")
            device = os.stat(folder).st_dev
            disk = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
            disk = disk.parent if (disk / "partition").exists() else disk
            for unit, most in (("bps", bytes_per_second), ("iops", requests_per_second)):
                if most:
                    (group / f"blkio.throttle.read_{unit}_device").write_text(f"{(disk / 'dev').read_text().strip()} {int(most)}\n")
        if memory_bytes is not None:
            (self.make("memory") / "memory.limit_in_bytes").write_text(str(memory_bytes))
        if cache_bytes is not None:
            self.memory = self.make("memory")
            (self.memory / "memory.limit_in_bytes").write_text(str(4 << 30))
            self.thread = threading.Thread(target=self.follow)
            self.thread.start()

    def make(self, controller):
        group = pathlib.Path("/sys/fs/cgroup", controller, f"dsanalyze-bench-{os.getpid()}")
        group.mkdir()
        self.folders.append(group)
        return group

    def enter(self):
        for group in self.folders:
            (group / "cgroup.procs").write_text(str(os.getpid()))

    def held(self):
        """By the processes themselves, shared memory too, and by the kernel for them."""
        values = dict(line.split() for line in (self.memory / "memory.stat").read_text().splitlines())
        return int(values["total_rss"]) + int(values["total_shmem"]) + int((self.memory / "memory.kmem.usage_in_bytes").read_text())

    def follow(self):
        begin = time.monotonic()
        latest = collections.deque(maxlen=8)  # Batches come and go faster than a limit can follow.
        while not self.done.wait(0.02):
            # So do programs that start; the epochs that are not measured go on for longer.
            latest.append(self.held() if time.monotonic() - begin > 5 else max(self.held(), 1 << 30))
            try:
                (self.memory / "memory.limit_in_bytes").write_text(str(max(latest) + self.cache_bytes))
            except OSError:
                pass

    def close(self):
        self.done.set()
        if self.cache_bytes is not None:
            self.thread.join()
        for group in self.folders:
            for _ in range(100):
                try:
                    group.rmdir()
                    break
                except OSError:
                    time.sleep(0.05)


def cool(paths):
    """Drops files from the page cache."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
