"""What a batch is for a script: torch tensors, NumPy arrays, or arrays of ctypes in the memory that the library wrote."""
import ctypes
import importlib.util
import sys

from . import _dlpack


class Torch:
    """Batches as torch tensors."""

    _names = {'f2': 'float16', 'f4': 'float32', 'f8': 'float64', 'u1': 'uint8', 'i1': 'int8', 'i2': 'int16', 'i4': 'int32', 'i8': 'int64', 'b1': 'bool'}

    def __init__(self, pin):
        import torch
        self._torch = torch
        self.copies = pin and torch.cuda.is_available()

    def has(self, element):
        return element in self._names

    def samples(self, buffer, size, element, shape, copy):
        torch = self._torch
        dtype = getattr(torch, self._names[element])
        if size == 0:
            return torch.empty(shape, dtype=dtype)
        tensor = torch.frombuffer(buffer, dtype=dtype, count=size // int(element[1])).reshape(shape)
        if self.copies:
            return torch.empty(shape, dtype=dtype, pin_memory=True).copy_(tensor)  # PyTorch knows then when the device has read it.
        return tensor.clone() if copy else tensor

    def numbers(self, address, count):
        torch = self._torch
        if count == 0:
            return torch.empty(0, dtype=torch.int64)
        return torch.frombuffer((ctypes.c_int32 * count).from_address(address), dtype=torch.int32).to(torch.int64)


class NumPy:
    """Batches as NumPy arrays."""

    copies = False

    def __init__(self):
        import numpy
        self._numpy = numpy

    def has(self, element):
        return element[0] in 'fuib'

    def samples(self, buffer, size, element, shape, copy):
        numpy = self._numpy
        if size == 0:
            return numpy.empty(shape, element)
        array = numpy.frombuffer(buffer, element, size // int(element[1])).reshape(shape)
        return array.copy() if copy else array

    def numbers(self, address, count):
        numpy = self._numpy
        if count == 0:
            return numpy.empty(0, numpy.int64)
        return numpy.frombuffer((ctypes.c_uint32 * count).from_address(address), numpy.uint32).astype(numpy.int64)


class Buffers:
    """Batches as arrays of ctypes, where there is neither."""

    copies = False

    def has(self, element):
        return _dlpack.has(element)

    def samples(self, buffer, size, element, shape, copy):
        kind = _dlpack.array_type(element, tuple(shape))
        return kind.from_buffer_copy(buffer) if copy else kind.from_buffer(buffer)

    def numbers(self, address, count):
        return _dlpack.array_type('i8', (count,))(*(ctypes.c_uint32 * count).from_address(address)) if count else _dlpack.array_type('i8', (0,))()


def makers_of(output, pin):
    """What makes batches as `output` says; nothing: as what is installed. `pin`: in pinned memory, where CUDA is."""
    if output is None:
        output = next((name for name in ('torch', 'numpy') if name in sys.modules or importlib.util.find_spec(name)), 'memoryview')
    if output == 'torch':
        return Torch(pin)
    if output == 'numpy':
        return NumPy()
    if output == 'memoryview':
        return Buffers()
    raise ValueError(f'output: found {output!r}, expected "torch", "numpy" or "memoryview"')
