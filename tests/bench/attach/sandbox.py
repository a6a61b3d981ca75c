"""What a sandbox costs, and what it keeps: `sandbox.py dsanalyze [--pairs 30] [--kills 100] [--folder FOLDER] [--seed N]`.

rate      a training's own rate in its sandbox over that of an ordinary run (--keep-output), interleaved pairs
storage   the bytes that a script reads from storage, cold, half cold and warm, inside and outside, in points of all that it reads
calls     what opening, reading and closing one such file takes, inside and outside
kills     launcher, its guardian, hook or all, killed at moments drawn by the seed: the folder's tree is what it was before
"""
import argparse
import json
import math
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / 'attach'), str(pathlib.Path(__file__).resolve().parents[2] / 'attach' / 'program')]
from test_program import processes_of
from test_sandbox import script as writing, tree

file_bytes = 110_000  # ImageNet's mean
training = '''
import time, torch
from torch.utils.data import DataLoader, Dataset
torch.set_num_threads(1)
class Samples(Dataset):
    def __len__(self): return 4000
    def __getitem__(self, i):
        with open('data/%d' % (i % 200), 'rb') as file: data = file.read()
        begin = time.thread_time()
        while time.thread_time() - begin < 0.001: pass
        return torch.zeros(4) + len(data)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
while True:
    for x in DataLoader(Samples(), 8, num_workers=1):
        model(x).sum().backward()
        optimizer.step()
'''
reading = '''
import os, sys
from torch.utils.data import DataLoader  # the launcher waits for it
def count(): return int(dict(line.split(': ') for line in open('/proc/self/io').read().splitlines())['read_bytes'])
names = ['data/%d' % i for i in range(200)]
for number, name in enumerate(names):
    file = os.open(name, os.O_RDONLY)
    if number < int(sys.argv[1]): os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    else:
        while os.read(file, 1 << 20): pass
    os.close(file)
before, read = count(), 0
for name in names:
    with open(name, 'rb') as file: read += len(file.read())
open(sys.argv[2], 'w').write(str((count() - before) / read))
'''
calls_of_files = '''
import statistics, sys, time
from torch.utils.data import DataLoader  # the launcher waits for it
def seconds_per_file():
    begin = time.perf_counter()
    for i in range(5000):
        with open('data/%d' % (i % 200), 'rb') as file: file.read()
    return (time.perf_counter() - begin) / 5000
open(sys.argv[1], 'w').write(str(statistics.median(seconds_per_file() for _ in range(7))))
'''


def profile(program, folder, name, *options):
    file = folder / 'profile.json'
    subprocess.run([program, 'profile', '--time-budget', '12s', '--quiet', '-o', str(file), *options, '--', '/usr/bin/python3', name], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return json.loads(file.read_text())


def rate(arguments, folder):
    (folder / 'training.py').write_text(training)
    ratios = []
    for pair in range(arguments.pairs):
        order = [(), ('--keep-output',)]
        rates = {options: next(run['samples_per_s'] for run in profile(arguments.program, folder, 'training.py', *options)['runs'] if run['name'] == 'full')
                 for options in (order if pair % 2 else order[::-1])}
        ratios.append(rates[()] / rates['--keep-output',])
        print('pair {}: {:.4f}'.format(pair + 1, ratios[-1]), flush=True)
    mean = statistics.fmean(ratios)
    half = 2.045 * statistics.stdev(ratios) / math.sqrt(len(ratios)) if len(ratios) > 1 else math.nan
    print('rate inside / outside: mean {:.4f} [{:.4f}, {:.4f}], median {:.4f}, {} pairs'.format(mean, mean - half, mean + half, statistics.median(ratios), len(ratios)))


def beside(arguments, folder, name, *options):
    """What the script writes into a file, inside a sandbox and outside."""
    shared = pathlib.Path(tempfile.mkdtemp(dir='/dev/shm'))
    results = []
    for inside in (True, False):
        os.sync()
        command = ['/usr/bin/python3', name, *options, str(shared / 'part')]
        subprocess.run([arguments.program, 'profile', '--quiet', '--', *command] if inside else command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        results.append(float((shared / 'part').read_text()))
    shutil.rmtree(shared)
    return results


def storage(arguments, folder):
    (folder / 'reading.py').write_text(reading)
    for cold in (200, 100, 0):
        parts = beside(arguments, folder, 'reading.py', str(cold))
        print('{} of 200 files cold: {:.2f} % of the bytes from storage inside, {:.2f} % outside'.format(cold, 100 * parts[0], 100 * parts[1]), flush=True)


def calls(arguments, folder):
    (folder / 'calls.py').write_text(calls_of_files)
    for _ in range(3):
        print('a warm file of {} bytes opened, read, closed: {:.1f} us inside, {:.1f} us outside'.format(
            file_bytes, *[1e6 * seconds for seconds in beside(arguments, folder, 'calls.py')]), flush=True)


def kills(arguments, folder):
    draw = random.Random(arguments.seed)
    work = folder / 'work'
    (work / 'out').mkdir(parents=True)
    for name in ('log.csv', 'best.pt', 'inplace', 'other', 'out/1'):
        (work / name).write_text('of the user')
    subprocess.run(['/usr/bin/python3', '-c', 'import sqlite3; runs = sqlite3.connect("runs.db"); runs.execute("create table runs (step)"); runs.commit()'], cwd=work, check=True)
    (folder / 'writing.py').write_text(writing)
    before, bad = tree(work), 0
    for kill in range(arguments.kills):
        mark = 'DSANALYZE_TEST_MARK=bench-{}-{}'.format(os.getpid(), kill)
        environment = dict(os.environ, XDG_STATE_HOME=str(folder / 'state'), **dict([mark.split('=')]))
        running = subprocess.Popen([arguments.program, 'profile', '--time-budget', '8s', '--', '/usr/bin/python3', folder / 'writing.py'], cwd=work, env=environment,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(draw.uniform(0, 8))
        victims = {int(text.split()[0]): text.split('(')[1].split(')')[0] for text in processes_of(mark, 'stat')}
        whom = draw.choice(('launcher', 'guardian', 'training', 'all'))
        for process, name in victims.items():
            is_it = {'launcher': process == running.pid, 'guardian': name == 'dsanalyze-guard', 'training': name.startswith('python'), 'all': True}[whom]
            if is_it:
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        running.wait()
        for _ in range(600):
            if not processes_of(mark):
                break
            time.sleep(0.05)
        left = processes_of(mark)
        if tree(work) != before or left:
            bad += 1
            print('kill {} of {}: tree {}, left {}'.format(kill + 1, whom, 'changed' if tree(work) != before else 'same', left), flush=True)
    layers = list((folder / 'state' / 'dsanalyze').glob('sandbox/*'))
    print('{} kills: {} changed the tree or left processes; {} layers wait for the next start'.format(arguments.kills, bad, len(layers)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('program')
    parser.add_argument('--pairs', type=int, default=30)
    parser.add_argument('--kills', type=int, default=100)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--folder', type=pathlib.Path, help='on a disk; a new one by default')
    arguments = parser.parse_args()
    arguments.program = str(pathlib.Path(arguments.program).resolve())
    folder = pathlib.Path(tempfile.mkdtemp(prefix='sandbox-bench-', dir=arguments.folder))
    try:
        (folder / 'data').mkdir()
        for i in range(200):
            (folder / 'data' / str(i)).write_bytes(os.urandom(file_bytes))
        storage(arguments, folder)
        calls(arguments, folder)
        kills(arguments, folder)
        rate(arguments, folder)
    finally:
        shutil.rmtree(folder)


if __name__ == '__main__':
    main()
