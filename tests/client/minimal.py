"""Takes the batches of a group, one after another, and says which samples they had.

DSANALYZE_GROUP=unix:PATH python3 minimal.py      as `dsanalyze share` prints it
"""

import ctypes
import os
import sys

DSA_OK, DSA_TIMEOUT, DSA_END = 0, 1, 2
DSA_MAX_DIMENSIONS = 8
FORMATS = {(1, 8): "B", (2, 32): "f"}  # (dtype code, bits): as the struct module has them


class DType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Terms(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("place", ctypes.c_uint32), ("jobs", ctypes.c_uint32), ("batch_size", ctypes.c_uint32),
                ("held", ctypes.c_uint32), ("producers", ctypes.c_uint32), ("samples", ctypes.c_uint64), ("batches_per_epoch", ctypes.c_uint64),
                ("epochs", ctypes.c_uint64), ("first_epoch", ctypes.c_uint64), ("seed", ctypes.c_uint64), ("slot_bytes", ctypes.c_uint64),
                ("dtype", DType), ("ndim", ctypes.c_int32), ("shape", ctypes.c_int64 * DSA_MAX_DIMENSIONS),
                ("strides", ctypes.c_int64 * DSA_MAX_DIMENSIONS), ("dataset_digest", ctypes.c_char_p), ("prep", ctypes.c_char_p)]


class Batch(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("count", ctypes.c_uint32), ("failed", ctypes.c_uint32), ("last_of_epoch", ctypes.c_uint32),
                ("epoch", ctypes.c_uint64), ("index", ctypes.c_uint64), ("token", ctypes.c_uint64), ("samples", ctypes.c_void_p),
                ("ids", ctypes.POINTER(ctypes.c_uint32)), ("labels", ctypes.POINTER(ctypes.c_uint32)), ("dtype", DType), ("ndim", ctypes.c_int32),
                ("shape", ctypes.c_int64 * DSA_MAX_DIMENSIONS), ("strides", ctypes.c_int64 * DSA_MAX_DIMENSIONS)]


def load():
    """The library, with the types of its calls."""
    library = ctypes.CDLL(os.environ.get("DSANALYZE_LIBRARY", "libdsanalyze.so.0"))
    library.dsa_last_error.restype = ctypes.c_char_p
    library.dsa_status_text.restype = ctypes.c_char_p
    library.dsa_attach.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)]
    library.dsa_info.argtypes = [ctypes.c_void_p, ctypes.POINTER(Terms)]
    library.dsa_next.argtypes = [ctypes.c_void_p, ctypes.POINTER(Batch), ctypes.c_int32]
    library.dsa_release.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    library.dsa_detach.argtypes = [ctypes.c_void_p]
    return library


def samples_of(batch):
    """The batch where it lies, shape[0] x shape[1] x ...; nothing is copied. It must not be used after dsa_release()."""
    shape = list(batch.shape[:batch.ndim])
    size = batch.dtype.bits // 8
    for extent in shape:
        size *= extent
    memory = memoryview((ctypes.c_ubyte * size).from_address(batch.samples)).toreadonly().cast("B")
    return memory.cast(FORMATS[(batch.dtype.code, batch.dtype.bits)], shape) if size > 0 else memory


def main():
    library = load()
    client = ctypes.c_void_p()
    terms = Terms(struct_size=ctypes.sizeof(Terms))
    if library.dsa_attach(None, ctypes.byref(client)) != DSA_OK or library.dsa_info(client, ctypes.byref(terms)) != DSA_OK:
        print("minimal:", library.dsa_last_error().decode(), file=sys.stderr)
        return 1
    print(f"job {terms.place} of {terms.jobs}: {terms.samples} samples an epoch, prep: {terms.prep.decode()}")

    batch = Batch(struct_size=ctypes.sizeof(Batch))
    samples = digest = 0
    while (status := library.dsa_next(client, ctypes.byref(batch), -1)) in (DSA_OK, DSA_TIMEOUT):
        if status == DSA_TIMEOUT:
            continue  # the other jobs have not come yet, or are slow
        images = samples_of(batch)
        # Train here: sample i of images is of class batch.labels[i]; numpy.asarray(images) copies nothing either.
        assert len(images) == batch.count
        digest += sum(batch.ids[i] + 1 for i in range(batch.count)) * 0x9E3779B97F4A7C15
        samples += batch.count
        if batch.last_of_epoch:
            print(f"epoch {batch.epoch}: {samples} samples, digest {digest % 2**64:016x}")
            samples = digest = 0
        images.release()
        library.dsa_release(client, batch.token)
    if status != DSA_END:
        print(f"minimal: {library.dsa_status_text(status).decode()}: {library.dsa_last_error().decode()}", file=sys.stderr)
    library.dsa_detach(client)
    return 0 if status == DSA_END else 1


if __name__ == "__main__":
    sys.exit(main())
