"""Trains on batches of 8 MB that are tensors, which workers hand over in shared memory, or arrays, which come through a pipe: `train_arrays.py tensors|arrays`."""
import sys

import numpy
import torch
from torch.utils.data import DataLoader, Dataset


class Large(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        return numpy.full(500_000, float(index), dtype=numpy.float32)


def collected(samples):
    batch = numpy.stack(samples)
    return torch.from_numpy(batch) if sys.argv[1] == 'tensors' else batch


weight = torch.nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([weight], lr=1e-6)
while True:
    for batch in DataLoader(Large(), batch_size=4, num_workers=1, collate_fn=collected):
        optimizer.zero_grad()
        (weight * float(batch[0, 0])).sum().backward()
        optimizer.step()
