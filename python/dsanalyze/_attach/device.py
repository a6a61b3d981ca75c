"""The accelerator's own time of each step, by events on the stream that the script uses."""
from time import monotonic_ns as now

from . import framework


class DeviceClock:
    """An event when a batch has been handed out, and one when the optimizer has stepped. They are read when the device has been waited for."""

    def __init__(self):
        self._begin = None
        self._end = None
        self._steps = []
        self._since = 0  # When the first of them had its batch.

    def served(self):
        self._end = None
        self._begin = framework.current.event()
        if not self._steps:
            self._since = now()

    def stepped(self):
        if self._begin is not None:
            self._end = framework.current.event()

    def close(self):
        """The step is over; called once for each step of the window."""
        self._steps.append((self._begin, self._end))
        self._begin = self._end = None

    def ended(self):
        """When the device had done what the steps so far asked of it, by the monotonic clock; 0 where there is none. It has been waited for before the first."""
        steps = [*self._steps, (self._begin, self._end)]
        first, last = steps[0][0], next((end for _, end in reversed(steps) if end is not None), None)
        if first is None or last is None:
            return 0
        framework.current.synchronise()
        return self._since + int(first.elapsed_time(last) * 1e6)

    def take(self):
        """Nanoseconds of each step since the last take(), null where they are not known; nothing where there is no device."""
        steps, self._steps = self._steps, []
        if all(begin is None for begin, _ in steps):
            return None
        return [int(begin.elapsed_time(end) * 1e6) if end is not None else None for begin, end in steps]
