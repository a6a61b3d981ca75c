#!/usr/bin/env python3
"""Predicts from one profile at 35 % cache, then measures the full run at every cache size, and prints both.

usage: cache_sweep.py PROGRAM emulated [--budget SECONDS]
       cache_sweep.py PROGRAM FOLDER [--throttle 100] [--accelerator RATE] [--budget SECONDS]

The emulated form runs three configurations (I/O-, CPU- and GPU-bound at 35 %). With a folder, storage and prep are real; --throttle puts the program under a
cgroup (v1 blkio or v2 io) that limits reads of the folder's disk, where root is permitted to.
"""
import argparse
import json
import os
import subprocess
import sys

SIZES = ["0%", "25%", "35%", "50%", "65%", "80%", "100%"]
SETUPS = {
    # 114 kB samples in front of 530 MB/s: S is about 4,700 samples/s.
    "I/O-bound": ["--prep", "emulated:1000", "--cores", "24", "--accelerator", "emulated:2500", "--accelerators", "8"],
    "CPU-bound": ["--prep", "emulated:250", "--cores", "16", "--accelerator", "emulated:2500", "--accelerators", "8"],
    "GPU-bound": ["--prep", "emulated:1000", "--cores", "24", "--accelerator", "emulated:400", "--accelerators", "8"],
}
EMULATED = ["emulated:imagenet-1k,samples=60000", "--scale", "1:1000", "--storage", "emulated:ssd", "--batch-size", "128"]


class Throttle:
    """A cgroup that limits reads from one disk; a command prefix puts a program into it."""

    def __init__(self, folder, rate):
        device = os.stat(folder).st_dev
        self.number = f"{os.major(device)}:{os.minor(device)}"
        self.rate = rate
        self.group = None

    def __enter__(self):
        if os.path.isdir("/sys/fs/cgroup/blkio"):
            self.group = f"/sys/fs/cgroup/blkio/dsanalyze-sweep-{os.getpid()}"
            os.mkdir(self.group)
            write(self.group + "/blkio.throttle.read_bps_device", f"{self.number} {self.rate}")
        else:
            self.group = f"/sys/fs/cgroup/dsanalyze-sweep-{os.getpid()}"
            os.mkdir(self.group)
            write(self.group + "/io.max", f"{self.number} rbps={self.rate}")
        return self

    def enter_group(self):
        write(self.group + "/cgroup.procs", str(os.getpid()))

    def __exit__(self, *_):
        os.rmdir(self.group)


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def run(arguments, throttle=None):
    done = subprocess.run(arguments, capture_output=True, text=True, preexec_fn=throttle.enter_group if throttle else None)
    if done.returncode not in (0, 4):
        sys.exit(f"{' '.join(arguments)}\n{done.stderr}")
    return json.loads(done.stdout)


def sweep(program, name, what, budget, throttle=None):
    profile = f"/tmp/cache-sweep-{os.getpid()}.json"
    base = run([program, "profile", *what, "--cache-size", "35%", "--time-budget", f"{3 * budget}s", "--json", "--quiet", "-o", profile], throttle)
    predicted = run([program, "whatif", profile, "--cache-size", ",".join(SIZES), "--json"])
    os.unlink(profile)
    rates = {letter: base["rates"][letter]["samples_per_s"] for letter in "GPCS" if base["rates"].get(letter)}
    print(f"\n{name}: " + ", ".join(f"{letter} {rate:,.0f}" for letter, rate in rates.items()) + f"; trusted: {base['trusted']}")
    print(f"{'cache':>6} {'F':>9} {'predicted':>10} {'binds':>6} {'next/lowest':>12} {'measured':>10} {'error':>8} {'hits':>9} {'misses':>8}")
    for answer in predicted["answers"][1:]:
        fraction = answer["change"]["cache_fraction"]
        full = run([program, "profile", *what, "--cache-size", f"{fraction * 100:g}%", "--runs", "full", "--time-budget", f"{budget}s", "--json", "--quiet",
                    "-o", "/dev/null"], throttle)
        record = full["runs"][0]
        measured = record["samples_per_s"]
        ordered = sorted(rate for rate in (answer["F"], answer["P"], answer.get("G")) if rate)
        last = record["epochs"][-1]
        print(f"{fraction:>6.0%} {answer['F']:>9,.0f} {answer['samples_per_s']:>10,.0f} {answer['bottleneck']:>6} {ordered[1] / ordered[0]:>12.2f} {measured:>10,.0f} "
              f"{(answer['samples_per_s'] / measured - 1) * 100:>7.1f}% {last['cache_hits']:>9,} {last['cache_misses']:>8,}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("what")
    parser.add_argument("--throttle", type=int, help="MB/s")
    parser.add_argument("--accelerator", default="3000")
    parser.add_argument("--budget", type=int, default=20)
    options = parser.parse_args()
    if options.what == "emulated":
        for name, setup in SETUPS.items():
            sweep(options.program, name, EMULATED + setup, options.budget)
        return
    what = [options.what, "--accelerator", f"emulated:{options.accelerator}", "--batch-size", "64"]
    if options.throttle:
        with Throttle(options.what, options.throttle * 1_000_000) as throttle:
            sweep(options.program, f"real, {options.throttle} MB/s", what, options.budget, throttle)
    else:
        sweep(options.program, "real", what, options.budget)


if __name__ == "__main__":
    main()
