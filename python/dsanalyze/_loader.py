"""The loader that the analyzer recommends, for a training script: dsanalyze's own, in threads of this process."""
import ctypes
import math
import os
import threading
import weakref
from typing import Any, Callable, Iterator, Optional

from . import _library
from ._arguments import flag, one_of, path, whole
from ._library import LoaderError, sized
from ._loan import Loan, ending
from ._prep import Prep, form_of
from ._ranks import ProcessGroup, ranks_options
from ._sources import Own, Shared, group_variable, lent_at_once, log, own_options, rank_and_world
from ._tensors import makers_of

look_ms = 100  # A call of the library is not longer, so that Ctrl-C comes through.
state_version = 1
most_epochs = 1 << 62


# More than any sample has, of which an array uses a part: a type of ctypes for each size would take longer to make than the array.
_Window = ctypes.c_ubyte * (1 << 40)


class _Owner:
    """What the arrays of a batch have in common: its end is the end of the last of them."""


def _buffer_of(batch):
    """A batch's samples where they lie, and how many bytes they are."""
    size = math.prod(batch.shape[at] for at in range(batch.ndim)) * (batch.dtype.bits // 8)
    return (ctypes.c_ubyte * max(size, 1)).from_address(batch.samples), size


def _classes_of(folder):
    """The names of the class folders, in the order that their numbers have."""
    try:
        return [os.fsdecode(name) for name in sorted(os.fsencode(entry.name) for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith('.'))]
    except OSError:
        return []


class Loader:
    """Batches of a dataset, epoch after epoch, read, cached, decoded and augmented by threads of this process: no worker processes, nothing pickled.

        loader = dsanalyze.Loader("/data/imagenet/train", batch_size=256, cache_size="35%", prep=dsanalyze.RandomResizedCrop(224))
        for epoch in range(90):
            for images, labels in loader:
                ...

    Each pass is one epoch: each sample once, in an order and with crops that follow from `seed` and the epoch's number alone. `images` has the shape
    (N, C, H, W) for layout "nchw", (N, H, W, C) for "nhwc"; `labels` has N whole numbers, the classes in order of their folders' names (`classes`). They
    are torch tensors where torch is installed, else NumPy arrays, else arrays of ctypes, which memoryview() reads; all support DLPack. They are read in place and may be
    written to: the memory goes back to the loader when the last of them is gone. A script that keeps more than two batches is given copies.

    dataset: a folder of class folders with images, tar shards (a folder or "train-{0000..0146}.tar"), or .npy arrays. batch_size: samples of a batch of this
    process. prep: RandomResizedCrop, HorizontalFlip, Resize, CenterCrop, Normalize, one or a sequence; Decoded or Encoded for samples of sizes of their own; None: the usual training transform of ImageNet. dtype:
    "float32" or "uint8"; None: uint8 for Decoded and Encoded, else float32. cache_size: memory for encoded samples, "35%" of the dataset or "20GiB"; each sample stays once it is in (MinIO [CoorDL]); None:
    the kernel's page cache alone. workers: threads that prepare; None: one a core. shuffle: False for the order of the files. seed: of order and crops.
    drop_last: leaves out an epoch's shorter last batch. rank and world_size: this process's part of each global batch; None: as torchrun, srun or mpirun
    say. transform: a Python function that is called with a finished batch, (images, labels), and whose result is the batch. with_ids: a batch is (images,
    labels, ids), the samples' numbers in the dataset. pin_memory: copies each batch to pinned memory of PyTorch's where CUDA is; None: there. on_error: "skip"
    (a sample that cannot be read or decoded is left out), "substitute" or "fail". index: a file that `dsanalyze dataset index` made. share: None: with the group
    that `dsanalyze share` or dsanalyze.share() started, whose dataset and prep are then the group's, else alone; the address of a group; False: alone. copy: True for batches in memory of their own;
    False, with shared prep, for batches that are read where all jobs read them, and must not be written to; None: copies with shared prep.

    partition: ranks hold the dataset together in their caches, cache_size in each, so that storage is read once in all: with "partitioned" each takes
    the same part of a global batch as without, and asks the rank that holds a sample [CoorDL]; with "locality" each takes what it holds, and little
    moves [Yang-Cong]. All ranks make the loader, and go on elsewhere (set_epoch(), load_state_dict(), a pass that is left) as often as one another. A
    rank that is lost is a LoaderError in all others, once they have the epoch's batches. rendezvous: None: through torch.distributed, whose process
    group the script has made; else HOST:PORT where rank 0 listens, or a file that all ranks share. listen: the address, network or interface by which
    the others reach this rank, where they are on other machines; key_file: 32 bytes, the same on all of them. peer_timeout: seconds without a word of a
    rank after which it is lost; None: 20. epoch_timeout: seconds for which the ranks wait for one another at an epoch's begin; None: 1,800.

    Raises FileNotFoundError, PermissionError, ValueError (arguments), MemoryError, LoaderError (a RuntimeError: more samples failed than may). A child of fork() cannot use its
    parent's loader. Threads: one at a time takes batches; tensors may be given up in any.
    """

    def __init__(self, dataset: 'os.PathLike[str] | str', batch_size: int = 256, *, prep: Prep = None, dtype: Optional[str] = None, layout: str = 'nchw',
                 cache_size: Optional[str] = None, workers: Optional[int] = None, shuffle: bool = True, seed: Optional[int] = None, drop_last: bool = False,
                 rank: Optional[int] = None, world_size: Optional[int] = None, transform: Optional[Callable[..., Any]] = None, with_ids: bool = False,
                 output: Optional[str] = None, pin_memory: Optional[bool] = None, on_error: str = 'skip', index: 'os.PathLike[str] | str | None' = None,
                 share: 'bool | str | None' = None, copy: Optional[bool] = None, partition: Optional[str] = None,
                 rendezvous: 'os.PathLike[str] | str | None' = None, listen: Optional[str] = None,
                 key_file: 'os.PathLike[str] | str | None' = None, peer_timeout: Optional[float] = None, epoch_timeout: Optional[float] = None):
        self._process = os.getpid()
        shuffle, drop_last, with_ids = flag('shuffle', shuffle), flag('drop_last', drop_last), flag('with_ids', with_ids)
        copy, pin_memory = flag('copy', copy, (None,)), flag('pin_memory', pin_memory, (None,))
        if transform is not None and not callable(transform):
            raise TypeError(f'transform: found {transform!r}, expected a function that is called with a finished batch')
        if share is not None and not isinstance(share, (bool, str)) or share == '':
            raise TypeError(f'share: found {share!r}, expected the address of a group, True, False or None')
        if share is True and group_variable not in os.environ:
            raise ValueError('share: found True, and there is no group: dsanalyze.share() or `dsanalyze share` starts one, or pass its address')
        self._closing = False
        self._makers = makers_of(output, pin_memory is not False)
        self._transform = transform
        self._with_ids = with_ids
        self._drop_last = drop_last
        address = share if isinstance(share, str) else None
        self._shared = address is not None or (share is not False and group_variable in os.environ)
        self._rank, self._world = (0, 1) if self._shared else rank_and_world(rank, world_size)
        dataset = path('dataset', dataset)
        batch_size = whole('batch_size', batch_size, 1)
        if self._shared:
            if partition is not None:
                raise ValueError('partition: jobs with shared prep are on one server; share=False loads alone')
            one_of('layout', layout, ('nchw', 'nhwc'))
            if not shuffle:
                raise ValueError('shuffle: found False, and the group that `dsanalyze share` started has an order of its own; share=False loads alone')
            if world_size is not None and world_size != 1:
                raise ValueError(f'world_size: found {world_size!r}, and jobs with shared prep are each of one rank; share=False loads alone')
            # The same script runs alone and in a group: what it says of resources and faults is the group's there.
            ignored = [name for name, value, usual in (('cache_size', cache_size, None), ('workers', workers, None), ('index', index, None), ('on_error', on_error, 'skip'))
                       if value != usual]
            if ignored:
                log.info('of the group that `dsanalyze share` started, and not as given: %s', ', '.join(ignored))
            self._source = Shared(batch_size, address)
        else:
            ranks = ranks_options(partition, rendezvous, listen, key_file, peer_timeout, epoch_timeout)
            group = ProcessGroup() if partition is not None and self._world > 1 and rendezvous is None else None
            try:
                options = own_options(self._rank, self._world, dataset, batch_size, prep, dtype, layout, cache_size, workers, shuffle, seed, on_error, index)
            except BaseException as error:
                if group is not None:
                    group.fail(error)
                raise
            options.update(ranks)
            if group is not None:
                options.update(group.meet(self._rank, self._world, listen))
            if partition is not None:
                options['settings']['partition'] = partition
            self._source = Own(options)
        self._loan = Loan(self._source)
        self._finalizer = weakref.finalize(self, self._loan.close)
        try:
            while (status := self._source.ready(look_ms)) == _library.TIMEOUT:  # The dataset is opened, and the other ranks of a partition come.
                pass
            if status == _library.END:
                self._require_usable()
            _library.require_ok(status)
            terms = self._source.terms()
            report = self._source.report()
            self._samples, self._batches, self._batch_size = terms.samples, terms.batches_per_epoch, terms.batch_size
            self._short = self._samples % (self._batch_size * self._world) != 0  # The last batch of an epoch.
            self._element, self._sample_shape = self._element_of(terms, report)
            if self._shared:
                self._check_terms(terms, dtype, layout, seed, prep)
            elif report['array'] is not None and (prep is not None or (dtype is not None and dtype != {'u1': 'uint8', 'f4': 'float32'}.get(self._element))):
                raise ValueError(f'{"prep" if prep is not None else "dtype"}: the samples are arrays ({report["array"]["dtype"]}), which come as they are')
        except BaseException:  # Who keeps the exception keeps this loader, which is no member of a group, nor a rank, any more.
            self._finalizer()
            raise
        # A batch of a group lies in memory that cannot be written to, which a tensor does not say of itself.
        self._lends = not self._makers.copies and (copy is False or (copy is None and not self._shared))
        # A loop holds its last batch while it takes the next one.
        self._most_lent = 0 if terms.held < lent_at_once else lent_at_once
        self._at = (terms.first_epoch, 0)  # Epoch and number of the batch that the source gives next.
        self._start = self._at  # Where the next pass begins; None: behind the epoch that a pass was left in.
        self._waiting = sized(_library.Batch)  # What was taken, if its token is not 0, and not given yet: an interrupt may come in between.
        self._pass = None
        self._taking = set()  # Threads that are in a call of a pass, and may read what is waiting. An interrupt can leave the main thread in it.
        self._again = False  # The batch at _at was taken, and transform raised.
        self._seeks_alone = not self._shared and partition is None  # Other jobs or ranks go on elsewhere together.
        #: The names of the classes, in the order of their numbers; empty where the dataset has none.
        self.classes = report.get('classes') or (_classes_of(dataset) if self._shared else [])
        for finding in report.get('findings', []):
            log.warning('%s', finding['message'])
        if 0 < self._samples % (self._batch_size * self._world) < self._world and not drop_last:
            log.warning('the last batch of an epoch has no samples for some of the %s ranks; drop_last=True leaves it out', self._world)

    def _element_of(self, terms, report):
        """The type of an element as NumPy writes it, and the shape of a sample."""
        if terms.dtype.code == _library.SAMPLE:
            return 'u1', None
        array = report.get('array')
        if array is None:
            return ('f4' if terms.dtype.code == _library.FLOAT else 'u1'), [terms.shape[at] for at in range(1, terms.ndim)]
        element = array['dtype'][1:]
        if not self._makers.has(element):
            raise ValueError(f'dataset: its arrays are of type {array["dtype"]}, which {type(self._makers).__name__.lower()} does not have; output="numpy" may')
        return element, array['shape']

    def _check_terms(self, terms, dtype, layout, seed, prep):
        """A group's terms are its own: what was asked for, and is otherwise there, is refused."""
        found = 'float32' if terms.dtype.code == _library.FLOAT else 'uint8'
        if dtype is not None and dtype != found:
            raise ValueError(f'dtype: found {dtype!r}, and the group that `dsanalyze share` started prepares {found}')
        if layout != 'nchw' and terms.ndim == 4 and terms.shape[3] != 3:
            raise ValueError(f'layout: found {layout!r}, and the group that `dsanalyze share` started prepares nchw')
        if seed is not None and seed != terms.seed:
            raise ValueError(f'seed: found {seed}, and the group that `dsanalyze share` started has {terms.seed}')
        if form_of(prep) is not None:
            raise ValueError(f'prep: found {prep!r}, and samples of a group are all of one size ({terms.prep.decode(errors="replace")}); share=False loads alone')
        log.info('shared prep: %s', terms.prep.decode(errors='replace'))
        if prep is not None:
            log.warning('prep is that of the group: %s', terms.prep.decode(errors='replace'))

    def __len__(self) -> int:
        """Batches of one pass."""
        return self._batches - (1 if self._drop_last and self._short and self._batches > 0 else 0)

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
        return self._next_start()[0]

    def _next_start(self):
        return self._start if self._start is not None else (self._at[0] + 1, 0)

    def set_epoch(self, epoch: int) -> None:
        """The next pass gives this epoch, from its first batch on, or from where load_state_dict() has said. Passes give one after another by themselves."""
        self._require_usable()
        epoch = whole('epoch', epoch, 0, most_epochs)
        if self._shared and epoch != self.epoch:
            raise LoaderError(f'epoch: found {epoch}; the next epoch of the group that `dsanalyze share` started is {self.epoch}')
        self._pass = None
        if self._start is None or epoch != self._start[0]:
            self._start = (epoch, 0)

    def __iter__(self) -> Iterator[Any]:
        self._require_usable()
        start = self._next_start()
        self._pass = None
        if self._shared:
            while self._at[1] != 0 and self._at[0] < start[0]:  # What is left of an epoch that a pass was left in.
                if not self._fetch():
                    break
                self._release_waiting()
        elif start != self._at or self._again:
            self._release_waiting()
            self._source.seek(self._source.state(start))
            self._at, self._again = start, False
        self._start = start
        self._pass = passing = _Pass(self)
        return passing

    def _release_waiting(self):
        waiting, self._waiting = self._waiting, sized(_library.Batch)
        if waiting.token:
            self._at = _behind(waiting)
            self._source.release(waiting.token)

    def _fetch(self):
        """Waits until a batch is there. False where none comes any more."""
        while not self._waiting.token:
            self._require_usable()
            status = self._source.next(self._waiting, look_ms)
            if status == _library.OK:
                break
            if status == _library.END:
                return False
            if status == _library.BUSY:
                raise LoaderError('tensors of earlier batches are in use, which are read where they lie (copy=False): drop them first, or start `dsanalyze share` with a larger --held')
            if status != _library.TIMEOUT:
                raise _library.error_of(status)
        return True

    def _take(self, passing):
        """The next batch of a pass. StopIteration after the epoch's last."""
        try:
            self._taking.add(threading.get_ident())
            return self._taken(passing)
        finally:
            self._taking.discard(threading.get_ident())
            if self._closing and os.getpid() == self._process:
                self._end()

    def _taken(self, passing):
        self._require_usable()
        self._loan.settle()
        if self._again:
            self._source.seek(self._source.state(self._at))
            self._again = False
        if not len(self) and passing is self._pass:  # Its only batch is short, and left out.
            passing.ended = True
            if not self._shared:
                self._start = (self._start[0] + 1, 0)
            raise StopIteration
        while True:
            self._require_usable()
            if passing is not self._pass:
                raise RuntimeError('another pass over this loader has begun, or it was told to go on elsewhere: one pass at a time')
            if not self._fetch():
                return self._ended(passing)
            if passing is not self._pass:
                continue
            if not (self._waiting.last_of_epoch and self._drop_last and self._short):
                return self._given(passing)
            # Of the epoch before, whose pass has ended without it.
            self._release_waiting()

    def _ended(self, passing):
        self._require_usable()
        if not self._shared or passing is not self._pass:
            raise RuntimeError('the loader was closed, or told to go on elsewhere, while a pass waited for its next batch')
        self._pass = None
        if self._at[1] != 0:
            raise LoaderError('the group that `dsanalyze share` started has ended in the middle of an epoch')
        log.warning('the group that `dsanalyze share` started has ended: this pass has no batches')
        raise StopIteration

    def _given(self, passing):
        batch, before = self._waiting, (self._at, self._start)
        lends = self._lends and len(self._loan) < self._most_lent
        try:
            made, buffer = self._made(batch, copy=not lends)
            self._at = _behind(batch)
            if self._drop_last and self._short and not batch.last_of_epoch and batch.index + 1 == len(self):
                self._at = (batch.epoch + 1, 0)  # The short batch that the source gives next is left out.
            passing.ended = self._at[1] == 0
            self._start = self._at if passing.ended else None
            self._waiting = sized(_library.Batch)
            if buffer is not None and lends:
                self._loan.lend(buffer, batch.token)
        except BaseException:  # It is given by the next call.
            self._loan.take_back(batch.token)
            self._waiting = batch
            self._at, self._start = before
            passing.ended = False
            raise
        if buffer is None or not lends:
            self._source.release(batch.token)
        del buffer
        if self._transform is None:
            return made
        try:
            return self._transform(*made)
        except BaseException as error:
            if self._seeks_alone and passing is self._pass:  # It was not given: the next call makes it again.
                self._at, self._start = before
                passing.ended = False
                self._again = True
            if isinstance(error, StopIteration):
                raise RuntimeError('transform raised StopIteration') from error
            raise

    def _made(self, batch, copy):
        """The batch as the script gets it, and the buffer that its samples lie in; nothing where there are none."""
        makers = self._makers
        if self._sample_shape is None:
            samples, buffer, size = self._made_of_own_sizes(batch, copy)
        else:
            buffer, size = _buffer_of(batch)
            samples = makers.samples(buffer, size, self._element, [batch.count, *self._sample_shape], copy)
        made = (samples, makers.numbers(batch.labels, batch.count))
        if self._with_ids:
            made += (makers.numbers(batch.ids, batch.count),)
        return made, buffer if size else None

    def _made_of_own_sizes(self, batch, copy):
        """A list of arrays, which have an owner in common while they are read in place, and how many they are."""
        owner, made = _Owner(), []
        for sample in (_library.Sample * batch.count).from_address(batch.samples) if batch.count else ():
            window = _Window.from_address(sample.data)
            window.owner = owner
            shape = [sample.height, sample.width, 3] if sample.height else [sample.bytes]
            made.append(self._makers.samples(window, sample.bytes, self._element, shape, copy))
        return made, owner, len(made)

    def state_dict(self) -> dict:
        """Where it goes on after the batches given so far, as plain values: for load_state_dict() of a loader of the same dataset, seed and batch size."""
        place = self._start if self._start is not None else self._at
        return {'version': state_version, 'world_size': self._world, 'epoch': place[0], 'batch': place[1], 'sampler': self._of_source(self._source.state, place)}

    def load_state_dict(self, state: dict) -> None:
        """The next pass goes on there, in mid-epoch with the very same batches. At an epoch's begin the number of ranks may be another one.
        Raises ValueError for a state of another dataset, seed, order, batch size or, in mid-epoch, number of ranks."""
        self._require_usable()
        wanted = {'version': int, 'world_size': int, 'epoch': int, 'batch': int, 'sampler': str}
        if (not isinstance(state, dict) or any(not isinstance(state.get(key), kind) for key, kind in wanted.items()) or state['version'] != state_version
                or min(state['epoch'], state['batch']) < 0):
            raise ValueError(f'state: found {state!r:.100}, expected what state_dict() gave')
        if state['batch'] != 0 and state['world_size'] != self._world:
            raise ValueError(f'state: it was saved in the middle of an epoch by one of {state["world_size"]} ranks, and this is one of {self._world}; go on with as many, or from an epoch\'s begin')
        place = (state['epoch'], state['batch'])
        if not self._stands_there(state['sampler'], place):
            raise ValueError(f'state: its epoch {place[0]} and batch {place[1]} are not where its sampler stands: {state["sampler"]!r:.100}')
        passing, self._pass = self._pass, None
        try:
            self._source.seek(state['sampler'])
        except BaseException:
            self._pass = passing
            raise
        self._release_waiting()
        self._again = False
        self._at = self._start = place

    def _stands_there(self, sampler, place):
        """Whether a sampler's state is of that epoch and batch. What else does not fit, the source says."""
        words = sampler.split()  # A version, the seed, epoch, sample, ..., the batch size and a digest.
        if len(words) < 5:
            return True
        if place[0] >= most_epochs or (words[2], words[3] == '0') != (str(place[0]), place[1] == 0):
            return False
        return words[-2] != str(self._batch_size) or (place[1] < self._batches and words[3] == self._source.state(place).split()[3])

    def report(self) -> dict:
        """What was read, cached, prepared and failed since the loader was made; samples, bytes and classes of the dataset."""
        return self._of_source(self._source.report)

    def close(self) -> None:
        """Prepares nothing more. Batches that the script still has stay valid; the threads that read end with the last of them."""
        if os.getpid() == self._process:
            self._pass = None
            self._closing = True
            self._taking.discard(threading.get_ident())
            if not (self._shared and self._taking):  # Else the thread that takes a batch ends it, as it may read what would go.
                self._end()

    def _end(self):
        if not self._taking:
            self._release_waiting()
        self._finalizer()

    def __del__(self):
        try:
            if self._waiting.token and os.getpid() == self._process:
                self._release_waiting()
        except Exception:  # It was never made as a whole, or the interpreter ends.
            pass

    def __enter__(self) -> 'Loader':
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __copy__(self):
        raise TypeError('a loader has threads and memory of its own: make another one instead of a copy')

    def __reduce__(self):
        self.__copy__()

    def __deepcopy__(self, _):
        self.__copy__()

    def _of_source(self, function, *arguments):
        self._require_usable()
        try:
            return function(*arguments)
        except (LoaderError, ValueError):
            self._require_usable()  # Another thread may have closed it meanwhile.
            raise

    def _require_usable(self):
        if os.getpid() != self._process:
            raise RuntimeError('this loader is the parent process\'s; a child of fork() makes one of its own')
        if self._closing or not self._finalizer.alive:
            if ending and threading.current_thread() is not threading.main_thread():
                raise SystemExit  # A daemon thread ends with the interpreter, without a word.
            raise RuntimeError('the loader is closed')


def _behind(batch):
    """The place behind a batch."""
    return (batch.epoch + 1, 0) if batch.last_of_epoch else (batch.epoch, batch.index + 1)


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
