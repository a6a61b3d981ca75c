"""Batches as scripts see them: containers are rebuilt at each hand-out, and what a script changed is never handed out again."""
import copy
import dataclasses
import itertools
import sys

import torch

max_depth = 16
_atoms = (str, bytes, int, float, complex, bool, type(None))


def transform(value, tensor, depth=0):
    """The same value in new containers, with tensor(t) for each of its tensors. What is unknown is copied by copy.copy() or, where that fails, shared."""
    if isinstance(value, torch.Tensor):
        return tensor(value)
    if isinstance(value, _atoms) or depth > max_depth:
        return value
    kind = type(value)
    if kind is dict:
        return {key: transform(item, tensor, depth + 1) for key, item in value.items()}
    if kind is list:
        return [transform(item, tensor, depth + 1) for item in value]
    if kind is tuple:
        return tuple(transform(item, tensor, depth + 1) for item in value)
    try:
        return _transform_other(value, tensor, depth)
    except Exception:
        return value


def _transform_other(value, tensor, depth):
    if isinstance(value, tuple):  # Named tuples, packed sequences.
        other = tuple.__new__(type(value), [transform(item, tensor, depth + 1) for item in value])
    else:
        other = copy.copy(value)
        if isinstance(other, dict):
            for key in list(other):
                other[key] = transform(other[key], tensor, depth + 1)
        elif isinstance(other, list):
            other[:] = [transform(item, tensor, depth + 1) for item in other]
    fields = getattr(value, '__dict__', None) or {}
    names = list(fields)
    if dataclasses.is_dataclass(value):
        names += [field.name for field in dataclasses.fields(value) if field.name not in fields]
    for name in names:
        item = getattr(value, name, None)
        if not isinstance(item, _atoms):
            object.__setattr__(other, name, transform(item, tensor, depth + 1))
    return other


def tensors_of(value):
    found = []

    def collect(tensor):
        found.append(tensor)
        return tensor

    transform(value, collect)
    return found


def bytes_of(value):
    total = sum(tensor.numel() * tensor.element_size() for tensor in tensors_of(value))
    return total if total > 0 else sys.getsizeof(value)


def samples_of(value):
    """How many samples a batch holds whose index list is not known: the first dimension of its first tensor, or else array."""
    for tensor in tensors_of(value):
        return int(tensor.shape[0]) if tensor.dim() > 0 else 1
    return leading(value) or (len(value) if isinstance(value, (list, tuple)) else 1)


def _first(value):
    while isinstance(value, (list, tuple, dict)) and value:
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]
    return value


def leading(value):
    """The first dimension of a batch's first tensor, where it lies in lists, tuples and dicts alone: a thousand times in a millisecond."""
    shape = getattr(_first(value), 'shape', None)
    return int(shape[0]) if shape else None


def row_length(value):
    """How many whole numbers each sample has, where a batch's first tensor or array is a matrix of them, as of tokens; 0 elsewhere."""
    value = _first(value)
    shape = getattr(value, 'shape', ())
    return int(shape[1]) if len(shape) == 2 and shape[1] > 1 and str(getattr(value, 'dtype', '')).rpartition('.')[2] in whole_numbers else 0


def is_shared(tensor):
    """Whether it lies in memory that processes share; a sparse one does not say."""
    try:
        return tensor.device.type == 'cpu' and tensor.is_shared()
    except (NotImplementedError, RuntimeError):
        return False


def _own(tensor):
    """Memory of this process alone: workers' shared memory holds a descriptor for each tensor."""
    return tensor.clone() if is_shared(tensor) else tensor


def _copied(tensor):
    """The same on memory of its own, pinned where the tensor's is. What is more than a tensor keeps its class and its attributes."""
    other = tensor.detach().clone()
    if torch.cuda.is_initialized() and tensor.is_pinned():
        other = other.pin_memory()
    if type(other) is not type(tensor):
        other = other.as_subclass(type(tensor))
    for name, value in tensor.__dict__.items():
        other.__dict__[name] = transform(value, _copied)
    return other.requires_grad_(tensor.requires_grad)


def _bits(tensor):
    """A tensor's memory as whole numbers: no number that is none (NaN) equals itself."""
    flat = tensor.detach().reshape(-1)
    of_eight = flat.numel() * flat.element_size() % 8 == 0 and flat.storage_offset() * flat.element_size() % 8 == 0
    return flat.view(torch.int64 if of_eight else torch.uint8)


def _same_bits(one, other):
    """True, too, where that cannot be seen: sparse and quantized tensors."""
    try:
        one, other = _bits(one), _bits(other)
        return one.shape != other.shape or torch.equal(one, other)
    except (RuntimeError, NotImplementedError):
        return True


def _alias(tensor):
    """A tensor of its own on the same memory and version counter, so that requires_grad, .grad or .data of the kept one stay as they were."""
    return tensor.detach() if type(tensor) is torch.Tensor and not tensor.__dict__ else tensor


whole_numbers = ('int16', 'int32', 'int64')  # Pixels are smaller.
_numbers = itertools.count(1)


class _Exposable:
    """A batch whose tensors the script may be given as they are."""

    def __init__(self, batch):
        self.batch = batch
        self.tensors = tensors_of(batch)
        self._versions = [tensor._version for tensor in self.tensors]

    def moved(self):
        """Whether an operation of PyTorch's has changed a tensor in place, which its version counter shows."""
        return any(tensor._version != version for tensor, version in zip(self.tensors, self._versions))

    def differs(self, other):
        """Whether it is not what the other one is: `tensor.data` and arrays on the same memory leave the version counter as it was."""
        return not all(map(_same_bits, self.tensors, other.tensors))


class _Kept:
    def __init__(self, batch, samples):
        self.number = next(_numbers)
        self.original = _Exposable(transform(batch, _own))
        self.spare = None  # A copy, which the script is given in place of the original.
        self.samples = samples
        self.bytes = bytes_of(self.original.batch)

    def copy(self):
        return transform(self.original.batch, _copied)


class Replay:
    """The batches that synthetic mode hands out in turn.

    In the first round the script gets copies. Each is compared with its original when the next batch is asked for, and once more after that, as scripts
    look one batch ahead. A script that leaves all of them as they were gets the same copies again, which takes no time, or the originals where the limit
    in bytes has no room for copies of all. A script that changes a batch, in the first round or later, gets copies that are made anew each time. Only an
    original that it changed has no copy, and leaves the set; the last one left is never handed out itself. Arrays and other objects are copied each time.
    """

    def __init__(self):
        self.kept = []
        self.bytes = 0
        self.changed = 0
        self._limit = 0
        self._next = 0
        self._exposed = []  # With the batch that it is of, and whether it is to be compared with it.
        self._left_alone = 0  # Hand-outs after which all was as before.

    def __len__(self):
        return len(self.kept)

    def add(self, batch, samples, limit):
        """Whether the batch was kept: at least one is, and then as many as stay below the limit in bytes."""
        kept = _Kept(batch, samples)
        self._limit = limit
        if self.kept and self.bytes + kept.bytes > limit:
            return False
        self.kept.append(kept)
        self.bytes += kept.bytes
        return True

    def drop_partial(self, batch_size):
        """Where a loader has a batch size, the last batch of an epoch may be smaller; it would come around too often."""
        whole = [kept for kept in self.kept if batch_size is None or kept.samples >= batch_size]
        self.kept = whole or self.kept
        self.bytes = sum(kept.bytes for kept in self.kept)

    def _check(self):
        for kept, exposed, compared in self._exposed:
            if exposed.moved() or (compared and exposed.differs(kept.original)):
                self.changed += 1
                if exposed is kept.original and kept in self.kept:
                    self._next -= self.kept.index(kept) < self._next
                    self.kept.remove(kept)
                    self.bytes -= kept.bytes
        self._left_alone += bool(self._exposed)
        self._exposed = self._exposed[-1:]
        if self.changed:
            self._exposed = [each for each in self._exposed if each[1] is each[0].original]  # The script may change that one, too.
            for kept in self.kept:
                kept.spare = None

    def next(self):
        """A batch, its samples, and its number."""
        self._check()
        if self._next >= len(self.kept):
            self._next = 0
        kept = self.kept[self._next]
        self._next += 1
        return self._expose(kept), kept.samples, kept.number

    def _expose(self, kept):
        if self.changed:
            return kept.copy()
        first_round = self._left_alone < len(self.kept)
        exposed = None if first_round else kept.spare
        if exposed is None:
            exposed = kept.original
            if first_round or len(self.kept) == 1:
                exposed = _Exposable(kept.copy())
                kept.spare = exposed if 2 * self.bytes <= self._limit else None
        self._exposed.append((kept, exposed, first_round))
        return transform(exposed.batch, _alias)
