"""Trainings without PyTorch, by the line `for batch in dsanalyze.watch(iterable)`. No test imports PyTorch."""
import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import time
import unittest

from fake_launcher import Launcher, Plan, drain, end, here, run, switch, unexplained

program = os.environ.get('DSANALYZE', 'dsanalyze')
train = here / 'trainings' / 'train_plain.py'
modules = "sorted({name.partition('.')[0] for name in sys.modules})"


def program_run(*arguments, options=('--time-budget', '6s')):
    with tempfile.TemporaryDirectory(prefix='dsanalyze-test-') as folder:
        return subprocess.run([program, 'profile', '--json', *options, '--', sys.executable, *map(str, arguments)], capture_output=True, text=True, timeout=200, check=False,
                              env=dict(os.environ, XDG_STATE_HOME=folder))


def profile(*arguments):
    done = program_run(*arguments)
    if done.returncode:
        raise AssertionError(f'exit {done.returncode}: {done.stderr}')
    return json.loads(done.stdout)


class ScriptTest(unittest.TestCase):
    """Scripts of a few lines under the hook, against a launcher made for the tests, in virtual time. Each prepares a batch of four numbers in `prep`, and steps in 2 ms."""

    def launch(self, text, *answers, mode='phases'):
        launcher = Launcher(Plan(*(answers or (run(1000),)), then=run(1000)), mode=mode)
        path = pathlib.Path(launcher.folder.name, 'script.py')
        path.write_text(f'''
exec(open({str(here / 'virtual_time.py')!r}).read(), virtual := {{}})
virtual['install']()
''' + '''
import sys, time
import dsanalyze

class Batches:
    def __init__(self, count=40, prep=0.0):
        self.count, self.prep = count, prep
    def __len__(self):
        return self.count
    def __iter__(self):
        for number in range(self.count):
            time.sleep(self.prep)
            yield {'x': [float(number)] * 4}

def step(batch, seconds=0.002):
    assert batch.pop('x')
    time.sleep(seconds)
''' + text)
        output = launcher.start(path)
        return output, launcher.connections[0] if launcher.connections else None

    def assert_parts(self, connection, wait, compute):
        self.assertEqual([set(self.steps(connection, part)) for part in ('wait', 'compute', 'outside')], [{wait}, {compute}, {0}])

    @staticmethod
    def steps(connection, part='compute', mode=None):
        windows = connection.windows(mode) if mode else [message['window'] for message in connection.messages if message.get('window')]
        return [value for window in windows for value in (window[part] if isinstance(window[part], list) else [window[part]] * len(window['wait']))]


class Steps(ScriptTest):
    def test_a_step_is_a_pass_through_the_loop_and_nothing_lies_outside(self):
        for mode in ('phases', 'passive'):
            _, connection = self.launch('''
for epoch in range(2):
    for batch in dsanalyze.watch(Batches(60, 0.004)):
        step(batch, 0.008)
''', mode=mode)
            with self.subTest(mode):
                self.assertGreater(len(self.steps(connection)), 110)
                self.assert_parts(connection, 4_000_000, 8_000_000)
                self.assertEqual(set(self.steps(connection, 'samples')), {4})
                self.assertEqual(set(self.steps(connection, 'steps')), {1})
                self.assertEqual(connection.notes(), {})

    def test_its_loader_is_named_with_its_place_and_followed_through_all_phases(self):
        _, connection = self.launch('''
loader = Batches(400, 0.004)
for epoch in range(3):
    for batch in dsanalyze.watch(loader):
        step(batch)
''', run(5), drain(0, 16, which='warm'), switch('cached'), run(20), switch('synthetic'), run(40), drain(0, 16), end)
        loader, = connection.of('loader')
        self.assertEqual((loader['name'], loader['dataset_class'], loader['style'], loader['batches'], loader['made_anew']), ('__main__.Batches', '__main__.Batches', 'watched', 400, False))
        self.assertTrue(loader['file'].endswith('script.py'))
        self.assertEqual([(len(message['times']), message['error'], set(message['samples'])) for message in connection.of('drained')], [(16, None, {4})] * 2)
        self.assertEqual(set(self.steps(connection, 'wait', 'synthetic')), {0})
        self.assertEqual(self.steps(connection, 'wait', 'cached'), 20 * [4_000_000])
        self.assertEqual(len(self.steps(connection, 'wait', 'synthetic')), 40)
        self.assertEqual(connection.notes(), {})
        for window in connection.windows():
            self.assertEqual(unexplained(window), 0)

    def test_a_generator_that_is_made_anew_for_each_epoch_is_followed_from_epoch_to_epoch(self):
        for mode in ('phases', 'passive'):
            _, connection = self.launch('''
for epoch in range(4):
    for batch in dsanalyze.watch(iter(Batches(40, 0.004))):
        step(batch, 0.008)
''', mode=mode)
            with self.subTest(mode):
                self.assertEqual([loader['made_anew'] for loader in connection.of('loader')], [False] + 3 * [True])
                self.assertGreater(len(self.steps(connection)), 150)
                self.assert_parts(connection, 4_000_000, 8_000_000)
                self.assertEqual(set(connection.notes()), {'stream-goes-on'} if mode == 'phases' else set())

    def test_validations_and_looks_at_a_batch_are_no_steps_whether_they_are_watched_or_not(self):
        for mode in ('phases', 'passive'):
            _, connection = self.launch('''
validation = dsanalyze.watch(Batches(10))
loader = dsanalyze.watch(Batches(40))
for batch in validation:
    break
first = next(iter(loader))
for epoch in range(3):
    for number, batch in enumerate(loader):
        step(batch)
        if number == 20:
            for batch in validation:
                time.sleep(0.002)
    for batch in validation:
        time.sleep(0.002)
''', mode=mode)
            with self.subTest(mode):
                self.assertEqual([loader['batches'] for loader in connection.of('loader')][-1], 40 if mode == 'phases' else None)
                self.assertIn(len(self.steps(connection)), range(117, 121))  # The first ones show which loader trains.
                inside = [value for value in self.steps(connection, 'validation') if value]
                self.assertEqual(inside, 3 * [20_000_000])
                gaps = [message['between'] for message in connection.messages if message.get('between')]
                self.assertEqual([gap['validation'] for gap in gaps], 2 * [20_000_000])

    def test_two_iterables_that_a_step_takes_batches_of_are_both_followed(self):
        _, connection = self.launch('''
for one, other in zip(dsanalyze.watch(Batches(60, 0.004)), dsanalyze.watch(Batches(60, 0.004))):
    step(one, 0.008)
''')
        self.assertEqual(len(connection.of('loader')), 1)
        self.assert_parts(connection, 8_000_000, 8_000_000)
        self.assertGreater(len(self.steps(connection)), 50)

    def test_the_last_step_of_a_pass_that_is_left_ends_where_it_is_left(self):
        for mode in ('phases', 'passive'):
            _, connection = self.launch('''
loader = dsanalyze.watch(Batches(40))
for epoch in range(4):
    for number, batch in enumerate(loader):
        step(batch)
        if number == 11:
            break
    time.sleep(0.4)
''', mode=mode)
            with self.subTest(mode):
                self.assertIn(len(self.steps(connection)), (46, 47))
                self.assertEqual(set(self.steps(connection)), {2_000_000})

    def test_batches_that_another_thread_takes_are_told(self):
        _, connection = self.launch('''
import queue, threading
ready = queue.Queue(2)
def fill():
    for batch in dsanalyze.watch(Batches(60, 0.002)):
        ready.put(batch)
    ready.put(None)
threading.Thread(target=fill).start()
for batch in iter(ready.get, None):
    step(batch)
''')
        self.assertEqual(list(connection.notes()), ['loader-in-thread'])

    def test_what_a_device_still_computes_is_waited_for_at_the_end_of_a_window_alone(self):
        _, connection = self.launch('''
import types
class Array:
    waited = 0
    def is_deleted(self):
        return False
    def block_until_ready(self):
        Array.waited += 1
        time.sleep(0.3)
jax = types.ModuleType('jax._src.xla_bridge')
jax._backends = {'tpu': types.SimpleNamespace(platform='tpu', live_arrays=lambda: [Array()], devices=lambda: [types.SimpleNamespace(device_kind='TPU v9')])}
sys.modules['jax._src.xla_bridge'] = jax
for batch in dsanalyze.watch(Batches(60)):
    step(batch)
print(Array.waited)
''', run(10), run(10))
        device, = connection.of('device')
        self.assertEqual((device['cuda'], device['device']), (True, 'TPU v9'))
        windows = connection.windows('full')
        for window in windows[:2]:
            self.assertEqual(window['compute'], 9 * [2_000_000] + [302_000_000])


class Guest(ScriptTest):
    def test_nothing_but_the_interpreters_own_modules_is_imported_for_it(self):
        text = f'''
for batch in dsanalyze.watch(Batches()):
    step(batch, 0)
print(*{modules})
'''
        alone = subprocess.run([sys.executable, '-c', f'import sys; print(*{modules})'], capture_output=True, text=True, check=True).stdout
        for mode in ('phases', 'passive'):
            output, connection = self.launch(text, mode=mode)
            self.assertTrue(connection.of('loader'))
            self.assertEqual(set(output.split()) - set(alone.split()) - set(sys.stdlib_module_names), {'_dsanalyze_attach', 'dsanalyze'})

    def test_a_script_that_does_not_ask_for_it_is_left_alone(self):
        output, connection = self.launch(f'print(*{modules})\n', mode='passive')
        self.assertIsNone(connection)
        self.assertNotIn('_dsanalyze_attach', output.split())

    def test_an_iterators_own_state_and_errors_are_the_scripts(self):
        text = '''
class Resumable:
    def __init__(self):
        self.at = 0
    def __iter__(self):
        return self
    def __next__(self):
        self.at += 1
        if self.at > 30:
            raise KeyError('no such sample')
        return {'x': [1.0]}
    def get_state(self):
        return self.at
class Made:
    def __iter__(self):
        return Resumable()
passes = iter(dsanalyze.watch(Made()))
try:
    for batch in passes:
        step(batch, 0)
except KeyError as error:
    print('caught', error, passes.get_state(), hasattr(passes, 'set_state'))
'''
        for mode in ('phases', 'passive'):
            self.assertEqual(self.launch(text, mode=mode)[0], "caught 'no such sample' 31 False\n")


class Profiles(unittest.TestCase):
    def test_arrays_that_a_step_changes_and_keys_that_it_pops_are_there_again_in_every_phase(self):
        try:
            import numpy  # noqa: F401
        except ImportError:
            self.skipTest('no NumPy')
        record = profile(train, 'arrays', 0.005, 0.002)
        self.assertEqual({run['name'] for run in record['runs']}, {'full', 'synthetic', 'prep', 'cached'})
        self.assertEqual((record['loader']['name'], record['loader']['style'], record['loader']['samples_per_step']['most']), ('__main__.Batches', 'watched', 8))

    def test_a_real_run_gives_the_same_losses(self):
        alone = subprocess.run([sys.executable, str(train), 'lists', '0', '0', '150', 'unwatched'], capture_output=True, text=True, check=True).stdout
        with tempfile.TemporaryDirectory(prefix='dsanalyze-test-') as folder:
            path = pathlib.Path(folder, 'profile.json')
            watched = subprocess.run([program, 'profile', '--passive', '-o', str(path), '--', sys.executable, str(train), 'lists', '0', '0', '150'], capture_output=True, text=True,
                                     check=True, env=dict(os.environ, XDG_STATE_HOME=folder))
            record = json.loads(path.read_text())
        self.assertEqual(watched.stdout, alone)
        self.assertEqual(record['loader']['samples_per_step']['most'], 8)

    def test_without_the_line_it_is_shown(self):
        for options, status in ((('--time-budget', '12s'), 1), (('--passive',), 0)):
            done = program_run(train, 'lists', 0, 0, 20, 'unwatched', options=options)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn('for batch in dsanalyze.watch(loader)', done.stderr)

    def test_a_training_that_goes_on_without_the_line_is_shown_it_when_the_time_budget_is_over(self):
        with tempfile.TemporaryDirectory(prefix='dsanalyze-test-') as folder:
            started = subprocess.Popen([program, 'profile', '--time-budget', '2s', '--', sys.executable, str(train), 'lists', '0.01', '0.01', 'unwatched'], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE, text=True, env=dict(os.environ, XDG_STATE_HOME=folder))
            try:
                said = next(line for line in started.stderr if 'no training step was seen yet' in line)
                more, until = '', time.monotonic() + 1
                while time.monotonic() < until:
                    if select.select([started.stderr], [], [], 0.1)[0]:
                        more += os.read(started.stderr.fileno(), 65536).decode()
                self.assertNotIn('no training step was seen yet', more, 'it is said once')
            finally:
                started.terminate()
                started.communicate()
        self.assertIn('for batch in dsanalyze.watch(loader)', said)


if __name__ == '__main__':
    unittest.main()
