"""Loaders of other libraries that are no DataLoader: followed as if the script had iterated over dsanalyze.watch(loader).

A library is never imported here: its classes are changed when the script has imported it.
"""
import sys
import weakref

from .watched import Loader, Stream

# The modules that scripts import them from, by their documentations.
classes = {'nvidia.dali.plugin.pytorch': ('DALIGenericIterator', 'DALIRaggedIterator'), 'ffcv.loader': ('Loader',), 'spdl.dataloader': ('DataLoader', 'PyTorchDataLoader')}


class _Finder:
    """Finds nothing by itself: it notices when one of the modules has been imported."""

    def __init__(self):
        self._busy = set()

    def find_spec(self, name, path=None, target=None):
        if name not in classes or name in self._busy:
            return None
        self._busy.add(name)
        try:
            for finder in list(sys.meta_path):
                find = getattr(finder, 'find_spec', None)
                spec = find(name, path, target) if find is not None and finder is not self else None
                if spec is not None:
                    _then_follow(spec)
                    return spec
            return None
        finally:
            self._busy.discard(name)


def _then_follow(spec):
    execute = getattr(spec.loader, 'exec_module', None)
    if execute is None:
        return

    def executed(module):
        del spec.loader.exec_module
        execute(module)
        follow(module)

    try:
        spec.loader.exec_module = executed
    except AttributeError:  # A loader of modules that takes no attribute: what it loads is left alone.
        pass


def install(active):
    """`active`: whether a pass that begins now is one to be followed."""
    _Pass.active = staticmethod(active)
    for name in classes:
        if name in sys.modules:
            follow(sys.modules[name])
    sys.meta_path.insert(0, _Finder())


def follow(module):
    """Changes how passes over the module's loaders begin. What a module lacks, in another version, is left out."""
    for name in classes[module.__name__]:
        kind = vars(module).get(name)
        if isinstance(kind, type) and hasattr(kind, '__iter__') and not isinstance(kind.__iter__, _Pass):
            try:
                kind.__iter__ = _Pass(kind.__iter__)
            except TypeError:  # A class that is no Python class cannot be changed.
                pass


class _Stream(Stream):
    """Of a loader that the script may drop at any time: what it holds, threads and memory of a GPU, is not kept."""

    def __init__(self, loader, own):
        super().__init__(None)
        self._loader, self._own = weakref.ref(loader), own

    iterable = property(lambda self: self._loader(), lambda self, _: None)

    def _pass(self):
        loader = self.iterable
        if loader is None:
            raise RuntimeError('the script has dropped this loader')
        return self._own(loader)


class _Pass:
    """In place of the __iter__ of a class."""

    active = staticmethod(lambda: False)

    def __init__(self, own):
        self.own = own  # What a Stream calls.
        self.__wrapped__ = own
        self.__name__, self.__doc__ = '__iter__', own.__doc__
        self._loaders = {}

    def __get__(self, instance, owner=None):
        return self if instance is None else lambda: self(instance)

    def __call__(self, instance):
        loader = self._loader(instance) if self.active() else None
        return self.own(instance) if loader is None else iter(loader)

    def _loader(self, instance):
        """The same for each pass over an object; nothing for one that cannot be referred to weakly."""
        key = id(instance)
        if key not in self._loaders:
            try:
                gone = weakref.ref(instance, lambda _: self._loaders.pop(key, None))
            except TypeError:
                return None
            self._loaders[key] = gone, Loader(_Stream(instance, self.own))
        return self._loaders[key][1]
