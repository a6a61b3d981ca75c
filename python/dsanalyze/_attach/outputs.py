"""What a script writes while it is profiled: checkpoints go to a folder of the launcher's, other files are named.

A path that was diverted is found there again by whatever reads, renames, copies or removes it.
"""
import builtins
import functools
import io
import os
import shutil
import sys

import torch

max_files = 64
_not_reported = ('/dev/', '/proc/', '/sys/')


def _absolute(path):
    try:
        path = os.fsdecode(path)
    except TypeError:
        return None
    return os.path.abspath(path)


class Outputs:
    def __init__(self, folder, note):
        self._folder = folder
        self._note = note
        self._diverted = {}
        self._written = {}
        self._process = os.getpid()
        self._following = False
        torch.save = torch.serialization.save = self._around_save(torch.serialization.save)
        torch.load = torch.serialization.load = self._reading(torch.serialization.load)

    # Checkpoints.

    def _divert(self, path):
        """The place in the folder for a path that is about to be written, or the path itself where it is none (a file object) or cannot be diverted."""
        absolute = _absolute(path) if isinstance(path, (str, bytes, os.PathLike)) else None
        if not self._folder or absolute is None or absolute.startswith(_not_reported) or absolute.startswith(self._folder + os.sep):
            return path
        place = os.path.join(self._folder, absolute.lstrip(os.sep))
        try:
            os.makedirs(os.path.dirname(place), exist_ok=True)
        except OSError:
            return path
        self._diverted[absolute] = place
        self._follow()
        return place

    def _around_save(self, original):
        @functools.wraps(original)
        def save(obj, f, *arguments, **named):
            return original(obj, self._divert(f), *arguments, **named)

        return save

    def find(self, path):
        """Where a path that was diverted lies; any other path as it is."""
        if self._diverted and isinstance(path, (str, bytes, os.PathLike)):
            return self._diverted.get(_absolute(path), path)
        return path

    def _reading(self, original):
        """A function whose first argument is a path to read or change."""
        @functools.wraps(original)
        def reading(path, *arguments, **named):
            return original(self.find(path), *arguments, **named)

        return reading

    def _removing(self, original):
        @functools.wraps(original)
        def removing(path, *arguments, **named):
            place = self.find(path)
            result = original(place, *arguments, **named)
            if place is not path:
                self._diverted.pop(_absolute(path), None)
            return result

        return removing

    def _moving(self, original, keeps):
        """A function of a source and a destination: what comes of a diverted file is diverted, too."""
        @functools.wraps(original)
        def moving(source, destination, *arguments, **named):
            place = self.find(source)
            if place is source:
                return original(source, destination, *arguments, **named)
            if os.path.isdir(destination):
                destination = os.path.join(os.fsdecode(destination), os.path.basename(_absolute(source)))
            original(place, self._divert(destination), *arguments, **named)
            if not keeps:
                self._diverted.pop(_absolute(source), None)
            return destination

        return moving

    def _opening(self, original):
        @functools.wraps(original)
        def opening(file, mode='r', *arguments, **named):
            return original(self.find(file) if isinstance(mode, str) and not set(mode) & set('wax+') else file, mode, *arguments, **named)

        return opening

    def _follow(self):
        """From the first diverted file on, functions that take paths look for it."""
        if self._following:
            return
        self._following = True
        for name in ('stat', 'lstat', 'access', 'chmod', 'utime'):
            setattr(os, name, self._reading(getattr(os, name)))
        for name in ('remove', 'unlink'):
            setattr(os, name, self._removing(getattr(os, name)))
        for name in ('rename', 'replace'):
            setattr(os, name, self._moving(getattr(os, name), keeps=False))
        shutil.move = self._moving(shutil.move, keeps=False)
        for module, name in ((os, 'link'), (os, 'symlink'), (shutil, 'copyfile'), (shutil, 'copy'), (shutil, 'copy2')):
            setattr(module, name, self._moving(getattr(module, name), keeps=True))
        builtins.open = io.open = self._opening(builtins.open)

    # Other files.

    def watch(self):
        sys.addaudithook(self._audit)

    def _audit(self, event, arguments):
        """Called for every event of the interpreter, and what it raised would reach the script."""
        if event != 'open':
            return
        try:
            path, mode, flags = arguments
            if isinstance(path, (str, bytes)) and len(self._written) < max_files and _writes(mode, flags) and os.getpid() == self._process:
                absolute = _absolute(path)
                if not absolute.startswith(_not_reported) and '/__pycache__/' not in absolute and not (self._folder and absolute.startswith(self._folder + os.sep)):
                    self._written[absolute] = True
        except Exception:
            pass

    def report(self):
        """Sent once, when the process ends."""
        if self._diverted:
            self._note('outputs-diverted', 'Checkpoints went to a folder of dsanalyze instead of {}.'.format(_some(self._diverted)), paths=sorted(self._diverted)[:max_files])
        written = sorted(path for path in self._written if path not in self._diverted and os.path.exists(path))
        if written:
            self._note('files-written', 'The script wrote {}.'.format(_some(written)), paths=written)


def _writes(mode, flags):
    if isinstance(mode, str):
        return bool(set(mode) & set('wax+'))
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))


def _some(paths):
    paths = sorted(paths)
    return ', '.join(paths[:3]) + (' and {} more'.format(len(paths) - 3) if len(paths) > 3 else '')
