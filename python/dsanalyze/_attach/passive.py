"""A real training run: only clocks are read, and the launcher is never waited for."""
from _thread import get_ident
from time import monotonic_ns as now

from .batches import leading
from .clock import Gap
from .engine import Engine
from .roles import gradients_enabled

interval = 1000000000
# Sent as one number where every step has the same.
equal_parts = ('validation', 'samples', 'steps')


class Passive(Engine):
    """Every batch is the script's own, and windows are offered about once a second."""

    def __init__(self, link, original_next):
        super().__init__(link, original_next, link.offer)
        self._due = 0
        self._gap = None

    def next(self, iteration, iterator):
        if self._inside is not None and self.nested():
            return self._original(iterator)
        entered = now()
        record = iteration.record
        training = record.training and gradients_enabled()
        primary = training and record is self.roles.primary and self.is_current(iteration)
        try:
            if primary:
                iteration.thread = get_ident()
                entered = self._begin(iteration, entered)
            elif not training and self.roles.training:
                self.clock.validation_entered(entered)
        except Exception as error:
            self.fault(error)
        outer, self._inside = self._inside, get_ident()
        asked = now()
        try:
            batch = self._original(iterator)
        except StopIteration:
            self._inside = outer
            self._ended(iteration, entered, primary, training)
            raise
        except BaseException:
            if primary:
                self.clock.cancel()
            raise
        finally:
            self._inside = outer
        served = now()
        try:
            iteration.handed += 1
            if primary:
                self.asked(iteration)
                samples = self._samples(iteration, batch)
                at = now()
                self.clock.served(at, served - asked, asked - entered + at - served, samples)
            elif training:
                self.asked(iteration)
                self.clock.followed(served - asked, asked - entered + now() - served)
            else:
                if gradients_enabled():
                    self.asked(iteration)
                self.clock.validation_served(served)
        except Exception as error:
            self.fault(error)
        return batch

    @staticmethod
    def _samples(iteration, batch):
        facts_of = iteration.record.facts
        record = iteration.record
        size, samples, batches = facts_of['batch_size'], facts_of['samples'], facts_of['batches']
        if not size:
            return leading(batch) or 1
        if record.leads is not True and size and samples and batches and iteration.handed == batches and not facts_of['drop_last']:
            return max(1, min(size, samples - size * (batches - 1)))
        return record.samples_without_index(batch)

    def _begin(self, iteration, entered):
        self.clock.close(entered)
        if not iteration.announced:
            iteration.announced = True
            if self.clock.gap is not None:
                self._gap, self.clock.gap = self.clock.gap.report(entered), None
        if entered >= self._due and len(self.clock):
            self._offer(entered)
            entered = now()  # What sending took lies between windows.
        self.clock.open(entered)
        return entered

    def _offer(self, entered):
        window = self.clock.take('full', entered, self.world > 1)
        for part in equal_parts if window is not None else ():
            values = window[part]
            if values.count(values[0]) == len(values):
                window[part] = values[0]
        message = {'t': 'passive', 'window': window}
        if self._gap is not None:
            message['between'], self._gap = self._gap, None
        if window is not None:
            self.link.offer(message)
        self._due = now() + interval
        if self.link.lost:
            self.off = True

    def _ended(self, iteration, entered, primary, training):
        try:
            iteration.ended = True
            self.roles.ended(iteration.record)
            if primary:
                self.clock.cancel()
                if len(self.clock):
                    self._offer(entered)
                self.clock.gap = Gap(entered)
                self.clock.gap.start = now() - entered
            elif not training:
                self.clock.validation_ended(now())
        except Exception as error:
            self.fault(error)

    def finish(self):
        """The process ends: what is left is offered."""
        end = self.clock.cancel()
        if end is not None and len(self.clock):
            self._offer(end)
        return {}

    def fault(self, error):
        self.note('hook-failed', '{}: {}'.format(type(error).__name__, error))
        self.off = True
