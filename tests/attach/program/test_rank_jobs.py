"""`dsanalyze profile -- COMMAND` of trainings with several ranks that meet over gloo: uneven epochs, a rank that is killed, ranks that are elsewhere."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from test_program import ProgramTest, here, phases

train = [sys.executable, str(here / 'trainings' / 'train_ranks.py')]
longest = 90  # Seconds until the program must have ended, on a busy machine too.


class RankJobs(ProgramTest):
    def profile(self, *command, budget='8s'):
        run = self.run_program('--time-budget', budget, '--json', command=command)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assert_nothing_left()
        return json.loads(run.stdout)

    def assert_phases(self, result):
        self.assertEqual({run['name'] for run in result['runs']} - {'busy'}, phases)
        self.assertEqual([rank['rank'] for rank in result['waits']['by_rank']], [0, 1])

    def test_where_one_ranks_epochs_are_shorter_all_ranks_go_through_the_phases(self):
        for way in ('asks', 'joins'):
            with self.subTest(way):
                self.assert_phases(self.profile(*train, '--spawn', 2, '--samples', 400, '--epochs', 100000, '--uneven', way))

    def test_ranks_whose_numbers_stand_in_no_environment_are_known_once_they_meet(self):
        script = 'for rank in 0 1; do DSANALYZE_TEST_RANK=$rank "$@" & done; wait'
        self.assert_phases(self.profile('sh', '-c', script, 'sh', *train, '--samples', 4000, '--epochs', 100000, '--meet', f'file://{self.folder}/meeting'))

    def test_a_rank_that_follows_without_a_loader_is_here(self):
        result = self.profile(*train, '--spawn', 2, '--samples', 4000, '--epochs', 100000, '--follows', budget='8s')
        self.assertIn('full', {run['name'] for run in result['runs']})

    def start_and_kill(self, *command):
        """What the program says when rank 1 is killed while it takes steps, and its exit code."""
        numbers = self.shared / 'numbers'
        numbers.mkdir()
        running = subprocess.Popen(self.command('--time-budget', '60s', '--hang-timeout', '20s', command=[*command, '--samples', 400000, '--numbers', numbers]),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment)
        number = numbers / '1'
        while not (number.exists() and number.read_text()) and running.poll() is None:
            time.sleep(0.05)
        if running.poll() is not None:
            self.fail(running.communicate()[1])
        os.kill(int(number.read_text()), signal.SIGKILL)
        _, said = running.communicate(timeout=longest)
        self.assert_nothing_left()
        return running.returncode, said

    def test_a_rank_that_is_killed_ends_the_profile_with_its_number(self):
        code, said = self.start_and_kill(*train, '--spawn', 2)
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r'rank 1 \(PID [0-9]+\) of the training ended')

    def test_one_that_torchrun_started_does_so_too(self):
        # PyTorch 1.13 under Python 3.11 knows no output that is not redirected.
        outputs = ['--redirects', '1', '--tee', '2', '--log_dir', str(self.folder / 'logs')]
        code, said = self.start_and_kill(sys.executable, '-m', 'torch.distributed.run', '--nproc_per_node', '2', *outputs, train[1])
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r'rank 1 \(PID [0-9]+\) of the training ended')

    def test_ranks_on_other_servers_are_an_error_that_says_how_many_there_are(self):
        environment = dict(self.environment, RANK='1', LOCAL_RANK='1', WORLD_SIZE='8', LOCAL_WORLD_SIZE='1')
        self.environment = environment
        run = self.run_program('--time-budget', '60s', command=[sys.executable, here / 'trainings' / 'train.py', '--samples', 400000])
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn('the training has 8 ranks, and 1 of them is a process of this command', run.stderr)
        self.assertIn('7 are elsewhere, on other servers', run.stderr)
        self.assert_nothing_left()
        run = self.run_program('--passive', '--json', command=[sys.executable, here / 'trainings' / 'train.py', '--samples', 80])
        self.assertEqual(run.returncode, 0, run.stderr)
        findings = {finding['code']: finding['message'] for finding in json.loads(run.stdout[run.stdout.index('{'):])['findings']}
        self.assertIn('these figures are of the ranks here alone', findings['ranks-elsewhere'])


if __name__ == '__main__':
    unittest.main(defaultTest='RankJobs')
