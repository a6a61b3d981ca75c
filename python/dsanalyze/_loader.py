"""The loader that the analyzer recommends, for a training script: dsanalyze's own, in threads of this process."""
import ctypes
import importlib.util
import json
import logging
import math
import os
import pathlib
import sys
import weakref
from typing import Any, Callable, Iterator, Optional

from . import _library
from ._library import LoaderError, library, require_ok, sized
from ._prep import Prep, options_of

log = logging.getLogger('dsanalyze')
look_ms = 100  # A call of the library is not longer, so that Ctrl-C comes through.
lent_at_once = 2  # The batch that the script has, and the one before it, whose names it still holds.
state_version = 1
group_variable = 'DSANALYZE_GROUP'
_ranks = (('RANK', 'WORLD_SIZE'), ('SLURM_PROCID', 'SLURM_NTASKS'), ('OMPI_COMM_WORLD_RANK', 'OMPI_COMM_WORLD_SIZE'), ('PMI_RANK', 'PMI_SIZE'))


def _rank_and_world(rank, world_size):
    """As given; else as torchrun, srun or mpirun has set them."""
    if (rank is None) != (world_size is None):
        raise ValueError('rank and world_size: pass both, or neither')
    if rank is not None:
        return rank, world_size
    for of_rank, of_world in _ranks:
        if os.environ.get(of_rank, '').isdigit() and os.environ.get(of_world, '').isdigit():
            return int(os.environ[of_rank]), int(os.environ[of_world])
    return 0, 1


class _Own:
    """A loader of this process's own behind the ABI."""

    def __init__(self, options):
        self.handle = ctypes.c_void_p()
        require_ok(library().dsa_loader_open(json.dumps(options).encode(), ctypes.byref(self.handle)))

    def next(self, batch, milliseconds):
        return library().dsa_loader_next(self.handle, ctypes.byref(batch), milliseconds)

    def release(self, token):
        library().dsa_loader_release(self.handle, token)

    def terms(self):
        terms = sized(_library.Terms)
        require_ok(library().dsa_loader_info(self.handle, ctypes.byref(terms)))
        return terms

    def state(self):
        return _library.text_of(library().dsa_loader_state, self.handle)

    def seek(self, state):
        require_ok(library().dsa_loader_seek(self.handle, state.encode()))

    def seek_epoch(self, epoch):
        require_ok(library().dsa_loader_seek_epoch(self.handle, epoch))

    def report(self):
        return json.loads(_library.text_of(library().dsa_loader_report, self.handle))

    def close(self):
        library().dsa_loader_close(self.handle)


class _Shared:
    """A job of the group that `dsanalyze share` has started."""

    def __init__(self, batch_size):
        self.handle = ctypes.c_void_p()
        options = sized(_library.Options)
        options.batch_size = batch_size or 0
        while True:
            status = library().dsa_attach(ctypes.byref(options), ctypes.byref(self.handle))
            if status != _library.TIMEOUT:
                break
            log.info('%s', _library.last_error())
        require_ok(status)

    def next(self, batch, milliseconds):
        return library().dsa_next(self.handle, ctypes.byref(batch), milliseconds)

    def release(self, token):
        library().dsa_release(self.handle, token)

    def terms(self):
        terms = sized(_library.Terms)
        require_ok(library().dsa_info(self.handle, ctypes.byref(terms)))
        return terms

    def state(self):
        raise LoaderError('the state of shared prep is that of its group, which `dsanalyze share` saves')

    def seek(self, _):
        self.state()

    def seek_epoch(self, _):
        raise LoaderError('the epochs of shared prep are those of its group')

    def report(self):
        return {}

    def close(self):
        library().dsa_detach(self.handle)


class _Loan:
    """The batches whose memory the script reads in place: each goes back to the loader when its last tensor is gone. Threads: any."""

    def __init__(self, source):
        self._source = source
        self._process = os.getpid()
        self._tokens = set()  # Without a lock: the collector may give a batch back in the thread that would hold it.

    def __len__(self):
        return len(self._tokens)

    def lend(self, buffer, token):
        self._tokens.add(token)
        weakref.finalize(buffer, self._give_back, token).atexit = False

    def _give_back(self, token):
        if os.getpid() == self._process:
            self._source.release(token)
            self._tokens.discard(token)


def _buffer_of(batch):
    """A batch's samples where they lie, and how many bytes they are."""
    size = math.prod(batch.shape[at] for at in range(batch.ndim)) * (batch.dtype.bits // 8)
    return (ctypes.c_ubyte * max(size, 1)).from_address(batch.samples), size


class _Torch:
    """Batches as torch tensors."""

    def __init__(self, pin):
        import torch
        self._torch = torch
        self._pin = pin and torch.cuda.is_available()
        self._types = {(_library.FLOAT, 32): torch.float32}

    def dtype(self, batch):
        return self._types.get((batch.dtype.code, batch.dtype.bits), self._torch.uint8)

    def samples(self, buffer, size, batch, shape, copy):
        torch = self._torch
        dtype = self.dtype(batch)
        if size == 0:
            return torch.empty(shape, dtype=dtype)
        tensor = torch.frombuffer(buffer, dtype=dtype, count=size // (batch.dtype.bits // 8)).reshape(shape)
        if self._pin:
            return torch.empty(shape, dtype=dtype, pin_memory=True).copy_(tensor)  # PyTorch knows then when the device has read it.
        return tensor.clone() if copy else tensor

    def numbers(self, address, count):
        torch = self._torch
        if count == 0:
            return torch.empty(0, dtype=torch.int64)
        return torch.frombuffer((ctypes.c_int32 * count).from_address(address), dtype=torch.int32).to(torch.int64)

    @property
    def copies(self):
        return self._pin


class _NumPy:
    """Batches as NumPy arrays."""

    copies = False

    def __init__(self):
        import numpy
        self._numpy = numpy

    def samples(self, buffer, size, batch, shape, copy):
        numpy = self._numpy
        dtype = numpy.float32 if batch.dtype.code == _library.FLOAT else numpy.uint8
        if size == 0:
            return numpy.empty(shape, dtype)
        array = numpy.frombuffer(buffer, dtype, size // (batch.dtype.bits // 8)).reshape(shape)
        return array.copy() if copy else array

    def numbers(self, address, count):
        numpy = self._numpy
        if count == 0:
            return numpy.empty(0, numpy.int64)
        return numpy.frombuffer((ctypes.c_uint32 * count).from_address(address), numpy.uint32).astype(numpy.int64)


class _Buffers:
    """Batches as memoryviews, where there is neither."""

    copies = False

    def samples(self, buffer, size, batch, shape, copy):
        view = memoryview(buffer).cast('B')[:size]
        if copy:
            view = memoryview(bytearray(view))
        return view.cast('f' if batch.dtype.code == _library.FLOAT else 'B', shape) if size else view

    def numbers(self, address, count):
        return list((ctypes.c_uint32 * count).from_address(address))


def _makers(output, pin):
    if output is None:
        output = next((name for name in ('torch', 'numpy') if name in sys.modules or importlib.util.find_spec(name)), 'memoryview')
    if output == 'torch':
        return _Torch(pin)
    if output == 'numpy':
        return _NumPy()
    if output == 'memoryview':
        return _Buffers()
    raise ValueError(f'output: found {output!r}, expected "torch", "numpy" or "memoryview"')


def _one_of(name, value, choices):
    if value not in choices:
        raise ValueError(f'{name}: found {value!r}, expected one of {", ".join(repr(each) for each in choices)}')
    return value


def _whole(name, value, least):
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f'{name}: found {value!r}, expected a whole number of {least} or more')
    return value


class Loader:
    """Batches of a dataset, epoch after epoch, read, cached, decoded and augmented by threads of this process: no worker processes, nothing pickled.

        loader = dsanalyze.Loader("/data/imagenet/train", batch_size=256, cache_size="35%", prep=dsanalyze.RandomResizedCrop(224))
        for epoch in range(90):
            for images, labels in loader:
                ...

    Each pass is one epoch: each sample once, in an order and with crops that follow from `seed` and the epoch's number alone. `images` has the shape
    (N, C, H, W) for layout "nchw", (N, H, W, C) for "nhwc"; `labels` has N whole numbers, the classes in order of their folders' names (`classes`). They
    are torch tensors where torch is installed, else NumPy arrays, else memoryviews; all but memoryviews give DLPack. They are read in place and may be
    written to: the memory goes back to the loader when the last of them is gone. A script that keeps more than two batches is given copies.

    dataset: a folder of class folders with images, tar shards (a folder or "train-{0000..0146}.tar"), or .npy arrays. batch_size: samples of a batch of this
    process. prep: RandomResizedCrop, HorizontalFlip, Resize, CenterCrop, Normalize, one or a sequence; None: the usual training transform of ImageNet. dtype:
    "float32" or "uint8". cache_size: memory for encoded samples, "35%" of the dataset or "20GiB"; each sample stays once it is in (MinIO [CoorDL]); None:
    the kernel's page cache alone. workers: threads that prepare; None: one a core. shuffle: False for the order of the files. seed: of order and crops.
    drop_last: leaves out an epoch's shorter last batch. rank and world_size: this process's part of each global batch; None: as torchrun, srun or mpirun
    say. transform: a Python function that is called with a finished batch, (images, labels), and whose result is the batch. with_ids: a batch is (images,
    labels, ids), the samples' numbers in the dataset. pin_memory: copies each batch to pinned memory of PyTorch's where CUDA is; None: there. on_error: "skip"
    (a sample that cannot be read or decoded is left out), "substitute" or "fail". index: a file that `dsanalyze dataset index` made. share: False to load alone
    in a job that `dsanalyze share` started; None: with its group, whose dataset and prep are the command's. copy: True for batches in memory of their own; False, with shared prep, for batches that are read where
    all jobs read them, and must not be written to; None: copies with shared prep.

    Raises FileNotFoundError, ValueError (arguments), MemoryError, LoaderError (a RuntimeError: more samples failed than may). A child of fork() cannot use its
    parent's loader. Threads: one at a time takes batches; tensors may be given up in any.
    """

    def __init__(self, dataset: 'os.PathLike | str', batch_size: int = 256, *, prep: Prep = None, dtype: str = 'float32', layout: str = 'nchw',
                 cache_size: Optional[str] = None, workers: Optional[int] = None, shuffle: bool = True, seed: int = 1, drop_last: bool = False,
                 rank: Optional[int] = None, world_size: Optional[int] = None, transform: Optional[Callable[..., Any]] = None, with_ids: bool = False,
                 output: Optional[str] = None, pin_memory: Optional[bool] = None, on_error: str = 'skip', index: 'os.PathLike | str | None' = None,
                 share: Optional[bool] = None, copy: Optional[bool] = None):
        self._source = None
        self._process = os.getpid()
        self._makers = _makers(output, pin_memory is not False)
        self._transform = transform
        self._with_ids = with_ids
        self._drop_last = drop_last
        self._rank, self._world = _rank_and_world(rank, world_size)
        self._shared = share is not False and group_variable in os.environ
        if self._shared:
            self._source = _Shared(_whole('batch_size', batch_size, 1))
        else:
            self._source = _Own(self._options(dataset, batch_size, prep, dtype, layout, cache_size, workers, shuffle, seed, on_error, index))
        self._finalizer = weakref.finalize(self, self._source.close)
        terms = self._source.terms()
        self._samples, self._batches, self._batch_size = terms.samples, terms.batches_per_epoch, terms.batch_size
        self._loan = _Loan(self._source)
        # A batch of a group lies in memory that cannot be written to, which a tensor does not say of itself.
        self._lends = not self._makers.copies and (copy is False or (copy is None and not self._shared))
        self._most_lent = min(lent_at_once, max(terms.held - 1, 0)) if self._shared else lent_at_once
        self._epoch = terms.first_epoch  # Of the next pass.
        self._at = (self._epoch, 0)  # Epoch and number of the batch that comes next.
        self._pass = None
        report = self._source.report()
        self.classes = report.get('classes', [])
        for finding in report.get('findings', []):
            log.warning('%s', finding['message'])

    def _options(self, dataset, batch_size, prep, dtype, layout, cache_size, workers, shuffle, seed, on_error, index):
        dataset = os.fspath(dataset)
        if '{' not in dataset and not pathlib.Path(dataset).exists():
            raise FileNotFoundError(f'dataset: there is no {dataset}')
        settings = {'dataset': dataset, 'batch_size': _whole('batch_size', batch_size, 1), 'dtype': _one_of('dtype', dtype, ('float32', 'uint8')),
                    'layout': _one_of('layout', layout, ('nchw', 'nhwc')), 'seed': _whole('seed', seed, 0), 'on_error': _one_of('on_error', on_error, ('skip', 'substitute', 'fail')),
                    'cache': 'page' if cache_size is None else 'minio'}
        if workers is not None:
            settings['workers'] = _whole('workers', workers, 1)
        if not shuffle:
            settings.update(order='sequential', shuffle_buffer_samples=1)
        options = {'settings': settings, **options_of(prep, dtype), 'rank': self._rank, 'world': self._world, 'held': lent_at_once + 1}
        if cache_size is not None:
            options['cache_size'] = str(cache_size)
        if index is not None:
            options['index'] = os.fspath(index)
        return options

    def __len__(self) -> int:
        """Batches of one pass."""
        short = self._samples % (self._batch_size * self._world) != 0
        return self._batches - (1 if self._drop_last and short and self._batches > 0 else 0)

    @property
    def batch_size(self) -> int:
        """Samples of a full batch of this process."""
        return self._batch_size

    @property
    def samples(self) -> int:
        """Samples of an epoch, of all ranks."""
        return self._samples

    @property
    def epoch(self) -> int:
        """The number of the epoch that the next pass gives."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """The next pass gives this epoch. Passes give one after another by themselves."""
        self._require_usable()
        self._pass = None
        self._epoch = _whole('epoch', epoch, 0)

    def __iter__(self) -> Iterator[Any]:
        self._require_usable()
        if not self._shared and self._at[0] != self._epoch:
            self._source.seek_epoch(self._epoch)
            self._at = (self._epoch, 0)
        self._pass = passing = _Pass(self)
        return passing

    def _take(self, passing):
        """The next batch of a pass. StopIteration after the epoch's last."""
        self._require_usable()
        if passing is not self._pass:
            raise RuntimeError('another pass over this loader has begun, or it was told to go on elsewhere: one pass at a time')
        batch = sized(_library.Batch)
        while True:
            status = self._source.next(batch, look_ms)
            if status == _library.OK:
                break
            if status == _library.TIMEOUT:
                continue
            if status == _library.END:
                self._pass = None
                raise StopIteration
            raise _library.error_of(status)
        return self._given(passing, batch)

    def _given(self, passing, batch):
        last = bool(batch.last_of_epoch)
        self._at = (batch.epoch + 1, 0) if last else (batch.epoch, batch.index + 1)
        self._epoch = batch.epoch + 1  # Of the next pass, also where this one is left in the middle.
        passing.ended = last
        if last and self._drop_last and batch.count + batch.failed < self._batch_size:
            self._source.release(batch.token)
            self._pass = None
            raise StopIteration
        return self._made(batch)

    def _made(self, batch):
        shape = [batch.shape[at] for at in range(batch.ndim)]
        makers = self._makers
        lends = self._lends and len(self._loan) < self._most_lent
        try:
            buffer, size = _buffer_of(batch)
            labels = makers.numbers(batch.labels, batch.count)
            ids = makers.numbers(batch.ids, batch.count) if self._with_ids else None
            samples = makers.samples(buffer, size, batch, shape, copy=not lends)
        except BaseException:
            self._source.release(batch.token)
            raise
        if lends and size:
            self._loan.lend(buffer, batch.token)
        else:
            self._source.release(batch.token)
        del buffer
        made = (samples, labels, ids) if self._with_ids else (samples, labels)
        return made if self._transform is None else self._transform(*made)

    def state_dict(self) -> dict:
        """Where it goes on after the batches given so far, as plain values: for load_state_dict() of a loader of the same dataset and batch size."""
        self._require_usable()
        return {'version': state_version, 'world_size': self._world, 'epoch': self._at[0], 'batch': self._at[1], 'sampler': self._source.state()}

    def load_state_dict(self, state: dict) -> None:
        """The next pass goes on there, in mid-epoch with the very same batches. At an epoch's begin the number of ranks may be another one.
        Raises ValueError for a state of another dataset, order, batch size or, in mid-epoch, number of ranks."""
        self._require_usable()
        if not isinstance(state, dict) or state.get('version') != state_version:
            raise ValueError(f'state: found {type(state).__name__} of version {state.get("version") if isinstance(state, dict) else None!r}, expected what state_dict() gave')
        if state['batch'] != 0 and state['world_size'] != self._world:
            raise ValueError(f'state: it was saved in the middle of an epoch by one of {state["world_size"]} ranks, and this is one of {self._world}; go on with as many, or from an epoch\'s begin')
        self._pass = None
        self._source.seek(state['sampler'])
        self._at = (state['epoch'], state['batch'])
        self._epoch = state['epoch']

    def report(self) -> dict:
        """What was read, cached, prepared and failed since the loader was made; samples, bytes and classes of the dataset."""
        self._require_usable()
        return self._source.report()

    def close(self) -> None:
        """Ends all work. Batches that the script still has stay valid."""
        if os.getpid() == self._process:
            self._pass = None
            self._finalizer()

    def __enter__(self) -> 'Loader':
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _require_usable(self):
        if os.getpid() != self._process:
            raise RuntimeError('this loader is the parent process\'s; a child of fork() makes one of its own')
        if not self._finalizer.alive:
            raise RuntimeError('the loader is closed')


class _Pass:
    """One epoch's batches, or what is left of it."""

    def __init__(self, loader):
        self._loader = loader
        self.ended = False

    def __iter__(self):
        return self

    def __next__(self):
        if self.ended:
            raise StopIteration
        return self._loader._take(self)
