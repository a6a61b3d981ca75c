"""Runs the launcher's plan inside the script: windows of training steps in a mode, and between them switches and drains."""
import os
import sys
from time import monotonic_ns as now

import torch

from .clock import Gap
from .engine import Engine
from .modes import Modes
from .roles import Randomness, gradients_enabled


class Phases(Engine):
    """Answers for each __next__ of the script's iterators. What fails in here ends the profiling and never the script."""

    def __init__(self, link, original_next, original_index):
        super().__init__(link, original_next, link.send)
        self.modes = Modes(self.roles, original_index, self.note)
        self._index = original_index
        self._remaining = 0
        self._began = 0
        self._epoch = -1

    # What happens in the script.

    def next(self, iteration, iterator):
        entered = now()
        try:
            self._began = entered
            own, batch = self._before(iteration, iterator, entered)
        except StopIteration:
            raise
        except Exception as error:
            self.fault(error)
            own, batch = False, None
        if own:
            return batch
        if self.off:
            return self._plain(iteration, iterator)
        index = self._guard(iteration.expected, iterator)
        asked = now()
        try:
            batch = self._original(iterator)
        except StopIteration:
            other = self._guard(self._ended, iteration, entered)
            if other is not None:
                return other[0]
            raise
        except BaseException:
            self.clock.cancel()
            raise
        self._guard(self._delivered, iteration, iterator, index, batch, now() - asked, asked - self._began)
        return batch

    def _plain(self, iteration, iterator):
        """The hook's work is over, but for batches that it took off a stream."""
        try:
            return self._original(iterator)
        except StopIteration:
            if not iteration.spare:
                raise
            return iteration.spare.popleft()[0]

    def created(self, iteration):
        """It must not fetch ahead while batches come from elsewhere."""
        super().created(iteration)
        iteration.held = self.modes.mode != 'full' and iteration.record.training and not self.off

    def fault(self, error):
        self.note('hook-failed', '{}: {}'.format(type(error).__name__, error))
        if os.environ.get('DSANALYZE_ATTACH_DEBUG'):
            import traceback
            traceback.print_exc()
        self.pass_through()

    def _guard(self, function, *arguments):
        try:
            return function(*arguments)
        except StopIteration:
            raise
        except Exception as error:
            self.fault(error)
            return None

    # One __next__.

    def _before(self, iteration, iterator, entered):
        """Whether the batch is ours, and the batch."""
        record = iteration.record
        if self.off:
            return False, None
        if not gradients_enabled() or (self.roles.training and not record.training):
            self.clock.validation_entered(entered)
            if gradients_enabled():
                self.roles.served(record)
            return False, None
        self.roles.served(record)
        if record is self.roles.primary:
            self._begin_step(iteration, entered)
        elif not record.training:
            return False, None
        if self.off or self.modes.mode == 'full':
            return False, None
        return self._hand_out(iteration, iterator, self._began)

    def _begin_step(self, iteration, entered):
        self.clock.close(entered)
        if not iteration.announced:
            iteration.announced = True
            self._epoch += 1
            self.checkpoint('start', iteration, entered)
        elif self._remaining <= 0:
            self.checkpoint('window', iteration, entered)
        else:
            self._remaining -= 1
            self.clock.open(entered)
            return
        self._remaining -= 1
        self._began = now()  # What lay between was a checkpoint, which belongs to no step.
        if not self.off:
            self.clock.open(self._began)

    def _hand_out(self, iteration, iterator, begin):
        record = iteration.record
        if not iteration.held:
            self.modes.apply(iteration, iterator)
        try:
            iteration.consume(iterator, self._index)
        except StopIteration:
            if iteration.map_style:
                return False, None  # The script's own iterator has ended, too, and says so itself.
            other = self._ended(iteration, begin)
            if other is not None:
                return True, other[0]
            raise
        if iteration.ahead == 1 and record.length is None and record.facts['batches'] is None:
            self.note('length-unknown', 'The dataset has no length, and no epoch had ended before: this epoch may become longer than the stream.')
        wait = 0
        if self.modes.mode == 'synthetic':
            batch, samples = record.replay.next()
            if record.replay.changed:
                self.note('batch-mutated', 'The script changes batches in place; each batch was handed out as a copy.')
        else:
            asked = now()
            batch, samples = self.modes.cached_batch(iteration)
            wait = now() - asked
        iterator._num_yielded += 1
        self._served(iteration, samples, wait, now() - begin - wait)
        return True, batch

    def _delivered(self, iteration, iterator, index, batch, wait, hook):
        """The script's own iterator has handed out a batch."""
        began = now()
        samples = iteration.delivered(iterator, index, batch)
        self._served(iteration, samples, wait, hook + now() - began)

    def _served(self, iteration, samples, wait, hook):
        at = now()
        iteration.handed += 1
        if iteration.record is self.roles.primary:
            if self.clock.running:
                self.clock.served(at, wait, hook, samples)
        elif iteration.record.training:
            self.clock.followed(wait, hook)
        else:
            self.clock.validation_served(at)

    def _ended(self, iteration, entered):
        """The iterator has no further batch. Returns one all the same where the epoch owes it to the script."""
        record = iteration.record
        iteration.ended = True
        self.roles.ended(record)
        if not record.training:
            self.clock.validation_ended(now())
            return None
        if iteration.spare:
            batch, samples = iteration.spare.popleft()
            self._served(iteration, samples, 0, now() - entered)
            return batch, samples
        if not iteration.disturbed and self.modes.mode == 'full':
            record.length = iteration.handed
        if record is self.roles.primary and iteration.announced:
            self.clock.cancel()
            self.checkpoint('epoch_end', iteration, entered)
            self._remaining = 0
            self.clock.gap = Gap(entered)
            self.clock.gap.start = now() - entered
        return None

    # Checkpoints.

    def checkpoint(self, why, iteration, entered):
        """Sends what was measured and does what the launcher answers, until it says how to go on."""
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        message = self._at(why, iteration)
        window = self.clock.take(self.modes.mode, entered, self.world > 1)
        if window is not None:
            window['nonfinite'] = self._nonfinite()
            message['window'] = window
        if self.clock.gap is not None and why == 'start':
            message['between'] = self.clock.gap.report(entered)
            self.clock.gap = None
        while True:
            reply = self.link.ask(message)
            action = reply.get('do') if reply is not None else 'pass'
            if action == 'run':
                if reply.get('mode', self.modes.mode) != self.modes.mode:
                    self.modes.switch(iteration, reply)
                if self.modes.mode == 'full':
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
        message.update(more)
        return message

    def _nonfinite(self):
        losses, self.losses = self.losses, []
        return sum(1 for loss in losses if not bool(torch.isfinite(loss)))

    def finish(self):
        """The process ends by itself: the bye carries what is left of a window."""
        end = self.clock.cancel() or now()
        window = None if self.off else self.clock.take(self.modes.mode, end, self.world > 1)
        return {} if window is None else {'window': window}

    def end(self):
        """Ends the process: the results of this run are thrown away."""
        if self.outputs is not None:
            self._guard(self.outputs.report)
        self.link.send({'t': 'bye', 'exit': 0})
        for _, iterator in self.modes.live():
            for worker in getattr(iterator, '_workers', ()):
                worker.terminate()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass
        os._exit(0)

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
