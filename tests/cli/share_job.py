"""A job of a group for tests: writes a digest of each sample's bytes, by epoch, to FOLDER/job-N.json; may be killed, or leave, on its way."""

import argparse
import ctypes
import hashlib
import json
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "client"))
import minimal  # pylint: disable=wrong-import-position


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--kill-job", default="none")
    parser.add_argument("--after", type=int, default=0)
    parser.add_argument("--leave-after", type=int)
    parser.add_argument("--leave-at-once", action="store_true")
    parser.add_argument("--die-at-once", action="store_true")
    options = parser.parse_args()
    number = os.environ.get("DSANALYZE_JOB", "0")
    library = minimal.load()
    library.dsa_leave_after.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    client = ctypes.c_void_p()
    if library.dsa_attach(None, ctypes.byref(client)) != minimal.DSA_OK:
        sys.exit(library.dsa_last_error().decode())
    if options.leave_at_once:
        library.dsa_detach(client)
    if options.leave_at_once or options.die_at_once:
        os._exit(0)  # pylint: disable=protected-access
    if options.leave_after is not None:
        library.dsa_leave_after(client, options.leave_after)
    batch = minimal.Batch(struct_size=ctypes.sizeof(minimal.Batch))
    epochs = {}
    taken = 0
    while (status := library.dsa_next(client, ctypes.byref(batch), -1)) in (minimal.DSA_OK, minimal.DSA_TIMEOUT):
        if status == minimal.DSA_TIMEOUT:
            continue
        if number == options.kill_job and taken == options.after:
            os.kill(os.getpid(), signal.SIGKILL)
        taken += 1
        size = batch.strides[0] * batch.dtype.bits // 8
        for i in range(batch.count):
            content = hashlib.sha256(ctypes.string_at(batch.samples + i * size, size)).hexdigest()
            epochs.setdefault(batch.epoch, {})[batch.ids[i]] = f"{content[:16]} {batch.labels[i]}"
        library.dsa_release(client, batch.token)
    if status != minimal.DSA_END:
        sys.exit(library.dsa_last_error().decode())
    library.dsa_detach(client)
    (options.folder / f"job-{number}.json").write_text(json.dumps([dict(sorted(epoch.items())) for epoch in epochs.values()]))


if __name__ == "__main__":
    main()
