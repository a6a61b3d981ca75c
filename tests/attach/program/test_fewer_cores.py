"""Trainings that die while `dsanalyze profile -- COMMAND` measures them on half of their cores, when all else is known."""
import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from measured import measured
from test_program import ProgramTest, train


@unittest.skipIf(len(os.sched_getaffinity(0)) < 2, 'half of one core is none')
class FewerCores(ProgramTest):
    def profile(self, killed):
        options = ('--samples', 100000, '--workers', 2, '--prep', 0.002, '--step', 0.005, '--killed-on-fewer-cores', killed)
        run = self.run_program('--time-budget', '30s', '--json', command=[*train, *options])
        self.assertEqual(run.returncode, 0, run.stderr[-4000:])
        self.assert_nothing_left()
        self.assertIn('kills the ' + killed, run.stderr)
        result = json.loads(run.stdout)
        self.assertEqual({each['name'] for each in result['runs']} - {'fetch'}, {'full', 'synthetic', 'prep', 'cached'})
        self.assertNotIn('on_fewer_cores', result)
        said, = [finding['message'] for finding in result['findings'] if finding['code'] == 'fewer-cores-not-measured']
        self.assertRegex(said, 'the training was not measured on [0-9]+ cores?: .+')
        self.assertIn(said, run.stderr)
        return said

    @measured
    def test_what_was_measured_before_stays_when_the_training_is_killed_there(self):
        self.profile('training')

    @measured
    def test_what_was_measured_before_stays_when_a_worker_is_killed_there(self):
        self.assertIn('killed', self.profile('worker'))


if __name__ == '__main__':
    unittest.main(defaultTest='FewerCores')
