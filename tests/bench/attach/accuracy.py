"""How right `dsanalyze profile -- COMMAND` is about a PyTorch training whose rates are known.

usage: accuracy.py PROGRAM [--python PYTHON] [--time-budget SECONDS] [--only ingestion|prep|waits|networks|storage|supply] [--photos FOLDER] [--json FILE]

ingestion   G of steps of a known length (1 to 500 ms; the length is measured by the same loop over a list, interleaved), batches of 1 to 512 samples.
prep        P of a loader whose samples take known waits, and of one that computes for so long by its thread's CPU clock, against an independent drain of the
            same DataLoader, before and after each profile.
waits       the fraction of a step that waits for data, against what the script itself clocks when it runs alone, for P/G of 0.8, 0.95, 1.05 and 2 and 2 or
            32 batches prefetched by each worker; beside it 1 - P/G (`by_rates`), which leaves out what taking a batch costs the training's own process.
networks    G and the fraction that waits of trainings that compute on the CPU, torchvision's resnet18 and a perceptron, beside workers that do, too: G against the
            same loop over a list, waiting against what the script clocks when it runs alone; `shares_cores` is the record's.
storage     the share of the bytes that the phase full read from storage, of a script that starts cold, with every second of its files in memory, or warm:
            against that share, and all that the processes read against the block layer. Only with --photos: a folder of files, which are read in order.

supply      S against processes that read the same files cold, as many as the training has workers, in turn with the profiles; as root also with the disk throttled
            (cgroups of version 1). Only with --photos.

PYTHON is one that has torch (default: /usr/bin/python3). Steps and preparation sleep unless they compute, so two cores are enough; let nothing else run.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

SCRIPT = r'''
import itertools, sys, time, torch
from torch.utils.data import DataLoader, Dataset
mode, step, batch, workers, prefetch, prep, burns, count = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]), float(sys.argv[6]), sys.argv[7] == "burn", int(sys.argv[8])
network, threads = step.split("x") if "x" in step else (None, 1)  # perceptronxTHREADS, resnet18xTHREADS
step = 0 if network else float(step)

files = sys.argv[9:] and sorted(__import__("glob").glob(sys.argv[9] + "/**/*.jpg", recursive=True))

class Data(Dataset):
    def __len__(self): return len(files) // batch * batch if files else count * batch
    def __getitem__(self, index):
        if burns:
            done = time.thread_time() + prep
            while time.thread_time() < done: pass
            return torch.zeros(shape), index
        if files:
            with open(files[index], "rb") as file: file.read()
        if prep: time.sleep(prep)
        return torch.zeros(shape), index

shape = (3, 64, 64) if network == "resnet18" else (1024,) if network else (8,)
torch.set_num_threads(int(threads))
loader = DataLoader(Data(), batch_size=batch, num_workers=workers, prefetch_factor=prefetch, worker_init_fn=lambda _: torch.set_num_threads(1))
if network == "resnet18":
    model = __import__("torchvision").models.resnet18()
elif network:
    model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10))
else:
    weight = torch.nn.Parameter(torch.zeros(8))
    model = lambda x: weight * x
optimizer = torch.optim.SGD(model.parameters() if network else [weight], lr=1e-6 if network else 0.1)

def train_on(x):
    optimizer.zero_grad()
    model(x).sum().backward()
    time.sleep(step)
    optimizer.step()

def train(batches):
    for x, y in batches: train_on(x)

if mode == "list":
    kept = list(itertools.islice(loader, 16)) * (count // 16)
    train(kept[:20])
    begin = time.perf_counter(); train(kept); print((time.perf_counter() - begin) / len(kept))
elif mode == "clock":
    it, waited, begin = iter(loader), 0, None
    for number in range(count - 1):
        asked = time.perf_counter()
        if number == 60: begin, waited = asked, 0
        x, y = next(it)
        waited += time.perf_counter() - asked
        train_on(x)
    print(waited / (time.perf_counter() - begin))
elif mode == "drain":
    it = iter(loader)
    for _ in range(4 * workers): next(it)
    begin, got = time.perf_counter(), 0
    while time.perf_counter() - begin < 6:  # Batches come in clumps of as many as there are workers; the first of one must not be the last that counts.
        for _ in range(workers): next(it)
        got += workers * batch
    print(got / (time.perf_counter() - begin))
else:
    for epoch in range(1000): train(loader)
'''


def note(text):
    print(text, file=sys.stderr, flush=True)


class Bench:
    photos = None

    def __init__(self, arguments, folder):
        self.arguments, self.script = arguments, folder / "known.py"
        self.script.write_text(SCRIPT)
        # Else the C library gives the memory of gradients back after each step, or not, as its heap happens to lie: steps of a perceptron took 8.3 or 10.3 to 11.7 ms.
        self.environment = dict(os.environ, MALLOC_TRIM_THRESHOLD_=str(1 << 30), MALLOC_MMAP_THRESHOLD_=str(1 << 30))

    def command(self, mode, step, batch, workers=2, prefetch=2, prep=0.0, burns=False, count=2000):
        return [self.arguments.python, str(self.script), mode, str(step), str(batch), str(workers), str(prefetch), str(prep), "burn" if burns else "sleep", str(count),
                *([str(self.photos)] if self.photos else [])]

    def alone(self, *words, **named):
        return float(subprocess.run(self.command(*words, **named), check=True, capture_output=True, text=True, env=self.environment).stdout)

    def profile(self, *words, **named):
        run = subprocess.run([self.arguments.program, "profile", "--time-budget", f"{self.arguments.time_budget:g}s", "--quiet", "--json", "-o", "/dev/null", "--",
                              *self.command("train", *words, **named)], capture_output=True, text=True, check=False, env=self.environment)
        if run.returncode != 0:
            raise SystemExit(run.stderr)
        return json.loads(run.stdout)


def ingestion(bench):
    for step, batch in ((0.001, 1), (0.001, 64), (0.005, 64), (0.02, 64), (0.1, 512), (0.5, 512)):
        before = bench.alone("list", step, batch, count=200) if step < 0.2 else None
        record = bench.profile(step, batch)
        after = bench.alone("list", step, batch, count=200) if step < 0.2 else None
        seconds = statistics.mean([before, after]) if before else step
        known, measured = batch / seconds, record["rates"]["G"]["samples_per_s"]
        yield {"what": f"G, step {step * 1000:g} ms, batch {batch}", "known": known, "measured": measured, "error_percent": 100 * (measured / known - 1)}


def prep(bench):
    for name, named in (("waits 2 ms a sample", {"prep": 0.002}), ("computes 4 ms a sample", {"prep": 0.004, "burns": True})):
        known, measured = [bench.alone("drain", 0.001, 32, **named)], []
        for _ in range(5):
            measured.append(bench.profile(0.02, 32, **named)["rates"]["P"]["samples_per_s"])
            known.append(bench.alone("drain", 0.001, 32, **named))
        errors = [100 * (rate / statistics.mean(beside) - 1) for rate, *beside in zip(measured, known, known[1:])]
        yield {"what": f"P, {name}, median of 5", "known": statistics.median(known), "measured": statistics.median(measured),
               "error_percent": statistics.median(errors), "error_spread": [min(errors), max(errors)]}


def waits(bench):
    step, batch, workers = 0.02, 16, 2
    for prefetch in (2, 32):
        for ratio in (0.8, 0.95, 1.05, 2.0):
            named = {"workers": workers, "prefetch": prefetch, "prep": step / ratio * workers / batch}
            before = bench.alone("clock", step, batch, count=500, **named)
            record = bench.profile(step, batch, **named)
            known = (before + bench.alone("clock", step, batch, count=500, **named)) / 2
            rates = record["rates"]["P"]["samples_per_s"] / record["rates"]["G"]["samples_per_s"]
            measured = record["waits"]["data"]["fraction"]
            yield {"what": f"waiting for data, P/G {ratio:g} asked, {rates:.3f} measured, {prefetch} batches ahead", "known": known, "measured": measured,
                   "error_points": 100 * (measured - known), "by_rates": max(0.0, 1 - rates), "trusted": record["trusted"]}


def networks(bench):
    for network, batch, workers, work, steps in (("perceptronx1", 64, 1, 0.0001, 900), ("perceptronx1", 64, 2, 0.007, 300), ("perceptronx2", 64, 2, 0.003, 600),
                                                 ("resnet18x1", 16, 1, 0.0003, 100), ("resnet18x1", 16, 2, 0.1, 60), ("resnet18x2", 16, 2, 0.014, 150)):
        named = {"workers": workers, "prep": work, "burns": True}
        ingested, waited, measured_g, measured_waits, shares = [], [], [], [], set()
        for _ in range(3):
            ingested.append(batch / bench.alone("list", network, batch, count=steps, **named))
            waited.append(bench.alone("clock", network, batch, count=steps + 60, **named))
            record = bench.profile(network, batch, **named)
            measured_g.append(record["rates"]["G"]["samples_per_s"])
            measured_waits.append(record["waits"]["data"]["fraction"])
            shares.add(record["host"]["accelerator"]["shares_cores"])
        known, measured = statistics.median(ingested), statistics.median(measured_g)
        known_waits, told = statistics.median(waited), statistics.median(measured_waits)
        yield {"what": f"G of {network[:-2]} with {network[-1]} threads, batch {batch}, {workers} workers, work {work}, median of 3", "known": known, "measured": measured,
               "error_percent": 100 * (measured / known - 1), "known_spread": [min(ingested), max(ingested)], "measured_spread": [min(measured_g), max(measured_g)],
               "known_waits": known_waits, "measured_waits": told, "error_points": 100 * (told - known_waits), "shares_cores": sorted(shares),
               "known_waits_spread": [min(waited), max(waited)], "measured_waits_spread": [min(measured_waits), max(measured_waits)]}


def leave_memory(files):
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def device_bytes(folder):
    """What the block device of a folder has read so far."""
    device = os.stat(folder).st_dev
    return 512 * int(pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat").read_text().split()[2])


def storage(bench):
    files = sorted(bench.arguments.photos.glob("**/*.jpg"))
    bench.photos = bench.arguments.photos
    os.sync()
    for name, kept in (("cold", []), ("every second file in memory", files[::2]), ("warm", files)):
        leave_memory(files)
        for file in kept:
            file.read_bytes()
        share = 1 - sum(file.stat().st_size for file in kept) / sum(file.stat().st_size for file in files)
        before = device_bytes(bench.photos)
        record = bench.profile(0.02, 4)
        device = device_bytes(bench.photos) - before
        full = next(run for run in record["runs"] if run["name"] == "full")
        measured = full["storage_bytes"] / full["requested_bytes"]
        yield {"what": f"share of the bytes from storage, {name}", "known": share, "measured": measured, "error_points": 100 * (measured - share),
               "runs_bytes": sum(run["storage_bytes"] or 0 for run in record["runs"]), "device_bytes": device}


READER = r'''
import os, random, sys, time
files = [line for line in sys.stdin.read().splitlines()]
for file in files:
    descriptor = os.open(file, os.O_RDONLY); os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED); os.close(descriptor)
print("ready", flush=True)
random.shuffle(files)
time.sleep(max(0, float(sys.argv[1]) - time.monotonic()))
got, begin = 0, time.monotonic()
for file in files:
    with open(file, "rb") as opened: got += len(opened.read())
    if time.monotonic() - begin > 4: break
print(got / (time.monotonic() - begin))
'''


def read_cold(files, processes):
    """Bytes a second of so many processes, each of which reads its part of the files."""
    start = str(time.monotonic() + 2)
    readers = [subprocess.Popen([sys.executable, "-c", READER, start], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    outputs = []
    for at, reader in enumerate(readers):
        reader.stdin.write("\n".join(map(str, files[at::processes])))
        reader.stdin.close()
    for reader in readers:
        outputs.append(float(reader.stdout.read().split()[1]))
        reader.wait()
    return sum(outputs)


class Throttled:
    """This process and what it starts read from the folder's disk no faster than so many bytes a second."""

    def __init__(self, folder, rate):
        self.group = pathlib.Path(f"/sys/fs/cgroup/blkio/dsanalyze-bench-{os.getpid()}")
        self.before = pathlib.Path("/sys/fs/cgroup/blkio", *[line.split(":")[2].strip("/\n") for line in open("/proc/self/cgroup") if ":blkio:" in line])
        device = os.stat(folder).st_dev
        self.limit = f"{os.major(device)}:{os.minor(device)} {int(rate)}"

    def __enter__(self):
        self.group.mkdir()
        (self.group / "blkio.throttle.read_bps_device").write_text(self.limit)
        (self.group / "cgroup.procs").write_text(str(os.getpid()))

    def __exit__(self, *_):
        (self.before / "cgroup.procs").write_text(str(os.getpid()))
        self.group.rmdir()


def supply(bench):
    bench.photos = bench.arguments.photos
    files = sorted(bench.photos.glob("**/*.jpg"))
    os.sync()
    for rate in (None, *((25e6, 100e6) if os.geteuid() == 0 and os.path.isdir("/sys/fs/cgroup/blkio") else ())):
        known, measured = [], []
        with Throttled(bench.photos, rate) if rate else contextlib.nullcontext():
            for _ in range(3):
                known.append(read_cold(files, 2))
                measured.append(bench.profile(0.02, 16)["rates"]["S"]["bytes_per_s"])
        yield {"what": f"S in MB/s, two workers, {f'disk throttled to {rate / 1e6:g} MB/s' if rate else 'disk as it is'}, median of 3", "known": statistics.median(known) / 1e6,
               "measured": statistics.median(measured) / 1e6, "error_percent": 100 * (statistics.median(measured) / statistics.median(known) - 1),
               "known_spread": [min(known) / 1e6, max(known) / 1e6], "measured_spread": [min(measured) / 1e6, max(measured) / 1e6]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--time-budget", type=float, default=30)
    parser.add_argument("--only", choices=["ingestion", "prep", "waits", "networks", "storage", "supply"])
    parser.add_argument("--photos", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(arguments, pathlib.Path(folder))
        for name, part in (("ingestion", ingestion), ("prep", prep), ("waits", waits), ("networks", networks), ("storage", storage), ("supply", supply)):
            if arguments.only in (None, name) and (name not in ("storage", "supply") or arguments.photos):
                for row in part(bench):
                    rows.append(row)
                    note("  ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items()))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
