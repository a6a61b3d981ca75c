"""What is seen of a training while none of its loaders is known to train: the launcher says it where no step is ever recognised."""
from time import monotonic_ns as now

interval = 1000000000


class Seen:
    """Counts, which send() takes at once and then about once a second."""

    def __init__(self, send):
        self._send = send
        self._due = 0
        self._counts = dict.fromkeys(('batches', 'with_gradients', 'backward', 'optimizer_steps'), 0)
        self._loader = {}
        self._told = True

    def batch(self, record, with_gradients):
        self._loader = {key: record.facts.get(key) for key in ('name', 'dataset_class', 'file', 'line')}
        self._count('batches', 'with_gradients' if with_gradients else None)

    def backward(self):
        self._count('backward')

    def optimizer_step(self):
        self._count('optimizer_steps')

    def _count(self, *names):
        for name in names:
            if name is not None:
                self._counts[name] += 1
        self._told = False
        if now() >= self._due:
            self.tell()

    def tell(self):
        """Sends what was counted since it was last sent."""
        if not self._told:
            self._told = True
            self._due = now() + interval
            self._send(dict(self._counts, t='seen', **self._loader))
