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
_folders = ('/webdataset/', '/torch/utils/data/', '/torchdata/', '-packages/datasets/')
_by_the_class = frozenset(('forward', '__call__', '__getitem__', '__iter__'))
_sources = {}


class Pipe:
    """From the workers that are forked while it is open. What does not fit is lost, and no worker waits."""

    def __init__(self, workers, collate=None):
        self._collate = _code_of(collate)
        self._read, self._write = os.pipe()
        for end in (self._read, self._write):
            os.set_blocking(end, False)
        self._interval = between_looks * max(1.0, workers / 8)

    def init(self, original):
        """A worker_init_fn that begins to look, and then is the original one."""

        def begin(worker):
            try:
                # Else code that keeps the interpreter's lock for milliseconds is passed over, and what lets go of it next is seen in its place.
                sys.setswitchinterval(min(sys.getswitchinterval(), switch_seconds))
                threading.Thread(target=_look, args=(self._write, self._interval, threading.get_ident(), self._collate), daemon=True).start()
            except Exception:  # Without it nothing is known of this worker.
                pass
            if original is not None:
                original(worker)

        return begin

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
        os.close(self._write)
        stages = {}
        for line in text.decode('utf-8', 'replace').splitlines():
            parts = line.split('\t')
            if len(parts) != 6 or not all(parts[at].isdigit() for at in (0, 1, 2, 5)):
                continue
            stage = stages.setdefault(parts[3], {'name': parts[3], 'file': parts[4], 'line': int(parts[5]), 'count': 0, 'cpu': 0, 'process': 0, 'collates': False})
            stage['count'] += 1
            stage['cpu'] += int(parts[0])
            stage['process'] += int(parts[1])
            stage['collates'] |= parts[2] == '1'
        return sorted(stages.values(), key=lambda stage: -stage['cpu'])[:most_stages]


def _code_of(function):
    """What runs when it is called: of a function, of a partial one, of an object."""
    function = getattr(function, 'func', function)
    return getattr(function, '__code__', None) or getattr(getattr(type(function), '__call__', None), '__code__', None)


def _look(pipe, interval, thread, collate):
    """Until the worker ends, or its drain."""
    try:
        clock = time.pthread_getcpuclockid(thread)
        last, last_of_all, last_at = time.clock_gettime_ns(clock), time.process_time_ns(), time.monotonic_ns()
        drawn = Random(os.getpid())
        while True:
            planned = drawn.uniform(0.2, 1.8) * interval
            time.sleep(planned)
            used, of_all, at = time.clock_gettime_ns(clock), time.process_time_ns(), time.monotonic_ns()
            spent, last = used - last, used
            spent_by_all, last_of_all = of_all - last_of_all, of_all
            passed, last_at = at - last_at, at
            if spent < least_busy * planned * 1e9:
                continue
            # Code that holds the interpreter's lock lets no look happen before its end: of the CPU time, what lies in the planned time counts. By the clock, as on a busy
            # machine a thread has only a part of a core.
            counted = min(1.0, planned * 1e9 / max(passed, 1))
            frame = sys._current_frames().get(thread)
            stage = stage_of(frame)
            if stage is not None:
                line = '{}\t{}\t{:d}\t{}\t{}\t{}\n'.format(int(counted * spent), int(counted * max(spent, spent_by_all)), _collates(frame, collate), *(str(part).replace('\t', ' ').replace('\n', ' ') for part in stage)).encode('utf-8', 'replace')
                try:
                    if len(line) <= 4096:
                        os.write(pipe, line)
                except BlockingIOError:
                    pass
    except Exception:  # The pipe is closed, or the interpreter ends.
        pass


def stage_of(frame):
    """(name, file, line) of the outermost call below torch's fetching of a batch that does something by itself; of the innermost where none does. None where
    the thread makes no batch. No frame is asked for its variables."""
    calls = []
    while frame is not None:
        code = frame.f_code
        calls.append((code, frame.f_lineno))
        frame = frame.f_back
    at = next((at for at, (code, _) in enumerate(calls) if code.co_filename.endswith(_fetching)), None)
    if at is None:
        return None
    for code, line in reversed(calls[:at]):
        owner = _owner(code)
        if not _hands_on(code, owner):
            return _named(code, owner, line)
    code, line = calls[0]
    return ('fetching', code.co_filename, line) if at == 0 else _named(code, _owner(code), line)


def _collates(frame, collate):
    """Whether the loader's collate function is called."""
    while frame is not None:
        if frame.f_code is collate:
            return True
        frame = frame.f_back
    return False


def _hands_on(code, owner):
    return code.co_name in _functions or code.co_name in _wrappers or code.co_flags & _generator or owner in _owners or any(folder in code.co_filename for folder in _folders) and '/torch/utils/data/_utils/collate' not in code.co_filename


def _named(code, owner, line):
    function = code.co_name
    name = function if not owner else owner if function in _by_the_class else owner + '.' + function
    if code.co_filename[:1] != '<' and '/site-packages/' not in code.co_filename and '/dist-packages/' not in code.co_filename:
        name = '{}:{} {}'.format(os.path.basename(code.co_filename), code.co_firstlineno, name)
    return name, code.co_filename, line


def _owner(code):
    """The class of a method."""
    qualified = getattr(code, 'co_qualname', None)
    if qualified is not None:
        parts = qualified.split('.')
        return parts[-2] if len(parts) > 1 and parts[-2] != '<locals>' else ''
    key = code.co_filename, code.co_firstlineno
    if key not in _sources:
        _sources[key] = _class_at(*key)
    return _sources[key]


def _class_at(file, line):
    """Before Python 3.11 a code object does not know its class: that of the nearest line above with less indentation."""
    try:
        with open(file, encoding='utf-8', errors='replace') as lines:
            above = [next(lines) for _ in range(line)]
    except (OSError, StopIteration):
        return ''
    inside = len(above[-1]) - len(above[-1].lstrip())
    for text in reversed(above):
        own = len(text) - len(text.lstrip())
        if text.strip() and own < inside:
            words = text.split()
            return words[1].split('(')[0].rstrip(':') if words[0] == 'class' and len(words) > 1 else ''
    return ''
