"""How right `dsanalyze whatif` is about trainings that read real data: workers, cores, memory for the page cache, a throttled disk, the length of a step.

usage: storage_predictions.py PROGRAM --photos FOLDER [--work FOLDER] [--python PYTHON] [--scripts images,files,shards,tokens,arrow] [--configurations N] [--seed N]
                              [--rounds N] [--seconds S] [--time-budget S] [--json FILE]
       storage_predictions.py PROGRAM --photos FOLDER --starts      one script, started cold, half in memory and warm: the steady state that is predicted
       storage_predictions.py PROGRAM --photos FOLDER --misses      what `simulate --trace` of one script misses with less memory, against the script with so much memory

Each script is profiled once, with two workers on all cores and its data in memory. Then configurations are drawn by the seed. Each is predicted from that one profile, and
measured by the script itself, which clocks its steps and its waits for batches without dsanalyze: the median of --rounds runs, interleaved with those of all other
configurations of the script (measured again where they differ by more than ± 10 %), over whole epochs that follow one another without a pause. Steps sleep. The script as found runs once in each round: `at_speed_percent` is the error
at the machine's speed of then, as `whatif --validate` compares.

What the machine gives changes from minute to minute where others share its processor. A fixed piece of work, which has nothing to do with dsanalyze, is clocked on all cores
before and after each profile (10 s) and before each round (5 s). Where the rounds had more than 6 % more or less of it than the profile, profile and rounds of that script are
done again, once, whatever their errors were. A core's rate over 10 s differs by 3 % where nothing of ours runs, so less cannot be told.

images     torchvision's ImageFolder over photographs: RandomResizedCrop, flip, ToTensor
files      files that are read whole and summed up
shards     WebDataset: the same photographs in tar shards, decoded and resized (PyPI)
tokens     windows of a memory-mapped file of tokens (numpy.memmap)
arrow      Hugging Face datasets: the photographs in an Arrow file, which is memory-mapped (PyPI)

Memory for the page cache is a cgroup's, whose limit follows what the processes of the training hold themselves; the disk is throttled by a cgroup. So root is
needed, --work has to lie on a disk (not on an overlay or in memory), and nothing else may run. Version 1 of cgroups is expected.
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
from limits import Groups, cool

SCRIPT = WAITS + r'''
import os, sys, time, pathlib, random
import numpy as np, torch
from torch.utils.data import DataLoader, Dataset
kind, data, mode, workers, step, seconds, warm = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5]), float(sys.argv[6]), int(sys.argv[7])
batch = 16
torch.set_num_threads(1)
torch.manual_seed(os.getpid())

class Files(Dataset):
    def __init__(self): self.paths = sorted(str(path) for path in pathlib.Path(data).rglob("*.jpg"))
    def __len__(self): return len(self.paths)
    def __getitem__(self, index):
        with open(self.paths[index], "rb") as file: content = np.frombuffer(file.read(), dtype=np.uint8)
        for _ in range(12): value = float(np.sort(content[:20000]).mean())
        return torch.full((64,), value), index

class Tokens(Dataset):
    def __init__(self): self.tokens = np.memmap(data, dtype=np.uint16, mode="r")
    def __len__(self): return 1600
    def __getitem__(self, index):
        start = random.randrange(len(self.tokens) - 1025)
        window = self.tokens[start:start + 1025].astype(np.int64)
        for _ in range(20): np.bincount(window, minlength=65536)
        return torch.from_numpy(window[:-1]).float()[:64], index

def transform():
    from torchvision import transforms
    # Small crops where the page cache is limited: its limit follows what the processes hold, which large batches change faster.
    size = 64 if kind in ("images", "files") else 224
    return transforms.Compose([transforms.RandomResizedCrop(size), transforms.RandomHorizontalFlip(), transforms.ToTensor()])

class Endless(torch.utils.data.Sampler):
    """One epoch after the other without a pause, in which workers would prepare batches that no time is counted for."""
    def __init__(self, dataset): self.count = len(dataset)
    def __iter__(self):
        while True: yield from torch.randperm(self.count).tolist()

def loader_of(dataset):
    order = {"sampler": Endless(dataset)} if mode == "clock" else {"shuffle": True}
    return len(dataset), DataLoader(dataset, batch_size=batch, num_workers=workers, drop_last=True, persistent_workers=workers > 0, **order)

if kind == "images":
    from torchvision.datasets import ImageFolder
    count, loader = loader_of(ImageFolder(data, transform()))
elif kind == "files": count, loader = loader_of(Files())
elif kind == "tokens": count, loader = loader_of(Tokens())
elif kind == "arrow":
    import datasets, io
    from PIL import Image
    make = transform()
    table = datasets.load_from_disk(data).with_transform(lambda rows: {"x": [make(Image.open(io.BytesIO(row)).convert("RGB")) for row in rows["bytes"]], "y": rows["label"]})
    count, loader = loader_of(table)
elif kind == "shards":
    import webdataset as wds
    make = transform()
    shards = sorted(str(path) for path in pathlib.Path(data).glob("*.tar"))
    pipeline = wds.WebDataset(shards, shardshuffle=len(shards), empty_check=False).shuffle(64).decode("pil").to_tuple("jpg", "cls").map_tuple(make, lambda label: label)
    if mode == "clock": pipeline = pipeline.repeat()
    count, loader = 50 * len(shards), DataLoader(pipeline.batched(batch, partial=False), batch_size=None, num_workers=workers, persistent_workers=workers > 0)
weight = torch.nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([weight], lr=1e-6)
def read_bytes():
    import multiprocessing
    total = 0
    for pid in [os.getpid(), *(child.pid for child in multiprocessing.active_children())]:
        with open(f"/proc/{pid}/io") as lines: total += next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))
    return total

if mode == "list":  # a step with batches at hand, which is what an accelerator of another speed changes
    import itertools
    kept = list(itertools.islice(loader, 32))
    times = []
    while sum(times) < seconds / 2:
        for x in kept:
            asked = time.perf_counter()
            x = x["x"] if isinstance(x, dict) else x[0]
            optimizer.zero_grad()
            (weight * x.mean()).backward()
            time.sleep(step)
            optimizer.step()
            times.append(time.perf_counter() - asked)
    print(sum(times[len(kept):]) / len(times[len(kept):]))
    sys.stdout.flush()
    os._exit(0)
begin, waited, steps, given, epoch = None, 0.0, 0, 0, count // batch
while True:
    batches = iter(loader)
    waits = Waits(batches if mode == "clock" else None)
    while True:
        asked = time.perf_counter()
        if mode == "clock":
            if begin is None and given >= warm * epoch + 2 * workers: begin, read_before = asked, read_bytes()
            if begin is not None and steps and steps % epoch == 0 and asked - begin > seconds:  # whole epochs: what the page cache has changes in the course of one
                print(steps * batch / (asked - begin), waited / (asked - begin), (read_bytes() - read_before) / (steps * batch))
                sys.stdout.flush()
                os._exit(0)
        waits.ask()
        try: x = next(batches)
        except StopIteration: break
        x = x["x"] if isinstance(x, dict) else x[0]
        given += 1
        if begin is not None:
            steps += 1
            if waits.found_none: waited += time.perf_counter() - asked
        optimizer.zero_grad()
        (weight * x.mean()).backward()
        time.sleep(step)
        optimizer.step()
'''

PROBE = r'''
import sys, time, zlib
import numpy as np
numbers = np.random.default_rng(0).integers(0, 256, 20000, dtype=np.uint8)
packed = zlib.compress(bytes(numbers) * 8)
room = np.empty((2, 4 << 20), dtype=np.uint8)
end, done = time.perf_counter() + float(sys.argv[1]), 0
while time.perf_counter() < end:  # sorting, decoding and copying, as loaders do
    np.sort(numbers)
    zlib.decompress(packed)
    room[1] = room[0]
    done += 1
print(done)
'''

base_workers, base_step, base_batch = 2, 0.02, 16  # as in the script
edge = 0.028
page = 4096
most_scatter = 10  # of the runs of one configuration, in percent: beyond that it is measured again, once
most_drift = 6  # of what the machine gives, between profile and rounds, in percent: beyond that both are done again
most_tries = 2
settled = 4  # epochs with less memory, until each misses as much as the next
interesting = {"images": ("workers", "cores", "cache", "storage", "step"), "files": ("workers", "cores", "cache", "storage", "step"),
               "shards": ("workers", "cores", "storage", "step"), "tokens": ("workers", "cores", "step"), "arrow": ("workers", "cores", "step")}


def note(text):
    print(text, file=sys.stderr, flush=True)


class Bench:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        (folder / "train.py").write_text(SCRIPT)
        self.cores = sorted(os.sched_getaffinity(0))
        self.data = {"images": arguments.photos, "files": arguments.photos, "tokens": folder / "tokens.bin", "shards": folder / "shards", "arrow": folder / "arrow"}

    def make_data(self, kinds):
        photos = sorted(self.arguments.photos.rglob("*.jpg"))
        if "tokens" in kinds:
            with open(self.data["tokens"], "wb") as file:
                for _ in range(100):
                    file.write(os.urandom(1 << 20))
        if "shards" in kinds:
            import webdataset
            self.data["shards"].mkdir()
            with webdataset.ShardWriter(str(self.data["shards"] / "%04d.tar"), maxcount=50, verbose=0) as writer:
                for at, photo in enumerate(photos):
                    writer.write({"__key__": f"{at:06}", "jpg": photo.read_bytes(), "cls": str(at % 10)})
        if "arrow" in kinds:
            import datasets
            datasets.Dataset.from_dict({"bytes": [photo.read_bytes() for photo in photos], "label": [at % 10 for at in range(len(photos))]}).save_to_disk(self.data["arrow"])
        subprocess.run(["sync"], check=True)

    def files_of(self, kind):
        data = self.data[kind]
        return [data] if data.is_file() else [path for path in data.rglob("*") if path.is_file()]

    def cool(self, kind, every=1):
        cool(self.files_of(kind)[::every])

    def warm(self, kind):
        for path in self.files_of(kind):
            path.read_bytes()

    def data_bytes(self, kind):
        return sum(path.stat().st_size for path in self.files_of(kind))

    def command(self, kind, mode, workers, step, warm=1):
        return [self.arguments.python, "train.py", kind, str(self.data[kind]), mode, str(workers), str(step), str(self.arguments.seconds), str(warm)]

    def profile(self, kind, start="warm"):
        place = self.folder / f"{kind}-{start}.json"
        self.cool(kind) if start == "cold" else self.warm(kind)
        if start == "half":
            self.cool(kind, 2)
        run = subprocess.run([self.arguments.program, "profile", "--time-budget", f"{self.arguments.time_budget:g}s", "--quiet", "-o", place, "--",
                              *self.command(kind, "train", base_workers, base_step)], cwd=self.folder, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            raise SystemExit(run.stderr)
        return place, json.loads(place.read_text())

    def speed(self, seconds):
        """What the machine gives at this moment: pieces of fixed work a second, on all cores at once."""
        runs = [subprocess.Popen([self.arguments.python, "-c", PROBE, str(seconds)], stdout=subprocess.PIPE, text=True,
                                 preexec_fn=lambda core=core: os.sched_setaffinity(0, [core])) for core in self.cores]
        return sum(int(run.communicate()[0]) for run in runs) / seconds

    def step_at_hand(self, kind, step):
        """Seconds of a step of the script over batches that it keeps in a list."""
        run = subprocess.run(self.command(kind, "list", base_workers, step), cwd=self.folder, capture_output=True, text=True, check=True)
        return float(run.stdout)

    def predicted(self, place, record, each):
        # What another accelerator changes is a step with batches at hand [G]; what the script does around its sleep is quicker after a shorter one.
        outside = record["waits"]["outside"]["seconds_per_step"]
        compute = base_batch / record["rates"]["G"]["samples_per_s"] - outside
        words = ["--workers", str(each["workers"]), "--cores", str(each["cores"])]
        if each.get("step_at_hand"):
            words += ["--accelerator-speed", f"{compute / (each['step_at_hand'] - outside):.6f}x"]
        if each.get("cache") is not None:
            words += ["--cache-size", f"{each['cache']}%"]
        if each.get("storage"):
            words += ["--storage", f"{each['storage']}MB/s"]
        run = subprocess.run([self.arguments.program, "whatif", place, *words, "--all", "--json"], capture_output=True, text=True, check=False)
        if run.returncode != 0:
            raise SystemExit(run.stderr)
        return max(json.loads(run.stdout)["answers"], key=lambda answer: len(answer["change"]))

    def measured(self, kind, each):
        """Rate, fraction of waiting, bytes a sample from storage. A run whose memory grew past its limit between two looks is done again."""
        for last in (False, False, True):
            try:
                return self.measured_once(kind, each)
            except subprocess.CalledProcessError as error:
                if last or error.returncode != -9:
                    raise
        raise AssertionError

    def measured_once(self, kind, each):
        limited = each.get("cache") is not None
        groups = Groups(self.folder, self.data_bytes(kind) * each["cache"] // 100 if limited else None, 1e6 * each.get("storage", 0))
        # Pages count to the group that reads them first. Without a limit the data lies in memory from the start.
        self.cool(kind) if limited else self.warm(kind)
        try:
            run = subprocess.run(self.command(kind, "clock", each["workers"], each.get("step", base_step), each.get("warm", settled if limited else 1)), cwd=self.folder, capture_output=True, text=True,
                                 check=True, preexec_fn=lambda: (groups.enter(), os.sched_setaffinity(0, self.cores[:each["cores"]])))
        finally:
            groups.close()
        return tuple(map(float, run.stdout.split()))


def drawn(kind, generator, cores, count):
    configurations = []
    axes = interesting[kind]
    while len(configurations) < count:
        each = {"workers": generator.choice([1, 2, 3, 4, 6]), "cores": generator.choice(range(1, cores + 1)), "step": generator.choice([0.005, 0.01, 0.02, 0.04, 0.08])}
        if "cache" in axes and generator.random() < 0.6:
            each["cache"] = generator.choice([30, 45, 60, 75])
        # A throttled disk is felt where data comes from it.
        if "storage" in axes and "cache" in each and generator.random() < 0.7:
            each["storage"] = generator.choice([8, 16, 32, 64])
        if each not in configurations:
            configurations.append(each)
    return configurations


def verdict(answer, waiting):
    bound = "data" if waiting > edge else "gpu"
    if answer["too_close"]:
        return "inconclusive"
    said = "gpu" if answer["bottleneck"] == "gpu" else "data"
    return "right" if bound == said or edge / 2 <= waiting <= 2 * edge else "WRONG"


def scatter_percent(runs):
    rates = [run[0] for run in runs]
    return 100 * (max(rates) - min(rates)) / 2 / statistics.median(rates)


def rows_of(bench, kind, generator):
    """Of the first try in which the machine gave rounds and profile the same, or of the last one."""
    configurations = drawn(kind, generator, len(bench.cores), bench.arguments.configurations)
    for _ in range(most_tries):
        before = bench.speed(10)
        place, record = bench.profile(kind)
        profiled = (before + bench.speed(10)) / 2
        rows, speeds = rows_of_one_profile(bench, kind, configurations, place, record)
        drift = 100 * (statistics.mean(speeds) / profiled - 1)
        note(f"{kind}: in the rounds the machine gave {drift:+.1f} % beside what it gave the profile ({', '.join(f'{each:.0f}' for each in (before, profiled, *speeds))} a second)")
        if abs(drift) <= most_drift:
            break
        for row in rows:
            note(line_of({"not counted": "", **row}))
    return rows


def rows_of_one_profile(bench, kind, configurations, place, record):
    """Rows, and what the machine gave before each round."""
    rates = {letter: f"{rate['samples_per_s']:.1f}" for letter, rate in record["rates"].items() if rate}
    found = next(run for run in record["runs"] if run["name"] == "full")["samples_per_s"]
    note(f"{kind}: {rates}, as found {found:.1f}; reads {record.get('reads')}; {'trusted' if record['trusted'] else ''} {[finding['code'] for finding in record['findings']]}")
    at_hand = {step: bench.step_at_hand(kind, step) for step in sorted({each["step"] for each in configurations} - {base_step})}
    asked = [{**each, "step_at_hand": at_hand.get(each["step"])} for each in configurations]
    answers = [bench.predicted(place, record, each) for each in asked]
    runs, as_found, speeds = [[] for _ in asked], [], []
    for _ in range(bench.arguments.rounds):
        speeds.append(bench.speed(5))
        as_found.append(bench.measured(kind, {"workers": base_workers, "cores": len(bench.cores)})[0])
        for at, each in enumerate(asked):
            runs[at].append(bench.measured(kind, each))
    for at, each in enumerate(asked):
        if scatter_percent(runs[at]) > most_scatter:
            note(f"{kind}: measured again, as the runs differ by ± {scatter_percent(runs[at]):.1f} %: {each}")
            runs[at] = [bench.measured(kind, each) for _ in range(bench.arguments.rounds)]
    speed = statistics.median(as_found) / found
    note(f"{kind}: the script as found runs at {100 * (speed - 1):+.1f} % of the profile's rate now; steps with batches at hand {at_hand}")
    return [row_of(kind, each, answer, measured, found, speed) for each, answer, measured in zip(asked, answers, runs)], speeds


def row_of(kind, each, answer, measured, found, speed):
    rate = statistics.median(run[0] for run in measured)
    waiting = statistics.median(run[1] for run in measured)
    return {"script": kind, **{axis: each.get(axis) for axis in ("workers", "cores", "cache", "storage", "step")}, "predicted": answer["samples_per_s"], "measured": rate,
            "error_percent": 100 * (answer["samples_per_s"] / rate - 1), "at_speed_percent": 100 * (speed * answer["samples_per_s"] / rate - 1),
            "low": answer["ci95_samples_per_s"]["low"], "high": answer["ci95_samples_per_s"]["high"], "scatter_percent": scatter_percent(measured),
            "unchanged_percent": 100 * (found / rate - 1), "waiting": waiting, "bottleneck": answer["bottleneck_detail"], "verdict": verdict(answer, waiting)}


def line_of(row):
    return "  ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items())


def summary(rows):
    errors = [abs(row["error_percent"]) for row in rows]
    unchanged = [abs(row["unchanged_percent"]) for row in rows]
    verdicts = [row["verdict"] for row in rows]
    return (f"{len(rows)} configurations: error {statistics.median(errors):.1f} % (median), {max(errors):.1f} % (worst); beyond 8 % and the runs' own scatter: "
            f"{sum(1 for row in rows if abs(row['error_percent']) > max(8, row['scatter_percent']))}; bottleneck right in {verdicts.count('right')}, inconclusive in "
            f"{verdicts.count('inconclusive')}, wrong in {verdicts.count('WRONG')}; predicting no change: {statistics.median(unchanged):.0f} % (median), {max(unchanged):.0f} % (worst)")


def starts(bench):
    """The same question to profiles of one script that was started cold, half in memory and warm."""
    for start in ("cold", "half", "warm"):
        place, record = bench.profile("files", start)
        answers = [bench.predicted(place, record, {"workers": 2, "cores": len(bench.cores), "cache": cache, "storage": storage})
                   for cache, storage in ((100, 0), (50, 0), (50, 16))]
        note(f"{start}: " + ", ".join(f"{answer['samples_per_s']:.1f} ({answer['bottleneck_detail']})" for answer in answers)
             + f"; as found {next(run for run in record['runs'] if run['name'] == 'full')['samples_per_s']:.1f}")


def misses(bench):
    """Of the bytes that a sample reads, the fraction from storage in one epoch: by `simulate --trace` of what the training as found read, and in runs under limits of memory.

    The kernel's lists take several epochs until each misses as much as the next, so it is the trace's last whole one, and the same one of the runs. Storage gives whole pages. The
    trace needs three whole epochs (--time-budget), and the data has to be large beside what processes hold (--photos): a limit of memory counts that, too.
    """
    for kind in ("files", "images"):
        place, trace = bench.folder / f"{kind}.json", bench.folder / f"{kind}.trace"
        bench.warm(kind)
        subprocess.run([bench.arguments.program, "profile", "--time-budget", f"{bench.arguments.time_budget:g}s", "--quiet", "-o", place, "--trace", trace, "--",
                        *bench.command(kind, "train", base_workers, 0.005)], cwd=bench.folder, capture_output=True, check=True)
        for cache in (25, 50, 75):
            run = subprocess.run([bench.arguments.program, "simulate", "--trace", trace, "--policy", "page-model:linux", "--cache-size", f"{bench.data_bytes(kind) * cache // 100}B",
                                  "--json"], capture_output=True, text=True, check=True)
            epoch, predicted = simulated_misses(json.loads(run.stdout), len(bench.files_of(kind)))
            runs = [bench.measured(kind, {"workers": base_workers, "cores": len(bench.cores), "cache": cache, "step": 0.005, "warm": epoch}) for _ in range(bench.arguments.rounds)]
            sizes = [path.stat().st_size for path in bench.files_of(kind)]
            each = sum(-(-size // page) * page for size in sizes) / len(sizes)
            note(f"{kind}, {cache} %, epoch {epoch + 1}: predicted {predicted:.3f}, measured {statistics.median(run[2] for run in runs) / each:.3f} "
                 f"({', '.join(f'{run[2] / each:.3f}' for run in runs)})")


def simulated_misses(record, samples):
    """The number of the last epoch that is whole, from 0, and its fraction."""
    case, = record["cases"]
    number, last = [each for each in enumerate(case["epochs"]) if each[1]["accesses"] > 0.9 * samples][-1]
    return number, last["read_bytes"] / last["accessed_bytes"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("--photos", type=lambda text: pathlib.Path(text).resolve(), required=True)
    parser.add_argument("--work", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--scripts", default="images,files,shards,tokens,arrow")
    parser.add_argument("--configurations", type=int, default=8, help="of each script")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6, help="of each measured run")
    parser.add_argument("--time-budget", type=float, default=40)
    parser.add_argument("--starts", action="store_true")
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
        bench = Bench(arguments, pathlib.Path(folder))
        kinds = arguments.scripts.split(",")
        if arguments.starts:
            return starts(bench)
        if arguments.misses:
            return misses(bench)
        bench.make_data(kinds)
        for kind in kinds:
            for row in rows_of(bench, kind, random.Random(f"{arguments.seed} {kind}")):
                rows.append(row)
                note(line_of(row))
    note(summary(rows))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")
    return None


if __name__ == "__main__":
    main()
