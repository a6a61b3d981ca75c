"""Second loaders over the batches that the script has had: drained without a step, or in place of the script's own."""
import math
import os
import time
import warnings
from time import monotonic_ns as now

from .batches import leaves_of, samples_of
from .shared_memory import error_text

grace_seconds = min(60.0, float(os.environ.get('DSANALYZE_ATTACH_PATIENCE', 60)))
longest_ready_seconds = 1
most_taken_over = 4
building = False


_end = object()  # A batch may be None: a collate function that drops broken samples.


def _samples(record, lists, number, batch):
    index = lists[number % len(lists)] if lists else None
    if isinstance(index, (list, tuple)):
        return len(index)
    if record.recipe['auto_collation'] and record.facts['batch_size']:
        return record.samples_without_index(batch)
    return samples_of(batch)


def _start(loader):
    global building
    building = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            return iter(loader)
    finally:
        building = False


def _stop(iterator):
    try:
        stop = getattr(iterator, '_shutdown_workers', None)
        if stop is not None:
            stop()
    except Exception:
        pass


def first_batches(record, count):
    """`count` batches of a second loader like the script's, with their samples; fewer where there are no more. Of a loader that has index lists, they are of lists
    from all of those that are known to be in memory."""
    lists = record.lists[:record.warmed or None]
    lists = [lists[at * len(lists) // count] for at in range(count)] if len(lists) > count else lists
    iterator = _start(record.kind.second(record, lists, len(lists), record.recipe['num_workers']))
    try:
        for number in range(count):
            batch = next(iterator, _end)
            if batch is _end:
                return
            yield batch, _samples(record, lists, number, batch)
    finally:
        _stop(iterator)


class Cycle:
    """A stream from its beginning, again and again: batches are fetched ahead as the script's own loader does."""

    def __init__(self, record):
        self._record = record
        self._loader = record.kind.second(record, [], None, record.recipe['num_workers'])
        self._iterator = _start(self._loader)

    def next(self):
        batch = next(self._iterator, _end)
        if batch is _end:
            _stop(self._iterator)
            self._iterator = _start(self._loader)
            batch = next(self._iterator, _end)
            if batch is _end:
                raise RuntimeError('the subset has no batches')
        return batch

    def samples(self, batch):
        return _samples(self._record, [], 0, batch)

    def drop_ready(self):
        """Takes over a batch that a worker has ready, and drops it."""
        if self._record.kind.drop_ready(self._iterator):
            return
        _stop(self._iterator)
        self._iterator = _start(self._loader)

    def close(self):
        _stop(self._iterator)
        self._iterator = None


def _contents(batch):
    """The first elements of each of its tensors and arrays; nothing where one of them has no such."""
    try:
        return [item.reshape(-1)[:64].tolist() for _, item in leaves_of(batch)]
    except Exception:
        return []


class _Repeats:
    """Whether the workers of an iterable dataset deliver the same samples, each of them all: their first batches are equal, and the second ones are others."""

    def __init__(self, workers):
        self._workers = workers
        self._seen = []

    def take(self, batch):
        if len(self._seen) <= self._workers:
            self._seen.append(_contents(batch))

    def found(self):
        return len(self._seen) > self._workers and bool(self._seen[0]) and self._seen[0] == self._seen[1] != self._seen[self._workers]


def beside(record, first, batches):
    """How many batches of a loader the training takes while it takes `batches` of the first one."""
    return batches * record.each_step // first.each_step


def _pipe(workers):
    """By which workers say what they compute; nothing where the launcher's folder takes none."""
    from .stages import Pipe  # It imports more than a script without workers has.
    try:
        return Pipe(workers)
    except (OSError, KeyError):  # The script has other rights by now, or another environment.
        return None


class _Source:
    """The batches of one loader in a drain: once in the warm pass, where what is read is the subset, and again and again of that subset in later ones."""

    def __init__(self, record, workers, batches, warm):
        self.record = record
        self._pipe = _pipe(workers) if workers and not warm else None
        self.restarts = 0
        self.given = 0
        self.lists = record.lists[:batches or None] if warm or not record.warmed else record.lists[:record.warmed]
        self.limit = batches or math.inf
        self._once = warm or record.map_style
        if warm and record.map_style:
            self.limit = min(self.limit, len(self.lists))
        self.length = math.inf if warm or record.map_style or not record.warmed else record.warmed
        try:
            self._loader = record.kind.second(record, self.lists, self.limit if self.limit < math.inf else None, workers, self._pipe)
            self._iterator = _start(self._loader)
        except BaseException:
            if self._pipe is not None:
                self._pipe.take()
            raise
        self._since_start = 0
        self._taken = None

    def next(self):
        """A batch, or _end."""
        batch = next(self._iterator, _end) if self._since_start < self.length else _end
        if batch is _end:
            if self._once or not self._since_start:
                return _end
            _stop(self._iterator)
            self._iterator, self._since_start = _start(self._loader), 0
            self.restarts += 1
            return self.next()
        self._since_start += 1
        self.given += 1
        return batch

    def workers(self):
        return getattr(self._iterator, '_workers', ())

    def take_over(self, interval):
        """Nanoseconds in which batches that lie ready are taken over, one by one, while the workers rest. `interval` is what they took for a batch, in seconds. Mapping its memory is part
        of it. A batch that comes through a pipe, as arrays do that are no tensors, takes the more of it the larger it is."""
        times = []
        if getattr(self._iterator, '_data_queue', None) is None:
            return times
        try:
            # The worker whose batch is taken prepares again, and would hand the next one over late: each gives one, then all may rest.
            at_a_time = max(1, len(self.workers()))
            left = longest_ready_seconds
            for begin in range(0, most_taken_over, at_a_time):
                until_ready = 1.5 * interval * (at_a_time if begin else self._iterator._tasks_outstanding)
                left -= until_ready
                if left < 0:
                    break
                time.sleep(until_ready)
                for _ in range(min(at_a_time, most_taken_over - begin)):
                    if not self._lies_ready() or not self._take_timed(times):
                        return times
        except Exception:  # P has been measured; a worker that dies now takes nothing from it.
            pass
        return times

    def _lies_ready(self):
        iterator = self._iterator
        return not iterator._data_queue.empty() or len(iterator._task_info.get(iterator._rcvd_idx, ())) == 2

    def _take_timed(self, times):
        """Takes a batch, and notes how long that took if it lay ready: what the queue holds may also be word that a worker's stream has ended, or a batch
        that comes later, which is put aside. One that was put aside before takes no time. False where there are no more."""
        ready, streams, aside = self._lies_ready(), self._streams(), self._put_aside()
        begin = now()
        batch = self.next()
        if batch is _end:
            return False
        self.record.kind.map_pages([item for _, item in leaves_of(batch)])
        self._taken = batch  # As a loop does: the one before it, and its memory, are given up.
        if ready and streams == self._streams() and self._put_aside() == aside:
            times.append(now() - begin)
        return True

    def _put_aside(self):
        return sum(len(info) == 2 for info in self._iterator._task_info.values())

    def _streams(self):
        return self.restarts, sum(self._iterator._workers_status)

    def stop(self):
        """Ends its workers, and returns what they computed."""
        self._taken = None
        _stop(self._iterator)
        pipe, self._pipe = self._pipe, None
        return pipe.take() if pipe is not None else []


def _cpu_of(process):
    """CPU nanoseconds of all threads of a process: its CPU clock is numbered by its PID, as pthread_getcpuclockid(3) has it of a thread."""
    return time.clock_gettime_ns((~process << 3) | 2)


class _CpuCount:
    """CPU time of batches. The clocks are read twice in a start of the workers: after its `started` first batches, which workers that have just started
    deliver, and after its last one. Of a stream that begins again after `length` batches, that is a round before its end: workers end with their parts."""

    def __init__(self, sources, started, length):
        self._sources = sources
        self._started = started
        self._last = length - started
        self._batches = self._counted = self._samples = 0
        self._before = None
        self._sums = [0, 0, 0]

    def _used(self):
        """What was used so far by this thread, its process and the workers; None where the kernel does not say, as of a worker that has ended."""
        workers = [worker.pid for source in self._sources for worker in source.workers()]
        try:
            return time.thread_time_ns(), time.process_time_ns(), sum(map(_cpu_of, workers)), workers
        except OSError:
            return None

    def restarted(self):
        self._batches, self._before = 0, None

    def batch(self, samples):
        self._batches += 1
        self._counted += samples
        if self._batches == self._started:
            self._before, self._counted = self._used(), 0
        elif self._batches == self._last:
            self._end()

    def _end(self):
        last = self._used() if self._before is not None and self._counted else None
        if last is not None and last[3] == self._before[3]:
            self._sums = [total + after - before for total, after, before in zip(self._sums, last, self._before)]
            self._samples += self._counted
        self._before = None

    def take(self):
        """None where there was none, or the kernel does not say."""
        self._end()
        return dict(zip(('thread', 'process', 'workers'), self._sums), samples=self._samples) if self._samples else None


def drain(records, workers, batches, seconds, which):
    """Fetches batches without a step, and says when each arrived. The warm pass reads each batch once, and what it read is the subset of later passes.

    Of several loaders that train together, the first counts, and for each of its batches as many of the others are taken as a step takes; `workers` of
    the first are asked for, and of the others their own number where that is the first one's own. The seconds begin when each worker may have delivered a
    batch, as workers may take long to start, and there are two batches of each at least, unless they take a minute more. No number of batches (0) means
    until the seconds are over.
    """
    warm = which == 'warm'
    times, samples, restarts, error = [], [], [], None
    takes = []
    used = None
    main = time.thread_time_ns()
    start = now()
    most = int(seconds * 1e9)
    clump = 1 if warm else max(workers, 1)
    latest = start + most + int(grace_seconds * 1e9)
    sources = []
    first = records[0]
    repeats = _Repeats(workers) if workers > 1 and len(records) == 1 and first.facts['style'] == 'iterable' and not warm else None
    try:
        own = workers == first.recipe['num_workers']
        for record in records:
            sources.append(_Source(record, record.recipe['num_workers'] if own else workers, beside(record, first, batches), warm))
        source = sources[0]
        limit = source.limit
        cpu = _CpuCount(sources, max(workers, 1), source.length)
        while len(times) < limit and not (times and times[-1] > latest):
            if len(times) >= (1 if warm else 2 * clump) and times[-1] >= times[clump - 1] + most:
                break
            begun = source.restarts
            taken = len(times)
            batch = [each.next() for each in sources for _ in range(beside(each.record, first, taken + 1) - beside(each.record, first, taken))]
            if any(each is _end for each in batch):
                break
            if source.restarts > begun:
                restarts.append(len(times))
                cpu.restarted()
            times.append(now())
            if repeats is not None:
                repeats.take(batch[0])
            samples.append(_samples(first, source.lists, len(times) - 1, batch[0]))
            cpu.batch(samples[-1])
        used = cpu.take()
    except Exception as problem:
        error = error_text(problem)
    main = time.thread_time_ns() - main
    batch = None
    if error is None and not warm and workers and len(times) > 1 and len(sources) == 1:
        takes = sources[0].take_over((times[-1] - times[0]) / (len(times) - 1) / 1e9)
    message = {'t': 'drained', 'workers': workers, 'pass': which, 'start': start, 'times': times, 'samples': samples, 'main_cpu': main, 'restarts': restarts,
               'error': error}
    if used is not None:
        message['cpu'] = used
    message['takes'] = takes
    message['repeats'] = error is None and repeats is not None and repeats.found()
    message['stages'] = []
    for source in sources:
        message['stages'] += source.stop()
        if warm:
            source.record.warmed = source.given
    return message
