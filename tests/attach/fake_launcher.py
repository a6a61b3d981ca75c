"""A launcher in a few lines, for tests of the hook: it starts a script, answers by a plan, and keeps every message."""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading

here = pathlib.Path(__file__).resolve().parent
site = here.parent.parent / 'python' / 'dsanalyze' / '_attach' / 'site'
seconds = 300  # Until a script is taken for one that hangs, on a machine that is busy, too.


class Plan:
    """Answers in turn; after the last one `then` is answered for ever. An epoch's end is answered by `go`, a new epoch by the last `run` until it is used up."""

    def __init__(self, *answers, then=None):
        self.answers = list(answers)
        self.then = then or {'do': 'pass'}
        self.run = None
        self.left = 0

    def answer(self, message):
        done = len(message.get('window', {}).get('samples', ()))
        self.left -= done
        if message.get('why') == 'epoch_end':
            return {'do': 'go'}
        if message.get('why') == 'start' and self.run is not None and self.left > 0:
            return dict(self.run, steps=self.left)
        if not self.answers:
            return self.then
        answer = self.answers.pop(0)
        if answer['do'] == 'run':
            self.run, self.left = answer, answer['steps']
        return answer


class Connection:
    def __init__(self):
        self.messages = []

    def of(self, kind):
        return [message for message in self.messages if message['t'] == kind]

    def at(self, why):
        return [message for message in self.of('at') if message['why'] == why]

    def windows(self, mode=None):
        found = [message['window'] for message in self.messages if message.get('window')]
        return [window for window in found if mode is None or window['mode'] == mode]

    def notes(self):
        return {message['code']: message for message in self.of('note')}


class Nursery:
    """A process that has imported torch, and forks a child for each script: importing takes longer than most tests."""

    one = {}

    def __init__(self, python):
        self._process = subprocess.Popen([python, str(here / 'nursery.py')], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                         env=dict(os.environ, OMP_NUM_THREADS='1'))

    @classmethod
    def of(cls, python):
        if python not in cls.one:
            cls.one[python] = cls(python)
        return cls.one[python]

    def start(self, **request):
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())

    def wait(self):
        """The exit status of the child, once it has ended."""
        return os.waitstatus_to_exitcode(int(self._process.stdout.readline()))


class Launcher:
    """Runs one command under the hook. make_plan(hello) gives the plan of a process; no plan leaves it alone."""

    def __init__(self, make_plan=None, mode='phases', python=sys.executable, environment=None):
        self.make_plan = make_plan if callable(make_plan) else (lambda hello: make_plan)
        self.connections = []
        self.folder = tempfile.TemporaryDirectory(prefix='attach')
        path = os.path.join(self.folder.name, 'socket')
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(path)
        self._server.listen(64)
        self.python = python
        self.environment = dict(os.environ, DSANALYZE_ATTACH=path, DSANALYZE_ATTACH_MODE=mode, PYTHONPATH=str(site), OMP_NUM_THREADS='1')
        self.environment.update(environment or {})
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self):
        while True:
            try:
                peer, _ = self._server.accept()
            except OSError:
                return
            connection = Connection()
            self.connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(peer, connection), daemon=True)
            thread.start()
            self._threads.append(thread)  # The end of a run joins those in the list.

    def _serve(self, peer, connection):
        plan = None
        with peer, peer.makefile('rb') as lines:
            try:
                for line in lines:
                    message = json.loads(line)
                    connection.messages.append(message)
                    if message['t'] == 'hello':
                        plan = self.make_plan(message)
                    if message['t'] in ('at', 'drained'):
                        answer = plan.answer(message) if plan is not None else {'do': 'pass'}
                        peer.sendall(json.dumps(answer).encode() + b'\n')
            except OSError:
                pass

    def run(self, *command, folder=None, expect=0, virtual=True):
        """Runs a script (its path and arguments) to its end, in a process that has imported torch before, and returns its output. In `virtual` time its sleeps take
        no time, and are all that is clocked: for what waits for real, or of which several processes or threads are clocked, it passes as ever."""
        nursery = Nursery.of(self.python)
        path = os.path.join(self.folder.name, 'printed')
        pid = nursery.start(command=list(map(str, command)), environment=self.environment, folder=folder or self.folder.name, output=path, virtual=virtual)
        late = threading.Timer(seconds, lambda: os.killpg(pid, signal.SIGKILL))
        late.start()
        status = nursery.wait()
        late.cancel()
        return self._result(status, pathlib.Path(path).read_text(), expect)

    def start(self, *command, folder=None, expect=0):
        """The same in a Python of its own, as the launcher starts it."""
        process = subprocess.Popen([self.python, *map(str, command)], env=self.environment, cwd=folder or self.folder.name, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, start_new_session=True)
        late = threading.Timer(seconds, lambda: os.killpg(process.pid, signal.SIGKILL))
        late.start()
        output, _ = process.communicate()
        late.cancel()
        return self._result(process.returncode, output, expect)

    def _result(self, status, output, expect):
        self.close()
        if expect is not None and status != expect:
            raise AssertionError('exit {} instead of {}:\n{}'.format(status, expect, output))
        return output

    def close(self):
        """Takes no more connections, and reads what was sent before. Called again it does nothing."""
        if self._server.fileno() != -1:
            self._server.shutdown(socket.SHUT_RDWR)  # Connections that wait are still accepted, then accept() fails.
            self._threads[0].join(10)
            self._server.close()
        for thread in self._threads[1:]:
            thread.join(10)

    @property
    def first(self):
        return self.connections[0]


def unexplained(window):
    """The nanoseconds of a window that are in none of its parts."""
    return window['end'] - window['begin'] - sum(sum(window[part]) for part in ('wait', 'compute', 'outside'))


def run(steps):
    return {'do': 'run', 'steps': steps}


def switch(mode, keep=16, keep_bytes=1 << 28):
    return {'do': 'switch', 'mode': mode, 'keep': keep, 'keep_bytes': keep_bytes}


def drain(workers, batches, seconds=20, which='measure'):
    return {'do': 'drain', 'workers': workers, 'batches': batches, 'seconds': seconds, 'pass': which}


end = {'do': 'end'}
