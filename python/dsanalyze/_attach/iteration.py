"""One pass of the script over a DataLoader: the index lists of its batches, and how many were handed out."""
import collections
import itertools
import weakref
from time import monotonic_ns as now

from .batches import leading, picture_of, row_length, samples_of, samples_seen

max_lists = 4096


class Record:
    """What is known of one DataLoader across its epochs."""

    def __init__(self, facts, recipe, kind, leads=None):
        """`kind`: how such loaders are asked (pytorch_loaders.DataLoaders, watched.Iterables)."""
        self.facts = facts
        self.recipe = recipe
        self.kind = kind
        self.marked = False  # The script says that a pass through the loop over it is a training step: dsanalyze.watch().
        self.served = 0  # Batches, of all passes.
        self.sampling = 0  # Nanoseconds in which its sampler chose batches since a checkpoint, but for the first of each pass.
        self.training = False
        self.introduced = False  # It is known to train, and so are its facts.
        self.each_step = 1  # Batches that a step takes of it.
        self.lists = []
        self.replay = None
        self.length = None
        self.warmed = 0
        self.made_anew = False  # The script makes one like it for each pass.
        self.current = None
        self.subset = None  # Its batches are of these index lists now.
        self.tokens = None  # Whole numbers in each sample, where all have as many; 0 where not; None: not known yet.
        self.picture = None  # Height and width of the samples, where they are pictures; () where not; None: not known yet.
        self.leads = leads  # Whether the first dimension of a batch counts its samples; None: not known yet.

    @property
    def map_style(self):
        return self.facts['style'] == 'map'

    @property
    def goes_on(self):
        """Whether the stream cannot be begun a second time beside the script's own pass."""
        return self.facts['style'] == 'watched' and self.recipe is not None and self.recipe['dataset'].goes_on()

    def first_in_memory(self):
        """The index lists of what was read into memory."""
        return _Subset(self.lists[:self.warmed or len(self.lists)])

    def stands_for(self, old):
        """Whether the script made it where it made that one."""
        return all(self.facts[name] == old.facts[name] for name in ('file', 'line', 'dataset_class', 'batch_size'))

    def inherit(self, old):
        """It is made in place of that loader, and goes on with its subset and kept batches."""
        self.subset = old.subset
        self.lists = (old.lists + self.lists)[:max_lists]
        self.warmed, self.replay, self.length = old.warmed, old.replay, old.length
        self.tokens, self.picture, self.leads = old.tokens, old.picture, old.leads

    def samples_without_index(self, batch):
        """Samples of a batch of which the index list is not known: by its first dimension where that counts them, else `batch_size`."""
        size, first = self.facts['batch_size'], leading(batch)
        if self.leads is None:
            self.leads = first == size
        if first is None or first > size:
            self.leads = False
        return first if self.leads else size

    def looked_at(self):
        """Whether it is known of all samples what they are."""
        return self.picture is not None and self.tokens == 0

    def look_at(self, batch):
        """What each sample is: tokens, or a picture."""
        if self.picture is None:
            self.picture = picture_of(batch)
        if self.tokens != 0:
            tokens = row_length(batch)
            self.tokens = tokens if self.tokens in (None, tokens) else 0


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
        self.lists = None
        self.renew()
        self.held = False  # It asks its sampler for nothing, so that its workers rest.

    def renew(self):
        """A new epoch over the same (persistent) iterator."""
        self.announced = False
        self.stepped = False  # An optimizer has stepped on a batch of it.
        self.clocked = False  # A step of it was opened in the clock.
        self.start = 0  # What its workers took to start, where it was not known to train.
        self.sampling = None  # What the sampler took for its first index list, in which it may draw a whole epoch's; None: not asked yet.
        self.ended = False
        self.evaluates = False  # It is asked with gradients disabled, so that its batches are its own.
        self.replaced = False  # Some of its batches came from elsewhere.
        self._looked_ahead = 0
        self.exhausted = False  # The iterator itself has no more.
        self.handed = 0
        if self.lists:
            self.lists.clear()

    def aside(self):
        """Whether another pass over the same loader goes on: next(iter(loader)) within an epoch begins none."""
        current = self.record.current
        if current is None or current is self or current.ended or not current.handed:
            return False
        iterator = current.iterator()
        return iterator is not None and iterator is not self.iterator()

    def is_over(self):
        """Whether the epoch has had as many batches as one of its own loader has, where some were others."""
        return self.replaced and self.left() == 0

    def left(self):
        """Batches of the epoch that were not handed out yet; None where its length is not known."""
        length = self.record.length or self.record.facts['batches']
        return None if length is None else max(0, length - self.handed)

    # What the sampler is asked for.

    def remember_lists(self):
        """From now on the index lists of batches that are not handed out yet are kept; a stream has none."""
        if self.map_style:
            self.lists = collections.deque()

    def next_index(self, iterator):
        """Instead of the iterator's own _next_index()."""
        if self.held:
            raise StopIteration
        record = self.record
        began = now()
        try:
            index = self._choose(iterator)
            if self.map_style and len(record.lists) < max_lists:
                record.lists.append(index)
        except StopIteration:
            if not self._looked_ahead or record.subset is None or self.evaluates:
                raise
            self._looked_ahead -= 1
            index = None
        if self.sampling is None:
            self.sampling = now() - began
        else:
            record.sampling += now() - began
        if record.subset is not None and not self.evaluates:
            index = record.subset.instead_of(index)
        if self.lists is not None:
            self.lists.append(index)
        return index

    def look_ahead(self, iterator, count):
        """Index lists of the epoch's further batches become known, up to `count` of all; as many of those in memory take their place."""
        while self.map_style and len(self.record.lists) < count:
            try:
                self.record.lists.append(self._choose(iterator))
            except StopIteration:
                return
            self._looked_ahead += 1

    def list_chosen(self, index):
        """The sampler has chosen a further batch."""
        self.lists.append(index)

    def list_taken(self):
        """The index list of the batch that comes next, which is none that comes any more."""
        return self.lists.popleft() if self.lists else None

    def samples_of_last(self, batch):
        """Of the batch that was handed out last."""
        index = self.list_taken()
        if isinstance(index, (list, tuple)):
            return len(index)
        if self.record.facts['batch_size']:
            return self.record.samples_without_index(batch)
        return samples_of(batch) if self.record.recipe else samples_seen(batch)  # A passive run calls nothing of the script's own.

    # Where batches come from elsewhere.

    def resume(self, iterator):
        """The iterator fetches ahead again."""
        self.held = False
        if hasattr(iterator, '_task_info') and not self.exhausted and not self.ended and not iterator._shutdown:
            # A worker whose share of a stream is over answers nothing more, and what it was asked for still counts.
            while max(len(iterator._task_info), iterator._tasks_outstanding) < iterator._prefetch_factor * iterator._num_workers:
                sent = iterator._send_idx
                iterator._try_put_index()
                if iterator._send_idx == sent:
                    return

    def drop_ready(self, iterator):
        """Takes over a batch that a worker has ready, and drops it."""
        if self.exhausted:
            return
        before = getattr(iterator, '_rcvd_idx', None)
        self.exhausted = not self.record.kind.drop_ready(iterator)
        if getattr(iterator, '_rcvd_idx', None) != before:
            self.list_taken()
