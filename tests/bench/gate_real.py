"""The gate over real runs on this machine.

usage: gate_real.py PROGRAM DIR {equals-emulated|equals-prep|slower|seam|time} [--comparisons N] [--every RUNS] [--run-seconds S] [--bursts SHARE]
       [--json FILE]

equals-emulated, equals-prep
        false alarms: profiles of one and the same configuration are made in a row, of emulated devices or of real prep, and compared through
        `dsanalyze gate` as alternating commands would be (each reads the next result of its part of the row). Windows of PAIRS pairs begin at every
        --every runs of the row and each is compared with the sides in the order ABBA..., and swapped, so that its false improvements count as well.
slower  real prep against the same program that burns CPU time in prep (DSANALYZE_TEST_SLOW_PREP), 5 % fewer samples/s.
seam    --prep emulated:RATE against 0.95 RATE.
        Both: rows of alternating slow and fast runs are made (ABBA, BAAB drawn), each comparison is a window of PAIRS pairs of it, a new one at every pair.
time    what `dsanalyze gate --baseline-command ... --current-command ...` takes for a 5 % slow-down in prep at this machine's noise, with runs of 4 s as
        docs/gate.md has them; each on its own.
Windows share runs with their neighbours; "disjoint" is how many of them share none, which is what they are worth at least.

--bursts 0.05: beside that share of the runs, drawn by a seed, a process on each core burns CPU time for as long as the run takes.

DIR is a dataset for real prep (dsanalyze dataset make DIR).
"""

import argparse
import collections
import json
import math
import os
import pathlib
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

PAIRS = 20
BURN = 1 / 0.95 - 1  # of each sample's CPU time: 5 % fewer samples/s
EMULATED_AT_ONCE = 4  # such runs wait, so they disturb one another little; one at a time where a burst of other work is to meet one alone


def note(text):
    print(text, file=sys.stderr, flush=True)


def emulated(rate=500):
    return ["emulated:imagenet-1k,samples=1000", "--scale", "1:1000", "--storage", "emulated:530MB/s", "--prep", f"emulated:{rate}", "--cores", "4",
            "--accelerator", "emulated:4000", "--batch-size", "32", "--time-budget", "4s"]  # small batches: P in steps of half a percent


def real(folder, seconds):
    return [folder, "--runs", "prep", "--io", "pread", "--time-budget", f"{seconds:g}s"]


def wilson(found, of):
    """95 % interval of a share, in percent."""
    z, share = 1.96, found / of
    centre = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of)) / (1 + z * z / of)
    return round(100 * max(centre - half, 0), 2), round(100 * min(centre + half, 1), 2)


def begin_profile(program, arguments, file, burn):
    environment = dict(os.environ, DSANALYZE_TEST_SLOW_PREP=f"{burn:.4%}" if burn else "")
    return subprocess.Popen([program, "profile", *arguments, "--quiet", "-o", file], stdout=subprocess.DEVNULL, env=environment)


def other_work():
    """A process on each core that burns CPU time until it is ended."""
    return [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count())]


def end(processes):
    for process in processes:
        process.kill()
        process.wait()


def row_of_runs(program, sets, count, folder, name, at_once=1, bursts=0.0):
    """`count` results; run i has the arguments and the burn of sets[i]. At most `at_once` run at a time, in order."""
    files, running = [], []
    drawn = random.Random(2)

    def result_of(arguments, file, burn, run):
        for _ in range(4):
            if run.wait() != 0:
                raise SystemExit(f"{name}: a profile failed")
            if json.loads(file.read_text())["rates"].get("P"):
                return
            note(f"{name}: a run was too short to measure anything, once more")
            run = begin_profile(program, arguments, file, burn)
        raise SystemExit(f"{name}: runs are too short for this machine")

    def wait():
        *begun, beside = running.pop(0)
        try:
            result_of(*begun)
        finally:
            end(beside)

    for i in range(count):
        files.append(folder / f"{name}-{i:04}.json")
        arguments, burn = sets[i]
        beside = other_work() if drawn.random() < bursts else []
        running.append((arguments, files[-1], burn, begin_profile(program, arguments, files[-1], burn), beside))
        if len(running) == at_once:
            wait()
        if i % 20 == 19:
            note(f"{name}: {i + 1} of {count} runs")
    while running:
        wait()
    return files


def printing(files, folder, name):
    """A command that prints the next of the files each time it runs."""
    counter, script = folder / f"{name}.count", folder / f"{name}.sh"
    counter.write_text("0")
    words = " ".join(shlex.quote(str(file)) for file in files)
    script.write_text(f'read -r n < {shlex.quote(str(counter))}\necho $((n + 1)) > {shlex.quote(str(counter))}\nset -- {words}\nshift "$n"\ncat "$1"\n')
    return f"sh {shlex.quote(str(script))}"


def gate(program, old, new, metrics, pairs, warm_ups, seed):
    run = subprocess.run([program, "gate", "--baseline-command", old, "--current-command", new, "--metrics", metrics, "--pairs", str(pairs), "--warm-ups",
                          str(warm_ups), "--seed", str(seed), "--ignore", "settings.prep_samples_per_s_per_core", "--json", "--quiet", "--allow-untrusted"],
                         capture_output=True, text=True, check=False)
    if run.returncode not in (0, 3, 4):
        raise SystemExit(run.stderr)
    return json.loads(run.stdout)


def judged(program, old, new, metrics, folder, seed):
    return gate(program, printing(old, folder, "old"), printing(new, folder, "new"), metrics, len(old), 0, seed)["verdict"]


def scatter_percent(old, new):
    """Of one run of prep: from how the pairs' differences scatter, without what drifts or differs on the whole."""
    rate = {file: json.loads(file.read_text())["rates"]["P"]["samples_per_s"] for file in (*old, *new)}
    differences = [math.log(rate[after] / rate[before]) for before, after in zip(old, new)]
    return round(100 * statistics.stdev(differences) / math.sqrt(2), 2)


def table_row(name, verdict, verdicts, old, new, seconds):
    runs = len(old) + len(new)
    comparisons = sum(verdicts.values())
    low, high = wilson(verdicts[verdict], comparisons)
    return {"name": name, "comparisons": comparisons, "runs": runs, "disjoint": runs // (2 * PAIRS), "verdicts": dict(verdicts),
            "scatter_percent": scatter_percent(old, new), "share_percent": round(100 * verdicts[verdict] / comparisons, 2),
            "interval_percent": [low, high], "seconds": round(seconds, 1)}


def equals(options, folder, name, arguments, metrics, at_once):
    begin = time.monotonic()
    windows = -(-options.comparisons // 2)
    runs = 2 * PAIRS + options.every * (windows - 1)
    files = row_of_runs(options.program, [(arguments, 0)] * runs, runs, folder, "equal", at_once, options.bursts)
    verdicts = collections.Counter()
    for window in range(windows):
        row = files[options.every * window:][:2 * PAIRS]
        sides = ([], [])
        for place, file in enumerate(row):
            sides[(place + place // 2) % 2].append(file)  # ABBA ABBA ...
        for old, new in (sides, sides[::-1]):
            verdicts[judged(options.program, old, new, metrics, folder, window)] += 1
    return [table_row(name, "regression", verdicts, files[::2], files[1::2], time.monotonic() - begin)]


def equals_emulated(options, folder):
    return equals(options, folder, "equal, emulated devices", emulated(), "P,cached,full", 1 if options.bursts else EMULATED_AT_ONCE)


def equals_prep(options, folder):
    return equals(options, folder, "equal, real prep", real(options.folder, options.run_seconds), "P", 1)


def found(options, folder, name, fast, slow, metrics, at_once):
    begin = time.monotonic()
    drawn = random.Random(1)
    pairs = PAIRS + options.comparisons - 1
    order = []
    for _ in range(-(-pairs // 2)):  # blocks of two pairs, each side first once
        first = drawn.random() < 0.5
        order += [first, not first]
    order = order[:pairs]
    sets = [side for fast_first in order for side in ((fast, slow) if fast_first else (slow, fast))]
    files = row_of_runs(options.program, sets, len(sets), folder, name.split()[0].strip(":"), at_once, options.bursts)
    old = [files[2 * pair + (0 if fast_first else 1)] for pair, fast_first in enumerate(order)]
    new = [files[2 * pair + (1 if fast_first else 0)] for pair, fast_first in enumerate(order)]
    verdicts = collections.Counter(judged(options.program, old[start:start + PAIRS], new[start:start + PAIRS], metrics, folder, start)
                                   for start in range(options.comparisons))
    return [table_row(name, "regression", verdicts, old, new, time.monotonic() - begin)]


def seam(options, folder):
    return found(options, folder, "seam: emulated prep 5 % slower", (emulated(), 0), (emulated(475), 0), "P,cached,full", EMULATED_AT_ONCE)


def slower(options, folder):
    return found(options, folder, "slower: CPU burnt in real prep", *((real(options.folder, options.run_seconds), burn) for burn in (0, BURN)), "P", 1)


def timed(options, _):
    rows = []
    plain = shlex.join([options.program, "profile", *real(options.folder, 4), "--quiet", "--json", "-o", "/dev/null"])
    for seed in range(options.comparisons):
        record = gate(options.program, plain, f"DSANALYZE_TEST_SLOW_PREP={BURN:.4%} {plain}", "P", 20, 1, seed)
        rows.append({"name": f"time, seed {seed}", "verdict": record["verdict"], "pairs": record["baseline"]["runs"], "seconds": round(record["seconds"], 1)})
        note(f"{rows[-1]}")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder")
    modes = {"equals-emulated": (equals_emulated, 152), "equals-prep": (equals_prep, 152), "slower": (slower, 76), "seam": (seam, 76), "time": (timed, 3)}
    parser.add_argument("mode", choices=modes)
    parser.add_argument("--comparisons", type=int)
    parser.add_argument("--every", type=int, default=8, help="equals: a window begins at every so many runs (an even number; 40 has no run in two windows)")
    parser.add_argument("--run-seconds", type=float, default=1.5, help="time budget of a run of real prep")
    parser.add_argument("--bursts", type=float, default=0, help="share of the runs beside which other work burns all CPUs")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    run, usual = modes[options.mode]
    options.comparisons = max(options.comparisons or usual, 1)
    with tempfile.TemporaryDirectory(prefix="dsanalyze-gate-") as folder:
        rows = run(options, pathlib.Path(folder))
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()))
    sharing = "windows share runs with their neighbours; the intervals take all for independent, which only the disjoint ones are"
    if options.mode == "time":
        sharing = None
    if sharing:
        print(sharing)
    if options.json:
        options.json.write_text(json.dumps({"mode": options.mode, "rows": rows, "note": sharing}, indent=2) + "\n")


if __name__ == "__main__":
    main()
