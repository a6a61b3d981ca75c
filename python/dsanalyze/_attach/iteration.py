"""One pass of the script over a DataLoader: which index lists went out, what is outstanding, and how many batches the epoch still owes the script."""
import collections
import itertools
import os
import time
import weakref
from time import monotonic_ns as now

from .batches import leading, picture_of, row_length, samples_of, samples_seen

max_lists = 4096
most_counted_ahead = 4096
discard_seconds = min(120.0, float(os.environ.get('DSANALYZE_ATTACH_PATIENCE', 120)))


class Record:
    """What is known of one DataLoader across its epochs."""

    def __init__(self, facts, recipe, kind, leads=None):
        """`kind`: how such loaders are asked (pytorch_loaders.DataLoaders, watched.Iterables)."""
        self.facts = facts
        self.recipe = recipe
        self.kind = kind
        self.marked = False  # The script says that a pass through the loop over it is a training step: dsanalyze.watch().
        self.served = 0  # Batches, of all passes.
        self.id = None
        self.training = False
        self.each_step = 1  # Batches that a step takes of it.
        self.lists = []
        self.replay = None
        self.length = None
        self.warmed = 0
        self.made_anew = False  # The script makes one like it for each pass.
        self.shapes = []
        self.current = None
        self.subset = None  # Its batches are of these index lists now.
        self.without_gradients = False  # The same of one of its passes.
        self.tokens = None  # Whole numbers in each sample, where all have as many; 0 where not; None: not known yet.
        self.picture = None  # Height and width of the samples, where they are pictures; () where not; None: not known yet.
        self.shared_bytes = 0  # Of a batch, those that a worker hands over through shared memory, at the most.
        self.leads = leads  # Whether the first dimension of a batch counts its samples; None: not known yet.

    @property
    def map_style(self):
        return self.facts['style'] == 'map'

    @property
    def goes_on(self):
        """Whether the stream cannot be begun a second time beside the script's own pass."""
        return self.facts['style'] == 'watched' and self.recipe is not None and self.recipe['dataset'].goes_on()

    def keep_to_subset(self):
        """Batches are of what was read into memory from now on."""
        self.subset = _Subset(self.lists[:self.warmed or len(self.lists)])

    def stands_for(self, old):
        """Whether the script made it where it made that one."""
        return all(self.facts[name] == old.facts[name] for name in ('file', 'line', 'dataset_class', 'batch_size'))

    def inherit(self, old):
        """A loader that the script has made anew, of the same place and length, goes on with the old one's subset and kept batches."""
        if self.facts == old.facts and old.lists and not self.warmed:
            self.subset = old.subset
            self.lists = (old.lists + self.lists)[:max_lists]
            self.warmed, self.shapes, self.replay, self.length = old.warmed, old.shapes, old.replay, old.length
            self.shared_bytes = old.shared_bytes

    def samples_without_index(self, batch):
        """Samples of a batch of which the index list is not known: by its first dimension where that counts them, else `batch_size`."""
        size, first = self.facts['batch_size'], leading(batch)
        if self.leads is None:
            self.leads = first == size
        if first is None or first > size:
            self.leads = False
        return first if self.leads else size

    def look_at(self, batch):
        """What each sample is: tokens, or a picture."""
        if self.picture is None:
            self.picture = picture_of(batch)
        if self.tokens != 0:
            tokens = row_length(batch)
            self.tokens = tokens if self.tokens in (None, tokens) else 0

    def remember(self, index):
        if len(self.lists) < max_lists:
            self.lists.append(index)


class _Subset:
    """Index lists in turn, as long as those that they stand for where there are any of that length."""

    def __init__(self, lists):
        self._all = itertools.cycle(lists) if lists else None
        by_length = collections.defaultdict(list)
        for index in lists:
            by_length[_length(index)].append(index)
        self._by_length = {length: itertools.cycle(of_length) for length, of_length in by_length.items()}

    def instead_of(self, index):
        lists = self._by_length.get(_length(index), self._all)
        return index if lists is None else next(lists)


def _length(index):
    return len(index) if isinstance(index, (list, tuple)) else None


class Iteration:
    """The state of one iterator. It holds no reference to it, so that the script's iterators die when the script drops them."""

    def __init__(self, record, iterator, dropped=None):
        """dropped(reference): called when the script has dropped the iterator."""
        self.record = record
        self.fetch = record.kind.fetch  # The iterator's own __next__(), and how it asks its sampler.
        self._choose = record.kind.choose
        self.iterator = weakref.ref(iterator, dropped)
        self.map_style = record.map_style
        self.thread = None
        self.asked_apart = 0  # Batches in a row that another thread asked for than asks the primary loader.
        self.counts = None
        self.renew()
        self.held = False

    def renew(self):
        """A new epoch over the same (persistent) iterator."""
        self.announced = False
        self.stepped = False  # An optimizer has stepped on a batch of it.
        self.clocked = False  # A step of it was opened in the clock.
        self.without_gradients = False  # Optimizers step on batches that were asked of it with gradients disabled.
        self.start = 0  # What its workers took to start, where it was not known to train.
        self.sampling = None  # What the sampler took for its first index list, in which it may draw a whole epoch's; None: not asked yet.
        self.between = None  # What lay between the epoch before and its first batch.
        self.ended = False
        self.evaluates = False  # It is asked with gradients disabled, so that its batches are its own.
        self.handed = 0
        self._chosen = 0
        if self.counts:
            self.counts.clear()
        self.again = collections.deque()
        self.issued = collections.deque()
        # Iterable style, where nothing can be fetched again: discarded batches, which the script gets at the epoch's end unless others took their place.
        self.spare = collections.deque()
        self.ahead = 0
        self.disturbed = False
        self._puts = None
        self._replays = None

    def aside(self):
        """Whether another pass over the same loader goes on: next(iter(loader)) within an epoch begins none."""
        current = self.record.current
        if current is None or current is self or current.ended or not current.handed:
            return False
        iterator = current.iterator()
        return iterator is not None and iterator is not self.iterator()

    # Samples of batches whose size only the sampler knows, where nothing else is asked for.

    def count_lists(self):
        """From now on the index lists are counted."""
        self.counts = {}

    def list_chosen(self, index):
        """The sampler has chosen the next batch."""
        if isinstance(index, (list, tuple)) and len(self.counts) < most_counted_ahead:
            self.counts[self._chosen] = len(index)
        self._chosen += 1

    def samples_of_last(self, batch):
        """Of the batch that was handed out last."""
        if self.counts:
            counted = self.counts.pop(self.handed - 1, None)
            if counted is not None:
                return counted
        if self.record.facts['batch_size']:
            return self.record.samples_without_index(batch)
        return samples_seen(batch)

    # What the sampler is asked for.

    def next_index(self, iterator):
        """Instead of the iterator's own _next_index()."""
        if self._puts is not None:
            if self._puts <= 0:
                raise StopIteration
            self._puts -= 1
        elif self.held:
            raise StopIteration
        return self._issue(iterator)

    def _issue(self, iterator):
        replayed = False
        if self.again:
            index = self.again.popleft()
        else:
            began = now() if self.sampling is None else None
            try:
                index = self._choose(iterator)
                if self.map_style:
                    self.record.remember(index)
            except StopIteration:
                index = self._replayed()
                replayed = True
            if began is not None:
                self.sampling = now() - began
        given = index
        if self.record.subset is not None and not self.evaluates and not replayed:
            given = self.record.subset.instead_of(index)
        if self.map_style:
            self.issued.append((getattr(iterator, '_send_idx', 0), index, replayed, given))
        return given

    def _replayed(self):
        """An index list of an earlier batch, for an epoch that has no further ones."""
        known = {id(index) for _, index, _, _ in self.issued}
        while self._replays:
            index = self._replays.popleft()
            if id(index) not in known:
                return index
        raise StopIteration

    def consume(self, iterator):
        """Takes one batch off the epoch without fetching it, and returns what undo() needs; StopIteration ends the epoch."""
        if self.map_style:
            if self.again:
                return self.again.popleft()
            index = self._choose(iterator)
            self.record.remember(index)
            return index
        length = self.record.length or self.record.facts['batches']
        if length is not None and self.handed >= length:
            raise StopIteration
        if self.spare:
            return self.spare.popleft()
        if self.ended:
            raise StopIteration
        self.ahead += 1
        return None

    def undo(self, taken):
        """What consume() took off the epoch was not handed out after all."""
        if self.map_style:
            self.again.appendleft(taken)
        elif taken is not None:
            self.spare.appendleft(taken)
        else:
            self.ahead -= 1

    def peek(self, iterator, count):
        """Records up to `count` index lists by looking ahead in the sampler; the script gets them all the same."""
        while self.map_style and len(self.record.lists) < min(count, max_lists):
            try:
                index = self._choose(iterator)
            except StopIteration:
                return
            self.record.remember(index)
            self.again.append(index)

    # What is fetched.

    def expected(self, iterator):
        """The index list of the batch that comes next, where it is known before."""
        if self.map_style and self.issued and getattr(iterator, '_in_order', True):
            received = getattr(iterator, '_rcvd_idx', None)
            for number, _, _, given in self.issued:
                if number == received:
                    return given
        return None

    def delivered(self, iterator, index, batch):
        """The script's own iterator has handed out a batch: returns its samples."""
        if self.map_style:
            waiting = getattr(iterator, '_task_info', None)
            if waiting is None:
                index = self.issued[-1][3] if self.issued else None
                self.issued.clear()
            else:
                while self.issued and self.issued[0][0] not in waiting:
                    self.issued.popleft()
        self.record.look_at(batch)
        return self.count(iterator, index, batch)

    def count(self, iterator, index, batch):
        if isinstance(index, (list, tuple)):
            return len(index)
        if iterator._auto_collation and self.record.facts['batch_size']:
            return self.record.samples_without_index(batch)
        return samples_of(batch)

    @staticmethod
    def outstanding(iterator):
        return len(getattr(iterator, '_task_info', ()))

    # Switches.

    def discard(self, iterator, keep=0, taken=None):
        """Fetches and discards what is outstanding, and as many batches more as taken() wants, up to `keep`. The iterator is held then: it asks its sampler for nothing.

        The index lists go back to the front of the epoch, so no batch is lost to the script. Returns the number of batches and the first error.
        """
        multi = hasattr(iterator, '_task_info')
        self.disturbed = True
        if self.ended:
            self.held = True
            return 0, None
        again = set(getattr(iterator, '_task_info', ()))
        first = getattr(iterator, '_send_idx', 0)
        if not multi:
            self.issued.clear()
        self._puts = max(0, keep - self.outstanding(iterator))
        if self.map_style and keep:
            self._replays = collections.deque(self.record.lists[:2 * keep])
        count, error = 0, None
        deadline = time.monotonic() + discard_seconds
        timeout = iterator._timeout
        if multi and not timeout:
            iterator._timeout = discard_seconds
        try:
            if multi:
                self._prime(iterator)
            while self.outstanding(iterator) if multi else self._puts > 0:
                before = getattr(iterator, '_rcvd_idx', None)
                index = self.expected(iterator)
                try:
                    batch = iterator._next_data()
                except StopIteration:
                    self.ended = self.ended or not self.map_style
                    break
                except Exception as problem:
                    error = error or problem
                    if (multi and iterator._rcvd_idx == before) or time.monotonic() > deadline:
                        break
                    continue
                count += 1
                if not multi and self.issued:
                    index = self.issued[-1][3]
                samples = self.count(iterator, index, batch)
                if self.ahead:
                    self.ahead -= 1
                elif not self.map_style:
                    self.spare.append((batch, samples))
                if taken is not None and not taken(batch, samples):
                    self._puts, taken = 0, None
                if time.monotonic() > deadline:
                    self._puts = 0
        finally:
            self._puts = self._replays = None
            iterator._timeout = timeout
        self.held = True
        if self.map_style:
            waiting = set(getattr(iterator, '_task_info', ()))
            back = [index for number, index, replayed, _ in self.issued
                    if not replayed and number not in waiting and (not multi or number in again or number >= first)]
            self.again.extendleft(reversed(back))
            self.issued = collections.deque(entry for entry in self.issued if entry[0] in waiting and multi)
        return count, error

    def resume(self, iterator):
        """The iterator fetches ahead again, as it did before discard()."""
        self.held = False
        if hasattr(iterator, '_task_info') and not self.ended and not iterator._shutdown:
            self._prime(iterator)

    @staticmethod
    def _prime(iterator):
        # A worker whose share of a stream is over answers nothing more, and what it was asked for still counts.
        while max(len(iterator._task_info), iterator._tasks_outstanding) < iterator._prefetch_factor * iterator._num_workers:
            sent = iterator._send_idx
            iterator._try_put_index()
            if iterator._send_idx == sent:
                return

    def skip_ahead(self, iterator, seconds=30):
        """Iterable style, after resume(): takes off the stream what the script was given of other batches meanwhile. Returns what could not be skipped."""
        deadline = time.monotonic() + seconds
        skip = self.ahead
        self.ahead = 0
        while skip and time.monotonic() < deadline:
            try:
                iterator._next_data()
            except StopIteration:
                self.ended = True
                return 0
            except Exception:
                return skip
            skip -= 1
        return skip
