"""Trains with batches that no DataLoader delivers: usage: train_watched.py KIND STEP PREP [BATCHES]. KIND: turns (prepares when it is asked), ahead (in a thread, four
batches ahead), generator (its own iterator), arrays (no tensors)."""
import queue
import sys
import threading
import time

import torch

import dsanalyze

kind, step, prep = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
batches = int(sys.argv[4]) if len(sys.argv) > 4 else 20000


def batch(number):
    time.sleep(prep)
    value = torch.full((8, 4), float(number))
    return {'x': value.numpy()} if kind == 'arrays' else {'x': value}


class Turns:
    batch_size = 8

    def __len__(self):
        return batches

    def __iter__(self):
        return map(batch, range(batches))


class Ahead(Turns):
    def __iter__(self):
        ready = queue.Queue(4)

        def fill():
            for number in range(batches):
                ready.put(batch(number))

        threading.Thread(target=fill, daemon=True).start()
        return iter(ready.get, None)


loader = dsanalyze.watch({'turns': Turns, 'arrays': Turns, 'ahead': Ahead, 'generator': lambda: map(batch, range(batches))}[kind]())
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
for batch_of in loader:
    optimizer.zero_grad()
    model(torch.as_tensor(batch_of['x'])).mean().backward()
    time.sleep(step)
    optimizer.step()
