"""A job of a dependent group for tests: writes what it got, by epoch, to FOLDER/job-N.json; may be slow, be killed, or leave, on its way."""

import argparse
import ctypes
import hashlib
import json
import os
import pathlib
import signal
import sys
import time

import minimal


class Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("batch_size", ctypes.c_uint32), ("address", ctypes.c_char_p), ("seed", ctypes.c_void_p),
                ("dataset_digest", ctypes.c_char_p), ("prep", ctypes.c_char_p), ("timeout_ms", ctypes.c_int32), ("reserved", ctypes.c_uint32),
                ("waiting", ctypes.c_void_p), ("waiting_context", ctypes.c_void_p), ("epochs", ctypes.c_uint64), ("subset", ctypes.c_char_p),
                ("name", ctypes.c_char_p)]


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--name", default=os.environ.get("DSANALYZE_JOB", "0"))
    parser.add_argument("--batch-size", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=0)
    parser.add_argument("--subset")
    parser.add_argument("--seconds", type=float, default=0, help="that each batch takes")
    parser.add_argument("--hurry", type=pathlib.Path, help="a file; from when it is there, batches take no time")
    parser.add_argument("--attached", type=pathlib.Path, help="a file that is made when the group has let this job in")
    parser.add_argument("--taken", type=pathlib.Path, help="a file that is made when this job has its first batch")
    parser.add_argument("--again", help="the name under which this job goes on when it comes again")
    parser.add_argument("--append", action="store_true", help="behind what it got before, when the group or SIGTERM has ended it, too")
    parser.add_argument("--kill-after", type=int, help="batches")
    parser.add_argument("--leave-after", type=int, help="batches")
    return parser.parse_args()


def take_all(library, client, options):
    batch = minimal.Batch(struct_size=ctypes.sizeof(minimal.Batch))
    epochs = {}
    taken = 0
    ended = []
    if options.append:
        signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    while (status := library.dsa_next(client, ctypes.byref(batch), 50 if options.append else -1)) in (minimal.DSA_OK, minimal.DSA_TIMEOUT):
        if status == minimal.DSA_TIMEOUT and not ended:
            continue
        if status == minimal.DSA_TIMEOUT:
            break
        size = batch.strides[0] * batch.dtype.bits // 8
        for i in range(batch.count):
            content = hashlib.sha256(ctypes.string_at(batch.samples + i * size, size)).hexdigest()[:16]
            epochs.setdefault(batch.epoch, []).append([batch.ids[i], batch.labels[i], content])
        taken += 1
        if options.taken is not None:
            options.taken.touch()
        if taken == options.kill_after:
            os.kill(os.getpid(), signal.SIGKILL)
        if options.hurry is None or not options.hurry.exists():
            time.sleep(options.seconds)
        library.dsa_release(client, batch.token)
        if taken == options.leave_after:
            break
    if options.append:
        write(options, epochs)
    if status not in (minimal.DSA_OK, minimal.DSA_END, minimal.DSA_TIMEOUT):
        sys.exit(f"{library.dsa_status_text(status).decode()}: {library.dsa_last_error().decode()}")
    return epochs


def write(options, epochs):
    file = options.folder / f"job-{options.name}.json"
    if not options.append:
        file.write_text(json.dumps(list(epochs.values())))
        return
    before = json.loads(file.read_text()) if file.exists() else []
    for number, samples in sorted(epochs.items()):
        before += [[] for _ in range(number + 1 - len(before))]
        before[number] += samples
    file.write_text(json.dumps(before))


def main():
    options = arguments()
    library = minimal.load()
    client = ctypes.c_void_p()
    asked = Options(struct_size=ctypes.sizeof(Options), batch_size=options.batch_size, epochs=options.epochs,
                    subset=options.subset.encode() if options.subset is not None else None,
                    name=options.again.encode() if options.again is not None else None)
    status = library.dsa_attach(ctypes.byref(asked), ctypes.byref(client))
    if status == minimal.DSA_END:  # it had all its epochs when it was here before
        return
    if status != minimal.DSA_OK:
        sys.exit(library.dsa_last_error().decode())
    if options.attached is not None:
        options.attached.touch()
    epochs = take_all(library, client, options)
    library.dsa_detach(client)
    if not options.append:
        write(options, epochs)


if __name__ == "__main__":
    main()
