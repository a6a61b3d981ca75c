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


def picture_of(value):
    """Height and width of the pictures of three colours that a batch's first tensor or array holds, channels first or last; () where it holds none."""
    shape = tuple(getattr(_first(value), 'shape', ()))
    if len(shape) != 4 or 3 not in (shape[1], shape[3]):
        return ()
    return tuple(map(int, shape[2:] if shape[1] == 3 else shape[1:3]))


def _own(tensor):
    """Memory of this process alone: workers' shared memory holds a descriptor for each tensor."""
    return tensor.clone() if tensor.device.type == 'cpu' and tensor.is_shared() else tensor


def _alias(tensor):
    """A tensor of its own on the same memory and version counter, so that requires_grad, .grad or .data of the kept one stay as they were."""
    return tensor.detach() if type(tensor) is torch.Tensor and not tensor.__dict__ else tensor


whole_numbers = ('int16', 'int32', 'int64')  # Pixels are smaller.
_numbers = itertools.count(1)


class _Kept:
    def __init__(self, batch, samples):
        self.number = next(_numbers)
        self.batch = transform(batch, _own)
        self.samples = samples
        self.bytes = bytes_of(self.batch)
        self.tensors = tensors_of(self.batch)
        self.versions = [tensor._version for tensor in self.tensors]

    def changed(self):
        for tensor, version in zip(self.tensors, self.versions):
            if tensor._version != version:
                return True
        return False


class Replay:
    """The batches that synthetic mode hands out in turn.

    The batch handed out last is looked at before the next one: one that the script changed leaves the set, and from then on only clones are handed out.
    The last batch left is handed out as a clone from the start, so the set is never empty.
    """

    def __init__(self):
        self.kept = []
        self.bytes = 0
        self.changed = 0
        self._next = 0
        self._exposed = []
        self._clone = False

    def __len__(self):
        return len(self.kept)

    def add(self, batch, samples, limit):
        """Whether the batch was kept: at least one is, and then as many as stay below the limit in bytes."""
        kept = _Kept(batch, samples)
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
        for kept in self._exposed:
            if kept.changed():
                self.changed += 1
                self._clone = True
                if kept in self.kept:
                    self._next -= self.kept.index(kept) < self._next
                    self.kept.remove(kept)
                    self.bytes -= kept.bytes
        self._exposed = self._exposed[-1:]

    def next(self):
        """A batch, its samples, and its number."""
        self._check()
        if self._next >= len(self.kept):
            self._next = 0
        kept = self.kept[self._next]
        self._next += 1
        if self._clone or len(self.kept) == 1:
            return transform(kept.batch, torch.Tensor.clone), kept.samples, kept.number
        self._exposed.append(kept)
        return transform(kept.batch, _alias), kept.samples, kept.number
