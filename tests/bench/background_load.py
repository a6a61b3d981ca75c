"""How often a profile has a verdict while other processes take a share of every core.

usage: background_load.py PROGRAM DIR [--share SHARE] [--runs N] [--time-budget TIME] [--json FILE]

DIR is a dataset for real prep (dsanalyze dataset make DIR). Beside each profile, a process on each core takes SHARE of each 100 ms of CPU time,
also where it has to wait for it. Counted are the
profiles that are trusted, name a bottleneck, and say what other processes took (finding "other-processes"), with how much they say.
"""

import argparse
import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

BUSY = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
while True:
    begin = time.perf_counter()
    used = time.process_time()
    while time.process_time() - used < 0.1 * float(sys.argv[2]): pass
    time.sleep(max(0, begin + 0.1 - time.perf_counter()))
"""


def profile(program, folder, budget, file):
    run = subprocess.run([program, "profile", folder, "--accelerator", "emulated:5000", "--batch-size", "32", "--time-budget", budget, "--quiet", "-o", file],
                         capture_output=True, text=True, check=False)
    if run.returncode not in (0, 4):
        raise SystemExit(run.stderr)
    return json.loads(file.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("--share", type=float, default=0.3)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--time-budget", default="20s")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    busy = [subprocess.Popen([sys.executable, "-c", BUSY, str(core), str(options.share)]) for core in sorted(os.sched_getaffinity(0))]
    rows = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            for number in range(options.runs):
                record = profile(options.program, options.folder, options.time_budget, pathlib.Path(folder) / "profile.json")
                findings = {finding["code"]: finding["message"] for finding in record["findings"]}
                rows.append({"trusted": record["trusted"], "bottleneck": record["bottleneck"]["detail"], "said": findings.get("other-processes"),
                             "others": [run["others"]["cpu_fraction"] for run in record["runs"] if run.get("others")],
                             "findings": sorted(findings)})
                print(f"{number + 1} of {options.runs}: {rows[-1]}", file=sys.stderr, flush=True)
    finally:
        for process in busy:
            process.kill()
    valid = [row for row in rows if row["trusted"] and row["said"] and row["bottleneck"]]
    shares = [share for row in rows for share in row["others"]]
    result = {"runs": len(rows), "valid": len(valid), "share": options.share, "said_median": round(statistics.median(shares), 3) if shares else None,
              "bottlenecks": collections.Counter(row["bottleneck"] for row in rows), "rows": rows}
    print(f"{len(valid)} of {len(rows)} valid; others took {result['said_median']} of the CPU by what the profiles say; {dict(result['bottlenecks'])}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=2))


main()
