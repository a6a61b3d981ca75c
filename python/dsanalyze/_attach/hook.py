"""Installs the hook in a process that has imported torch: functions around the DataLoader's, a connection to the launcher, and what forks inherit."""
import atexit
import functools
import multiprocessing.process
import os
import sys
import weakref
from time import monotonic_ns as now

import torch
from torch.utils.data import dataloader as loaders

from . import changes, drains, facts, others, outputs
from .gradients import Gradients
from .iteration import Iteration, Record
from .link import Link
from .passive import Passive
from .phases import Phases

_Base = loaders._BaseDataLoaderIter
_next = _Base.__next__
_index = _Base._next_index
_init = _Base.__init__
_reset = _Base._reset
_loader_init = loaders.DataLoader.__init__
_loader_iter = loaders.DataLoader.__iter__


class Hook:
    """One a process. engine is nothing before the launcher has heard of the process, in its children, and when it is lost."""

    def __init__(self):
        self.passive = os.environ.get('DSANALYZE_ATTACH_MODE') == 'passive'
        self.engine = None
        self.waiting = False
        self.outputs = None
        self.standstill = None
        self.gradients = None
        self._known = {}
        # Kept in a child, which must not finalise the parent's iterators: that would end their workers.
        self._inherited = []

    def connect(self):
        self.waiting = False
        link = Link(os.environ['DSANALYZE_ATTACH'])
        if link.lost:
            if not self.passive:
                if link.refused:
                    os.write(2, b'dsanalyze: this process may not speak to the program that started it: it changed its user. Start the command as that user.\n')
                os._exit(1)  # the launcher is lost, and with it what this run was for
            return
        rank = facts.rank()
        link.send(dict(facts.hello(), **rank))
        engine = Passive(link, _next) if self.passive else Phases(link, _next, _index)
        engine.follow_ranks = self.gradients.follow_ranks
        engine.rank = rank
        self.engine = engine
        engine.outputs, engine.standstill = self.outputs, self.standstill

    def entry(self, loader):
        """What is remembered of a DataLoader object, for as long as it lives: its origin and its record."""
        key = id(loader)
        entry = self._known.get(key)
        if entry is None:
            entry = self._known[key] = {'loader': weakref.ref(loader, lambda _: self._known.pop(key, None)), 'origin': (None, None), 'record': None}
        return entry

    def record(self, loader):
        entry = self.entry(loader)
        if entry['record'] is None:
            found = facts.loader_facts(loader, entry['origin'])
            entry['record'] = Record(found, None if self.passive else facts.recipe(loader), facts.leads(loader))
        return entry['record']

    def joined(self):
        """torch.distributed has been initialised: the launcher hears of this rank, though it may never have a loader."""
        try:
            if self.waiting:
                self.connect()
            elif self.engine is not None and not self.engine.off:
                self.engine.tell_rank()
        except Exception as error:
            _fault(error)

    def followed(self, loader):
        """A new iterator of the script, in a process that may train."""
        if self.waiting and torch.utils.data.get_worker_info() is None:
            self.connect()
        return self.engine is not None and not self.engine.off and not drains.building and not self.engine.nested()

    def child(self):
        """In a forked child: the connection is the parent's. A child that makes iterators of its own, and is no worker, connects by itself."""
        engine, self.engine = self.engine, None
        if self.standstill is not None:
            self.standstill.register()
        if engine is not None:
            engine.off = True
            engine.link.close()
            self._inherited.append(engine)
        self.waiting = True

    def bye(self):
        engine, self.engine = self.engine, None
        if engine is None:
            return
        try:
            if self.outputs is not None:
                self.outputs.report(engine.note)
            if engine.roles.primary is None:
                engine.seen.tell()
            engine.send(dict(engine.finish(), t='bye', exit=1 if hasattr(sys, 'last_type') else None, error=facts.last_error()))
            engine.link.flush()
            engine.link.close()
        except Exception:  # There is no one left to hear of it.
            pass


hook = Hook()


def _patched_next(self):
    engine = hook.engine
    if engine is not None:
        iteration = self.__dict__.get('_dsanalyze')
        if iteration is not None and (not engine.off or iteration.spare):
            return engine.next(iteration, self)
    return _next(self)


def _patched_index(self):
    iteration = self.__dict__.get('_dsanalyze')
    return _index(self) if iteration is None else iteration.next_index(self, _index)


def _counted_index(self):
    index = _index(self)
    iteration = self.__dict__.get('_dsanalyze')
    if iteration is not None and iteration.counts is not None:
        iteration.list_chosen(index)
    return index


def _patched_init(self, loader, *arguments, **named):
    try:
        if hook.followed(loader):
            self._dsanalyze = Iteration(hook.record(loader), self)
            if hook.passive and not self._dsanalyze.record.facts['batch_size'] and loader._auto_collation:
                self._dsanalyze.count_lists()
            hook.engine.created(self._dsanalyze)
    except Exception as error:
        _fault(error)
    _init(self, loader, *arguments, **named)


def _patched_reset(self, loader, first_iter=False):
    iteration = self.__dict__.get('_dsanalyze')
    if iteration is not None and not first_iter and hook.engine is not None:
        try:
            iteration.renew()
            hook.engine.created(iteration)
        except Exception as error:
            _fault(error)
    return _reset(self, loader, first_iter)


def _patched_loader_init(self, *arguments, **named):
    try:
        if hook.engine is not None or hook.waiting:
            origin = hook.entry(self)['origin'] = facts.origin(self)
            arguments, named = changes.with_workers(origin, arguments, named)
    except Exception as error:
        _fault(error)
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


def _fault(error):
    if hook.engine is not None:
        hook.engine.fault(error)


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


def _may_be_worker():
    """Started by multiprocessing: perhaps a DataLoader's worker, perhaps a rank. The first iterator tells."""
    command = ' '.join(map(str, getattr(sys, 'orig_argv', sys.argv)))
    return multiprocessing.process.parent_process() is not None or 'multiprocessing.' in command


def install():
    if not os.environ.get('DSANALYZE_ATTACH'):
        return
    _Base.__next__ = _patched_next
    _Base.__init__ = _patched_init
    loaders.DataLoader.__init__ = _patched_loader_init
    _Base._next_index = _counted_index if hook.passive else _patched_index
    _Base._reset = _patched_reset
    loaders.DataLoader.__iter__ = _patched_loader_iter
    hook.gradients = Gradients(lambda: hook.engine if hook.engine is not None and not hook.engine.off else None, losses=not hook.passive)
    _follow_groups()
    if facts.rank()['world'] > 1:
        hook.gradients.follow_ranks()
    folder = os.path.dirname(os.environ['DSANALYZE_ATTACH'])
    if not hook.passive or os.environ.get('DSANALYZE_ATTACH_EXPLAIN'):
        from .standstill import Standstill
        hook.standstill = Standstill(folder)
    if not hook.passive:
        hook.outputs = outputs.begin()
        hook.outputs.wrap_pytorch(torch)
        # Workers that are ended leave the sockets behind by which they hand over tensors; the launcher removes this folder.
        multiprocessing.process.current_process()._config.setdefault('tempdir', folder)
    others.install(lambda: hook.waiting or hook.engine is not None and not hook.engine.off)
    os.register_at_fork(after_in_child=hook.child)
    atexit.register(hook.bye)
    if _may_be_worker():
        hook.waiting = True
    else:
        hook.connect()
