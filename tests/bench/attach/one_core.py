"""What a step loses to a DataLoader's workers where all of them have one core: `next()`, the step's own computing, and how late it wakes from a sleep.

usage: one_core.py [--python PYTHON] [--seconds S] [--workers LIST] [--batches MILLISECONDS,...] [--steps MILLISECONDS,...]

Workers compute for a fixed CPU time a batch. A step computes a little and sleeps. The first row of each length of a step has workers that compute next to nothing: what
`next()` takes there is its own. Nothing else may run on the first core.
"""

import argparse
import subprocess
import sys

SCRIPT = r'''
import os, sys, time, warnings
import torch
from torch.utils.data import DataLoader, Dataset
warnings.simplefilter("ignore")
workers, batch_ms, step_ms, seconds = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
batch = 16
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
torch.set_num_threads(1)

class Busy(Dataset):
    def __len__(self): return 10**7
    def __getitem__(self, index):
        end = time.thread_time() + batch_ms / 1e3 / batch
        while time.thread_time() < end: pass
        return torch.zeros(64), index

batches = iter(DataLoader(Busy(), batch_size=batch, num_workers=workers))
weight = torch.nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([weight], lr=1e-6)
for _ in range(8): next(batches)
given = computed = late = steps = 0
begin = time.perf_counter()
while time.perf_counter() - begin < seconds:
    asked = time.perf_counter()
    x = next(batches)
    given += time.perf_counter() - asked
    start = time.perf_counter()
    optimizer.zero_grad()
    (weight * x[0].mean()).backward()
    asleep = time.perf_counter()
    time.sleep(step_ms / 1e3)
    awake = time.perf_counter()
    optimizer.step()
    computed += asleep - start + time.perf_counter() - awake
    late += awake - asleep - step_ms / 1e3
    steps += 1
each = 1e3 / steps
print(f"| {workers} | {batch_ms:g} ms | {step_ms:g} ms | {(time.perf_counter() - begin) * each:.2f} ms | {given * each:.2f} ms | {computed * each:.2f} ms | {late * each:.2f} ms |", flush=True)
os._exit(0)
'''


def main():
    def numbers(text):
        return [float(each) for each in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--workers", type=numbers, default=[1, 2, 6])
    parser.add_argument("--batches", type=numbers, default=[2, 5, 8])
    parser.add_argument("--steps", type=numbers, default=[5, 20])
    arguments = parser.parse_args()
    print("| workers | a batch | a sleep | step | next() | computing | late |\n| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for step in arguments.steps:
        for workers, batch in [(1, 0.05), *((workers, batch) for workers in arguments.workers for batch in arguments.batches)]:
            subprocess.run([arguments.python, "-c", SCRIPT, str(int(workers)), str(batch), str(step), str(arguments.seconds)], check=True)


if __name__ == "__main__":
    main()
