"""What a script changes among the files of its user can be taken back: each change is written down before it happens, and originals are set aside.

The launcher takes the changes back when all processes have ended, the latest first (src/attach/outputs.hpp). One change in the journal is four texts, each
with a zero byte after it: what was done, when (ns), the path, and:
  kept    the place where the file, or link, that was at path lies now
  copied  the place where a copy of the file lies, which is changed in place
  new     nothing: there was nothing at path
  grown   the bytes that the file had
  moved   inode, colon, the new path
  made    nothing: a folder that was not there
  gone    the mode of the folder that was removed
  place   nothing: path is a folder of originals
"""
import os
import stat
from itertools import chain
from time import monotonic_ns as now, sleep

most_copied = 1 << 28
lock_seconds = 5


class Unprotected(Exception):
    """A change that cannot be taken back."""


class NoList(Unprotected):
    """Changes cannot be written down any more: a full disk, or the folder of the journals is gone."""


class Originals:
    """One a process. `keeps` is true as long as new files are to stay. Threads: one at a time."""

    def __init__(self, folder, name):
        self.keeps = True
        self._folder = folder
        self._name = '.dsanalyze-kept-' + name
        self._own = {}  # files that came from this process, and whether they stay
        self._made = {}  # folders, likewise
        self._stay = set()  # new ones that are not removed at the end
        self._grown = set()
        self._copied = set()
        self._vacated = set()  # paths of originals that were renamed
        self._places = set()
        self._count = 0

    def __enter__(self):
        """Other ranks may change the same files: the order of lines is that of the changes."""
        self._lock = None
        try:
            handle = os.open(os.path.join(self._folder, 'lock'), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise NoList(str(error))
        deadline = now() + lock_seconds * 10**9
        while True:
            try:
                os.lockf(handle, os.F_TLOCK, 0)
                break
            except OSError:
                if now() > deadline:
                    os.close(handle)
                    raise Unprotected('the lock')
                sleep(0.0005)
        self._lock = handle
        return self

    def __exit__(self, *_):
        os.close(self._lock)

    def writes(self, path, truncates, appends, creates, may_move=True):
        """A file is about to be opened for writing."""
        path = os.path.realpath(path)
        found = _status(path)
        if found is None:
            if creates:
                self._new(path)
            return
        if not stat.S_ISREG(found.st_mode) or self._is_free(path) or path in self._copied or not os.access(path, os.W_OK):
            return
        if not found.st_size or (appends and not truncates and found.st_size > most_copied):
            if path not in self._grown:
                self._write('grown', path, found.st_size)
                self._grown.add(path)
            return
        if truncates and found.st_nlink == 1 and (may_move or found.st_size > most_copied):
            try:
                self._set_aside(path, found)
                self._own[path] = False
                return
            except Unprotected:
                pass
        self._copy(path, found)
        self._copied.add(path)

    def removes(self, path):
        path = _entry(path)
        found = _status(path)
        if found is None or not _is_kept(found):
            return
        if not self._is_free(path):
            self._set_aside(path, found)
        elif self.keeps:
            self._stay.discard(path)
        self._own.pop(path, None)
        self._grown.discard(path)
        self._copied.discard(path)

    def moves(self, source, target):
        source, target = _entry(source), _entry(target)
        found, there = _status(source), _status(target)
        if found is None or not _can_move(source, found, target, there):
            return
        if there is not None and stat.S_ISDIR(there.st_mode):
            self.removes_folder(target)
        elif there is not None and _is_kept(there) and not self._is_free(target):
            self._set_aside(target, there)
        for known in (self._grown, self._copied):
            known.difference_update((source, target))
        self._own.pop(target, None)
        if stat.S_ISDIR(found.st_mode):
            self._moves_folder(source, found, target)
        elif not self._is_free(source):
            self._moved(source, found, target)
            self._own.pop(source, None)
        else:
            stays = self._own.pop(source)
            if stays:
                self._stay.discard(source)
                self._stay.add(target)
            else:
                self._write('new', target)
            self._own[target] = stays

    def _moves_folder(self, source, found, target):
        if not (self._made.get(source) and self.keeps):
            self._moved(source, found, target)
        for known in (self._own, self._made):
            for path in _inside(source, known):
                known[target + path[len(source):]] = known.pop(path)
        if self.keeps:
            for path in _inside(source, self._stay):
                self._stay.remove(path)
                self._stay.add(target + path[len(source):])

    def links(self, target, own):
        """A link is about to be made; an own one leads to no original."""
        path = _entry(target)
        if _status(path) is None:
            self._new(path)
            if not own:
                del self._own[path]  # a change of it would change the original

    def makes_folder(self, path):
        path = _entry(path)
        if _status(path) is None:
            stays = self.keeps and not self._is_vacated(path)
            if not stays:
                self._write('made', path)
            self._made[path] = stays

    def removes_folder(self, path):
        path = _entry(path)
        found = _status(path)
        if found is None or not stat.S_ISDIR(found.st_mode) or self._made.pop(path, None) is not None:
            return
        self._write('gone', path, stat.S_IMODE(found.st_mode))

    def is_original(self, path):
        """Whether what lies there would be lost with a change that is not taken back."""
        path = _entry(path)
        return path not in self._own and path not in self._made and _status(path) is not None

    def is_own(self, path):
        return self._is_free(_entry(path))

    def left(self):
        """Files that were written and stay, or will be there again."""
        return sorted(self._stay)

    # How a change is made one that can be taken back.

    def _is_free(self, path):
        """Whether a change of this file needs no line: an earlier line takes it back, or its present content stays whatever becomes of it."""
        return path in self._own and (self.keeps or not self._own[path])

    def _is_vacated(self, path):
        """Whether an original was renamed from here, or a folder above, so that nothing new can stay."""
        return bool(self._vacated) and any(path == place or path.startswith(place + os.sep) for place in self._vacated)

    def _new(self, path):
        stays = self.keeps and not self._is_vacated(path)
        if stays:
            self._stay.add(path)
        else:
            self._write('new', path)
            self._stay.discard(path)
        self._own[path] = stays

    def _moved(self, source, found, target):
        self._write('moved', source, '{}:{}'.format(found.st_ino, target))
        self._vacated.add(source)

    def _set_aside(self, path, found):
        """The original goes to a place, and an empty file takes its name, which the script's own call then changes."""
        for place in self._candidates(path):
            self._write('kept', path, place)
            try:
                os.rename(path, place)
            except OSError:
                continue
            try:
                if stat.S_ISLNK(found.st_mode):
                    os.symlink(os.readlink(place), path)
                else:
                    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                    os.fchmod(handle, stat.S_IMODE(found.st_mode))
                    os.close(handle)
                return
            except OSError:
                os.rename(place, path)
        raise Unprotected(path)

    def _copy(self, path, found):
        """Under a passing name first: half a copy must not be taken for the original."""
        if found.st_size > most_copied:
            raise Unprotected(path)
        from shutil import copy2  # Only a script that changes a file in place has it imported for it.
        for place in chain(self._candidates(path), [self._place(self._folder)]):
            folder = os.statvfs(os.path.dirname(place))
            if folder.f_bavail * folder.f_frsize < 3 * found.st_size:
                continue
            self._write('copied', path, place)
            try:
                copy2(path, place + '.part')
                os.rename(place + '.part', place)
                return
            except OSError:
                try:
                    os.unlink(place + '.part')
                except OSError:
                    pass
        raise Unprotected(path)

    def _candidates(self, path):
        """Names in folders of ours on the path's filesystem, which no removal of the script's reaches: the highest folder first."""
        folder = os.path.dirname(path)
        device = os.stat(folder).st_dev
        above = []
        while os.stat(folder).st_dev == device and (folder != '/' or not above) and folder not in above:
            above.append(folder)
            folder = os.path.dirname(folder)
        for folder in reversed(above):
            place = os.path.join(folder, self._name)
            if place in self._places or (os.access(folder, os.W_OK | os.X_OK) and self._make(place)):
                yield self._place(place)

    def _place(self, folder):
        """A name that neither a process with the same number nor this one after an exec gives again."""
        self._count += 1
        return os.path.join(folder, 'original-{}-{}-{}'.format(os.getpid(), now(), self._count))

    def _make(self, place):
        self._write('place', place)
        try:
            os.mkdir(place, 0o700)
        except FileExistsError:  # of another process of the script
            pass
        except OSError:
            return False
        self._places.add(place)
        return True

    def _write(self, do, path, more=''):
        """Opened for each line, so that a script that closes all descriptors has none of ours written to in its place."""
        entry = b''.join(os.fsencode(str(text)) + b'\0' for text in (do, now(), path, more))
        try:
            handle = os.open(os.path.join(self._folder, 'journal-{}'.format(os.getpid())), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                written = os.write(handle, entry)
                if written != len(entry):
                    os.ftruncate(handle, os.fstat(handle).st_size - written)
                    raise NoList('No space left on device: ' + self._folder)
            finally:
                os.close(handle)
        except OSError as error:
            raise NoList(str(error))


def _entry(path):
    """A path whose last part is not followed where it is a link."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(folder), name)


def _can_move(source, found, target, there):
    """Whether rename() will do it: what fails changes nothing, and scripts then go other ways."""
    if there is not None:
        if os.path.samestat(found, there) or stat.S_ISDIR(found.st_mode) != stat.S_ISDIR(there.st_mode):
            return False
        if stat.S_ISDIR(there.st_mode) and os.listdir(target):
            return False
    folders = os.path.dirname(source), os.path.dirname(target)
    return (all(os.access(folder, os.W_OK | os.X_OK) for folder in folders) and os.stat(folders[1]).st_dev == found.st_dev
            and not target.startswith(source + os.sep))


def _is_kept(found):
    """Sockets and pipes are worth nothing without the process that made them."""
    return stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)


def _inside(folder, paths):
    return [path for path in paths if path == folder or path.startswith(folder + os.sep)]


def _status(path):
    try:
        return os.lstat(path)
    except OSError:
        return None
