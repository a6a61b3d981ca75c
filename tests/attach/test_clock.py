"""The clock of training steps by itself: each part is measured, and none of them is what the others leave."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'python' / 'dsanalyze' / '_attach'))
from clock import StepClock  # noqa: E402


class Parts(unittest.TestCase):
    def step(self, *events, closed=1000):
        """One step that opens at 0 and has waited 60 of its first 100, with 10 taken by the hook; then what happens in it."""
        clock = StepClock()
        clock.open(0)
        clock.served(100, 60, 10, 4)
        for name, *values in events:
            getattr(clock, name)(*values)
        clock.close(closed)
        window = clock.take(closed, ranks=True)
        return {part: window[part][0] for part in ('wait', 'compute', 'outside', 'validation', 'hook')}

    def test_time_that_no_part_has_measured_is_in_none_of_them(self):
        parts = self.step(('stepped_at', 700), ('hooked_after', 50))
        self.assertEqual(parts, {'wait': 60, 'compute': 600, 'outside': 250, 'validation': 0, 'hook': 60})  # 30 of the first 100 are not explained.

    def test_validation_in_the_middle_of_a_step_is_outside_of_its_computing(self):
        parts = self.step(('validation_entered', 200), ('validation_served', 400), ('validation_ended', 500), ('stepped_at', 700))
        self.assertEqual(parts, {'wait': 60, 'compute': 300, 'outside': 600, 'validation': 300, 'hook': 10})
        parts = self.step(('validation_entered', 200), ('validation_served', 400), ('stepped_at', 700))
        self.assertEqual((parts['compute'], parts['outside'], parts['validation']), (400, 500, 200))

    def test_validation_after_a_step_is_outside(self):
        parts = self.step(('stepped_at', 700), ('validation_entered', 800), ('validation_ended', 900))
        self.assertEqual((parts['compute'], parts['outside'], parts['validation']), (600, 300, 100))

    def test_a_step_without_an_optimizers_computes_until_the_next_batch_is_asked_for(self):
        self.assertEqual(self.step()['compute'], 900)
        parts = self.step(('validation_entered', 800), ('validation_ended', 900))
        self.assertEqual((parts['compute'], parts['outside'], parts['validation']), (700, 200, 100))

    def test_a_further_loaders_batch_is_waited_for_and_not_computed(self):
        parts = self.step(('followed', 200, 20), ('stepped_at', 700), ('followed', 100, 0))
        self.assertEqual(parts, {'wait': 360, 'compute': 380, 'outside': 200, 'validation': 0, 'hook': 30})

    def test_the_hooks_time_between_two_optimizers_is_not_computing(self):
        parts = self.step(('stepped_at', 400), ('hooked_after', 20), ('stepped_at', 700), ('hooked_after', 30))
        self.assertEqual(parts, {'wait': 60, 'compute': 580, 'outside': 270, 'validation': 0, 'hook': 60})

    def test_waiting_for_the_device_at_the_end_of_a_window_is_computing(self):
        self.assertEqual(self.step(('stepped_at', 700), ('synchronised', 200))['compute'], 800)
        self.assertEqual(self.step(('synchronised', 200))['compute'], 900)
        clock = StepClock()
        clock.synchronised(500)  # Between two steps.
        clock.open(0)
        clock.served(100, 100, 0, 4)
        clock.close(300)
        self.assertEqual(clock.take(300, ranks=False)['compute'], [200])

    def test_a_validation_that_another_thread_leaves_late_takes_no_negative_time(self):
        clock = StepClock()
        clock.open(100)
        clock.served(200, 50, 0, 4)
        clock.validation_entered(300)
        clock.stepped_at(400)
        clock.validation_served(450)
        clock.validation_entered(500)
        clock.close(600)
        self.assertGreaterEqual(min(clock.take(600, 0)['validation']), 0)

    def test_an_optimizers_step_while_a_batch_is_waited_for_gives_no_negative_part(self):
        clock = StepClock()
        clock.open(0)
        clock.stepped_at(50)
        clock.hooked_after(10)
        clock.served(100, 90, 10, 4)
        clock.close(300)
        window = clock.take(300, ranks=False)
        self.assertEqual([window[part][0] for part in ('wait', 'compute', 'outside', 'hook')], [90, 0, 190, 20])

    def test_a_pass_that_was_left_ends_with_its_last_optimizer_step_and_what_came_after_lies_between_epochs(self):
        clock = StepClock()
        for opened in (0, 1000):
            clock.close(opened)
            clock.open(opened)
            clock.served(opened + 100, 90, 10, 4)
            clock.stepped_at(opened + 700)
            clock.hooked_after(20)
        clock.validation_entered(1800)
        clock.validation_ended(1900)
        clock.started(30)
        window = clock.leave(0, ranks=False)
        self.assertFalse(clock.running)
        self.assertEqual((window['begin'], window['end']), (0, 1700))
        self.assertEqual([window[part] for part in ('wait', 'compute', 'outside', 'hook')], [[90, 90], [600, 600], [280, 0], [30, 10]])
        self.assertEqual(clock.gap.report(2000), {'begin': 1700, 'end': 2000, 'start': 30, 'validation': 100})

    def test_a_pass_that_was_left_in_the_middle_of_a_step_ends_before_it_and_one_on_a_device_when_that_is_done(self):
        for stepped, end, steps in ((False, 1000, 1), (True, 1950, 2)):
            clock = StepClock()
            clock.open(0)
            clock.served(100, 100, 0, 4)
            clock.stepped_at(700)
            clock.close(1000)
            clock.open(1000)
            clock.served(1100, 100, 0, 4)
            if stepped:
                clock.stepped_at(1700)
            window = clock.leave(250 if stepped else 0, ranks=False)
            self.assertEqual((window['end'], len(window['wait']), clock.gap.begin, window['compute'][-1]), (end, steps, end, 850 if stepped else 600))

    def test_a_step_that_did_not_happen_begins_no_window(self):
        clock = StepClock()
        for opened, closed in ((1000, 1300), (2000, 2300)):
            clock.open(opened - 500)
            self.assertEqual(clock.cancel(), opened - 500)
            clock.open(opened)
            clock.served(opened + 100, 100, 0, 4)
            clock.close(closed)
            window = clock.take(closed, ranks=False)
            self.assertEqual((window['begin'], window['end']), (opened, closed))


if __name__ == '__main__':
    unittest.main()
