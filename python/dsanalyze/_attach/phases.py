"""Runs the launcher's plan inside the script: windows of training steps in a mode, and between them switches and drains."""
import os
import sys
from time import monotonic_ns as now

import torch

from . import drains, facts
from .batches import Replay, samples_of
from .clock import Gap, StepClock
from .roles import Randomness, Roles, gradients_enabled


class Phases:
    """Answers for each __next__ of the script's iterators. What fails in here ends the profiling and never the script."""

    def __init__(self, link, original_next, original_index):
        self.off = False
        self.mode = 'full'
        self.clock = StepClock()
        self.roles = Roles()
        self.link = link
        self.losses = []
        self._original = original_next
        self._index = original_index
        self._remaining = 0
        self._began = 0
        self._epoch = -1
        self._said = set()
        self._world = 1
        self._next_id = 0
        self._cached = None
        self._keep = 0
        self._keep_bytes = 0

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
        """A new iterator, or a new epoch of a persistent one: it must not fetch ahead while batches come from elsewhere."""
        iteration.record.current = iteration
        iteration.held = self.mode != 'full' and iteration.record.training and not self.off

    def started(self, record, duration):
        """The script has waited this long for the workers of a new epoch to start."""
        if record.training and self.clock.gap is not None:
            self.clock.gap.start += duration

    def optimizer_stepped(self, _):
        if self.off:
            return
        if self.clock.running:
            self.clock.stepped_at(now())
        for record in self.roles.stepped():
            self._recognise(record)

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

    def note(self, code, text, **more):
        if code not in self._said:
            self._said.add(code)
            message = {'t': 'note', 'code': code, 'text': text}
            message.update(more)
            self.link.send(message)

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
        if self.off or self.mode == 'full':
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
            self._switch_one(iteration, iterator, self._keep, self._keep_bytes)
        try:
            index = iteration.consume(iterator, self._index)
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
        if self.mode == 'synthetic':
            batch, samples = record.replay.next()
            if record.replay.changed:
                self.note('batch-mutated', 'The script changes batches in place; each batch was handed out as a copy.')
        else:
            asked = now()
            batch, samples = self._cached_batch(record, iteration, iterator, index)
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
        if not iteration.disturbed and self.mode == 'full':
            record.length = iteration.handed
        if record is self.roles.primary and iteration.announced:
            self.clock.cancel()
            self.checkpoint('epoch_end', iteration, entered)
            self._remaining = 0
            self.clock.gap = Gap(entered)
            self.clock.gap.start = now() - entered
        return None

    # Recognising the training loaders.

    def _recognise(self, record):
        if record.id is None:
            if not self._next_id:
                self.link.send(facts.device())
                self._say_rank()
            record.id = self._next_id
            self._next_id += 1
        message = {'t': 'loader', 'id': record.id, 'primary': record is self.roles.primary}
        message.update(record.facts)
        self.link.send(message)

    def _say_rank(self):
        rank = facts.rank()
        self._world = rank['world']
        if rank != {key: self.rank[key] for key in rank}:
            self.link.send(dict(rank, t='rank'))

    # Checkpoints.

    def checkpoint(self, why, iteration, entered):
        """Sends what was measured and does what the launcher answers, until it says how to go on."""
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        message = self._at(why, iteration)
        window = self.clock.take(self.mode, entered, self._world > 1)
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
                if reply.get('mode', self.mode) != self.mode:
                    self._switch(iteration, reply)
                if self.mode == 'full':
                    self._resume()
                self._remaining = int(reply['steps'])
                return
            if action == 'go':
                return
            if action == 'end':
                self.end()
            if action == 'switch':
                message = self._switch(iteration, reply)
            elif action == 'drain':
                message = self._drain(iteration, reply)
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

    def _live(self):
        """The training iterations that go on, with their iterators."""
        found = []
        for record in self.roles.training:
            iteration = record.current
            iterator = iteration.iterator() if iteration is not None else None
            if iterator is not None and not iteration.ended:
                found.append((iteration, iterator))
        return found

    def _switch_one(self, iteration, iterator, keep, keep_bytes):
        if not keep:
            return iteration.discard(iterator, self._index)
        replay = Replay()
        count, error = iteration.discard(iterator, self._index, keep, lambda batch, samples: replay.add(batch, samples, keep_bytes))
        replay.drop_partial()
        if len(replay):
            iteration.record.replay = replay
        return count, error

    def _switch(self, iteration, reply):
        mode = reply['mode']
        self._keep = int(reply.get('keep', 16)) if mode == 'synthetic' else 0
        self._keep_bytes = int(reply.get('keep_bytes', 1 << 30))
        self._close_cached()
        discarded = 0
        with Randomness():
            if mode == 'full':
                self.mode = mode
                self._resume()
            for other, iterator in self._live() if mode != 'full' else ():
                count, error = self._switch_one(other, iterator, self._keep, self._keep_bytes)
                discarded += count if other is iteration else 0
                if error is not None:
                    self.note('discard-failed', 'A batch failed while outstanding batches were discarded: {}: {}'.format(type(error).__name__, error))
        self.mode = mode
        replay = iteration.record.replay
        return self._at('switched', iteration, discarded=discarded, kept=len(replay) if replay is not None and self._keep else 0,
                        bytes=replay.bytes if replay is not None and self._keep else 0)

    def _resume(self):
        for other, iterator in self._live():
            if other.held:
                other.resume(iterator)
            if other.ahead:
                left = other.skip_ahead(iterator)
                if left:
                    self.note('epoch-lengthened', 'The stream could not be read as fast as the epoch went on without it: {} batches.'.format(left))

    def _cached_batch(self, record, iteration, iterator, index):
        if self._cached is None:
            self._cached = {}
        if record not in self._cached:
            with Randomness():
                self._cached[record] = drains.Cycle(record, record.recipe['num_workers'])
        batch = self._cached[record].next()
        return batch, iteration.count(iterator, index, batch) if index is not None else samples_of(batch)

    def _close_cached(self):
        cached, self._cached = self._cached, None
        for cycle in (cached or {}).values():
            cycle.close()

    def _drain(self, iteration, reply):
        with Randomness():
            for other, iterator in self._live():
                if not other.held:
                    other.discard(iterator, self._index)
                if other is iteration:
                    other.peek(iterator, self._index, int(reply['batches']))
            message = drains.drain(iteration.record, int(reply['workers']), int(reply['batches']), float(reply['seconds']), reply.get('pass', 'measure'))
        if message.pop('differs', False):
            self.note('not-separable', 'Two starts of the iterable dataset gave different batches.')
        message['mode'] = self.mode
        return message

    def finish(self):
        """The process ends by itself: the bye carries what is left of a window."""
        end = self.clock.cancel() or now()
        window = None if self.off else self.clock.take(self.mode, end, self._world > 1)
        return {} if window is None else {'window': window}

    def end(self):
        """Ends the process: the results of this run are thrown away."""
        self.link.send({'t': 'bye', 'exit': 0})
        for _, iterator in self._live():
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
        self.mode = 'full'
        try:
            self._close_cached()
            with Randomness():
                self._resume()
        except Exception:
            pass
        for record in self.roles.training:
            record.replay = None
            record.lists = []
            record.recipe = None
