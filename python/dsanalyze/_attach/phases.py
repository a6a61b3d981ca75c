"""Runs the launcher's plan inside the script: windows of training steps in a mode, and between them switches and drains."""
import os
import sys
from _thread import get_ident
from time import monotonic_ns as now

from . import framework
from .clock import Gap
from .engine import Engine, other, primary
from .modes import Modes

least_steps_alone = 20
most_asked_apart = 3
least_seconds_alone = min(30.0, float(os.environ.get('DSANALYZE_ATTACH_PATIENCE', 30)))


def _remove_semaphores():
    """Those with names, of spawned workers: what multiprocessing does as an interpreter ends, which os._exit leaves out."""
    util, synchronize = sys.modules.get('multiprocessing.util'), sys.modules.get('multiprocessing.synchronize')
    if util is None or synchronize is None:
        return
    for finalizer in list(util._finalizer_registry.values()):
        if getattr(finalizer, '_callback', None) is synchronize.SemLock._cleanup:
            finalizer()


class Phases(Engine):
    """What fails in here ends the profiling and never the script."""

    def __init__(self, link, standstill):
        super().__init__(link, link.send)
        self.standstill = standstill
        self.modes = Modes(self.roles, self.note)
        self._remaining = 0
        self._validated = -2  # How many steps there were when the last validation began.
        self._loaders_apart = False  # Several threads ask training loaders for batches.
        self._single = False  # The script leaves each pass after one step.
        self._unannounced = False  # The pass that goes on, to the launcher.
        self._untold = None  # Why a script that goes on is followed no further.

    # What happens in the script.

    def is_due(self, at):
        self._remaining -= 1
        return self._remaining < 0

    def fetch(self, iteration, iterator, role):
        if role is not other and self.modes.replaces(iteration.record):
            try:
                batch = self.modes.batch(iteration, iterator)
                self.standstill.goes_on(now())
                return batch
            except StopIteration:
                raise
            except Exception as error:
                self.fault(error)
                return iteration.fetch(iterator)
        if role is not other and iteration.is_over():
            raise StopIteration
        self.standstill.waits_for(iteration)
        return iteration.fetch(iterator)

    def source(self, iteration):
        record, own, standstill = iteration.record, iteration.fetch, self.standstill

        def fetch(iterator):
            return self.fetch(iteration, iterator, primary)

        def waited_for(iterator):
            standstill.waits_for(iteration)
            return own(iterator)

        replay = record.replay if self.modes.mode == 'synthetic' else None
        if replay is None and not iteration.replaced and not self.modes.replaces(record) and record.looked_at():
            return waited_for, iteration.samples_of_last
        if replay is None:
            return fetch, lambda batch: self.samples(iteration, batch, primary)
        iteration.replaced = True

        def kept(iterator):
            if replay.at_hand:
                try:
                    standstill.goes_on(now())
                    return replay.next()
                except Exception as error:
                    self.fault(error)
            return fetch(iterator)

        return kept, lambda batch: replay.last_samples

    def samples(self, iteration, batch, role):
        if role is not other and self.modes.replaces(iteration.record):
            return self.modes.samples_of_last(iteration, batch)
        iteration.record.look_at(batch)
        return iteration.samples_of_last(batch)

    def created(self, iteration):
        """Its workers rest while batches come from elsewhere, unless it is one of an evaluation on the training data, which gets the loader's own."""
        if iteration.record.training and not framework.current.gradients_enabled():
            self._leave()
            iteration.held = False
            iteration.evaluates = True
            return
        super().created(iteration)
        iteration.held = iteration.record.training and not self.off and self.modes.idles(iteration.record)

    def renew(self, record, old):
        record.inherit(old)
        self.modes.close(old)
        super().renew(record, old)

    def _introduce(self, record):
        super()._introduce(record)
        for old in self.roles.training:  # A script that makes its loader anew for each epoch must not keep all of its datasets.
            if self.roles.over(old) and old is not record:
                old.recipe = old.replay = None
                old.lists = []

    def dropped(self, iteration):
        self._leave()
        if iteration.record is self.roles.primary and not self.off and self.ends_step(iteration):
            framework.current.synchronise()
            super().dropped(iteration)

    def step_over(self, at):
        super().step_over(at)
        gap = self.clock.gap
        if gap is not None and not self.off:
            gap.optimizer_steps += 1
            if gap.optimizer_steps >= least_steps_alone and now() - gap.begin > 1e9 * least_seconds_alone:
                self.give_up('its epoch ended, and it goes on training with batches that its DataLoader does not deliver again (as itertools.cycle keeps them)')

    def failed(self, why, by_script):
        self.note('hook-failed', why)
        if by_script and not self.off:
            # Mostly the script ends by it, and says so itself.
            self._untold = why
            self._stop()
        else:
            self.give_up(why)

    # One request for a batch.

    def begin(self, iteration, entered):
        if self._loaders_apart:
            self.give_up('it asks its training loaders for batches in different threads, which cannot be switched together; --passive follows it')
            return other, entered
        if self.clock.running and not iteration.clocked:
            end = self.clock.leave(self._device_works_on())
            if self.clock.marks:
                self._single = self._single or self._unannounced
                self.checkpoint('epoch_end', iteration, end)
                self._remaining = 0
        iteration.clocked = True
        self._unannounced = not self._may_announce(iteration)
        if self._unannounced:
            if not self.clock.running:
                entered = self._synchronise(entered)
                if self.clock.gap is not None:
                    self.clock.gap.end = entered
            return primary, entered
        first = not iteration.announced
        if first or self._remaining <= 0:
            iteration.announced = True
            self.checkpoint('start' if first else 'window', iteration, self._synchronise(entered))
            entered = now()  # What lay between was a checkpoint, which belongs to no step.
        self._remaining -= 1
        return primary, entered

    def follows(self, iteration, iterator, current, entered):
        """All training loaders switch together, between two batches: one that another thread asks meanwhile would lose some. The primary one's thread gives up,
        as it is the one that switches."""
        super().follows(iteration, iterator, current, entered)
        passing = self.roles.primary.current
        apart = passing is not None and not passing.ended and passing.thread not in (None, get_ident())
        iteration.asked_apart = iteration.asked_apart + 1 if apart else 0
        self._loaders_apart = self._loaders_apart or iteration.asked_apart >= most_asked_apart

    def _may_announce(self, iteration):
        """Ranks wait for one another at an epoch's start, so it must be one: a rank that looks at a batch (next(iter(loader))) between two epochs would wait
        for ranks that wait for it elsewhere. Its first step tells, unless it has no other."""
        record = iteration.record
        return iteration.announced or self.world == 1 or iteration.stepped or self._single or (record.length or record.facts['batches']) == 1

    def _device_works_on(self):
        """How long the device still has had to work on what it was asked for."""
        began = now()
        return now() - began if framework.current.synchronise() else 0

    def before_validation(self, iteration, iterator, entered):
        """What the device still has to do is the training step's. Where each step asks for a batch without gradients, that is none of a validation, and not waited for."""
        if iteration.held:
            iteration.resume(iterator)
        if not self.clock.running or self.clock.validating:
            return entered
        steps, self._validated = self._validated, self._steps
        if self._steps <= steps + 1:
            return entered
        if self.clock.stepped:
            return self._synchronise(entered)
        return entered + self._device_works_on()

    def _synchronise(self, entered):
        """Waits for what the device still has to do, which is the last step's computing; returns the time afterwards."""
        if not framework.current.synchronise():
            return entered
        left = now()
        self.clock.synchronised(left - entered)
        return left

    def ended(self, iteration, entered, role):
        if not iteration.replaced and self.modes.mode == 'full':
            iteration.record.length = iteration.handed
        if role is other:
            if self.clock.running and self._steps == self._validated:
                framework.current.synchronise()  # What it has left to the device is its own.
            self.clock.validation_ended(now())
        elif role is primary and self._unannounced and not iteration.stepped:
            self.clock.drop()  # An evaluation: no optimizer has stepped on it.
        elif role is primary:
            fetched = now() - entered
            works_on = self._device_works_on()
            self.clock.synchronised(works_on)
            entered += works_on
            ended = now()
            self.checkpoint('epoch_end', iteration, entered)
            self._remaining = 0
            self.clock.gap = Gap(entered + now() - ended)  # Without the checkpoint.
            self.clock.gap.start = fetched

    # Checkpoints.

    def checkpoint(self, why, iteration, entered):
        """Sends what was measured and does what the launcher answers, until it says how to go on."""
        self.standstill.check()
        message = self._at(why, iteration)
        window = self.clock.take(self.world > 1, entered)
        if window is not None:
            message['window'] = dict(window, mode=self.modes.mode, sampling=self._sampling())
        if self.spent is not None:
            message['spent'] = self.spent.take()
        if why == 'start':
            gap, self.clock.gap = self.clock.gap, None
            if gap is not None:
                message['between'] = dict(gap.report(gap.end or entered), sampling=iteration.sampling or 0)
        while True:
            reply = self.link.ask(message)
            if reply is None:
                self.end(1)  # the launcher is lost, and with it what this run was for
            action = reply.get('do')
            if action == 'run':
                self._remaining = int(reply['steps'])
                self.clock.counts = bool(reply.get('count'))
                if self.modes.prepare(self._remaining):
                    framework.current.synchronise()  # Copies on a device are made by then.
                return
            if action == 'go':
                return
            if action == 'end':
                self.end()
            if action == 'switch':
                message = self._at('switched', iteration, **self.modes.switch(iteration, reply))
            elif action == 'drain':
                message = self.modes.drain(iteration, reply)
            else:
                self._stop()
                return

    def _at(self, why, iteration, **more):
        message = {'t': 'at', 'why': why, 'step': iteration.handed}
        if iteration.record.tokens:
            message['tokens'] = iteration.record.tokens
        if iteration.record.picture:
            message['picture'] = iteration.record.picture
        message.update(more)
        return message

    def _sampling(self):
        total = sum(record.sampling for record in self.roles.training)
        for record in self.roles.training:
            record.sampling = 0
        return total

    def finish(self):
        """The process ends by itself: the bye carries what is left of a window."""
        if self.off:
            return {}
        self._leave()
        window = self.clock.take(self.world > 1)
        return {} if window is None else {'window': dict(window, mode=self.modes.mode)}

    def end(self, status=0):
        """Ends the process: the results of this run are thrown away."""
        self.link.send({'t': 'bye'})
        for _, iterator in self.modes.live():
            for worker in getattr(iterator, '_workers', ()):
                worker.terminate()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass
        try:
            _remove_semaphores()
        except Exception:
            pass
        os._exit(status)

    def goes_on(self):
        """The script asks for batches after its own signal handler interrupted the hook: other ranks would wait for this one."""
        why, self._untold = self._untold, None
        if why:
            self.send({'t': 'off', 'why': why})

    def give_up(self, why):
        """The launcher hears of it: other ranks would wait for this one."""
        if not self.off:
            self.send({'t': 'off', 'why': why})
            self._stop()

    def _stop(self):
        """The script goes on as if there were no hook."""
        self.off = True
        self._common = None
        try:
            self.modes.let_go()
        except Exception:
            pass
