"""Trainings that die while `dsanalyze profile -- COMMAND` measures them on half of their cores, when all else is known."""
import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from measured import measured
from test_program import ProgramTest

script = '''
import os, signal, sys, time, torch
from torch.utils.data import DataLoader, Dataset, get_worker_info
killed = sys.argv[1]
training = os.getpid()
all_cores = len(os.sched_getaffinity(0))

class Samples(Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, index):
        time.sleep(0.002)
        if len(os.sched_getaffinity(0)) < all_cores:
            print('kills the', killed, file=sys.stderr, flush=True)
            if killed == 'training':
                os.kill(training, signal.SIGKILL)
            elif get_worker_info().id == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return torch.full((8,), float(index))

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
for epoch in range(100000):
    for x in DataLoader(Samples(), 4, num_workers=2):
        model(x).mean().backward()
        time.sleep(0.005)
        optimizer.step()
        optimizer.zero_grad()
'''


@unittest.skipIf(len(os.sched_getaffinity(0)) < 2, 'half of one core is none')
class FewerCores(ProgramTest):
    def profile(self, killed):
        path = self.folder / 'script.py'
        path.write_text(script)
        run = self.run_program('--time-budget', '30s', '--json', command=[sys.executable, path, killed])
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
