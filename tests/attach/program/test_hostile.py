"""Scripts that make it hard for `dsanalyze profile -- COMMAND`: it says what it measured all the same, and leaves nothing behind."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from test_program import ProgramTest, phases, processes_of, train

preamble = '''
import os, sys, time, torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)

def step(x, sleep=0.005):
    model(x).mean().backward()
    time.sleep(sleep)
    optimizer.step()
    optimizer.zero_grad()
'''


class Hostile(ProgramTest):
    def script(self, text):
        path = self.folder / 'script.py'
        path.write_text(preamble + text)
        return path

    def profile(self, *command, budget='6s'):
        run = self.run_program('--time-budget', budget, '--json', command=command)
        self.assertEqual(run.returncode, 0, run.stderr[-4000:])
        self.assert_nothing_left()
        result = json.loads(run.stdout)
        self.assertEqual({run['name'] for run in result['runs']} - {'fetch', 'busy'}, phases)
        return result, run

    def findings(self, result):
        return {finding['code']: finding['message'] for finding in result['findings']}

    def test_a_script_may_print_a_hundred_megabytes(self):
        script = self.script('''
line = 'x' * 999 + '\\n'
for epoch in range(int(sys.argv[1])):
    for x, in DataLoader(TensorDataset(torch.ones(400, 4)), 4):
        step(x)
        for _ in range(1000):
            sys.stdout.write(line)
sys.stdout.flush()
sys.exit(5)
''')
        result, run = self.profile(sys.executable, script, 100000)
        self.assertGreater(len(run.stderr), 100 * 10**6)  # With --json the command's output goes there.
        run = self.run_program('--passive', command=[sys.executable, script, 1])
        self.assertEqual(run.returncode, 5, run.stderr[-4000:])
        self.assertEqual(run.stdout, ('x' * 999 + '\n') * 100000)
        self.assertIn('each step for a batch', run.stderr)

    def test_a_loader_may_have_64_workers(self):
        options = ('--samples', 200000, '--workers', 64, '--step', 0.01)
        result, _ = self.profile(*train, *options, budget='20s')
        self.assertEqual(result['loader']['workers'], 64)
        self.assertIn(64, {point['workers'] for point in result['curves']['P_by_workers']})
        run = self.run_program('--passive', command=[*train, '--samples', 400, '--workers', 64, '--does', 'os_exit'])
        self.assertEqual(run.returncode, 7, run.stderr)
        self.assertIn('each step for a batch', run.stderr)

    def test_the_python_of_a_venv_is_profiled_as_the_one_that_it_is_made_of(self):
        place = self.folder / 'venv'
        made = subprocess.run([sys.executable, '-m', 'venv', '--system-site-packages', '--without-pip', place], capture_output=True, text=True, check=False)
        if made.returncode:
            self.skipTest('this Python makes no venv: ' + made.stdout)
        script = self.script('''
assert sys.prefix == sys.argv[1] and sys.prefix != sys.base_prefix
for epoch in range(int(sys.argv[2])):
    for x, in DataLoader(TensorDataset(torch.ones(4000, 4)), 4, num_workers=1):
        step(x, 0.001)
''')
        result, _ = self.profile(place / 'bin' / 'python', script, place, 100000)
        self.assertTrue(result['loader']['file'].endswith('script.py'))
        for python in ([place / 'bin' / 'python'], ['sh', '-c', f'. {place}/bin/activate; exec python "$@"', 'sh']):
            run = self.run_program('--passive', command=[*python, script, place, 1])
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn('each step for a batch', run.stderr)

    def test_a_daemon_with_a_session_of_its_own_ends_with_a_profile_and_stays_after_a_real_run(self):
        script = self.script('''
def daemon():
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    os.close(1), os.close(2)
    time.sleep(600)

for epoch in range(int(sys.argv[1])):
    for number, (x,) in enumerate(DataLoader(TensorDataset(torch.ones(4000, 4)), 4)):
        step(x, 0.001)
        if epoch == 0 and number == 20:
            daemon()
''')
        self.profile(sys.executable, script, 100000)  # Nothing is left of it.
        run = self.run_program('--passive', command=[sys.executable, script, 1])
        self.assertEqual(run.returncode, 0, run.stderr)
        left, = processes_of(self.mark, what='stat')
        number = int(left.split()[0])
        self.assertIn(str(script), pathlib.Path(f'/proc/{number}/cmdline').read_text())
        self.assertEqual(os.getsid(number) == os.getsid(0), False)
        os.kill(number, signal.SIGKILL)
        for _ in range(200):
            if not processes_of(self.mark):
                break
            time.sleep(0.05)
        self.assert_nothing_left()

    def library(self):
        """A library of the script's own that is loaded before the others."""
        maps = pathlib.Path('/proc/self/maps').read_text().split()
        return next(path for path in maps if '/libm.so' in path or '/libm-' in path)

    def test_a_library_that_the_user_preloads_stays_preloaded(self):
        library = self.library()
        script = self.script('''
assert sys.argv[1] in os.environ['LD_PRELOAD'].replace(' ', ':').split(':'), os.environ['LD_PRELOAD']
for epoch in range(int(sys.argv[2])):
    for x, in DataLoader(TensorDataset(torch.ones(4000, 4)), 4, num_workers=1):
        step(x, 0.001)
''')
        own = ['env', f'LD_PRELOAD={library}', sys.executable]  # In place of what the launcher set.
        self.profile(*own, script, library, 100000)
        self.environment['LD_PRELOAD'] = library
        result, _ = self.profile(sys.executable, script, library, 100000)
        self.assertNotIn('reads-untraced', self.findings(result))
        run = self.run_program('--passive', command=[sys.executable, script, library, 1])
        self.assertEqual(run.returncode, 0, run.stderr)

    @unittest.skipUnless(hasattr(torch.amp, 'GradScaler'), 'this torch has no GradScaler for the CPU')
    def test_where_a_scaler_leaves_out_steps_g_is_not_trusted(self):
        for skipped in (0, 1):  # Of ten steps.
            result, _ = self.profile(sys.executable, self.script('''
scaler = torch.amp.GradScaler('cpu', init_scale=2.0, growth_interval=10**9, backoff_factor=1.0 - 1e-12)
count = 0
for epoch in range(100000):
    for x, in DataLoader(TensorDataset(torch.ones(4000, 4)), 4):
        count += 1
        scaler.scale(model(x).mean() * (float('inf') if count % 10 < SKIPPED else 1)).backward()
        time.sleep(0.005)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
'''.replace('SKIPPED', str(skipped))))
            self.assertEqual('steps-skipped' in self.findings(result), bool(skipped), self.findings(result))
            self.assertFalse(result['trusted'] and skipped)


if __name__ == '__main__':
    unittest.main(defaultTest='Hostile')
