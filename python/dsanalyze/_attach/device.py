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
        """Of each step since the last take(), in nanoseconds: from its batch to its optimizer's step on the device, and from the step before to its batch (0 of the
        first one). The device has been waited for. Nothing where that is not known of all steps."""
        steps, self._steps = self._steps, []
        if not steps or any(begin is None or end is None for begin, end in steps):
            return None
        idle = [0, *(int(before.elapsed_time(begin) * 1e6) for (_, before), (begin, _) in zip(steps, steps[1:]))]
        busy = [int(begin.elapsed_time(end) * 1e6) for begin, end in steps]
        if min(*busy, *idle) < 0:  # They are on several streams.
            return None
        return list(zip(busy, idle))


def as_device_has(window, steps, within):
    """Makes the parts of a window's steps those of the device, which works on while Python waits for a batch, or the hook copies one: what passed between a step's end
    on the device and the next one's batch is all that these can have cost. The last step's time outside is what is left of the window. `within`: what of the hook's
    time lay within each step's computing."""
    if not len(steps) == len(within) == len(window['compute']):
        return
    hook, wait, outside = window['hook'], window['wait'], window['outside']
    for i, (busy, idle) in enumerate(steps):
        before = max(0, hook[i] - within[i])
        if i > 0:
            hook[i] = min(before, idle)
            wait[i] = min(wait[i], idle - hook[i])
            outside[i - 1] = idle - hook[i] - wait[i]
        else:
            hook[i] = before
        # Where the device had nothing to do while the hook worked, it had nothing to do while it worked within the step, either.
        lost = min(within[i], busy) if i + 1 < len(steps) and steps[i + 1][1] >= hook[i + 1] - within[i + 1] else 0
        window['compute'][i] = busy - lost
        hook[i] += lost
    told = sum(map(sum, (hook, wait, window['compute'], outside[:-1])))
    outside[-1] = max(0, window['end'] - window['begin'] - told)
    window['validation'] = [min(each, time) for each, time in zip(window['validation'], outside)]
    if 'ranks' in window:
        window['ranks'] = [min(each, time) for each, time in zip(window['ranks'], window['compute'])]
        window['outside_ranks'] = [min(each, time) for each, time in zip(window['outside_ranks'], outside)]
