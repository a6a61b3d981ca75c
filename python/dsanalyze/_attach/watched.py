"""An iterable of the script's own (dsanalyze.watch()), followed as a DataLoader without workers that delivers it as it is."""
import sys

import torch
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    """The iterable, begun anew for each pass, or gone on with where it is its own iterator, or cannot be begun a second time."""

    def __init__(self, iterable):
        self.iterable = iterable
        self.refused = False  # A second pass beside another one.
        self._last = None

    def __iter__(self):
        try:
            self._last = iter(self.iterable)
        except Exception:
            if self._last is None:
                raise
            self.refused = True
        return self._last

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

    def __init__(self, iterable):
        super().__init__(Stream(iterable), batch_size=None, collate_fn=_as_it_is, generator=torch.Generator())
