"""A proof that a loader's saved state loses and repeats no sample."""
import collections
import copy
import ctypes
import hashlib
import inspect
import itertools
import pickle
import random
from typing import Any, Callable, Iterable, List, NamedTuple, Optional, Sequence

most_thrown_away = 5
most_batches = 1_000_000
at_an_end = 0.25  # Of the stops, those at an epoch's begin or end.
most_looked_at = 16  # Of a list's items, to see how many samples a batch has.
most_over = 3  # Times as many batches as an epoch has: a pass that is longer never ends.


class ResumeFault(NamedTuple):
    """The first sample that was lost or repeated, and how to see it again."""
    what: str  # "lost", "repeated", or "repeated epoch", "skipped epoch": the epoch is an earlier or a later one's, batch for batch
    sample: Any
    epoch: int
    run: int  # With it and the seed, the same stops are drawn again.
    stops: Sequence[int]  # After so many batches, counted over all epochs; with a half where the pass had ended, too.


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
        row = row.detach().cpu()
        if str(row.dtype) == 'torch.bfloat16':
            row = row.float()
        row = row.contiguous().numpy()
    return row.tobytes() if hasattr(row, 'tobytes') else pickle.dumps(row)


def _digest(values):
    digest = hashlib.blake2b(digest_size=12)
    for value in values:
        row = _row_bytes(value)
        digest.update(len(row).to_bytes(8, 'little') + row)
    return digest.hexdigest()


def _length(leaf):
    """How many rows an array or a tensor has; nothing of what has none."""
    if isinstance(leaf, (str, bytes)) or not hasattr(leaf, '__len__'):
        return None
    if isinstance(leaf, (memoryview, ctypes.Array)):
        return memoryview(leaf).shape[0]
    shape = getattr(leaf, 'shape', None)
    return len(leaf) if shape is None else int(shape[0]) if len(shape) else None


def _rows(leaf):
    """What an array or a tensor has for each sample."""
    if isinstance(leaf, (memoryview, ctypes.Array)):
        leaf = memoryview(leaf)
        count = leaf.shape[0]
        whole = leaf.tobytes()
        return [whole[at * (len(whole) // count):(at + 1) * (len(whole) // count)] for at in range(count)] if count else []
    return leaf


def _parts(value):
    return list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, (list, tuple)) else [value]


def _counts(value):
    """How many samples a part of a batch may be of: the rows of its arrays, the items of its lists."""
    if isinstance(value, (dict, list, tuple)):
        found = {count for part in _parts(value)[:most_looked_at] for count in _counts(part)}
        return found if isinstance(value, dict) else found | {len(value)}
    length = _length(value)
    return set() if length is None else {length}


def _is_of(value, count):
    """Whether a part of a batch has something for each of so many samples."""
    if isinstance(value, (dict, list, tuple)):
        return (not isinstance(value, dict) and len(value) == count) or (len(value) > 0 and all(_is_of(part, count) for part in _parts(value)))
    return _length(value) == count


def _is_list_of_samples(batch, parts, count):
    """Lists of dicts, and of arrays of one kind that have no common length: each item is a sample."""
    if not isinstance(batch, (list, tuple)) or not parts or all(_is_of(part, count) for part in parts):
        return False
    kinds = {(type(part), str(getattr(part, 'dtype', '')), len(getattr(part, 'shape', ()))) for part in parts}
    return len(kinds) == 1 and (isinstance(parts[0], (dict, list, tuple)) or _length(parts[0]) is not None)


def _of_sample(value, at, count):
    """What a part of a batch has for one sample, as arrays and values."""
    if isinstance(value, (dict, list, tuple)):
        if not isinstance(value, dict) and len(value) == count:
            yield from _leaves(value[at])
        else:
            for part in _parts(value):
                yield from _of_sample(part, at, count)
    else:
        yield _rows(value)[at]


def digests(batch: Any) -> List[str]:
    """What verify_resume() knows a batch's samples by unless it is told: a digest of each one's values, in all tensors, arrays and lists of the batch.

    A batch is a tuple, list or dict of columns, each of which has something for every sample (rows of a tensor, items of a list), or a list of samples."""
    parts = [part for part in _parts(batch) if _counts(part)]
    if not parts:  # Numbers, paths: each is a sample.
        return [_digest([part]) for part in _parts(batch)]
    candidates = sorted({count for part in parts for count in _counts(part)})
    # Lists of samples' arrays beside a column of labels: what most parts agree on, and of several such numbers that of the first part's.
    count = max(candidates, key=lambda each: (sum(_is_of(part, each) for part in parts), _is_of(parts[0], each), _length(parts[0]) == each))
    if _is_list_of_samples(batch, parts, count):
        samples = [list(_leaves(part)) for part in batch]
    else:
        columns = [part for part in parts if _is_of(part, count)]
        samples = [[value for column in columns for value in _of_sample(column, at, count)] for at in range(count)]
    return [_digest(values) for values in samples]


def _named(samples):
    """What identify= gives of a batch, as values that can be compared: a tensor or an array of numbers, too."""
    return tuple(samples.tolist() if hasattr(samples, 'tolist') else samples)


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
        """Takes batches until there are so many in all (-1: no such number; with a half: and the pass has ended), or so many epochs are over."""
        self.passing = iter(())
        if self.steps == until or (len(self.epochs) == epochs and self._complete()):
            return
        empty = 0
        while empty < 2:
            given = 0
            self.passing = iter(loader)
            for batch in self.passing:
                given += 1
                if given == 1 and self._complete() and len(self.epochs) < epochs:
                    self.epochs.append([])  # The state was saved after an epoch's last batch, and the loader goes on with the next one at once.
                self.epochs[-1].append(_named(self._identify(batch)))
                self.steps += 1
                if self.steps == until:
                    return
                if self._expected is None:
                    if self.steps > most_batches:
                        raise ValueError(f'an epoch has more than {most_batches} batches: the loader must end its passes')
                elif len(self.epochs[-1]) > most_over * max(self._expected):
                    return
            if len(self.epochs) == epochs:
                return
            if self.epochs[-1]:
                self.epochs.append([])
            if self.steps == until - 0.5:
                return
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
        parameters = inspect.signature(make_loader).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(each.default is each.empty and each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in parameters)


def _places(generator, expected, stops):
    """After how many batches a run is stopped, the fewest first: some before the first batch, after an epoch's last, or after its pass has ended."""
    ends = [0]
    for end in itertools.accumulate(expected[:-1]):
        ends += [end, end + 0.5]
    between = range(1, sum(expected))
    drawn = set()
    for _ in range(1000 * stops):  # Places that lie too close to one another can leave room for fewer.
        if len(drawn) == min(stops, len(between)):
            break
        place = generator.choice(ends) if generator.random() < at_an_end else generator.choice(between)
        if not drawn & {place - 0.5, place + 0.5}:
            drawn.add(place)
    return sorted(drawn)


def _another(trial, reference):
    """The first epoch that is another one's, batch for batch, and which that is."""
    for at, epoch in enumerate(trial[:len(reference)]):
        if epoch and epoch != reference[at] and epoch in reference:
            return at, reference.index(epoch)
    return None


def verify_resume(make_loader: Callable[..., Iterable], *, epochs: int = 2, runs: int = 10, stops: int = 3, workers: Sequence[int] = (1, 2, 1), seed: int = 1,
                  identify: Optional[Callable[[Any], Sequence]] = None) -> ResumeReport:
    """Stops and resumes a loader at random, and counts its samples: each must come exactly once an epoch.

        report = dsanalyze.verify_resume(lambda workers: StatefulDataLoader(dataset, batch_size=8, num_workers=workers))
        assert report, str(report)

    make_loader: makes the loader anew, with state_dict() and load_state_dict(); where it needs an argument, the number of workers, which goes through
    `workers` from one stop to the next. A pass over it is an epoch. Each of the `runs` is stopped `stops` times, after numbers of batches that are drawn from
    `seed`, a quarter of them before the first batch or at an epoch's end: the state is saved (and pickled), up to five further batches are taken and thrown
    away, as by a program that is killed, and another loader goes on from the state. identify: the samples of a batch, as values that can be compared (numbers, paths); None: a digest of each sample's values, which
    needs a loader that augments nothing by chance.

    Raises ValueError where two runs that are not stopped do not give the same samples, so that nothing can be said; what the loader raises comes out.
    """
    if any(not isinstance(number, int) for number in (epochs, runs, stops)) or epochs < 1 or runs < 1 or stops < 1 or not workers:
        raise ValueError('verify_resume: expected at least one epoch, run and stop, and a number of workers')
    identify = identify or digests
    takes_workers = _takes_workers(make_loader)

    def make(turn):
        return make_loader(workers[turn % len(workers)]) if takes_workers else make_loader()

    references = []
    for _ in range(2):
        whole = _Trial(identify)
        loader = make(0)
        whole.take(loader, -1, epochs + 1)  # One more than is tried: a loader may go on with the wrong one.
        _close(loader)
        references.append(whole.epochs)
    one_more, also = references
    references = [one_more[:epochs], also[:epochs]]
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
        places = _places(generator, expected, stops)
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
        another = _another(trial.epochs, one_more) if one_more == also else None
        if another is not None:
            at, which = another
            all_of_it = sum(len(batch) for batch in trial.epochs[at])
            repeated, lost = (repeated + all_of_it, lost) if which < at else (repeated, lost + all_of_it)
            fault = fault or ResumeFault('repeated epoch' if which < at else 'skipped epoch', trial.epochs[at][0][0], at, run, tuple(places))
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
