"""`dsanalyze verify-resume -- COMMAND`: what it says of a script's loader, and that nothing of the script is left."""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = os.environ['DSANALYZE']
SCRIPT = '''
import os, sys, time, torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

mistake = sys.argv[1] if len(sys.argv) > 1 else ''

class Numbers(Dataset):
    def __len__(self): return 50
    def __getitem__(self, index):
        raise RuntimeError('a sample was read')

class Resumable(DataLoader):
    """A loader with a place of its own; the samples of a batch come by workers."""
    def __init__(self, dataset, batch_size=4, num_workers=0, collate_fn=None, order_seed=7):
        super().__init__(dataset, batch_size=batch_size, num_workers=num_workers, collate_fn=collate_fn)
        self.order_seed, self.epoch_at, self.taken = order_seed, 0, 0

    def __eq__(self, other): return self is other  # and no hash

    def __iter__(self):
        if mistake == 'fails': raise ValueError('no such file: list.txt')
        if mistake == 'hangs': time.sleep(600)
        if mistake == 'seed': self.order_seed = torch.initial_seed() % 1000003
        generator = torch.Generator().manual_seed(self.order_seed + self.epoch_at)
        order = torch.randperm(len(self.dataset), generator=generator).tolist()[self.taken * self.batch_size:]
        for batch in DataLoader(self.dataset, sampler=order, batch_size=self.batch_size, num_workers=self.num_workers, collate_fn=self.collate_fn):
            self.taken += 1
            yield batch
        self.epoch_at, self.taken = self.epoch_at + 1, 0

    def state_dict(self): return {'epoch': self.epoch_at, 'taken': self.taken, 'workers': self.num_workers}
    def load_state_dict(self, state):
        self.epoch_at, self.taken = state['epoch'], state['taken']
        if mistake == 'workers' and state['workers'] != self.num_workers: raise AssertionError
        if mistake == 'alone' and self.taken and not self.num_workers: self.taken += 1
        if mistake == 'repeats' and self.taken: self.taken -= 1
        if mistake == 'skips' and self.taken: self.taken += 1

if mistake == 'leaves': sys.exit(3)
if mistake == 'dies': os.kill(os.getpid(), 9)
if mistake == 'plain':
    loader = DataLoader(list(range(50)), batch_size=4)
else:
    loader = Resumable(Numbers())
open(os.environ['MARKS'] + '/started', 'w').close()
if mistake == 'trains':
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for batch in DataLoader(list(range(50)), batch_size=4):
        weight.sum().backward(); optimizer.step(); scheduler.step()
for batch in loader:
    pass
open(os.environ['MARKS'] + '/trained', 'w').close()
'''


class VerifyResume(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)
        (self.folder / 'train.py').write_text(SCRIPT)
        # What a script writes elsewhere is discarded with its sandbox.
        marks = tempfile.TemporaryDirectory(dir='/dev/shm')
        self.addCleanup(marks.cleanup)
        self.marks = pathlib.Path(marks.name)

    def verify(self, *mistake, options=('--runs', '4'), command=None):
        environment = dict({name: value for name, value in os.environ.items() if name != 'PYTHONPATH'}, MARKS=str(self.marks))
        words = [PROGRAM, 'verify-resume', *options, '--', *(command or [sys.executable, 'train.py', *mistake])]
        return subprocess.run(words, cwd=self.folder, capture_output=True, text=True, env=environment, check=False, timeout=120)

    def test_a_loader_that_resumes_rightly_is_proved_without_reading_a_sample_and_without_training(self):
        run = self.verify('', options=('--runs', '4', '--json'))
        self.assertEqual(run.returncode, 0, run.stderr)
        record = json.loads(run.stdout)
        self.assertEqual((record['schema'], record['by'], record['lost'], record['repeated'], record['proved'], record['same_order']), ('dsanalyze.resume/1', 'indices', 0, 0, True, True))
        self.assertEqual((record['runs'], record['stops'], record['samples']), (4, 12, 4 * 2 * 50))
        self.assertEqual(record['loader'], '__main__.Resumable')
        self.assertEqual(record['dataset_class'], '__main__.Numbers')
        self.assertIsNone(record['fault'])
        self.assertTrue((self.marks / 'started').exists())
        self.assertFalse((self.marks / 'trained').exists())
        try:
            import jsonschema
        except ImportError:
            return
        schema = json.loads((pathlib.Path(__file__).resolve().parents[2] / 'reports' / 'schemas' / 'resume-1.json').read_text())
        jsonschema.validate(record, schema)

    def test_lost_and_repeated_samples_are_named_with_their_stops(self):
        for mistake, what in (('repeats', 'repeated'), ('skips', 'lost'), ('seed', 'lost'), ('alone', 'lost')):
            with self.subTest(mistake):
                run = self.verify(mistake)
                self.assertEqual(run.returncode, 1, run.stderr)
                self.assertRegex(run.stdout, rf'First {what}: sample \d+ of epoch \d, in run \d of seed 1, which was stopped after [\d., ]+ batches')
                again = self.verify(mistake)
                self.assertEqual(again.stdout, run.stdout)

    def test_a_state_that_loads_with_one_number_of_workers_alone_is_proved_with_that(self):
        run = self.verify('workers')
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn('with 0 workers alone', run.stdout)
        self.assertIn('AssertionError: train.py:', run.stdout)

    def test_dsanalyzes_own_loader_is_proved_by_its_values(self):
        made = subprocess.run([PROGRAM, 'dataset', 'make', self.folder / 'photos', '--samples', '24'], capture_output=True, text=True, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        for first, output in (('import torch.utils.data', 'torch'), ('', 'torch'), ('', 'numpy')):  # PyTorch is imported before the loader, by it, and never.
            (self.folder / 'own.py').write_text(f"{first}\nimport dsanalyze\nfor batch in dsanalyze.Loader('photos', batch_size=5, prep=[dsanalyze.RandomResizedCrop(32)], output='{output}'): pass\nopen(os.environ['MARKS'] + '/trained', 'w').close()\n")
            with self.subTest(first=first, output=output):
                run = self.verify(options=('--runs', '2', '--json'), command=[sys.executable, 'own.py'])
                self.assertEqual(run.returncode, 0, run.stderr)
                record = json.loads(run.stdout)
                self.assertEqual((record['by'], record['samples'], record['proved'], record['workers']), ('values', 96, True, []))
                self.assertFalse((self.marks / 'trained').exists())

    def test_what_the_loader_is_made_of_may_need_the_dataset_itself(self):
        (self.folder / 'train.py').write_text(SCRIPT.replace("super().__init__(dataset,", "self.classes = dataset.classes; super().__init__(dataset,").replace(
            "raise RuntimeError('a sample was read')", "return torch.tensor(index)").replace("    def __len__(self): return 50", "    classes = 3\n    def __len__(self): return 50", 1))
        run = self.verify('', options=('--runs', '3', '--json'))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(json.loads(run.stdout)['by'], 'values')

    def test_a_process_of_the_scripts_own_proves_and_its_files_are_taken_back(self):
        (self.folder / 'train.py').write_text(SCRIPT.split('open(')[0].replace('loader = Resumable(Numbers())', 'pass') + """
def main():
    open('written', 'w').close()
    for batch in Resumable(Numbers()): pass
    open(os.environ['MARKS'] + '/trained', 'w').close()
if __name__ == '__main__':
    import multiprocessing
    process = multiprocessing.get_context('fork').Process(target=main)
    process.start(); process.join()
""")
        run = self.verify('', options=('--runs', '3', '--json'))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertTrue(json.loads(run.stdout)['proved'])
        self.assertFalse((self.marks / 'trained').exists())

    @contextlib.contextmanager
    def hanging(self, marker):
        """The program while it proves a script that hangs, once that script runs; `marker` is in the command line of each of its processes."""
        environment = dict({name: value for name, value in os.environ.items() if name != 'PYTHONPATH'}, MARKS=str(self.marks))
        with subprocess.Popen([PROGRAM, 'verify-resume', '--', sys.executable, 'train.py', 'hangs', marker], cwd=self.folder, env=environment, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as process:
            deadline = time.monotonic() + 60
            while not (self.marks / 'started').exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            try:
                yield process
            finally:
                process.kill()

    @staticmethod
    def running(marker):
        lines = subprocess.run(['ps', '-eo', 'args'], capture_output=True, text=True, check=True).stdout.splitlines()
        return [line for line in lines if marker in line]

    def test_a_python_without_the_hook_is_named(self):
        run = self.verify(command=[sys.executable, '-I', 'train.py', 'hangs'], options=('--time-budget', '60s'))
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        self.assertIn('without having loaded dsanalyze\'s hook', run.stderr)

    def test_a_launcher_that_is_killed_leaves_no_process(self):
        marker = f'killed-{os.getpid()}'
        with self.hanging(marker) as process:
            process.kill()
            process.wait()
        deadline = time.monotonic() + 30
        left = [marker]
        while left and time.monotonic() < deadline:
            left = self.running(marker)
            time.sleep(0.2)
        self.assertEqual(left, [])

    def test_what_cannot_be_proved_is_an_error_that_says_why(self):
        for mistake, said in (('plain', 'no loader with a state was iterated'), ('trains', 'took a step before a loader with a state was iterated'), ('fails', 'ValueError: no such file: list.txt')):
            with self.subTest(mistake):
                run = self.verify(mistake)
                self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
                self.assertIn(said, run.stderr)
        for mistake, said in (('leaves', 'ended with exit status 3'), ('dies', 'was killed by signal 9')):
            with self.subTest(mistake):
                run = self.verify(mistake)
                self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
                self.assertIn(said, run.stderr)
        run = self.verify('hangs', options=('--time-budget', '6s'))
        self.assertEqual(run.returncode, 1)
        self.assertIn('pass a longer --time-budget', run.stderr)
        self.assertEqual(self.verify(command=['no-such-program']).returncode, 2)
        run = subprocess.run([PROGRAM, 'verify-resume'], capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 2)
        self.assertIn('which script?', run.stderr)

    def test_an_interrupt_ends_it_at_once_and_leaves_no_process(self):
        marker = f'marker-{os.getpid()}'
        with self.hanging(marker) as process:
            process.send_signal(2)
            process.wait(timeout=30)
            self.assertEqual(process.returncode, 130)
        self.assertEqual(self.running(marker), [])


if __name__ == '__main__':
    unittest.main()
