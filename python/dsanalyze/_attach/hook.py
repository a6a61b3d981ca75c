"""The hook of a process: its connection to the launcher, and what its children do. It starts with the first pass that the script has marked (watched.py), or when
PyTorch has been imported (pytorch.py)."""
import atexit
import os
import sys
import weakref

from . import drains, facts, framework
from .link import Link
from .passive import Passive
from .phases import Phases
from .spent import Spent


class Hook:
    """One a process. engine is nothing before the launcher has heard of the process, in its children, and when it is lost."""

    def __init__(self):
        self.passive = os.environ.get('DSANALYZE_ATTACH_MODE') == 'passive'
        self.engine = None
        self.waiting = False
        self.standstill = None
        self.spent = Spent()
        self._known = {}
        self._started = False
        # Kept in a child, which must not finalise the parent's iterators: that would end their workers.
        self._inherited = []

    def start(self):
        """Once a process; later calls do nothing."""
        if self._started:
            return
        self._started = True
        if not self.passive:
            from .standstill import Standstill
            self.standstill = Standstill(os.path.dirname(os.environ['DSANALYZE_ATTACH']))
        os.register_at_fork(after_in_child=self.child)
        atexit.register(self.bye)
        if _may_be_worker():
            self.waiting = True
        else:
            self.connect()

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
        link.send(dict(rank, t='hello', pid=os.getpid()))
        engine = Passive(link) if self.passive else Phases(link, self.standstill)
        engine.rank = rank
        self.engine = engine
        engine.spent = None if self.passive else self.spent

    def entry(self, loader):
        """What is remembered of a DataLoader object, for as long as it lives: its origin, its record, and whether the script has marked it."""
        key = id(loader)
        entry = self._known.get(key)
        if entry is None:
            entry = self._known[key] = {'loader': weakref.ref(loader, lambda _: self._known.pop(key, None)), 'origin': (None, None), 'record': None, 'marked': False}
        return entry

    def followed(self):
        """Whether a pass of the script that begins now is one that may train."""
        if self.waiting and not framework.current.in_worker():
            self.connect()
        if self.engine is not None and self.engine.off:
            self.engine.goes_on()
        return self.engine is not None and not self.engine.off and not drains.building and not self.engine.nested()

    def joined(self):
        """The ranks have found one another: the launcher hears of this one, though it may never have a loader."""
        try:
            if self.waiting:
                self.connect()
            elif self.engine is not None and not self.engine.off:
                self.engine.tell_rank()
        except Exception as error:
            self.fault(error)

    def dropped(self, iteration):
        """The script has dropped the iterator of a pass."""
        if self.engine is not None and not self.engine.off:
            try:
                self.engine.dropped(iteration)
            except Exception as error:
                self.fault(error)

    def fault(self, error):
        if self.engine is not None:
            self.engine.fault(error)
        elif facts.raised_by_handler(error):
            raise error

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
            error = facts.last_error()
            if engine.roles.primary is None:
                engine.seen.tell()
            engine.send(dict(engine.finish(), t='bye', error=error))
            engine.link.flush()
            engine.link.close()
        except Exception:  # There is no one left to hear of it.
            pass


hook = Hook()


def _may_be_worker():
    """Started by multiprocessing: perhaps a DataLoader's worker, perhaps a rank. The first iterator tells."""
    command = ' '.join(map(str, getattr(sys, 'orig_argv', sys.argv)))
    processes = sys.modules.get('multiprocessing.process')
    return processes is not None and processes.parent_process() is not None or 'multiprocessing.' in command
