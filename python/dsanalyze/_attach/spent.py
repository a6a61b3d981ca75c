"""What a script spends its time on beside training steps, by the line that does it: checkpoints that it writes, and loops over other loaders."""
import functools
from _thread import get_ident
from time import monotonic_ns as now

from . import facts

most_places = 32


class Spent:
    """Sums of nanoseconds since the last take(). One a process; every thread of the script may add to it, and only its own thread's sums are exact."""

    def __init__(self):
        self._places = {}
        self.loop = None  # The pass that served the last batch, where that trains nothing,
        self._looped_at = 0  # and when.
        self._saving = set()  # Threads that write a checkpoint now: a writer may call another one.

    def add(self, what, file, line, duration, waited=0, workers=None, begins=True):
        """`waited` of `duration` was for the batches of a loader with so many workers. It is counted once more where it `begins`."""
        place = self._places.get((what, file, line))
        if place is None:
            if len(self._places) >= most_places:
                return
            place = self._places[what, file, line] = {'what': what, 'file': file, 'line': line, 'count': 0, 'time': 0, 'waited': 0, 'workers': workers}
        place['count'] += begins
        place['time'] += duration
        place['waited'] += waited

    def take(self):
        """What was spent since the last call, for a message."""
        places, self._places = self._places, {}
        return list(places.values())

    def saving(self, original):
        """A function that writes a checkpoint, with the time that it takes."""
        @functools.wraps(original)
        def save(*arguments, **named):
            thread = get_ident()
            if thread in self._saving:
                return original(*arguments, **named)
            self._saving.add(thread)
            began = now()
            try:
                return original(*arguments, **named)
            finally:
                self._saving.discard(thread)
                self.add('save', *facts.caller(), now() - began)

        return save

    def looped(self, iteration, asked, served, wait):
        """A batch that trains nothing was asked for and served: what the script did since the batch before is of the same loop."""
        found = iteration.record.facts
        begins = self.loop is not iteration
        since = asked if begins else self._looped_at
        self.loop, self._looped_at = iteration, served
        self.add('validation', found['file'], found['line'], served - since, wait, found['workers'], begins)
