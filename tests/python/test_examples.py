"""The examples train from a folder of images, as they stand but for smaller batches and crops."""
import difflib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from test_loader import made_images

examples = pathlib.Path(__file__).resolve().parents[2] / 'examples'


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix='dsanalyze-test-'))
        made_images(cls.folder / 'data', 32)
        for example in examples.glob('*.py'):
            (cls.folder / example.name).write_text(re.sub(r'batch_size=\d+', 'batch_size=8', example.read_text()).replace('(224)', '(64)'))

    @classmethod
    def tearDownClass(cls):
        subprocess.run(['rm', '-rf', cls.folder], check=True)

    def run_example(self, *words, **options):
        environment = dict(os.environ, OMP_NUM_THREADS='1')
        return subprocess.run([sys.executable, *words], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=250, check=False, **options)

    def test_five_lines_change_a_training_on_a_folder_of_images(self):
        before, after = ((examples / name).read_text().splitlines() for name in ('imagefolder.py', 'imagefolder_dsanalyze.py'))
        changed = [line for line in difflib.ndiff(before, after) if line.startswith('+ ') and 'usage:' not in line]
        self.assertLessEqual(len(changed), 5, changed)
        for name in ('imagefolder.py', 'imagefolder_dsanalyze.py'):
            run = self.run_example(self.folder / name, self.folder / 'data', '1')
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertRegex(run.stdout, r'^epoch 0: loss \d')

    def run_ranks(self, *words):
        """What two ranks print, with the variables that torchrun sets; that of Debian 12 does not start."""
        environment = dict(os.environ, OMP_NUM_THREADS='1', WORLD_SIZE='2', MASTER_ADDR='127.0.0.1', MASTER_PORT=str(20_000 + os.getpid() % 10_000))
        ranks = [subprocess.Popen([sys.executable, *words], env=dict(environment, RANK=str(rank), LOCAL_RANK=str(rank)),
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in range(2)]
        said = [rank.communicate(timeout=250) for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0, 0], said)
        return [output for output, _ in said]

    def test_ranks_have_parts_of_the_same_epoch(self):
        said = self.run_ranks(self.folder / 'ddp.py', self.folder / 'data', '1')
        self.assertEqual([re.findall(r'rank (\d), epoch 0: (\d+) samples', output) for output in said], [[('0', '16')], [('1', '16')]])

    def test_two_servers_ask_each_other_from_the_second_epoch_on(self):
        for output in self.run_ranks(self.folder / 'two_servers.py', self.folder / 'data', '3'):
            self.assertRegex(output, r'epoch 2: [1-9][0-9,]* bytes came from other ranks')

    def test_a_training_that_is_killed_goes_on_where_its_checkpoint_was(self):
        made_images(self.folder / 'more', 8 * 6)
        checkpoint = self.folder / 'checkpoint'
        words = [sys.executable, self.folder / 'resume.py', self.folder / 'more', checkpoint, '1']
        first = subprocess.Popen(words, env=dict(os.environ, OMP_NUM_THREADS='1'), stdout=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 200
        while not checkpoint.exists() and first.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        first.send_signal(signal.SIGKILL)
        first.communicate()
        second = self.run_example(*words[1:])
        self.assertEqual(second.returncode, 0, second.stderr)
        self.assertRegex(second.stdout, r'goes on in epoch 0\nepoch 0: loss')


if __name__ == '__main__':
    unittest.main()
