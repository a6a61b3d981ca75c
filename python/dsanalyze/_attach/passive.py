"""A real training run: only clocks are read, and the launcher is never waited for."""
from time import monotonic_ns as now

from .clock import Gap
from .engine import Engine, primary, other

interval = 1000000000
# Sent as one number where every step has the same.
equal_parts = ('validation', 'samples', 'steps')


class Passive(Engine):
    """Every batch is the script's own, and windows are offered about once a second."""

    careful = True

    def __init__(self, link):
        super().__init__(link, link.offer)
        self._due = 0
        self._gap = None

    def is_due(self, at):
        return at >= self._due

    def begin(self, iteration, entered):
        if not iteration.announced:
            iteration.announced = True
            gap, self.clock.gap = self.clock.gap, None
            if gap is not None:
                self._gap = gap.report(entered)
        if self.is_due(entered) and self.clock.marks:
            self._offer(entered)
        return primary, entered

    def samples(self, iteration, batch, role):
        if not self.roles.training:
            iteration.list_taken()
            return 0
        facts_of = iteration.record.facts
        record = iteration.record
        size, samples, batches = facts_of['batch_size'], facts_of['samples'], facts_of['batches']
        if size and record.leads is not True and samples and batches and iteration.handed == batches and not facts_of['drop_last']:
            return max(1, min(size, samples - size * (batches - 1)))
        return iteration.samples_of_last(batch)

    def _offer(self, end=None):
        window = self.clock.take(self.world > 1, end)
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

    def ended(self, iteration, entered, role):
        if role is primary:
            self._offer(entered)
            self.clock.gap = Gap(entered)
            self.clock.gap.start = now() - entered
        elif role is other:
            self.clock.validation_ended(now())

    def finish(self):
        """The process ends: what is left is offered."""
        self._offer()
        return {}

    def failed(self, why, by_script):
        self.note('hook-failed', why)
        self.off = True
        self._common = None
