#!/usr/bin/env python3
"""What the age of the kernel's counters does to a page cache: misses of files read whole in a new order each epoch, in a memory cgroup.

usage: kernel_counters_bench.py [--files 4000] [--epochs 20] [--sizes 65,50,35,25] [--scratch FOLDER]

Needs root. Reading memory.stat makes the kernel add up a group's counters, which it otherwise does every two seconds; reclaim decides by them. Once after
every 20 files, or once an epoch: in turns. Misses are /proc/self/io's bytes from the seventh epoch on, over those of all files; the cached share is the group's own count
at the end of these epochs.
"""
import argparse
import json
import os
import random
import shutil
import statistics
import tempfile

from bench_tools import ControlGroup, clean_up_on_signals, read, say

FILE_BYTES = 27 * 4096
SPARE_BYTES = 12 << 20  # this program, and the kernel's own memory for so many files
FIRST_STEADY = 6


def make_files(folder, count):
    content = os.urandom(FILE_BYTES)
    for number in range(count):
        with open(f"{folder}/{number}", "wb") as file:
            file.write(content)
    os.sync()


def forget_pages(folder, count):
    for number in range(count):
        descriptor = os.open(f"{folder}/{number}", os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def bytes_read():
    return int(next(line.split()[1] for line in read("/proc/self/io").splitlines() if line.startswith("read_bytes")))


def cached_bytes(group):
    """Reads the group's counters, which makes them fresh."""
    fields = dict(line.split() for line in read(f"{group.folder}/memory.stat").splitlines())
    return int(fields["inactive_file"]) + int(fields["active_file"])


def run_epochs(folder, count, epochs, group, every):
    """(misses, cached share) of each epoch."""
    order = list(range(count))
    shuffle = random.Random(1).shuffle
    found = []
    for _ in range(epochs):
        shuffle(order)
        before = bytes_read()
        for at, number in enumerate(order):
            if every and at % every == 0:
                cached_bytes(group)
            descriptor = os.open(f"{folder}/{number}", os.O_RDONLY | os.O_NOATIME)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
            os.read(descriptor, FILE_BYTES)
            os.close(descriptor)
        found.append(((bytes_read() - before) / (count * FILE_BYTES), cached_bytes(group) / (count * FILE_BYTES)))
    return found


def in_group(folder, count, epochs, size, every):
    """In a process of its own, whose pages alone the group counts."""
    limit = str(count * FILE_BYTES * size // 100 + SPARE_BYTES)
    with ControlGroup("memory", [("memory.limit_in_bytes", limit)], [("memory.max", limit)]) as group:
        end, start = os.pipe()
        child = os.fork()
        if child == 0:
            group.enter()
            os.write(start, json.dumps(run_epochs(folder, count, epochs, group, every)).encode())
            os._exit(0)
        os.close(start)
        with os.fdopen(end) as pipe:
            found = json.load(pipe)
        os.waitpid(child, 0)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=4000)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--sizes", default="65,50,35,25")
    parser.add_argument("--scratch", default=None)
    options = parser.parse_args()
    clean_up_on_signals()
    folder = tempfile.mkdtemp(prefix="dsanalyze-counters-", dir=options.scratch)
    try:
        make_files(folder, options.files)
        for size in (int(size) for size in options.sizes.split(",")):
            for every, name in ((20, "fresh"), (0, "an epoch old")):
                forget_pages(folder, options.files)
                epochs = in_group(folder, options.files, options.epochs, size, every)
                steady = epochs[FIRST_STEADY:]
                say(f"{size} %, counters {name}: cached {statistics.mean(cached for _, cached in steady):.3f}, misses {statistics.mean(miss for miss, _ in steady):.3f}; "
                    f"each epoch {' '.join(f'{miss:.3f}' for miss, _ in epochs)}")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
