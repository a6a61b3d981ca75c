"""Drains of the script's loader without a step, at the rate of an independent drain; and the job on the drained subset."""
import itertools
import os
import pathlib
import sys
import tempfile
import threading
import types
import unittest
from unittest import mock

from fake_launcher import Launcher, Plan, drain, end, here, run, switch

sys.path[:0] = [str(here.parents[1] / 'python'), str(here.parents[1] / 'python' / 'dsanalyze' / '_attach')]
train = here / 'trainings' / 'train.py'


def intervals(message):
    """The different nanoseconds between a batch and the next one."""
    return {after - before for before, after in zip(message['times'], message['times'][1:])}


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

class Drains(unittest.TestCase):
    def test_workers_that_each_deliver_the_whole_stream_are_told(self):
        with tempfile.TemporaryDirectory(prefix='dsanalyze-test-') as folder:
            script = pathlib.Path(folder, 'stream.py')
            script.write_text(stream)
            for kind, told in (('whole', True), ('deals', False), ('constant', False)):  # Of equal samples nothing shows.
                launcher = Launcher(Plan(run(3), drain(1, 8, which='warm'), drain(2, 12), then=end))
                launcher.run(script, kind)
                self.assertEqual('workers-repeat' in [message['code'] for message in launcher.first.of('note')], told, kind)

    def test_each_number_of_workers_that_is_asked_for_is_drained_and_none_prepare_as_long_as_known(self):
        launcher = Launcher(Plan(run(20), drain(2, 16, which='warm'), drain(2, 40), drain(1, 24), drain(0, 12), then=end))
        launcher.run(train, '--samples', 400, '--prep', 0.01, '--workers', 1, '--step', 0)
        drained = launcher.first.of('drained')
        self.assertEqual([(message['workers'], len(message['times']), message['error']) for message in drained], [(2, 16, None), (2, 40, None), (1, 24, None), (0, 12, None)])
        self.assertEqual(intervals(drained[-1]), {40_000_000})
        self.assertTrue(all(message['main_cpu'] > 0 for message in drained))

    def test_what_the_workers_compute_has_a_name_however_they_are_started(self):
        for method in ('fork', 'spawn'):
            with self.subTest(method):
                self.check_names(method)

    def check_names(self, method):
        launcher = Launcher(Plan(run(3), drain(2, 16, which='warm'), drain(2, 60), then=end))
        script = pathlib.Path(launcher.folder.name, 'script.py')
        stages = here / 'trainings' / 'train_stages.py'
        script.write_text(f'''
import sys
sys.path.insert(0, {str(stages.parent)!r})
import _dsanalyze_attach.stages
_dsanalyze_attach.stages.least_busy = 0
import train_stages
if __name__ == '__main__':
    train_stages.train({method!r})
''')
        launcher.start(script)
        warm, drained = launcher.first.of('drained')
        self.assertEqual(warm['stages'], [])
        named = [stage for stage in drained['stages'] if stage['name'].startswith('train')]
        self.assertTrue(named, drained['stages'])
        change, item = ('Slow', 'Decoded') if sys.version_info >= (3, 11) else ('__call__', '__getitem__')
        self.assertLessEqual({stage['name'] for stage in named}, {'train_stages.py:13 ' + change, 'train_stages.py:28 decode', 'train_stages.py:24 ' + item})
        self.assertEqual({stage['file'] for stage in named}, {str(stages)})

    def test_code_that_holds_pythons_lock_counts_for_no_more_than_the_time_that_was_planned_until_the_look(self):
        import stages

        class Time:
            """Made up: a look comes so many times as late as was planned, and the worker has computed meanwhile."""
            clock_gettime_ns = staticmethod(lambda clock: Time.at)
            process_time_ns = monotonic_ns = staticmethod(lambda: Time.at)

            @staticmethod
            def sleep(planned):
                Time.at += round(planned * 1e9 * next(Time.late))  # Where there is none left, the looks end.
                Time.planned += planned * 1e9

        def packs(pipe):
            stages._look(os.open(pipe._path, os.O_WRONLY | os.O_NONBLOCK), 0.04, threading.get_ident())

        names = {}
        exec(compile('def fetch(source, pipe):\n    source(pipe)', '/x/torch/utils/data/_utils/fetch.py', 'exec'), names)
        for late in ((1, 1, 1), (1, 5, 9)):
            Time.at, Time.planned, Time.late = 0, 0, iter(late)
            with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, DSANALYZE_ATTACH=folder + '/socket'):
                pipe = stages.Pipe(1)
                with mock.patch.object(stages, 'time', Time):
                    names['fetch'](packs, pipe)
                seen, = pipe.take()
                self.assertEqual(os.listdir(folder), [])
            self.assertEqual(seen['count'], 3)
            self.assertLess(abs(seen['cpu'] - Time.planned), 10)  # Fractions of nanoseconds.

    def test_what_hands_samples_on_is_no_part_of_their_making(self):
        from stages import stage_of
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

        names = {}
        exec(compile('def fetch(source):\n    return next(source)', '/x/torch/utils/data/_utils/fetch.py', 'exec'), names)
        names['fetch'](Stream().read())
        self.assertRegex(found[0], r'^test_drains.py:[0-9]+ Crop.transform$' if sys.version_info >= (3, 11) else 'transform')

    def test_the_line_is_the_users_innermost_one_and_the_name_that_of_what_it_calls(self):
        import stages
        from stages import stage_of
        found = []
        library = {'found': found, 'stage_of': stage_of, 'sys': sys}
        exec(compile("""
def resize(image):
    found.append(stage_of(sys._getframe()))

class Compose:
    def __call__(self, image):
        resize(image)
""", '/x/site-packages/transforms.py', 'exec'), library)

        def augment(image):
            library['Compose']()(image)  # The line that is told.

        def waits():
            found.append(stage_of(sys._getframe(), False))

        names = {}
        exec(compile('def fetch(source):\n    source(1)', '/x/torch/utils/data/_utils/fetch.py', 'exec'), names)
        names['fetch'](augment)
        waits()
        with mock.patch.object(stages, '_owner', lambda code: None):  # As before Python 3.11.
            names['fetch'](augment)
        here = pathlib.Path(__file__)
        line = next(number for number, text in enumerate(here.read_text().splitlines(), 1) if 'The line that is told' in text and 'library[' in text)
        self.assertEqual(found[0], ('resize', str(here), line))
        self.assertEqual(found[2], found[0])
        self.assertIn('waits', found[1][0])  # Of a thread that the script has started.

    def test_a_generator_of_a_library_has_the_name_of_what_it_is_written_in(self):
        from stages import stage_of
        library = {'found': [], 'stage_of': stage_of, 'sys': sys}
        exec(compile("""
class Rows:
    def __getitem__(self, index):
        return list(found.append(stage_of(sys._getframe())) for _ in range(1))
""", '/x/site-packages/rows.py', 'exec'), library)
        names = {}
        exec(compile('def fetch(source):\n    source(1)', '/x/torch/utils/data/_utils/fetch.py', 'exec'), names)
        names['fetch'](library['Rows']().__getitem__)
        self.assertEqual(library['found'][0][0], 'Rows' if sys.version_info >= (3, 11) else '__getitem__')

    def test_threads_that_compute_count_by_themselves_and_what_no_python_runs_is_the_main_ones(self):
        import stages
        clocks = {}

        class Time:
            clock_gettime_ns = staticmethod(lambda clock: clocks[clock])
            process_time_ns = staticmethod(lambda: clocks['all'])

        pool = types.SimpleNamespace(ident=7, native_id=70)
        main = types.SimpleNamespace(ident=5, native_id=None)
        own, of_pool = stages._clock_of(os.getpid()), stages._clock_of(70)
        with mock.patch.object(stages, 'time', Time), mock.patch.object(stages.threading, 'enumerate', lambda: [main, pool]), \
                mock.patch.object(stages.threading, 'get_ident', lambda: 99):
            clocks.update({'all': 0, own: 0, of_pool: 0})
            threads = stages._Threads(5)
            threads.spent()
            clocks.update({'all': 100, own: 10, of_pool: 30})
            self.assertEqual(threads.spent(), [(5, 70), (7, 30)])
            clocks.update({'all': 200, own: 20, of_pool: 60})
            self.assertEqual(threads.spent(20), [(7, 30)])  # The main one waits.

    def test_batches_are_taken_over_after_a_drain_whatever_they_are_made_of(self):
        for kind in ('tensors', 'arrays'):
            launcher = Launcher(Plan(run(3), drain(1, 8, which='warm'), drain(1, 40), then=end))
            launcher.run(here / 'trainings' / 'train_arrays.py', kind, virtual=False)
            warm, drained = launcher.first.of('drained')
            self.assertEqual((warm['takes'], drained['error']), ([], None))
            self.assertIn(len(drained['takes']), range(5))  # None where the workers were too slow for any to lie ready.

    def test_a_batch_is_timed_where_it_lay_ready_and_neither_a_streams_end_nor_a_later_batch_came_before_it(self):
        import dsanalyze._attach.drains as drains

        def taken(ready, takes):
            """What is noted of a batch that is taken in 5 ns."""
            source = object.__new__(drains._Source)
            source.record = types.SimpleNamespace(kind=types.SimpleNamespace(map_pages=lambda leaves: None))
            source.restarts = 0
            source._iterator = types.SimpleNamespace(_data_queue=types.SimpleNamespace(empty=lambda: not ready), _task_info={0: (0,)}, _rcvd_idx=0, _workers_status=[True])
            source.next = lambda: takes(source) or [1]
            times = []
            with mock.patch.object(drains, 'now', itertools.count(0, 5).__next__):
                self.assertTrue(source._take_timed(times))
            return times

        self.assertEqual(taken(True, lambda source: None), [5])
        self.assertEqual(taken(False, lambda source: None), [])
        self.assertEqual(taken(True, lambda source: source._iterator._task_info.update({2: (0, 'a later batch')})), [])
        self.assertEqual(taken(True, lambda source: source._iterator._workers_status.clear()), [])

    def test_the_cpu_time_of_workers_and_of_the_process_is_told_apart(self):
        launcher = Launcher(Plan(run(3), drain(2, 16, which='warm'), drain(2, 40), drain(0, 12), then=end))
        launcher.run(train, '--samples', 400, '--workers', 2, '--step', 0)
        _, workers, alone = launcher.first.of('drained')
        for message, first in ((workers, 2), (alone, 1)):
            cpu = message['cpu']
            self.assertEqual(cpu['samples'], 4 * (len(message['times']) - first))
            self.assertGreater(cpu['process'], 0)
        self.assertGreater(workers['cpu']['workers'], 0)
        self.assertEqual(alone['cpu']['workers'], 0)

    def test_cpu_time_is_the_sum_over_the_starts_of_workers_between_two_readings_of_the_clocks(self):
        from dsanalyze._attach.drains import _CpuCount
        looks = iter([(100, 200, 300, [7]), (130, 260, 390, [7]), (200, 300, 0, [8]), None, (300, 400, 0, [9]), (300, 400, 0, [10]),
                      (1000, 2000, 10, [11]), (1010, 2020, 40, [11])])
        with mock.patch.object(_CpuCount, '_used', lambda count: next(looks)):
            count = _CpuCount([], 1, 4)
            for batches in (4, 4, 4, 2):  # Of the second start a worker has ended, and in the third another loader has begun again.
                count.restarted()
                for _ in range(batches):
                    count.batch(4)
            self.assertEqual(count.take(), {'thread': 40, 'process': 80, 'workers': 120, 'samples': 12})
        self.assertEqual(list(looks), [])

    def test_loaders_that_train_together_are_drained_together(self):
        launcher = Launcher(Plan(run(20), drain(2, 16, which='warm'), drain(2, 24), then=end))
        launcher.run(train, '--samples', 400, '--prep', 0.01, '--workers', 2, '--step', 0, '--does', 'zip')
        warm, measured = launcher.first.of('drained')
        self.assertEqual((len(warm['times']), len(measured['times']), measured['error']), (16, 24, None))
        self.assertEqual(intervals(measured), {40_000_000})  # The other loader prepares in the main process.

    def test_the_warm_pass_reads_each_batch_once_and_later_passes_stay_with_those(self):
        launcher = Launcher(Plan(run(20), drain(1, 1000, which='warm'), drain(1, 30), then=end))
        launcher.run(train, '--samples', 100, '--workers', 2)
        warm, measured = launcher.first.of('drained')
        self.assertEqual((len(warm['times']), len(measured['times'])), (25, 30))

    def test_a_drain_ends_in_time(self):
        launcher = Launcher(Plan(run(3), drain(0, 100, which='warm', seconds=1000), drain(0, 4000, seconds=0.5), drain(0, 4000, seconds=0), then=end))
        launcher.run(train, '--samples', 400, '--prep', 0.01)
        _, message, shortest = launcher.first.of('drained')
        self.assertEqual((len(message['times']), message['error']), (1 + 13, None))  # Of 40 ms each.
        self.assertEqual(len(shortest['times']), 2)  # Fewer would give no rate.

    def test_an_error_in_a_drain_is_reported_and_training_goes_on(self):
        launcher = Launcher(Plan(run(2), drain(2, 20), switch('full'), then=run(1000)))
        output = launcher.run(train, '--samples', 80, '--workers', 2, '--does', 'raise', expect=1)
        self.assertIn('bad sample 20', launcher.first.of('drained')[0]['error'])
        self.assertIn('bad sample 20', output)

    def test_the_job_on_the_subset_waits_as_its_own_loader_does(self):
        launcher = Launcher(Plan(run(20), drain(0, 12, which='warm'), switch('cached'), run(10), run(40), then=end))
        launcher.run(train, '--samples', 800, '--prep', 0.01, '--step', 0.01)
        window = launcher.first.windows('cached')[1]
        self.assertEqual((set(window['wait']), set(window['compute'])), ({40_000_000}, {10_000_000}))

    def test_each_pass_over_the_subset_has_as_many_steps_as_one_of_its_own_loader(self):
        launcher = Launcher(Plan(run(8), drain(1, 4, which='warm'), switch('cached'), run(1000), then=run(1000)))
        output = launcher.run(train, '--samples', 32, '--epochs', 5, '--workers', 1)
        passes = [window for window in launcher.first.windows('cached') if len(window['wait']) == 8]
        self.assertGreaterEqual(len(passes), 3)
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
