"""What batches hold beside PyTorch's tensors: arrays of NumPy, of JAX, and tensors of TensorFlow. None of these libraries is imported here.

A kind of such values says for a batch that is kept: own(), the value in memory of this process alone; copied(), what is handed out in its place, which the
script may change; size(), the bytes that it takes; room(), what is free of a device's memory.
"""
import copy
import sys


class Arrays:
    """NumPy's."""

    own = copied = staticmethod(copy.copy)

    @staticmethod
    def has(value):
        return isinstance(value, getattr(sys.modules.get('numpy'), 'ndarray', ()))

    @staticmethod
    def size(array):
        return array.nbytes

    @staticmethod
    def room(array):
        return None


class Immutables:
    """JAX's and TensorFlow's. None can be changed, but a script may donate one of JAX's to a computation, which deletes it."""

    _libraries = ('jax', 'jaxlib', 'tensorflow')

    @classmethod
    def has(cls, value):
        return type(value).__module__.partition('.')[0] in cls._libraries and hasattr(value, 'dtype') and hasattr(value, 'shape')

    @staticmethod
    def own(value):
        return value

    @staticmethod
    def copied(value):
        return value.copy() if hasattr(value, 'is_deleted') else value

    @staticmethod
    def size(value):
        bytes_of = getattr(value, 'nbytes', None)
        if bytes_of is None:
            bytes_of = value.dtype.size
            for length in value.shape:
                bytes_of *= length or 0
        return int(bytes_of)

    @staticmethod
    def room(value):
        return None
