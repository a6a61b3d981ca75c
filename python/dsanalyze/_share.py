"""A group of jobs that share prep, started from a script."""
import collections
import json
import os
import pathlib
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from typing import Any, Optional

from . import _library
from ._arguments import found_path, memory, one_of, path, whole
from ._library import LoaderError
from ._prep import Prep, RandomResizedCrop, options_of
from ._sources import group_variable, log, scheme

modes = ('coordinated', 'dependent')
exit_usage = 2
end_seconds = 0.5  # It looks ten times a second whether it is needed any more.
most_lines = 50
_open = set()  # A group that a script keeps no reference to stays until the script ends.
# A process that is forked has the pipe, too, whose end ends the group.
os.register_at_fork(after_in_child=lambda: [group._process.stdin.close() for group in list(_open) if group._process is not None])
_before_ended = {}  # By the address of a group that this process has ended, the one that its environment had named before.


def _program():
    """The program: beside the library or this Python, else where the shell finds it. Raises LoaderError that says where it was looked for."""
    name = 'dsanalyze'
    beside = [folder / name for above in pathlib.Path(_library.path()).resolve().parents[:4] for folder in (above, above / 'bin')]
    for place in (*beside, pathlib.Path(sys.executable).parent / name):
        if place.is_file() and os.access(place, os.X_OK):
            return os.fspath(place)
    found = shutil.which(name)
    if found is None:
        raise LoaderError(f'the program `{name}`, which prepares for a group, is neither beside {_library.path()} or {sys.executable} nor on the PATH')
    return found


def _answers(path):
    """Whether a process listens at the socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
        try:
            line.connect(path)
        except OSError:
            return False
    return True


def _workload(prep, dtype, batch_size):
    """The prep as a workload's file has it. Raises ValueError for prep that groups do not have."""
    made = options_of(prep, dtype)
    if made.get('crop') != 'random_resized':
        raise ValueError(f'prep: found {prep!r}, and jobs share a {RandomResizedCrop.__name__}, with what may follow it')
    value = {'value': batch_size, 'provenance': 'assumed', 'source': 'the script'}
    return {'name': 'script', 'description': 'the prep that a script asked for', 'dataset': 'script', 'task': 'image_classification', 'prep': made['prep'], 'batch_size': value,
            'accelerator_rates_samples_per_s': {}}


class Group:
    """Jobs that share prep, as dsanalyze.share() started or found them. A context manager that closes itself. Threads: any."""

    def __init__(self, address: str, process: 'Optional[subprocess.Popen[str]]' = None, reader: Optional[threading.Thread] = None):
        #: Where jobs find it: for Loader(share=...), or DSANALYZE_GROUP in the environment of a job that another program starts.
        self.address = address
        self._owner = os.getpid()
        self._process = process
        self._reader = reader
        self._before = os.environ.get(group_variable)
        os.environ[group_variable] = address
        _open.add(self)

    def close(self) -> None:
        """New loaders of this process load alone again. A group that this process started ends when its last job has closed its loader."""
        if self not in _open or os.getpid() != self._owner:
            return
        _open.discard(self)
        _before_ended[self.address] = self._before
        if os.environ.get(group_variable) == self.address:
            os.environ.pop(group_variable)
            before = self._before
            while before in _before_ended:  # Groups need not end in the order in which they began, the last one first.
                before = _before_ended[before]
            if before is not None:
                os.environ[group_variable] = before
        if self._process is None:
            return
        self._process.stdin.close()
        self._reader.join(end_seconds)

    def __enter__(self) -> 'Group':
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _read_notes(process, lines):
    with process.stderr as notes:
        for line in notes:
            lines.append(line.rstrip())
            log.info('%s', line.rstrip())
    process.wait()


def _started(words):
    """A group whose program was started and has an address; else the text of its error, and whether arguments were wrong."""
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors='replace', start_new_session=True)
    lines = collections.deque(maxlen=most_lines)
    reader = threading.Thread(target=_read_notes, args=(process, lines), daemon=True)
    reader.start()
    try:
        with process.stdout as output:  # It ends with what a shell is to set.
            found = dict(word.split('=', 1) for line in output for word in shlex.split(line)[1:])
        if group_variable in found:
            return Group(found[group_variable], process, reader), None
        process.stdin.close()
        reader.join()
    except BaseException:
        process.kill()
        raise
    said = _library.as_arguments('\n'.join(line for line in lines if not line.startswith('see: ')).split('error: ', 1)[-1])
    return None, (ValueError if process.returncode == exit_usage else LoaderError)(said)


def share(dataset: 'os.PathLike[str] | str', jobs: int, *, mode: str = 'coordinated', batch_size: int = 256, prep: Prep = None, dtype: str = 'float32', layout: str = 'nchw',
          cache_size: Optional[str] = None, workers: Optional[int] = None, seed: int = 1, epochs: Optional[int] = None, held: Optional[int] = None,
          staging_size: Optional[str] = None, producers: Optional[str] = None, on_error: str = 'skip', index: 'os.PathLike[str] | str | None' = None,
          address: Optional[str] = None) -> Group:
    """Makes the loaders of this process, and of those that it starts, jobs that share their prep: each batch is read and prepared once for all of them.

        with dsanalyze.share("/data/imagenet/train", jobs=4, batch_size=256) as group:
            train_in_processes(4)  # Each makes a dsanalyze.Loader("/data/imagenet/train", 256).

    It starts `dsanalyze share` without a command, and sets DSANALYZE_GROUP in the environment of this process. A job that does not inherit that passes group.address to
    Loader(share=...). With address="unix:/path/of/a/socket", scripts that know nothing of one another share: the first one starts the group, and the others join it.

    dataset, batch_size, prep (a RandomResizedCrop, with HorizontalFlip and Normalize), dtype, layout, cache_size, workers, seed, on_error and index are what Loader has,
    for all jobs together. jobs: loaders that take part at once, at most. mode: "coordinated" (all read the same batches, in step; the first epoch waits for all
    jobs) or "dependent" (each at its own pace, with a batch size and an order of its own). epochs: after which the group ends; None: when its last job leaves. held: batches
    that a job may have at once. staging_size: of dependent, prepared samples that are kept for later draws, "4GiB" or "25%". producers: of coordinated, "jobs" (each prepares
    its part) or "coordinator" (one process does).

    Nothing is left of the group when this process has ended, also by SIGKILL, and no job uses it any more.
    Raises FileNotFoundError, PermissionError, TypeError, ValueError (arguments), LoaderError (a dataset that cannot be opened, no program). Threads: one at a time.
    """
    one_of('mode', mode, modes)
    options = {'jobs': whole('jobs', jobs, 1), 'share': mode, 'batch_size': whole('batch_size', batch_size, 1), 'dtype': one_of('dtype', dtype, ('float32', 'uint8')),
               'layout': one_of('layout', layout, ('nchw', 'nhwc')), 'seed': whole('seed', seed, 0, 1 << 64), 'on_error': one_of('on_error', on_error, ('skip', 'substitute', 'fail')), 'cache': 'page' if cache_size is None else 'minio',
               'cache_size': memory('cache_size', cache_size), 'staging_size': memory('staging_size', staging_size), 'producers': producers,
               **{name: None if value is None else whole(name, value, 1) for name, value in (('workers', workers), ('epochs', epochs), ('held', held))},
               'index': None if index is None else os.path.abspath(found_path('index', index))}
    dataset = os.path.abspath(path('dataset', dataset))
    at = None
    if address is not None:
        at = path('address', address)
        at = os.path.abspath(at[len(scheme):] if at.startswith(scheme) else at)
        options['listen'] = scheme + at
        if _answers(at):
            return Group(scheme + at)
    found_path('dataset', dataset)
    with tempfile.TemporaryDirectory(prefix='dsanalyze-') as folder:
        workload = pathlib.Path(folder, 'prep.json')
        workload.write_text(json.dumps(_workload(prep, dtype, options['batch_size'])))
        words = [_program(), 'share', dataset, '--end-with-stdin', '--workload', os.fspath(workload)]
        for name, value in options.items():
            if value is not None:
                words += [f'--{name.replace("_", "-")}', str(value)]
        group, error = _started(words)
    if group is not None:
        return group
    if at is not None and _answers(at):
        return Group(scheme + at)  # Another script was faster.
    raise error
