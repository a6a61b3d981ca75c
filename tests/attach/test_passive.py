"""A passive run: only clocks are read."""
import unittest

from fake_launcher import Launcher, here

train = here / 'train.py'


def array(window, part):
    value = window[part]
    return value if isinstance(value, list) else [value] * len(window['wait'])


class Passive(unittest.TestCase):
    def windows(self, connection):
        return [message['window'] for message in connection.of('passive')]

    def test_every_step_is_clocked_and_all_of_its_time_is_divided(self):
        launcher = Launcher(mode='passive')
        launcher.run(train, '--samples', 400, '--epochs', 2, '--step', 0.01, '--workers', 2, '--does', 'validate')
        windows = self.windows(launcher.first)
        self.assertEqual(sum(len(window['wait']) for window in windows), 199)
        self.assertEqual(sum(sum(array(window, 'samples')) for window in windows), 4 * 199)
        self.assertGreater(len(windows), 2)
        for window in windows:
            total = sum(sum(window[part]) for part in ('wait', 'compute', 'outside', 'hook'))
            self.assertEqual(total, window['end'] - window['begin'])
        between, = [message['between'] for message in launcher.first.of('passive') if 'between' in message]
        self.assertGreaterEqual(between['validation'], 100e6)
        self.assertEqual(launcher.first.notes(), {})

    def test_the_exit_of_a_script_is_its_own(self):
        for does, status in (('os_exit', 7), ('raise', 1)):
            launcher = Launcher(mode='passive')
            launcher.run(train, '--samples', 80, '--does', does, expect=status)

    def test_a_launcher_that_does_not_read_stops_nothing(self):
        launcher = Launcher(mode='passive')
        launcher._serve = lambda peer, connection: launcher.connections.append(peer)
        self.assertIn('done 40', launcher.run(train, '--samples', 160))


if __name__ == '__main__':
    unittest.main()
