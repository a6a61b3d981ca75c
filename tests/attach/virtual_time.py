"""Time that passes where the main thread sleeps, and nowhere else: what is clocked of a script is what it asks for, on any machine. To be installed before the hook."""
import sys
import threading
import time
import types

at = 10**12
sleep = time.sleep


def pass_by(seconds):
    """What `time.sleep` is. Other threads, as those of the hook that look now and then, sleep for real."""
    global at
    if threading.current_thread() is threading.main_thread():
        at += round(seconds * 1e9)
    else:
        sleep(seconds)


def install():
    """What waits for other processes has the real clock: a deadline there would never come."""
    real = types.SimpleNamespace(**vars(time))
    for name in ('connection', 'queues', 'synchronize'):
        module = sys.modules.get('multiprocessing.' + name)  # A script that has no use for it is not given it.
        if module is not None:
            module.time = real
    time.sleep = pass_by
    time.monotonic_ns = lambda: at
    time.monotonic = lambda: at / 1e9
