"""What a script writes while it is profiled: what it changes is taken back when the run has ended, and what stays is named.

The interpreter's audit events come before each change. Writers that are no Python code raise none, so PyTorch's and safetensors' are wrapped.
"""
import errno
import os
import sys
from _thread import RLock, get_ident

from .originals import NoList, Originals, Unprotected

max_files = 64
# Kernel interfaces, and caches whose new entries are as good as the old ones.
_left_alone = ('/dev/', '/proc/', '/sys/')
_not_left_alone = '/dev/shm/'
_caches = ('/__pycache__/', '/torchinductor_', '/.triton/')
_of_the_hook = ('stacks-', 'batch-', 'torch-', 'fault-', 'unwatched-')  # How the files begin that processes leave for the launcher in its folder.
_begun = None


def begin():
    """The one of this process, which is made at the first call."""
    global _begun
    if _begun is None:
        folder = os.path.dirname(os.environ['DSANALYZE_ATTACH'])
        begun = Outputs(os.environ.get('DSANALYZE_ATTACH_OUTPUT'), os.path.basename(folder), own=[os.path.join(folder, name) for name in _of_the_hook])
        begun.watch()
        _begun = begun
    return _begun


class Refused(OSError):
    """The script's change of an original does not happen: its results are thrown away in any case, the original must not be."""


class Outputs:
    """From the interpreter's start on, before a script has imported anything. Without a folder for the journal, files are named only. `run` is a name that no
    other run has."""

    def __init__(self, folder, run, own):
        self._left_alone = (*_left_alone, *own)  # `own`: how the paths of the hook's own files begin.
        self._originals = Originals(folder, run) if folder else None
        self._written = set()
        self._unprotected = set()
        self._commands = set()
        self._process = os.getpid()
        self._saving = lambda save: save
        self._lock = RLock()
        self._thread = None
        self._events = {'open': self._open, 'exec': self._wrap_safetensors, 'subprocess.Popen': self._started, 'os.system': self._started}
        if self._originals is not None:
            self._events.update({'os.remove': self._remove, 'os.rename': self._rename, 'os.mkdir': self._mkdir, 'os.rmdir': self._rmdir,
                                 'os.symlink': self._symlink, 'os.link': self._link, 'os.truncate': self._truncate})
        home = os.path.expanduser('~')
        self._user_caches = tuple(os.path.join(folder, '') for folder in (os.environ.get('XDG_CACHE_HOME'), os.path.join(home, '.cache')) if folder and os.path.isabs(folder))

    def watch(self):
        sys.addaudithook(self._audit)
        os.register_at_fork(after_in_child=self._child)

    def wrap_pytorch(self, torch, saving):
        """When it has been imported. saving() takes a function that writes a checkpoint, and returns the one in its place."""
        self._saving = saving
        torch.save = torch.serialization.save = self._around(torch.serialization.save, 'f')
        torch.jit.save = self._around(torch.jit.save, 'f')
        scripted = torch.jit._script.RecursiveScriptModule
        scripted.save = self._around(scripted.save, 'f')
        self._wrap_safetensors()

    def training_began(self):
        """New files are results of this run from now on."""
        if self._originals is not None:
            self._originals.keeps = False

    def _child(self):
        """In a forked child: a thread that held the lock is not in it."""
        self._lock = RLock()
        self._thread = None

    # Events.

    def _audit(self, event, arguments):
        """Called for every event of the interpreter, and what it raises reaches the script."""
        handle = self._events.get(event)
        if handle is None or self._thread == get_ident():
            return
        try:
            handle(*arguments)
        except Refused:
            raise
        except Exception:
            pass

    def _change(self, path, change, *arguments, **named):
        """One change at a time; what this does itself raises events, too."""
        if path.startswith(self._left_alone) and not path.startswith(_not_left_alone) or self._is_cache(path):
            return
        if self._originals is None:
            if len(self._written) < max_files and os.getpid() == self._process:
                self._written.add(os.path.abspath(path))
            return
        with self._lock:
            self._thread = get_ident()
            if os.getpid() != self._process and _is_worker():
                self._originals.keeps = True  # what a loader's worker writes anew is a cache
            try:
                with self._originals:
                    change(*arguments, **named)
            except (Unprotected, OSError) as error:
                lost = [name for name in (path, *arguments) if isinstance(name, str) and self._originals.is_original(name)]
                if isinstance(error, NoList) and lost:
                    raise Refused(errno.EIO, 'dsanalyze cannot write down that {} changes ({}), so it could not be taken back. Give the folder of temporary files '
                                  'more space, or profile with --keep-output'.format(lost[0], error))
                self._unprotected.add(os.path.abspath(path))
            finally:
                self._thread = None

    def _open(self, path, mode, flags):
        if not isinstance(path, (str, bytes)) or not isinstance(flags, int) or not flags & (os.O_WRONLY | os.O_RDWR):
            return
        path = os.fsdecode(path)
        # The event does not tell the folder that a relative path may be in (dir_fd, opener): only a copy does no harm to a file that it is not about.
        self._change(path, self._writes, path, flags & os.O_TRUNC, flags & os.O_APPEND, flags & os.O_CREAT, os.path.isabs(path))

    def _writes(self, *arguments):
        if self._originals is not None:
            self._originals.writes(*arguments)

    def _truncate(self, path, length):
        if isinstance(path, (str, bytes)):
            self._open(path, None, os.O_RDWR)
        elif isinstance(path, int):
            self._open(os.readlink('/proc/self/fd/{}'.format(path)), None, os.O_RDWR)

    def _remove(self, path, folder=-1):
        path = _at(path, folder)
        self._change(path, self._originals.removes, path)

    def _rename(self, source, target, source_folder=-1, target_folder=-1):
        source, target = _at(source, source_folder), _at(target, target_folder)
        self._change(target if self._is_cache(source) else source, self._originals.moves, source, target)

    def _mkdir(self, path, mode=0, folder=-1):
        path = _at(path, folder)
        self._change(path, self._originals.makes_folder, path)

    def _rmdir(self, path, folder=-1):
        path = _at(path, folder)
        self._change(path, self._originals.removes_folder, path)

    def _symlink(self, source, target, folder=-1):
        target = _at(target, folder)
        self._change(target, self._originals.links, target, True)

    def _link(self, source, target, source_folder=-1, target_folder=-1):
        source, target = _at(source, source_folder), _at(target, target_folder)
        self._change(target, self._originals.links, target, self._originals.is_own(source))

    def _started(self, command, arguments=(), folder=None, environment=None):
        """A Python that it starts watches what it writes by itself, unless it is told not to."""
        words = os.fsdecode(command).split()
        if isinstance(arguments, (list, tuple)):
            words += [os.fsdecode(word) for word in arguments[1:] if isinstance(word, (str, bytes, os.PathLike))]
        watches = os.path.basename(words[0]).startswith('python') and not _without_the_hook(words[1:])
        if environment is not None and not any(os.fsdecode(name) == 'DSANALYZE_ATTACH' for name in environment):
            watches = False
        if len(self._commands) < max_files and os.getpid() == self._process and not watches:
            self._commands.add(words[0])

    def _is_cache(self, path):
        return path.startswith(self._user_caches) or any(part in path for part in _caches)

    # Writers that are no Python code.

    def _around(self, original, name):
        """A function whose second argument, of this name, is a path to write to, or a file that is open already."""
        from functools import wraps
        timed = self._saving(original)

        @wraps(original)
        def save(*arguments, **named):
            target = arguments[1] if len(arguments) > 1 else named.get(name)
            is_path = isinstance(target, (str, bytes, os.PathLike))
            if is_path:
                self._audit('open', (os.path.abspath(os.fspath(target)), 'wb', os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
            # Into memory, PyTorch also saves what is sent to another process.
            is_file = is_path or isinstance(getattr(target, 'name', None), str)
            return (timed if is_file else original)(*arguments, **named)

        return save

    def _wrap_safetensors(self, *_):
        """At the first event after it was imported: modules that take the function from it are executed after that."""
        original = getattr(sys.modules.get('safetensors'), 'serialize_file', None)
        if original is None:
            return
        self._events.pop('exec', None)
        wrapped = self._around(original, 'filename')
        for module in [module for name, module in list(sys.modules.items()) if name.split('.')[0] == 'safetensors']:
            if getattr(module, 'serialize_file', None) is original:
                module.serialize_file = wrapped

    # Results.

    def report(self, note):
        """Sent once, when the process ends."""
        left = self._originals.left() if self._originals is not None else sorted(path for path in self._written if os.path.exists(path))
        if left:
            note('files-written', 'The script wrote {}, which {} there.'.format(_some(left), 'stays' if len(left) == 1 else 'stay'), paths=left[:max_files])
        if self._unprotected:
            note('files-changed', 'The script wrote {}, which could not be set aside (a full disk?) and is not taken back.'.format(_some(self._unprotected)),
                 paths=sorted(self._unprotected)[:max_files])
        if self._commands:
            note('commands-started', 'The script started {}: what other programs write is not taken back.'.format(_some(self._commands)))


def _without_the_hook(options):
    """Whether a Python is told to leave out PYTHONPATH or sitecustomize: -I, -E or -S before its script, alone or with others (-IS)."""
    for option in options:
        if not option.startswith('-') or option[1:2] in ('c', 'm', '-'):
            return False
        if option[1:2] not in ('W', 'X') and set(option) & set('IES'):
            return True
    return False


def _is_worker():
    loaders = sys.modules.get('torch.utils.data')
    return loaders is not None and loaders.get_worker_info() is not None


def _at(path, folder):
    """A path that may be relative to an open folder."""
    path = os.fsdecode(path)
    return path if folder == -1 or os.path.isabs(path) else os.path.join(os.readlink('/proc/self/fd/{}'.format(folder)), path)


def _some(names):
    names = sorted(names)
    return ', '.join(names[:3]) + (' and {} more'.format(len(names) - 3) if len(names) > 3 else '')
