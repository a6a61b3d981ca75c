"""What phases and passive runs have in common: who trains, and what is said about it once."""
import os
import sys
from _thread import get_ident
from time import monotonic_ns as now

from . import facts, framework
from .clock import StepClock
from .roles import Roles
from .seen import Seen


class Engine:
    """send() takes a message that has no reply. The code that makes the engine sets rank."""
    careful = False  # Nothing of the script's own is called.

    def __init__(self, link, send):
        self.off = False
        self.clock = StepClock()
        self.roles = Roles()
        self.seen = Seen(send)
        self.link = link
        self.losses = []
        self.standstill = None
        self.spent = None
        self.rank = {}
        self.world = 1
        self.send = send
        self._said = set()
        self._loaders = 0
        self._inside = set()  # Threads that are inside of an iterator's own __next__.
        self._thread_known = False
        self.apart = False  # Batches are fetched in another thread than optimizers step in.
        self._asked = {}  # Passes with gradients enabled, since the last optimizer step.
        self._quiet = None  # The pass asked last with gradients disabled, since then.
        self._quiet_before = None  # The same before the step before, where no other pass was asked.

    def nested(self):
        """Whether this thread is inside of an iterator's own __next__: a dataset that has a loader of its own."""
        return get_ident() in self._inside

    def fault(self, error):
        """The hook failed, and follows no further. What a signal handler of the script raised meanwhile goes on to the script, as it would without the hook."""
        by_script = facts.raised_by_handler(error)
        self.failed('{}: {}'.format(type(error).__name__, error), by_script)
        if by_script:
            raise error

    def goes_on(self):
        """The script makes an iterator or asks for a batch, though the hook is off."""

    def created(self, iteration):
        """A new iterator, or a new epoch of a persistent one."""
        self.clock.renewed(iteration)
        if not iteration.aside():
            iteration.record.current = iteration

    def is_current(self, iteration):
        """Whether this pass over its loader is the epoch, and not one beside it."""
        record = iteration.record
        if record.current is not iteration and not iteration.aside():
            record.current = iteration
        return record.current is iteration

    def handed_out(self, iteration, enabled):
        """A batch was handed out; `enabled` says whether it may train."""
        if self.roles.primary is None:
            self.seen.batch(iteration.record, enabled)
        if enabled:
            self.asked(iteration)
        else:
            self._quiet = iteration  # Mostly for a validation.

    def backward_passed(self):
        if self.roles.primary is None:
            self.seen.backward()

    def asked(self, iteration):
        """A batch was handed out, with gradients enabled unless the pass is known to train all the same."""
        iteration.record.served += 1
        if iteration.record.current is iteration:
            self.roles.served(iteration.record)
        self._asked[iteration] = None

    def _prove(self):
        """An optimizer has stepped: a pass that alone of its loader's gave it batches is the epoch, whichever iterator is still kept somewhere.

        Returns the passes on whose batches it stepped.
        """
        self._prove_quiet()
        asked, self._asked = self._asked, {}
        for iteration in asked:
            iteration.stepped = True
            if iteration.record.current not in asked:
                iteration.record.current = iteration
        return asked

    def _prove_quiet(self):
        """Where two steps follow batches of one pass with gradients disabled, and no others, it trains; one such step will do for a later pass."""
        quiet, self._quiet = self._quiet, None
        if self._asked or (quiet is not None and quiet.ended):
            self._quiet_before = None
        elif quiet is not None and (quiet.record.without_gradients or quiet is self._quiet_before):
            quiet.without_gradients = quiet.record.without_gradients = True
            quiet.record.current = quiet
            self.asked(quiet)
        elif quiet is not None:
            self._quiet_before = quiet

    def started(self, iteration, duration):
        """The script has waited this long for the workers of a new epoch to start."""
        if not iteration.record.training:
            iteration.start += duration
        elif self.clock.gap is not None:
            self.clock.gap.start += duration
        elif iteration.record.current is iteration:
            self.clock.started(duration)

    def optimizer_stepped(self):
        at = now()
        if self.spent is not None and self.spent.thread is None:
            self.spent.thread = get_ident()
        if self.roles.primary is None:
            self.seen.optimizer_step()
        self.step_over(at)
        self.clock.hooked_after(now() - at)

    # Where no optimizer says what a step is: passes through the script's loop over a loader that it has marked by dsanalyze.watch().

    @staticmethod
    def by_request(record):
        return record.marked and not framework.current.has_optimizer()

    def ends_step(self, iteration):
        """Whether the request for the next batch of this pass ends a training step. A pass over another loader within the training's, or beside it, is a
        validation; so is one of fewer batches after it."""
        record, primary = iteration.record, self.roles.primary
        if iteration not in self._asked or not self.by_request(record):
            return False
        if primary is not None and record.current is not iteration and record.current in self._asked:
            return False
        return primary in (None, record) or record.stands_for(primary) or (self.roles.over(primary) and record.served > primary.served)

    def dropped(self, iteration):
        """The script has dropped the iterator of this pass, and so left its loop within a step."""
        if not iteration.ended and iteration.record is self.roles.primary and self.ends_step(iteration):
            self.step_over(now())

    def optimizer_made(self):
        """From now on, its steps are the training's."""

    def step_over(self, at):
        """A training step has ended: an optimizer has stepped, or the script asks for the next batch where that ends a step."""
        asked = self._prove()
        found = self.roles.stepped()
        self._settle([iteration for iteration in asked if not iteration.ended])
        if self.clock.running:
            self.clock.stepped_at(at)
        for record in found:
            self._introduce(record)
        if not self._thread_known and self.roles.primary is not None:
            self._follow_thread(self.roles.primary)

    def _follow_thread(self, primary):
        fetching, training = primary.current.thread, get_ident()
        if self.by_request(primary):
            threads = sys.modules.get('threading')
            training = threads.main_thread().ident if threads is not None else training
        self._thread_known = fetching is not None
        if fetching not in (None, training):
            self.apart = True
            self.note('loader-in-thread', 'The script fetches its batches in another thread than it trains in: what its steps wait for is not seen, and the parts of a step are not told.')

    def _settle(self, asked):
        """What was taken for a validation, and is now known to have given the optimizer its batches, was none."""
        for iteration in asked:
            if iteration.record is self.roles.primary:
                between = self.clock.trained(iteration, [other for other in asked if other is not iteration])
                iteration.between = between or iteration.between
        for iteration in asked:
            if iteration.record.training:
                self.clock.joined(iteration)
        self.clock.forget_doubts()

    def _introduce(self, record):
        """A loader is now known to train, or to be the primary one."""
        number = record.id
        if number is None:
            if not self._loaders:
                self.tell_rank()
                self.send(facts.device())
            number = self._loaders
            self._loaders += 1
            iterator = record.current.iterator() if record.current is not None else None
            if iterator is not None:
                record.facts['samples'], record.facts['batches'] = record.kind.lengths(iterator, record.facts, self.careful)
        self.send(dict(record.facts, t='loader', id=number, primary=record is self.roles.primary, made_anew=record.made_anew))
        record.id = number
        if record.goes_on:
            self.note('stream-goes-on', 'What is watched is its own iterator, and no second pass can be begun beside it: its rate alone was measured on the batches that '
                      'follow, whether they came from memory or from storage.')

    def tell_rank(self):
        """A script may initialise the library's ranks long after it has imported the library."""
        rank = facts.rank()
        self.world = rank['world']
        if self.world > 1:
            framework.current.follow_ranks()
        if rank != self.rank:
            self.rank = rank
            self.send(dict(rank, t='rank', pid=os.getpid()))

    def note(self, code, text, **more):
        if code not in self._said:
            self._said.add(code)
            self.send(dict(more, t='note', code=code, text=text))

    def finish(self):
        """The process ends by itself: returns what its last message carries."""
        return {}
