"""Batches as scripts see them: containers are rebuilt at each hand-out, and what a script changed is never handed out again."""
import copy
import itertools
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


def shared_bytes_of(value):
    """Those of them that lie in memory which processes share."""
    return sum(kind.shared(item) for kind, item in leaves_of(value))


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
_numbers = itertools.count(1)


class _Exposable:
    """A batch whose tensors and arrays the script may be given as they are."""

    def __init__(self, batch):
        self.batch = batch
        self._leaves = leaves_of(batch)
        self._marks = self._marked()

    def _marked(self):
        return [kind.mark(item) for kind, item in self._leaves]

    def moved(self):
        """Whether an item's mark shows that the script has changed it."""
        return self._marked() != self._marks

    def differs(self, other):
        """Whether it is not what the other one is: some changes leave the marks as they were."""
        return not all(kind.same(item, kept) for (kind, item), (_, kept) in zip(self._leaves, other._leaves))


class _Kept:
    def __init__(self, batch, samples):
        self.number = next(_numbers)
        self.original = _Exposable(transform(batch, lambda kind, item: kind.own(item)))
        self.spare = None  # A copy, which the script is given in place of the original.
        self.samples = samples
        self.bytes = bytes_of(self.original.batch)

    def stand_in(self):
        return transform(self.original.batch, lambda kind, item: kind.stand_in(item))

    def copied(self):
        return transform(self.original.batch, lambda kind, item: kind.copied(item))


class Replay:
    """The batches that synthetic mode hands out in turn.

    In the first round the script gets copies. Each is compared with its original when the next batch is asked for, and once more after that, as scripts
    look one batch ahead. A script that leaves all of them as they were gets the same copies again, which takes no time, or the originals where the limit
    in bytes has no room for copies of all. A script that changes a batch, in the first round or later, gets copies that are made anew each time. Only an
    original that it changed has no copy, and leaves the set; the last two left are never handed out themselves. A single batch, NumPy's arrays and other
    objects are copied each time. Arrays that cannot be changed are handed out themselves, so that one that is donated to a computation leaves the set.
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
                if kept.original.moved() and kept in self.kept:
                    self._next -= self.kept.index(kept) < self._next
                    self.kept.remove(kept)
                    self.bytes -= kept.bytes
        self._left_alone += bool(self._exposed)
        self._exposed = self._exposed[-1:]
        if self.changed:
            self._exposed = [(kept, kept.original, False) for kept, _, _ in self._exposed]  # The script may have that one, too.
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
            return kept.copied()
        first_round = self._left_alone < len(self.kept)
        exposed = None if first_round else kept.spare
        if exposed is None:
            exposed = kept.original
            few = len(self.kept) <= 2
            if first_round or few:
                exposed = _Exposable(kept.copied() if few else kept.stand_in())
                kept.spare = exposed if len(self.kept) > 1 and 2 * self.bytes <= self._limit else None
        self._exposed.append((kept, exposed, first_round))
        return transform(exposed.batch, lambda kind, item: kind.again(item))
