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


def _free_signal():
    """A real-time signal that nothing handles; None where there is none."""
    return next((number for number in range(signal.SIGRTMAX - 8, signal.SIGRTMIN + 8, -1) if signal.getsignal(number) == signal.SIG_DFL), None)


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
        self._number = _free_signal()
        self._stacks = self._page = None
        self._told = 0
        self.register()

    def register(self):
        """The file named after the process and the signal says that it may be asked: at the signal, the main thread writes where it is. No thread writes where
        another one is, as that can crash a process whose threads run meanwhile."""
        self.check()
        stacks, self._stacks = self._stacks, None
        self._page = self._new_page()
        try:
            if self._number is not None:
                self._stacks = _open(self._file(), os.O_APPEND)
                faulthandler.register(self._number, file=self._stacks, all_threads=False, chain=False)
        except (OSError, ValueError, RuntimeError):
            if stacks is not None:
                faulthandler.unregister(self._number)
            self._number = None
        _close(stacks)

    def _file(self):
        return os.path.join(self._folder, 'stacks-{}-{}'.format(os.getpid(), self._number))

    def check(self):
        """Whether the process may still be asked: not where the script handles the signal itself since."""
        if self._number is not None and signal.getsignal(self._number) != signal.SIG_DFL:
            try:
                os.unlink(self._file())
            except OSError:
                pass
            self._number = None

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
