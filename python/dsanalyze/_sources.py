"""Where batches come from: the process's own loader behind the ABI, or a group of jobs that share their prep; and which part of them a rank has."""
import ctypes
import json
import logging
import os
import threading
import time

from . import _library
from ._arguments import found_path, memory, one_of, whole
from ._library import LoaderError, library, require_ok, sized
from ._prep import form_of, options_of

log = logging.getLogger('dsanalyze')
attach_seconds = 600
look_seconds = 0.1
lent_at_once = 2  # The batch that the script has, and the one before it, whose names it still holds.
group_variable = 'DSANALYZE_GROUP'
scheme = 'unix:'  # Of a group's address; a path alone means the same.
# Of torchrun, srun and mpirun. A script of sbatch has SLURM's numbers, too, and is no step, which srun starts.
_ranks = (('RANK', 'WORLD_SIZE', 'WORLD_SIZE'), ('SLURM_PROCID', 'SLURM_NTASKS', 'SLURM_STEP_ID'),
          ('OMPI_COMM_WORLD_RANK', 'OMPI_COMM_WORLD_SIZE', 'OMPI_COMM_WORLD_SIZE'), ('PMI_RANK', 'PMI_SIZE', 'PMI_SIZE'))


def rank_and_world(rank, world_size):
    """As given; else as torchrun, srun or mpirun has set them."""
    if (rank is None) != (world_size is None):
        raise ValueError('rank and world_size: pass both, or neither')
    if rank is not None:
        rank, world_size = whole('rank', rank, 0), whole('world_size', world_size, 1)
        if rank >= world_size:
            raise ValueError(f'rank: found {rank}, expected less than the world_size of {world_size}')
        return rank, world_size
    for of_rank, of_world, of_step in _ranks:
        if os.environ.get(of_rank, '').isdigit() and os.environ.get(of_world, '').isdigit() and of_step in os.environ:
            if int(os.environ[of_world]) > 1:
                log.info('rank %s of %s, as %s says: this process loads its part of each global batch', os.environ[of_rank], os.environ[of_world], of_rank)
            return int(os.environ[of_rank]), int(os.environ[of_world])
    return 0, 1


class _Source:
    """What gives batches behind the ABI, by the functions that begin with `prefix`."""

    prefix = ''
    closing = ''
    keeps_batches = True  # What the script has stays where it is when the source is closed.

    def __init__(self):
        self.handle = ctypes.c_void_p()

    def _function(self, name):
        return getattr(library(), self.prefix + name)

    def next(self, batch, milliseconds):
        return self._function('next')(self.handle, ctypes.byref(batch), milliseconds)

    def release(self, token):
        self._function('release')(self.handle, token)

    def terms(self):
        terms = sized(_library.Terms)
        require_ok(self._function('info')(self.handle, ctypes.byref(terms)))
        return terms

    def close(self):
        self._function(self.closing)(self.handle)


def own_options(rank, world, dataset, batch_size, prep, dtype, layout, cache_size, workers, shuffle, seed, on_error, index):
    """What a loader of this process's own is opened with. Raises FileNotFoundError, TypeError, ValueError."""
    dataset = found_path('dataset', dataset)
    index = None if index is None else found_path('index', index)
    if dtype is None:
        dtype = 'float32' if form_of(prep) is None else 'uint8'
    dtype = one_of('dtype', dtype, ('float32', 'uint8'))
    settings = {'dataset': dataset, 'batch_size': batch_size, 'dtype': dtype, 'layout': one_of('layout', layout, ('nchw', 'nhwc')),
                'seed': 1 if seed is None else whole('seed', seed, 0, 1 << 64), 'on_error': one_of('on_error', on_error, ('skip', 'substitute', 'fail')),
                'cache': 'page' if cache_size is None else 'minio'}
    if workers is not None:
        settings['workers'] = whole('workers', workers, 1)
    if not shuffle:
        settings.update(order='sequential', shuffle_buffer_samples=1)
    options = {'settings': settings, **options_of(prep, dtype), 'rank': rank, 'world': world, 'held': lent_at_once + 1}
    for name, value in (('cache_size', memory('cache_size', cache_size)), ('index', index)):
        if value is not None:
            options[name] = value
    return options


class Own(_Source):
    """A loader of this process's own. Its dataset is opened until ready() is OK: an interrupt comes through between two calls."""

    prefix = 'dsa_loader_'
    closing = 'close'

    def __init__(self, options):
        super().__init__()
        require_ok(self._function('open')(json.dumps({**options, 'background': True}).encode(), ctypes.byref(self.handle)))

    def ready(self, milliseconds):
        return self._function('ready')(self.handle, milliseconds)

    def state(self, place):
        return _library.text_of(self._function('state'), self.handle, *place)

    def seek(self, state):
        require_ok(self._function('seek')(self.handle, state.encode()))

    def report(self):
        return json.loads(_library.text_of(self._function('report'), self.handle))


class Shared(_Source):
    """A job of a group that `dsanalyze share` has started, at this address or, without one, where the environment says."""

    prefix = 'dsa_'
    closing = 'detach'
    keeps_batches = False

    def __init__(self, batch_size, address):
        super().__init__()
        options = sized(_library.Options)
        options.batch_size = batch_size
        options.address = None if address is None else os.fsencode(address if ':' in address else scheme + os.path.abspath(address))
        until = time.monotonic() + attach_seconds
        while (error := self._attach(options)) is not None:
            if error[0] != _library.TIMEOUT or time.monotonic() > until:
                raise error[1]
            log.info('%s', error[1])

    def _attach(self, options):
        """Joins the group: nothing, or a status and its exception. It may wait for a place, so it waits in a thread of its own, and an interrupt comes through: who gives up
        leaves the group when it has been let in."""
        ended, lock, given_up = [], threading.Lock(), []

        def attach():
            status = self._function('attach')(ctypes.byref(options), ctypes.byref(self.handle))
            error = None if status == _library.OK else (status, _library.error_of(status))
            with lock:
                ended.append(error)
                is_unwanted = given_up and error is None
            if is_unwanted:
                self.close()

        thread = threading.Thread(target=attach, name='dsanalyze-attach', daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(look_seconds)
        except BaseException:
            with lock:
                given_up.append(True)
                joined = ended and ended[0] is None
            if joined:
                self.close()
            raise
        return ended[0]

    def ready(self, _):
        return _library.OK

    def state(self, _):
        raise LoaderError('the state of shared prep is that of its group, which `dsanalyze share` saves')

    seek = state

    def report(self):
        return {}
