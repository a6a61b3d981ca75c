"""Windows whose steps are only counted: no clock is read in them, and what else happens than steps ends them."""
import pathlib
import unittest

from fake_launcher import Launcher, Plan, end, here, run, unexplained

train = here / 'trainings' / 'train.py'


def count(steps):
    return dict(run(steps), count=True)


def is_counted(window):
    return 'wait' not in window


class Counted(unittest.TestCase):
    def check_takes_turns(self, script, *arguments):
        launcher = Launcher(Plan(run(5), count(6), run(7), count(8), run(5), then=end))
        launcher.run(script, *arguments)
        windows = launcher.first.windows()[:5]
        self.assertEqual([is_counted(window) for window in windows], [False, True] * 2 + [False])
        self.assertEqual([len(window['samples']) for window in windows], [5, 6, 7, 8, 5])
        for window in windows:
            self.assertEqual(window['end'] - window['begin'], len(window['samples']) * 40_000_000)
            if not is_counted(window):
                self.assertEqual(unexplained(window), 0)
        return launcher

    def test_they_take_turns_with_windows_that_are_clocked_and_have_the_same_time(self):
        for options in ((), ('--style', 'iterable')):
            self.check_takes_turns(train, '--samples', 400, '--prep', 0.005, '--step', 0.02, *options)

    def test_the_script_is_the_same(self):
        options = ('--samples', 160, '--epochs', 2, '--shuffle')
        self.assertEqual(Launcher(Plan(run(5), count(5), count(7), then=run(1000))).run(train, *options), Launcher().run(train, *options))

    def test_passes_without_an_optimizer_are_counted_too(self):
        launcher = Launcher(Plan(run(5), count(6), run(7), then=end))
        script = pathlib.Path(launcher.folder.name, 'script.py')
        script.write_text('''
import time
import torch
import dsanalyze

class Batches:
    def __iter__(self):
        for number in range(100):
            time.sleep(0.01)
            yield torch.full((4,), number)

for batch in dsanalyze.watch(Batches()):
    time.sleep(0.03)
''')
        launcher.run(script)
        windows = launcher.first.windows()
        self.assertEqual([is_counted(window) for window in windows], [False, True, False])
        self.assertEqual([(len(window['samples']), window['end'] - window['begin']) for window in windows], [(steps, steps * 40_000_000) for steps in (5, 6, 7)])

    def test_an_epochs_end_cuts_one_and_its_steps_are_told(self):
        launcher = Launcher(Plan(run(5), count(50), then=run(1000)))
        launcher.run(train, '--samples', 80, '--epochs', 3)
        self.assertEqual([(len(window['samples']), window.get('cut')) for window in launcher.first.windows()], [(5, None), (14, True), (20, True), (16, False), (4, None)])
        for window in launcher.first.windows():
            self.assertEqual(window['end'] - window['begin'], len(window['samples']) * 2_000_000)
        self.assertEqual(len(launcher.first.at('epoch_end')), 3)
        for message in launcher.first.at('start')[1:]:
            self.assertEqual(message['between']['begin'], message['between']['end'])

    def test_what_follows_a_pass_that_is_left_lies_in_no_step(self):
        launcher = Launcher(Plan(run(5), count(15), then=run(1000)))
        launcher.run(train, '--samples', 200, '--epochs', 2, '--does', 'break,validate')
        first, cut, *_ = launcher.first.windows()
        self.assertEqual((len(first['samples']), len(cut['samples']), cut['cut']), (5, 4, True))
        self.assertEqual(cut['end'] - cut['begin'], 4 * 2_000_000)
        between = launcher.first.at('start')[1]['between']
        self.assertEqual(between['validation'], 50_000_000)

    def test_steps_in_which_more_happens_are_clocked_all_the_same(self):
        launcher = Launcher(Plan(run(5), count(6), then=end))
        launcher.run(train, '--samples', 120, '--does', 'zip')
        self.assertEqual([is_counted(window) for window in launcher.first.windows()], [False, False])


if __name__ == '__main__':
    unittest.main()
