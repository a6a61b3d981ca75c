"""What the hook reports about the process, the device, and a DataLoader."""
import multiprocessing
import os
import signal
import sys

import torch
from torch.utils.data import dataloader as loaders
from torch.utils.data import sampler as samplers

from . import watched
from .shared_memory import error_text

rank_variables = (
    ('RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'LOCAL_WORLD_SIZE'),
    ('OMPI_COMM_WORLD_RANK', 'OMPI_COMM_WORLD_SIZE', 'OMPI_COMM_WORLD_LOCAL_RANK', 'OMPI_COMM_WORLD_LOCAL_SIZE'),
    ('SLURM_PROCID', 'SLURM_NTASKS', 'SLURM_LOCALID', ''),  # Of a job that starts no ranks, too.
)
_own_folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_lengths_without_effects = (samplers.BatchSampler, samplers.SequentialSampler, samplers.RandomSampler, samplers.SubsetRandomSampler, samplers.WeightedRandomSampler)


def rank():
    """Rank, world, local rank and local world (None: not known): torch.distributed's word where it has been initialised, else the environment's."""
    distributed = sys.modules.get('torch.distributed')
    local, local_world = 0, None
    found = (0, 1)
    for names in rank_variables:
        values = [os.environ.get(name, '') for name in names]
        if values[0].isdigit() and values[1].isdigit():
            found = int(values[0]), int(values[1])
            local = int(values[2]) if values[2].isdigit() else 0
            local_world = int(values[3]) if values[3].isdigit() else None
            break
    initialised = distributed is not None and distributed.is_available() and distributed.is_initialized()
    if initialised:
        found = distributed.get_rank(), distributed.get_world_size()
    return {'rank': found[0], 'world': found[1], 'local_rank': local, 'local_world': local_world, 'distributed': initialised}


def hello():
    """Asks no device: a script may still choose one."""
    message = {'t': 'hello', 'version': 1, 'pid': os.getpid(), 'parent': os.getppid(), 'argv': list(getattr(sys, 'argv', [])),
               'python': '.'.join(map(str, sys.version_info[:3])), 'torch': str(torch.__version__), 'cuda': False, 'device': '', 'threads': None}
    return message


def device():
    """Sent with the first training loader, when the script has chosen its device."""
    cuda = torch.cuda.is_available() and torch.cuda.is_initialized()
    name = torch.cuda.get_device_name() if cuda else _processor()
    return {'t': 'device', 'cuda': cuda, 'device': name, 'threads': torch.get_num_threads()}


def _processor():
    try:
        with open('/proc/cpuinfo', encoding='utf-8', errors='replace') as lines:
            for line in lines:
                if line.startswith('model name'):
                    return line.split(':', 1)[1].strip()
    except OSError:
        pass
    return ''


def _constructors(kind):
    """The code of the constructors of a class and its bases, of those that are wrapped, too."""
    codes = set()
    for base in kind.__mro__:
        function = base.__dict__.get('__init__')
        while function is not None:
            codes.add(getattr(function, '__code__', None))
            function = getattr(function, '__wrapped__', None)
    return codes


def origin(loader):
    """The file and line where a loader is made: the first caller outside of installed packages, or else the first outside of torch, that is no constructor
    of the loader's own class. No frame is asked for its variables: before Python 3.13 that changes a dict that the script had from locals()."""
    constructors = _constructors(type(loader))
    inside = (os.path.dirname(torch.__file__) + os.sep, _own_folder)
    library = None, None
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(inside) and code not in constructors:
            place = code.co_filename, frame.f_lineno
            if '/site-packages/' not in place[0] and '/dist-packages/' not in place[0]:
                return place
            library = library if library[0] else place
        frame = frame.f_back
    return library


def _name(value):
    kind = type(value)
    return kind.__module__ + '.' + kind.__qualname__


def _is_torchs(sampler):
    """One whose length torch itself has asked for once the first batch is there."""
    return type(sampler) in _lengths_without_effects and (type(sampler) is not samplers.BatchSampler or type(sampler.sampler) in _lengths_without_effects)


def _length(value):
    try:
        return len(value)
    except Exception:
        return None


def lengths(iterator, facts_of, careful):
    """Samples and batches of an epoch; None where that is not known. To be asked once the first batch is there: what len() does to an object of the script's
    own (opens a file, for one) must not be done before workers are forked, and under `careful` only where torch did it."""
    dataset, sampler = iterator._dataset, iterator._index_sampler
    if facts_of['style'] == 'watched':
        return None, None if careful else _length(dataset.iterable)
    if facts_of['style'] == 'iterable':
        samples = None if careful else _length(dataset)
        size = facts_of['batch_size'] if iterator._auto_collation else None
        if samples is None or size is None:
            return samples, samples
        return samples, samples // size if facts_of['drop_last'] else -(-samples // size)
    batches = _length(sampler) if not careful or _is_torchs(sampler) else None
    if iterator._auto_collation:
        if type(sampler) is not samplers.BatchSampler:  # A batch sampler of the script's own chooses.
            return None, batches
        sampler = sampler.sampler
    if _is_torchs(sampler):
        return _length(sampler), batches
    return None if careful else _length(dataset), batches


def _attribute(value, name, default=None):
    """Of an object of the script's own, without running a property or __getattr__."""
    for names in (getattr(value, '__dict__', {}), *(kind.__dict__ for kind in type(value).__mro__)):
        if name in names:
            return default if hasattr(names[name], '__get__') else names[name]
    return default


def _shuffles(loader):
    sampler = getattr(loader, 'sampler', None)
    return bool(_attribute(sampler, 'shuffle')) or isinstance(sampler, (samplers.RandomSampler, samplers.SubsetRandomSampler, samplers.WeightedRandomSampler))


def _killed_workers(iterator, patience):
    """Of the iterator of a loader with workers: signals by PID of the workers that one has ended. Nothing for other objects, whose own code is not called."""
    if not issubclass(type(iterator), loaders._MultiProcessingDataLoaderIter):
        return {}
    try:
        workers = getattr(iterator, '_workers', ())
        if patience and not any(worker.exitcode for worker in workers):  # Its connections are closed before it counts as ended.
            multiprocessing.connection.wait([worker.sentinel for worker in workers], patience)
        return {worker.pid: -worker.exitcode for worker in getattr(iterator, '_workers', ()) if (worker.exitcode or 0) < 0}
    except ValueError:  # closed
        return {}


def last_error():
    """The exception that ends the process, and where the script had it; None where there is none."""
    if not hasattr(sys, 'last_type'):
        return None
    text = error_text(sys.last_value)
    trace, place, killed = sys.last_traceback, None, {}
    patience = 0.5 if isinstance(sys.last_value, (ConnectionError, EOFError)) else 0
    inside = (os.path.dirname(torch.__file__) + os.sep, _own_folder)
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not name.startswith(inside) and '/site-packages/' not in name and '/dist-packages/' not in name:
            place = name, trace.tb_lineno
        killed.update(_killed_workers(trace.tb_frame.f_locals.get('self'), patience))
        trace = trace.tb_next
    text = text + (' ({}:{})'.format(os.path.basename(place[0]), place[1]) if place else '')
    if 'killed by signal' not in text:  # PyTorch may find that a worker does not answer before it hears why.
        text += ''.join('; its loader\'s worker {} was killed by signal {} ({})'.format(worker, number, signal.strsignal(number)) for worker, number in killed.items())
    return text


def loader_facts(loader, origin):
    """What can be said without an effect on the loader. How long it is comes later: lengths()."""
    iterable = loader._dataset_kind == loaders._DatasetKind.Iterable
    kind = type(loader)
    batch_size = loader.batch_size
    if batch_size is None and loader.batch_sampler is not None:
        batch_size = _attribute(loader.batch_sampler, 'batch_size')
    context = loader.multiprocessing_context
    facts = {'name': 'torch.utils.data.DataLoader' if kind is loaders.DataLoader else kind.__module__ + '.' + kind.__qualname__,
            'version': str(torch.__version__), 'dataset_class': _name(loader.dataset), 'workers': loader.num_workers,
            'prefetch': loader.prefetch_factor if loader.num_workers else 0, 'pin_memory': bool(loader.pin_memory),
            'persistent': bool(loader.persistent_workers), 'batch_size': batch_size if isinstance(batch_size, int) else None,
            'batches': None, 'samples': None, 'style': 'iterable' if iterable else 'map', 'shuffle': _shuffles(loader),
            'start_method': context.get_start_method() if context is not None else _default_start_method(), 'drop_last': bool(_attribute(None if iterable else loader.batch_sampler, 'drop_last', loader.drop_last)),
            'file': origin[0], 'line': origin[1]}
    if isinstance(loader, watched.Loader):
        of = _name(loader.dataset.iterable)
        facts.update(name=of, dataset_class=of, version=loader.dataset.version(), style='watched')
    return facts


def leads(loader):
    """True where the first dimension of a batch is known to count its samples; None where that is to be seen."""
    return True if loader.collate_fn is loaders.default_collate else None


def _default_start_method():
    return multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]


def recipe(loader):
    """What a second loader over the same dataset is made of."""
    names = ('dataset', 'batch_size', 'drop_last', 'collate_fn', 'num_workers', 'pin_memory', 'timeout', 'worker_init_fn',
             'multiprocessing_context', 'prefetch_factor', 'pin_memory_device', 'persistent_workers', 'in_order')
    found = {name: getattr(loader, name) for name in names if hasattr(loader, name)}
    found['auto_collation'] = loader._auto_collation
    return found
