"""Whether loaders of other libraries are followed, those that are no DataLoader by `dsanalyze.watch()`: one small training each, the same photographs, the same network.

usage: other_loaders.py PROGRAM --photos FOLDER [--python PYTHON] [--only NAMES] [--time-budget S] [--json FILE]

Each script decodes and resizes photographs (or reads synthetic samples, where the library has a format of its own) by its loader and trains a network of one layer; before and after, it drains the same
loader by itself: the mean is what P has to be. The start of an epoch (workers that begin, a shuffled order) is left out of a drain, as it is of P. PYTHON is one with the libraries (PyPI); a library that is not there is a row that says so. Let nothing else run.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import framework_scripts

COMMON = framework_scripts.DRAIN + r'''
import io, os, sys, time, glob
os.environ["OMP_NUM_THREADS"] = "1"
import numpy as np
import torch
from PIL import Image
torch.set_num_threads(1)
PHOTOS, WORK, DRAIN = sys.argv[1], sys.argv[2], len(sys.argv) > 3
FILES = sorted(glob.glob(PHOTOS + "/**/*.jpg", recursive=True))
BATCH, WORKERS = 16, 2

def decoded(content):
    with Image.open(io.BytesIO(content)) as image:
        return torch.from_numpy(np.asarray(image.convert("RGB").resize((64, 64)))).permute(2, 0, 1).float()

class Photos(torch.utils.data.Dataset):
    def __len__(self): return len(FILES)
    def __getitem__(self, index):
        with open(FILES[index], "rb") as file: return decoded(file.read()), index % 10

def images_of(batch):
    """The tensor of pictures in whatever a loader hands out."""
    while not isinstance(batch, torch.Tensor):
        if isinstance(batch, dict): batch = next(value for value in batch.values() if getattr(value, "ndim", 0) > 1 or isinstance(value, (list, dict)))
        elif isinstance(batch, np.ndarray): batch = torch.from_numpy(batch)
        else: batch = batch[0]
    return batch

def train(loader, watch=False, seconds=120):
    if DRAIN:
        drain(loader, lambda batch: len(images_of(batch)))
    if watch:
        import dsanalyze
        loader = dsanalyze.watch(loader)
    model, optimizer, begun = None, None, time.monotonic()
    while time.monotonic() - begun < seconds:
        for batch in loader:
            images = images_of(batch).float().flatten(1)
            if model is None:
                model = torch.nn.Linear(images.shape[1], 10); optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
            loss = model(images).pow(2).mean(); optimizer.zero_grad(); loss.backward(); optimizer.step(); time.sleep(0.005)
'''

SCRIPTS = {
    "DataLoader": "train(torch.utils.data.DataLoader(Photos(), BATCH, num_workers=WORKERS))",
    "torchdata StatefulDataLoader": "from torchdata.stateful_dataloader import StatefulDataLoader\ntrain(StatefulDataLoader(Photos(), BATCH, num_workers=WORKERS))",
    "Accelerate": "from accelerate import Accelerator\ntrain(Accelerator(cpu=True).prepare(torch.utils.data.DataLoader(Photos(), BATCH, num_workers=WORKERS)))",
    "Hugging Face datasets": r'''
import datasets
table = datasets.Dataset.from_dict({"file": FILES, "label": [0] * len(FILES)})
def prepared(rows): return {"pixel": [decoded(open(name, "rb").read()) for name in rows["file"]], "label": rows["label"]}
train(torch.utils.data.DataLoader(table.with_transform(prepared), BATCH, num_workers=WORKERS))''',
    "timm create_loader": r'''
import timm.data.loader
class Pairs(Photos):
    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return image.byte().numpy(), label
loader = timm.data.loader.PrefetchLoader(torch.utils.data.DataLoader(Pairs(), BATCH, num_workers=WORKERS, collate_fn=timm.data.loader.fast_collate), device=torch.device("cpu"))
train(loader)''',
    "WebDataset WebLoader": r'''
import inspect, tarfile, webdataset
for shard in range(4):
    with tarfile.open(f"{WORK}/{shard:06}.tar", "w") as tar:
        for name in FILES[shard::4]: tar.add(name, os.path.basename(name))
shards = webdataset.WebDataset(WORK + "/{000000..000003}.tar", shardshuffle=False, **({"empty_check": False} if "empty_check" in inspect.signature(webdataset.WebDataset.__init__).parameters else {})).map(lambda sample: (decoded(sample["jpg"]), 0)).batched(BATCH)
train(webdataset.WebLoader(shards, batch_size=None, num_workers=WORKERS))''',
    "LitData": r'''
import litdata
from litdata import StreamingDataLoader, StreamingDataset
def written(index): return {"image": open(FILES[index], "rb").read(), "label": index % 10}
if __name__ == "__main__":
    if not os.path.exists(WORK + "/lit"):
        litdata.optimize(fn=written, inputs=list(range(len(FILES))), output_dir=WORK + "/lit", chunk_bytes="8MB", num_workers=1)
    class Decoded(StreamingDataset):
        def __getitem__(self, index): return decoded(super().__getitem__(index)["image"]), 0
    train(StreamingDataLoader(Decoded(WORK + "/lit"), batch_size=BATCH, num_workers=WORKERS))''',
    "Streaming (MosaicML)": r'''
from streaming import MDSWriter, StreamingDataset, StreamingDataLoader
if not os.path.exists(WORK + "/mds"):
    with MDSWriter(out=WORK + "/mds", columns={"image": "bytes"}) as writer:
        for name in FILES: writer.write({"image": open(name, "rb").read()})
class Decoded(StreamingDataset):
    def __getitem__(self, index): return decoded(super().__getitem__(index)["image"]), 0
train(StreamingDataLoader(Decoded(local=WORK + "/mds", batch_size=BATCH), batch_size=BATCH, num_workers=WORKERS))''',
    "FFCV": r'''
from ffcv.fields import IntField, RGBImageField
from ffcv.fields.decoders import CenterCropRGBImageDecoder, IntDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import ToTensor, ToTorchImage
from ffcv.writer import DatasetWriter
class Pairs:
    def __len__(self): return len(FILES)
    def __getitem__(self, index): return np.asarray(Image.open(FILES[index]).convert("RGB")), index % 10
if not os.path.exists(WORK + "/photos.beton"):
    DatasetWriter(WORK + "/photos.beton", {"image": RGBImageField(write_mode="jpg"), "label": IntField()}, num_workers=1).from_indexed_dataset(Pairs())
train(Loader(WORK + "/photos.beton", batch_size=BATCH, num_workers=WORKERS, order=OrderOption.RANDOM, drop_last=True,
             pipelines={"image": [CenterCropRGBImageDecoder((64, 64), 1.0), ToTensor(), ToTorchImage()], "label": [IntDecoder(), ToTensor()]}), watch=True)''',
    "DALI": r'''
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.plugin.pytorch import DALIGenericIterator
@pipeline_def(batch_size=BATCH, num_threads=WORKERS, device_id=None)
def pipeline():
    content, label = fn.readers.file(files=FILES, labels=[0] * len(FILES), name="reader")
    return fn.resize(fn.decoders.image(content, device="cpu"), size=(64, 64)), label
built = pipeline(); built.build()
train(DALIGenericIterator([built], ["image", "label"], reader_name="reader", auto_reset=True), watch=True)''',
    "SPDL": r'''
import spdl.dataloader
def content(at):
    with open(FILES[at], "rb") as file: return decoded(file.read())
def stacked(images): return torch.stack(images), 0
train(spdl.dataloader.DataLoader(range(len(FILES)), batch_size=BATCH, preprocessor=content, aggregator=stacked, num_threads=WORKERS), watch=True)''',
    "a generator": r'''
def batches():
    for at in range(0, len(FILES) - BATCH, BATCH):
        yield torch.stack([decoded(open(name, "rb").read()) for name in FILES[at:at + BATCH]]), 0
class Made:
    def __iter__(self): return batches()
train(Made(), watch=True)''',
}
TEXTS = {**{name: COMMON + text for name, text in SCRIPTS.items()}, **framework_scripts.TEXTS}


def drained(command, environment):
    """Samples a second, or what the script said in the end."""
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=300)
    rate = next((float(line.split()[1]) for line in run.stdout.splitlines() if line.startswith("RATE")), None)
    return rate if rate is not None else " ".join(run.stderr.strip().splitlines()[-1:])


def measured(arguments, name, folder):
    script = folder / "train.py"
    script.write_text(TEXTS[name])
    work = folder / "work"
    work.mkdir(exist_ok=True)
    environment = dict(os.environ, OMP_NUM_THREADS="1", XDG_STATE_HOME=str(folder))
    drain = [arguments.python, script, arguments.photos, work, "drain"]
    before = drained(drain, environment)
    if isinstance(before, str):
        before = drained(drain, environment)  # Workers of LitData die in the run that has written its dataset.
    if isinstance(before, str):
        return {"name": name, "not_run": before}
    place = folder / "profile.json"
    place.unlink(missing_ok=True)
    run = subprocess.run([arguments.program, "profile", "--time-budget", f"{arguments.time_budget:g}s", "--quiet", "-o", place, "--", arguments.python, script, arguments.photos, work],
                         capture_output=True, text=True, check=False, env=environment, timeout=600)
    after = drained(drain, environment)
    rate = (before + after) / 2
    if not place.exists():
        return {"name": name, "known_prep": rate, "said": " ".join(run.stderr.strip().splitlines()[-1:])}
    record = json.loads(place.read_text())
    prep = (record["rates"]["P"] or {}).get("samples_per_s")
    return {"name": name, "known_prep": rate, "drains": [before, after], "prep": prep, "error": prep / rate - 1 if prep else None, "loader": record["loader"]["name"], "workers": record["loader"]["workers"],
            "verdict": (record.get("bottleneck") or {}).get("detail"), "waits": ((record.get("waits") or {}).get("data") or {}).get("fraction"),
            "fix": (record.get("fix") or {}).get("workers"), "findings": [finding["code"] for finding in record["findings"]]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("--photos", type=lambda text: pathlib.Path(text).resolve(), required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only")
    parser.add_argument("--time-budget", type=float, default=20)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    rows = []
    for name in TEXTS:
        if arguments.only and name not in arguments.only.split(";"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measured(arguments, name, pathlib.Path(folder)))
        print(json.dumps(rows[-1]), flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
