"""`for batch in dsanalyze.watch(iterable)`: what it is without a launcher, what the hook makes of it, and what a user is told."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from fake_launcher import Launcher, Plan, drain, end, run, switch
from script_rig import ScriptTest

here = pathlib.Path(__file__).resolve().parent
program = os.environ.get('DSANALYZE', 'dsanalyze')
sys.path.insert(0, str(here.parent.parent / 'python'))


def profile(*arguments, options=('--time-budget', '6s')):
    with tempfile.TemporaryDirectory(prefix='dsanalyze-test-') as folder:
        done = subprocess.run([program, 'profile', '--json', *options, '--', sys.executable, str(here / 'trainings' / 'train_watched.py'), *map(str, arguments)],
                              capture_output=True, text=True, timeout=200, check=True, env=dict(os.environ, XDG_STATE_HOME=folder))
    return json.loads(done.stdout)


class Alone(unittest.TestCase):
    def test_without_a_launcher_the_iterable_is_handed_back_as_it_is(self):
        import dsanalyze
        iterable = [1, 2]
        self.assertIs(dsanalyze.watch(iterable), iterable)
        self.assertNotIn('torch', sys.modules)


class Watched(ScriptTest):
    def test_its_passes_are_followed_and_all_else_is_the_iterables(self):
        output, connection = self.launch('''
import dsanalyze

class Batches:
    epoch = 0

    def __iter__(self):
        return (torch.full((4, 4), float(number)) for number in range(40))

    def __len__(self):
        return 40

loader = dsanalyze.watch(Batches())
print(len(loader), bool(loader), hasattr(loader, 'sampler'), hasattr(loader, '__next__'), dsanalyze.watch(loader) is loader)
for epoch in range(4):
    loader.epoch = epoch
    for number, x in enumerate(loader):
        step(x)
    print(number, loader.epoch)
''')
        self.assertEqual(output, '40 True False False True\n' + ''.join(f'39 {epoch}\n' for epoch in range(4)))
        self.check(connection)
        loader = connection.of('loader')[0]
        self.assertEqual((loader['style'], loader['name'], loader['batches'], loader['samples']), ('watched', '__main__.Batches', 40, None))
        self.assertTrue(loader['file'].endswith('script.py'))
        self.assertEqual(set(connection.windows('full')[0]['samples']), {4})

    def test_random_numbers_order_and_errors_are_the_scripts_own(self):
        text = '''
import random
import dsanalyze
torch.manual_seed(5)
loader = dsanalyze.watch([torch.rand(4, 4) for _ in range(30)])
for x in loader:
    step(x)
print(torch.rand(1).item(), random.Random(1).random())

def broken():
    yield from loader
    raise KeyError('no such sample')

try:
    for x in dsanalyze.watch(broken()):
        step(x)
except KeyError as error:
    print('caught', error)
'''
        for mode in ('passive', 'phases'):
            output, _ = self.launch(text, run(1000), mode=mode)
            with self.subTest(mode):
                path = pathlib.Path(self.launcher.folder.name, 'script.py')
                alone = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True, env=dict(os.environ, PYTHONPATH=str(here.parent.parent / 'python')))
                self.assertEqual(output, alone.stdout)
                self.assertIn("caught 'no such sample'", output)

    def test_whatever_a_script_asks_of_it_is_answered_as_the_iterable_would(self):
        text = '''
import collections.abc, copy, io, pickle
import dsanalyze

class Plain:
    def __iter__(self):
        return iter([1])

class Full(list):
    def __enter__(self):
        return 'entered'
    def __exit__(self, *_):
        return False
    def __call__(self, value):
        return value + 1

def ask(what, *given):
    try:
        print(eval(what, globals(), {'w': given[0]}))
    except Exception as error:
        print(type(error).__name__, error)

plain, full = dsanalyze.watch(Plain()), dsanalyze.watch(Full([torch.ones(2), 3]))
generator = dsanalyze.watch(number for number in range(4))
for what in ("hasattr(w, '__len__')", 'isinstance(w, collections.abc.Sized)', 'isinstance(w, collections.abc.Iterator)', 'isinstance(w, Plain)', 'isinstance(w, list)', 'len(w)',
             'bool(w)', 'w[1]', '3 in w[1:]', 'list(reversed(w))[0]', 'w(4)', "copy.copy(w) is w", 'type(pickle.loads(pickle.dumps(w))).__name__', 'len(copy.deepcopy(w))', 'repr(w)[:9]',
             'w.append(5)', 'w.nothing', 'w + [6]', 'w == w', 'iter(w) is w', 'next(w)', 'w.close()'):
    for given in (plain, full, generator):
        ask(what, given)
with full as entered:
    print(entered)
print(dsanalyze.watch(None), dsanalyze.watch(3))
'''
        for mode in ('passive', 'phases'):
            output, _ = self.launch(text, run(1000), mode=mode)
            path = pathlib.Path(self.launcher.folder.name, 'script.py')
            alone = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True, env=dict(os.environ, PYTHONPATH=str(here.parent.parent / 'python')))
            with self.subTest(mode):
                self.assertEqual(output.splitlines(), alone.stdout.splitlines())

    def test_a_second_pass_that_is_refused_goes_on_with_the_first(self):
        _, connection = self.launch('''
import dsanalyze
class Once:
    begun = False
    def __iter__(self):
        if self.begun:
            raise RuntimeError('iterated twice')
        self.begun = True
        return (torch.full((4, 4), float(number)) for number in range(400))
for x in dsanalyze.watch(Once()):
    step(x)
''', run(5), drain(0, 16, which='warm'), drain(0, 16), switch('synthetic'), run(20), end)
        self.assertEqual([(len(message['times']), message['error']) for message in connection.of('drained')], [(16, None), (16, None)])
        self.assertEqual(len(connection.windows('synthetic')[0]['wait']), 20)

    def test_a_pass_that_is_left_ends_at_once(self):
        output, _ = self.launch('''
import dsanalyze

class Batches:
    def __iter__(self):
        try:
            for number in range(400):
                yield torch.full((4, 4), float(number))
        finally:
            print('closed')

batches = dsanalyze.watch(Batches())
for number, x in enumerate(batches):
    step(x)
    if number == 200:
        break
del x
print('left')
''', mode='passive')
        self.assertEqual(output, 'closed\nleft\n')

    def test_an_iterator_that_is_asked_without_iter_is_not_begun_anew(self):
        output, _ = self.launch('''
import dsanalyze

class Resumed:
    at = 60

    def __iter__(self):
        self.at = 0
        return self

    def __next__(self):
        if self.at == 100:
            raise StopIteration
        self.at += 1
        return torch.full((4, 4), float(self.at - 1))

batches, seen = dsanalyze.watch(Resumed()), []
try:
    while True:
        x = next(batches)
        step(x)
        seen.append(int(x[0, 0]))
except StopIteration:
    pass
print(seen[0], len(seen))
''', mode='passive')
        self.assertEqual(output, '60 40\n')

    def test_next_is_asked_of_what_is_an_iterator(self):
        output, connection = self.launch('''
import dsanalyze
stream = dsanalyze.watch(iter([torch.full((4, 4), float(number)) for number in range(60)]))
while True:
    try:
        x = next(stream)
    except StopIteration:
        break
    step(x)
print('over', next(stream, 'still over'))
''', run(1000))
        self.assertEqual(output, 'over still over\n')
        self.assertEqual(list(connection.notes()), ['stream-goes-on'])
        self.assertGreater(sum(len(window['wait']) for window in connection.windows()), 50)


class WithoutOptimizer(unittest.TestCase):
    """PyTorch for its DataLoader alone."""

    def launch(self, text, *answers, mode='phases'):
        launcher = Launcher(Plan(*(answers or (run(1000),)), then=run(1000)), mode=mode)
        path = pathlib.Path(launcher.folder.name, 'script.py')
        path.write_text('''
import time
import numpy, torch
import dsanalyze
from torch.utils.data import DataLoader, TensorDataset
def collected(samples):
    return numpy.stack([sample[0].numpy() for sample in samples])
loader = DataLoader(TensorDataset(torch.ones(240, 4)), 4, num_workers=1, collate_fn=collected)
weight = numpy.zeros(4)
def step(x):
    global weight
    time.sleep(0.004)
    weight = weight - 1e-3 * x.mean(axis=0)
''' + text)
        launcher.run(path)
        return launcher.first

    def test_the_line_makes_each_pass_through_the_loop_a_step_and_the_loader_keeps_its_workers(self):
        connection = self.launch('''
for epoch in range(4):
    for x in dsanalyze.watch(loader):
        step(x)
''', run(5), drain(1, 16, which='warm'), drain(2, 16), switch('synthetic'), run(40), switch('full'))
        found, = connection.of('loader')
        self.assertEqual((found['name'], found['style'], found['workers'], found['batches'], found['samples']), ('torch.utils.data.DataLoader', 'map', 1, 60, 240))
        self.assertEqual([(message['workers'], len(message['times']), message['error']) for message in connection.of('drained')], [(1, 16, None), (2, 16, None)])
        window = connection.windows('synthetic')[0]
        self.assertEqual((set(window['compute']), set(window['outside'])), ({4_000_000}, {0}))
        self.assertEqual(set(connection.notes()), set())

    def test_without_the_line_nothing_is_a_step(self):
        connection = self.launch('''
for x in loader:
    step(x)
''')
        self.assertEqual(connection.of('loader'), [])
        self.assertEqual(connection.of('seen')[-1]['batches'], 60)

    def test_once_there_is_an_optimizer_its_steps_are_the_trainings(self):
        for mode in ('phases', 'passive'):
            connection = self.launch('''
for x in dsanalyze.watch(loader):
    step(x)
parameter = torch.nn.Parameter(torch.zeros(4))
optimizer = torch.optim.SGD([parameter], lr=0.1)
for number, x in enumerate(loader):
    (parameter * torch.from_numpy(x)).sum().backward()
    if number % 2:
        optimizer.step()
''', mode=mode)
            steps = [message['window'] for message in connection.messages if message.get('window')]
            taken = [count for window in steps for count in (window['steps'] if isinstance(window['steps'], list) else [window['steps']] * len(window['wait']))]
            self.assertEqual(sum(taken[:59]), 59)
            self.assertEqual(sum(taken[59:]), 30)


class Profiles(unittest.TestCase):
    def test_a_generator_is_drained_as_it_goes_on_and_its_profile_predicts_nothing(self):
        record = profile('generator', 0.005, 0.01)
        self.assertEqual((record['loader']['style'], record['loader']['samples_per_step']['most']), ('watched', 8))
        self.assertLessEqual({'stream-goes-on', 'storage-not-separable'}, {finding['code'] for finding in record['findings']})
        self.assertEqual([point['workers'] for point in record['curves']['P_by_workers']], [0])
        with tempfile.TemporaryDirectory(prefix='dsanalyze-test-') as folder:
            path = pathlib.Path(folder, 'profile.json')
            path.write_text(json.dumps(record))
            refused = subprocess.run([program, 'whatif', str(path), '--workers', '2'], capture_output=True, text=True, check=False)
        self.assertEqual(refused.returncode, 2)
        self.assertIn('how the iterable that the script watches prepares its batches is not known', refused.stderr)

    def test_a_real_run_counts_the_samples_of_arrays(self):
        record = profile('arrays', 0, 0, 200, options=('--passive',))
        self.assertEqual(record['loader']['samples_per_step']['most'], 8)

if __name__ == '__main__':
    unittest.main()
