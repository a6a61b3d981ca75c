#!/usr/bin/env python3
"""What `dsanalyze whatif --validate` finds on real photographs and a real disk that a cgroup limits: each of cache sizes x cores x accelerator
speeds is predicted from one profile and run. As root, on a machine that does nothing else.

  tests/bench/validate_bench.py PROGRAM FOLDER [--rate BYTES/S] [--accelerator RATE] [--caches LIST] [--cores LIST] [--speeds LIST] [--json FILE]

FOLDER is a dataset of photographs (dsanalyze dataset make FOLDER --samples 3000). The profile is taken in the same cgroup, with 35 % cached on two
cores; the lists are added to that, every combination of them."""
import argparse
import json
import os
import statistics
import tempfile

import bench_tools
from bench_tools import say


def change_of(answer):
    change = answer["change"]
    cache = change.get("cache_fraction")
    return (f"{cache:.0%}" if cache is not None else "35%", f"{change.get('cores', 2):g}", f"{change.get('accelerator_speed', 1):g}x")


def table(result):
    lines = ["| cache | cores | accelerator | min(F, P, G) | predicted | measured | speed | error | interval holds it | binds: predicted, measured |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for answer in sorted(result["answers"], key=change_of):
        measured = answer.get("measured")
        if not measured:
            continue
        cache, cores, speed = change_of(answer)
        verdict = f"{answer['bottleneck']}{'?' if answer['too_close'] else ''}, {measured['bottleneck']}"
        lines.append(f"| {cache} | {cores} | {speed} | {min(answer[rate] for rate in 'FPG'):.0f} | {answer['samples_per_s']:.0f} | "
                     f"{measured['samples_per_s']:.0f} | {measured['speed']:.1%} | {measured['error']:+.1%} | "
                     f"{'yes' if measured['covered'] else 'no'} | {verdict} |")
    return "\n".join(lines)


def summary(validation):
    return (f"{validation['outcome']}: {validation['measured']} configurations, median error {validation['median_error']:.2%}, worst {validation['worst_error']:.2%}; "
            f"{validation['covered_share']:.0%} in their intervals; {validation['verdicts_right']} verdicts right; "
            f"{validation['void_share']:.1%} of the windows void; prep at {validation['speed']['slowest']:.1%} to {validation['speed']['fastest']:.1%} of the "
            f"profile's speed, without which worst {validation['worst_error_as_profiled']:.2%}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("--rate", type=int, default=100 * bench_tools.MEGABYTE)
    parser.add_argument("--accelerator", default="1800")
    parser.add_argument("--caches", default="0%,25%,50%,75%,100%")
    parser.add_argument("--cores", default="1")
    parser.add_argument("--speeds", default="2x")
    parser.add_argument("--budget", default="120s")
    parser.add_argument("--json")
    options = parser.parse_args()
    bench_tools.clean_up_on_signals()
    with bench_tools.throttle(bench_tools.Disk(options.folder), bytes_per_s=options.rate) as group, tempfile.TemporaryDirectory() as folder:
        profile = os.path.join(folder, "profile.json")
        bench_tools.run([options.program, "profile", options.folder, "--accelerator", f"emulated:{options.accelerator}", "--cache-size", "35%", "--subset",
                         "100%", "--time-budget", options.budget, "--quiet", "-o", profile], group)
        answers = os.path.join(folder, "whatif.json")
        bench_tools.run([options.program, "whatif", profile, "--cache-size", options.caches, "--cores", options.cores, "--accelerator-speed",
                         options.speeds, "--all", "--validate", "--quiet", "-o", answers], group, good=(0, 1, 4))
        with open(profile, encoding="utf-8") as file:
            rates = {name: rate and round(rate["samples_per_s"]) for name, rate in json.load(file)["rates"].items()}
        with open(answers, encoding="utf-8") as file:
            result = json.load(file)
    say(f"rates of the profile: {rates}")
    say(table(result))
    say(summary(result["validation"]))
    errors = [abs(answer["measured"]["error"]) for answer in result["answers"] if "measured" in answer]
    say(f"{statistics.fmean(errors):.2%} mean of all errors" if errors else "nothing was measured")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"rates": rates, **result}, file, indent=1)


if __name__ == "__main__":
    main()
