"""An iterable of the script's own (dsanalyze.watch()), followed as a DataLoader without workers that delivers it as it is."""
import sys
import weakref

import torch
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
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
            begun = self._pass()
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

    def _pass(self):
        return getattr(getattr(type(self.iterable), '__iter__', None), 'dsanalyze_own', iter)(self.iterable)  # others.py

    def goes_on(self):
        """Whether no second pass can be begun beside the first: a generator, an iterator that resets itself at its end."""
        return self.refused or hasattr(type(self.iterable), '__next__')

    def version(self):
        """Of the package that the iterable is of, where that says."""
        package = sys.modules.get(type(self.iterable).__module__.partition('.')[0])
        return str(getattr(package, '__version__', ''))


def _as_it_is(batch):
    return batch


class Loader(DataLoader):
    """Its generator is its own, so that the script's random numbers stay as they are."""

    def __init__(self, stream):
        super().__init__(stream, batch_size=None, collate_fn=_as_it_is, generator=torch.Generator())
