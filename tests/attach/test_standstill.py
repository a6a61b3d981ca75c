"""A training that stands still is explained: which process, at which line, in which system call."""
import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

here = pathlib.Path(__file__).resolve().parent
program = os.environ.get('DSANALYZE', 'dsanalyze')

script = '''
import os, signal, sys, threading, time
import torch
from torch.utils.data import DataLoader, Dataset

kind, fifo, workers = sys.argv[1], sys.argv[2], int(sys.argv[3])
lock = threading.Lock()
still_at = int(os.environ.get('STILL_AT', 600))
last = int(os.environ.get('LAST', 40000))


def stand_still():
    if kind == 'fifo':
        if not os.path.exists(fifo):
            os.mkfifo(fifo)
        open(fifo).read()  # here: fifo
    if kind == 'across':  # the path's name lies in two pages of memory
        import ctypes, mmap
        os.mkfifo(fifo)
        memory, name = mmap.mmap(-1, 2 * mmap.PAGESIZE), os.fsencode(fifo) + b'\\0'
        begin = mmap.PAGESIZE - 3
        memory[begin:begin + len(name)] = name
        ctypes.CDLL(None).open(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory)) + begin), os.O_RDONLY)  # here: across
    if kind == 'pipe':
        os.read(os.pipe()[0], 1)  # here: pipe
    if kind == 'lock':
        lock.acquire()
        lock.acquire()  # here: lock
    if kind == 'sleep':
        time.sleep(1000)  # here: sleep
    if kind == 'compute':
        while True: pass  # here: compute
    if kind == 'deep':
        deeper(150)
    if kind == 'blocked':
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
        time.sleep(1000)
    if kind == 'stopped':
        os.kill(os.getpid(), signal.SIGSTOP)
    if kind in ('spawned', 'handlers'):
        time.sleep(1000)  # here: spawned
    if kind == 'dead':
        time.sleep(0.5)  # By then all of its batches were received, and the next one is waited for.
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == 'forked':
        lock.acquire()  # here: forked
    if kind == 'fuse':
        open(fifo + '/any').read()


def deeper(calls):
    if not calls:
        time.sleep(1000)  # here: deep
    deeper(calls - 1)


class Data(Dataset):
    def __len__(self):
        return last

    def __getitem__(self, index):
        if index == still_at and kind != 'collate':
            stand_still()
        return torch.full((4,), float(index))


class Slow(Dataset):
    def __len__(self):
        return 100

    def __getitem__(self, index):
        time.sleep(0.02)
        return torch.zeros(4)


def collate(samples):
    if kind == 'collate' and samples[0][0] == still_at:
        time.sleep(1000)  # here: collate
    return torch.stack(samples)


def train():
    loader = DataLoader(Data(), 4, num_workers=workers, collate_fn=collate, multiprocessing_context='spawn' if kind == 'spawned' else None)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    if kind == 'handlers':
        for number in range(signal.SIGRTMIN, signal.SIGRTMAX + 1):
            signal.signal(number, lambda *_: open(fifo, 'w').close())
    if kind == 'forked':
        lock.acquire()
    for number, x in enumerate(loader):  # here: waits
        if kind == 'forked' and number == 0:
            lock.release()  # In the workers, which were forked meanwhile, it is taken for ever.
        model(x).mean().backward()
        time.sleep(0.002)
        optimizer.step()
        optimizer.zero_grad()
        if kind == 'slow' and number > 230:
            time.sleep(0.3)
        if kind == 'validation' and number == 150:
            with torch.no_grad():
                for _ in DataLoader(Slow(), 4):
                    pass
        if kind == 'descriptors' and number == 20:
            os.closerange(150, 1024)
            import ctypes  # No Python's open(): what that changes is taken back.
            files = [ctypes.CDLL(None).open(os.path.join(fifo, name).encode(), os.O_RDWR) for name in os.listdir(fifo)]
        if kind == 'outside' and number == 150:
            lock.acquire()
            lock.acquire()  # here: outside


if __name__ == '__main__':
    train()
'''


with_ranks = '''
import os, sys, time
import torch
from torch.utils.data import DataLoader

def main(rank):
    torch.distributed.init_process_group('gloo', init_method='file://' + sys.argv[2], rank=rank, world_size=2)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    for number, x in enumerate(DataLoader(torch.ones(20000, 4), 4)):
        model(x).mean().backward()
        if number == 150 and rank == 1:
            time.sleep(1000)  # here: other
        torch.distributed.all_reduce(model.weight.grad)
        optimizer.step()

if __name__ == '__main__':
    torch.multiprocessing.spawn(main, nprocs=2)
'''


ranks_with_workers = '''
import os, sys, time
import torch
from torch.utils.data import DataLoader, Dataset

class Data(Dataset):
    def __init__(self, rank): self.rank = rank
    def __len__(self): return 20000
    def __getitem__(self, index):
        if self.rank == 1 and index == 200 and not os.path.exists(sys.argv[2]):
            os.mkfifo(sys.argv[2])
            open(sys.argv[2]).read()  # here: worker
        return torch.ones(4)

def main(rank):
    torch.distributed.init_process_group('gloo', init_method='file://' + sys.argv[2] + '.group', rank=rank, world_size=2)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
    if sys.argv[1] == 'step':
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    for x in DataLoader(Data(rank), 4, num_workers=1):
        model(x).mean().backward()
        time.sleep(0.002)
        optimizer.step()

agent = compile("""def watch(ranks):
    while any(rank.is_alive() for rank in ranks):
        time.sleep(0.1)""", '/opt/torch/distributed/elastic/agent/server/api.py', 'exec')

if __name__ == '__main__':  # as torchrun, whose agent waits for the ranks, and which does not run everywhere
    exec(agent)
    context = torch.multiprocessing.spawn(main, nprocs=2, join=False)
    watch(context.processes)
'''


with_thread = '''
import os, queue, sys, threading
import torch
from torch.utils.data import DataLoader, Dataset

class Data(Dataset):
    def __len__(self): return 40000
    def __getitem__(self, index):
        if index == 200 and not os.path.exists(sys.argv[2]):
            os.mkfifo(sys.argv[2])
            open(sys.argv[2]).read()  # here: worker
        return torch.ones(4)

def fetch(batches):
    for x in DataLoader(Data(), 4, num_workers=1):
        batches.put(x)

batches = queue.Queue(2)
threading.Thread(target=fetch, args=(batches,), daemon=True).start()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
while True:
    model(batches.get()).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
'''


class Standstill(unittest.TestCase):
    def explained(self, kind, workers=2, script=script, mounted=None, budget='20s', **variables):
        with tempfile.TemporaryDirectory(prefix='dsanalyze-test-') as folder:
            path = pathlib.Path(folder, 'still.py')
            path.write_text(script)
            fifo = mounted or pathlib.Path(folder, 'fifo')
            # In a file: a process that nothing can end would hold a pipe.
            with open(pathlib.Path(folder, 'errors'), 'w+', encoding='utf-8') as errors:
                run = subprocess.run([program, 'profile', '--time-budget', budget, '--hang-timeout', '1s', '--', sys.executable, str(path), kind, str(fifo), str(workers)],
                                     stdout=subprocess.DEVNULL, stderr=errors, timeout=100, check=False, env=dict(os.environ, XDG_STATE_HOME=folder, **variables))
                errors.seek(0)
                run.stderr = errors.read()
        lines = run.stderr.splitlines()
        told = [line for line in lines if 'PID' in line and '(' in line]
        error = ' '.join(lines[-1:])
        return run, told, error

    def line_of(self, mark, script=script):
        return next(number for number, line in enumerate(script.splitlines(), 1) if line.endswith('# here: ' + mark))

    def test_the_worker_that_stands_still_is_named_with_line_and_system_call(self):
        for kind, call in (('fifo', 'opening /'), ('pipe', 'reading pipe:'), ('lock', 'waiting for a lock or a thread'), ('sleep', 'sleeping'), ('compute', 'computing'),
                           ('collate', 'sleeping'), ('forked', 'waiting for a lock or a thread')):
            with self.subTest(kind):
                run, told, _ = self.explained(kind)
                everything = ' '.join(run.stderr.split())
                place = f"still.py:{self.line_of(kind)} in {'collate' if kind == 'collate' else 'stand_still'}"
                self.assertIn('Where it stands: worker ', everything)
                self.assertIn(f'is at {place}, {call}', everything)
                self.assertIn(f"still.py:{self.line_of('waits')} in train", everything)
                self.assertIn('(waits for a batch: batch 151, samples 600, 601, 602, 603)', everything)
                self.assertIn('/dev/shm: ', everything)
                self.assertEqual(len([line for line in told if "loader's worker" in line]), 2)

    def test_a_path_that_lies_in_two_pages_of_memory_is_whole(self):
        everything = ' '.join(self.explained('across')[0].stderr.split())
        self.assertRegex(everything, f"still.py:{self.line_of('across')} in stand_still, opening /[^ ]*/fifo")

    def test_a_process_without_workers_and_one_outside_of_its_loader_are_named_themselves(self):
        for kind, workers, function in (('sleep', 0, 'stand_still'), ('outside', 2, 'train')):
            with self.subTest(kind):
                everything = ' '.join(self.explained(kind, workers)[0].stderr.split())
                self.assertRegex(everything, f'Where it stands: process [0-9]+ is at still.py:{self.line_of(kind)} in {function}')

    def test_who_gives_up_waiting_for_the_first_batch_is_told_what_it_waits_for(self):
        with tempfile.TemporaryDirectory(prefix='dsanalyze-test-', dir='/dev/shm') as folder:  # It is not isolated: the script opens this very file.
            path, fifo = pathlib.Path(folder, 'still.py'), pathlib.Path(folder, 'fifo')
            path.write_text(script)
            os.mkfifo(fifo)
            run = subprocess.Popen([program, 'profile', '--hang-timeout', '0.1s', '--', sys.executable, str(path), 'fifo', str(fifo), '2'], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True, env=dict(os.environ, XDG_STATE_HOME=folder, STILL_AT='0'))
            try:
                writer, deadline = None, time.monotonic() + 60
                while writer is None and time.monotonic() < deadline:
                    try:
                        writer = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)  # There is none before the worker opens it, for what never comes.
                    except OSError:
                        time.sleep(0.1)
                run.send_signal(signal.SIGINT)
                everything = ' '.join(run.communicate(timeout=60)[1].split())
            finally:
                run.kill()
                run.wait()
            os.close(writer)
        self.assertRegex(everything, f"no training step was seen yet. Where it stands: worker [0-9]+ is at still.py:{self.line_of('fifo')} in stand_still")

    def test_a_process_whose_threads_run_is_not_harmed_by_being_asked(self):
        # A thread that looks at the frames of others while they run crashes within some hundred times.
        busy = """if True:
            import sys, threading, time
            sys.path.insert(0, sys.argv[1])
            from standstill import Standstill
            kept = Standstill(sys.argv[2])
            def make_frames():
                while True:
                    exec(compile('def f(n):\\n  return f(n - 1) if n else 0\\nf(20)', 'made', 'exec'), {})
            def make_threads():
                while True:
                    one = threading.Thread(target=lambda: [len(str(number)) for number in range(50)])
                    one.start()
                    one.join()
            for function in (make_frames, make_threads):
                threading.Thread(target=function, daemon=True).start()
            print('ready', flush=True)
            time.sleep(120)
        """
        with tempfile.TemporaryDirectory(prefix='dsanalyze-test-') as folder:
            process = subprocess.Popen([sys.executable, '-c', busy, here.parents[1] / 'python' / 'dsanalyze' / '_attach', folder], stdout=subprocess.PIPE, text=True,
                                       env=dict(os.environ, MALLOC_PERTURB_='92'))
            try:
                process.stdout.readline()
                stacks, = pathlib.Path(folder).glob('stacks-*')
                number = int(stacks.name.split('-')[2])
                for _ in range(1000):
                    ctypes.CDLL(None).tgkill(process.pid, process.pid, number)
                    time.sleep(0.001)
                self.assertIsNone(process.poll())
                text = stacks.read_text()
                self.assertGreater(text.count('in <module>'), 1)
                self.assertFalse('make_' in text)
            finally:
                process.kill()
                process.wait()
                process.stdout.close()

    def test_a_long_validation_and_steps_that_become_slow_do_not_stand_still(self):
        for kind in ('validation', 'slow'):
            with self.subTest(kind):
                run, _, error = self.explained(kind, budget='6s', LAST='960')
                self.assertNotIn('Where it stands', run.stderr)
                self.assertEqual(run.returncode, 0, error)

    def test_files_that_a_script_opens_in_place_of_the_hooks_are_not_written_to(self):
        with tempfile.TemporaryDirectory(prefix='dsanalyze-test-') as folder:
            for number in range(300):
                pathlib.Path(folder, str(number)).write_text('of the user')
            self.explained('descriptors', mounted=folder, budget='6s')
            self.assertEqual({path.read_text() for path in pathlib.Path(folder).iterdir()}, {'of the user'})

    def test_a_script_that_handles_the_signals_itself_hears_none(self):
        with tempfile.TemporaryDirectory(prefix='dsanalyze-test-') as folder:
            everything = ' '.join(self.explained('handlers', mounted=f'{folder}/called')[0].stderr.split())
            self.assertEqual(os.listdir(folder), [])
        self.assertIn('has not come to its next checkpoint', everything)

    def test_a_worker_deep_in_its_calls_is_one_all_the_same(self):
        everything = ' '.join(self.explained('deep')[0].stderr.split())
        self.assertIn(f"Where it stands: worker ", everything)
        self.assertIn(f"still.py:{self.line_of('deep')} in deeper, sleeping", everything)

    def test_a_worker_that_blocks_all_signals_is_named_by_its_system_call(self):
        self.assertRegex(' '.join(self.explained('blocked')[0].stderr.split()), 'Where it stands: worker [0-9]+ is sleeping')

    def test_of_several_ranks_the_one_that_does_not_come_is_named(self):
        everything = ' '.join(self.explained('ranks', script=with_ranks)[0].stderr.split())
        self.assertRegex(everything, r'Where it stands: rank 1 \(process [0-9]+\) is at still.py:{} in main, sleeping'.format(self.line_of('other', with_ranks)))

    def test_of_several_ranks_the_worker_is_named_that_one_of_them_waits_for_wherever_the_others_wait(self):
        for kind in ('step', 'checkpoint'):
            with self.subTest(kind):
                everything = ' '.join(self.explained(kind, script=ranks_with_workers)[0].stderr.split())
                self.assertRegex(everything, f"Where it stands: worker [0-9]+ of rank 1 is at still.py:{self.line_of('worker', ranks_with_workers)} in __getitem__, opening /")

    def test_the_worker_is_named_whose_batch_a_thread_of_the_script_waits_for(self):
        everything = ' '.join(self.explained('thread', script=with_thread)[0].stderr.split())
        self.assertRegex(everything, f"Where it stands: worker [0-9]+ is at still.py:{self.line_of('worker', with_thread)} in __getitem__, opening /")

    def test_a_worker_that_was_spawned_is_named(self):
        everything = ' '.join(self.explained('spawned')[0].stderr.split())
        self.assertIn(f"still.py:{self.line_of('spawned')} in stand_still, sleeping", everything)

    def test_a_worker_that_died_is_named(self):
        _, _, error = self.explained('dead')
        self.assertRegex(error, r'error: the command ended with exit status 1 \(.*worker \(pid [0-9]+\) is killed by signal')

    @unittest.skipUnless(os.geteuid() == 0 and os.path.exists('/dev/fuse'), 'mounting a file system takes root')
    def test_a_file_system_that_does_not_answer_is_named_by_its_file(self):
        with tempfile.TemporaryDirectory(prefix='dsanalyze-test-') as folder:
            server = subprocess.Popen([sys.executable, here / 'trainings' / 'file_stands.py', folder], stdout=subprocess.PIPE, text=True)
            try:
                self.assertEqual(server.stdout.readline(), 'mounted\n')
                everything = ' '.join(self.explained('fuse', mounted=folder)[0].stderr.split())
            finally:
                server.kill()
                server.wait()
                server.stdout.close()
                subprocess.run(['umount', '--lazy', folder], check=True)  # The processes that read end meanwhile.
        # Such a read lets no signal through, nor the process end.
        self.assertRegex(everything, r'process [0-9]+ \(python3\) is still there')
        self.assertRegex(everything, f'Where it stands: worker [0-9]+ is reading {folder}/any')

    def test_a_worker_that_was_stopped_is_named(self):
        everything = ' '.join(self.explained('stopped')[0].stderr.split())
        self.assertRegex(everything, 'Where it stands: worker [0-9]+ is stopped by a signal')


if __name__ == '__main__':
    unittest.main()
