"""What the program does with a real GPU, against what is known by other means; writes a page and its JSON.

usage: measure_gpu.py PROGRAM [--page FILE] [--json FILE] [--seconds S]

H           copies of whole batches from pinned memory, against copy_loop.cu beside this script (needs nvcc), interleaved
steps       G of `--accelerator cuda:RATE` against the rate that was asked for
loader      the full run against the lowest of its measured rates F, P, H and G
what-if     fewer cores, a faster accelerator and uint8, each predicted from one profile and then run
mesh        each device's part directly, against a broadcast from device 0
G           `--accelerator pytorch:cuda` against CUDA events around the same training by hand (where PyTorch sees the GPU)

Rows that cannot be measured say why. The photographs are made up (`dataset make`), 4,000 of them. Let nothing else use the machine.
"""

import argparse
import datetime
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BATCH = 256
FLOATS = 224 * 224 * 3 * 4

BY_HAND = r"""
import json, sys, torch, torchvision
name, batch, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
model = getattr(torchvision.models, name)().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
images, labels = torch.randn(batch, 3, 224, 224, device="cuda"), torch.randint(0, 1000, (batch,), device="cuda")
def step():
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
for _ in range(10): step()
rates, begun = [], torch.cuda.Event(enable_timing=True)
for _ in range(5):
    ended = torch.cuda.Event(enable_timing=True)
    begun.record()
    for _ in range(10): step()
    ended.record(); ended.synchronize()
    rates.append(batch * 10 / begun.elapsed_time(ended) * 1000)
print(sorted(rates)[2])
"""


class Machine:
    def __init__(self, program, folder, seconds):
        self.program, self.folder, self.seconds = program, folder, seconds
        self.dataset = folder / "photos"
        subprocess.run([program, "dataset", "make", self.dataset, "--samples", "4000"], check=True, capture_output=True)

    def profile(self, accelerator, *words, seconds=None, batch=BATCH):
        place = self.folder / "profile.json"
        command = [self.program, "profile", self.dataset, "--accelerator", accelerator, "--batch-size", str(batch), "--cache-size", "100%", "--time-budget",
                   f"{seconds or self.seconds:g}s", "--quiet", "-o", place, *words]
        run = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ, XDG_STATE_HOME=str(self.folder)))
        if run.returncode != 0:
            raise RuntimeError(run.stderr.strip().splitlines()[-1])
        return json.loads(place.read_text()), place

    def predicted(self, place, *words):
        run = subprocess.run([self.program, "whatif", place, *words, "--json"], capture_output=True, text=True, check=True)
        return json.loads(run.stdout)["answers"][-1]["samples_per_s"]


def rate(record, letter):
    return record["rates"][letter]["samples_per_s"]


def full(record):
    return next(run for run in record["runs"] if run["name"] == "full")["samples_per_s"]


def h_row(machine):
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not os.path.exists(nvcc):
        return {"what": "H, pinned", "not_measured": "no nvcc for the plain loop"}
    loop = machine.folder / "copy_loop"
    subprocess.run([nvcc, "-O2", "-o", loop, HERE / "copy_loop.cu"], check=True, capture_output=True)
    ratios, ours = [], []
    for _ in range(5):
        record, _ = machine.profile("cuda:2000", "--runs", "synthetic", seconds=6)
        plain = float(subprocess.run([loop, str(BATCH * FLOATS), "50"], capture_output=True, text=True, check=True).stdout)
        ours.append(record["rates"]["H"]["bytes_per_s"])
        ratios.append(ours[-1] / plain)
    return {"what": "H, pinned, batches of 154 MB", "measured": f"{statistics.median(ours) / 1e9:.2f} GB/s", "against": "a plain cudaMemcpyAsync loop",
            "ratio": statistics.median(ratios), "ratios": ratios, "at_least": 0.97}


def step_rows(machine):
    rows = []
    for asked in (500, 2000, 8000, 30000):
        record, _ = machine.profile(f"cuda:{asked}", "--runs", "synthetic", seconds=6)
        rows.append({"what": f"G of steps of {BATCH / asked * 1000:.1f} ms", "measured": f"{rate(record, 'G'):,.0f} samples/s", "against": f"{asked:,} asked for",
                     "ratio": rate(record, "G") / asked, "at_least": 0.99})
    return rows


def loader_rows(machine):
    record, _ = machine.profile("cuda:2000")
    prep = rate(record, "P")
    rows = []
    for factor in (0.5, 2):
        record, _ = machine.profile(f"cuda:{prep * factor:.0f}")
        least = min(rate(record, letter) for letter in "FPHG")
        rows.append({"what": f"loader to device, G of {factor:g} P", "measured": f"{full(record):,.0f} samples/s", "against": "min(F, P, H, G)", "ratio": full(record) / least,
                     "at_least": 0.97})
    return rows, prep


def what_if_rows(machine, prep):
    record, place = machine.profile(f"cuda:{prep * 0.8:.0f}")
    kept = machine.folder / "kept.json"
    shutil.copy(place, kept)
    cores = max(int(record["host"]["cores"]) // 2, 1)
    changes = [
        (f"{cores} cores", ["--cores", str(cores)], (f"cuda:{prep * 0.8:.0f}", "--cores", str(cores))),
        ("accelerator 2x", ["--accelerator-speed", "2x"], (f"cuda:{prep * 1.6:.0f}",)),
        ("uint8 instead of float32", ["--transfer", "4x"], (f"cuda:{prep * 0.8:.0f}", "--dtype", "uint8")),
    ]
    rows = []
    for name, question, words in changes:
        predicted = machine.predicted(kept, *question)
        runs = [full(machine.profile(*words)[0]) for _ in range(3)]
        measured = statistics.median(runs)
        rows.append({"what": f"what-if: {name}", "measured": f"{measured:,.0f} samples/s", "against": f"{predicted:,.0f} predicted", "ratio": predicted / measured, "runs": runs,
                     "at_least": 0.95})
    return rows


def mesh_rows(machine):
    rows = []
    for spec in ("batch", "S0", "S0,R,R,S1", "replicated"):
        record, _ = machine.profile("cuda:2000", "--runs", "synthetic", "--mesh", "2x2", "--input-sharding", spec, seconds=12, batch=64)
        rates = {point["feed"]: point["samples_per_s"] for point in record["curves"].get("H_by_feed", [])}
        if len(rates) < 2:
            rows.append({"what": f"mesh 2x2, {spec}", "not_measured": "too little time"})
            continue
        rows.append({"what": f"mesh 2x2, {spec}: parts directly", "measured": f"{rates['direct']:,.0f} samples/s", "against": f"{rates['broadcast']:,.0f} by a broadcast from device 0",
                     "ratio": rates["direct"] / rates["broadcast"], "devices": record["host"]["accelerator"]["description"]})
    return rows


def pytorch_row(machine):
    row = {"what": "G by --accelerator pytorch:cuda, resnet18"}
    by_hand = subprocess.run([sys.executable, "-c", BY_HAND, "resnet18", str(BATCH), "5"], capture_output=True, text=True, check=False)
    if by_hand.returncode != 0:
        return {**row, "not_measured": "PyTorch does not train on the GPU here: " + (by_hand.stderr.strip().splitlines() or ["no reason given"])[-1]}
    known = float(by_hand.stdout)
    record, _ = machine.profile("pytorch:cuda", "--workload", "resnet18", "--runs", "synthetic", seconds=30)
    return {**row, "measured": f"{rate(record, 'G'):,.0f} samples/s", "against": f"{known:,.0f} by CUDA events", "ratio": rate(record, "G") / known, "at_least": 0.99}


DECODING = "not built yet: decoding on the GPU (nvJPEG) and the split of prep"


def page_of(result):
    lines = ["# What was measured on a GPU", "", f"`scripts/measure-gpu`, {result['date']}: {result['machine']}.", "", "| what | measured | against | ratio | at least |",
             "| --- | --- | --- | --- | --- |"]
    for row in result["rows"]:
        if "not_measured" in row:
            lines.append(f"| {row['what']} | not measured | {row['not_measured']} | | |")
        else:
            lines.append(f"| {row['what']} | {row['measured']} | {row['against']} | {row['ratio']:.3f} | {row.get('at_least', '')} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("--page", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=20, help="of each profile")
    arguments = parser.parse_args()
    rows = []

    def add(measure, *given):
        """A part that fails is a row that says why; the others go on."""
        try:
            found = measure(*given)
        except (RuntimeError, subprocess.CalledProcessError) as error:
            rows.append({"what": measure.__name__.replace("_rows", "").replace("_row", ""), "not_measured": str(error)})
            return None
        result, rest = found if isinstance(found, tuple) else (found, None)
        rows.extend(result if isinstance(result, list) else [result])
        print(*(json.dumps(row) for row in (result if isinstance(result, list) else [result])), sep="\n", flush=True)
        return rest

    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(arguments.program, pathlib.Path(folder), arguments.seconds)
        record, _ = machine.profile("cuda:2000", "--runs", "synthetic", seconds=4)
        add(h_row, machine)
        add(step_rows, machine)
        prep = add(loader_rows, machine)
        if prep:
            add(what_if_rows, machine, prep)
        add(mesh_rows, machine)
        add(pytorch_row, machine)
    rows.append({"what": "decode, crop and resize; the split that the model chooses", "not_measured": DECODING})
    host = record["host"]
    result = {"date": datetime.date.today().isoformat(), "machine": f"{host['accelerator']['description'].split(',')[0]}, {host['cores']:g} cores of {host['cpu_model']}", "rows": rows}
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    if arguments.page:
        arguments.page.write_text(page_of(result))
    print(page_of(result))


if __name__ == "__main__":
    main()
