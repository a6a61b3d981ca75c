"""How fast processes are that read for a part of their samples, from a disk that a cgroup limits: what cycle_rate() is compared with (tests/models/worker_cycle_test.cpp).

usage: limited_reads.py FOLDER [--seconds 12]    as root; FOLDER lies on the disk, and a file of 400 MiB is made there meanwhile

Each process waits for a time scattered around its mean, as if it prepared a sample, and reads 120 KiB past the page cache before it with the given probability.
"""
import argparse
import mmap
import os
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import bench_tools

size = 120 << 10
samples = 3_000
oversleep = 0.00008  # seconds that sleep() takes longer
cases = ((1, 0.002, 0.6, 32), (4, 0.008, 0.55, 32), (2, 0.004, 0.5, 28), (6, 0.012, 0.4, 24))  # processes, seconds of a sample, fraction that is read, MB/s


def samples_of(seed, path, mean, misses, start, seconds):
    drawn = random.Random(seed)
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    memory = mmap.mmap(-1, size)
    time.sleep(max(start - time.monotonic(), 0))
    done = 0
    while time.monotonic() < start + seconds:
        if drawn.random() < misses:
            os.preadv(file, [memory], drawn.randrange(samples) * size)
        time.sleep(max(mean * drawn.uniform(0.5, 1.5) - oversleep, 0))
        done += 1
    return done


def rate(path, group, processes, mean, misses, seconds):
    start = time.monotonic() + 0.5
    ends = []
    for seed in range(processes):
        reading, writing = os.pipe()
        if os.fork() == 0:
            group.enter()
            os.write(writing, str(samples_of(seed, path, mean, misses, start, seconds)).encode())
            os._exit(0)
        os.close(writing)
        ends.append(reading)
    done = 0
    for reading in ends:
        with os.fdopen(reading) as end:
            done += int(end.read())
        os.wait()
    return done / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder', type=pathlib.Path)
    parser.add_argument('--seconds', type=float, default=12)
    arguments = parser.parse_args()
    path = arguments.folder / f'limited-{os.getpid()}.bin'
    try:
        with path.open('wb') as file:
            for _ in range(samples):
                file.write(os.urandom(size))
            os.fsync(file.fileno())
        disk = bench_tools.Disk(arguments.folder)
        for processes, mean, misses, limit in cases:
            with bench_tools.throttle(disk, bytes_per_s=limit * 1_000_000) as group:
                found = rate(path, group, processes, mean, misses, arguments.seconds)
            print(f'{processes} processes, {1000 * mean:g} ms a sample, {misses:.0%} read, {limit} MB/s: {found:.1f} samples/s, at most {limit * 1e6 / size / misses:.1f}', flush=True)
    finally:
        path.unlink(missing_ok=True)


if __name__ == '__main__':
    main()
