"""Whether `dsanalyze profile -- COMMAND` finds the cause of a stall that was put into a script, and none where there is none.

usage: causes.py PROGRAM --photos FOLDER [--work FOLDER] [--python PYTHON] [--causes LIST] [--runs N] [--seed N] [--time-budget S] [--json FILE]

Each run draws a cause, how strong it is, and the length of a step. The script has enough workers, steps that sleep, and samples that compute a little:

none        nothing else
transform   a function of the samples computes long
collate     the collate function computes long
workers     samples wait, and there are too few workers to hide that
threads     each worker computes in as many threads as there are cores
disk        samples are read from a throttled disk (root; --work on a disk; version 1 of cgroups)
opens       each sample is a small file that takes long to open, though its bytes are in memory (root; a file system of FUSE)
shm         /dev/shm has no room for the workers' batches (root)
checkpoint  a checkpoint every few steps
validation  a loop over another loader without gradients every few steps
others      other programs use the cores
rank        one of two ranks has a slow loader (torchrun, gloo; with --python of a newer PyTorch, as torchrun of Debian 12 fails)

A run is right where the verdict and its advice name the cause, inconclusive where the verdict says of itself that it is, and else wrong. For checkpoint and validation the fraction of the
steps' time is compared with what the script clocked. Let nothing else run.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

from limits import Groups, cool

SCRIPT = r'''
import json, os, sys, time, pathlib
import torch
from torch.utils.data import DataLoader, Dataset, default_collate
cause, strength, step, data, said = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), sys.argv[4], sys.argv[5]
torch.set_num_threads(1)
rank = int(os.environ.get("RANK", 0))
units_per_second = float(os.environ["UNITS"])

def compute(seconds):
    value = 0
    for _ in range(int(units_per_second * seconds)): value += 1
    return value

class Samples(Dataset):
    def __init__(self):
        self.paths = sorted(str(path) for path in pathlib.Path(data).rglob("*.jpg")) if cause == "disk" else [f"{data}/{at}" for at in range(2000)] if cause == "opens" else None
    def __len__(self): return len(self.paths) if self.paths else 100000
    def __getitem__(self, index):
        value = decoded(index)
        if self.paths:
            with open(self.paths[index], "rb") as file: value = value + len(file.read())
        if cause == "workers": time.sleep(strength)
        if cause == "shm": value = torch.full((int(strength),), index % 200, dtype=torch.uint8)
        if cause == "others": compute(strength)  # Which keeps up with the steps where no one else computes.
        if cause == "threads":
            torch.set_num_threads(os.cpu_count())
            threaded()
        return augmented(value) if cause == "transform" else value

def decoded(index):
    compute(0.0003)
    return torch.full((8,), float(index))

def augmented(value):  # It and collated() compute by themselves, as the innermost function is the one that is named.
    count = 0
    for _ in range(int(units_per_second * strength)): count += 1
    return value + 1

def threaded():
    for _ in range(int(strength * 1e4)): matrix @ matrix

def collated(samples):
    count = 0
    for _ in range(int(units_per_second * strength * len(samples)) if cause == "collate" else 0): count += 1
    return default_collate(samples)

if cause == "rank":
    torch.distributed.init_process_group("gloo")
    if rank == 1: cause, strength = "transform", strength
matrix = torch.rand(256, 256)
loader = DataLoader(Samples(), batch_size=8, num_workers=1 if cause == "workers" or "RANK" in os.environ else 2, shuffle=True, collate_fn=collated, persistent_workers=True)
other = DataLoader(Samples(), batch_size=8, num_workers=0)
model = torch.nn.Linear(1, 1)
if "RANK" in os.environ: model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
every, number, begin, spent = 4, 0, None, 0.0
while True:
    for batch in loader:
        if number == 20: begin, spent = time.perf_counter(), 0.0
        optimizer.zero_grad()
        model(batch.float().mean().reshape(1, 1)).sum().backward()
        time.sleep(step)
        optimizer.step()
        number += 1
        if cause in ("checkpoint", "validation") and number % every == 0:
            start = time.perf_counter()
            if cause == "checkpoint": time.sleep(strength * every)
            else:
                with torch.no_grad():
                    for at, batch in enumerate(other):
                        time.sleep(strength * every / 4)
                        if at == 3: break
            spent += time.perf_counter() - start
        if begin is not None and number == 220:
            pathlib.Path(said).write_text(str(spent / (time.perf_counter() - begin)))
'''


def drawn(generator, cause):
    step = generator.choice([0.01, 0.02, 0.04])
    # Of a step: what a batch of eight takes two workers, so that prep is half as fast as the steps or less.
    slow = generator.uniform(2.2, 5)
    strength = {"none": 0, "transform": slow * step * 2 / 8, "collate": slow * step * 2 / 8, "workers": slow * step / 8, "threads": generator.uniform(0.6, 1.5) * step,
                "disk": generator.uniform(4, 16), "opens": slow * step * 2 / 8, "shm": generator.choice([1.6, 2]) * shared_memory_bytes / 5 / 8, "checkpoint": generator.uniform(0.3, 1.5) * step, "validation": generator.uniform(0.3, 1.5) * step,
                "others": 0.9 * step / 4 - 0.0003, "rank": slow * step / 8}[cause]
    return {"cause": cause, "step": step, "strength": strength}


shared_memory_bytes = 48 << 20


class SlowOpens:
    """A file system whose files take `seconds` to open."""

    def __init__(self, seconds, folder):
        self.folder = folder / "opens"
        self.folder.mkdir(exist_ok=True)
        self.server = subprocess.Popen([sys.executable, pathlib.Path(__file__).with_name("slow_opens.py"), self.folder, "2000", "20000", str(seconds)], stdout=subprocess.PIPE, text=True)
        if self.server.stdout.readline() != "mounted\n":
            raise SystemExit("no file system could be mounted")

    def close(self):
        subprocess.run(["umount", "-l", self.folder], check=False)
        self.server.kill()
        self.server.wait()


def units_per_second(python):
    # In a function, as the script computes: variables of a module take twice as long.
    code = "import time\ndef compute():\n    value = 0\n    for _ in range(10**7): value += 1\nbegin = time.perf_counter()\ncompute()\nprint(10**7 / (time.perf_counter() - begin))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def profiled(arguments, folder, each, units):
    """The record, and the injected fraction that the script clocked."""
    said, place = folder / "said", folder / "profile.json"
    said.unlink(missing_ok=True)
    place.unlink(missing_ok=True)
    launcher = ["-m", "torch.distributed.run", "--nproc_per_node", "2"] if each["cause"] == "rank" else []
    opens = SlowOpens(each["strength"], folder) if each["cause"] == "opens" else None
    photos = opens.folder if opens else arguments.photos
    with_little_memory = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs -o size={shared_memory_bytes} tmpfs /dev/shm && exec "$@"', "sh"] if each["cause"] == "shm" else []
    command = [arguments.python, *launcher, "train.py", each["cause"], f"{each['strength']:.6f}", str(each["step"]), str(photos), str(said)]
    environment = dict(os.environ, UNITS=units)
    throttle, hogs, clocked = None, [], None
    if each["cause"] == "disk":
        cool(arguments.photos.rglob("*.jpg"))
        throttle = Groups(arguments.photos, bytes_per_second=1e6 * each["strength"])
    if each["cause"] == "others":
        hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * os.cpu_count())]
    try:
        if each["cause"] in ("checkpoint", "validation"):
            try:
                subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=220 * (each["step"] + each["strength"]) * 1.3 + 8, check=False)
            except subprocess.TimeoutExpired:
                pass
        clocked = float(said.read_text()) if said.exists() else None  # The profiled run writes it anew, from other phases.
        run = subprocess.run([*with_little_memory, arguments.program, "profile", "--time-budget", f"{arguments.time_budget:g}s", "--quiet", "-o", place, "--keep-output", "--", *command], cwd=folder,
                             env=environment, capture_output=True, text=True, check=False, preexec_fn=throttle.enter if throttle else None)
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
        if throttle:
            throttle.close()
        if opens:
            opens.close()
    if run.returncode != 0 and each["cause"] == "shm":
        return json.loads(place.read_text()) if place.exists() else {"advice": [], "error": run.stderr.strip()}, None
    if run.returncode != 0:
        raise SystemExit(run.stderr)
    return json.loads(place.read_text()), clocked


def judged(each, record):
    """What is said, and whether that is right."""
    bottleneck, waits = record.get("bottleneck") or {}, record.get("waits") or {}
    advice = {one["code"]: one["text"] for one in record["advice"]}
    fix = record.get("fix")
    detail = bottleneck.get("detail", "none")
    said = ", ".join([detail if bottleneck.get("confident") else detail + "?", *sorted(advice), *([f"num_workers={fix['workers']}"] if fix else [])])
    cause = each["cause"]
    right = {"none": detail == "accelerator" and not advice and not fix,
             "transform": detail == "prep" and "augmented" in advice.get("slow-transform", ""),
             "collate": detail == "prep" and "collated" in advice.get("slow-transform", ""),
             "workers": detail in ("prep", "latency") and fix is not None and fix["workers"] > 1,
             "threads": "threads-of-workers" in advice,
             "disk": detail == "storage",
             "opens": detail in ("latency", "storage"),
             "shm": "/dev/shm is full" in record.get("error", "") + str(record.get("findings", "")),
             "checkpoint": "outside-of-steps" in advice and "validation" not in advice["outside-of-steps"],
             "validation": "validation-workers" in advice or "validation" in advice.get("outside-of-steps", ""),
             "others": "other-processes" in advice,
             "rank": waits.get("delaying_rank") == 1}[cause]
    if "error" in record:
        said = "error: " + record["error"].splitlines()[-1]
    if right:
        return said, "right"
    return said, "WRONG" if bottleneck.get("confident") else "inconclusive"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--photos", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--causes", default="none,transform,collate,workers,threads,disk,opens,shm,checkpoint,validation,others,rank")
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--time-budget", type=float, default=25)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.program = os.path.abspath(shutil.which(arguments.program) or arguments.program)
    arguments.photos = arguments.photos.resolve()
    generator, causes, rows = random.Random(arguments.seed), arguments.causes.split(","), []
    with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
        folder = pathlib.Path(folder)
        (folder / "train.py").write_text(SCRIPT)
        units = units_per_second(arguments.python)
        for at in range(arguments.runs):
            each = drawn(generator, causes[at % len(causes)])
            record, clocked = profiled(arguments, folder, each, units)
            said, verdict = judged(each, record)
            outside = (record.get("waits") or {}).get("outside", {}).get("fraction")
            points = 100 * (outside - clocked) if clocked is not None and outside is not None else None
            rows.append({**each, "said": said, "verdict": verdict, "points": points})
            print(f"{each['cause']:<11} {each['strength']:.4f}  step {each['step']:g}  {verdict:<12} {said}" + (f"  fraction {points:+.1f} points" if points is not None else ""), flush=True)
    verdicts = collections.Counter(row["verdict"] for row in rows)
    points = [abs(row["points"]) for row in rows if row["points"] is not None]
    print(f"{len(rows)} runs: right {verdicts['right']}, inconclusive {verdicts['inconclusive']}, wrong {verdicts['WRONG']}"
          + (f"; fractions within {max(points):.1f} points" if points else ""))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
