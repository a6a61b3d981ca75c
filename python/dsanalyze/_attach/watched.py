"""An iterable of the script's own (dsanalyze.watch()): its passes are followed as those of a DataLoader without workers that delivers it as it is."""
import sys
import weakref
from time import monotonic_ns as now

from . import facts
from .hook import hook
from .iteration import Iteration, Record

_marked = weakref.WeakValueDictionary()  # Records of iterables that the script has marked, by the iterable's id.


class Stream:
    """The iterable, begun anew for each pass, or gone on with where it is its own iterator, or cannot be begun a second time."""

    def __init__(self, iterable):
        self.iterable = iterable
        self.refused = False  # A second pass beside another one.
        self.as_it_is = False  # The next pass is of an iterator that the script asks for its next item without iter().
        self._last = None  # Gives the pass that was begun last, for as long as somebody else has it: a generator that the script drops ends then.

    def __iter__(self):
        if self.as_it_is:
            self.as_it_is = False
            return self.iterable
        try:
            begun = iter(self.iterable)
        except Exception:
            begun = self._last() if self._last is not None else None
            if begun is None:
                raise
            self.refused = True
        try:
            self._last = weakref.ref(begun)
        except TypeError:
            self._last = lambda: begun
        return begun

    def goes_on(self):
        """Whether no second pass can be begun beside the first: a generator, an iterator that resets itself at its end."""
        return self.refused or hasattr(type(self.iterable), '__next__')

    def version(self):
        """Of the package that the iterable is of, where that says it."""
        name = type(self.iterable).__module__.partition('.')[0]
        found = getattr(sys.modules.get(name), '__version__', None)
        metadata = sys.modules.get('importlib.metadata')
        if found is None and metadata is not None and name != '__main__':
            try:
                found = metadata.version(name)
            except Exception:
                pass
        return str(found or '')


class Pass:
    """An iterator over a stream. It has what the hook asks of a DataLoader's iterator without workers."""

    def __init__(self, stream):
        self._stream = stream
        self._dsanalyze = self._items = None

    def __iter__(self):
        return self

    def __next__(self):
        engine, iteration = hook.engine, self._dsanalyze
        if engine is not None and iteration is not None:
            return engine.next(iteration, self)
        return next(self._items)

    def __getattr__(self, name):
        """The iterator's own state, for one: the name of nothing that the hook asks for."""
        if name.startswith('_'):
            raise AttributeError(name)
        return getattr(self._items, name)


class Iterables:
    """A Record's kind."""

    @staticmethod
    def fetch(iterator):
        return next(iterator._items)

    @staticmethod
    def choose(_):
        """A stream has no sampler."""

    @staticmethod
    def drop_ready(_):
        """Nothing is."""
        return True

    @staticmethod
    def second(record, lists, count, workers, pipe=None):
        return record.recipe['dataset']

    @staticmethod
    def lengths(iterator, facts_of, careful):
        """Of an epoch: samples are not known, and batches only where len() may be called."""
        return None, None if careful else facts.length_of(iterator._stream.iterable)


class Loader:
    """Stands for the iterable of a stream, of which a record may be known already. Threads: as a DataLoader."""

    def __init__(self, stream, record=None):
        self.dataset = stream
        self.record = record if record is not None else _record(stream, facts.origin(self))

    def __iter__(self):
        began = now()
        begun = Pass(self.dataset)
        iteration = None
        try:
            if hook.followed():
                iteration = begun._dsanalyze = Iteration(self.record, begun, lambda _: hook.dropped(iteration))
                hook.engine.created(iteration)
        except Exception as error:
            hook.fault(error)
        begun._items = iter(self.dataset)
        if iteration is not None and hook.engine is not None:
            hook.engine.started(iteration, now() - began)
        return begun


def _record(stream, origin):
    of = facts.name_of(stream.iterable)
    found = {'name': of, 'dataset_class': of, 'version': stream.version(), 'workers': 0, 'prefetch': 0, 'pin_memory': False, 'persistent': False,
             'batch_size': None, 'batches': None, 'samples': None, 'style': 'watched', 'drop_last': False,
             'file': origin[0], 'line': origin[1]}
    recipe = {'dataset': stream, 'batch_size': None, 'num_workers': 0, 'collate_fn': None, 'auto_collation': False}
    return Record(found, None if hook.passive else recipe, Iterables)


def marked(iterable):
    """A loader that stands for an iterable of which the script says dsanalyze.watch(): as often as it says so, with the same record."""
    hook.start()
    record = _marked.get(id(iterable))
    if record is not None and record.of() is iterable:
        return Loader(record.recipe['dataset'] if record.recipe else Stream(iterable), record)
    loader = Loader(Stream(iterable))
    loader.record.marked = True
    try:
        loader.record.of = weakref.ref(iterable)
        _marked[id(iterable)] = loader.record
    except TypeError:  # Of a list, for one: each time it is another loader that the script makes at that place.
        pass
    return loader
