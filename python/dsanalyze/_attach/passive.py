"""A real training run: only clocks are read, and the launcher is never waited for."""
from _thread import get_ident
from time import monotonic_ns as now

from . import framework
from .clock import Gap
from .engine import Engine
from .steady import Steady

interval = 1000000000
plain_before_steady = 4  # Steps of the training loader alone, before the short way is taken.
# Sent as one number where every step has the same.
equal_parts = ('validation', 'samples', 'steps')


class Passive(Engine):
    """Every batch is the script's own, and windows are offered about once a second.

    Where steps follow one another that take one batch of one loader each, which is nearly always, they take a short way (Steady), on which a step costs a
    few microseconds. Whatever else happens takes the long one.
    """

    careful = True

    def __init__(self, link):
        super().__init__(link, link.offer)
        self._due = 0
        self._gap = None
        self._window = None
        self._steady = None
        self._plain_steps = 0

    # The short way.

    def next(self, iteration, iterator):
        steady = self._steady
        if steady is not None and iteration is steady.iteration and not self._inside and get_ident() == steady.thread and (
                framework.current.gradients_enabled() or iteration.without_gradients):
            entered = now()
            if steady.by_request:
                steady.stepped(entered)
            return self._steady_next(steady, iterator, entered)
        return self._next(iteration, iterator)

    def _steady_next(self, steady, iterator, entered):
        if entered >= self._due:
            entered = self._offer_steady(entered)
        self._inside.add(steady.thread)
        try:
            batch = steady.iteration.fetch(iterator)
        except BaseException as error:
            self._inside.discard(steady.thread)
            self._leave()
            self._failed(steady.iteration, entered, error)
            raise
        self._inside.discard(steady.thread)
        try:
            steady.step(entered, now(), batch)
        except Exception as error:
            self.fault(error)
        return batch

    def optimizer_stepped(self):
        if self._steady is not None and get_ident() == self._steady.thread:
            self._steady.stepped(now())
        else:
            self._leave()
            super().optimizer_stepped()

    def optimizer_made(self):
        self._leave()

    def dropped(self, iteration):
        steady = self._steady
        if steady is None or steady.iteration is not iteration:
            super().dropped(iteration)
        elif steady.by_request and not iteration.ended:
            steady.stepped(now())

    def _offer_steady(self, entered):
        try:
            self._take(self._steady.begin)
            self._collect(self._steady.take(entered, self.world > 1))
            self._offer()
        except Exception as error:
            self.fault(error)
        return now()  # What sending took lies between windows.

    def _leave(self):
        """Back to the long way: the step that has begun goes on there."""
        steady, self._steady = self._steady, None
        if steady is None:
            return
        self._plain_steps = 0
        steady.iteration.record.served += steady.handed()
        try:
            self.clock.shortcut = None
            self._take(steady.begin)
            self._collect(steady.take_closed(self.world > 1))
            if steady.resume(self.clock):
                self.roles.resume(steady.iteration.record)
                self._asked[steady.iteration] = None
        except Exception as error:
            self.fault(error)

    def _may_be_steady(self, iteration):
        roles = self.roles
        return not self.apart and self._plain_steps > plain_before_steady and roles.training == [iteration.record] and roles.undoubted() and not self._inside

    # The long way.

    def created(self, iteration):
        self._leave()
        super().created(iteration)

    def _next(self, iteration, iterator):
        if self.nested():
            return iteration.fetch(iterator)
        self._leave()
        entered = now()
        record = iteration.record
        enabled = framework.current.gradients_enabled() or iteration.without_gradients
        training, primary = record.training and enabled, False
        try:
            if self.ends_step(iteration):
                self.step_over(entered)
                training = record.training and enabled
            primary = training and record is self.roles.primary and self.is_current(iteration)
            if primary:
                iteration.thread = get_ident()
                entered = self._begin(iteration, entered)
            else:
                self._plain_steps = 0
                if not training and self.roles.training:
                    self.clock.validation_entered(entered, iteration)
        except Exception as error:
            self.fault(error)
        if self._steady is not None:
            return self._steady_next(self._steady, iterator, entered)
        thread = get_ident()
        self._inside.add(thread)
        asked = now()
        try:
            batch = iteration.fetch(iterator)
        except BaseException as error:
            self._inside.discard(thread)
            self._failed(iteration, entered, error, primary, training)
            raise
        finally:
            self._inside.discard(thread)
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
                self.handed_out(iteration, enabled)
                samples = self._samples(iteration, batch) if self.roles.training else 0
                at = now()
                self.clock.validation_served(at, iteration, entered, served - asked, asked - entered + at - served, samples)
        except Exception as error:
            self.fault(error)
        return batch

    def _failed(self, iteration, entered, error, primary=True, training=True):
        if isinstance(error, StopIteration):
            self._ended(iteration, entered, primary, training)
        elif primary:
            try:
                self.clock.close(entered)  # The step before, if the short way was left for this.
                self.clock.cancel()
                self._take(entered)
            except Exception as fault:
                self.fault(fault)

    @staticmethod
    def _samples(iteration, batch):
        facts_of = iteration.record.facts
        record = iteration.record
        size, samples, batches = facts_of['batch_size'], facts_of['samples'], facts_of['batches']
        if size and record.leads is not True and samples and batches and iteration.handed == batches and not facts_of['drop_last']:
            return max(1, min(size, samples - size * (batches - 1)))
        return iteration.samples_of_last(batch)

    def _begin(self, iteration, entered):
        self.clock.close(entered)
        if not iteration.announced:
            iteration.announced = True
            gap, self.clock.gap = self.clock.gap, None
            if iteration.between is not None or gap is not None:
                self._gap = iteration.between or gap.report(entered)
        self._plain_steps += 1
        if self._may_be_steady(iteration):
            self._steady = Steady(iteration, entered, self.by_request(iteration.record))
            self.clock.shortcut = self._steady
            return entered
        if entered >= self._due and (self._window or len(self.clock)):
            self._take(entered)
            self._offer()
            entered = now()  # What sending took lies between windows.
        self.clock.open(entered)
        return entered

    def _take(self, end):
        self._collect(self.clock.take('full', end, self.world > 1))

    def _collect(self, window):
        """Appends steps that follow the ones before without a gap."""
        if window is None:
            return
        if self._window is None:
            self._window = window
            return
        for part, values in window.items():
            if isinstance(values, list):
                self._window[part] += values
        self._window['end'] = window['end']

    def _offer(self):
        if self.standstill is not None:
            self.standstill.check()
        window, self._window = self._window, None
        if window is not None:
            for part in equal_parts:
                values = window[part]
                if values.count(values[0]) == len(values):
                    window[part] = values[0]
            message = {'t': 'passive', 'window': window}
            if self._gap is not None:
                message['between'], self._gap = self._gap, None
            self.link.offer(message)
        self._due = now() + interval
        if self.link.lost:
            self.off = True

    def _ended(self, iteration, entered, primary, training):
        try:
            iteration.ended = True
            self.roles.ended(iteration.record)
            if primary:
                self.clock.close(entered)
                self.clock.cancel()
                self._take(entered)
                self._offer()
                self.clock.gap = Gap(entered)
                self.clock.gap.start = now() - entered
            elif not training:
                self.clock.validation_ended(now())
        except Exception as error:
            self.fault(error)

    def finish(self):
        """The process ends: what is left is offered."""
        self._leave()
        end = self.clock.cancel()
        if end is not None or self._window is not None:
            self._take(end or now())
            self._offer()
        return {}

    def failed(self, why, by_script):
        self.note('hook-failed', why)
        self.off = True
        self._steady = self.clock.shortcut = None
