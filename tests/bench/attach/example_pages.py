"""Makes the example pages of docs/examples from trainings that are measured here, one for each kind of answer.

usage: example_pages.py PROGRAM --photos FOLDER --output FOLDER [--python PYTHON] [--time-budget S] [--only NAME] [--undisturbed]      (rank needs a PyTorch newer than 1.13)

prep          one worker prepares photographs for a network of one layer
accelerator   ShuffleNet trains on the processor and its worker keeps up
storage       the same photographs, read for the first time from a disk that is throttled to 12 MB/s (a cgroup, version 1; root)
rank          two ranks, one of which shares its core with another program

Each training is that of train.py below. FOLDER has class folders with photographs and lies on a disk. The profiles are kept beside the pages as NAME.json.
"""

import argparse
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from limits import Groups, cool

TRAIN = '''"""Trains on a folder of photographs. usage: train.py FOLDER NETWORK WORKERS"""
import os
import sys

import torch
from torch.utils.data import DataLoader, DistributedSampler
from torchvision import datasets, models, transforms

folder, network, workers = sys.argv[1], sys.argv[2], int(sys.argv[3])
torch.set_num_threads(1)
rank, ranks = int(os.environ.get('RANK', 0)), int(os.environ.get('WORLD_SIZE', 1))
if ranks > 1:
    os.sched_setaffinity(0, {rank})
    torch.distributed.init_process_group('gloo')
dataset = datasets.ImageFolder(folder, transforms.Compose([transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor()]))
sampler = DistributedSampler(dataset) if ranks > 1 else None
loader = DataLoader(dataset, batch_size=32, shuffle=sampler is None, sampler=sampler, num_workers=workers)
if network == 'shufflenet':
    model = models.shufflenet_v2_x0_5(num_classes=len(dataset.classes))
else:
    model = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(16), torch.nn.Flatten(), torch.nn.Linear(768, len(dataset.classes)))
if ranks > 1:
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for epoch in range(90):
    for images, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
'''
WORDS = {"prep": ("linear", "1"), "accelerator": ("shufflenet", "1"), "storage": ("linear", "2"), "rank": ("linear", "1")}


@contextlib.contextmanager
def throttled(folder):
    before = {controller: path for _, controller, path in (line.strip().split(":", 2) for line in open("/proc/self/cgroup"))}
    groups = Groups(folder, bytes_per_second=12_000_000)
    groups.enter()
    try:
        yield
    finally:
        for group in groups.folders:
            (pathlib.Path("/sys/fs/cgroup", group.parent.name, before[group.parent.name].strip("/")) / "cgroup.procs").write_text(str(os.getpid()))
        groups.close()


@contextlib.contextmanager
def busy_core():
    busy = subprocess.Popen(["taskset", "-c", "1", sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        busy.kill()
        busy.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--photos", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--python", type=pathlib.Path, default="/usr/bin/python3")
    parser.add_argument("--time-budget", type=float, default=90)
    parser.add_argument("--undisturbed", action="store_true", help="rank: without the other program, which shows what the delay costs")
    parser.add_argument("--only", choices=sorted(WORDS))
    arguments = parser.parse_args()
    photos, output, program = arguments.photos.resolve(), arguments.output.resolve(), arguments.program.resolve()
    files = [path for path in photos.rglob("*") if path.is_file()]
    environment = dict(os.environ, PATH=f"{arguments.python.parent}:{os.environ['PATH']}")
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "train.py").write_text(TRAIN)
        pathlib.Path(folder, "photos").symlink_to(photos)
        for name, words in WORDS.items():
            if arguments.only not in (None, name):
                continue
            if name == "storage":
                cool(files)
            else:
                for file in files:
                    file.read_bytes()
            ranks = ["python3", "-m", "torch.distributed.run", "--nproc_per_node", "2"] if name == "rank" else ["python3"]
            with throttled(photos) if name == "storage" else busy_core() if name == "rank" and not arguments.undisturbed else contextlib.nullcontext():
                subprocess.run([program, "profile", "--time-budget", f"{arguments.time_budget:g}s", "-o", f"{name}.json", "--html", f"{name}.html", "--", *ranks, "train.py", "photos",
                                *words], cwd=folder, check=True, env=environment)
            for made in (f"{name}.json", f"{name}.html"):
                shutil.copy(pathlib.Path(folder, made), output / made)


if __name__ == "__main__":
    main()
