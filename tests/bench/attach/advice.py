"""Whether advice is worth what it says: for each kind a script that triggers it, the same script with the advised line, and a near miss that must not trigger it.

usage: advice.py PROGRAM --photos FOLDER [--python PYTHON] [--only CODES] [--rounds N] [--time-budget S] [--json FILE]

Each script is profiled once as found and once as a near miss. Then it runs alone as found and with the advice applied, in turn, and its rate is clocked over whole epochs. A gain that is
predicted "at most" holds where no more than that was measured. PROGRAM is an installed one (its package stands beside it), or PYTHONPATH and DSANALYZE_LIBRARY say where the package and
its library are. Let nothing else run.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

SCRIPT = r'''
import os, sys, time
import torch
from torch.utils.data import DataLoader, Dataset, default_collate
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
        if case == "prefetch-factor": time.sleep(0.4 if index % 320 == 0 and not near else 0.002)
        value = torch.full((8,), float(index))
        return augmented(value) if case == "slow-transform" else value

class Slow(Samples):
    def __getitem__(self, index):
        time.sleep(0.0002 if near else 0.004)
        return torch.full((8,), float(index))

def augmented(value):
    if not applied: compute(0.0002 if near else 0.004)
    return value + 1

def collated(samples):
    if case == "slow-collate" and not applied: compute(0.001 if near else 0.03)
    return default_collate(samples)

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
    short = case == "persistent-workers" and not near
    return DataLoader(Samples(480 if short else 100_000), 16, num_workers=workers, collate_fn=collated, **more)

step = {"prefetch-factor": 0.04, "persistent-workers": 0.004}.get(case, 0.01)
batches = loader()
validation = DataLoader(Slow(64), 16, num_workers=2 if applied else 0, persistent_workers=applied)
model = torch.nn.LazyLinear(1) if case == "own-loader" else torch.nn.Linear(8, 1)
state = {str(at): torch.zeros(100 if near else 1_000_000) for at in range(6)}
optimizer, number, samples, begun = None, 0, 0, None
while True:
    for batch in batches:
        batch = batch[0] if isinstance(batch, (list, tuple)) else batch
        loss = model(batch.float().flatten(1)).mean()
        if optimizer is None: optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
        optimizer.zero_grad(); loss.backward()
        time.sleep(step)
        optimizer.step()
        number += 1
        if case == "slow-checkpoint" and number % 5 == 0 and not applied:
            torch.save(state, "checkpoint.pt")
        if case == "validation-workers" and number % 40 == 0:
            with torch.no_grad():
                for held_out in validation: model(held_out)
        now = time.perf_counter()
        if begun is None and number > 40: begun, samples = now, 0
        elif begun is not None:
            samples += len(batch)
            if now - begun > seconds:
                print("RATE", samples / (now - begun)); sys.stdout.flush(); os._exit(0)
'''

CODES = ["num-workers", "slow-transform", "slow-collate", "persistent-workers", "slow-checkpoint", "validation-workers", "prefetch-factor", "own-loader"]


class Job:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        self.environment = dict(os.environ, OMP_NUM_THREADS="1", XDG_STATE_HOME=str(folder))

    def command(self, code, variant, seconds):
        return [self.arguments.python, "train.py", code, variant, str(self.arguments.photos), str(seconds)]

    def profiled(self, code, variant):
        place = self.folder / "profile.json"
        place.unlink(missing_ok=True)
        run = subprocess.run([self.arguments.program, "profile", "--time-budget", f"{self.arguments.time_budget:g}s", "--quiet", "-o", place, "--", *self.command(code, variant, 1e6)], cwd=self.folder,
                             env=self.environment, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            raise SystemExit(run.stderr)
        return json.loads(place.read_text())

    def rate(self, code, variant):
        run = subprocess.run(self.command(code, variant, 8), cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False)
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
        if advice["code"] == code and advice.get("gain"):
            gain = advice["gain"]
            found = gain["samples_per_s"] / gain["speedup"]
            number = advice["text"].partition("prefetch_factor=")[2].split(" ")[0] if code == "prefetch-factor" else 0
            return {"speedup": gain["speedup"], "interval": [end / found for end in ends(gain["ci95_samples_per_s"])], "at_most": gain["at_most"], "number": int(number or 0), "text": advice["text"]}
    return None


def ends(interval):
    return (interval["low"], interval["high"]) if isinstance(interval, dict) else tuple(interval)


def measured(job, code):
    row = {"code": code, "advice": advice_of(job.profiled(code, "found"), code), "near_miss": advice_of(job.profiled(code, "near"), code) is None}
    if row["advice"] is None:
        return dict(row, verdict="not advised")
    applied = f"applied={row['advice']['number']}"
    gains = [job.rate(code, applied) / job.rate(code, "found") for _ in range(job.arguments.rounds)]
    low, high = row["advice"]["interval"]
    gain = statistics.median(gains)
    within = gain <= high * 1.02 if row["advice"]["at_most"] else low * 0.98 <= gain <= high * 1.02
    return dict(row, gains=gains, gain=gain, verdict="holds" if within and gain > 1 else "does not hold")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("--photos", type=lambda text: pathlib.Path(text).resolve(), required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only", default=",".join(CODES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--time-budget", type=float, default=25)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        job = Job(arguments, pathlib.Path(folder))
        (job.folder / "train.py").write_text(SCRIPT)
        for code in arguments.only.split(","):
            rows.append(measured(job, code))
            print(json.dumps(rows[-1]), flush=True)
            if arguments.json:
                arguments.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
