"""Trains with a cost in one place that is asked for, so that what names it can be checked: usage: train_causes.py CAUSE."""
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset, default_collate

cause = sys.argv[1] if len(sys.argv) > 1 else 'none'


def compute(seconds):
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        pass


class Samples(Dataset):
    def __len__(self):
        return 160 if cause == 'workers' else 20000

    def __getitem__(self, index):
        value = decoded(index)
        return augmented(value) if cause == 'transform' else value


def decoded(index):
    compute(0.0005)
    return torch.full((8,), float(index))


def augmented(value):
    compute(0.006)
    return value + 1


def collated(samples):
    if cause == 'collate':
        compute(0.03)
    return default_collate(samples)


def begin_slowly(worker):
    if cause == 'workers':
        time.sleep(0.8)


loader = DataLoader(Samples(), batch_size=4, num_workers=2, shuffle=True, collate_fn=collated, worker_init_fn=begin_slowly,
                    persistent_workers=cause != 'workers')
weight = torch.nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([weight], lr=1e-6)
while True:
    for batch in loader:
        optimizer.zero_grad()
        (weight * batch.mean()).backward()
        time.sleep(0.004)
        optimizer.step()
        if cause == 'outside':
            time.sleep(0.02)
