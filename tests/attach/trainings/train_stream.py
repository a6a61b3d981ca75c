"""A training on a stream of files, which are always read from storage: in the same order at each start, or in another one."""
import argparse
import os
import pathlib
import random
import time

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

parser = argparse.ArgumentParser()
parser.add_argument('folder', type=pathlib.Path)
parser.add_argument('order', choices=['same', 'another'])
parser.add_argument('--files', type=int)
parser.add_argument('--prep', type=float, default=0.01)
args = parser.parse_args()


class Stream(IterableDataset):
    def __iter__(self):
        paths = sorted(args.folder.glob('*.bin'))[:args.files]
        (random.Random(1) if args.order == 'same' else random.SystemRandom()).shuffle(paths)
        info = get_worker_info()
        for path in paths[info.id::info.num_workers] if info else paths:
            with open(path, 'rb') as file:
                content = file.read()
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            time.sleep(args.prep)
            yield torch.full((8,), float(content[0]))


def main():
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    for _ in range(100000):
        for x in DataLoader(Stream(), 4, num_workers=2):
            model(x).mean().backward()
            time.sleep(0.002)
            optimizer.step()
            optimizer.zero_grad()


main()
