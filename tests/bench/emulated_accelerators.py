#!/usr/bin/env python3
"""Measures G of emulated accelerators by `profile --runs synthetic` and compares it with their nominal rate.

usage: emulated_accelerators.py PROGRAM
"""
import json
import subprocess
import sys

BATCH = 64


def measure(program, step_seconds, accelerators, mode):
    rate = BATCH / step_seconds
    budget = max(4, 25 * step_seconds)
    command = [program, "profile", "emulated:imagenet-1k,samples=20000", "--scale", "1:1000", "--storage", "null", "--prep", "null",
               "--accelerator", f"emulated:{rate}", "--accelerators", str(accelerators), "--batch-size", str(BATCH), "--step", mode,
               "--runs", "synthetic", "--time-budget", f"{budget}s", "--json", "--quiet", "-o", "/dev/null"]
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return result["rates"]["G"]["samples_per_s"], rate * accelerators, result["rates"]["G"]["windows"]


def main():
    program = sys.argv[1]
    print(f"{'step':>8} {'accelerators':>13} {'mode':>12} {'nominal':>10} {'measured':>10} {'off':>8} {'iterations':>11}")
    for step_seconds in (0.002, 0.01, 0.1, 1.0):
        for accelerators in (1, 8):
            for mode in ("lockstep", "independent"):
                measured, nominal, iterations = measure(program, step_seconds, accelerators, mode)
                print(f"{step_seconds * 1000:>6.0f}ms {accelerators:>13} {mode:>12} {nominal:>10.1f} {measured:>10.1f} "
                      f"{(measured / nominal - 1) * 100:>7.2f}% {iterations:>11}")


if __name__ == "__main__":
    main()
