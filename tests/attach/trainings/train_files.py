"""A training whose samples lie in files: reads them in one of several ways."""
import argparse
import mmap
import os
import pathlib
import subprocess
import time

import torch
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument('folder', type=pathlib.Path)
parser.add_argument('--way', choices=['read', 'mapped'], default='read')
parser.add_argument('--program', help='copies a file to its output')
parser.add_argument('--step', type=float, default=0.005)
parser.add_argument('--times', type=int, default=100, help='that each file is read in an epoch')
args = parser.parse_args()


class Files(Dataset):
    def __init__(self):
        self.paths = sorted(args.folder.glob('*.bin'))
        self.maps = None
        if args.way == 'mapped':
            self.maps = [mmap.mmap(os.open(path, os.O_RDONLY), 0, prot=mmap.PROT_READ) for path in self.paths]

    def __len__(self):
        return args.times * len(self.paths)

    def __getitem__(self, index):
        number = index % len(self.paths)
        if self.maps:
            content = self.maps[number][:]
        elif args.program:
            content = subprocess.run([args.program, self.paths[number]], stdout=subprocess.PIPE, check=True).stdout
        else:
            content = self.paths[number].read_bytes()
        return torch.full((8,), float(content[0]))


def main():
    loader = DataLoader(Files(), 8, shuffle=True, num_workers=2)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    for _ in range(5000 // args.times):
        for x in loader:
            model(x).mean().backward()
            time.sleep(args.step)
            optimizer.step()
            optimizer.zero_grad()


main()
