"""Runs the launcher's plan inside the script: windows of training steps in a mode, and between them switches and drains."""
import os
import sys
from _thread import get_ident
from time import monotonic_ns as now

from . import framework
from .clock import Gap
from .engine import Engine
from .modes import Modes
from .roles import Randomness

primary, follower, other = 'primary', 'follower', 'other'
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


class Asked:
    """One call of an iterator's __next__: what it is for, when it began, and a batch (in a tuple) that is not the iterator's own."""

    def __init__(self, iteration, iterator, began):
        self.iteration = iteration
        self.iterator = iterator
        self.began = began
        self.role = other
        self.batch = None
        self.over = False


class Phases(Engine):
    """Answers for each __next__ of the script's iterators. What fails in here ends the profiling and never the script."""

    def __init__(self, link):
        super().__init__(link, link.send)
        self.modes = Modes(self.roles, self.note)
        self._remaining = 0
        self._steps = 0  # That were begun.
        self._validated = -2  # How many there were when the last validation began.
        self._epoch = -1
        self._loaders_apart = False  # Several threads ask training loaders for batches.
        self._untold = None  # Why a script that goes on is followed no further.
        self.clock.follows_left = True

    # What happens in the script.

    def next(self, iteration, iterator):
        if self.nested():
            return iteration.fetch(iterator)
        step = Asked(iteration, iterator, now())
        thread = get_ident()
        self._inside.add(thread)  # A dataset may have loaders of its own, and batches are fetched in here, too.
        self._guard(self._begin, step)
        self._inside.discard(thread)
        if step.over:
            raise StopIteration
        if step.batch is not None:
            if self.standstill is not None:
                self._guard(self.standstill.goes_on, step.began)
            return step.batch[0]
        if self.off:
            return self._plain(iteration, iterator)
        index = self._guard(iteration.expected, iterator)
        if self.standstill is not None:
            self._guard(self.standstill.waits_for, iteration, index)
        asked = now()
        self._inside.add(thread)
        try:
            batch = iteration.fetch(iterator)
        except StopIteration:
            self._inside.discard(thread)
            self._guard(self._ended, step)
            if step.batch is not None:
                return step.batch[0]
            raise
        except BaseException:
            if step.role is primary:
                self.clock.cancel()
            raise
        finally:
            self._inside.discard(thread)
        self._guard(self._delivered, step, index, batch, now() - asked)
        return batch

    def _plain(self, iteration, iterator):
        """The hook's work is over, but for batches that it took off a stream."""
        try:
            return iteration.fetch(iterator)
        except StopIteration:
            if not iteration.spare:
                raise
            return iteration.spare.popleft()[0]

    def created(self, iteration):
        """It must not fetch ahead while batches come from elsewhere, unless it is one of an evaluation on the training data, which gets the loader's own."""
        if iteration.record.training and not framework.current.gradients_enabled():
            self.clock.renewed(iteration)
            iteration.held = False
            iteration.evaluates = True
            return
        super().created(iteration)
        iteration.held = iteration.record.training and not self.off and self.modes.replaces(iteration.record)

    def _introduce(self, record):
        record.made_anew = record.made_anew or any(old is not record and self.roles.over(old) and record.stands_for(old) for old in self.roles.training)
        super()._introduce(record)
        for old in self.roles.training:  # A script that makes its loader anew for each epoch must not keep all of its datasets.
            if self.roles.over(old) and old is not record:
                record.inherit(old)
                old.recipe = old.replay = None
                old.lists = []

    def dropped(self, iteration):
        if iteration.record is self.roles.primary and not self.off and self.ends_step(iteration):
            framework.current.synchronise()
            super().dropped(iteration)

    def optimizer_stepped(self):
        super().optimizer_stepped()
        gap = self.clock.gap
        if gap is not None and not self.off:
            gap.optimizer_steps += 1
            if gap.optimizer_steps >= least_steps_alone and now() - gap.begin > 1e9 * least_seconds_alone:
                self.give_up('its epoch ended, and it goes on training with batches that its DataLoader does not deliver again (as itertools.cycle keeps them)')

    def failed(self, why, by_script):
        self.note('hook-failed', why)
        if by_script and not self.off:
            # Mostly the script ends by it, and says so itself.
            self.pass_through()
            self._untold = why
        else:
            self.give_up(why)

    def _guard(self, function, *arguments):
        try:
            return function(*arguments)
        except Exception as error:
            self.fault(error)
            return None

    # One __next__.

    def _begin(self, step):
        """Finds what the batch is for, and hands it out where it does not come from the script's own iterator."""
        record = step.iteration.record
        if self.off:
            self.goes_on()
            return
        if self.ends_step(step.iteration):
            self.step_over(step.began)
        if not (framework.current.gradients_enabled() or step.iteration.without_gradients) or (self.roles.training and not record.training):
            if self.clock.running and not self.clock.validating:
                step.began = self._before_validation(step.began)
            self.clock.validation_entered(step.began, step.iteration)
            if step.iteration.held:
                step.iteration.resume(step.iterator)
            return
        # Where a thread of its own fetches the batches, the one that trains may be about to introduce their loader.
        trains = record.training and record.id is not None
        epoch = trains and self.is_current(step.iteration)
        if epoch and record is self.roles.primary:
            if self._loaders_apart:
                self.give_up('it asks its training loaders for batches in different threads, which cannot be switched together; --passive follows it')
                return
            step.iteration.thread = get_ident()
            if self.clock.running and not step.iteration.clocked:
                self.clock.leave(self._device_works_on())
                self._tell_left(step.iteration)
        if epoch and record is self.roles.primary and self._may_announce(step.iteration):
            step.role = primary
            self._begin_step(step)
        elif trains:
            step.role = follower
            self._follow_thread_of(step.iteration)
            if step.iteration.held and not self.modes.replaces(record):
                step.iteration.resume(step.iterator)
            if epoch and self.clock.gap is not None and not step.iteration.handed:
                step.iteration.between = self.clock.gap.report(step.began)
        if step.role is not other and not self.off and self.modes.replaces(record):
            self._hand_out(step)

    def _follow_thread_of(self, iteration):
        """All training loaders switch together, between two batches: one that another thread asks meanwhile would lose some. The primary one's thread gives up,
        as it is the one that switches."""
        passing = self.roles.primary.current
        apart = passing is not None and not passing.ended and passing.thread not in (None, get_ident())
        iteration.asked_apart = iteration.asked_apart + 1 if apart else 0
        self._loaders_apart = self._loaders_apart or iteration.asked_apart >= most_asked_apart

    def _may_announce(self, iteration):
        """Ranks wait for one another at an epoch's start, so it must be one: a rank that looks at a batch (next(iter(loader))) between two epochs would wait
        for ranks that wait for it elsewhere. Its first step tells, unless it has no other."""
        record = iteration.record
        return iteration.announced or self.world == 1 or iteration.stepped or (record.length or record.facts['batches']) == 1

    def _begin_step(self, step):
        self._steps += 1
        first = not step.iteration.announced
        due = first or self._remaining <= 0
        if due:
            step.began = self._synchronise(step.began)
        entered = step.began
        self.clock.close(entered)
        if not due:
            self._remaining -= 1
            self.clock.open(entered)
            return
        if first:
            if self.clock.left is not None:
                self._tell_left(step.iteration)
            step.iteration.announced = True
            self._epoch += 1
        self.checkpoint('start' if first else 'window', step.iteration, entered)
        self._remaining -= 1
        step.began = now()  # What lay between was a checkpoint, which belongs to no step.
        step.iteration.clocked = True
        if not self.off:
            self.clock.open(step.began)

    def _tell_left(self, iteration):
        """The pass before this one was left before its end, which the script never asked for: that is known only now."""
        framework.current.synchronise()
        self.checkpoint('epoch_end', iteration, None)
        self._remaining = 0

    def _device_works_on(self):
        """How long the device still has had to work on what it was asked for."""
        began = now()
        return now() - began if framework.current.synchronise() else 0

    def _before_validation(self, entered):
        """What the device still has to do is the training step's. Where each step asks for a batch without gradients, that is none of a validation, and not waited for."""
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

    def _hand_out(self, step):
        iteration, iterator = step.iteration, step.iterator
        record = iteration.record
        synthetic = self.modes.mode == 'synthetic'
        if not iteration.held or (synthetic and not record.replay):
            self.modes.apply(iteration, iterator)
        if synthetic and not record.replay:
            why = 'No batch came that could be handed out again, so G was not measured.'
            self.note('nothing-kept', why)
            self.give_up(why)
            return
        try:
            taken = iteration.consume(iterator)
        except StopIteration:
            if not iteration.map_style:  # Else the script's own iterator has ended, too, and says so itself.
                self._ended(step)
                step.over = step.batch is None
            return
        if iteration.ahead == 1 and record.length is None and record.facts['batches'] is None:
            self.note('length-unknown', 'The dataset has no length, and no epoch had ended before: this epoch may become longer than the stream.')
        wait = number = 0
        try:
            if synthetic:
                batch, samples, number = record.replay.next()
            else:
                asked = now()
                batch, samples = self.modes.cached_batch(iteration)
                wait = now() - asked
        except BaseException:
            iteration.undo(taken)
            raise
        if synthetic and record.replay.changed:
            self.note('batch-mutated', 'The script changes batches in place, or donates their arrays; each batch was handed out as a copy.')
        iterator._num_yielded += 1
        step.batch = (batch,)
        self._served(step, samples, wait, number)

    def _delivered(self, step, index, batch, wait):
        """The script's own iterator has handed out a batch."""
        self._served(step, step.iteration.delivered(step.iterator, index, batch), wait)

    def _served(self, step, samples, wait, number=0):
        """All of the request's time but for the wait is the hook's; what follows the last clock reading would be the step's, so that comes last."""
        step.iteration.handed += 1
        self.handed_out(step.iteration, framework.current.gradients_enabled() or step.iteration.without_gradients)
        if step.iteration.between is not None and step.iteration.handed == 1:
            step.iteration.between.update(first_batch=wait, samples=samples)
        if step.role is primary:
            if self.clock.running:
                if self.spent is not None:
                    self.spent.trained()
                at = now()
                self.clock.served(at, wait, at - step.began - wait, samples, number)
        elif step.role is follower:
            self.clock.followed(wait, now() - step.began - wait)
        else:
            at = now()
            self.clock.validation_served(at, step.iteration, step.began, wait, at - step.began - wait, samples)
            if self.spent is not None and self.roles.primary is not None:
                self.spent.looped(step.iteration, step.began, at, wait)

    def _ended(self, step):
        """The iterator has no further batch; the step gets one all the same where the epoch owes it to the script."""
        iteration = step.iteration
        record = iteration.record
        iteration.ended = True
        self.roles.ended(record)
        if iteration.spare:
            batch, samples = iteration.spare.popleft()
            step.batch = (batch,)
            self._served(step, samples, 0)
            return
        if not iteration.disturbed and self.modes.mode == 'full':
            record.length = iteration.handed
        if step.role is other:
            if self.clock.running and self._steps == self._validated:
                framework.current.synchronise()  # What it has left to the device is its own.
            self.clock.validation_ended(now())
        elif step.role is primary:
            self.clock.cancel()
            fetched = now() - step.began
            entered = step.began + self.clock.worked_on(self._device_works_on())
            ended = now()
            self.checkpoint('epoch_end', iteration, entered)
            self._remaining = 0
            self.clock.gap = Gap(entered + now() - ended)  # Without the checkpoint.
            self.clock.gap.start = fetched

    # Checkpoints.

    def checkpoint(self, why, iteration, entered):
        """Sends what was measured and does what the launcher answers, until it says how to go on."""
        if self.standstill is not None:
            self.standstill.check()
        message = self._at(why, iteration)
        ranks = self.world > 1
        whole = self.clock.left is None
        window = self.clock.take(self.modes.mode, entered, ranks) if whole else self.clock.take_left(self.modes.mode, ranks)
        if window is not None:
            window['nonfinite'] = self._nonfinite()
            message['window'] = window
        if self.spent is not None:
            message['spent'] = self.spent.take()
        if why == 'start':
            gap, self.clock.gap = self.clock.gap, None
            if iteration.between is not None or gap is not None:
                message['between'] = iteration.between or gap.report(entered)
                if 'first_batch' in message['between'] and iteration.handed == 1:
                    message['between']['first_step'] = entered - message['between']['end']
        while True:
            reply = self.link.ask(message)
            if reply is None:
                self.end(1)  # the launcher is lost, and with it what this run was for
            action = reply.get('do')
            if action == 'run':
                if reply.get('mode', self.modes.mode) != self.modes.mode:
                    self.modes.switch(iteration, reply)
                if self.modes.mode != 'synthetic':
                    self.modes.resume()
                self._remaining = int(reply['steps'])
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
                self.pass_through()
                return

    def _at(self, why, iteration, **more):
        message = {'t': 'at', 'why': why, 'epoch': self._epoch, 'step': iteration.handed}
        length = iteration.record.length or iteration.record.facts['batches']
        if length is not None:
            message['left'] = max(0, length - iteration.handed)
        if iteration.record.tokens:
            message['tokens'] = iteration.record.tokens
        if iteration.record.picture:
            message['picture'] = iteration.record.picture
        message.update(more)
        return message

    def _nonfinite(self):
        losses, self.losses = self.losses, []
        return sum(1 for loss in losses if not framework.current.is_finite(loss))

    def finish(self):
        """The process ends by itself: the bye carries what is left of a window."""
        end = self.clock.cancel() or now()
        window = None if self.off else self.clock.take(self.modes.mode, end, self.world > 1)
        return {} if window is None else {'window': window}

    def end(self, status=0):
        """Ends the process: the results of this run are thrown away."""
        self.link.send({'t': 'bye', 'exit': 0})
        for _, iterator in self.modes.live():
            for worker in getattr(iterator, '_workers', ()):
                worker.terminate()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass
        self._guard(_remove_semaphores)
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
        self.pass_through()

    def pass_through(self):
        """The script goes on as if there were no hook."""
        if self.off:
            return
        self.off = True
        self.modes.mode = 'full'
        try:
            self.modes.close_cached()
            with Randomness():
                self.modes.resume()
        except Exception:
            pass
        for record in self.roles.training:
            record.replay = None
            record.lists = []
            record.recipe = None
