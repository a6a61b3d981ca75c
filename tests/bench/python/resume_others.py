"""What `dsanalyze verify-resume` finds of other libraries' loaders and of dsanalyze's own, with seeds.

usage: resume_others.py PROGRAM --photos FOLDER [--python PYTHON] [--runs N] [--seed N] [--only NAMES] [--json FILE]

Each script makes a loader as its library's documentation does and iterates over it; its first pass is the proof. PYTHON is one with the libraries (PyPI); one that is not
there is a row that says so.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

COMMON = r'''
import glob, os, sys, torch
PHOTOS, WORK = sys.argv[1], sys.argv[2]
FILES = sorted(glob.glob(PHOTOS + "/**/*.jpg", recursive=True))

class Numbers(torch.utils.data.Dataset):
    def __len__(self): return 400
    def __getitem__(self, index): return torch.tensor(index)
'''

SCRIPTS = {
    "torchdata StatefulDataLoader, map-style": "from torchdata.stateful_dataloader import StatefulDataLoader\nfor batch in StatefulDataLoader(Numbers(), batch_size=8, shuffle=True, num_workers=2): pass",
    "torchdata StatefulDataLoader, a sampler of its own": r'''
from torchdata.stateful_dataloader import StatefulDataLoader
from torch.utils.data import WeightedRandomSampler
for batch in StatefulDataLoader(Numbers(), batch_size=8, sampler=torch.utils.data.RandomSampler(Numbers(), generator=torch.Generator().manual_seed(3)), num_workers=2): pass''',
    "torchdata StatefulDataLoader, a stream with a state": r'''
from torchdata.stateful_dataloader import StatefulDataLoader
class Stream(torch.utils.data.IterableDataset):
    def __init__(self): self.at = 0
    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        while self.at * step + first < 400:
            self.at += 1
            yield torch.tensor((self.at - 1) * step + first)
        self.at = 0
    def state_dict(self): return {"at": self.at}
    def load_state_dict(self, state): self.at = state["at"]
for batch in StatefulDataLoader(Stream(), batch_size=8, num_workers=2): pass''',
    "torchdata StatefulDataLoader, a stream without a state": r'''
from torchdata.stateful_dataloader import StatefulDataLoader
class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        for at in range(first, 400, step): yield torch.tensor(at)
for batch in StatefulDataLoader(Stream(), batch_size=8, num_workers=2): pass''',
    "LitData StreamingDataLoader": r'''
import litdata
from litdata import StreamingDataLoader, StreamingDataset
def written(index): return {"number": index}
if __name__ == "__main__":
    if not os.path.exists(WORK + "/lit"): litdata.optimize(fn=written, inputs=list(range(400)), output_dir=WORK + "/lit", chunk_size=40, num_workers=1)
    for batch in StreamingDataLoader(StreamingDataset(WORK + "/lit", shuffle=True, seed=5), batch_size=8, num_workers=2): pass''',
    "MosaicML StreamingDataLoader": r'''
from streaming import MDSWriter, StreamingDataLoader, StreamingDataset
if __name__ == "__main__":
    if not os.path.exists(WORK + "/mds"):
        with MDSWriter(out=WORK + "/mds", columns={"number": "int"}) as writer:
            for number in range(400): writer.write({"number": number})
    for batch in StreamingDataLoader(StreamingDataset(local=WORK + "/mds", shuffle=True, shuffle_seed=5, batch_size=8), batch_size=8, num_workers=2): pass''',
    "dsanalyze.Loader": r'''
import torch.utils.data, dsanalyze
for batch in dsanalyze.Loader(PHOTOS, batch_size=8, prep=[dsanalyze.RandomResizedCrop(32), dsanalyze.HorizontalFlip()]): pass''',
}


def proved(arguments, name, folder):
    script = folder / "train.py"
    script.write_text(COMMON + SCRIPTS[name])
    work = folder / "work"
    work.mkdir()
    run = subprocess.run([arguments.program, "verify-resume", "--json", "--runs", str(arguments.runs), "--seed", str(arguments.seed), "--", arguments.python, script, arguments.photos, work],
                         capture_output=True, text=True, check=False, timeout=900, cwd=folder, env=dict(os.environ, XDG_STATE_HOME=str(folder)))
    try:
        record = json.loads(run.stdout)
    except ValueError:
        record = {}
    if record.get("schema") != "dsanalyze.resume/1":
        return {"name": name, "said": " ".join(run.stderr.strip().splitlines()[-1:])[:400]}
    return {"name": name, **{key: record[key] for key in ("by", "workers", "workers_refused", "runs", "stops", "samples", "lost", "repeated", "same_order", "fault")}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("--photos", type=lambda text: pathlib.Path(text).resolve(), required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    rows = []
    for name in SCRIPTS:
        if arguments.only and name not in arguments.only.split(";"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            rows.append(proved(arguments, name, pathlib.Path(folder)))
        print(json.dumps(rows[-1]), flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
