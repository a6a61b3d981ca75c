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
    """stop() before anything was written leaves the script's files alone."""

    def __init__(self, folder):
        self._folder = folder
        self._diverted = {}
        self._written = {}
        self._process = os.getpid()
        self._following = False
        torch.save = torch.serialization.save = self._around_save(torch.serialization.save)
        torch.load = torch.serialization.load = self._reading(torch.serialization.load, 'f')

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

    def stop(self):
        self._folder = None

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

    def _reading(self, original, name='path'):
        """A function whose first argument is a path to read or change."""
        @functools.wraps(original)
        def reading(*arguments, **named):
            arguments, named = _by_position(arguments, named, name)
            return original(*map(self.find, arguments[:1]), *arguments[1:], **named)

        return reading

    def _removing(self, original):
        @functools.wraps(original)
        def removing(*arguments, **named):
            arguments, named = _by_position(arguments, named, 'path')
            original(*map(self.find, arguments[:1]), *arguments[1:], **named)
            self._forget(arguments[0])

        return removing

    def _moving(self, original, keeps):
        """A function of a source and a destination: what comes of a diverted file is diverted, too."""
        @functools.wraps(original)
        def moving(*arguments, **named):
            arguments, named = _by_position(arguments, named, 'src', 'dst')
            place = self.find(arguments[0]) if len(arguments) > 1 else None
            if place is None or place is arguments[0]:
                return original(*arguments, **named)
            source, destination = arguments[:2]
            if os.path.isdir(destination):
                destination = os.path.join(os.fsdecode(destination), os.path.basename(_absolute(source)))
            result = original(place, self._divert(destination), *arguments[2:], **named)
            if not keeps:
                self._forget(source)
            return None if result is None else destination

        return moving

    def _opening(self, original):
        @functools.wraps(original)
        def opening(*arguments, **named):
            arguments, named = _by_position(arguments, named, 'file', 'mode')
            mode = arguments[1] if len(arguments) > 1 else 'r'
            if arguments and isinstance(mode, str) and not set(mode) & set('wax+'):
                arguments[0] = self.find(arguments[0])
            return original(*arguments, **named)

        return opening

    def _forget(self, path):
        self._diverted.pop(_absolute(path), None)

    def _follow(self):
        """From the first diverted file on, functions that take paths look for it."""
        if self._following:
            return
        self._following = True
        for name in ('stat', 'lstat', 'access', 'chmod', 'utime'):
            self._replace(os, name, self._reading(getattr(os, name)))
        for name in ('remove', 'unlink'):
            self._replace(os, name, self._removing(getattr(os, name)))
        for name in ('rename', 'replace'):
            self._replace(os, name, self._moving(getattr(os, name), keeps=False))
        shutil.move = self._moving(shutil.move, keeps=False)
        for module, name in ((os, 'link'), (os, 'symlink'), (shutil, 'copyfile'), (shutil, 'copy'), (shutil, 'copy2')):
            self._replace(module, name, self._moving(getattr(module, name), keeps=True))
        builtins.open = io.open = self._opening(builtins.open)

    @staticmethod
    def _replace(module, name, function):
        """Other modules ask os what its functions can do by looking for them in its sets."""
        for abilities in (os.supports_dir_fd, os.supports_effective_ids, os.supports_fd, os.supports_follow_symlinks):
            if getattr(module, name) in abilities:
                abilities.add(function)
        setattr(module, name, function)

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

    def report(self, note):
        """Sent once, when the process ends."""
        if self._diverted:
            note('outputs-diverted', 'Checkpoints went to a folder of dsanalyze instead of {}.'.format(_some(self._diverted)), paths=sorted(self._diverted)[:max_files])
        written = sorted(path for path in self._written if path not in self._diverted and os.path.exists(path))
        if written:
            note('files-written', 'The script wrote {}.'.format(_some(written)), paths=written)


def _by_position(arguments, named, *names):
    """The same arguments with the first ones, of these names, given by position as far as they are there."""
    arguments, named = list(arguments), dict(named)
    for name in names[len(arguments):]:
        if name not in named:
            break
        arguments.append(named.pop(name))
    return arguments, named


def _writes(mode, flags):
    if isinstance(mode, str):
        return bool(set(mode) & set('wax+'))
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))


def _some(paths):
    paths = sorted(paths)
    return ', '.join(paths[:3]) + (' and {} more'.format(len(paths) - 3) if len(paths) > 3 else '')
