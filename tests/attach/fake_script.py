"""A passive run without torch and without time: a script's calls of the hook, with a clock that only the script and its loaders move."""
import importlib
import importlib.util
import pathlib
import sys
import types

folder = pathlib.Path(__file__).resolve().parents[2] / 'python' / 'dsanalyze' / '_attach'


def hook():
    """The hook's modules as a package of this test's own, in which a script seems to train by PyTorch."""
    facts = types.ModuleType('fake_hook.facts')
    facts.device = lambda: {'t': 'device'}
    facts.raised_by_handler = lambda error: False
    spec = importlib.util.spec_from_file_location('fake_hook', folder / '__init__.py', submodule_search_locations=[str(folder)])
    package = sys.modules['fake_hook'] = importlib.util.module_from_spec(spec)
    package.facts = sys.modules['fake_hook.facts'] = facts
    return [importlib.import_module('fake_hook.' + name) for name in ('clock', 'engine', 'framework', 'iteration', 'passive')]


clocks, engines, frameworks, iterations, passives = hook()
divided = ('wait', 'compute', 'outside', 'validation', 'samples', 'steps', 'ranks', 'outside_ranks')


class Batch:
    def __init__(self, samples):
        self.shape = (samples, 8)


class Loader:
    """A DataLoader as the hook sees it. `lengths` are its batches' samples; asked for the one numbered `fails`, it raises an error."""

    def __init__(self, training, lengths, fails=None, marked=False, **facts):
        self.training = training
        self.lengths = lengths
        self.fails = fails
        self.trains = False
        known = {'style': 'map', 'batch_size': 4, 'samples': sum(lengths), 'batches': len(lengths), 'drop_last': False, 'file': 'train.py',
                 'line': training.line(), 'dataset_class': 'Data'}
        self.record = iterations.Record(dict(known, **facts), None, Iterator)
        self.record.marked = marked

    def __iter__(self):
        return Iterator(self)


class Iterator:
    def __init__(self, loader):
        self.loader = loader
        self.given = 0
        self.trains = False  # This pass is the training's.
        self.iteration = iterations.Iteration(loader.record, self)
        loader.training.engine.created(self.iteration)

    def __iter__(self):
        return self

    def __next__(self):
        return self.loader.training.engine.next(self.iteration, self)

    choose = None

    @staticmethod
    def lengths(iterator, facts_of, careful):
        return facts_of['samples'], facts_of['batches']

    def fetch(self):
        """Later batches take longer, so that no step is like another one."""
        loader = self.loader
        number, self.given = self.given, self.given + 1
        given = number < len(loader.lengths) and number != loader.fails
        if self.trains:
            loader.training.begins_step(loader.lengths[number] if given else None)
        loader.training.passes(1000 + number, 'wait' if loader.trains else 'validation')
        if number == loader.fails:
            raise ValueError('bad sample')
        if not given:
            raise StopIteration
        return [Batch(loader.lengths[number])]


class Training:
    """A script's calls of the hook, and the time at which they come. One at a time: the clock is the hook's only one.

    `events` are of each step its samples, and what it has spent its time on, in turn.
    """

    def __init__(self, world=1, interval=10**9, tick=0):
        self.at = 10**6
        self.tick = tick  # What reading the clock takes.
        self.messages = []
        self.common_steps = 0
        self.events = []
        self.step = None
        self.doing = 'work'
        passives.interval = interval
        passives.now = engines.now = self.now
        self.optimizer = True
        frameworks.use(types.SimpleNamespace(gradients_enabled=lambda: True, has_optimizer=lambda: self.optimizer, follow_ranks=lambda: None, training_is_known=lambda: None,
                                              gpus=lambda: ()))
        engines.facts.rank = lambda: {'rank': 0, 'world': world}
        link = types.SimpleNamespace(offer=self.messages.append, lost=False)
        self.engine = passives.Passive(link)

    @staticmethod
    def line():
        """Of the script, in which a loader is made."""
        return sys._getframe(2).f_lineno

    def now(self):
        self.at += self.tick
        return self.at

    def begins_step(self, samples):
        """Or none, where there is no further batch."""
        if self.step is not None and not self.optimizer:
            self.step.append(('optimizer', 0))
        self.step = None if samples is None else [('samples', samples)]
        if self.step:
            self.events.append(self.step)

    def passes(self, nanoseconds, what=None):
        self.at += nanoseconds
        self.happens(what or self.doing, nanoseconds)

    def happens(self, what, value=0):
        if self.step is not None:
            self.step.append((what, value))

    def waits_for_ranks(self, duration):
        self.engine.clock.waited_for_ranks(duration)
        self.happens('ranks', duration)

    def computes(self, optimizers=1):
        self.passes(5000)
        for _ in range(optimizers):
            self.engine.optimizer_stepped()
            self.happens('optimizer')
            self.passes(300)
        self.common_steps += self.is_common

    @property
    def is_common(self):
        return self.engine._common is not None

    def validates(self, loader):
        frameworks.current.gradients_enabled, self.doing = lambda: False, 'validation'
        for _ in loader:
            self.passes(700)
        frameworks.current.gradients_enabled, self.doing = lambda: True, 'work'

    def finish(self):
        self.engine.finish()

    @property
    def windows(self):
        return [message['window'] for message in self.messages if message['t'] == 'passive']

    def steps(self, parts=divided):
        """The parts of all steps, one tuple a step."""
        found = []
        for window in self.windows:
            count = len(window['wait'])
            found += zip(*(window[part] if isinstance(window[part], list) else [window[part]] * count for part in parts))
        return found


def expected(events):
    """One step's parts, by what has happened in it."""
    kinds = [kind for kind, _ in events]
    ends = [place for place, kind in enumerate(kinds) if kind == 'optimizer'] or [kinds.index('validation') if 'validation' in kinds else len(kinds)]
    first = min(place for place, kind in enumerate([*kinds, 'optimizer']) if kind in ('optimizer', 'validation'))

    def total(*what, begin=0, end=None):
        return sum(value for kind, value in events[begin:end] if kind in what)

    compute = total('work', end=ends[-1])
    outside = total('work', begin=ends[-1]) + total('validation')
    return (total('wait'), compute, outside, total('validation'), total('samples'), kinds.count('optimizer'), min(total('ranks', end=first), compute),
            min(total('ranks', begin=first), outside))


def taken(batches):
    """The iterator, which is the training's pass over its loader."""
    batches.trains = batches.loader.trains = True
    return batches


def train(training, loader, epochs=1, optimizers=lambda number: 1, after=lambda number: None, before=lambda number: None):
    for _ in range(epochs):
        for number, _ in enumerate(taken(iter(loader))):
            before(number)
            training.computes(optimizers(number))
            after(number)


def run(script, **named):
    training = Training(**named)
    script(training)
    training.finish()
    return training
