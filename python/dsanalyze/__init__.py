"""dsanalyze in a training script: its loader, and what the analyzer is told of another one."""
import os

__all__ = ['CenterCrop', 'Decoded', 'Encoded', 'Group', 'HorizontalFlip', 'Loader', 'LoaderError', 'Normalize', 'RandomResizedCrop', 'Resize', 'ResumeReport', 'share', 'verify_resume', 'watch']
TYPE_CHECKING = False  # Type checkers read this name as true, and see the names of __all__ with their types. The module `typing` would be one import more.
if TYPE_CHECKING:
    from typing import TypeVar

    from ._library import LoaderError
    from ._loader import Loader
    from ._prep import CenterCrop, Decoded, Encoded, HorizontalFlip, Normalize, RandomResizedCrop, Resize
    from ._resume import ResumeReport, verify_resume
    from ._share import Group, share

    _Watched = TypeVar('_Watched')
else:
    _modules = {'Group': '_share', 'Loader': '_loader', 'LoaderError': '_library', 'ResumeReport': '_resume', 'share': '_share', 'verify_resume': '_resume',
                **dict.fromkeys(('CenterCrop', 'Decoded', 'Encoded', 'HorizontalFlip', 'Normalize', 'RandomResizedCrop', 'Resize'), '_prep')}

    def __getattr__(name):
        """A name is imported when a script first uses it: a script that uses `watch` alone imports nothing else."""
        if name not in _modules:
            raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
        import importlib
        return getattr(importlib.import_module(f'.{_modules[name]}', __name__), name)


def watch(iterable: '_Watched') -> '_Watched':
    """The iterable as it is, unless `dsanalyze profile -- COMMAND` started the process: then its passes are followed like those of a PyTorch DataLoader.

        for batch in dsanalyze.watch(loader):

    It is for whatever delivers batches and is no PyTorch DataLoader; a DataLoader is followed without it. The result has the iterable's length, items, attributes,
    class and, where the iterable is an iterator, next(); copies of it are copies of the iterable. Errors are the iterable's own. It may be called in any
    thread; a pass belongs to one thread at a time, as that of a DataLoader does.
    """
    if 'DSANALYZE_ATTACH' not in os.environ:
        return iterable
    from . import _watch
    return _watch.watch(iterable)
