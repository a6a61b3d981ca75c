"""Arrays of ctypes that support DLPack, for scripts that have neither PyTorch nor NumPy. Imports the standard library alone."""
import atexit
import ctypes
import functools
from typing import Any, Optional, Tuple

from ._library import DType

device_of_cpu = (1, 0)  # kDLCPU, and its first one.
# By an element as NumPy writes it: the type of ctypes, and the code of DLPack (kDLInt, kDLUInt, kDLFloat, kDLBool).
_kinds = {'f4': (ctypes.c_float, 2), 'f8': (ctypes.c_double, 2), 'u1': (ctypes.c_uint8, 1), 'u2': (ctypes.c_uint16, 1), 'u4': (ctypes.c_uint32, 1),
          'u8': (ctypes.c_uint64, 1), 'i1': (ctypes.c_int8, 0), 'i2': (ctypes.c_int16, 0), 'i4': (ctypes.c_int32, 0), 'i8': (ctypes.c_int64, 0),
          'b1': (ctypes.c_bool, 6)}


class _Device(ctypes.Structure):
    _fields_ = [('type', ctypes.c_int32), ('number', ctypes.c_int32)]


class _Tensor(ctypes.Structure):
    _fields_ = [('data', ctypes.c_void_p), ('device', _Device), ('ndim', ctypes.c_int32), ('dtype', DType), ('shape', ctypes.POINTER(ctypes.c_int64)),
                ('strides', ctypes.POINTER(ctypes.c_int64)), ('byte_offset', ctypes.c_uint64)]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [('tensor', _Tensor), ('context', ctypes.c_void_p), ('deleter', _Deleter)]


def _python(name, result, *arguments):
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_new = _python('PyCapsule_New', ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_is_valid = _python('PyCapsule_IsValid', ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_pointer = _python('PyCapsule_GetPointer', ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_name = ctypes.c_char_p(b'dltensor')
_lent = {}  # What consumers of capsules read, by the address that they have.


@_Deleter
def _delete(address, lent=_lent):
    lent.pop(address, None)


# A capsule is at the end of its life here, so it is an address: a Python reference would bring it back.
@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _drop(capsule, lent=_lent, name=_name, is_valid=_is_valid, pointer=_pointer):
    if is_valid(capsule, name):  # No consumer has taken it.
        lent.pop(pointer(capsule, name), None)


@atexit.register
def _keep_all(lent=_lent):
    """A consumer may let go of memory when the interpreter is gone, and calls no function of it then."""
    for managed, *_ in list(lent.values()):
        managed.deleter = _Deleter()


for _kept in (_lent, _delete, _drop, _name, _is_valid, _pointer):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_kept))  # Also while the interpreter clears this module.


def _capsule(array, element, shape):
    """A capsule of the array's memory, which stays until the consumer's tensor is gone. Threads: any may let go of it."""
    lengths = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    code = _kinds[element][1]
    tensor = _Tensor(ctypes.addressof(array), _Device(*device_of_cpu), len(shape), DType(code, 8 * int(element[1]), 1), lengths, None, 0)
    managed = _Managed(tensor, None, _delete)
    address = ctypes.addressof(managed)
    _lent[address] = (managed, lengths, array)
    try:
        return _new(address, _name, ctypes.cast(_drop, ctypes.c_void_p))
    except BaseException:
        del _lent[address]
        raise


class Array:
    """A dense array in memory of ctypes: memoryview(), NumPy and whatever reads buffers or DLPack read it where it lies.

    `array[0][2]` and `array[0, 2]` are elements, or parts that are arrays of ctypes. Threads: as memory.
    """

    _element = ''
    #: Its dimensions.
    shape: Tuple[int, ...] = ()

    def __getitem__(self, at: Any) -> Any:
        if not isinstance(at, tuple):
            return super().__getitem__(at)
        return functools.reduce(lambda part, index: part[index], at, self)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return ctypes.sizeof(self)

    def tobytes(self) -> bytes:
        """A copy of its bytes."""
        return memoryview(self).tobytes()

    def tolist(self) -> list:
        """Its elements, as nested lists of numbers."""
        def of(part):
            return [of(each) for each in part] if isinstance(part, ctypes.Array) else part
        return of(self)

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Optional[Tuple[int, int]] = None, copy: Optional[bool] = None) -> Any:
        """A capsule as DLPack describes it, of version 0. Raises BufferError for another device or a stream, which the CPU does not have."""
        del max_version  # An older capsule than a consumer knows is allowed.
        if stream is not None or dl_device not in (None, device_of_cpu):
            raise BufferError('the array is in the memory of the CPU, which has no streams')
        return _capsule(type(self).from_buffer_copy(self) if copy else self, self._element, self.shape)

    def __dlpack_device__(self) -> Tuple[int, int]:
        """The CPU, as DLPack numbers devices."""
        return device_of_cpu


@functools.lru_cache(maxsize=256)
def array_type(element: str, shape: Tuple[int, ...]) -> Any:
    """The type of arrays with elements such as "f4" and such a shape: a type of ctypes, with from_buffer() and from_buffer_copy()."""
    inner = _kinds[element][0]
    for length in shape[:0:-1]:
        inner = inner * length
    return type('Array', (Array, ctypes.Array), {'_type_': inner, '_length_': shape[0], '_element': element, 'shape': shape, '__module__': __name__})


def has(element: str) -> bool:
    """Whether arrays may have elements such as "f4"."""
    return element in _kinds
