"""G and the rate as found of trainings on the simulated GPU, by windows of a hundred steps, against the same script over a list and alone."""
import json
import os
import subprocess
import unittest

from fake_launcher import Launcher, Plan, drain, end, here, run, switch

train = here / 'trainings' / 'train_device.py'
regimes = ('device-bound', 'mixed', 'host-bound', 'perceptron')
within = 0.01  # of the truth
lost_within = 0.015  # of the time as found
steps = 100


def truth(*arguments):
    """Milliseconds a step, as the script itself has them when it is left alone."""
    return float(Launcher(Plan()).run(train, *arguments).split()[0])


def step(windows):
    """The same of windows, by what they took without validations and the hook's own time."""
    time = sum(window['end'] - window['begin'] - sum(window['validation']) for window in windows)
    return time / sum(len(window['wait']) for window in windows) / 1e6


class OnDevice(unittest.TestCase):
    def profile(self, regime, *options):
        launcher = Launcher(Plan(*[run(steps)] * 3, switch('synthetic'), run(20), *[run(steps)] * 2, drain(0, 40), end))
        launcher.run(train, regime, *options, '--steps', 650)
        return launcher.first

    def check_verdict(self, connection, lost):
        """Data is the bottleneck where the truth loses a tenth to it, and is none where that is less than a twentieth."""
        told = subprocess.run([os.environ['TOLD_VERDICT']], input=''.join(json.dumps(message) + '\n' for message in connection.messages),
                              capture_output=True, text=True, check=True).stdout.split()
        names = {'data': ('prep', 'latency'), 'training': ('accelerator', 'outside')}
        right = [name for kind, least, most in (('data', 0.05, 1), ('training', -1, 0.1)) if least <= lost <= most for name in names[kind]]
        self.assertIn(told[0], right, '{:.1%} lost'.format(lost))
        return told[1] == 'sure'

    def check(self, *options):
        for regime in regimes:
            with self.subTest(regime):
                connection = self.profile(regime, *options)
                self.assertEqual(connection.notes(), {})
                told, expected = {}, {}
                for mode, over in (('full', 'loader'), ('synthetic', 'list')):
                    told[mode] = step(connection.windows(mode)[1:])
                    expected[mode] = truth(regime, *options, '--over', over)
                    self.assertAlmostEqual(told[mode] / expected[mode], 1, delta=within, msg='{}: {} ms a step, and {} in truth'.format(mode, told[mode], expected[mode]))
                lost = [1 - steps_of['synthetic'] / steps_of['full'] for steps_of in (told, expected)]
                self.assertAlmostEqual(*lost, delta=lost_within)
                self.assertTrue(self.check_verdict(connection, lost[1]) or 0.05 <= lost[1] <= 0.1)

    def test_without_a_wait(self):
        self.check()

    def test_a_wait_that_the_device_hides(self):
        self.check('--wait', 2)

    def test_a_wait_that_it_does_not_hide(self):
        self.check('--wait', 20)

    def test_gradients_of_several_batches(self):
        self.check('--accumulate', 4, '--wait', 4)

    def test_steps_that_are_left_out(self):
        self.check('--skip', 5)

    def test_copies_from_pageable_memory(self):
        self.check('--pageable', '--elements', 150528)

    def test_batches_that_each_step_changes(self):
        self.check('--in-place', '--elements', 150528)

    def test_copies_over_a_stream_of_their_own(self):
        self.check('--beside', '--elements', 150528, '--wait', 2)

    def test_steps_that_wait_for_their_loss(self):
        self.check('--item', '--wait', 4)

    def test_waits_of_the_device_for_other_ranks(self):
        self.check('--ranks', 5, '--wait', 2)

    def test_steps_that_are_captured(self):
        self.check('--capture', '--wait', 2)

    def test_two_loaders(self):
        self.check('--two', '--wait', 2)

    def test_a_validation_inside(self):
        self.check('--validate', 40, '--wait', 2)
        self.check('--validate', 42, '--accumulate', 4)

    def test_epochs_that_end_in_windows(self):
        self.check('--epoch', 130)

    def test_passes_that_are_left(self):
        self.check('--leave', 130)

    def test_a_batch_without_gradients_in_each_step(self):
        self.check('--teacher')

    def test_another_device_than_the_first(self):
        self.check('--device', 1, '--wait', 4)

    def test_nothing_is_asked_of_the_device_but_to_wait_for_it_at_the_ends_of_windows(self):
        launcher = Launcher(Plan(*[run(steps)] * 3, switch('synthetic'), *[run(steps)] * 2, then=run(1000)))
        printed = launcher.run(train, 'mixed', '--steps', 650, '--device', 1).splitlines()
        asked = dict(word.split('=') for word in printed[1].split()[1:])
        self.assertEqual(asked.get('events'), None)
        self.assertLessEqual(int(asked['synchronize']), 8 + 3)  # And once copies were made.
        self.assertNotIn('contexts', asked)


if __name__ == '__main__':
    unittest.main()
