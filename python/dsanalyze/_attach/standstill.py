"""For a training that stands still: the launcher asks each process by a signal where its main thread is, and reads which batch is waited for."""
import faulthandler
import fcntl
import mmap
import os
import signal
from time import monotonic_ns as now

shown_samples = 8
batch_bytes = 512
between_signs = 200000000
least_descriptor = 200  # Scripts that close the low ones, or count on the next one, are left alone.


def _free_signals():
    """Two real-time signals that nothing handles; None where there are none."""
    free = [number for number in range(signal.SIGRTMAX - 8, signal.SIGRTMIN + 8, -1) if signal.getsignal(number) == signal.SIG_DFL]
    return free[:2] if len(free) > 1 else None


def _open(path, flags):
    low = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC | flags, 0o600)
    try:
        return fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, least_descriptor)
    finally:
        os.close(low)


def _close(descriptor):
    if descriptor is not None:
        try:
            os.close(descriptor)
        except OSError:
            pass


class Standstill:
    """Of one process; register() again in a forked child. Where something fails, the process is not asked, and that is all."""

    def __init__(self, folder):
        self._folder = folder
        self._numbers = _free_signals()
        self._stacks = self._page = None
        self._told = 0
        self.register()

    def register(self):
        """The file named after the process and the signals says that it may be asked. The first one is for the main thread, which writes where it is itself.
        The second one is for another thread, which then writes where all are. That can crash a process whose threads run meanwhile, so it is only for one whose main
        thread lets no signal through."""
        self.check()
        stacks, self._stacks = self._stacks, None
        self._page = self._new_page()
        try:
            if self._numbers is not None:
                self._stacks = _open(self._file(), os.O_APPEND)
                for number, all_threads in zip(self._numbers, (False, True)):
                    faulthandler.register(number, file=self._stacks, all_threads=all_threads, chain=False)
        except (OSError, ValueError, RuntimeError):
            if stacks is not None:
                for number in self._numbers:
                    faulthandler.unregister(number)
            self._numbers = None
        _close(stacks)

    def _file(self):
        return os.path.join(self._folder, 'stacks-{}-{}-{}'.format(os.getpid(), *self._numbers))

    def check(self):
        """Whether the process may still be asked: not where the script handles one of the signals itself since."""
        if self._numbers is not None and any(signal.getsignal(number) != signal.SIG_DFL for number in self._numbers):
            try:
                os.unlink(self._file())
            except OSError:
                pass
            self._numbers = None

    def waits_for(self, iteration):
        """The batch that is asked for next. A page that the launcher sees, too: no system call is made for each batch."""
        if self._page is None:
            return
        index = iteration.lists[0] if iteration.lists else None
        if type(index) is list and index and type(index[0]) is int:
            text = 'batch %d, samples %s%s' % (iteration.handed + 1, str(index[:shown_samples])[1:-1], ', ...' if len(index) > shown_samples else '')
        else:
            text = 'batch %d' % (iteration.handed + 1)
        text = text.encode()[:batch_bytes - 1] + b'\0'
        self._page[:len(text)] = text
        self.goes_on(now())

    def goes_on(self, at):
        """The script asks for batches: tells the launcher so, a few times a second."""
        if at - self._told > between_signs and self._page is not None:
            self._told = at
            try:
                os.utime(self._batch_file())
            except OSError:
                pass

    def _batch_file(self):
        return os.path.join(self._folder, 'batch-{}'.format(os.getpid()))

    def _new_page(self):
        """Nothing where the folder is gone, or full."""
        try:
            descriptor = os.open(self._batch_file(), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, batch_bytes)  # Else a full disk would end the script when it is written.
                return mmap.mmap(descriptor, batch_bytes)
            finally:
                os.close(descriptor)
        except (OSError, ValueError):
            return None
