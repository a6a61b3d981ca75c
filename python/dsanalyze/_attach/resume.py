"""`dsanalyze verify-resume -- COMMAND`: the first loader of a script that has a state is stopped and resumed in place of the training."""
import copy
import functools
import inspect
import json
import os
import random
import sys
import time
import traceback
import weakref

_most_indices = 4096  # Of a map-style dataset whose order the loader draws itself: more tell nothing new.
_made = {}  # By a loader's id: a reference to it, its class, and what it was made with.
_passed = []  # Classes of loaders without a state that were iterated.
_script_seed = None  # Of torch.manual_seed(), which a script that is started again calls again.
_busy = False


class Indices:
    """Stands for a map-style dataset: its samples are their own numbers, so that nothing is read or decoded."""

    def __init__(self, length):
        self._length = length

    def __len__(self):
        return self._length

    def __getitem__(self, index):
        return list(index) if isinstance(index, (list, tuple)) else index

    def __getitems__(self, indices):
        return list(indices)


def _as_list(batch):
    return batch


def _samples(batch):
    return [str(index) for index in batch] if isinstance(batch, (list, tuple)) else [str(batch)]


def install():
    """Every DataLoader, of whatever class, remembers what it was made with. Called once, after PyTorch's DataLoader was imported."""
    import torch
    from torch.utils.data.dataloader import DataLoader
    _remember(DataLoader)
    _watch_training(torch)


def install_own(module):
    """The same for dsanalyze.Loader, whose module was imported, with PyTorch or without."""
    _remember(module.Loader)


def _remember(base):
    def make(cls, *args, **kwargs):
        made = object.__new__(cls)
        _watch_passes(cls)
        _made[id(made)] = (weakref.ref(made), cls, args, kwargs)
        return made

    base.__new__ = staticmethod(make)


def _made_with(loader):
    found = _made.get(id(loader))
    return found[1:] if found is not None and found[0]() is loader else None


def _watch_passes(cls):
    """The first pass over a loader that has a state is the proof."""
    if '_dsanalyze_resume' in vars(cls):
        return
    passes = cls.__iter__
    has_state = callable(getattr(cls, 'state_dict', None)) and callable(getattr(cls, 'load_state_dict', None))

    def begin(loader):
        if not _busy and _made_with(loader) is not None and _in_charge():
            if has_state:
                _prove(loader)
            _passed.append(_name(loader))
        return passes(loader)

    cls._dsanalyze_resume = True
    cls.__iter__ = begin


def _watch_training(torch):
    """A step of an optimizer before any proof: the script trains on what has no state, or none that was seen. A seed of the script's own is kept."""
    initialise = torch.optim.Optimizer.__init__

    @functools.wraps(initialise)
    def initialised(optimizer, *args, **kwargs):
        cls = type(optimizer)
        if '_dsanalyze_resume' not in vars(cls) and callable(getattr(cls, 'step', None)):
            step = cls.step

            @functools.wraps(step)
            def stepped(*args, **kwargs):
                if not _busy and _in_charge():
                    _answer({'loader': _passed[-1] if _passed else 'unknown',
                             'error': 'the training took a step before a loader with a state was iterated: verify-resume needs one with state_dict() and load_state_dict() that derives '
                                      'from PyTorch\'s DataLoader, or dsanalyze.Loader; for any other call dsanalyze.verify_resume() in Python'})
                return step(*args, **kwargs)

            cls._dsanalyze_resume = True
            cls.step = stepped
        initialise(optimizer, *args, **kwargs)

    torch.optim.Optimizer.__init__ = initialised
    seed = torch.manual_seed

    @functools.wraps(seed)
    def seeded(value):
        global _script_seed
        if not _busy:
            _script_seed = value
        return seed(value)

    torch.manual_seed = torch.random.manual_seed = seeded


def _in_charge():
    """Of the processes that train the first rank's proves: a worker does not, and other ranks' loaders are made alike."""
    data = sys.modules.get('torch.utils.data')
    if data is not None and data.get_worker_info() is not None:
        return False
    for name in ('RANK', 'SLURM_PROCID', 'OMPI_COMM_WORLD_RANK'):
        if os.environ.get(name, '0') != '0':
            _wait_for_the_end()
    return True


def _wait_for_the_end():
    """Another process proves; the launcher, or its guardian, ends this one."""
    while True:
        time.sleep(60)


def _module():
    from importlib.util import module_from_spec, spec_from_file_location
    spec = spec_from_file_location('_dsanalyze_resume', os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), '_resume.py'))
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _name(value):
    return '{}.{}'.format(type(value).__module__, type(value).__qualname__)


def _is_map_style(cls, dataset):
    data = sys.modules.get('torch.utils.data')
    return data is not None and issubclass(cls, data.DataLoader) and not isinstance(dataset, data.IterableDataset) and hasattr(dataset, '__getitem__') and hasattr(dataset, '__len__') and not callable(getattr(dataset, 'state_dict', None))


class _Recipe:
    """How the script's loader is made anew, with the script's own dataset or with its indices."""

    def __init__(self, loader, by_indices, seed):
        self._torch, self._seed, self._makes = sys.modules.get('torch'), seed, 0
        self.cls, args, kwargs = _made_with(loader)
        signature = inspect.signature(self.cls.__init__)
        self._bound = bound = signature.bind(None, *args, **kwargs)
        self._open = next((name for name, each in signature.parameters.items() if each.kind is each.VAR_KEYWORD), None)
        self._names = signature.parameters
        self.takes_workers = self._takes('num_workers')
        self.own_workers = self._given('num_workers', 0)
        dataset = self._given('dataset')
        self.by_indices = by_indices and dataset is not None and _is_map_style(self.cls, dataset)
        self.dataset = dataset if self._takes('dataset') else None
        shared = {}  # What copies of samplers do not copy once more.
        if self.by_indices:
            own_order = self._given('sampler') is None and self._given('batch_sampler') is None
            stand_in = Indices(min(len(dataset), _most_indices) if own_order else len(dataset))
            shared[id(dataset)] = stand_in
            self._give(bound, 'dataset', stand_in)
            if self._takes('collate_fn'):
                self._give(bound, 'collate_fn', _as_list)
        elif dataset is not None and _is_map_style(self.cls, dataset):
            shared[id(dataset)] = dataset
        self._shared = shared
        # Copied while nothing has been taken of it: samplers and generators, and datasets that have a place of their own.
        self._pristine = self._copy(bound.arguments)
        self._random = random.getstate()
        self._numpy = sys.modules['numpy'].random.get_state() if 'numpy' in sys.modules else None

    def _takes(self, name):
        return name in self._names or self._open is not None and self._torch is not None and issubclass(self.cls, self._torch.utils.data.DataLoader)

    def _given(self, name, otherwise=None):
        if name in self._bound.arguments:
            return self._bound.arguments[name]
        return self._bound.arguments.get(self._open, {}).get(name, otherwise) if self._open else otherwise

    def _give(self, bound, name, value):
        if name in self._names:
            bound.arguments[name] = value
        else:
            bound.arguments[self._open] = {**bound.arguments.get(self._open, {}), name: value}

    def _copy(self, arguments):
        copied = {}
        for name, value in arguments.items():
            try:
                copied[name] = copy.deepcopy(value, dict(self._shared))
            except Exception:  # A handle, a lock: the one object serves all loaders.
                copied[name] = value
        return copied

    def make(self, workers):
        # A script that is started again draws other numbers, unless it seeds PyTorch itself.
        self._makes += 1
        if self._torch is not None:
            self._torch.manual_seed(_script_seed if _script_seed is not None else 1000003 * self._seed + self._makes)
        random.setstate(self._random)
        if self._numpy is not None:
            sys.modules['numpy'].random.set_state(self._numpy)
        bound = inspect.BoundArguments(self._bound.signature, type(self._bound.arguments)())
        bound.arguments.update(self._copy(self._pristine))
        if self.takes_workers:
            self._give(bound, 'num_workers', workers)
            if workers == 0:
                for name in ('prefetch_factor', 'persistent_workers', 'timeout', 'multiprocessing_context'):
                    bound.arguments.pop(name, None)
                    if self._open:
                        bound.arguments[self._open] = {key: value for key, value in bound.arguments.get(self._open, {}).items() if key != name}
        return self.cls(*bound.args[1:], **bound.kwargs)


def _described(error):
    """The error in a line, and where it was raised where it says nothing."""
    lines = str(error).strip().splitlines()
    text = '{}: {}'.format(type(error).__name__, lines[-1] if lines else '')
    if lines:
        return text
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return '{}{}:{}: {}'.format(text, os.path.basename(frame.filename), frame.lineno, frame.line)


def _proof(recipe, options):
    """The report, the numbers of workers, and why these are not those that were wanted, where the loader goes on with its own alone."""
    settings = {'epochs': options['epochs'], 'runs': options['runs'], 'stops': options['stops'], 'seed': options['seed'], 'identify': _samples if recipe.by_indices else None}
    verify = _module().verify_resume
    if not recipe.takes_workers:
        return verify(lambda: recipe.make(0), **settings), [], None
    wanted = options['workers'] or [recipe.own_workers, 2, recipe.own_workers, 1]
    try:
        return verify(recipe.make, workers=wanted, **settings), wanted, None
    except Exception as error:
        if options['workers'] or recipe.own_workers < 0:
            raise
        refused = error
    return verify(recipe.make, workers=[recipe.own_workers], **settings), [recipe.own_workers], _described(refused)


def _answer(found):
    """Writes what was found, once, and ends the process: the training is not wanted."""
    place = os.environ['DSANALYZE_ATTACH'] + '.resume'
    part = '{}.{}'.format(place, os.getpid())
    try:
        with open(part, 'w') as file:
            json.dump(found, file)
        os.rename(part, place)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(1 if 'error' in found else 0)


def _prove(loader):
    global _busy
    _busy = True
    try:  # Of several processes that have such a loader one proves.
        os.close(os.open(os.environ['DSANALYZE_ATTACH'] + '.proving', os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        _wait_for_the_end()
    found = {'loader': _name(loader)}
    try:
        options = json.loads(os.environ['DSANALYZE_RESUME'])
        recipe = _Recipe(loader, True, options['seed'])
        try:
            report, workers, refused = _proof(recipe, options)
        except Exception:
            if not recipe.by_indices:
                raise
            recipe = _Recipe(loader, False, options['seed'])  # What it is made of needs the dataset itself.
            report, workers, refused = _proof(recipe, options)
        if recipe.dataset is not None and not isinstance(recipe.dataset, str):
            found['dataset_class'] = _name(recipe.dataset)
        found['by'] = 'indices' if recipe.by_indices else 'values'
        found['workers'] = workers
        if refused:
            found['refused'] = refused
        found.update(runs=report.runs, stops=report.stops, samples=report.samples, lost=report.lost, repeated=report.repeated, same_order=report.same_order)
        if report.fault is not None:
            fault = report.fault
            found['fault'] = {'what': fault.what, 'sample': str(fault.sample)[:500], 'epoch': fault.epoch, 'run': fault.run, 'stops': [float(stop) for stop in fault.stops]}
    except BaseException as error:
        found['error'] = _described(error)[:2000]
    _answer(found)
