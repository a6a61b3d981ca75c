"""`dsanalyze whatif` on the profile of a launched training: predictions, running them, and what is refused before anything runs."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import jsonschema
except ImportError:
    jsonschema = None

here = pathlib.Path(__file__).resolve().parent
program = os.environ.get('DSANALYZE', 'dsanalyze')
schema = here.parents[1] / 'reports' / 'schemas' / 'profile-1.json'


class WhatIf(unittest.TestCase):
    """One profile serves all, with two workers. What is predicted from it is of given rates: samples that wait 20 ms each, steps of 20 ms with batches of 4."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix='dsanalyze-test-'))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        shutil.copy(here / 'trainings' / 'train.py', cls.folder / 'train.py')
        (cls.folder / 'data').mkdir()
        (cls.folder / 'data' / 'one').write_text('1')
        cls.environment = dict(os.environ, XDG_STATE_HOME=str(cls.folder / 'state'), TMPDIR=str(cls.folder))
        cls.command = [sys.executable, 'train.py', '--samples', '20000', '--workers', '2', '--prep', '0.002', '--step', '0.005', '--refuse-workers', '3']
        cls.profiled = cls.run_there('profile', '--time-budget', '8s', '--', *cls.command)
        saved, = (cls.folder / 'state').glob('**/profile-*.json')
        cls.saved = saved
        cls.record = json.loads(saved.read_text())
        cls.given = cls.with_rates()

    @classmethod
    def run_there(cls, *words, folder=None):
        return subprocess.run([program, *map(str, words)], capture_output=True, text=True, env=cls.environment, cwd=folder or cls.folder, timeout=280, check=False)

    def whatif(self, *words, code=0):
        run = self.run_there('whatif', *words)
        self.assertEqual(run.returncode, code, run.stderr + run.stdout)
        return run

    def changed(self, name, **fields):
        """The record with other fields, in a file of its own."""
        record = json.loads(self.saved.read_text())
        record.update(fields)
        path = self.folder / name
        path.write_text(json.dumps(record))
        return path

    @classmethod
    def with_rates(cls):
        """The path of a record like the profile's, with rates as they would be on a machine that does nothing else."""
        record = json.loads(cls.saved.read_text())

        def rate(samples_per_s, of):
            return dict(of, samples_per_s=samples_per_s, ci95_samples_per_s={'low': 0.98 * samples_per_s, 'high': 1.02 * samples_per_s})

        point = next(point for point in record['curves']['P_by_workers'] if point['workers'] == 2)
        record['curves']['P_by_workers'] = [rate(50 * workers, dict(point, workers=workers)) for workers in (1, 2, 4)]
        record['rates'].update(P=rate(100, record['rates']['P']), G=rate(190, record['rates']['G']))
        for run in record['runs']:
            run.update(rate({'synthetic': 190}.get(run['name'], 95), run))
        path = cls.folder / 'given.json'
        path.write_text(json.dumps(record))
        return path

    def test_the_profile_names_its_code_and_how_a_fix_is_checked(self):
        self.assertEqual(self.profiled.returncode, 0, self.profiled.stderr)
        self.assertTrue(any(path['path'] == str(self.folder / 'train.py') and path['kind'] == 'code' for path in self.record['launch']['paths']))
        if 'fix' in self.record:  # Where prep was found to be the bottleneck.
            self.assertIn(self.record['fix']['check'], ' '.join(self.profiled.stdout.split()))

    @unittest.skipIf(jsonschema is None, 'python3-jsonschema is missing')
    def test_its_record_is_one_by_its_schema_whatever_the_bottleneck_is(self):
        for detail in ('latency', 'delivery', 'outside', 'accelerator', 'prep', 'storage'):
            jsonschema.validate(dict(self.record, bottleneck=dict(self.record['bottleneck'], detail=detail)), json.loads(schema.read_text()))

    def test_cpu_time_is_told(self):
        for point in self.record['curves']['P_by_workers']:
            self.assertGreater(point['process_seconds_per_sample'], 0)
        self.assertTrue(all(run['cores_used'] >= 0 for run in self.record['runs']))

    def test_more_workers_are_faster_until_the_steps_are_the_bottleneck(self):
        run = self.whatif(self.given, '--workers', '1,4,16', '--accelerator-speed', '2x', '--find', 'workers', '--json')
        result = json.loads(run.stdout)
        rates = {answer['change']['workers']: answer for answer in result['answers'] if list(answer['change']) == ['workers']}
        self.assertLess(rates[1]['samples_per_s'], rates[4]['samples_per_s'])
        self.assertEqual(rates[1]['bottleneck'], 'cpu')
        self.assertEqual(rates[1]['bottleneck_detail'], 'latency')
        self.assertEqual(rates[16]['bottleneck'], 'gpu')
        self.assertIsNone(rates[16]['S'])
        self.assertGreater(result['found'][0]['value'], 2)
        self.assertEqual(len(result['answers']), 8)  # Each number of workers at each speed.
        self.whatif(self.given, '--workers', '8')  # For people, too.

    def test_what_was_not_measured_is_refused_with_the_reason(self):
        for words, said in ((('--cache-size', '50%'), 'this training'), (('--storage', '2x'), 'this training'), (('--jobs', '2'), '--jobs'),
                            (('--search', '--prices', 'x'), '--search'), (('--find', 'cache'), '--find cache'), (('--simulate',), '--simulate'),
                            (('--workers', '-1'), '--workers'), (('--cores', '0'), '--cores')):
            run = self.whatif(self.given, *words, code=2)
            self.assertIn(said, run.stderr)

    def test_workers_are_run_and_a_run_that_fails_costs_its_own_answer_alone(self):
        run = self.run_there('whatif', self.saved, '--workers', '3', '--accelerator-speed', '2x', '--validate', '--time-budget', '16s', '--json')
        self.assertIn(run.returncode, (0, 1, 4), run.stderr)
        self.assertIn('validation: 2 of', run.stderr)
        result = json.loads(run.stdout)
        by_change = {json.dumps(answer['change']): answer for answer in result['answers']}
        self.assertGreater(by_change['{}']['measured']['samples_per_s'], 0)
        # The script itself refuses three workers.
        self.assertIn('its run failed: the command ended with exit status 3', by_change['{"workers": 3}']['not_measured'])
        self.assertIn('no other speed', by_change['{"accelerator_speed": 2.0}']['not_measured'])
        self.assertEqual(result['validation']['measured'], 1)

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
