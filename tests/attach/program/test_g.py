"""G of `dsanalyze profile -- COMMAND` is that of the known step, whatever the script does to its batches."""
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from test_program import ProgramTest, train

step = 0.05
batch = 4
allowed = 0.1  # Of G; a busy machine makes a step longer, and one of three profiles comes near.


class G(ProgramTest):
    def check(self, *options, notes=()):
        seen = []
        for _ in range(3):
            run = self.run_program('--time-budget', '16s', '--json', command=[*train, '--samples', 280, '--epochs', 1000, '--workers', 1, '--step', step, *options])
            self.assertEqual(run.returncode, 0, run.stderr)
            result = json.loads(run.stdout)
            self.assertEqual({finding['code'] for finding in result['findings']} & {'batch-mutated', 'steps-skipped'}, set(notes))
            seen.append(result['rates']['G']['samples_per_s'] * step / batch)
            if abs(seen[-1] - 1) <= allowed:
                return
        self.fail(f'{options}: G is so many times that of the known step: {seen}')

    def test_batches_that_are_mixed_up_in_place(self):
        self.check('--does', 'mixup', notes=['batch-mutated'])

    def test_keys_that_are_popped(self):
        self.check('--container', 'dict', '--does', 'pop')

    def test_dicts_tuples_dataclasses_and_named_tuples(self):
        for container in ('dict', 'tuple', 'dataclass', 'named'):
            with self.subTest(container):
                self.check('--container', container)

    def test_gradients_that_are_accumulated(self):
        self.check('--does', 'accumulate')


if __name__ == '__main__':
    unittest.main(defaultTest='G')
