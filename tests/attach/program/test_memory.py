"""The memory of a training's processes, as `dsanalyze profile -- COMMAND` says it."""
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from test_program import ProgramTest

held = 200 << 20
most_besides = 700 << 20  # Of PyTorch in the training process and in its four workers.


class Memory(ProgramTest):
    def test_what_forked_workers_share_counts_once(self):
        script = self.folder / 'script.py'
        script.write_text('''
import os, sys, time, torch
from torch.utils.data import DataLoader, TensorDataset
held = os.urandom(1 << 20) * int(sys.argv[1])
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
for epoch in range(int(sys.argv[2])):
    for x, in DataLoader(TensorDataset(torch.ones(8000, 4)), 4, num_workers=4):
        model(x).mean().backward()
        time.sleep(0.002)
        optimizer.step()
        optimizer.zero_grad()
''')
        for option, epochs in (('--time-budget=8s', 100000), ('--passive', 1)):
            peaks = self.peaks(script, epochs, option)
            self.assertTrue(peaks)
            for name, peak in peaks.items():
                self.assertGreater(peak, held, name)
                self.assertLess(peak, held + most_besides, name)

    def peaks(self, script, epochs, *options):
        run = self.run_program('--json', *options, command=[sys.executable, script, held >> 20, epochs])
        self.assertEqual(run.returncode, 0, run.stderr)
        return {run['name']: run['memory_peak_bytes'] for run in json.loads(run.stdout)['runs'] if 'memory_peak_bytes' in run}


if __name__ == '__main__':
    unittest.main(defaultTest='Memory')
