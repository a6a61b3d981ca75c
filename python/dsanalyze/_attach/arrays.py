"""What batches hold beside PyTorch's tensors: arrays of NumPy, of JAX, and tensors of TensorFlow. None of these libraries is imported here.

A kind of such values says for a batch that is kept: own(), the value in memory of this process alone; stand_in(), what is handed out in place of that
one while it is not known whether the script changes it; again(), how either is handed out; copied(), what is handed out once a script has changed
one; mark(), which is another one once the value has changed; same(), whether it shows no difference between two of them; size() and shared(), its
bytes, and those of them in memory that processes share.
"""
import copy
import sys


class Arrays:
    """NumPy's. Nothing shows that a script has changed one in place, so that it is always given a copy."""

    own = again = copied = staticmethod(copy.copy)

    @staticmethod
    def has(value):
        return isinstance(value, getattr(sys.modules.get('numpy'), 'ndarray', ()))

    @staticmethod
    def stand_in(array):
        return array

    @staticmethod
    def same(one, other):
        return True

    @staticmethod
    def mark(array):
        return None

    @staticmethod
    def size(array):
        return array.nbytes

    @staticmethod
    def shared(array):
        return 0


class Immutables:
    """JAX's and TensorFlow's. None can be changed, but a script may donate one of JAX's to a computation, which deletes it."""

    _libraries = ('jax', 'jaxlib', 'tensorflow')

    @classmethod
    def has(cls, value):
        return type(value).__module__.partition('.')[0] in cls._libraries and hasattr(value, 'dtype') and hasattr(value, 'shape')

    @staticmethod
    def own(value):
        return value

    again = stand_in = own

    @staticmethod
    def same(one, other):
        return True

    @staticmethod
    def copied(value):
        return value.copy() if hasattr(value, 'is_deleted') else value

    @staticmethod
    def mark(value):
        return value.is_deleted() if hasattr(value, 'is_deleted') else None

    @staticmethod
    def size(value):
        bytes_of = getattr(value, 'nbytes', None)
        if bytes_of is None:
            bytes_of = value.dtype.size
            for length in value.shape:
                bytes_of *= length or 0
        return int(bytes_of)

    @staticmethod
    def shared(value):
        return 0
