"""Loaders of other libraries that are no DataLoader: followed as if the script had iterated over dsanalyze.watch(loader).

A library is never imported here: its classes are changed when the script has imported it.
"""
import sys
import weakref

from ._imports import when_imported
from .watched import Loader, Stream

generator_flag = 0x20  # inspect.CO_GENERATOR
# The modules that scripts import them from, by their documentations.
classes = {'nvidia.dali.plugin.pytorch': ('DALIGenericIterator', 'DALIRaggedIterator'), 'ffcv.loader': ('Loader',), 'spdl.dataloader': ('DataLoader', 'PyTorchDataLoader')}


def install(active):
    """`active`: whether a pass that begins now is one to be followed."""
    _Passes.active = staticmethod(active)
    when_imported(classes, follow)


def follow(module_name, module):
    """Changes how passes over the module's loaders begin. What it lacks, or what cannot be changed, is left as it is; so is a module that is executed later."""
    if type(module) is not type(sys):
        return
    for name in classes[module_name]:
        kind = vars(module).get(name)
        try:
            if isinstance(kind, type) and hasattr(kind, '__iter__') and not hasattr(kind.__iter__, 'dsanalyze_own'):
                (_follow_iterator if hasattr(kind, '__next__') else _follow_iterable)(kind)
        except Exception:  # The class's own way of refusing it.
            pass


def _put(kind, name, function, own):
    for copied in ('__name__', '__qualname__', '__doc__', '__module__'):
        setattr(function, copied, getattr(own, copied, None))
    function.__wrapped__ = function.dsanalyze_own = own
    setattr(kind, name, function)


class _Stream(Stream):
    """Of a loader that the script may drop at any time: what it holds, threads and memory of a GPU, is not kept."""

    def __init__(self, loader, begin):
        super().__init__(None)
        self._loader, self._own = weakref.ref(loader), begin

    iterable = property(lambda self: self._loader(), lambda self, _: None)

    def __iter__(self):
        loader = self.iterable
        if loader is None:
            raise RuntimeError('the script has dropped this loader')
        return self._own(loader)


class _Items:
    """What an object that is its own iterator gives, for as long as it lives."""

    def __init__(self, loader, own_next):
        self._loader, self._own_next = weakref.ref(loader), own_next

    def __iter__(self):
        return self

    def __next__(self):
        loader = self._loader()
        if loader is None:
            raise StopIteration
        return self._own_next(loader)


class _Passes:
    """The followed passes over the objects of a class. `own` begins one as the class does: what a Stream calls."""

    active = staticmethod(lambda: False)

    def __init__(self, own):
        self.own = own
        self._loaders = {}
        self.running = {}  # Of each object that is its own iterator.

    def loader(self, instance):
        """The same for each pass over an object; nothing for one that cannot be referred to weakly."""
        key = id(instance)
        if key not in self._loaders:
            try:
                gone = weakref.ref(instance, lambda _: (self._loaders.pop(key, None), self.running.pop(key, None)))
            except TypeError:
                return None
            self._loaders[key] = gone, Loader(_Stream(instance, self.own))
        return self._loaders[key][1]

    def begin(self, instance):
        """A followed pass; the class's own where that fails."""
        try:
            loader = self.loader(instance) if self.active() else None
            if loader is not None:
                return iter(loader)
        except Exception:
            pass
        return self.own(instance)

    def items(self, instance):
        """As begin(), a generator: what the script may do with one of the class's own, it can do with this."""
        yield from self.begin(instance)


def _follow_iterable(kind):
    passes = _Passes(kind.__iter__)
    is_generator = getattr(getattr(passes.own, '__code__', None), 'co_flags', 0) & generator_flag

    def begin(self):
        return passes.items(self) if is_generator else passes.begin(self)

    _put(kind, '__iter__', begin, passes.own)


def _follow_iterator(kind):
    """One that is its own iterator stays that: its items come from a followed pass once the script has called iter()."""
    own_iter, own_next = kind.__iter__, kind.__next__
    passes = _Passes(lambda loader: _Items(loader, own_next))

    def begin(self):
        begun = own_iter(self)
        passes.running.pop(id(self), None)
        try:
            loader = passes.loader(self) if begun is self and passes.active() else None
            if loader is not None:
                passes.running[id(self)] = iter(loader)
        except Exception:  # Then it is not followed.
            pass
        return begun

    def following(self):
        running = passes.running.get(id(self))
        return own_next(self) if running is None else next(running)

    _put(kind, '__next__', following, own_next)
    _put(kind, '__iter__', begin, own_iter)
