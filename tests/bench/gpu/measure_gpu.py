"""What the program does with a real GPU, against what is known by other means; writes a page and its JSON.

usage: measure_gpu.py PROGRAM [--page FILE] [--json FILE] [--seconds S] [--only PART,...] [--after FILE,...]

H           copies of whole batches from pinned memory, against copy_loop.cu beside this script (needs nvcc), interleaved
steps       G of `--accelerator cuda:RATE` against the rate that was asked for
loader      the full run against the lowest of its measured rates F, P, H and G
decode      decode, crop, resize, flip and normalise on the GPU, against nvJPEG's plain loop (nvjpeg_loop.cu), torchvision on the GPU and DALI, where they are
split       P of the split between GPU and cores that the model chooses, against the best of a search over shares
what-if     fewer cores, a faster accelerator, uint8 and prep on the GPU or split, each predicted from one profile and then run
mesh        each device's part directly, against a broadcast from device 0
G           `--accelerator pytorch:cuda` against CUDA events around the same training by hand (where PyTorch sees the GPU)
launched    `profile -- python3` of trainings on the GPU, against CUDA events and the script alone (launched_training.py; three minutes more)

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

import launched_training

HERE = pathlib.Path(__file__).resolve().parent
BATCH = 256
FLOATS = 224 * 224 * 3 * 4

BY_HAND = r"""
import json, sys, torch, torchvision
name, batch, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
model = getattr(torchvision.models, name)().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
scaler = torch.cuda.amp.GradScaler()  # mixed precision, as the program measures it
images, labels = torch.randn(batch, 3, 224, 224, device="cuda"), torch.randint(0, 1000, (batch,), device="cuda")
def step():
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cuda"):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
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
            raise RuntimeError(next((line for line in reversed(run.stderr.splitlines()) if "error:" in line), "no reason given"))
        record = json.loads(place.read_text())
        if any(found["code"] == "rate-not-measured" for found in record["findings"]):
            raise RuntimeError("the time budget was too short for a run")
        return record, place

    def predicted(self, place, *words):
        run = subprocess.run([self.program, "whatif", place, *words, "--json"], capture_output=True, text=True, check=True)
        # With several changes, the answer that has them all.
        return max(json.loads(run.stdout)["answers"], key=lambda answer: len(answer["change"]))["samples_per_s"]


def rate(record, letter):
    return record["rates"][letter]["samples_per_s"]


def full(record):
    return next(run for run in record["runs"] if run["name"] == "full")["samples_per_s"]


def compiled(machine, name, *words):
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not os.path.exists(nvcc):
        raise RuntimeError("no nvcc for the plain loop")
    loop = machine.folder / name
    subprocess.run([nvcc, "-O2", "-std=c++17", "-o", loop, HERE / f"{name}.cu", *words], check=True, capture_output=True)
    return loop


def h_row(machine):
    loop = compiled(machine, "copy_loop")
    ratios, ours = [], []
    for _ in range(5):
        record, _ = machine.profile("cuda:2000", "--runs", "synthetic", seconds=5)
        plain = float(subprocess.run([loop, str(BATCH * FLOATS), "50"], capture_output=True, text=True, check=True).stdout)
        ours.append(record["rates"]["H"]["bytes_per_s"])
        ratios.append(ours[-1] / plain)
    return {"what": "H, pinned, batches of 154 MB", "measured": f"{statistics.median(ours) / 1e9:.2f} GB/s", "against": "a plain cudaMemcpyAsync loop",
            "ratio": statistics.median(ratios), "ratios": ratios, "at_least": 0.97}


def step_rows(machine):
    rows = []
    for asked in (500, 4000, 30000):
        record, _ = machine.profile(f"cuda:{asked}", "--runs", "synthetic", seconds=6)
        rows.append({"what": f"G of steps of {BATCH / asked * 1000:.1f} ms", "measured": f"{rate(record, 'G'):,.0f} samples/s", "against": f"{asked:,} asked for",
                     "ratio": rate(record, "G") / asked, "at_least": 0.99})
    return rows


def loader_rows(machine):
    record, _ = machine.profile("cuda:2000")
    prep = rate(record, "P")
    rows = []
    for factor, place in ((0.5, "cpu"), (2, "cpu"), (6, "split")):
        record, _ = machine.profile(f"cuda:{prep * factor:.0f}", "--prep", place)
        least = min(rate(record, letter) for letter in "FPHG" if record["rates"].get(letter))
        rows.append({"what": f"loader to device, G of {factor:g} P, prep {place}", "measured": f"{full(record):,.0f} samples/s", "against": "min(F, P, H, G)", "ratio": full(record) / least,
                     "at_least": 0.97})
    return rows, prep


def decode_rows(machine):
    loop = compiled(machine, "nvjpeg_loop", "-lnvjpeg")
    ours, plain = [], []
    for _ in range(2):
        plain.append(float(subprocess.run([loop, machine.dataset, "0.6"], capture_output=True, text=True, check=True).stdout.split()[0]))
        record, _ = machine.profile("cuda:1000000", "--prep", "gpu", "--runs", "prep", seconds=12)
        ours.append(rate(record, "P"))
    measured = statistics.median(ours)
    row = {"what": f"decode, crop, resize, flip, normalise on the GPU ({record['curves']['P_by_server']['decoder']})", "measured": f"{measured:,.0f} images/s"}
    known = statistics.median(plain)
    rows = [{**row, "against": f"{known:,.0f} by nvJPEG's plain loop, which decodes alone", "ratio": measured / known, "runs": ours, "known": plain, "at_least": 0.95}]
    for name, script in (("torchvision on the GPU", "torchvision_loop.py"), ("DALI, decoder mixed", "dali_loop.py")):
        run = subprocess.run([sys.executable, HERE / script, machine.dataset, "2"], capture_output=True, text=True, check=False)
        if run.returncode == 0:
            rows.append({**row, "against": f"{float(run.stdout):,.0f} by {name}", "ratio": measured / float(run.stdout), "at_least": 1.3})
        else:
            rows.append({"what": f"the same against {name}", "not_measured": (run.stderr.strip().splitlines() or ["no reason given"])[-1]})
    return rows


def split_row(machine):
    def prep_rate(split):
        record, _ = machine.profile("cuda:1000000", "--prep", split, "--runs", "prep", seconds=12)
        return rate(record, "P"), record["settings"]["gpu_share"]

    found = {}
    for share in (0.5, 0.65, 0.75, 0.85, 1.0):
        found[share] = prep_rate(f"split:{share:.0%}")[0]
    chosen = [prep_rate("split") for _ in range(2)]
    best = max(found, key=found.get)
    again = [found[best], *(prep_rate(f"split:{best:.0%}")[0] for _ in range(1))]  # the best of one run each is lucky
    measured = statistics.median(each[0] for each in chosen)
    return {"what": f"P of the split that the model chooses, {', '.join(f'{100 * each[1]:.0f} %' for each in chosen)} on the GPU", "measured": f"{measured:,.0f} samples/s",
            "against": f"{statistics.median(again):,.0f} at the best of a search, {100 * best:.0f} %", "ratio": measured / statistics.median(again), "at_least": 0.97,
            "runs": chosen, "search": found, "again": again}


def what_if_rows(machine, prep):
    rows = []

    def ask(base, changes):
        record, place = machine.profile(*base)
        kept = machine.folder / "kept.json"
        shutil.copy(place, kept)
        for name, question, words in changes(max(int(record["host"]["cores"]) // 2, 1)):
            predicted = machine.predicted(kept, *question)
            runs = [full(machine.profile(*words, "--runs", "full", seconds=10)[0]) for _ in range(2)]
            measured = statistics.mean(runs)
            rows.append({"what": f"what-if: {name}", "measured": f"{measured:,.0f} samples/s", "against": f"{predicted:,.0f} predicted", "ratio": predicted / measured, "runs": runs,
                         "at_least": 0.95})

    slow, fast = f"cuda:{prep * 0.8:.0f}", f"cuda:{prep * 6:.0f}"
    ask((slow,), lambda cores: [
        (f"{cores} cores", ["--cores", str(cores)], (slow, "--cores", str(cores))),
        ("accelerator 2x", ["--accelerator-speed", "2x"], (f"cuda:{prep * 1.6:.0f}",)),
        ("uint8 instead of float32", ["--transfer", "4x"], (slow, "--dtype", "uint8")),
    ])
    ask((fast,), lambda cores: [
        ("prep on the GPU", ["--prep", "gpu"], (fast, "--prep", "gpu")),
        ("prep split", ["--prep", "split"], (fast, "--prep", "split")),
        (f"prep split, {cores} cores", ["--prep", "split", "--cores", str(cores), "--all"], (fast, "--prep", "split", "--cores", str(cores))),
    ])
    return rows


def mesh_rows(machine):
    rows = []
    for spec in ("batch", "S0,R,R,S1", "replicated"):
        record, _ = machine.profile("cuda:2000", "--runs", "synthetic", "--mesh", "2x2", "--input-sharding", spec, seconds=10, batch=64)
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
    record, _ = machine.profile("pytorch:cuda", "--workload", "resnet18", "--runs", "synthetic", seconds=15)
    return {**row, "measured": f"{rate(record, 'G'):,.0f} samples/s", "against": f"{known:,.0f} by CUDA events", "ratio": rate(record, "G") / known, "at_least": 0.99}


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
    parser.add_argument("--only", type=lambda text: text.split(","), default=["h", "steps", "decode", "split", "loader", "what-if", "mesh", "pytorch"])
    parser.add_argument("--after", type=lambda text: text.split(","), default=[], help="JSON of other parts, measured on this machine before")
    parser.add_argument("--launched", action="store_true", help="launched trainings, too")
    arguments = parser.parse_args()
    rows = [row for file in arguments.after for row in json.loads(pathlib.Path(file).read_text())["rows"]]

    def add(measure, *given):
        """A part that fails is a row that says why; the others go on."""
        try:
            found = measure(*given)
        except Exception as error:  # whatever it is, the others' minutes are not lost
            rows.append({"what": measure.__name__.replace("_rows", "").replace("_row", ""), "not_measured": str(error)})
            return None
        result, rest = found if isinstance(found, tuple) else (found, None)
        rows.extend(result if isinstance(result, list) else [result])
        print(*(json.dumps(row) for row in (result if isinstance(result, list) else [result])), sep="\n", flush=True)
        return rest

    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(arguments.program, pathlib.Path(folder), arguments.seconds)
        record, _ = machine.profile("cuda:2000", "--runs", "synthetic", seconds=4)
        prep = None
        for name, part in (("h", h_row), ("steps", step_rows), ("decode", decode_rows), ("split", split_row), ("loader", loader_rows), ("mesh", mesh_rows),
                           ("pytorch", pytorch_row)):
            if name in arguments.only:
                rest = add(part, machine)
                prep = rest or prep
        if prep and "what-if" in arguments.only:
            add(what_if_rows, machine, prep)
        if arguments.launched:
            for row in launched_training.rows(arguments.program, machine.folder, rounds=1):
                row.pop("record", None)
                rows.append(row)
                print(json.dumps(row), flush=True)
    host = record["host"]
    result = {"date": datetime.date.today().isoformat(), "machine": f"{host['accelerator']['description'].split(',')[0]}, {host['cores']:g} cores of {host['cpu_model']}", "rows": rows}
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    if arguments.page:
        arguments.page.write_text(page_of(result))
    print(page_of(result))


if __name__ == "__main__":
    main()
