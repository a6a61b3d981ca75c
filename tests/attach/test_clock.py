"""The clock of training steps by itself: what was marked of a step is divided into its parts, and all of its time is in them."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'python' / 'dsanalyze' / '_attach'))
from clock import Gap, StepClock  # noqa: E402


class Parts(unittest.TestCase):
    def step(self, *events, closed=1000):
        """(wait, compute, outside, validation, ranks, outside_ranks) of a step that begins at 0 and has its batch at 100; then what happens in it."""
        clock = StepClock()
        clock.served(0, 100, 4)
        for name, *values in events:
            getattr(clock, name)(*values)
        window = clock.take(True, closed)
        parts = tuple(window[part][0] for part in ('wait', 'compute', 'outside', 'validation', 'ranks', 'outside_ranks'))
        self.assertEqual(sum(parts[:3]), window['end'] - window['begin'])
        return parts

    def test_validation_in_the_middle_of_a_step_is_outside_of_its_computing(self):
        self.assertEqual(self.step(('validation_entered', 200), ('validation_served', 400), ('validation_ended', 500), ('stepped_at', 700))[:4], (100, 300, 600, 300))
        self.assertEqual(self.step(('validation_entered', 200), ('validation_served', 400), ('stepped_at', 700))[:4], (100, 400, 500, 200))

    def test_validation_after_a_step_is_outside(self):
        self.assertEqual(self.step(('stepped_at', 700), ('validation_entered', 800), ('validation_ended', 900))[:4], (100, 600, 300, 100))

    def test_a_step_without_an_optimizers_computes_until_the_next_batch_is_asked_for(self):
        self.assertEqual(self.step()[:3], (100, 900, 0))
        self.assertEqual(self.step(('validation_entered', 800), ('validation_ended', 900))[:4], (100, 700, 200, 100))

    def test_a_further_loaders_batch_is_waited_for_and_not_computed(self):
        self.assertEqual(self.step(('followed', 220), ('stepped_at', 700), ('followed', 100))[:3], (420, 380, 200))

    def test_waiting_for_the_device_at_the_end_of_a_window_is_computing(self):
        self.assertEqual(self.step(('stepped_at', 700), ('synchronised', 200))[1], 800)
        self.assertEqual(self.step(('synchronised', 200))[1], 900)
        clock = StepClock()
        clock.synchronised(500)  # Between two steps.
        clock.served(0, 100, 4)
        self.assertEqual(clock.take(False, 300)['compute'], [200])

    def test_waits_for_ranks_are_before_an_optimizers_step_or_after_it_and_no_more_than_the_part_in_which_they_are(self):
        ranks = ('waited_for_ranks', 5), ('waited_for_ranks', 6)
        self.assertEqual(self.step(*ranks, ('stepped_at', 700), ('waited_for_ranks', 7), ('stepped_at', 800))[4:], (11, 7))
        self.assertEqual(self.step(*ranks, ('validation_entered', 700), *ranks, ('validation_ended', 900))[4:], (11, 11))
        self.assertEqual(self.step(('waited_for_ranks', 1000), ('stepped_at', 700), ('waited_for_ranks', 1000))[4:], (600, 300))
        self.assertEqual(self.step(('waited_for_ranks', 0))[4:], (0, 0))

    def test_a_validation_that_another_thread_leaves_late_takes_no_negative_time(self):
        events = ('validation_entered', 300), ('stepped_at', 400), ('validation_served', 450), ('validation_entered', 500), ('validation_ended',)
        self.assertGreaterEqual(self.step(*events, closed=600)[3], 0)

    def test_an_optimizers_step_while_the_next_batch_is_waited_for_gives_no_negative_part(self):
        clock = StepClock()
        clock.served(0, 100, 4)
        clock.stepped_at(350)
        clock.served(300, 400, 4)
        window = clock.take(False, 500)
        self.assertEqual([window[part] for part in ('wait', 'compute', 'outside')], [[100, 100], [200, 100], [0, 0]])


class Windows(unittest.TestCase):
    def test_steps_of_one_optimizer_step_each_are_divided_as_others_are(self):
        for marks in ([100, 130, -170, 180, 190, -250], [100, 130, 180, 190, -250, -270], [100, 130, 180, 190, 200, 220]):
            windows = []
            for ranks in (False, True):
                clock = StepClock()
                clock.marks = list(marks)
                windows.append(clock.take(ranks, 300))
            self.assertEqual(dict(windows[0], ranks=windows[1]['ranks'], outside_ranks=windows[1]['outside_ranks']), windows[1])
            self.assertNotIn('ranks', windows[0])

    def test_a_pass_that_was_left_ends_with_its_last_optimizer_step_and_what_came_after_lies_between_epochs(self):
        clock = StepClock()
        for began in (0, 1000):
            clock.served(began, began + 100, 4)
            clock.stepped_at(began + 700)
        clock.validation_entered(1800)
        clock.validation_ended(1900)
        clock.started(30)
        window = clock.take(False, clock.leave(0))
        self.assertFalse(clock.running)
        self.assertEqual((window['begin'], window['end']), (0, 1700))
        self.assertEqual([window[part] for part in ('wait', 'compute', 'outside')], [[100, 100], [600, 600], [300, 0]])
        self.assertEqual(clock.gap.report(2000), {'begin': 1700, 'end': 2000, 'start': 30, 'validation': 100})

    def test_a_pass_that_was_left_in_the_middle_of_a_step_ends_before_it_and_one_on_a_device_when_that_is_done(self):
        for stepped, end, steps in ((False, 1000, 1), (True, 1950, 2)):
            clock = StepClock()
            clock.served(0, 100, 4)
            clock.stepped_at(700)
            clock.served(1000, 1100, 4)
            if stepped:
                clock.stepped_at(1700)
            window = clock.take(False, clock.leave(250 if stepped else 0))
            self.assertEqual((window['end'], len(window['wait']), clock.gap.begin, window['compute'][-1]), (end, steps, end, 850 if stepped else 600))
            self.assertEqual(window['samples'], [4] * steps)

    def test_a_step_that_goes_on_as_the_process_ends_is_left_out_and_one_that_was_closed_ends_there(self):
        for close, end, computed in ((False, 200, [100]), (True, 900, [100, 600])):
            clock = StepClock()
            clock.served(0, 100, 4)
            clock.served(200, 300, 4)
            if close:
                clock.close(900)
                clock.gap = Gap(900)
                clock.validation_entered(950)  # It is of no step.
                clock.validation_ended(980)
            window = clock.take(False)
            self.assertEqual((window['begin'], window['end'], window['compute']), (0, end, computed))
            self.assertIsNone(clock.take(False))


if __name__ == '__main__':
    unittest.main()
