"""A passive run without torch and without time: a script's calls of the hook, with a clock that only the script and its loaders move."""
import importlib
import importlib.util
import math
import pathlib
import sys
import types

folder = pathlib.Path(__file__).resolve().parents[2] / 'python' / 'dsanalyze' / '_attach'


def hook():
    """The hook's modules as a package of this test's own, in which a script seems to train by PyTorch."""
    facts = types.ModuleType('steady_hook.facts')
    facts.device = lambda: {'t': 'device'}
    facts.raised_by_handler = lambda error: False
    spec = importlib.util.spec_from_file_location('steady_hook', folder / '__init__.py', submodule_search_locations=[str(folder)])
    package = sys.modules['steady_hook'] = importlib.util.module_from_spec(spec)
    package.facts = sys.modules['steady_hook.facts'] = facts
    return [importlib.import_module('steady_hook.' + name) for name in ('clock', 'engine', 'framework', 'iteration', 'passive', 'steady')]


clocks, engines, frameworks, iterations, passives, steadies = hook()
divided = ('wait', 'compute', 'outside', 'validation', 'hook', 'samples', 'steps')


class Batch:
    def __init__(self, samples):
        self.shape = (samples, 8)


class Loader:
    """A DataLoader as the hook sees it. `lengths` are its batches' samples; asked for the one numbered `fails`, it raises an error."""

    def __init__(self, training, lengths, fails=None, marked=False, **facts):
        self.training = training
        self.lengths = lengths
        self.fails = fails
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
        loader.training.passes(1000 + number)
        if number == loader.fails:
            raise ValueError('bad sample')
        if number >= len(loader.lengths):
            raise StopIteration
        return [Batch(loader.lengths[number])]


class Training:
    """A script's calls of the hook, and the time at which they come. One at a time: the clock is the hook's only one."""

    def __init__(self, short=True, world=1, interval=10**9, tick=0):
        self.at = 10**6
        self.tick = tick  # What reading the clock takes.
        self.messages = []
        self.most_marks = 0  # Seen on the short way.
        engines.plain_before_steady = 4 if short else math.inf
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

    def passes(self, nanoseconds):
        self.at += nanoseconds

    def computes(self, optimizers=1):
        self.passes(5000)
        for _ in range(optimizers):
            self.engine.optimizer_stepped()
            self.passes(300)
        if self.on_short_way:
            self.most_marks = max(self.most_marks, len(self.engine._steady.marks))

    @property
    def on_short_way(self):
        return self.engine._steady is not None

    def validates(self, loader):
        frameworks.current.gradients_enabled = lambda: False
        for _ in loader:
            self.passes(700)
        frameworks.current.gradients_enabled = lambda: True

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


def train(training, loader, epochs=1, optimizers=lambda number: 1, after=lambda number: None, before=lambda number: None):
    for _ in range(epochs):
        for number, _ in enumerate(loader):
            before(number)
            training.computes(optimizers(number))
            after(number)


def run(script, *arguments, **named):
    training = Training(*arguments, **named)
    script(training)
    training.finish()
    return training
