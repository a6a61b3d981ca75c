"""`dsanalyze whatif` on the profile of a launched training: predictions, running them, and what is refused before anything runs."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from measured import measured

try:
    import jsonschema
except ImportError:
    jsonschema = None

here = pathlib.Path(__file__).resolve().parent
program = os.environ.get('DSANALYZE', 'dsanalyze')
schema = here.parents[1] / 'reports' / 'schemas' / 'profile-1.json'


class WhatIf(unittest.TestCase):
    """One profile serves all: samples that wait 20 ms each, steps of 20 ms with batches of 4, two workers."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix='dsanalyze-test-'))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        shutil.copy(here / 'trainings' / 'train.py', cls.folder / 'train.py')
        (cls.folder / 'data').mkdir()
        (cls.folder / 'data' / 'one').write_text('1')
        cls.environment = dict(os.environ, XDG_STATE_HOME=str(cls.folder / 'state'), TMPDIR=str(cls.folder))
        cls.command = [sys.executable, 'train.py', '--samples', '20000', '--workers', '2', '--prep', '0.02', '--step', '0.02', '--refuse-workers', '3']
        cls.profiled = cls.run_there('profile', '--time-budget', '40s', '--', *cls.command)
        saved, = (cls.folder / 'state').glob('**/profile-*.json')
        cls.saved = saved
        cls.record = json.loads(saved.read_text())

    @classmethod
    def run_there(cls, *words, folder=None):
        return subprocess.run([program, *map(str, words)], capture_output=True, text=True, env=cls.environment, cwd=folder or cls.folder, timeout=280, check=False)

    def whatif(self, *words, code=0, **more):
        run = self.run_there('whatif', *words, **more)
        self.assertEqual(run.returncode, code, run.stderr + run.stdout)
        return run

    def changed(self, name, **fields):
        """The record with other fields, in a file of its own."""
        record = json.loads(self.saved.read_text())
        record.update(fields)
        path = self.folder / name
        path.write_text(json.dumps(record))
        return path

    @measured
    def test_the_profile_says_what_to_change_and_how_to_check_it(self):
        self.assertEqual(self.profiled.returncode, 0, self.profiled.stderr)
        self.assertIn('fix', self.record, self.record['findings'])
        fix = self.record['fix']
        self.assertGreater(fix['workers'], 2)
        self.assertGreater(fix['speedup'], 1.1)
        self.assertEqual(fix['check'], f"dsanalyze whatif --workers {fix['workers']} --validate")
        text = ' '.join(self.profiled.stdout.split())
        self.assertIn(f"num_workers={fix['workers']} (now 2): ", text)
        self.assertRegex(text, r'(fix|perhaps) train\.py:\d+ ')
        self.assertIn(fix['check'], text)
        self.assertTrue(any(path['path'] == str(self.folder / 'train.py') and path['kind'] == 'code' for path in self.record['launch']['paths']))

    @unittest.skipIf(jsonschema is None, 'python3-jsonschema is missing')
    @measured
    def test_the_record_of_a_loader_that_waits_is_one_by_its_schema(self):
        self.assertEqual(self.record['bottleneck']['detail'], 'latency')
        for detail in ('latency', 'delivery', 'outside', 'accelerator', 'prep', 'storage'):
            jsonschema.validate(dict(self.record, bottleneck=dict(self.record['bottleneck'], detail=detail)), json.loads(schema.read_text()))

    @measured
    def test_cpu_time_is_told_apart_from_waiting(self):
        points = {point['workers']: point for point in self.record['curves']['P_by_workers']}
        self.assertLess(points[2]['workers_seconds_per_sample'], 0.01)  # A sample waits 20 ms.
        self.assertGreater(points[2]['process_seconds_per_sample'], 0)
        self.assertTrue(all(run['cores_used'] >= 0 for run in self.record['runs']))

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, 'one core cannot be fewer')
    @measured
    def test_the_training_was_run_on_half_of_the_cores_too(self):
        if 'on_fewer_cores' not in self.record:
            self.skipTest('it comes last, and this machine was too busy to leave time for it')
        fewer = self.record['on_fewer_cores']
        self.assertEqual(fewer['cores'], len(os.sched_getaffinity(0)) // 2)
        found = next(run['samples_per_s'] for run in self.record['runs'] if run['name'] == 'full')
        self.assertAlmostEqual(fewer['samples_per_s'] / found, 1, delta=0.3)  # It waits, and computes little.
        self.assertIn('as found, on ', self.profiled.stderr)
        drained = [point for point in self.record['curves']['P_by_workers'] if 'on_fewer_cores' in point]
        self.assertTrue(drained)
        for point in drained:
            self.assertEqual(point['on_fewer_cores']['cores'], fewer['cores'])
            self.assertAlmostEqual(point['on_fewer_cores']['samples_per_s'] / point['samples_per_s'], 1, delta=0.3)

    @measured
    def test_more_workers_are_faster_until_the_steps_are_the_bottleneck(self):
        run = self.whatif('--workers', '1,4,16', '--accelerator-speed', '2x', '--find', 'workers', '--json')
        result = json.loads(run.stdout)
        rates = {answer['change']['workers']: answer for answer in result['answers'] if list(answer['change']) == ['workers']}
        self.assertLess(rates[1]['samples_per_s'], rates[4]['samples_per_s'])
        self.assertEqual(rates[1]['bottleneck'], 'cpu')
        self.assertEqual(rates[1]['bottleneck_detail'], 'latency')
        self.assertEqual(rates[16]['bottleneck'], 'gpu')
        self.assertIsNone(rates[16]['S'])
        self.assertGreater(result['found'][0]['value'], 2)
        self.assertEqual(len(result['answers']), 8)  # Each number of workers at each speed.
        self.whatif('--workers', '8')  # For people, too.

    def test_what_was_not_measured_is_refused_with_the_reason(self):
        for words, said in ((('--cache-size', '50%'), 'this training'), (('--storage', '2x'), 'this training'), (('--jobs', '2'), '--jobs'),
                            (('--search', '--prices', 'x'), '--search'), (('--find', 'cache'), '--find cache'), (('--simulate',), '--simulate'),
                            (('--workers', '-1'), '--workers'), (('--cores', '0'), '--cores')):
            run = self.whatif(*words, code=2)
            self.assertIn(said, run.stderr)

    @measured
    def test_workers_are_run_and_compared_with_the_prediction(self):
        run = self.run_there('whatif', '--workers', '3,4', '--accelerator-speed', '2x', '--validate', '--time-budget', '50s', '--json')
        self.assertIn(run.returncode, (0, 1, 4), run.stderr)
        self.assertLess(run.stderr.index('validation: 3 of'), len(run.stderr))
        result = json.loads(run.stdout)
        by_change = {json.dumps(answer['change']): answer for answer in result['answers']}
        self.assertGreater(by_change['{}']['measured']['samples_per_s'], 0)
        four = by_change['{"workers": 4}']
        self.assertGreater(four['measured']['samples_per_s'], 1.2 * by_change['{}']['measured']['samples_per_s'])
        # A run that fails costs its own answer alone.
        self.assertIn('its run failed: the command ended with exit status 3', by_change['{"workers": 3}']['not_measured'])
        self.assertIn('no other speed', by_change['{"accelerator_speed": 2.0}']['not_measured'])
        self.assertEqual(result['validation']['measured'], 2)

    @measured
    def test_one_core_is_run_by_affinity(self):
        run = self.run_there('whatif', '--cores', '1', '--validate', '--time-budget', '16s', '--json')
        self.assertIn(run.returncode, (0, 1, 4), run.stderr)
        one, = [answer for answer in json.loads(run.stdout)['answers'] if answer['change']]
        if len(os.sched_getaffinity(0)) > 1:
            self.assertGreater(one['measured']['samples_per_s'], 0)

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, 'one core cannot be fewer')
    def test_a_command_that_chooses_its_cores_itself_is_no_measurement_of_others(self):
        command = ['taskset', '-c', str(min(os.sched_getaffinity(0))), *self.command]
        run = self.whatif(self.changed('taskset.json', command=command), '--cores', '2', '--validate', '--time-budget', '8s', '--json', code=4)
        two, = [answer for answer in json.loads(run.stdout)['answers'] if answer['change']]
        self.assertIn('1 cores instead of 2: it chooses them itself', two['not_measured'])

    def test_what_is_not_the_profiled_command_any_more_is_said_before_anything_runs(self):
        launch = self.record['launch']
        script = {'path': str(self.folder / 'train.py'), 'kind': 'code'}
        gone = {'path': str(self.folder / 'gone.py'), 'kind': 'code', 'digest': 'xxh3:0'}
        for name, fields, said in (('changed.json', {'launch': dict(launch, paths=[dict(script, digest='xxh3:0')])}, 'was changed since the profile'),
                                   ('gone.json', {'launch': dict(launch, paths=[gone])}, 'is gone'),
                                   ('program.json', {'command': ['no-such-program-of-dsanalyze']}, 'no program no-such-program-of-dsanalyze'),
                                   ('folder.json', {'launch': dict(launch, working_directory='/')}, 'was profiled in /')):
            run = self.whatif(self.changed(name, **fields), '--workers', '4', '--validate', code=2)
            self.assertIn(said, run.stderr)
            self.assertNotIn('validation: ', run.stderr)

    def test_another_dataset_behind_the_same_command_ends_the_validation(self):
        loader = dict(self.record['loader'], samples=777)
        run = self.whatif(self.changed('other.json', loader=loader), '--workers', '4', '--validate', '--time-budget', '8s', code=1)
        self.assertIn('another dataset than the profile', run.stderr)


if __name__ == '__main__':
    unittest.main()
