#!/usr/bin/env python3
"""The simulators of two builds, interleaved: how many times as fast the second is, the median of the rounds' ratios and its interval of 95 % (order statistics).

usage: against.py BEFORE AFTER [--rounds N] [--samples N] [--skip epoch|cache]     (folders of builds, each with the target "bench")

Each round runs epoch_simulator_bench and cache_simulator_bench of both, which of them goes first alternates.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile


def epoch_rates(build, _):
    """{configuration: epochs a second}."""
    return {each["set_up"]: 1 / min(each["seconds_an_epoch"]) for each in run(build, "epoch_simulator_bench", "--epochs", "2", "--rounds", "2")}


def cache_rates(build, samples):
    """{policy and share cached: millions of accesses a second}."""
    figures = run(build, "cache_simulator_bench", "--samples", str(samples), "--epochs", "3")
    return {name: max(rates) for name, rates in figures.items() if isinstance(rates, list)}


def run(build, program, *options):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "figures.json"
        subprocess.run([build / "tests" / "bench" / program, *options, "--json", file], check=True, stdout=subprocess.DEVNULL)
        return json.loads(file.read_text())


def interval(ratios):
    """The pair of order statistics that holds the median in at least 95 % of all cases, or the widest pair."""
    ordered, n = sorted(ratios), len(ratios)
    below, chance, choose = 0, 0.0, 1
    while below < (n - 1) // 2:
        chance += choose / 2**n
        if 2 * chance > 0.05:
            break
        choose = choose * (n - below) // (below + 1)
        below += 1
    low = max(below - 1, 0)
    return ordered[low], ordered[n - 1 - low]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=pathlib.Path)
    parser.add_argument("after", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--samples", type=int, default=2_000_000)
    parser.add_argument("--skip", choices=["epoch", "cache"])
    arguments = parser.parse_args()
    measures = {name: measure for name, measure in {"epoch": epoch_rates, "cache": cache_rates}.items() if name != arguments.skip}
    rates = {name: {arguments.before: [], arguments.after: []} for name in measures}
    for number in range(arguments.rounds):
        builds = [arguments.before, arguments.after]
        for build in builds if number % 2 == 0 else reversed(builds):
            for name, measure in measures.items():
                rates[name][build].append(measure(build, arguments.samples))
    for name, of in rates.items():
        print(f"{name} simulator, after / before, {arguments.rounds} rounds")
        for each in of[arguments.before][0]:
            ratios = [after[each] / before[each] for before, after in zip(of[arguments.before], of[arguments.after])]
            low, high = interval(ratios)
            print(f"  {each:<44} {statistics.median(ratios):.3f} [{low:.3f}, {high:.3f}]")
    return 0


if __name__ == "__main__":
    sys.exit(main())
