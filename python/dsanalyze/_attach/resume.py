"""`dsanalyze verify-resume -- COMMAND`: the first loader of a script that has a state is stopped and resumed in place of the training."""
import copy
import inspect
import json
import os
import random
import sys
import weakref

_most_indices = 4096  # Of a map-style dataset whose order the loader draws itself: more tell nothing new.
_made = weakref.WeakKeyDictionary()  # Loader: its class, and what it was made with.
_busy = False


class Indices:
    """Stands for a map-style dataset: its samples are their own numbers, so that nothing is read or decoded."""

    def __init__(self, length):
        self._length = length

    def __len__(self):
        return self._length

    def __getitem__(self, index):
        return int(index)

    def __getitems__(self, indices):
        return [int(index) for index in indices]


def _as_list(batch):
    return list(batch)


def install():
    """Every DataLoader, of whatever class, remembers what it was made with. Called once, after PyTorch's DataLoader was imported."""
    from torch.utils.data.dataloader import DataLoader
    _remember(DataLoader)
    loader = sys.modules.get('dsanalyze._loader')
    if loader is not None:
        _remember(loader.Loader)
    else:
        sys.meta_path.insert(0, _OwnLoader())


class _OwnLoader:
    """Notices when a script imports dsanalyze.Loader."""

    def find_spec(self, name, path=None, target=None):
        if name != 'dsanalyze._loader':
            return None
        sys.meta_path.remove(self)
        from importlib.util import find_spec
        spec = find_spec(name)
        execute = spec.loader.exec_module

        def executed(module):
            execute(module)
            _remember(module.Loader)

        spec.loader.exec_module = executed
        return spec


def _remember(base):
    def make(cls, *args, **kwargs):
        made = object.__new__(cls)
        _watch_passes(cls)
        _made[made] = (cls, args, kwargs)
        return made

    base.__new__ = staticmethod(make)


def _watch_passes(cls):
    """The first pass over a loader of that class is the proof."""
    if not (callable(getattr(cls, 'state_dict', None)) and callable(getattr(cls, 'load_state_dict', None))) or '_dsanalyze_resume' in vars(cls):
        return
    passes = cls.__iter__

    def begin(loader):
        if not _busy and loader in _made and _first_process():
            _prove(loader)
        return passes(loader)

    cls._dsanalyze_resume = True
    cls.__iter__ = begin


def _first_process():
    """The main process of the first rank: workers are made by it, and other ranks' loaders are made alike."""
    import multiprocessing
    if multiprocessing.parent_process() is not None:
        return False
    for name in ('RANK', 'SLURM_PROCID', 'OMPI_COMM_WORLD_RANK'):
        if os.environ.get(name, '0') != '0':
            import time
            time.sleep(3600)  # The launcher ends this rank once the first one has told what it found.
    return True


def _module():
    from importlib.util import module_from_spec, spec_from_file_location
    spec = spec_from_file_location('_dsanalyze_resume', os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), '_resume.py'))
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _is_map_style(cls, dataset):
    from torch.utils.data import DataLoader, IterableDataset
    return issubclass(cls, DataLoader) and not isinstance(dataset, IterableDataset) and hasattr(dataset, '__getitem__') and hasattr(dataset, '__len__') and not callable(getattr(dataset, 'state_dict', None))


class _Recipe:
    """How the script's loader is made anew."""

    def __init__(self, loader):
        self.cls, args, kwargs = _made[loader]
        bound = inspect.signature(self.cls.__init__).bind(None, *args, **kwargs)
        parameters = bound.signature.parameters
        given = dict(list(bound.arguments.items())[1:])
        for name, parameter in parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                given.update(given.pop(name, {}))
        self.positional = [value for name, parameter in parameters.items() if parameter.kind is parameter.VAR_POSITIONAL for value in given.pop(name, ())]
        self.given = given
        self.takes_workers = 'num_workers' in parameters or any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()) and 'num_workers' in given
        self.by_indices = 'dataset' in given and _is_map_style(self.cls, given['dataset'])
        self.own_workers = given.get('num_workers', 0)
        if self.by_indices:
            own_order = given.get('sampler') is None and given.get('batch_sampler') is None
            length = len(given['dataset'])
            given['dataset'] = Indices(min(length, _most_indices) if own_order else length)
            given['collate_fn'] = _as_list
        # Copied while nothing has been taken of it: samplers and generators, and datasets that have a place of their own.
        self.pristine = {name: self._copy(value) for name, value in given.items()}

    @staticmethod
    def _copy(value):
        try:
            return copy.deepcopy(value)
        except Exception:  # A handle, a lock: the one object serves all loaders.
            return value

    def make(self, workers):
        import torch
        torch.manual_seed(0)
        random.seed(0)
        if 'numpy' in sys.modules:
            sys.modules['numpy'].random.seed(0)
        arguments = {name: self._copy(value) for name, value in self.pristine.items()}
        if self.takes_workers:
            arguments['num_workers'] = workers
            if workers == 0:
                for name in ('prefetch_factor', 'persistent_workers', 'timeout', 'multiprocessing_context'):
                    arguments.pop(name, None)
        return self.cls(*self.positional, **arguments)


def _described(error):
    """The error, and where it was raised where it says nothing."""
    text = '{}: {}'.format(type(error).__name__, error)
    if str(error):
        return text
    import traceback
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return '{}{}:{}: {}'.format(text, os.path.basename(frame.filename), frame.lineno, frame.line)


def _proof(recipe, options):
    """The report, the numbers of workers, and why these are not those that were asked for, where the loader goes on with its own alone."""
    settings = {'epochs': options['epochs'], 'runs': options['runs'], 'stops': options['stops'], 'seed': options['seed'], 'identify': _as_list if recipe.by_indices else None}
    verify = _module().verify_resume
    if not recipe.takes_workers:
        return verify(lambda: recipe.make(0), **settings), [], None
    try:
        return verify(recipe.make, workers=options['workers'], **settings), options['workers'], None
    except Exception as error:
        if len(set(options['workers'])) == 1:
            raise
        refused = error
    return verify(recipe.make, workers=[recipe.own_workers], **settings), [recipe.own_workers], _described(refused)


def _prove(loader):
    """Writes what was found, and ends the process: the training is not wanted."""
    global _busy
    _busy = True
    found = {'loader': '{}.{}'.format(type(loader).__module__, type(loader).__qualname__)}
    try:
        options = json.loads(os.environ['DSANALYZE_RESUME'])
        recipe = _Recipe(loader)
        dataset = recipe.given.get('dataset') if not recipe.by_indices else getattr(loader, 'dataset', None)
        if dataset is not None:
            found['dataset_class'] = '{}.{}'.format(type(dataset).__module__, type(dataset).__qualname__)
        found['by'] = 'indices' if recipe.by_indices else 'values'
        report, workers, refused = _proof(recipe, options)
        found['workers'] = workers
        if refused:
            found['refused'] = refused
        found.update(runs=report.runs, stops=report.stops, samples=report.samples, lost=report.lost, repeated=report.repeated, same_order=report.same_order)
        if report.fault is not None:
            fault = report.fault
            found['fault'] = {'what': fault.what, 'sample': str(fault.sample)[:500], 'epoch': fault.epoch, 'run': fault.run, 'stops': [float(stop) for stop in fault.stops]}
    except BaseException as error:
        found['error'] = _described(error)[:2000]
    place = os.environ['DSANALYZE_ATTACH']
    with open(place + '.part', 'w') as file:
        json.dump(found, file)
    os.rename(place + '.part', place)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
