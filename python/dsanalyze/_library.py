"""libdsanalyze, as dsanalyze.h describes it. Imports the standard library alone."""
import ctypes
import ctypes.util
import os
import pathlib
import re

OK, TIMEOUT, END, BUSY, INVALID, NO_GROUP, REFUSED, LOST, EXPELLED, FAILED, NO_MEMORY, FORKED = range(12)
FLOAT, SAMPLE = 2, 3
soname = 'libdsanalyze.so.0'
most_dimensions = 8


class LoaderError(RuntimeError):
    """Loading failed: samples that cannot be read or decoded, or a group that is gone. The text says which and why."""


class DType(ctypes.Structure):
    _fields_ = [('code', ctypes.c_uint8), ('bits', ctypes.c_uint8), ('lanes', ctypes.c_uint16)]


class Terms(ctypes.Structure):
    _fields_ = [('struct_size', ctypes.c_uint32), ('place', ctypes.c_uint32), ('jobs', ctypes.c_uint32), ('batch_size', ctypes.c_uint32), ('held', ctypes.c_uint32),
                ('producers', ctypes.c_uint32), ('samples', ctypes.c_uint64), ('batches_per_epoch', ctypes.c_uint64), ('epochs', ctypes.c_uint64),
                ('first_epoch', ctypes.c_uint64), ('seed', ctypes.c_uint64), ('slot_bytes', ctypes.c_uint64), ('dtype', DType), ('ndim', ctypes.c_int32),
                ('shape', ctypes.c_int64 * most_dimensions), ('strides', ctypes.c_int64 * most_dimensions), ('dataset_digest', ctypes.c_char_p), ('prep', ctypes.c_char_p)]


class Batch(ctypes.Structure):
    _fields_ = [('struct_size', ctypes.c_uint32), ('count', ctypes.c_uint32), ('failed', ctypes.c_uint32), ('last_of_epoch', ctypes.c_uint32), ('epoch', ctypes.c_uint64),
                ('index', ctypes.c_uint64), ('token', ctypes.c_uint64), ('samples', ctypes.c_void_p), ('ids', ctypes.c_void_p), ('labels', ctypes.c_void_p), ('dtype', DType),
                ('ndim', ctypes.c_int32), ('shape', ctypes.c_int64 * most_dimensions), ('strides', ctypes.c_int64 * most_dimensions)]


class Sample(ctypes.Structure):
    _fields_ = [('data', ctypes.c_void_p), ('bytes', ctypes.c_uint64), ('height', ctypes.c_uint32), ('width', ctypes.c_uint32)]


class Options(ctypes.Structure):
    _fields_ = [('struct_size', ctypes.c_uint32), ('batch_size', ctypes.c_uint32), ('address', ctypes.c_char_p), ('seed', ctypes.c_void_p), ('dataset_digest', ctypes.c_char_p),
                ('prep', ctypes.c_char_p), ('timeout_ms', ctypes.c_int32), ('reserved', ctypes.c_uint32), ('waiting', ctypes.c_void_p), ('waiting_context', ctypes.c_void_p),
                ('epochs', ctypes.c_uint64), ('subset', ctypes.c_char_p), ('name', ctypes.c_char_p)]


def sized(struct):
    """A struct that says its size, all else zero."""
    made = struct()
    made.struct_size = ctypes.sizeof(struct)
    return made


def _places():
    """Where the library may be: where the environment says; else in the package, as a wheel has it, or beside it, installed with the program; else where the system looks."""
    if os.environ.get('DSANALYZE_LIBRARY'):
        yield os.environ['DSANALYZE_LIBRARY']
        return
    here = pathlib.Path(__file__).resolve().parent
    for above in [here, *list(here.parents)[:5]]:
        for folder in ('lib', 'lib64'):
            yield above / folder / soname
            yield from sorted((above / folder).glob(f'*-linux-gnu*/{soname}'))
    yield soname


_functions = {
    'dsa_version': (ctypes.c_uint32, []),
    'dsa_status_text': (ctypes.c_char_p, [ctypes.c_int32]),
    'dsa_last_error': (ctypes.c_char_p, []),
    'dsa_attach': (ctypes.c_int32, [ctypes.POINTER(Options), ctypes.POINTER(ctypes.c_void_p)]),
    'dsa_info': (ctypes.c_int32, [ctypes.c_void_p, ctypes.POINTER(Terms)]),
    'dsa_next': (ctypes.c_int32, [ctypes.c_void_p, ctypes.POINTER(Batch), ctypes.c_int32]),
    'dsa_release': (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_uint64]),
    'dsa_detach': (ctypes.c_int32, [ctypes.c_void_p]),
    'dsa_loader_open': (ctypes.c_int32, [ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)]),
    'dsa_loader_info': (ctypes.c_int32, [ctypes.c_void_p, ctypes.POINTER(Terms)]),
    'dsa_loader_ready': (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_int32]),
    'dsa_loader_next': (ctypes.c_int32, [ctypes.c_void_p, ctypes.POINTER(Batch), ctypes.c_int32]),
    'dsa_loader_release': (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_uint64]),
    'dsa_loader_state': (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_char_p, ctypes.POINTER(ctypes.c_size_t)]),
    'dsa_loader_seek': (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_char_p]),
    'dsa_loader_report': (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_size_t)]),
    'dsa_loader_close': (ctypes.c_int32, [ctypes.c_void_p]),
}
_loaded = None


def path():
    """Where the library was found, as the system's loader has it."""
    return library()._name


def library():
    """The library, loaded once. Raises ImportError that says where it was looked for."""
    global _loaded
    if _loaded is not None:
        return _loaded
    errors = []
    for place in _places():
        if isinstance(place, pathlib.Path) and not place.exists():
            continue
        try:
            found = ctypes.CDLL(os.fspath(place))
        except OSError as error:
            errors.append(f'{place}: {error}')
            continue
        try:
            for name, (result, arguments) in _functions.items():
                function = getattr(found, name)
                function.restype, function.argtypes = result, arguments
        except AttributeError as error:
            raise ImportError(f'{place} is no libdsanalyze, or an older one than this package: {error}') from None
        _loaded = found
        return found
    raise ImportError(f'{soname} was not found; set DSANALYZE_LIBRARY to its path ({"; ".join(errors) or "it is not beside this package"})')


def last_error():
    return library().dsa_last_error().decode(errors='replace')


_arguments_of = {'world': 'world_size', 'flip_probability': 'p', 'deviation': 'std'}  # By the keys of dsa_loader_open().


def as_arguments(text):
    """A message in which options of the command line, and places in JSON, are named as arguments are."""
    text = re.sub(r'^(?:options|\S*/prep\.json): (?:(?:settings|prep): )?(?:(?:/[a-z_]+)*/([a-z_]+)(?:/\d+)?: )?',
                  lambda place: f'{_arguments_of.get(place[1], place[1])}: ' if place[1] else '', text)
    return re.sub(r'--([a-z][a-z-]*)', lambda option: option[1].replace('-', '_'), text)


def error_of(status):
    """The exception for a status that is not OK."""
    text = as_arguments(last_error())
    if status == INVALID:
        return ValueError(text)
    if status == NO_MEMORY:
        return MemoryError(text)
    return LoaderError(text or library().dsa_status_text(status).decode())


def require_ok(status):
    if status != OK:
        raise error_of(status)


def text_of(function, *arguments):
    """What a function writes into a buffer."""
    size = ctypes.c_size_t(0)
    require_ok(function(*arguments, None, ctypes.byref(size)))
    while True:
        room = ctypes.create_string_buffer(size.value + 256)  # It may grow in between.
        size.value = len(room)
        status = function(*arguments, room, ctypes.byref(size))
        if status == INVALID and size.value > len(room):
            continue
        require_ok(status)
        return room.value.decode(errors='replace')
