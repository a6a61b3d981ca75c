"""Trains on samples that are compressed, which lets go of Python's lock, and then parsed, which holds it. Prints the part of the CPU time that parsing takes."""
import json
import random
import time
import zlib

import torch
from torch.utils.data import DataLoader, Dataset

random.seed(1)
torch.set_num_threads(1)
packed = random.randbytes(1 << 20)
text = json.dumps([random.random() for _ in range(150000)])


def pack():
    return zlib.compress(packed, 6)


def parse():
    return json.loads(text)


def cost(function):
    begin = time.thread_time()
    for _ in range(5):
        function()
    return time.thread_time() - begin


class Samples(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        pack()
        parse()
        return torch.full((4,), float(index))


packing, parsing = cost(pack), cost(parse)
print(parsing / (packing + parsing))
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
for x in DataLoader(Samples(), 1, num_workers=1):
    model(x).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
