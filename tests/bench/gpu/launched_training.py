"""What `dsanalyze profile -- COMMAND` says of a PyTorch training on the GPU, against the same training by hand.

usage: launched_training.py PROGRAM [--python PYTHON] [--rounds N] [--time-budget SECONDS] [--json FILE]

G           against CUDA events around the same steps over a list of sixteen batches in pinned memory, copies to the GPU included
as found    the rate of the script's own steps, against CUDA events around the same steps of the script alone
waiting     the share of a step that waits for data; beside it what the script alone is slower than over the list, which is more where workers and a thread that
            pins batches take cores and Python's lock from the training

By hand and by the program in turn, medians. PYTHON is one whose PyTorch sees the GPU.
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
import itertools, sys, time
import torch
from torch.utils.data import DataLoader, Dataset

mode, network, batch, workers, prep, asks = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]), sys.argv[6] == "asks"
shape = (3, 224, 224) if network.startswith("resnet") else (1024,)
sample = torch.randn(shape)

class Data(Dataset):
    def __len__(self): return 400 * batch
    def __getitem__(self, index):
        if prep: time.sleep(prep)
        return sample, index % 10

if network.startswith("resnet"):
    import torchvision
    model = getattr(torchvision.models, network)(num_classes=10).cuda()
else:
    model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
loader = DataLoader(Data(), batch_size=batch, num_workers=workers, pin_memory=True, drop_last=True)
total = 0.0

def train_on(x, y):
    global total
    x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    if asks: total += loss.item()

def seconds_of_a_step(batches, warm):
    count, begun, ended = 0, torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for number, (x, y) in enumerate(batches):
        if number == warm: begun.record()
        train_on(x, y)
        count += number >= warm
    ended.record()
    ended.synchronize()
    return begun.elapsed_time(ended) / 1000 / count

if mode == "list":
    kept = list(itertools.islice(loader, 16))
    print(seconds_of_a_step(itertools.islice(itertools.cycle(kept), 30 + int(sys.argv[7])), 30))
elif mode == "alone":
    print(seconds_of_a_step(itertools.islice(loader, 399), 60))
else:
    for epoch in range(1000):
        for x, y in loader: train_on(x, y)
"""

# What, network, batch, workers, seconds of prep a sample, whether the loss is asked for in each step, steps by hand.
CASES = (
    ("resnet50, batch 32", "resnet50", 32, 8, 0, "leaves", 200),
    ("perceptron, batch 64", "perceptron", 64, 8, 0, "leaves", 4000),
    ("resnet50, batch 32, waits for data", "resnet50", 32, 4, 0.005, "leaves", 200),
)


class Bench:
    def __init__(self, program, python, folder, time_budget):
        self.program, self.python, self.folder, self.time_budget = program, python, folder, time_budget
        self.script = folder / "train.py"
        self.script.write_text(SCRIPT)
        # Else the C library gives memory back after each step, or not, as its heap happens to lie.
        self.environment = dict(os.environ, XDG_STATE_HOME=str(folder), MALLOC_TRIM_THRESHOLD_=str(1 << 30), MALLOC_MMAP_THRESHOLD_=str(1 << 30))

    def by_hand(self, mode, words, steps):
        run = subprocess.run([self.python, self.script, mode, *map(str, words), str(steps)], capture_output=True, text=True, check=False,
                             env=self.environment)
        if run.returncode != 0:
            raise RuntimeError((run.stderr.strip().splitlines() or ["no reason given"])[-1])
        return float(run.stdout)

    def profile(self, words):
        run = subprocess.run([self.program, "profile", "--time-budget", f"{self.time_budget:g}s", "--quiet", "--json", "-o", "/dev/null", "--", self.python, self.script, "train",
                              *map(str, words)], capture_output=True, text=True, check=False, env=self.environment)
        if run.returncode != 0:
            raise RuntimeError((run.stderr.strip().splitlines() or ["no reason given"])[-1])
        return json.loads(run.stdout)


def rows(program, folder, python=sys.executable, rounds=3, time_budget=20):
    """One after another, as each is measured; `record` is the last profile's."""
    bench = Bench(program, python, folder, time_budget)
    for what, *words, steps in CASES:
        known, alone, measured, found, waits, record = [], [], [], [], [], None
        try:
            for _ in range(rounds):
                known.append(bench.by_hand("list", words, steps))
                record = bench.profile(words)
                alone.append(bench.by_hand("alone", words, steps))
                measured.append(record["rates"]["G"]["samples_per_s"])
                found.append(next(run["samples_per_s"] for run in record["runs"] if run["name"] == "full"))
                waits.append(record["waits"]["data"]["fraction"])
        except RuntimeError as error:
            yield {"what": f"launched training: {what}", "not_measured": str(error)}
            continue
        rate, rate_alone = words[1] / statistics.median(known), words[1] / statistics.median(alone)
        waited = max(0.0, 1 - statistics.median(known) / statistics.median(alone))
        yield {"what": f"G by profile -- python3: {what}", "measured": f"{statistics.median(measured):,.0f} samples/s", "against": f"{rate:,.0f} by CUDA events",
               "ratio": statistics.median(measured) / rate, "at_least": 0.99, "known": [words[1] / seconds for seconds in known], "runs": measured,
               "record": record}
        yield {"what": f"as found, by profile -- python3: {what}", "measured": f"{statistics.median(found):,.0f} samples/s", "against": f"{rate_alone:,.0f} of the script alone",
               "ratio": statistics.median(found) / rate_alone, "at_least": "", "known": [words[1] / seconds for seconds in alone], "runs": found,
               "waiting_percent": 100 * statistics.median(waits), "slower_than_the_list_percent": 100 * waited}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--time-budget", type=float, default=20)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for row in rows(str(pathlib.Path(arguments.program).resolve()), pathlib.Path(folder), arguments.python, arguments.rounds, arguments.time_budget):
            found.append(row)
            print(json.dumps({key: value for key, value in row.items() if key != "record"}), flush=True)
            if arguments.json:
                arguments.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
