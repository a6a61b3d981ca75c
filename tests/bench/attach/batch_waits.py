"""Source that the benches' own scripts begin with: which batches of a DataLoader a step waited for.

That something lies in the queue of a loader does not say that the batch that comes next does: with several workers it may be a later one, which is put aside. A batch lay ready
where the queue was never found empty until it was taken.
"""

WAITS = r'''
class Waits:
    """Of the iterator of a DataLoader: `found_none` is true after a next() that had to wait for a worker, and always where there are none."""
    def __init__(self, batches):
        self._queue, self._get = getattr(batches, "_data_queue", None), getattr(batches, "_get_data", None)
        self.found_none = True
        if self._queue is not None: batches._get_data = self._got
    def ask(self): self.found_none = self._queue is None
    def _got(self):
        self.found_none |= self._queue.empty()
        return self._get()
'''
