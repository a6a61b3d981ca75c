#!/usr/bin/env python3
"""The benches of two builds, interleaved: how many times as fast the second is, the median of the rounds' ratios and its interval of 95 % (order statistics).

usage: against.py BEFORE AFTER [--rounds N] [--samples N] [--only LIST] [--photos FOLDER]     (folders of builds, each with the target "bench")

epoch, cache   the simulators: epoch_simulator_bench, cache_simulator_bench
loader         the loader's own cost: loader_bench overhead
handover       between two jobs: staging_bench control
prep, fetch    of the photographs in FOLDER: prep_bench, and fetch_bench with cold files

In each round every bench runs in both builds; which of them goes first alternates.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile


def epoch_rates(build, _):
    """{configuration: epochs a second}."""
    return {each["set_up"]: 1 / min(each["seconds_an_epoch"]) for each in run(build, "epoch_simulator_bench", "--epochs", "2", "--rounds", "2")}


def cache_rates(build, arguments):
    """{policy and share cached: millions of accesses a second}."""
    figures = run(build, "cache_simulator_bench", "--samples", str(arguments.samples), "--epochs", "3")
    return {name: max(rates) for name, rates in figures.items() if isinstance(rates, list)}


def loader_rates(build, _):
    """{cache, batch size and workers: samples a nanosecond}."""
    figures = run(build, "loader_bench", "overhead", "--seconds", "8")
    return {f"{each['cache']}, batch {each['batch']}, {each['workers']} workers": 1 / statistics.median(each["nanoseconds"]) for each in figures}


def handover_rates(build, _):
    said = said_by(build, "staging_bench", "control", "--jobs", "2", "--seconds", "3", "--rounds", "1")
    return {"two jobs": 1 / float(re.search(r"jobs: ([\d.]+)", said)[1])}


def prep_rates(build, arguments):
    return {"one thread": 1 / float(said_by(build, "prep_bench", photos_of(arguments), "--one-round").split()[0])}


def fetch_rates(build, arguments):
    said = said_by(build, "fetch_bench", photos_of(arguments), "uring:32", "--rounds", "1", "--samples", "1500")
    return {"cold, uring:32": json.loads(said.strip().splitlines()[-1])[0]["samples_per_s"]}


def photos_of(arguments):
    if arguments.photos is None:
        sys.exit("against.py: prep and fetch need --photos FOLDER")
    return arguments.photos


def said_by(build, program, *options):
    return subprocess.run([build / "tests" / "bench" / program, *options], check=True, capture_output=True, text=True).stdout


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
    parser.add_argument("--only", default="epoch,cache")
    parser.add_argument("--photos", type=pathlib.Path)
    arguments = parser.parse_args()
    known = {"epoch": epoch_rates, "cache": cache_rates, "loader": loader_rates, "handover": handover_rates, "prep": prep_rates, "fetch": fetch_rates}
    if unknown := [name for name in arguments.only.split(",") if name not in known]:
        parser.error(f"--only: {', '.join(unknown)} is not known; known are {', '.join(known)}")
    measures = {name: known[name] for name in arguments.only.split(",")}
    rates = {name: {arguments.before: [], arguments.after: []} for name in measures}
    for number in range(arguments.rounds):
        builds = [arguments.before, arguments.after]
        for build in builds if number % 2 == 0 else reversed(builds):
            for name, measure in measures.items():
                rates[name][build].append(measure(build, arguments))
    for name, of in rates.items():
        print(f"{name}, after / before, {arguments.rounds} rounds")
        for each in of[arguments.before][0]:
            ratios = [after[each] / before[each] for before, after in zip(of[arguments.before], of[arguments.after])]
            low, high = interval(ratios)
            print(f"  {each:<44} {statistics.median(ratios):.3f} [{low:.3f}, {high:.3f}]")
    return 0


if __name__ == "__main__":
    sys.exit(main())
