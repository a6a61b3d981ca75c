"""Drains of the script's loader without a step, at the rate of an independent drain; and the job on the drained subset."""
import functools
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import unittest

from fake_launcher import Launcher, Plan, drain, end, here, run, switch
from measured import measured

train = here / 'trainings' / 'train.py'


def rate(message):
    """Samples a second after the queue has been filled."""
    skip = 4
    return sum(message['samples'][skip:]) / ((message['times'][-1] - message['times'][skip - 1]) / 1e9)


stream = '''
import sys
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

class Stream(IterableDataset):
    def __iter__(self):
        worker = get_worker_info()
        first, apart = (worker.id, worker.num_workers) if sys.argv[1] == 'deals' and worker else (0, 1)
        return (torch.full((4,), 1.0 if sys.argv[1] == 'constant' else float(number)) for number in range(first, 4000, apart))

parameter = torch.nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([parameter], lr=1e-6)
for x in DataLoader(Stream(), 8, num_workers=1):
    (parameter * x.mean()).backward()
    optimizer.step()
'''

turns = '''
import time
import torch
from torch.utils.data import DataLoader

class Turns:
    """Every sixth batch takes four tenths of a second: those that come after it are prepared before it."""
    def __len__(self): return 4000
    def __getitem__(self, index):
        time.sleep(0.4 if index % 48 == 0 else 0)
        return torch.full((4,), float(index))

parameter = torch.nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([parameter], lr=1e-6)
for x in DataLoader(Turns(), 8, num_workers=2):
    (parameter * x.mean()).backward()
    optimizer.step()
'''


class Drains(unittest.TestCase):
    def test_workers_that_each_deliver_the_whole_stream_are_told(self):
        with tempfile.TemporaryDirectory(prefix='dsanalyze-test-') as folder:
            script = pathlib.Path(folder, 'stream.py')
            script.write_text(stream)
            for kind, told in (('whole', True), ('deals', False), ('constant', False)):  # Of equal samples nothing shows.
                launcher = Launcher(Plan(run(3), drain(1, 8, which='warm'), drain(2, 12), then=end))
                launcher.run(script, kind)
                self.assertEqual('workers-repeat' in [message['code'] for message in launcher.first.of('note')], told, kind)

    @measured
    def test_preparation_of_known_length_gives_its_rate_for_each_number_of_workers(self):
        launcher = Launcher(Plan(run(3), drain(2, 16, which='warm'), drain(2, 40), drain(1, 24), drain(0, 12), then=end))
        launcher.run(train, '--samples', 400, '--prep', 0.01, '--workers', 1, '--step', 0)
        drained = launcher.first.of('drained')
        self.assertEqual([(message['workers'], len(message['times']), message['error']) for message in drained], [(2, 16, None), (2, 40, None), (1, 24, None), (0, 12, None)])
        for message, expected in zip(drained[1:], (200, 100, 100)):
            self.assertLess(rate(message), expected * 1.02)
            self.assertGreater(rate(message), expected * 0.4)  # A busy machine makes it slower, and never faster.
        self.assertTrue(all(message['main_cpu'] > 0 for message in drained))

    @measured
    def test_what_the_workers_compute_has_a_name(self):
        launcher = Launcher(Plan(run(3), drain(2, 16, which='warm'), drain(2, 0, seconds=3), then=end))
        launcher.run(here / 'trainings' / 'train_stages.py')
        warm, drained = launcher.first.of('drained')
        self.assertEqual(warm['stages'], [])
        cpu = {stage['name']: stage['cpu'] for stage in drained['stages']}
        self.assertGreater(sum(stage['count'] for stage in drained['stages']), 5)
        # A look now and then falls on what hands samples on.
        others = {name for name in cpu if cpu[name] > 0.05 * sum(cpu.values())} - {'train_stages.py:13 Slow', 'train_stages.py:28 decode'}
        self.assertLessEqual(others, {'default_collate', 'fetching'}, cpu)
        self.assertGreater(cpu['train_stages.py:13 Slow'], 1.5 * cpu['train_stages.py:28 decode'])
        self.assertTrue(all(stage['file'] == str(here / 'trainings' / 'train_stages.py') for stage in drained['stages'] if stage['name'].startswith('train')))

    @measured
    def test_code_that_holds_pythons_lock_counts_for_no_more_than_it_takes(self):
        # The truth is what the worker itself measured meanwhile: a busy machine makes one of both slower than the other. Looks are few: one of six comes near.
        for _ in range(6):
            with tempfile.TemporaryDirectory(prefix='dsanalyze-test-') as folder:
                costs = pathlib.Path(folder, 'costs')
                launcher = Launcher(Plan(run(3), drain(1, 16, which='warm'), drain(1, 0, seconds=6), then=end))
                launcher.run(here / 'trainings' / 'train_locks.py', costs)
                packing, parsing = (sum(column) for column in zip(*(map(int, line.split()) for line in costs.read_text().splitlines() if line.count(' ') == 1)))
            share = parsing / (packing + parsing)
            cpu = {stage['name'].split()[-1]: stage['cpu'] for stage in launcher.first.of('drained')[-1]['stages']}
            # It lets go where it has returned to its caller, which then frees what it made.
            away = abs(1 - cpu['pack'] / sum(cpu.values()) - share)
            if away < 0.15:
                return
        self.fail(f'{away} away from {share}: {cpu}')

    def test_what_hands_samples_on_is_no_part_of_their_making(self):
        sys.path.insert(0, str(here.parents[1] / 'python' / 'dsanalyze' / '_attach'))
        from stages import _code_of, _collates, stage_of
        found = []

        class Transform:  # As in torchvision's second version: what calls is the base class's.
            def forward(self, value):
                return self.transform(value)

        class Crop(Transform):
            def transform(self, value):
                found.append(stage_of(sys._getframe())[0])
                return value

        def wrapper(value):
            return Crop().forward(value)

        class Stream:
            def read(self):
                yield wrapper(1)

        def pad(samples):
            found.append((_collates(sys._getframe(), _code_of(functools.partial(pad))), _collates(sys._getframe(), _code_of(Crop()))))

        fetch = compile('def fetch(source, collate):\n    return collate([next(source)])', '/x/torch/utils/data/_utils/fetch.py', 'exec')
        names = {}
        exec(fetch, names)
        names['fetch'](Stream().read(), pad)
        self.assertRegex(found[0], r'^test_drains.py:[0-9]+ Crop.transform$' if sys.version_info >= (3, 11) else 'transform')
        self.assertEqual(found[1], (True, False))

    def test_before_python_knew_the_class_of_code_it_is_looked_up_in_the_source(self):
        sys.path.insert(0, str(here.parents[1] / 'python' / 'dsanalyze' / '_attach'))
        from stages import _class_at
        lines = (here / 'trainings' / 'train_stages.py').read_text().splitlines()
        line = {name: next(at for at, text in enumerate(lines, 1) if 'def ' + name in text) for name in ('__call__', '__getitem__', 'decode')}
        self.assertEqual([_class_at(here / 'trainings' / 'train_stages.py', at) for at in line.values()], ['Slow', 'Decoded', ''])
        self.assertEqual((_class_at('/no/such/file.py', 3), _class_at(here / 'trainings' / 'train_stages.py', 10_000)), ('', ''))

    @measured
    def test_arrays_that_come_through_a_pipe_take_longer_to_take_over_than_tensors(self):
        takes = {}
        # The least of three: a busy machine holds up the one as well as the other.
        for kind in 3 * ('tensors', 'arrays'):
            launcher = Launcher(Plan(run(3), drain(1, 8, which='warm'), drain(1, 0, seconds=1), then=end))
            launcher.run(here / 'trainings' / 'train_arrays.py', kind)
            warm, drained = launcher.first.of('drained')
            self.assertEqual((warm['takes'], warm['busy_takes'], drained['error']), ([], [], None))
            self.assertIn(len(drained['takes']), range(5))  # None where the workers were too slow for any to lie ready.
            self.assertIn(len(drained['busy_takes']), range(17))
            takes[kind] = min([*drained['takes'], takes.get(kind, math.inf)])
        self.assertLess(takes['arrays'], math.inf)
        self.assertGreater(takes['arrays'], 2 * takes['tensors'])

    @measured
    def test_a_batch_that_comes_after_its_successors_did_not_lie_ready(self):
        with tempfile.TemporaryDirectory(prefix='dsanalyze-test-') as folder:
            script = pathlib.Path(folder, 'turns.py')
            script.write_text(turns)
            launcher = Launcher(Plan(run(3), drain(2, 24, which='warm'), drain(2, 0, seconds=2), then=end))
            launcher.run(script)
            _, drained = launcher.first.of('drained')
            self.assertIsNone(drained['error'])
            self.assertTrue(drained['busy_takes'])
            self.assertLess(max(drained['busy_takes']), 50e6)

    @measured
    def test_the_cpu_time_of_workers_and_of_the_process_is_told_apart_from_waiting(self):
        launcher = Launcher(Plan(run(3), drain(2, 16, which='warm'), drain(2, 40), drain(0, 12), then=end))
        launcher.run(train, '--samples', 400, '--prep', 0.01, '--workers', 2, '--step', 0)
        _, workers, alone = launcher.first.of('drained')
        for message, first in ((workers, 2), (alone, 1)):
            cpu = message['cpu']
            self.assertEqual(cpu['samples'], 4 * (len(message['times']) - first))
            self.assertGreater(cpu['process'], 0)
            self.assertGreater(cpu['process'], 0.9 * cpu['thread'])
        # 38 batches of 4 samples wait 1.5 s of two workers, and compute next to nothing.
        self.assertGreater(workers['cpu']['workers'], 0)
        self.assertLess(workers['cpu']['workers'], 0.5e9)
        self.assertEqual(alone['cpu']['workers'], 0)

    @measured
    def test_workers_that_are_ready_and_have_no_core_are_told_apart_from_those_that_sleep(self):
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(cores)})  # What is started now has this core alone.
        self.addCleanup(os.sched_setaffinity, 0, cores)
        busy = [subprocess.Popen([sys.executable, '-c', 'while True: pass']) for _ in range(4)]
        try:
            waits = {}
            for script, *options in (('train_stages.py',), ('train.py', '--samples', 400, '--prep', 0.01, '--workers', 2, '--step', 0)):
                launcher = Launcher(Plan(run(3), drain(2, 16, which='warm'), drain(2, 24), then=end))
                launcher.run(here / 'trainings' / script, *options)
                _, drained = launcher.first.of('drained')
                self.assertIsNone(drained['error'])
                seconds = (drained['times'][-1] - drained['times'][1]) * 2  # of two workers
                waits[script] = drained['cpu']['waited'] / seconds
        finally:
            for each in busy:
                each.kill()
                each.wait()
        # Those that compute have a small part of the core, and are ready for most of the rest.
        self.assertGreater(waits['train_stages.py'], 0.25)
        self.assertLess(waits['train_stages.py'], 1.1)
        self.assertGreater(waits['train_stages.py'], 1.2 * waits['train.py'])

    def test_waiting_that_the_kernel_does_not_count_is_left_out(self):
        sys.path.insert(0, str(here.parents[1] / 'python'))
        from dsanalyze._attach.drains import _CpuCount

        class Source:
            def workers(self):
                return ()

        for known in (True, False):
            count = _CpuCount(1)
            if not known:
                count._waited_by = lambda process, thread: None
            for _ in range(3):
                count.batch(4, count.used([Source()]))
            self.assertEqual(sorted(count.take()), ['process', 'samples', 'thread', *(['waited'] if known else []), 'workers'])

    def test_loaders_that_train_together_are_drained_together(self):
        launcher = Launcher(Plan(run(3), drain(2, 16, which='warm'), drain(2, 24), then=end))
        launcher.run(train, '--samples', 400, '--prep', 0.01, '--workers', 2, '--step', 0, '--does', 'zip')
        warm, measured = launcher.first.of('drained')
        self.assertEqual((len(warm['times']), len(measured['times']), measured['error']), (16, 24, None))
        self.assertLess(rate(measured), 102)  # The other loader prepares in the main process: 100 samples/s.
        self.assertGreater(rate(measured), 40)

    def test_the_warm_pass_reads_each_batch_once_and_later_passes_stay_with_those(self):
        launcher = Launcher(Plan(run(3), drain(1, 1000, which='warm'), drain(1, 30), then=end))
        launcher.run(train, '--samples', 100, '--workers', 2)
        warm, measured = launcher.first.of('drained')
        self.assertEqual((len(warm['times']), len(measured['times'])), (25, 30))

    @measured
    def test_a_drain_ends_in_time(self):
        launcher = Launcher(Plan(run(3), drain(2, 4000, seconds=0.5), drain(2, 4000, seconds=0), then=end))
        launcher.run(train, '--samples', 400, '--prep', 0.01, '--workers', 2)
        message, shortest = launcher.first.of('drained')
        self.assertLess(len(message['times']), 4000)
        self.assertEqual(message['error'], None)
        self.assertEqual(len(shortest['times']), 4)  # Fewer would give no rate, however long the workers took to start.

    def test_an_error_in_a_drain_is_reported_and_training_goes_on(self):
        launcher = Launcher(Plan(run(2), drain(2, 20), then={'do': 'pass'}))
        output = launcher.run(train, '--samples', 80, '--workers', 2, '--does', 'raise', expect=1)
        self.assertIn('bad sample 20', launcher.first.of('drained')[0]['error'])
        self.assertIn('bad sample 20', output)

    def test_training_after_drains_is_as_it_would_have_been(self):
        for workers in (0, 2):
            options = ('--samples', 160, '--epochs', 2, '--workers', workers, '--shuffle')
            plain = Launcher().run(train, *options)
            plan = Plan(run(5), drain(2, 10, which='warm'), drain(0, 10), drain(1, 10), run(10), switch('cached'), switch('full'), then=run(1000))
            self.assertEqual(Launcher(plan).run(train, *options), plain)

    @measured
    def test_the_job_on_the_subset_waits_as_its_own_loader_does(self):
        launcher = Launcher(Plan(run(20), drain(2, 12, which='warm'), switch('cached'), run(10, 'cached'), run(40, 'cached'), then=end))
        launcher.run(train, '--samples', 800, '--prep', 0.01, '--workers', 2, '--step', 0.01)
        window = launcher.first.windows('cached')[1]
        step = statistics.mean(map(sum, zip(window['wait'], window['compute'], window['outside']))) / 1e9
        self.assertGreater(step, 0.017)
        self.assertLess(step, 0.05)  # A busy machine makes it longer.

    @measured
    def test_each_pass_over_the_subset_begins_as_one_of_its_own_loader_does(self):
        launcher = Launcher(Plan(run(8), drain(1, 4, which='warm'), switch('cached'), run(1000, 'cached'), then=run(1000, 'cached')))
        output = launcher.run(train, '--samples', 32, '--epochs', 5, '--prep', 0.005, '--workers', 1, '--step', 0.03)
        passes = [window for window in launcher.first.windows('cached') if len(window['wait']) == 8]
        self.assertGreaterEqual(len(passes), 3)
        for window in passes:
            self.assertGreater(window['wait'][0], 15e6)  # One batch takes 20 ms; a loader that goes on across passes has it at hand.
        later = [line.split()[5:] for line in output.splitlines() if line.startswith('epoch')][-1]
        self.assertEqual(set(later), {'0', '4', '8', '12'})  # The subset's, in as many steps as an epoch has.

    def test_streams_are_drained_from_their_start(self):
        launcher = Launcher(Plan(run(3), drain(2, 10, which='warm'), drain(2, 30), drain(0, 30), then=end))
        launcher.run(train, '--samples', 80, '--style', 'iterable', '--workers', 2)
        drained = launcher.first.of('drained')
        self.assertEqual([(len(message['times']), message['error']) for message in drained], [(10, None), (30, None), (30, None)])
        # Each pass over the ten batches has workers of its own, whose first batches are left out.
        self.assertIn(drained[1]['cpu']['samples'], range(4 * 8, 4 * 3 * 8 + 1))


if __name__ == '__main__':
    unittest.main()
