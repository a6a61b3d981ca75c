"""How fast processes are that read for a part of their samples, from a disk that a cgroup limits: what a path is compared with (tests/models/path_test.cpp).

usage: limited_reads.py FOLDER [--seconds 12]    as root; FOLDER lies on the disk, and a file of 400 MiB is made there meanwhile

Each process waits for a time scattered around its mean, as if it prepared a sample. Before it, with the given probability, it reads a sample past the page cache, in requests of 120 KiB.
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

request = 120 << 10
file_requests = 3_000
oversleep = 0.00008  # seconds that sleep() takes longer
# Processes, seconds of a sample, fraction that is read, MB/s, requests of a sample.
cases = (
    (1, 0.002, 0.6, 32, 1), (4, 0.008, 0.55, 32, 1), (2, 0.004, 0.5, 28, 1), (6, 0.012, 0.4, 24, 1),
    (1, 0.1, 1, 10, 12), (1, 0.25, 1, 100, 200), (1, 0.15, 1, 1, 1), (3, 0.3, 1, 10, 12),
)


def samples_of(seed, path, mean, misses, requests, start, seconds):
    drawn = random.Random(seed)
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    memory = mmap.mmap(-1, request)
    time.sleep(max(start - time.monotonic(), 0))
    done = 0
    while time.monotonic() < start + seconds:
        if drawn.random() < misses:
            first = drawn.randrange(file_requests - requests + 1)
            for each in range(first, first + requests):
                os.preadv(file, [memory], each * request)
        time.sleep(max(mean * drawn.uniform(0.5, 1.5) - oversleep, 0))
        done += 1
    return done


def rate(path, group, processes, mean, misses, requests, seconds):
    start = time.monotonic() + 0.5
    ends = []
    for seed in range(processes):
        reading, writing = os.pipe()
        if os.fork() == 0:
            group.enter()
            os.write(writing, str(samples_of(seed, path, mean, misses, requests, start, seconds)).encode())
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
            for _ in range(file_requests):
                file.write(os.urandom(request))
            os.fsync(file.fileno())
        disk = bench_tools.Disk(arguments.folder)
        for processes, mean, misses, limit, requests in cases:
            with bench_tools.throttle(disk, bytes_per_s=limit * 1_000_000) as group:
                found = rate(path, group, processes, mean, misses, requests, arguments.seconds)
            size = requests * request
            print(f'{processes} processes, {1000 * mean:g} ms a sample of {size >> 10} KiB, {misses:.0%} read, {limit} MB/s: {found:.2f} samples/s, '
                  f'at most {limit * 1e6 / size / misses:.1f}', flush=True)
    finally:
        path.unlink(missing_ok=True)


if __name__ == '__main__':
    main()
