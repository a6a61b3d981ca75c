"""What phases and passive runs have in common: who trains, and what is said about it once."""
import os
import sys
from _thread import get_ident
from time import monotonic_ns as now

from . import facts, framework
from .clock import Common, StepClock
from .roles import Roles
from .seen import Seen

primary, follower, other = 'primary', 'follower', 'other'  # What a batch is for: a step, the same one, a validation.


class Engine:
    """Stands before each __next__ of the script's iterators. send() takes a message that has no reply. The code that makes the engine sets rank."""
    careful = False  # Nothing of the script's own is called.

    def __init__(self, link, send):
        self.off = False
        self.clock = StepClock()
        self.roles = Roles()
        self.seen = Seen(send)
        self.link = link
        self.spent = None
        self.rank = {}
        self.world = 1
        self.send = send
        self._said = set()
        self._introduced = False  # A loader, to the launcher.
        self._inside = set()  # Threads that are inside of an iterator's own __next__.
        self._thread_known = False
        self.apart = False  # Batches are fetched in another thread than optimizers step in.
        self._asked = {}  # Passes with gradients enabled, since the last optimizer step.
        self._common = None
        self._steps = 0  # Batches of primary loaders.
        self.optimizer_steps = 0

    # A request for a batch.

    def next(self, iteration, iterator):
        if self.off:
            iteration.lists = None
            self.goes_on()
            return iteration.fetch(iterator)
        common = self._common
        if common is not None and iteration is common.iteration and not self._inside and get_ident() == common.thread and framework.current.gradients_enabled():
            entered = 0 if common.counts else now()
            if common.by_request:
                self.clock.marks.append(-entered)
            if not self.is_due(entered):
                return self._next_common(common, iterator, entered)
            self._leave(to_go_on=False)
        return self._next_plain(iteration, iterator)

    def is_due(self, at):
        """Whether something else than a step follows."""
        raise NotImplementedError

    def fetch(self, iteration, iterator, role):
        """The batch itself."""
        return iteration.fetch(iterator)

    def source(self, iteration):
        """For common steps: what fetches the batches, and what says how many samples the last one has (None: the sampler, else the iteration). Nothing changes
        these before something else happens."""
        return iteration.fetch, None

    def begin(self, iteration, entered):
        """A step begins with this request: returns its role, and when it began."""
        raise NotImplementedError

    def ended(self, iteration, entered, role):
        """The pass has no further batch."""
        raise NotImplementedError

    def _next_common(self, common, iterator, entered):
        self._inside.add(common.thread)
        try:
            batch = common.fetch(iterator)
        except BaseException as error:
            self._inside.discard(common.thread)
            self._leave()
            self._failed(common.iteration, entered or now(), primary, error)
            raise
        self._inside.discard(common.thread)
        try:
            clock = self.clock
            if self._common is not common:  # Something else has happened meanwhile, in another thread.
                there = now()
                self._served(common.iteration, batch, primary, entered or there, there)
                return batch
            if common.counts:
                common.stepped = False
            else:
                clock.marks += entered, now()
            common.iteration.handed += 1
            clock.samples.append(common.samples_of(batch) if common.sizes is None else next(common.sizes))
        except Exception as error:
            self.fault(error)
        return batch

    def _next_plain(self, iteration, iterator):
        if self.nested():
            iteration.lists = None
            return iteration.fetch(iterator)
        thread = get_ident()
        entered, role = now(), other
        self._inside.add(thread)  # A dataset may have loaders of its own, and batches are fetched in here, too.
        try:
            self._leave()
            role, entered = self._enter(iteration, iterator, entered)
        except Exception as error:
            self.fault(error)
        finally:
            self._inside.discard(thread)
        self._inside.add(thread)
        asked = now()
        try:
            batch = self.fetch(iteration, iterator, role)
        except BaseException as error:
            self._inside.discard(thread)
            self._failed(iteration, entered, role, error)
            raise
        self._inside.discard(thread)
        try:
            self._served(iteration, batch, role, asked, now())
        except Exception as error:
            self.fault(error)
        return batch

    def _enter(self, iteration, iterator, entered):
        """What the batch is for, and when its step began."""
        record = iteration.record
        if self.ends_step(iteration):
            self.step_over(entered)
        trains = framework.current.gradients_enabled()
        old = self.made_in_place_of(iteration, iterator) if trains else None
        if old is not None:
            self.renew(record, old)
            self.started(iteration, iteration.start)
        # Where a thread of its own fetches the batches, the one that trains may be about to introduce their loader.
        if trains and record.training and record.introduced:
            current = self.is_current(iteration)
            if current and record is self.roles.primary:
                iteration.thread = get_ident()
                self.clock.validation_ended()
                return self.begin(iteration, entered)
            self.follows(iteration, iterator, current, entered)
            return follower, entered
        if self.roles.training:
            entered = self.before_validation(iteration, iterator, entered)
            self.clock.validation_entered(entered)
        return other, entered

    def follows(self, iteration, iterator, current, entered):
        """A further training loader is asked within a step."""

    def before_validation(self, iteration, iterator, entered):
        """A batch is asked for that trains nothing, as far as is known: returns when."""
        return entered

    def _served(self, iteration, batch, role, asked, served):
        iteration.handed += 1
        samples = self.samples(iteration, batch, role)
        self.handed_out(iteration, framework.current.gradients_enabled())
        if role is primary:
            self._steps += 1
            if self.spent is not None:
                self.spent.trained()
            self.clock.served(asked, served, samples)
            if self._becomes_common(iteration):
                counts = self.clock.counts and len(self.clock.samples) == 1
                self.clock.counted |= counts
                self._common = Common(iteration, self.by_request(iteration.record), counts, *self.source(iteration))
        elif role is follower:
            self.clock.followed(served - asked)
        else:
            self.clock.validation_served(served)
            if self.spent is not None and self.roles.primary is not None:
                self.spent.looped(iteration, asked, served, served - asked)

    def samples(self, iteration, batch, role):
        return iteration.samples_of_last(batch)

    def _failed(self, iteration, entered, role, error):
        try:
            if not isinstance(error, StopIteration):
                iteration.list_taken()
                if role is primary:
                    self.clock.close(entered)
                return
            iteration.ended = True
            self.roles.ended(iteration.record)
            self.ended(iteration, entered, role)
        except Exception as fault:
            self.fault(fault)

    def _becomes_common(self, iteration):
        roles = self.roles
        return not self.off and self._thread_known and not self.apart and iteration.announced and roles.training == [iteration.record] and roles.undoubted()

    def _leave(self, to_go_on=True):
        """Something else happens than common steps, within a window or at its end."""
        common, self._common = self._common, None
        if common is None:
            return
        iteration = common.iteration
        handed = iteration.handed - common.handed_before
        iteration.record.served += handed
        self._steps += handed
        if common.counts and to_go_on:
            self.clock.clock_again(now(), common.stepped)
        goes_on = self.clock.running and not (common.stepped if common.counts else self.clock.stepped)
        self.roles.resume(iteration.record, goes_on)
        self._asked = {iteration: None} if goes_on else {}

    # Who trains.

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
        self._leave()
        if not iteration.aside():
            iteration.record.current = iteration

    def renewed(self, iteration):
        """A persistent iterator begins a new epoch."""
        self._leave()
        iteration.renew()
        self.created(iteration)

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

    def backward_passed(self):
        if self.roles.primary is None:
            self.seen.backward()

    def asked(self, iteration):
        """A batch was handed out, with gradients enabled."""
        iteration.record.served += 1
        if iteration.record.current is iteration:
            self.roles.served(iteration.record)
        self._asked[iteration] = None

    def _prove(self):
        """An optimizer has stepped: a pass that alone of its loader's gave it batches is the epoch, whichever iterator is still kept somewhere."""
        asked, self._asked = self._asked, {}
        for iteration in asked:
            iteration.stepped = True
            if iteration.record.current not in asked:
                iteration.record.current = iteration

    def started(self, iteration, duration):
        """The script has waited this long for the workers of a new epoch to start."""
        if not iteration.record.training:
            iteration.start += duration
        elif self.clock.gap is not None:
            self.clock.gap.start += duration
        elif iteration.record.current is iteration:
            self.clock.started(duration)

    def optimizer_stepped(self):
        self.optimizer_steps += 1
        if self._common is not None and get_ident() == self._common.thread:
            if self._common.counts:
                self._common.stepped = True
            else:
                self.clock.marks.append(-now())
            return
        at = now()
        self._leave()
        if self.spent is not None and self.spent.thread is None:
            self.spent.thread = get_ident()
        if self.roles.primary is None:
            self.seen.optimizer_step()
        self.step_over(at)

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
        self._leave()
        if not iteration.ended and iteration.record is self.roles.primary and self.ends_step(iteration):
            self.step_over(now())

    def optimizer_made(self):
        """From now on, its steps are the training's."""
        self._leave()

    def step_skipped(self):
        """A GradScaler left out the optimizer's step."""
        if self.clock.running:
            self.clock.skipped += 1

    def step_over(self, at):
        """A training step has ended: an optimizer has stepped, or the script asks for the next batch where that ends a step."""
        self._prove()
        found = self.roles.stepped()
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

    def made_in_place_of(self, iteration, iterator):
        """The loader whose epoch is over, and in place of which the script has made this one, which so trains from its first batch on; or None."""
        record = iteration.record
        if record.training or iteration.handed:
            return None
        old = next((old for old in self.roles.training if self.roles.over(old) and record.stands_for(old)), None)
        if old is None:
            return None
        record.facts['samples'], record.facts['batches'] = record.kind.lengths(iterator, record.facts, self.careful)
        return old if record.facts == old.facts else None

    def renew(self, record, old):
        self.roles.renew(record, old)
        record.made_anew = True
        self._introduce(record)

    def _introduce(self, record):
        """A loader is now known to train, or to be the primary one."""
        if not record.introduced:
            if not self._introduced:
                self._introduced = True
                self.tell_rank()
                framework.current.training_is_known()
                self.send(facts.device())
            iterator = record.current.iterator() if record.current is not None else None
            if iterator is not None:
                record.facts['samples'], record.facts['batches'] = record.kind.lengths(iterator, record.facts, self.careful)
        if record is self.roles.primary:
            self.send(dict(record.facts, t='loader', made_anew=record.made_anew))
        record.introduced = True
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
