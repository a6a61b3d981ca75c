"""What a script spends its time on beside training steps, by the line that does it: checkpoints that it writes, and loops over other loaders."""
import functools
import os
from _thread import get_ident
from time import monotonic_ns as now

from . import facts
from ._imports import when_imported

most_places = 32


class Spent:
    """Sums of nanoseconds since the last take(), of the thread that trains: what another one does keeps no step waiting."""

    def __init__(self):
        self.thread = None  # The one that trains; None: not known yet.
        self._places = {}
        self._saving = set()  # Threads that write a checkpoint now: a writer may call another one.
        self._looped = set()  # The passes that have served since the last batch that trains.
        self._looped_at = 0  # When the last of them did,
        self._saved = 0  # and what was spent on checkpoints since.

    def _add(self, what, file, line, duration, waited=0, workers=None, begins=True):
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

    def follow_saves(self, torch):
        """Checkpoints that PyTorch writes are timed, and those of safetensors where the script imports it."""
        torch.save = torch.serialization.save = self._timed(torch.serialization.save, 'f')
        torch.jit.save = self._timed(torch.jit.save, 'f')
        scripted = torch.jit._script.RecursiveScriptModule
        scripted.save = self._timed(scripted.save, 'f')
        when_imported(('safetensors',), self._follow_safetensors)

    def _follow_safetensors(self, _, module):
        original = getattr(module, 'serialize_file', None)
        if original is not None:
            module.serialize_file = self._timed(original, 'filename')

    def _timed(self, original, name):
        """A function whose second argument, of this name, is a path or a file, with the time that it takes."""
        @functools.wraps(original)
        def save(*arguments, **named):
            target = arguments[1] if len(arguments) > 1 else named.get(name)
            # PyTorch also saves into memory what is sent to another process.
            is_file = isinstance(target, (str, bytes, os.PathLike)) or isinstance(getattr(target, 'name', None), str)
            thread = get_ident()
            if not is_file or thread in self._saving or self.thread not in (None, thread):
                return original(*arguments, **named)
            self._saving.add(thread)
            began = now()
            try:
                return original(*arguments, **named)
            finally:
                self._saving.discard(thread)
                duration = now() - began
                self._saved += duration
                self._add('save', *facts.caller(), duration)

        return save

    def trained(self):
        """A batch that trains was served: loops over other loaders have ended."""
        if self._looped:
            self._looped = set()

    def looped(self, iteration, asked, served, wait):
        """A batch that trains nothing was asked for and served: what the script did since the batch before is of the same loop, but for checkpoints."""
        since = self._looped_at if self._looped else asked
        saved, self._saved = (self._saved if self._looped else 0), 0
        begins = iteration not in self._looped
        self._looped.add(iteration)
        self._looped_at = served
        found = iteration.record.facts
        self._add('validation', found['file'], found['line'], max(served - since - saved, wait), wait,
                  None if found['style'] == 'watched' else found['workers'], begins)
