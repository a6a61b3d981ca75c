"""How well `dsanalyze profile` keeps its time budget: the wall time beside the budget, allowed is 10 % more.

Usage: time_budget.py DSANALYZE DATASET     (a folder of JPEG files, for example of `dsanalyze dataset make DATASET --samples 2000`)
"""

import subprocess
import sys
import time

ALLOWED = 1.10


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    program, dataset = sys.argv[1:]
    emulated = ["emulated:imagenet-1k,samples=200000", "--preset", "config-ssd-v100", "--workload", "resnet18", "--cache-size", "35%", "--scale", "1:1000"]
    setups = {
        "no accelerator": [dataset],
        "emulated accelerator": [dataset, "--accelerator", "emulated:2000"],
        "all emulated": emulated,
    }
    print(f"{'configuration':<22}{'budget':>8}{'wall':>9}{'ratio':>8}")
    late = 0
    for budget in (5, 20):
        for name, arguments in setups.items():
            begun = time.monotonic()
            subprocess.run([program, "profile", *arguments, "--time-budget", f"{budget}s", "--quiet", "-o", "/dev/null"], stdout=subprocess.DEVNULL, check=True)
            wall = time.monotonic() - begun
            late += wall > ALLOWED * budget
            print(f"{name:<22}{budget:>6} s{wall:>7.2f} s{wall / budget:>8.2f}{'  late' if wall > ALLOWED * budget else ''}")
    sys.exit(f"{late} of 6 took more than {ALLOWED - 1:.0%} longer" if late else 0)


if __name__ == "__main__":
    main()
