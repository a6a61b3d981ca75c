"""The training that rows of launched scripts are made of, whose work does not depend on the machine.

usage: training.py CONFIGURATION train|clock [SECONDS]

CONFIGURATION is JSON. Of each sample, `work` seconds are computed (until the thread's CPU clock has advanced by so much) and `wait` seconds waited by a
clock, both more or less by `spread`, which the sample's number decides; of a step, `step` seconds are waited, or computed where `step_kind` is computes.
`train` goes on until it is stopped. `clock` prints samples/s over SECONDS, and the fraction of the time spent asking for batches, and ends.

waiting, computing, mixed   what their samples do, of a Dataset
streaming                   an IterableDataset, whose samples compute
tokens                      windows of a memory-mapped file (`data`), which are computed on
storage                     all samples wait for one device, which serves `depth` at a time for `wait` seconds each, and compute then
cached                      files (below `data`) are read and computed on; the clock starts after `settle` epochs
"""

import json
import multiprocessing
import os
import pathlib
import random
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, get_worker_info

COUNT = 10**6


def compute(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def wait(seconds):
    until = time.perf_counter() + seconds
    while (left := until - time.perf_counter()) > 0:
        time.sleep(left)


class Samples(Dataset):
    def __init__(self, configuration):
        self.each = configuration
        self.device = multiprocessing.BoundedSemaphore(configuration['depth']) if configuration['kind'] == 'storage' else None
        self.files, self.tokens = [], None
        if configuration['kind'] == 'cached':
            self.files = sorted(str(path) for path in pathlib.Path(configuration['data']).iterdir())
        elif configuration['kind'] == 'tokens':
            import numpy
            self.tokens = numpy.memmap(configuration['data'], dtype='uint16', mode='r')

    def __len__(self):
        return len(self.files) or COUNT

    def __getitem__(self, index):
        each, content = self.each, torch.zeros(256)
        factor = 1 + each['spread'] * (2 * random.Random(index).random() - 1)
        if self.files:
            pathlib.Path(self.files[index]).read_bytes()
        elif self.tokens is not None:
            start = random.Random(index).randrange(len(self.tokens) - 256)
            content = torch.from_numpy(self.tokens[start:start + 256].astype('float32'))
        if self.device:
            with self.device:
                wait(each['wait'] * factor)
        compute(each['work'] * factor)
        if each['wait'] and not self.device:
            wait(each['wait'] * factor)
        return content


class Stream(IterableDataset):
    def __init__(self, samples):
        self.samples = samples

    def __iter__(self):
        worker = get_worker_info()
        first, stride = (worker.id, worker.num_workers) if worker else (0, 1)
        return (self.samples[index] for index in range(first, COUNT, stride))


class Endless(Sampler):
    """One epoch after the other without a pause, in which workers would prepare batches that no time is counted for."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        while True:
            yield from torch.randperm(self.count).tolist()

    def __len__(self):
        return COUNT


def single(_):
    torch.set_num_threads(1)


def loader_of(each, mode):
    samples = Samples(each)
    options = {'batch_size': each['batch'], 'num_workers': each['workers'], 'drop_last': True, 'worker_init_fn': single}
    if each['workers']:
        options.update(prefetch_factor=each['prefetch'], persistent_workers=True)
    if each['kind'] == 'streaming':
        return DataLoader(Stream(samples), **options)
    if mode == 'clock':
        return DataLoader(samples, sampler=Endless(len(samples)), **options)
    return DataLoader(samples, shuffle=True, **options)


class Clock:
    """Rate and waiting over whole rounds of the workers, and over whole epochs where there are several."""

    def __init__(self, each, seconds, batches):
        self.each, self.seconds, self.given, self.steps, self.waited = each, seconds, 0, 0, 0.0
        self.started, self.begin = time.perf_counter(), None
        epoch = batches if each['kind'] == 'cached' else 1
        self.settle, self.warm = each['settle'] * epoch, max(5, each['workers'] * each['prefetch'])
        self.round = epoch if epoch > 1 else max(1, each['workers'])

    def ask(self, now):
        since = now - self.started
        if self.begin is None and self.given >= self.settle and (self.given >= self.warm and since > 1.5 or since > 6):
            self.begin, self.steps, self.waited = now, 0, 0.0
        elif self.begin is not None and self.steps % self.round == 0 and now - self.begin > self.seconds:
            print(self.steps * self.each['batch'] / (now - self.begin), self.waited / (now - self.begin), flush=True)
            os._exit(0)

    def got(self, asked):
        self.given += 1
        self.steps += 1
        self.waited += time.perf_counter() - asked


def main():
    each, mode = json.loads(sys.argv[1]), sys.argv[2]
    torch.set_num_threads(1)
    torch.manual_seed(1)
    loader = loader_of(each, mode)
    clock = Clock(each, float(sys.argv[3]), len(loader.dataset.files if each['kind'] == 'cached' else ()) // each['batch']) if mode == 'clock' else None
    weight = torch.nn.Parameter(torch.zeros(256))
    optimizer = torch.optim.SGD([weight], lr=1e-6)
    while True:
        batches = iter(loader)
        while True:
            asked = time.perf_counter()
            if clock:
                clock.ask(asked)
            batch = next(batches, None)
            if batch is None:
                break
            if clock:
                clock.got(asked)
            begin = time.perf_counter() if each['step_kind'] == 'waits' else time.thread_time()
            optimizer.zero_grad()
            (weight * batch).sum().backward()
            if each['step_kind'] == 'waits':
                wait(begin + each['step'] - time.perf_counter())
            else:
                compute(begin + each['step'] - time.thread_time())
            optimizer.step()


if __name__ == '__main__':
    main()
