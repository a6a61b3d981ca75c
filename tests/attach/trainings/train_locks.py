"""Trains on samples that are compressed, which lets go of Python's lock, and then parsed, which holds it. The worker writes what it takes for both, in ns of CPU time,
as a line for each sample to the file that is named."""
import json
import random
import sys
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


class Samples(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        begin = time.thread_time_ns()
        pack()
        packed = time.thread_time_ns()
        parse()
        with open(sys.argv[1], 'a') as costs:
            costs.write('{} {}\n'.format(packed - begin, time.thread_time_ns() - packed))
        return torch.full((4,), float(index))


model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
for x in DataLoader(Samples(), 1, num_workers=1):
    model(x).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
