"""The example pages of docs/examples: four trainings are profiled, one for each kind of verdict, and their HTML pages are written.

usage: example_pages.py PROGRAM --photos FOLDER [--python PYTHON] [--time-budget S] [--out docs/examples] [--only NAMES]

prep-bound          one worker decodes photographs for steps of 20 ms
slow-rank           two ranks with gloo; the second may use one core, and its loader delays the first
storage-bound       three workers read photographs from a disk that is limited to 30 MB/s, in memory that holds about a third of them
accelerator-bound   two workers, and steps of 150 ms

Steps sleep for a known time, as an accelerator computes beside the processor. The pages have the folder of the photographs and of the script in them: choose ones that anybody may read. The disk is limited by
a cgroup of version 1, so root is needed for `storage-bound`. Let nothing else run.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

from limits import Groups, cool

held_bytes = 400 << 20  # By the script's processes.
TRAIN = r'''
import argparse, os, time
import torch
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import ImageFolder

parser = argparse.ArgumentParser()
parser.add_argument("data")
parser.add_argument("--workers", type=int, default=1)
parser.add_argument("--step", type=float, default=0.02)
parser.add_argument("--cores-of-rank-1", type=int)
options = parser.parse_args()
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(3, 10))
sampler = None
transform = transforms.Compose([transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor()])
dataset = ImageFolder(options.data, transform)
if "RANK" in os.environ:
    torch.distributed.init_process_group("gloo")
    if options.cores_of_rank_1 and torch.distributed.get_rank() == 1:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:options.cores_of_rank_1])
    model = torch.nn.parallel.DistributedDataParallel(model)
    sampler = torch.utils.data.DistributedSampler(dataset)
loader = DataLoader(dataset, batch_size=16, shuffle=sampler is None, sampler=sampler, num_workers=options.workers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(1000):
    for images, labels in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        time.sleep(options.step)
        optimizer.step()
'''


class Examples:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        (folder / "train.py").write_text(TRAIN.lstrip())

    def page(self, name, *words, launcher=(), groups=None):
        saved = self.folder / f"{name}.json"
        subprocess.run([self.arguments.program, "profile", "--time-budget", f"{self.arguments.time_budget:g}s", "-o", saved, "--", self.arguments.python, *launcher, "train.py",
                        str(self.arguments.photos), *words], cwd=self.folder, check=True, preexec_fn=groups.enter if groups else None)
        subprocess.run([self.arguments.program, "report", saved, "--format", "html", "-o", self.arguments.out / f"{name}.html"], check=True)

    def prep_bound(self):
        self.page("prep-bound", "--workers", "1", "--step", "0.02")

    def slow_rank(self):
        self.page("slow-rank", "--workers", "1", "--step", "0.02", "--cores-of-rank-1", "1", launcher=("-m", "torch.distributed.run", "--nproc-per-node", "2"))

    def storage_bound(self):
        files = [path for path in self.arguments.photos.rglob("*") if path.is_file()]
        cool(files)
        groups = Groups(self.arguments.photos, bytes_per_second=30e6, memory_bytes=held_bytes + sum(path.stat().st_size for path in files) // 3)
        try:
            self.page("storage-bound", "--workers", "3", "--step", "0.02", groups=groups)
        finally:
            groups.close()

    def accelerator_bound(self):
        self.page("accelerator-bound", "--workers", "2", "--step", "0.15")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("--photos", type=lambda text: pathlib.Path(text).resolve(), required=True)
    parser.add_argument("--python", default="python3")
    parser.add_argument("--time-budget", type=float, default=60)
    parser.add_argument("--out", type=lambda text: pathlib.Path(text).resolve(), default="docs/examples")
    parser.add_argument("--folder", type=lambda text: pathlib.Path(text).resolve(), help="where train.py is written; a temporary folder without it")
    parser.add_argument("--only", default="prep-bound,slow-rank,storage-bound,accelerator-bound")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        examples = Examples(arguments, arguments.folder or pathlib.Path(temporary))
        for name in arguments.only.split(","):
            getattr(examples, name.replace("-", "_"))()
    return 0


if __name__ == "__main__":
    sys.exit(main())
