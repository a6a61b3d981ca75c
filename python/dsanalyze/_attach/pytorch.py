"""PyTorch in a script: functions around the DataLoader's, and what the hook asks of the library."""
import functools
import multiprocessing.process
import os
from time import monotonic_ns as now

import torch
from torch.utils.data import dataloader as loaders

from . import batches, changes, facts, framework
from .gradients import Gradients
from .hook import hook
from .iteration import Iteration, Record
from .pytorch_loaders import DataLoaders, leads, loader_facts, recipe
from .tensors import Tensors

copies_timed = 3

_Base = loaders._BaseDataLoaderIter
_next = DataLoaders.fetch
_index = DataLoaders.choose
_init = _Base.__init__
_reset = _Base._reset
_loader_init = loaders.DataLoader.__init__
_loader_iter = loaders.DataLoader.__iter__


class PyTorch(framework.Framework):
    """A script that has imported PyTorch, and may train by it, or by another library on batches of a DataLoader."""

    folders = (os.path.dirname(torch.__file__) + os.sep,)
    gradients_enabled = staticmethod(torch.is_grad_enabled)  # Inference mode disables them, too.

    def __init__(self, gradients):
        self._gradients = gradients

    def has_optimizer(self):
        return self._gradients.made

    def in_worker(self):
        return torch.utils.data.get_worker_info() is not None

    def follow_ranks(self):
        self._gradients.follow_ranks()

    def training_is_known(self):
        self._gradients.forget_backward()

    def rank(self):
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
        return super().rank()

    def device(self):
        for device in self._gradients.devices:
            return True, torch.cuda.get_device_name(device)
        return super().device()

    def gpus(self):
        """Of optimizers' parameters; PyTorch tells them since 2.3."""
        try:
            return ['GPU-{}'.format(torch.cuda.get_device_properties(device).uuid) for device in self._gradients.devices]
        except Exception:
            return ()

    def synchronise(self):
        others_compute = super().synchronise()
        for device in self._gradients.devices:
            torch.cuda.synchronize(device)
        return others_compute or bool(self._gradients.devices)

    def copy_to_device(self, items):
        host = [item for item in items if isinstance(item, torch.Tensor) and item.device.type == 'cpu']
        if not host or len(self._gradients.devices) != 1:
            return None
        device, = self._gradients.devices
        taken = []
        try:
            for _ in range(copies_timed):
                self.synchronise()
                began = now()
                copies = [item.to(device) for item in host]
                self.synchronise()
                taken.append(now() - began)
        except Exception:  # No room is left there, for one.
            return None
        return {'bytes': sum(copy.numel() * copy.element_size() for copy in copies), 'time': min(taken), 'pinned': all(item.is_pinned() for item in host)}


def mark(loader):
    """The script says dsanalyze.watch(loader)."""
    hook.entry(loader)['marked'] = True
    if hook.entry(loader)['record'] is not None:
        hook.entry(loader)['record'].marked = True


def _record(loader):
    entry = hook.entry(loader)
    if entry['record'] is None:
        found = loader_facts(loader, entry['origin'])
        entry['record'] = Record(found, None if hook.passive else recipe(loader), DataLoaders, leads(loader))
        entry['record'].marked = entry['marked']
    return entry['record']


def _patched_next(self):
    engine = hook.engine
    if engine is not None:
        iteration = self.__dict__.get('_dsanalyze')
        if iteration is not None:
            return engine.next(iteration, self)
    return _next(self)


def _patched_index(self):
    iteration = self.__dict__.get('_dsanalyze')
    return _index(self) if iteration is None else iteration.next_index(self)


def _counted_index(self):
    index = _index(self)
    iteration = self.__dict__.get('_dsanalyze')
    if iteration is not None and iteration.lists is not None:
        iteration.list_chosen(index)
    return index


def _patched_init(self, loader, *arguments, **named):
    try:
        if hook.followed():
            self._dsanalyze = Iteration(_record(loader), self)
            if not hook.passive or (not self._dsanalyze.record.facts['batch_size'] and loader._auto_collation):
                self._dsanalyze.remember_lists()
            hook.engine.created(self._dsanalyze)
    except Exception as error:
        hook.fault(error)
    _init(self, loader, *arguments, **named)


def _patched_reset(self, loader, first_iter=False):
    iteration = self.__dict__.get('_dsanalyze')
    if iteration is not None and not first_iter and hook.engine is not None:
        try:
            hook.engine.renewed(iteration)
        except Exception as error:
            hook.fault(error)
    return _reset(self, loader, first_iter)


def _patched_loader_init(self, *arguments, **named):
    try:
        if hook.engine is not None or hook.waiting:
            origin = hook.entry(self)['origin'] = facts.origin(self)
            arguments, named = changes.with_workers(origin, arguments, named)
    except Exception as error:
        hook.fault(error)
    _loader_init(self, *arguments, **named)


def _patched_loader_iter(self):
    began = now()
    iterator = _loader_iter(self)
    if hook.engine is not None and isinstance(iterator, _Base):
        iteration = iterator.__dict__.get('_dsanalyze')
        if iteration is not None:
            hook.engine.started(iteration, now() - began - (iteration.sampling or 0))
    return iterator


for _new, _old in ((_patched_next, _next), (_patched_index, _index), (_counted_index, _index), (_patched_init, _init), (_patched_reset, _reset),
                   (_patched_loader_init, _loader_init), (_patched_loader_iter, _loader_iter)):
    for _name in ('__name__', '__qualname__', '__doc__', '__module__'):
        setattr(_new, _name, getattr(_old, _name))
    _new.__wrapped__ = _old


def _follow_groups():
    distributed = torch.distributed
    original = getattr(distributed, 'init_process_group', None)
    if original is None:  # This torch has no distributed part.
        return

    @functools.wraps(original)
    def init_process_group(*arguments, **named):
        result = original(*arguments, **named)
        hook.joined()
        return result

    distributed.init_process_group = init_process_group


def install():
    """Once PyTorch's DataLoader has been imported."""
    if not os.environ.get('DSANALYZE_ATTACH'):
        return
    _Base.__next__ = _patched_next
    _Base.__init__ = _patched_init
    loaders.DataLoader.__init__ = _patched_loader_init
    _Base._next_index = _counted_index if hook.passive else _patched_index
    _Base._reset = _patched_reset
    loaders.DataLoader.__iter__ = _patched_loader_iter
    gradients = Gradients(lambda: hook.engine if hook.engine is not None and not hook.engine.off else None, phases=not hook.passive)
    framework.use(PyTorch(gradients))
    batches.kinds.insert(0, Tensors)
    _follow_groups()
    if facts.rank()['world'] > 1:
        gradients.follow_ranks()
    hook.start()
    if not hook.passive:
        hook.spent.follow_saves(torch)
        # Workers that are ended leave the sockets behind by which they hand over tensors; the launcher removes this folder.
        multiprocessing.process.current_process()._config.setdefault('tempdir', os.path.dirname(os.environ['DSANALYZE_ATTACH']))
