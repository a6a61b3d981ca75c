"""Whether advice is worth what it says: for each kind a script that triggers it, the same script with the advised line, and a near miss that must not trigger it.

usage: advice.py PROGRAM --photos FOLDER --work FOLDER [--python PYTHON] [--only CODES] [--rounds N] [--time-budget S] [--json FILE]

Each script is profiled once as found and once as a near miss. Then it runs alone as found and with the advice applied, in turn, and its rate is clocked over whole epochs. A gain that is
predicted "at most" holds where no more than that was measured; where no gain is predicted, any gain does. Those about storage run with little memory and a throttled disk: root, version 1 of
cgroups, and --work on a disk. PROGRAM is an installed one (its package stands beside it), or PYTHONPATH and DSANALYZE_LIBRARY say where the package and
its library are. Let nothing else run.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile

from limits import Groups, cool

STORAGE = {"keep-in-memory": {"cache": 0.4, "bytes_per_second": 100e6}, "small-files": {"cache": 0.25, "requests_per_second": 1500},
           "order-against-cache": {"cache": 0.6, "bytes_per_second": 100e6}}
longer = 3  # So that a page cache comes to rest while the training is measured as found, and that there are many late batches.
held_bytes = 220 << 20  # By the script's processes.
SCRIPT = f"STORAGE = {list(STORAGE)!r}" + r'''
import os, pathlib, sys, tarfile, time
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info
case, variant, photos, seconds = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
applied, near = variant.startswith("applied"), variant == "near"
advised = int(variant.partition("=")[2] or 0)
torch.set_num_threads(1)

def compute(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until: pass

class Samples(Dataset):
    def __init__(self, length=100_000): self.length = length
    def __len__(self): return self.length
    def __getitem__(self, index):
        if case == "num-workers": time.sleep(0.0005 if near else 0.004)
        if case == "threads-of-workers":
            torch.set_num_threads(1 if applied or near else os.cpu_count())
            for _ in range(8): matrix @ matrix
        if case == "other-processes": compute(0.0018)
        if case == "prefetch-factor": time.sleep(0.4 if index % 320 == 0 and not near else 0.0005)
        value = torch.full((8,), float(index))
        return augmented(value) if case == "slow-transform" else value

class Files(Dataset):
    def __init__(self): self.paths = sorted(pathlib.Path(photos).rglob("*.jpg"))
    def __len__(self): return len(self.paths)
    def __getitem__(self, index): return torch.full((8,), float(len(self.paths[index].read_bytes())))

class Shards(IterableDataset):
    def __iter__(self):
        worker = get_worker_info()
        for path in sorted(pathlib.Path(photos).parent.glob("shards/*.tar"))[worker.id::worker.num_workers]:
            with tarfile.open(path) as shard:
                for member in shard: yield torch.full((8,), float(len(shard.extractfile(member).read())))

class Slow(Samples):
    def __getitem__(self, index):
        time.sleep(0.0002 if near else 0.004)
        return torch.full((8,), float(index))

def augmented(value):
    if not applied: compute(0.0002 if near else 0.004)
    return value + 1

def images():
    from torchvision import datasets, transforms
    class Own:
        def __call__(self, image):
            compute(0.004)
            return image
    steps = [transforms.RandomResizedCrop(64), transforms.RandomHorizontalFlip(), transforms.ToTensor(), transforms.Normalize([0.5] * 3, [0.5] * 3)]
    return datasets.ImageFolder(photos, transforms.Compose(steps[:2] + [Own()] * near + steps[2:]))

def loader():
    workers, more = 2, {"persistent_workers": True}
    if case == "num-workers": workers = advised if applied else 1
    if case == "prefetch-factor" and applied: more["prefetch_factor"] = advised
    if case == "persistent-workers" and not applied: more = {}
    if case == "own-loader":
        if applied:
            import dsanalyze
            return dsanalyze.Loader(photos, batch_size=16, prep=dsanalyze.RandomResizedCrop(64), dtype="float32")
        return DataLoader(images(), 16, shuffle=True, num_workers=workers, **more)
    if case in STORAGE:
        shuffled = case != "order-against-cache" or applied
        data, order = (Shards(), {}) if case == "small-files" and applied else (Files(), {"shuffle": shuffled})
        return DataLoader(data, 16, num_workers=workers, **order, **more)
    short = case == "persistent-workers" and not near
    return DataLoader(Samples(480 if short else 100_000), 16, num_workers=workers, **more)

matrix = torch.rand(256, 256)
step = {"prefetch-factor": 0.04, "persistent-workers": 0.004}.get(case, 0.004 if case in STORAGE else 0.01)
batches = loader()
validation = DataLoader(Slow(64), 16, num_workers=2 if applied else 0, persistent_workers=applied)
model = torch.nn.LazyLinear(1) if case == "own-loader" else torch.nn.Linear(8, 1)
state = {str(at): torch.zeros(100 if near else 1_000_000) for at in range(6)}
optimizer, number, samples, begun = None, 0, 0, None
started, settles = time.perf_counter(), 25 if case in STORAGE else 0  # What lies in the page cache does so after a few epochs.
while True:
    for batch in batches:
        batch = batch[0] if isinstance(batch, (list, tuple)) else batch
        loss = model(batch.float().flatten(1)).mean()
        if optimizer is None: optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
        optimizer.zero_grad(); loss.backward()
        time.sleep(step)
        optimizer.step()
        number += 1
        if case == "outside-of-steps" and not applied: time.sleep(0.0003 if near else 0.012)
        if case == "slow-checkpoint" and number % 5 == 0 and not applied:
            torch.save(state, "checkpoint.pt")
        if case == "validation-workers" and number % 40 == 0:
            with torch.no_grad():
                for held_out in validation: model(held_out)
        now = time.perf_counter()
        if begun is None and number > 40 and now - started > settles: begun, samples = now, 0
        elif begun is not None:
            samples += len(batch)
            if now - begun > seconds:
                print("RATE", samples / (now - begun)); sys.stdout.flush(); os._exit(0)
'''

CODES = ["num-workers", "slow-transform", "persistent-workers", "slow-checkpoint", "validation-workers", "outside-of-steps", "prefetch-factor", "own-loader",
         "threads-of-workers", "other-processes", *STORAGE]


def ready_data(photos, folder):
    """Small files and the same in shards, and a copy of the photographs on the throttled disk."""
    shutil.copytree(photos, folder / "photos")
    small, shards = folder / "small" / "a", folder / "shards"
    small.mkdir(parents=True)
    shards.mkdir()
    for at in range(24000):
        (small / f"{at:05}.jpg").write_bytes(os.urandom(16000))
    names = sorted(small.iterdir())
    for at in range(0, len(names), 1500):
        with tarfile.open(shards / f"{at:05}.tar", "w") as shard:
            for name in names[at:at + 1500]:
                shard.add(name, name.name)
    subprocess.run(["sync"], check=True)


class Limits:
    """What a script runs under: little memory and a slow disk, or other programs on its cores."""

    def __init__(self, job, code, variant):
        self.groups, self.others = None, []
        if code in STORAGE and variant != "near":
            limits = dict(STORAGE[code])
            data = [path for path in job.data(code).rglob("*") if path.is_file()]
            size = sum(path.stat().st_size for path in data)
            cache = limits.pop("cache")
            in_memory = code == "keep-in-memory" and variant.startswith("applied")
            if in_memory:
                for path in data:
                    path.read_bytes()
            else:
                cool([*data, *(job.folder / "shards").iterdir()])
            self.groups = Groups(job.folder, memory_bytes=None if in_memory else held_bytes + int(cache * size), **limits)
        if code == "other-processes" and variant == "found":
            self.others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * os.cpu_count())]

    def enter(self):
        if self.groups:
            self.groups.enter()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for other in self.others:
            other.kill()
            other.wait()
        if self.groups:
            self.groups.close()


class Job:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        self.environment = dict(os.environ, OMP_NUM_THREADS="1", XDG_STATE_HOME=str(folder))

    def data(self, code):
        return self.folder / ("small" if code == "small-files" else "photos")

    def command(self, code, variant, seconds):
        return [self.arguments.python, "train.py", code, variant, str(self.data(code)), str(seconds)]

    def profiled(self, code, variant):
        place = self.folder / "profile.json"
        place.unlink(missing_ok=True)
        budget = self.arguments.time_budget * (longer if code in (*STORAGE, "prefetch-factor") else 1)
        with Limits(self, code, variant) as limits:
            run = subprocess.run([self.arguments.program, "profile", "--time-budget", f"{budget:g}s", "--quiet", "-o", place, "--", *self.command(code, variant, 1e6)], cwd=self.folder,
                                 env=self.environment, capture_output=True, text=True, check=False, preexec_fn=limits.enter)
        if run.returncode != 0:
            raise SystemExit(run.stderr)
        return json.loads(place.read_text())

    def rate(self, code, variant):
        with Limits(self, code, variant) as limits:
            run = subprocess.run(self.command(code, variant, 8 if code not in STORAGE else 15), cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False,
                                 preexec_fn=limits.enter)
        found = [line for line in run.stdout.splitlines() if line.startswith("RATE")]
        if not found:
            raise SystemExit(run.stderr)
        return float(found[0].split()[1])


def advice_of(record, code):
    """Speedup, its interval, whether that is the most, and the number that the line has."""
    if code == "num-workers":
        fix = record.get("fix")
        if not fix:
            return None
        found = fix["samples_per_s"] / fix["speedup"]
        return {"speedup": fix["speedup"], "interval": [end / found for end in ends(fix["ci95_samples_per_s"])], "at_most": False, "number": fix["workers"]}
    for advice in record["advice"]:
        if advice["code"] == code:
            gain = advice.get("gain")
            if not gain:
                return {"speedup": None, "number": 0, "text": advice["text"]}
            # As found, the rate has an error, too, and in the long run it may be another one.
            found_low, found_high = ends(next(run for run in record["runs"] if run["name"] == "full")["ci95_samples_per_s"])
            found = gain["samples_per_s"] / gain["speedup"]
            number = advice["text"].partition("prefetch_factor=")[2].split(" ")[0] if code == "prefetch-factor" else 0
            low, high = ends(gain["ci95_samples_per_s"])
            return {"speedup": gain["speedup"], "interval": [low / max(found, found_high), high / min(found, found_low)], "at_most": gain["at_most"], "number": int(number or 0), "text": advice["text"]}
    return None


def ends(interval):
    return (interval["low"], interval["high"]) if isinstance(interval, dict) else tuple(interval)


def measured(job, code):
    row = {"code": code, "advice": advice_of(job.profiled(code, "found"), code), "near_miss": advice_of(job.profiled(code, "near"), code) is None}
    if row["advice"] is None:
        return dict(row, verdict="not advised")
    applied = f"applied={row['advice']['number']}"
    gains = [job.rate(code, applied) / job.rate(code, "found") for _ in range(job.arguments.rounds)]
    gain = statistics.median(gains)
    if row["advice"]["speedup"] is None:
        return dict(row, gains=gains, gain=gain, verdict="holds" if gain > 1 else "does not hold")
    low, high = row["advice"]["interval"]
    within = gain <= high * 1.02 if row["advice"]["at_most"] else low * 0.98 <= gain <= high * 1.02
    return dict(row, gains=gains, gain=gain, verdict="holds" if within and gain > 1 else "does not hold")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("--photos", type=lambda text: pathlib.Path(text).resolve(), required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only", default=",".join(CODES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--time-budget", type=float, default=25)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
        job = Job(arguments, pathlib.Path(folder))
        ready_data(arguments.photos, job.folder)
        (job.folder / "train.py").write_text(SCRIPT)
        for code in arguments.only.split(","):
            rows.append(measured(job, code))
            print(json.dumps(rows[-1]), flush=True)
            if arguments.json:
                arguments.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
