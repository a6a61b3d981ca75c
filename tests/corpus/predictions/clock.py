"""Clocks a public training script, unmodified, and ends it.

usage: clock.py FILE found|repeat|drain WORKERS|keep SECONDS SCRIPT [ARGUMENTS]

SCRIPT may be -m MODULE. Every DataLoader of it gets WORKERS workers. FILE then has the batches a second of the loader that leads to steps of an optimizer,
from one ask for a batch to the next: a pass's first one, and what lies between passes, are not counted. With `repeat` eight batches are handed out again
and again, so that no data is waited for; with `drain` batches are taken without a step in between. PyTorch 2.0 or later.
"""

import os
import pathlib
import runpy
import sys
import time

from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import dataloader

WARM_BATCHES, WARM_SECONDS, KEPT = 10, 2, 8


def length_of(batches):
    try:
        return len(batches._index_sampler)
    except TypeError:
        return float('inf')


class Clock:
    def __init__(self, place, mode, seconds):
        self.place, self.mode, self.seconds = place, mode, seconds
        self.stepped, self.begin, self.warm_steps = False, None, 0
        self.steps, self.spent, self.kept = 0, 0.0, []

    def ready(self, now):
        """Whether what comes now counts."""
        self.begin = self.begin or now
        return self.warm_steps >= WARM_BATCHES and now - self.begin > WARM_SECONDS

    def count(self, begin, end):
        if not self.ready(begin):
            self.warm_steps += 1
            return
        self.steps += 1
        self.spent += end - begin
        if self.spent > self.seconds:
            part = self.place.with_suffix('.part')
            part.write_text(f'{self.steps / self.spent}\n')
            os.replace(part, self.place)
            os._exit(0)

    def next(self, batches, take):
        """What the script gets; `batches` is a pass over a loader, of which `take` makes the next batch."""
        try:
            return self.batch(batches, take)
        except StopIteration:
            batches.clock_asks = 0  # Where workers stay, so does this object.
            raise

    def batch(self, batches, take):
        now = time.perf_counter()
        asks = getattr(batches, 'clock_asks', 0)
        if asks and self.stepped:
            batches.clock_trains = True
        self.stepped = False
        trains = getattr(batches, 'clock_trains', False)
        if trains and asks > 1:
            self.count(batches.clock_asked, now)
        batches.clock_asks, batches.clock_asked = asks + 1, now
        if trains and asks and self.mode == 'repeat':
            return self.again(batches, take, asks)
        while trains and asks > 1 and self.mode == 'drain' and self.ready(now):
            begin = time.perf_counter()
            take(batches)
            self.count(begin, time.perf_counter())
        return take(batches)

    def again(self, batches, take, asks):
        """One of the batches that are kept. A pass is as long as the script knows it to be."""
        if asks >= length_of(batches):
            while getattr(batches, '_persistent_workers', False):
                take(batches)  # They prepare the next pass only where they are through with this one.
            raise StopIteration
        if len(self.kept) < KEPT:
            self.kept.append(take(batches))
            return self.kept[-1]
        return self.kept[asks % KEPT]

    def step(self, *_):
        self.stepped = True


def install(clock, workers):
    take, make = dataloader._BaseDataLoaderIter.__next__, dataloader.DataLoader.__init__

    def init(self, dataset, *arguments, **options):
        if workers != 'keep':
            arguments = (*arguments[:4], int(workers), *arguments[5:]) if len(arguments) > 4 else arguments
            if len(arguments) <= 4:
                options['num_workers'] = int(workers)
            if int(workers) == 0:
                for name in ('prefetch_factor', 'persistent_workers', 'multiprocessing_context'):
                    options.pop(name, None)
        make(self, dataset, *arguments, **options)

    dataloader.DataLoader.__init__ = init
    dataloader._BaseDataLoaderIter.__next__ = lambda self: clock.next(self, take)
    register_optimizer_step_post_hook(clock.step)


def main():
    place, mode, workers, seconds, *command = sys.argv[1:]
    install(Clock(pathlib.Path(place), mode, float(seconds)), workers)
    if command[0] == '-m':
        sys.argv = command[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(command[1], run_name='__main__', alter_sys=True)
    else:
        sys.argv = command
        sys.path[0] = os.path.dirname(os.path.abspath(command[0]))
        runpy.run_path(command[0], run_name='__main__')


if __name__ == '__main__':
    main()
