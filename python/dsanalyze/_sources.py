"""Where batches come from: the process's own loader behind the ABI, or a group of jobs that share their prep; and which part of them a rank has."""
import ctypes
import json
import logging
import operator
import os
import time

from . import _library
from ._library import LoaderError, library, require_ok, sized

log = logging.getLogger('dsanalyze')
attach_seconds = 600
group_variable = 'DSANALYZE_GROUP'
# Of torchrun, srun and mpirun. A script of sbatch has SLURM's numbers, too, and is no step, which srun starts.
_ranks = (('RANK', 'WORLD_SIZE', 'WORLD_SIZE'), ('SLURM_PROCID', 'SLURM_NTASKS', 'SLURM_STEP_ID'),
          ('OMPI_COMM_WORLD_RANK', 'OMPI_COMM_WORLD_SIZE', 'OMPI_COMM_WORLD_SIZE'), ('PMI_RANK', 'PMI_SIZE', 'PMI_SIZE'))


def whole(name, value, least, below=1 << 63):
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or not least <= number < below:
        raise ValueError(f'{name}: found {value!r}, expected a whole number of {least} or more')
    return number


def one_of(name, value, choices):
    if value not in choices:
        raise ValueError(f'{name}: found {value!r}, expected one of {", ".join(repr(each) for each in choices)}')
    return value


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


class Own(_Source):
    """A loader of this process's own."""

    prefix = 'dsa_loader_'
    closing = 'close'

    def __init__(self, options):
        super().__init__()
        require_ok(self._function('open')(json.dumps(options).encode(), ctypes.byref(self.handle)))

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
        options.address = None if address is None else os.fsencode(address)
        until = time.monotonic() + attach_seconds
        while True:
            status = self._function('attach')(ctypes.byref(options), ctypes.byref(self.handle))
            if status != _library.TIMEOUT or time.monotonic() > until:
                break
            log.info('%s', _library.last_error())
        require_ok(status)

    def ready(self, _):
        return _library.OK

    def state(self, _):
        raise LoaderError('the state of shared prep is that of its group, which `dsanalyze share` saves')

    seek = state

    def report(self):
        return {}
