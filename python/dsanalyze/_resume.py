"""A proof that a loader's saved state loses and repeats no sample."""
import collections
import copy
import hashlib
import inspect
import pickle
import random
from typing import Any, Callable, Iterable, List, NamedTuple, Optional, Sequence

most_thrown_away = 5
most_over = 3  # Times as many batches as an epoch has: a pass that is longer never ends.


class ResumeFault(NamedTuple):
    """The first sample that was lost or repeated, and how to see it again."""
    what: str  # "lost" or "repeated"
    sample: Any
    epoch: int
    run: int  # With it and the seed, the same stops are drawn again.
    stops: Sequence[int]  # After so many batches, counted over all epochs.


class ResumeReport(NamedTuple):
    """What verify_resume() found. True where no sample was lost or repeated."""
    runs: int
    stops: int
    samples: int  # Of all runs.
    lost: int
    repeated: int
    same_order: bool  # Each run gave the very batches of one that was not interrupted, in their order.
    seed: int
    fault: Optional[ResumeFault]

    def __bool__(self):
        return self.lost == 0 and self.repeated == 0

    def __str__(self):
        said = f'{self.runs} runs with {self.stops} stops: {self.samples} samples, {self.lost} lost, {self.repeated} repeated'
        if self.fault is not None:
            fault = self.fault
            return f'{said}. First {fault.what}: {fault.sample!r} of epoch {fault.epoch} in run {fault.run} of seed {self.seed}, stopped after {", ".join(map(str, fault.stops))} batches'
        return said + (', in the order of a run that is not stopped' if self.same_order else ', in another order than a run that is not stopped')


def _leaves(batch):
    if isinstance(batch, dict):
        for value in batch.values():
            yield from _leaves(value)
    elif isinstance(batch, (list, tuple)):
        for value in batch:
            yield from _leaves(value)
    else:
        yield batch


def _row_bytes(row):
    if hasattr(row, 'detach'):
        row = row.detach().cpu().contiguous().numpy()
    return row.tobytes() if hasattr(row, 'tobytes') else pickle.dumps(row)


def digests(batch: Any) -> List[str]:
    """What verify_resume() knows a batch's samples by unless it is told: a digest of each one's values, in all tensors, arrays and lists of the batch."""
    columns = [leaf for leaf in _leaves(batch) if hasattr(leaf, '__len__') and not isinstance(leaf, (str, bytes))]
    if not columns:
        columns = [list(_leaves(batch))]
    count = len(columns[0])
    made = []
    for at in range(count):
        digest = hashlib.blake2b(digest_size=12)
        for column in columns:
            if len(column) == count:
                digest.update(_row_bytes(column[at]))
        made.append(digest.hexdigest())
    return made


class _Trial:
    """One stream of batches, through several loaders one after another."""

    def __init__(self, identify, expected=None):
        self._identify = identify
        self._expected = expected  # Batches of each epoch; nothing: not known yet.
        self.epochs = [[]]
        self.steps = 0
        self.passing = iter(())

    def _complete(self):
        at = len(self.epochs) - 1
        return self._expected is not None and len(self.epochs[at]) >= self._expected[at]

    def take(self, loader, until, epochs):
        """Takes batches until there are so many in all (-1: no such number), or so many epochs are over."""
        empty = 0
        while empty < 2:
            given = 0
            self.passing = iter(loader)
            for batch in self.passing:
                given += 1
                if given == 1 and self._complete() and len(self.epochs) < epochs:
                    self.epochs.append([])  # The state was saved after an epoch's last batch, and the loader goes on with the next one at once.
                self.epochs[-1].append(tuple(self._identify(batch)))
                self.steps += 1
                if self.steps == until:
                    return
                if self._expected is not None and len(self.epochs[-1]) > most_over * max(self._expected):
                    return
            if len(self.epochs) == epochs:
                return
            if self.epochs[-1]:
                self.epochs.append([])
            empty = 0 if given else empty + 1

    def throw_away(self, count):
        """Takes as many batches more as a program that is killed has had since it saved its state."""
        for _ in range(count):
            next(self.passing, None)


def _close(loader):
    close = getattr(loader, 'close', None)
    if callable(close):
        close()


def _counted(epoch):
    return collections.Counter(sample for batch in epoch for sample in batch)


def _takes_workers(make_loader):
    try:
        return bool(inspect.signature(make_loader).parameters)
    except (TypeError, ValueError):
        return False


def verify_resume(make_loader: Callable[..., Iterable], *, epochs: int = 2, runs: int = 10, stops: int = 3, workers: Sequence[int] = (1, 2, 1), seed: int = 1,
                  identify: Optional[Callable[[Any], Sequence]] = None) -> ResumeReport:
    """Stops and resumes a loader at random, and counts its samples: each must come exactly once an epoch.

        report = dsanalyze.verify_resume(lambda workers: StatefulDataLoader(dataset, batch_size=8, num_workers=workers))
        assert report, str(report)

    make_loader: makes the loader anew, with state_dict() and load_state_dict(); where it takes an argument, the number of workers, which goes through
    `workers` from one stop to the next. A pass over it is an epoch. Each of the `runs` is stopped `stops` times, after numbers of batches that are drawn from
    `seed`: the state is saved (and pickled), up to five further batches are taken and thrown away, as by a program that is killed, and another loader goes
    on from the state. identify: the samples of a batch, as values that can be compared (numbers, paths); None: a digest of each sample's values, which
    needs a loader that augments nothing by chance.

    Raises ValueError where two runs that are not stopped do not give the same samples, so that nothing can be said; what the loader raises comes out.
    """
    if epochs < 1 or runs < 1 or stops < 1 or not workers:
        raise ValueError('verify_resume: expected at least one epoch, run and stop, and a number of workers')
    identify = identify or digests
    takes_workers = _takes_workers(make_loader)

    def make(turn):
        return make_loader(workers[turn % len(workers)]) if takes_workers else make_loader()

    references = []
    for _ in range(2):
        whole = _Trial(identify)
        loader = make(0)
        whole.take(loader, -1, epochs)
        _close(loader)
        references.append(whole.epochs)
    wanted = [_counted(epoch) for epoch in references[0]]
    if wanted != [_counted(epoch) for epoch in references[1]]:
        raise ValueError('two runs without a stop gave other samples: pass identify=, which names a batch\'s samples, and a fixed seed where an epoch is not all of the dataset')
    expected = [len(epoch) for epoch in references[0]]
    total = sum(expected)
    if total < 2:
        raise ValueError(f'the loader gave {total} batches in {epochs} epochs: too few to stop in between')
    lost = repeated = samples = stopped = 0
    same_order = True
    fault = None
    for run in range(runs):
        generator = random.Random(f'{seed} {run}')
        places = sorted(generator.sample(range(1, total), min(stops, total - 1)))
        trial = _Trial(identify, expected)
        loader = make(0)
        for turn, place in enumerate(places, 1):
            trial.take(loader, place, epochs)
            state = pickle.loads(pickle.dumps(copy.deepcopy(loader.state_dict())))
            trial.throw_away(generator.randrange(most_thrown_away + 1))
            _close(loader)
            loader = make(turn)
            loader.load_state_dict(state)
            stopped += 1
        trial.take(loader, -1, epochs)
        _close(loader)
        same_order &= trial.epochs == references[0]
        for epoch in range(epochs):
            got = _counted(trial.epochs[epoch]) if epoch < len(trial.epochs) else collections.Counter()
            samples += sum(got.values())
            missing, extra = wanted[epoch] - got, got - wanted[epoch]
            lost += sum(missing.values())
            repeated += sum(extra.values())
            if fault is None and (missing or extra):
                what = 'lost' if missing else 'repeated'
                fault = ResumeFault(what, next(iter(missing or extra)), epoch, run, tuple(places))
    return ResumeReport(runs, stopped, samples, lost, repeated, same_order, seed, fault)
