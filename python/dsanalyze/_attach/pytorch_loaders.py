"""PyTorch's DataLoaders: what is said of one, what a second one like it is made of, and how its iterators are asked."""
import os
import select
import warnings

import torch
from torch.utils.data import dataloader as loaders
from torch.utils.data import sampler as samplers

from . import facts
from .tensors import map_pages

stall_seconds = min(120.0, float(os.environ.get('DSANALYZE_ATTACH_PATIENCE', 120)))
_lengths_without_effects = (samplers.BatchSampler, samplers.SequentialSampler, samplers.RandomSampler, samplers.SubsetRandomSampler, samplers.WeightedRandomSampler)


class _Lists:
    """A sampler that gives the index lists in turn, `count` of them or without end."""

    def __init__(self, lists, count=None):
        self._lists = lists
        self._count = count

    def __iter__(self):
        given = 0
        while self._lists and (self._count is None or given < self._count):
            yield self._lists[given % len(self._lists)]
            given += 1


class _NotReady(Exception):
    pass


class DataLoaders:
    """A Record's kind."""

    fetch = staticmethod(loaders._BaseDataLoaderIter.__next__)
    choose = staticmethod(loaders._BaseDataLoaderIter._next_index)
    map_pages = staticmethod(map_pages)

    @staticmethod
    def lies_ready(iterator):
        """Whether a worker has handed over a batch that was not taken yet, the next one or a later one. None where there are no workers."""
        queue = getattr(iterator, '_data_queue', None)
        if queue is None:
            return None
        reader = getattr(queue, '_reader', None)
        if reader is None:  # A thread pins what comes from the workers.
            return not queue.empty()
        ready = select.poll()
        ready.register(reader.fileno(), select.POLLIN)
        return bool(ready.poll(0))

    @staticmethod
    def drop_ready(iterator):
        """Takes over the next batch where it lies ready; nothing is waited for. False where the iterator has no more."""
        if DataLoaders.lies_ready(iterator) is None:
            return True

        def get_ready():
            if not DataLoaders.lies_ready(iterator):
                raise _NotReady
            return type(iterator)._get_data(iterator)

        iterator._get_data = get_ready
        try:
            iterator._next_data()
        except _NotReady:
            pass
        except StopIteration:
            return False
        finally:
            del iterator._get_data
        return True

    @staticmethod
    def second(record, lists, count, workers, pipe=None):
        """A loader like the script's, with its own generator, and with a deadline for each batch. Its workers tell `pipe` what they compute."""
        recipe = record.recipe
        arguments = {'num_workers': workers, 'collate_fn': recipe['collate_fn'], 'pin_memory': recipe['pin_memory'],
                     'worker_init_fn': recipe['worker_init_fn'] if pipe is None else pipe.init(recipe['worker_init_fn']), 'generator': torch.Generator()}
        if recipe.get('pin_memory_device'):
            arguments['pin_memory_device'] = recipe['pin_memory_device']
        if workers and 'in_order' in recipe:
            arguments['in_order'] = recipe['in_order']
        if workers:
            arguments['timeout'] = recipe['timeout'] or stall_seconds
            arguments['multiprocessing_context'] = recipe['multiprocessing_context']
            arguments['prefetch_factor'] = (recipe.get('prefetch_factor') if recipe['num_workers'] else None) or 2
        if not record.map_style:
            arguments.update(batch_size=recipe['batch_size'], drop_last=recipe['drop_last'])
        elif recipe['auto_collation']:
            arguments['batch_sampler'] = _Lists(lists, count)
        else:
            arguments.update(sampler=_Lists(lists, count), batch_size=None)
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            return loaders.DataLoader(recipe['dataset'], **arguments)

    @staticmethod
    def lengths(iterator, facts_of, careful):
        """Samples and batches of an epoch; None where that is not known. To be asked once the first batch is there: what len() does to an object of the script's
        own (opens a file, for one) must not be done before workers are forked, and under `careful` only where torch did it."""
        dataset, sampler = iterator._dataset, iterator._index_sampler
        if facts_of['style'] == 'iterable':
            samples = None if careful else facts.length_of(dataset)
            size = facts_of['batch_size'] if iterator._auto_collation else None
            if samples is None or size is None:
                return samples, samples
            return samples, samples // size if facts_of['drop_last'] else -(-samples // size)
        batches = facts.length_of(sampler) if not careful or _is_torchs(sampler) else None
        if iterator._auto_collation:
            if type(sampler) is not samplers.BatchSampler:  # A batch sampler of the script's own chooses.
                return None, batches
            sampler = sampler.sampler
        if _is_torchs(sampler):
            return facts.length_of(sampler), batches
        return None if careful else facts.length_of(dataset), batches


def _is_torchs(sampler):
    """One whose length torch itself has asked for once the first batch is there."""
    return type(sampler) in _lengths_without_effects and (type(sampler) is not samplers.BatchSampler or type(sampler.sampler) in _lengths_without_effects)


def _attribute(value, name, default=None):
    """Of an object of the script's own, without running a property or __getattr__."""
    for names in (getattr(value, '__dict__', {}), *(kind.__dict__ for kind in type(value).__mro__)):
        if name in names:
            return default if hasattr(names[name], '__get__') else names[name]
    return default


def loader_facts(loader, origin):
    """What can be said without an effect on the loader. How long it is comes later: lengths()."""
    iterable = loader._dataset_kind == loaders._DatasetKind.Iterable
    kind = type(loader)
    batch_size = loader.batch_size
    if batch_size is None and loader.batch_sampler is not None:
        batch_size = _attribute(loader.batch_sampler, 'batch_size')
    return {'name': 'torch.utils.data.DataLoader' if kind is loaders.DataLoader else kind.__module__ + '.' + kind.__qualname__,
            'version': str(torch.__version__), 'dataset_class': facts.name_of(loader.dataset), 'workers': loader.num_workers,
            'prefetch': loader.prefetch_factor if loader.num_workers else 0, 'pin_memory': bool(loader.pin_memory),
            'persistent': bool(loader.persistent_workers), 'batch_size': batch_size if isinstance(batch_size, int) else None,
            'batches': None, 'samples': None, 'style': 'iterable' if iterable else 'map',
            'drop_last': bool(_attribute(None if iterable else loader.batch_sampler, 'drop_last', loader.drop_last)),
            'file': origin[0], 'line': origin[1]}


def leads(loader):
    """True where the first dimension of a batch is known to count its samples; None where that is to be seen."""
    return True if loader.collate_fn is loaders.default_collate else None


def recipe(loader):
    """What a second loader over the same dataset is made of."""
    names = ('dataset', 'batch_size', 'drop_last', 'collate_fn', 'num_workers', 'pin_memory', 'timeout', 'worker_init_fn',
             'multiprocessing_context', 'prefetch_factor', 'pin_memory_device', 'persistent_workers', 'in_order')
    found = {name: getattr(loader, name) for name in names if hasattr(loader, name)}
    found['auto_collation'] = loader._auto_collation
    return found
