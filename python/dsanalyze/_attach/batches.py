"""Batches as scripts see them: what they hold, and copies of those that are handed out again and again."""
import collections
import copy
import sys

from .arrays import Arrays, Immutables

max_depth = 16
_atoms = (str, bytes, int, float, complex, bool, type(None))
kinds = [Arrays, Immutables]  # PyTorch's tensors come to them with PyTorch (pytorch.py).


def transform(value, leaf, depth=0):
    """The same value in new containers, with leaf(kind, item) for each item of one of `kinds`. What is unknown is copied by copy.copy() or, where that
    fails, shared."""
    if isinstance(value, _atoms) or depth > max_depth:
        return value
    for kind in kinds:
        if kind.has(value):
            return leaf(kind, value)
    kind = type(value)
    if kind is dict:
        return {key: transform(item, leaf, depth + 1) for key, item in value.items()}
    if kind is list:
        return [transform(item, leaf, depth + 1) for item in value]
    if kind is tuple:
        return tuple(transform(item, leaf, depth + 1) for item in value)
    try:
        return _transform_other(value, leaf, depth)
    except Exception:
        return value


def _transform_other(value, leaf, depth):
    trees = sys.modules.get('jax.tree_util')
    if trees is not None and not trees.all_leaves([value]):  # A container that JAX knows, as Flax's frozen dict.
        return trees.tree_map(lambda item: transform(item, leaf, depth + 1), value, is_leaf=lambda item: item is not value)
    if isinstance(value, tuple):  # Named tuples, packed sequences.
        other = tuple.__new__(type(value), [transform(item, leaf, depth + 1) for item in value])
    else:
        other = copy.copy(value)
        if isinstance(other, dict):
            for key in list(other):
                other[key] = transform(other[key], leaf, depth + 1)
        elif isinstance(other, list):
            other[:] = [transform(item, leaf, depth + 1) for item in other]
    fields = getattr(value, '__dict__', None) or {}
    for name in [*fields, *(name for name in getattr(type(value), '__dataclass_fields__', ()) if name not in fields)]:
        item = getattr(value, name, None)
        if not isinstance(item, _atoms):
            object.__setattr__(other, name, transform(item, leaf, depth + 1))
    return other


def leaves_of(value):
    """(kind, item) of each item of one of `kinds`, in their order."""
    found = []

    def collect(kind, item):
        found.append((kind, item))
        return item

    transform(value, collect)
    return found


def bytes_of(value):
    total = sum(kind.size(item) for kind, item in leaves_of(value))
    return total if total > 0 else sys.getsizeof(value)


def room_for(value):
    """Bytes that are free on the fullest of the devices that it lies on; None where it is the host's alone."""
    return min((room for room in (kind.room(item) for kind, item in leaves_of(value)) if room is not None), default=None)


def samples_of(value):
    """How many samples a batch holds whose index list is not known: the first dimension of its first tensor or array, or else its number of items."""
    shapes = [item.shape for _, item in leaves_of(value)]
    if shapes:
        return next((int(shape[0]) for shape in shapes if len(shape) > 0), 1)
    return leading(value) or _items(value)


def _items(value):
    """Of a batch of Python's own values: those of its first list, or of a tuple that has none."""
    while isinstance(value, (dict, tuple)) and value:
        first = next(iter(value.values())) if isinstance(value, dict) else value[0]
        if isinstance(value, tuple) and not isinstance(first, (dict, list)):
            break
        value = first
    return len(value) if isinstance(value, (list, tuple)) and value else 1


def _first(value):
    while isinstance(value, (list, tuple, dict)) and value:
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]
    return value


def leading(value):
    """The first dimension of a batch's first tensor, where it lies in lists, tuples and dicts alone: a thousand times in a millisecond."""
    shape = getattr(_first(value), 'shape', None)
    return int(shape[0]) if shape else None


def samples_seen(value):
    """As samples_of(), by leading() where that says it: under --passive, where nothing of a batch's own is called."""
    return leading(value) or (1 if hasattr(_first(value), 'shape') else _items(value))


def row_length(value):
    """How many whole numbers each sample has, where a batch's first tensor or array is a matrix of them, as of tokens; 0 elsewhere."""
    value = _first(value)
    shape = getattr(value, 'shape', ())
    return int(shape[1]) if len(shape) == 2 and shape[1] > 1 and _element(value) in whole_numbers else 0


def picture_of(value):
    """Height and width of the pictures of three colours that a batch's first tensor or array holds, channels first or last; () where it holds none, and
    where another one is a batch of pictures, too (several views of a sample, masks in colour)."""
    shape = tuple(getattr(_first(value), 'shape', ()))
    if len(shape) != 4 or 3 not in (shape[1], shape[3]):
        return ()
    if sum(len(getattr(item, 'shape', ())) == 4 for _, item in leaves_of(value)) > 1:
        return ()
    return tuple(map(int, shape[2:] if shape[1] == 3 else shape[1:3]))


def _element(value):
    """The type of an array's elements: "int64"."""
    kind = getattr(value, 'dtype', '')
    return getattr(kind, 'name', None) or str(kind).rpartition('.')[2]


whole_numbers = ('int16', 'int32', 'int64')  # Pixels are smaller.


class Replay:
    """The batches that are handed out again and again, in turn. A script may change what it is given, so that it is given copies, which are made by prepare():
    between two windows of steps, and not within one."""

    def __init__(self, limit):
        """`limit`: bytes of them and of their copies."""
        self.kept = []  # With the samples of each.
        self.bytes = 0
        self._limit = limit
        self.last_samples = 0  # Of the batch that was handed out last.
        self.at_hand = collections.deque()  # Copies, with the samples of each.
        self._most = 1
        self._next = 0

    def add(self, batch, samples):
        """Whether the batch was kept: at least one is, and then as many as leave half of the limit to copies."""
        own = transform(batch, lambda kind, item: kind.own(item))
        size = bytes_of(own)
        if not self.kept:
            room = room_for(own)
            self._limit = self._limit if room is None else min(self._limit, room // 2)
        elif 2 * (self.bytes + size) > self._limit:
            return False
        self.kept.append((own, samples))
        self.bytes += size
        self._most = max(1, (self._limit - self.bytes) * len(self.kept) // max(self.bytes, 1))
        return True

    def drop_partial(self, batch_size):
        """Where a loader has a batch size, the last batch of an epoch may be smaller; it would come around too often."""
        self.kept = [kept for kept in self.kept if batch_size is None or kept[1] >= batch_size] or self.kept

    def copies(self):
        """How many may be made before a window."""
        return self._most

    def prepare(self, steps):
        """So many copies are at hand before they are handed out; as many as there is memory for."""
        for _ in range(min(steps, self._most) - len(self.at_hand)):
            self._copy()

    def _copy(self):
        batch, samples = self.kept[self._next % len(self.kept)]
        self._next += 1
        self.at_hand.append((transform(batch, lambda kind, item: kind.copied(item)), samples))

    def next(self):
        if not self.at_hand:
            self._copy()
        batch, self.last_samples = self.at_hand.popleft()
        return batch
