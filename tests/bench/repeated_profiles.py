"""How often intervals of a profile hold what a further profile of the same configuration measures.

usage: repeated_profiles.py PROGRAM DIR [--runs N] [--pause SECONDS] [--time-budget TIME] [--run-scatter SHARE] [--keep FOLDER] [--json FILE]

DIR is a dataset for real prep (dsanalyze dataset make DIR). N profiles of it are made, each a short one of prep with --time-budget, with pauses between
them. Of each profile but the last the next one is predicted: by P's own interval, which is of what varied within the run, and by that with the scatter
between runs added as `dsanalyze whatif --run-scatter` adds it. --run-scatter is the standard deviation between runs; without it the one that the first
quarter of the runs shows (by the median of the differences of neighbours) is taken, and only the others are counted. --keep FOLDER holds the results:
runs that lie there are counted with the new ones, so that a campaign can be spread over days.
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time


def profile(program, folder, budget, file):
    subprocess.run([program, "profile", folder, "--runs", "prep", "--time-budget", budget, "--quiet", "-o", file], stdout=subprocess.DEVNULL, check=True)


def prep_of(file):
    record = json.loads(file.read_text())
    rate = record["rates"]["P"]
    return {"begun": record.get("started_utc", ""), "rate": rate["samples_per_s"], "low": rate["ci95_samples_per_s"]["low"],
            "high": rate["ci95_samples_per_s"]["high"], "trusted": record["trusted"]}


def scatter_between(rates):
    """Standard deviation between runs, by the median of neighbours' differences: bursts and slow drifts do not count."""
    differences = [abs(math.log(after / before)) for before, after in zip(rates, rates[1:])]
    return statistics.median(differences) / 0.6745 / math.sqrt(2)


def wilson(found, of):
    z, share = 1.96, found / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of)) / (1 + z * z / of)
    return [round(100 * (middle - half), 1), round(100 * (middle + half), 1)]


def covered(runs, scatter):
    """Of neighbours, how often the first one's interval holds the second's rate. Both runs scatter."""
    held = 0
    for before, after in zip(runs, runs[1:]):
        within = (before["high"] - before["low"]) / 2 / before["rate"]
        half = math.hypot(within, 1.96 * math.sqrt(2) * scatter)
        held += abs(after["rate"] / before["rate"] - 1) <= half
    return held


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--pause", type=float, default=0, help="seconds between runs")
    parser.add_argument("--time-budget", default="4s", help="of a profile")
    parser.add_argument("--run-scatter", type=float, help="a share: 0.02")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dsanalyze-repeated-") as temporary:
        folder = options.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for i in range(options.runs):
            profile(options.program, options.folder, options.time_budget, folder / f"{time.time_ns()}.json")
            time.sleep(options.pause)
            if i % 20 == 19:
                print(f"{i + 1} of {options.runs} runs", file=sys.stderr, flush=True)
        runs = [prep_of(file) for file in sorted(folder.glob("*.json"))]
    if len(runs) < 12:
        raise SystemExit(f"{len(runs)} runs are too few: 12 at least")
    scatter = options.run_scatter
    counted = runs
    if scatter is None:
        quarter = len(runs) // 4
        scatter = scatter_between([run["rate"] for run in runs[:quarter]])
        counted = runs[quarter:]
    predictions = len(counted) - 1
    within, between = covered(counted, 0), covered(counted, scatter)
    result = {"runs": len(runs), "first": runs[0]["begun"], "last": runs[-1]["begun"], "trusted": sum(run["trusted"] for run in runs),
              "predictions": predictions, "run_scatter_percent": round(100 * scatter, 2),
              "held_by_own_interval_percent": round(100 * within / predictions, 1), "own_interval": wilson(within, predictions),
              "held_with_run_scatter_percent": round(100 * between / predictions, 1), "with_run_scatter_interval": wilson(between, predictions)}
    for key, value in result.items():
        print(key, value)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
