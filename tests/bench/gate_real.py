"""The gate over real runs on this machine, by turns, as `dsanalyze gate` would make them.

usage: gate_real.py PROGRAM DIR {equals|slower|seam|time} [--comparisons N] [--json FILE]

equals  profiles of one and the same set-up are made in a row; each comparison takes SIDE runs a side, alternating, from a window of the row that no other
        comparison overlaps within its pool, and `dsanalyze gate --baseline ... CURRENT...` judges it. Windows of one pool share no run; further comparisons swap
        the sides and the assignment within the window (ABBA, BAAB, ABAB, BABA), so they are not all independent. No comparison may be a regression.
seam    --prep emulated:RATE against 0.95 RATE, by turns.
slower  real prep against the same program held still for 4.8 of every 100 ms, which takes the CPU from prep as burning it there would, by turns.
time    what one comparison by turns takes, of a 5 % slow-down through the emulated seam.

DIR is a dataset for real prep (dsanalyze dataset make DIR).
"""

import argparse
import collections
import json
import pathlib
import shlex
import subprocess
import tempfile
import time

SIDE = 5
PATTERNS = ("ABBA", "BAAB", "ABAB", "BABA")


def emulated(rate):
    return ["emulated:imagenet-1k,samples=1000", "--scale", "1:1000", "--storage", "emulated:530MB/s", "--prep", f"emulated:{rate}", "--cores", "4", "--accelerator",
            "emulated:4000", "--time-budget", "4s"]


def real(folder):
    return [folder, "--runs", "prep", "--io", "pread", "--time-budget", "3s"]


def command(program, arguments):
    return shlex.join([program, "profile", *arguments, "--quiet", "--json", "-o", "/dev/null"])


def pool(program, arguments, runs, folder):
    files = []
    for i in range(runs):
        files.append(folder / f"run-{len(list(folder.iterdir())):04}.json")
        subprocess.run([program, "profile", *arguments, "--quiet", "-o", files[-1]], check=True, stdout=subprocess.DEVNULL)
    return files


def compare_files(program, baseline, current):
    run = subprocess.run([program, "gate", *[word for file in baseline for word in ("--baseline", file)], *current, "--json", "--allow-untrusted"],
                         capture_output=True, text=True, check=False)
    if run.returncode not in (0, 3, 4):
        raise SystemExit(run.stderr)
    return json.loads(run.stdout)


def equals(options, folder):
    verdicts = collections.Counter()
    windows = -(-options.comparisons // (2 * len(PATTERNS)))
    for number, arguments in enumerate((emulated(500), real(options.folder))):
        place = folder / str(number)
        place.mkdir()
        files = pool(options.program, arguments, windows * 2 * SIDE, place)
        for window in range(windows):
            row = files[window * 2 * SIDE:(window + 1) * 2 * SIDE]
            for pattern in PATTERNS:
                sides = {"A": [], "B": []}
                for place_in_row, file in enumerate(row):
                    sides[pattern[place_in_row % 4]].append(file)
                verdicts[compare_files(options.program, sides["A"], sides["B"])["verdict"]] += 1
    return dict(verdicts)


def by_turns(options, old, new, *more):
    begin = time.monotonic()
    run = subprocess.run([options.program, "gate", "--baseline-command", old, "--current-command", new, "--ignore", "settings.prep_samples_per_s_per_core", "--json",
                          "--allow-untrusted", *more], capture_output=True, text=True, check=False)
    if run.returncode not in (0, 3, 4):
        raise SystemExit(run.stderr)
    record = json.loads(run.stdout)
    return {"verdict": record["verdict"], "reason": record["reason"], "pairs": record["baseline"]["runs"], "seconds": time.monotonic() - begin}


def seam(options, _):
    return [by_turns(options, command(options.program, emulated(500)), command(options.program, emulated(475)), "--metrics", "P,cached,full", "--seed", str(seed))
            for seed in range(options.comparisons)]


def slower(options, _):
    """Of every 100 ms the prep of the slower side stands still for 4.8: 1 / 0.952 of the time, by SIGSTOP, as if as much CPU was burnt in it."""
    plain = command(options.program, real(options.folder))
    halted = f"{plain} & p=$!; while kill -STOP $p 2>/dev/null; do sleep 0.0048; kill -CONT $p; sleep 0.0952; done; wait $p"
    return [by_turns(options, plain, halted, "--metrics", "P", "--seed", str(seed)) for seed in range(options.comparisons)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("mode", choices=["equals", "slower", "seam", "time"])
    parser.add_argument("--comparisons", type=int, default=None)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    options.comparisons = options.comparisons or {"equals": 304, "time": 1}.get(options.mode, 20)
    with tempfile.TemporaryDirectory(prefix="dsanalyze-gate-") as folder:
        found = {"equals": equals, "slower": slower, "seam": seam, "time": seam}[options.mode](options, pathlib.Path(folder))
    text = json.dumps({"mode": options.mode, "result": found}, indent=2)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
