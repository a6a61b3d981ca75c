"""`dsanalyze profile -- COMMAND` as a user runs it, with a real PyTorch script whose steps and preparation take a known time."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest


here = pathlib.Path(__file__).resolve().parent
train = [sys.executable, str(here / 'trainings' / 'train.py')]
program = os.environ.get('DSANALYZE', 'dsanalyze')


def processes_of(mark, what='cmdline'):
    """The command lines (or environments) of living processes whose environment holds a mark."""
    found = []
    for process in pathlib.Path('/proc').glob('[0-9]*'):
        try:
            if mark.encode() in (process / 'environ').read_bytes() and (process / 'stat').read_text().rsplit(')', 1)[1].split()[0] != 'Z':
                found.append((process / what).read_text())
        except OSError:
            pass
    return found

phases = {'full', 'synthetic', 'prep', 'cached'}  # And busy, where the loader has workers.


class ProgramTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='dsanalyze-test-'))
        self.addCleanup(shutil.rmtree, self.folder)
        # /dev/shm is not isolated: through it a script says how far it is.
        self.shared = pathlib.Path(tempfile.mkdtemp(prefix='dsanalyze-test-', dir='/dev/shm'))
        self.addCleanup(shutil.rmtree, self.shared)
        self.mark = f'DSANALYZE_TEST_MARK={self.folder.name}'
        name, value = self.mark.split('=')
        self.temporary = self.folder / 'temporary'
        self.temporary.mkdir()
        self.environment = dict(os.environ, XDG_STATE_HOME=str(self.folder / 'state'), TMPDIR=str(self.temporary), **{name: value})

    def command(self, *options, command):
        return [program, 'profile', *map(str, options), '--', *map(str, command)]

    def run_program(self, *options, command, **more):
        return subprocess.run(self.command(*options, command=command), capture_output=True, text=True, env=self.environment, timeout=200, check=False, **more)

    def assert_nothing_left(self):
        """No process, and no folder of the program's own."""
        for _ in range(200):
            if not processes_of(self.mark):
                break
            time.sleep(0.05)
        else:
            self.fail(f'still there: {processes_of(self.mark)}')
        self.assertEqual(list(self.temporary.glob('dsanalyze-*')), [])


class Phases(ProgramTest):
    def test_a_training_is_led_through_all_phases_and_leaves_nothing_behind(self):
        run = self.run_program('--time-budget', '6s', '--json', command=[*train, '--samples', 20000, '--workers', 2, '--prep', 0.002, '--step', 0.005])
        self.assertEqual(run.returncode, 0, run.stderr)
        result = json.loads(run.stdout)
        self.assertEqual(result['schema'], 'dsanalyze.profile/1')
        for rate in ('G', 'P'):
            self.assertGreater(result['rates'][rate]['samples_per_s'], 0)
        self.assertEqual({run['name'] for run in result['runs']} - {'busy'}, phases)
        self.assertEqual(result['loader']['workers'], 2)
        self.assertTrue(result['loader']['file'].endswith('train.py'))
        parts = result['waits']
        self.assertAlmostEqual(sum(parts[part]['fraction'] for part in ('data', 'ranks', 'compute', 'outside', 'unexplained')), 1, places=6)
        self.assert_nothing_left()
        self.assertEqual([entry for entry in self.temporary.iterdir() if not entry.name.startswith('torchinductor')], [])  # A cache of PyTorch's own.
        saved = self.folder / 'profile.json'
        saved.write_text(run.stdout)
        for columns in ('40', '60', '120'):
            view = subprocess.run([program, 'report', saved, '--format', 'console'], capture_output=True, text=True, check=True, env=dict(self.environment, COLUMNS=columns))
            self.assertIn('BOTTLENECK', view.stdout)
            self.assertLessEqual(max(map(len, view.stdout.splitlines())), int(columns))

    def test_where_the_result_cannot_be_written_at_the_end_the_verdict_is_told_all_the_same(self):
        gone = self.shared / 'gone'
        gone.mkdir()
        script = self.folder / 'run.sh'
        script.write_text(f'rmdir {gone}; exec "$@"\n')
        run = self.run_program('--time-budget', '3s', '-o', gone / 'profile.json',
                               command=['sh', script, *train, '--samples', 20000, '--workers', 2, '--step', 0.005])
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn('BOTTLENECK', run.stdout)
        self.assertIn(f'cannot write {gone}/profile.json', run.stderr)
        self.assertNotIn('saved:', run.stdout)

    def test_passes_that_are_left_after_ten_steps_do_as_well_as_a_long_epoch(self):
        run = self.run_program('--time-budget', '6s', '--json', command=[*train, '--samples', 960, '--epochs', 2000, '--workers', 2, '--step', 0.005,
                                                                          '--does', 'break'])
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertNotIn('phases-missing', run.stdout)
        self.assertIn('bottleneck', json.loads(run.stdout))
        self.assertEqual({run['name'] for run in json.loads(run.stdout)['runs']} - {'busy'}, phases)
        self.assert_nothing_left()

    def test_a_training_that_cannot_be_profiled_is_said_why(self):
        for command, said in ((['sh', '-c', 'exit 3'], 'exit status 3'), ([sys.executable, '-c', 'pass'], 'DataLoader'),
                              ([*train, '--samples', 400, '--workers', 2, '--does', 'raise'], 'exit status 1 (ValueError: '),
                              ([sys.executable, '-I', *train[1:], '--samples', 400, '--step', 0.02], '-I')):
            run = self.run_program(command=command)
            self.assertEqual(run.returncode, 1, run.stderr)
            self.assertIn(said, run.stderr)
            self.assert_nothing_left()

    def test_a_training_without_an_optimizer_is_said_by_name_with_what_was_seen(self):
        script = self.folder / 'script.py'
        script.write_text('''
import sys, time, torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Linear(4, 1)
for epoch in range(int(sys.argv[1])):
    for x, in DataLoader(TensorDataset(torch.ones(40, 4)), 4):
        model(x).sum().backward()
        time.sleep(0.01)
''')
        for epochs, passive, said in ((1, (), 'ended before a training step was seen'), (100000, (), 'no training step was recognised'),
                                      (1, ('--passive',), 'no training step was recognised')):
            run = self.run_program(*(passive or ('--time-budget', '3s')), command=[sys.executable, script, epochs])
            self.assertIn(said, run.stderr)
            for word in ('script.py:6', 'with gradients enabled', 'no step of a torch.optim optimizer', '' if passive else 'backward pass'):
                self.assertIn(word, run.stderr)
            self.assertEqual(run.returncode, 0 if passive else 1)
            self.assert_nothing_left()

    def test_a_training_without_a_loader_is_told_what_one_needs_long_before_the_time_budget_is_over(self):
        script = self.folder / 'script.py'
        script.write_text("""
import torch
from torch.utils.data import DataLoader
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    model(torch.randn(4, 4)).sum().backward()
    optimizer.step()
""")
        running = subprocess.Popen(self.command('--time-budget', '600s', command=[sys.executable, script]), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   env=self.environment)
        try:
            said = next(line for line in running.stderr if 'no training step was seen yet' in line)
        finally:
            running.terminate()
            running.communicate()
        self.assertIn('for batch in dsanalyze.watch(loader)', said)
        self.assertIn('no batch of a DataLoader', said)

    def test_a_training_of_a_few_steps_is_told_how_many_were_seen_and_how_many_it_takes(self):
        run = self.run_program(command=[*train, '--samples', 12])
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn('after 3 steps', run.stderr)
        self.assertIn('100 steps', run.stderr)

    def test_a_script_that_ends_early_is_started_again_for_what_is_missing(self):
        script = self.folder / 'script.py'
        starts = self.shared / 'starts'
        script.write_text(f'''
import time, torch
from torch.utils.data import DataLoader, TensorDataset
open({str(starts)!r}, 'a').write('.')
open('written', 'x').close()  # Each start has a sandbox of its own, where no other one has written.
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, in DataLoader(TensorDataset(torch.ones(1200, 4)), 4, num_workers=1):
    model(x).sum().backward()
    optimizer.step()
    time.sleep(0.01)
''')
        place = self.folder / 'profile.json'
        run = self.run_program('--time-budget', '30s', '-o', place, command=[sys.executable, script], cwd=self.folder)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual({each['name'] for each in json.loads(place.read_text())['runs']} - {'fetch'}, phases | {'busy'})
        self.assertIn('it is started again for those that are left (2 of 4 starts)', run.stderr)
        self.assertIn(len(starts.read_text()), (2, 3, 4))
        self.assertFalse((self.folder / 'written').exists())
        self.assert_nothing_left()
        starts.unlink()
        run = self.run_program('--time-budget', '30s', '--keep-output', command=[sys.executable, script], cwd=self.folder)
        self.assertEqual(len(starts.read_text()), 1, run.stderr)

    def test_what_was_measured_before_the_script_failed_is_told_with_the_exception(self):
        script = self.folder / 'script.py'
        script.write_text('''
import time, torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
began = time.monotonic()
for x, in DataLoader(TensorDataset(torch.ones(40000, 4)), 4):
    model(x).sum().backward()
    optimizer.step()
    time.sleep(0.01)
    if time.monotonic() > began + 2.5:
        raise RuntimeError('the loss is odd')
''')
        place = self.folder / 'profile.json'
        run = self.run_program('--time-budget', '8s', '-o', place, command=[sys.executable, script])
        self.assertEqual(run.returncode, 1, run.stderr)
        record = json.loads(place.read_text())
        self.assertIn('full', {run['name'] for run in record['runs']})
        self.assertFalse(record['trusted'])
        failed, = [finding for finding in record['findings'] if finding['code'] == 'training-failed']
        self.assertEqual(failed['severity'], 'error')
        self.assertIn('exit status 1', failed['message'])
        self.assertIn('RuntimeError: the loss is odd (script.py:12)', failed['message'])
        self.assertIn('full: ', run.stderr)
        self.assertIn('error: the command ended with exit status 1', run.stderr)
        page = ' '.join(run.stdout.split())
        self.assertIn('each step for a batch', page)
        self.assertIn('RuntimeError: the loss is odd', page)
        self.assert_nothing_left()

    def test_time_budgets_that_mean_nothing_are_refused_by_name(self):
        for options in (('--time-budget', '0'), ('--passive', '--time-budget', '10s'), ('--passive', '--subset', '1GiB')):
            run = self.run_program(*options, command=['true'])
            self.assertEqual(run.returncode, 125 if '--passive' in options else 2, run.stderr)
            self.assertIn(options[-2] + ':', run.stderr)

    def test_an_interrupt_leaves_no_process_and_no_folder(self):
        running = subprocess.Popen(self.command(command=[*train, '--samples', 100000, '--workers', 2]), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=self.environment)
        for _ in range(600):
            if len(processes_of(self.mark)) >= 4:
                break
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)
        self.assertEqual(running.returncode, 130)
        self.assert_nothing_left()


class Semaphores(ProgramTest):
    """Workers that are spawned have semaphores with names, which their process removes at its end, or else Python's resource tracker."""
    script = '''
import multiprocessing.process, os, signal, sys, time, torch
from torch.utils.data import DataLoader, TensorDataset
if __name__ == '__main__':
    multiprocessing.process.current_process()._config['semprefix'] = '/' + os.environ['DSANALYZE_TEST_MARK']
    if sys.argv[1] == 'stubborn':
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, (x,) in enumerate(DataLoader(TensorDataset(torch.ones(400000, 4)), 4, num_workers=2, multiprocessing_context='spawn')):
        model(x).sum().backward()
        optimizer.step()
        if number == 20:
            open(sys.argv[2], 'w').close()
            if sys.argv[1] == 'stubborn':
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # PyTorch's own handler raises an error where a worker was ended.
                time.sleep(1000)
'''

    def left(self):
        return list(pathlib.Path('/dev/shm').glob(f'sem.{self.folder.name}*'))

    def test_nothing_is_left_of_them_however_the_training_is_ended(self):
        script, trained = self.folder / 'script.py', self.shared / 'trained'
        script.write_text(self.script)
        for way, signals in (('usual', []), ('usual', [signal.SIGINT]), ('stubborn', [signal.SIGINT]), ('stubborn', [signal.SIGKILL])):
            trained.unlink(missing_ok=True)
            running = subprocess.Popen(self.command('--time-budget', '4s' if not signals else '60s', command=[sys.executable, script, way, trained]),
                                       env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            while not trained.exists() and running.poll() is None:
                time.sleep(0.02)
            self.assertNotEqual(self.left(), [])
            for number in signals:
                running.send_signal(number)
            _, said = running.communicate(timeout=100)
            self.assert_nothing_left()
            self.assertEqual(self.left(), [], (way, signals))
            self.assertNotIn('resource_tracker', said)


class Passive(ProgramTest):
    def test_a_real_run_keeps_its_output_and_exit_code(self):
        alone = subprocess.run([*train, '--samples', '64', '--epochs', '3'], capture_output=True, text=True, env=self.environment, check=True)
        run = self.run_program('--passive', '-o', self.folder / 'profile.json', command=[*train, '--samples', 64, '--epochs', 3])
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stdout, alone.stdout)
        self.assertIn('each step for a batch', run.stderr)
        record = json.loads((self.folder / 'profile.json').read_text())
        self.assertEqual([run['name'] for run in record['runs']], ['full'])
        for command, code in ((['sh', '-c', 'exit 7'], 7), (['sh', '-c', 'kill -9 $$'], 137), (['sh', '-c', 'exit 0'], 0),
                              ([*train, '--samples', 400, '--does', 'raise'], 1), (['nosuch-program'], 125)):
            self.assertEqual(self.run_program('--passive', command=command).returncode, code, command)

    def test_output_that_cannot_be_written_does_not_change_the_exit_code(self):
        arguments = self.command('--passive', command=['sh', '-c', '"$@" >/dev/null', 'sh', *train, '--samples', 80, '--does', 'os_exit'])
        for output in ('/dev/full', '&-', '/dev/stdout | true'):
            for streams in (f'>{output}', f'2>&1 >{output}'):
                run = subprocess.run(['bash', '-c', f'"$@" {streams}; exit ${{PIPESTATUS[0]}}', 'bash', *arguments], env=self.environment, timeout=100,
                                     stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
                self.assertEqual(run.returncode, 7, streams)
        limited = ['bash', '-c', 'ulimit -f 1; exec "$@"', 'bash',
                   *self.command('--passive', '-o', self.folder / 'large.json', command=[*train, '--samples', 80, '--does', 'os_exit'])]
        run = subprocess.run(limited, env=self.environment, timeout=100, capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 7, run.stderr)
        self.assertIn('large.json', run.stderr)
        gone = self.folder / 'gone'
        gone.mkdir()
        script = self.folder / 'script.sh'
        script.write_text(f'rmdir {gone}; exec "$@"\n')
        arguments = self.command('--passive', '-o', gone / 'profile.json', command=['sh', script, *train, '--samples', 80, '--does', 'os_exit'])
        run = subprocess.run(arguments, env=self.environment, timeout=100, capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 7)
        self.assertIn('done 20', run.stdout)
        self.assertIn('gone/profile.json', run.stderr)
        self.assertIn('error: ', run.stderr)
        for said in ('saved: ', 'next: '):
            self.assertNotIn(said, run.stderr)

    def test_a_profile_is_said_to_be_saved_once_it_is(self):
        place, page = self.folder / 'profile.json', self.folder / 'page.html'
        run = self.run_program('--passive', '-o', place, '--html', page, command=[*train, '--samples', 80, '--does', 'os_exit'])
        self.assertEqual(run.returncode, 7, run.stderr)
        self.assertIn(f'\nsaved: {place}\nnext:  dsanalyze report {place} ', run.stderr)
        self.assertEqual(run.stderr.count('saved: '), 1)
        self.assertIn(f'\nreport: {page}\n', run.stderr)
        self.assertEqual(json.loads(place.read_text())['schema'], 'dsanalyze.profile/1')
        run = self.run_program('--passive', '--json', '-o', place, command=[*train, '--samples', 80])
        self.assertEqual(json.loads(run.stdout[run.stdout.index('{'):]), json.loads(place.read_text()))

    def test_what_is_wrong_before_the_command_starts_has_an_exit_code_of_its_own(self):
        for options in (('-o', '/nosuch/profile.json'), ('--nosuch',)):
            run = self.run_program('--passive', *options, command=['touch', self.folder / 'started'])
            self.assertEqual(run.returncode, 125, run.stderr)
            self.assertIn('error: ', run.stderr)
            self.assertFalse((self.folder / 'started').exists())

    def start_and_await(self, script, *shell):
        path = self.folder / 'script.py'
        path.write_text(script)
        command = self.command('--passive', command=[sys.executable, path])
        # Under nohup the tests themselves ignore a signal, which their programs would inherit.
        running = subprocess.Popen([*shell, *map(str, command)], env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                   preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))
        self.addCleanup(running.stdout.close)
        self.assertEqual(running.stdout.readline(), 'ready\n')
        return running

    def test_a_signal_reaches_the_training_as_what_it_is(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT):
            running = self.start_and_await('''
import signal, sys, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT):
    signal.signal(number, lambda number, _: (print('saved', number, flush=True), time.sleep(0.3), sys.exit(number)))
print('ready', flush=True)
time.sleep(60)
''')
            running.send_signal(number)
            self.assertEqual(running.stdout.readline(), f'saved {int(number)}\n')
            self.assertEqual(running.wait(60), number)
        self.assert_nothing_left()

    def test_a_training_may_go_on_after_signals(self):
        running = self.start_and_await('''
import signal, sys, time
seen = []
signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
print('ready', flush=True)
while len(seen) < 2:
    time.sleep(0.05)
sys.exit(9)
''')
        running.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        running.send_signal(signal.SIGTERM)
        self.assertEqual(running.wait(60), 9)

    def test_signals_that_were_ignored_stay_so_in_the_training(self):
        running = self.start_and_await('''
import signal
ignored = [signal.getsignal(number) == signal.SIG_IGN for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)]
print('ready', flush=True)
print(ignored, flush=True)
''', 'bash', '-c', 'trap "" INT HUP; exec "$@"', 'bash')
        self.assertEqual(running.stdout.readline(), '[True, True, False]\n')
        running.wait(60)

    def test_a_python_without_the_hook_is_named(self):
        run = self.run_program('--passive', command=[sys.executable, '-I', *train[1:], '--samples', 400, '--step', 0.02])
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn('-I', run.stderr)

    def test_a_pytorch_with_which_the_hook_cannot_work_is_named_and_left_alone(self):
        data = self.folder / 'torch' / 'utils' / 'data'
        data.mkdir(parents=True)
        for folder in (data, data.parent):
            (folder / '__init__.py').touch()
        (data.parents[1] / '__init__.py').write_text("__version__ = '0.4.1'\nfrom .utils.data import dataloader\n")
        (data / 'dataloader.py').touch()
        script = self.folder / 'script.py'
        for seconds in (5, 0):  # It is told while the script runs, and of one that has ended.
            script.write_text(f'import torch, time\ntime.sleep({seconds})\nprint("trained")\n')
            run = self.run_program(command=[sys.executable, script])
            self.assertNotEqual(run.returncode, 0)
            self.assertRegex(run.stderr, r"uses PyTorch, and dsanalyze's hook cannot work there: [A-Za-z]+Error: .*\(PyTorch 0.4.1, Python [0-9.]+\). PyTorch 1.13 and newer")
        run = self.run_program('--passive', command=[sys.executable, script])
        self.assertEqual((run.returncode, run.stdout.splitlines()[0]), (0, 'trained'), run.stderr)
        self.assertIn('PyTorch 0.4.1', run.stderr)

    def test_the_training_goes_on_when_the_launcher_is_killed(self):
        output = self.folder / 'output'
        with output.open('w') as file:
            running = subprocess.Popen(self.command('--passive', command=[*train, '--samples', 800, '--step', 0.01]), stdout=file, stderr=subprocess.DEVNULL,
                                       env=self.environment)
            for _ in range(600):
                if len(processes_of(self.mark)) >= 2:
                    break
                time.sleep(0.05)
            time.sleep(0.5)
            folder, = {entry for process in processes_of(self.mark, what='environ') for entry in process.split('\0') if entry.startswith('DSANALYZE_ATTACH=')}
            self.assertTrue(pathlib.Path(folder.split('=')[1]).exists())
            running.kill()
            running.wait()
            for _ in range(100):
                if not pathlib.Path(folder.split('=')[1]).parent.exists():
                    break
                time.sleep(0.05)
            self.assertFalse(pathlib.Path(folder.split('=')[1]).parent.exists())
            for _ in range(1200):
                if 'done' in output.read_text():
                    break
                time.sleep(0.05)
        self.assertIn('done', output.read_text())
        self.assert_nothing_left()


if __name__ == '__main__':
    unittest.main()
