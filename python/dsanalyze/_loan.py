"""The batches of a loader that a script reads where they lie. Imports the standard library alone."""
import atexit
import os
import sys
import weakref

ending = []  # Holds something once the interpreter ends: before loaders are closed then, as what was registered last comes first.
weakref.finalize(sys.modules[__name__], bool)
atexit.register(ending.append, True)
_loans = set()  # Of which a batch is out: they outlive their loaders.


class Loan:
    """The batches whose memory the script reads in place: each goes back to the loader when its last tensor is gone. Threads: any."""

    def __init__(self, source):
        self._source = source
        self._process = os.getpid()
        self._lent = {}  # By token, a reference to the buffer. Without a lock: the collector may give a batch back in the thread that would hold it.
        self._interrupted = False
        self._closed = False

    def __len__(self):
        return len(self._lent)

    def lend(self, buffer, token):
        _loans.add(self)
        self._lent[token] = weakref.ref(buffer, self._ended)

    def take_back(self, token):
        """What was lent and did not get out: its memory stays the caller's. The buffer lives."""
        self._lent.pop(token, None)
        if not self._lent:
            _loans.discard(self)

    def _ended(self, _, at_the_end=sys.is_finalizing):
        """The collector's call, out of which no exception comes."""
        if at_the_end():
            return
        try:
            self._collect()
        except KeyboardInterrupt:
            self._interrupted = True

    def _collect(self):
        """Gives back what is not read any more. An interrupt may come anywhere in between: what was given back twice is refused the second time."""
        if os.getpid() != self._process:
            return
        for token, buffer in list(self._lent.items()):
            if buffer() is None:
                self._source.release(token)
                self._lent.pop(token, None)
        if not self._lent:
            _loans.discard(self)
            if self._closed:
                self._source.close()

    def close(self):
        """Closes the source: at once, or, where the batches' memory would go with it, when the last of them is given back. No batch is read any more at the end of the interpreter."""
        self._closed = not (self._source.keeps_batches or ending)
        if not self._closed or not self._lent:
            self._source.close()

    def settle(self):
        """To be called now and then: what an interrupt kept from being given back is, and an interrupt that the collector was told is raised."""
        if self._lent:
            self._collect()
        if self._interrupted:
            self._interrupted = False
            raise KeyboardInterrupt
