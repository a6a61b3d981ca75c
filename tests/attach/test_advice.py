"""What `dsanalyze profile -- COMMAND` advises where a script has a known cost, and where it has none."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from measured import measured

here = pathlib.Path(__file__).resolve().parent
program = os.environ.get('DSANALYZE', 'dsanalyze')


def line_of(text):
    lines = (here / 'trainings' / 'train_causes.py').read_text().splitlines()
    return next(at for at, line in enumerate(lines, 1) if line.startswith(text))


def advice_on(cause, budget):
    """By code, and the whole record."""
    with tempfile.TemporaryDirectory(prefix='dsanalyze-test-') as folder:
        run = subprocess.run([program, 'profile', '--json', '--time-budget', f'{budget}s', '--', sys.executable, str(here / 'trainings' / 'train_causes.py'), cause],
                             capture_output=True, text=True, timeout=200, check=True, env=dict(os.environ, XDG_STATE_HOME=folder))
    record = json.loads(run.stdout)
    return {advice['code']: advice for advice in record['advice']}, record


def advice_on_what_is_computed(cause):
    """The same, measured for longer where other programs left the workers too little time to be looked at often enough."""
    for budget in (14, 30, 60):
        advice, record = advice_on(cause, budget)
        if 'hot' in record:
            break
    return advice, record


class Advice(unittest.TestCase):
    @measured
    def test_a_slow_transform_is_named_with_its_place_and_what_leaving_it_out_would_give(self):
        advice, record = advice_on_what_is_computed('transform')
        self.assertIn('slow-transform', advice, record.get('hot'))
        slow = advice['slow-transform']
        self.assertTrue(slow['text'].startswith(f"train_causes.py:{line_of('def augmented')} augmented takes"), slow['text'])
        self.assertTrue(slow['file'].endswith('train_causes.py'))
        if 'gain' in slow or 'other-processes' not in advice:
            self.assertGreater(slow['gain']['speedup'], 1.5)
            self.assertTrue(slow['gain']['at_most'])
        self.assertNotIn('slow-collate', advice)

    @measured
    def test_a_slow_collate_function_is_told_apart_from_it(self):
        advice, record = advice_on_what_is_computed('collate')
        self.assertIn('slow-collate', advice, record.get('hot'))
        self.assertIn('collated', advice['slow-collate']['text'])
        self.assertNotIn('slow-transform', advice)

    @measured
    def test_time_between_the_steps_is_named(self):
        advice, record = advice_on('outside', 10)
        self.assertIn('outside-of-steps', advice, record['waits'])
        self.assertGreater(advice['outside-of-steps']['gain']['speedup'], 1.5)

    @measured
    def test_workers_that_start_slowly_for_each_short_epoch_are_told_to_persist(self):
        advice, record = advice_on('workers', 14)
        self.assertIn('persistent-workers', advice, record['waits'])
        self.assertIn(f"train_causes.py:{line_of('loader = ')} persistent_workers=True", advice['persistent-workers']['text'])
        self.assertGreater(advice['persistent-workers']['gain']['speedup'], 1.3)

    @measured
    def test_without_a_cost_beside_its_steps_nothing_is_advised(self):
        advice, record = advice_on('none', 10)
        self.assertEqual(set(advice) & {'slow-collate', 'slow-transform', 'persistent-workers', 'outside-of-steps', 'threads-of-workers'}, set(), record['advice'])


if __name__ == '__main__':
    unittest.main()
