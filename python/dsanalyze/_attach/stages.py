"""What the workers of a drain compute: a thread in each looks 25 times a second at where its main thread is, and how much CPU time that took since."""
import os
import sys
import threading
import time
from random import Random

between_looks = 0.04  # The mean; each is drawn, so that no work of the same period is seen in the same place each time.
switch_seconds = 0.0001
most_stages = 64
least_busy = 0.05  # Of the time between two looks.

_fetching = '/torch/utils/data/_utils/fetch.py'
# They hand samples on from one to the next, and what they call does the work.
_functions = frozenset(('__getitem__', '__getitems__', '__iter__', '__next__', '<listcomp>', '<genexpr>', '<dictcomp>', '<lambda>', '_call_impl',
                        '_wrapped_call_impl'))
_owners = frozenset(('Compose', 'Sequential', 'Subset', 'Transform', '_RandomApplyTransform', 'BasicTransform', 'DualTransform', 'ImageOnlyTransform'))
_wrappers = frozenset(('decorate_context', 'wrapper', 'wrapped', 'inner'))
_generator = 0x20  # inspect.CO_GENERATOR
_standard_library = os.path.dirname(os.__file__) + os.sep
_folders = ('/webdataset/', '/torch/utils/data/', '/torchdata/', '-packages/datasets/')
_by_the_class = frozenset(('forward', '__call__', '__getitem__', '__iter__'))
_waits = frozenset(('wait', 'join', 'acquire', '_wait_for_tstate_lock'))


class Pipe:
    """From the workers that are started while it is open, by a name in the launcher's folder. What does not fit is lost, and no worker waits."""

    opened = 0

    def __init__(self, workers):
        Pipe.opened += 1
        self._path = os.path.join(os.path.dirname(os.environ['DSANALYZE_ATTACH']), 'stages-{}-{}'.format(os.getpid(), Pipe.opened))
        os.mkfifo(self._path, 0o600)
        self._read = os.open(self._path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)  # With an end to write to there is no end of the file.
        self._interval = between_looks * max(1.0, workers / 8)

    def init(self, original):
        """A worker_init_fn that begins to look, and then is the original one."""
        return Looking(self._path, self._interval, original)

    def take(self):
        """What was seen, the most CPU time first; closes the pipe."""
        text = b''
        try:
            while True:
                part = os.read(self._read, 65536)
                text += part
                if not part:
                    break
        except OSError:
            pass
        os.close(self._read)
        try:
            os.unlink(self._path)
        except OSError:
            pass
        stages = {}
        for line in text.decode('utf-8', 'replace').splitlines():
            parts = line.split('\t')
            if len(parts) != 4 or not parts[0].isdigit() or not parts[3].isdigit():
                continue
            key = tuple(parts[1:])
            stage = stages.setdefault(key, {'name': parts[1], 'file': parts[2], 'line': int(parts[3]), 'count': 0, 'cpu': 0})
            stage['count'] += 1
            stage['cpu'] += int(parts[0])
        return sorted(stages.values(), key=lambda stage: -stage['cpu'])[:most_stages]


class Looking:
    """A worker_init_fn, for workers of every kind: those that are no forks get a copy of it."""

    def __init__(self, path, interval, original):
        self.path, self.interval, self.original = path, interval, original

    def __call__(self, worker):
        try:
            # Else code that keeps the interpreter's lock for milliseconds is passed over, and what lets go of it next is seen in its place.
            sys.setswitchinterval(min(sys.getswitchinterval(), switch_seconds))
            pipe = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            threading.Thread(target=_look, args=(pipe, self.interval, threading.get_ident()), daemon=True).start()
        except Exception:  # Without it nothing is known of this worker.
            pass
        if self.original is not None:
            self.original(worker)


def _clock_of(thread):
    """The CPU clock of one of this process's threads, by its number in the system, as the kernel numbers it: one that has ended has none."""
    return (~thread << 3) | 6


class _Threads:
    """CPU time of a process's threads since the last look: of those that run Python by themselves, and what others used is the main one's, which waits for them."""

    def __init__(self, main):
        self._main, self._own = main, threading.get_ident()
        self._used = {}
        self._all = time.process_time_ns()

    def spent(self, least=0):
        """(thread, nanoseconds) of each; without the main one where it used less than `least` itself, as it waits for another that used more."""
        before, self._all = self._all, time.process_time_ns()
        rest, own_of_main, spent = self._all - before, 0, []
        for each in threading.enumerate():
            thread = each.ident
            number = os.getpid() if thread == self._main else each.native_id  # Idents are used again.
            try:
                used = time.clock_gettime_ns(_clock_of(number))
            except (OSError, TypeError):  # It has ended, or not begun.
                continue
            last, self._used[number] = self._used.get(number, used), used
            rest -= used - last
            if thread == self._main:
                own_of_main = used - last
            elif thread != self._own:
                spent.append((thread, used - last))
        waits = own_of_main < least and any(used >= least for _, used in spent)
        return spent if waits else [(self._main, own_of_main + max(rest, 0)), *spent]


def _look(pipe, interval, main):
    """Until the worker ends, or its drain."""
    try:
        threads, last_at = _Threads(main), time.monotonic_ns()
        threads.spent()
        drawn = Random(os.getpid())
        while True:
            planned = drawn.uniform(0.2, 1.8) * interval
            time.sleep(planned)
            at = time.monotonic_ns()
            passed, last_at = at - last_at, at
            # Code that holds the interpreter's lock lets no look happen before its end: of the CPU time, what lies in the planned time counts. By the clock, as on a busy
            # machine a thread has only a part of a core.
            counted = min(1.0, planned * 1e9 / max(passed, 1))
            frames = sys._current_frames()
            least = least_busy * planned * 1e9
            for thread, spent in threads.spent(least):
                stage = stage_of(frames.get(thread), thread == main) if spent >= least else None
                if stage is None:
                    continue
                place = (str(part).replace('\t', ' ').replace('\n', ' ') for part in stage)
                line = '{}\t{}\t{}\t{}\n'.format(int(counted * spent), *place).encode('utf-8', 'replace')
                try:
                    if len(line) <= 4096:
                        os.write(pipe, line)
                except BlockingIOError:
                    pass
    except Exception:  # The pipe is closed, or the interpreter ends.
        pass


def stage_of(frame, fetches=True):
    """(name, file, line) of what a thread does. The place is the innermost of the user's own code: where that calls a library, the line of the call. The name is that of
    the outermost call of the library that does something by itself, or of the user's function. None where the thread makes no batch: one that `fetches` does so below
    torch's fetching, and another one where it runs the user's code. No frame is asked for its variables."""
    calls = []
    while frame is not None:
        calls.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    if not calls or calls[0][0].co_name in _waits and calls[0][0].co_filename.startswith(_standard_library):
        return None
    if fetches:
        at = next((at for at, (code, _) in enumerate(calls) if code.co_filename.endswith(_fetching)), None)
        if at is None:
            return None
        if at == 0:
            return 'fetching', calls[0][0].co_filename, calls[0][1]
        calls = calls[:at]
    user = next((at for at, (code, _) in enumerate(calls) if _is_users(code)), None)
    if user is None and not fetches:
        return None
    place = calls[user or 0]
    for code, line in reversed(calls[:user]):
        owner = _owner(code)
        if not _hands_on(code, owner):
            name, file, line = _named(code, owner, line)
            return (name, file, line) if user is None else (name, place[0].co_filename, place[1])
    if user is None:
        place = next((call for call in calls if call[0].co_name[:1] != '<'), place)  # What a comprehension is written in.
    return _named(place[0], _owner(place[0]), place[1])


def _is_users(code):
    return code.co_filename[:1] != '<' and not code.co_filename.startswith(_standard_library) and not any(part in code.co_filename for part in ('/site-packages/', '/dist-packages/'))


def _hands_on(code, owner):
    unknown = owner is None and code.co_name in _by_the_class  # A name that says nothing without its class: what it calls says more.
    return unknown or code.co_name in _functions or code.co_name in _wrappers or code.co_flags & _generator or owner in _owners or any(folder in code.co_filename for folder in _folders) and '/torch/utils/data/_utils/collate' not in code.co_filename


def _named(code, owner, line):
    function = code.co_name
    name = function if not owner else owner if function in _by_the_class else owner + '.' + function
    if _is_users(code):
        name = '{}:{} {}'.format(os.path.basename(code.co_filename), code.co_firstlineno, name)
    return name, code.co_filename, line


def _owner(code):
    """The class of a method; None before Python 3.11, where code does not know it."""
    qualified = getattr(code, 'co_qualname', None)
    if qualified is None:
        return None
    parts = qualified.split('.')
    return parts[-2] if len(parts) > 1 and parts[-2] != '<locals>' else ''
