"""How right `dsanalyze whatif` is about changes to a PyTorch training of a user's own: workers, cores, and the length of a step.

usage: predictions.py PROGRAM [--python PYTHON] [--scripts waits,computes,mixed,streams] [--configurations N] [--seed N] [--rounds N] [--seconds S]
                      [--time-budget S] [--json FILE]

Each script is profiled once, with two workers on all cores. Then configurations are drawn by the seed: num_workers, cores (by affinity) and the length of a
step, which stands for another accelerator. Each is predicted from that one profile, and measured by the script itself, which clocks its steps and its waits for
batches without dsanalyze: the median of --rounds runs, which are interleaved with those of all other configurations of the script. Steps sleep, so that nothing but prep
takes the cores.

waits      a sample waits
computes   a sample computes
mixed      a sample computes, then waits
streams    the samples of an IterableDataset compute

Printed are the predicted and the measured rate, the error, the scatter of the runs, and whether the bottleneck was right: a training waits for prep where more than
2.8 % of its time are waits for batches that are not ready; between half and twice as much, either answer is right. `unchanged` is the error of predicting the profiled rate.
Two cores are enough; let nothing else run.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

from batch_waits import WAITS

SCRIPT = WAITS + r'''
import os, sys, time, torch
from torch.utils.data import DataLoader, Dataset, IterableDataset
kind, mode, workers, step, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5])
batch = 16
torch.set_num_threads(1)
WAIT = {"waits": 0.004, "mixed": 0.002}.get(kind, 0)
WORK = {"computes": 40, "mixed": 20, "streams": 30}.get(kind, 0)

def prepare(index):
    if WORK:
        x = torch.full((64, 64), 0.01)
        for _ in range(WORK): x = x @ x; x = x / x.norm()
    if WAIT: time.sleep(WAIT)
    return torch.zeros(256), index

class Map(Dataset):
    def __len__(self): return 10**6
    def __getitem__(self, index): return prepare(index)

class Stream(IterableDataset):
    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        first, stride = (info.id, info.num_workers) if info else (0, 1)
        return (prepare(index) for index in range(first, 10**6, stride))

loader = DataLoader(Stream() if kind == "streams" else Map(), batch_size=batch, num_workers=workers, worker_init_fn=lambda _: torch.set_num_threads(1))
weight = torch.nn.Parameter(torch.zeros(256))
optimizer = torch.optim.SGD([weight], lr=0.001)
begin, steps, waited, started = None, 0, 0.0, time.perf_counter()
batches = iter(loader)
waits = Waits(batches if mode == "clock" else None)
while True:
    asked = time.perf_counter()
    if begin is None and steps >= 10 and asked - started > 2: begin, steps, waited = asked, 0, 0.0
    if begin is not None and mode == "clock" and asked - begin > seconds:
        print((steps * batch) / (asked - begin), waited / (asked - begin))
        os._exit(0 if sys.stdout.flush() is None else 1)
    waits.ask()
    x, y = next(batches)
    if waits.found_none: waited += time.perf_counter() - asked
    optimizer.zero_grad()
    (weight * x).sum().backward()
    time.sleep(step)
    optimizer.step()
    steps += 1
'''

base_workers, base_step = 2, 0.03
edge = 0.028


def note(text):
    print(text, file=sys.stderr, flush=True)


class Bench:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        (folder / "train.py").write_text(SCRIPT)
        self.cores = sorted(os.sched_getaffinity(0))

    def command(self, kind, mode, workers, step):
        return [self.arguments.python, "train.py", kind, mode, str(workers), str(step), str(self.arguments.seconds)]

    def profile(self, kind):
        place = self.folder / f"{kind}.json"
        run = subprocess.run([self.arguments.program, "profile", "--time-budget", f"{self.arguments.time_budget:g}s", "--quiet", "-o", place, "--",
                              *self.command(kind, "train", base_workers, base_step)], cwd=self.folder, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            raise SystemExit(run.stderr)
        return place, json.loads(place.read_text())

    def predicted(self, place, record, workers, cores, step):
        compute = record["waits"]["compute"]["seconds_per_step"]
        speed = compute / (compute - base_step + step)
        run = subprocess.run([self.arguments.program, "whatif", place, "--workers", str(workers), "--cores", str(cores), "--accelerator-speed", f"{speed:.6f}x", "--json"],
                             capture_output=True, text=True, check=True)
        return next(answer for answer in json.loads(run.stdout)["answers"] if len(answer["change"]) == 3)

    def measured(self, kind, workers, cores, step):
        """Rate and fraction of waiting."""
        run = subprocess.run(self.command(kind, "clock", workers, step), cwd=self.folder, capture_output=True, text=True, check=True,
                             preexec_fn=lambda: os.sched_setaffinity(0, self.cores[:cores]))
        return tuple(map(float, run.stdout.split()))


def drawn(generator, cores, count):
    configurations = []
    while len(configurations) < count:
        each = generator.choice([0, 1, 2, 3, 4, 6, 8]), generator.choice(cores), generator.choice([0.005, 0.01, 0.02, 0.03, 0.06, 0.1])
        if each not in configurations:
            configurations.append(each)
    return configurations


def verdict(answer, workers, waiting):
    """Right, wrong or inconclusive, by what the steps waited for batches that were not ready. Without workers the longer of prep and training is the bottleneck."""
    least = edge if workers else 0.5
    bound = "cpu" if waiting > least else "gpu"
    at_the_edge = edge / 2 <= waiting <= 2 * edge if workers else abs(waiting - least) < edge
    if answer["too_close"]:
        return "inconclusive"
    return "right" if bound == answer["bottleneck"] or at_the_edge else "WRONG"


def rows_of(bench, kind, generator):
    arguments = bench.arguments
    place, record = bench.profile(kind)
    found = next(run for run in record["runs"] if run["name"] == "full")["samples_per_s"]
    note(f"{kind}: P {record['rates']['P']['samples_per_s']:.1f}, G {record['rates']['G']['samples_per_s']:.1f}, as found {found:.1f} samples/s; "
         f"{'trusted' if record['trusted'] else [finding['code'] for finding in record['findings']]}")
    configurations = drawn(generator, list(range(1, len(bench.cores) + 1)), arguments.configurations)
    answers = [bench.predicted(place, record, *each) for each in configurations]
    runs = [[] for _ in configurations]
    for _ in range(arguments.rounds):
        for at, each in enumerate(configurations):
            runs[at].append(bench.measured(kind, *each))
    for each, answer, measured in zip(configurations, answers, runs):
        rate = statistics.median(run[0] for run in measured)
        waiting = statistics.median(run[1] for run in measured)
        rates = sorted((answer["P"], answer["G"]))
        yield {"script": kind, "workers": each[0], "cores": each[1], "step_ms": 1000 * each[2], "predicted": answer["samples_per_s"], "measured": rate,
               "error_percent": 100 * (answer["samples_per_s"] / rate - 1), "low": answer["ci95_samples_per_s"]["low"], "high": answer["ci95_samples_per_s"]["high"],
               "scatter_percent": 100 * (max(run[0] for run in measured) - min(run[0] for run in measured)) / 2 / rate, "unchanged_percent": 100 * (found / rate - 1),
               "P": answer["P"], "G": answer["G"], "apart": rates[1] / rates[0], "waiting": waiting, "bottleneck": answer["bottleneck_detail"],
               "verdict": verdict(answer, each[0], waiting)}


def summary(rows):
    errors = [abs(row["error_percent"]) for row in rows]
    unchanged = [abs(row["unchanged_percent"]) for row in rows]
    verdicts = [row["verdict"] for row in rows]
    far = sum(1 for row in rows if row["verdict"] == "inconclusive" and row["apart"] >= 1.5)
    return (f"{len(rows)} configurations: error {statistics.median(errors):.1f} % (median), {max(errors):.1f} % (worst); beyond 8 % and the runs' own scatter: "
            f"{sum(1 for row in rows if abs(row['error_percent']) > max(8, row['scatter_percent']))}; bottleneck right in {verdicts.count('right')}, inconclusive in "
            f"{verdicts.count('inconclusive')} ({far} of them with rates 1.5 apart), wrong in {verdicts.count('WRONG')}; predicting no change: "
            f"{statistics.median(unchanged):.0f} % (median), {max(unchanged):.0f} % (worst)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--scripts", default="waits,computes,mixed,streams")
    parser.add_argument("--configurations", type=int, default=8, help="of each script")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5, help="of each measured run")
    parser.add_argument("--time-budget", type=float, default=40)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(arguments, pathlib.Path(folder))
        for kind in arguments.scripts.split(","):
            for row in rows_of(bench, kind, random.Random(f"{arguments.seed} {kind}")):
                rows.append(row)
                note("  ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items()))
    note(summary(rows))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
