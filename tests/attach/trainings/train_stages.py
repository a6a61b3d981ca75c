"""Trains on samples that are decoded and then changed by a transform that takes three times as long: all of it computes."""
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Slow:
    def __init__(self):
        self.seconds = 0.006

    # Its name is that of its class.
    def __call__(self, value):
        begin = time.perf_counter()
        while time.perf_counter() - begin < self.seconds:
            value = value + 1 - 1
        return value


class Decoded(Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, index):
        return change(decode(index))


def decode(index):
    begin = time.perf_counter()
    while time.perf_counter() - begin < 0.002:
        pass
    return torch.full((8,), float(index))


change = Slow()


def train(method):
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=1e-6)
    while True:
        for batch in DataLoader(Decoded(), batch_size=4, num_workers=2, shuffle=True, multiprocessing_context=method):
            optimizer.zero_grad()
            (weight * batch.mean()).backward()
            optimizer.step()


if __name__ == '__main__':
    train(None)
