"""What `dsanalyze profile --passive -- COMMAND` costs a training: its steps against those of the same script alone, interleaved.

usage: passive_cost.py PROGRAM [--python PYTHON] [--pairs N] [--rows LIST] [--json FILE]

own time     microseconds a step of a training whose steps do next to nothing, with and without the program, median of the differences of N pairs.
comparison   the same in percent of a step of 2, 20 and 200 ms, with a 95 % interval of the median of N pairs (order statistics).
             --rows leaves rows out: 2:0,2:2 are steps of 2 ms without workers and with two.
losses       whether a training with dropout, shuffling and workers has the same losses bit by bit, in every pair.

PYTHON is one that has torch (default: /usr/bin/python3). Let nothing else run.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

SCRIPT = r"""
import hashlib, sys, time, torch
from torch.utils.data import DataLoader, TensorDataset
sleep, steps, workers = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)
torch.manual_seed(5)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses, begin = hashlib.sha256(), None
for step, (x,) in enumerate(DataLoader(TensorDataset(torch.randn(4 * steps, 4)), 4, shuffle=True, num_workers=workers)):
    if step == steps // 10:
        begin = time.perf_counter()
    loss = model(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.update(loss.detach().numpy().tobytes())
    if sleep: time.sleep(sleep)
print((time.perf_counter() - begin) / (steps - steps // 10), losses.hexdigest())
"""


def run(command, folder):
    environment = dict(os.environ, OMP_NUM_THREADS="1", XDG_STATE_HOME=str(folder))
    output = subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout
    seconds, losses = output.split("\n", 1)[0].split()
    return float(seconds), losses


def median_interval(values):
    """The median and its 95 % interval by order statistics."""
    values = sorted(values)
    low = max(int(len(values) / 2 - 0.98 * len(values) ** 0.5 - 1), 0)
    return statistics.median(values), values[low], values[-1 - low]


# Steps of a run by their milliseconds: some seconds each.
STEPS = {0: 20000, 2: 2500, 20: 300, 200: 40}


def rows_named(text):
    """The (milliseconds, workers) of each row."""
    rows = [tuple(map(int, row.split(":"))) for row in text.split(",")]
    if any(len(row) != 2 or row[0] not in STEPS or row[1] < 0 for row in rows):
        raise ValueError(text)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("program")
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--rows", type=rows_named, default="0:0,2:0,2:2,20:2,200:2", help=f"MILLISECONDS:WORKERS, ...; a step has one of {list(STEPS)} ms")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        script = pathlib.Path(name, "train.py")
        script.write_text(SCRIPT)
        for milliseconds, workers in arguments.rows:
            sleep, steps = milliseconds / 1000, STEPS[milliseconds]
            alone = [arguments.python, str(script), str(sleep), str(steps), str(workers)]
            passive = [arguments.program, "profile", "--quiet", "--passive", "--", *alone]
            differences, shares, equal = [], [], 0
            for pair in range(arguments.pairs):
                first, second = (alone, passive) if pair % 2 else (passive, alone)
                results = {0: run(first, name), 1: run(second, name)}
                own, other = (results[0], results[1]) if first is alone else (results[1], results[0])
                differences.append((other[0] - own[0]) * 1e6)
                shares.append((other[0] / own[0] - 1) * 100)
                equal += own[1] == other[1]
            row = {"step_ms": sleep * 1000, "workers": workers, "pairs": arguments.pairs, "microseconds": median_interval(differences),
                   "percent": median_interval(shares), "equal_losses": equal}
            rows.append(row)
            print(f"step {sleep * 1000:g} ms, {workers} workers: {row['microseconds'][0]:.1f} us [{row['microseconds'][1]:.1f}, {row['microseconds'][2]:.1f}] a step, "
                  f"{row['percent'][0]:+.2f} % [{row['percent'][1]:+.2f}, {row['percent'][2]:+.2f}], losses equal in {equal} of {arguments.pairs}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2))
    return 0 if all(row["equal_losses"] == row["pairs"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
