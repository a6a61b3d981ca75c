"""A passive run's steps: each part of each step is what the script has spent on it, whatever windows the steps come in."""
import itertools
import random
import types
import unittest

from fake_script import Loader, Training, clocks, divided, expected, frameworks, iterations, run, taken, train


class Scripts(unittest.TestCase):
    """The first step is not clocked: it is what shows that the loader trains."""

    def check(self, script, steps, world=1, intervals=(10**9, 40000, 0), unseen=(0,)):
        """`unseen`: the numbers of steps that are not told."""
        for interval in intervals:
            training = run(script, world=world, interval=interval)
            self.assertGreater(training.common_steps, 0)
            parts = divided if world > 1 else divided[:-2]
            known = [expected(events)[:len(parts)] for number, events in enumerate(training.events) if number not in unseen]
            self.assertEqual(len(known), steps)
            self.assertEqual(training.steps(parts), known)

    def test_steps_of_one_batch_and_one_optimizer(self):
        self.check(lambda training: train(training, Loader(training, [4] * 50), epochs=3), 149)

    def test_steps_that_end_where_the_next_batch_is_asked_for(self):
        def script(training):
            training.optimizer = False
            train(training, Loader(training, [4] * 50, marked=True), epochs=3, optimizers=lambda number: 0)

        self.check(script, 149)
        self.assertEqual(set(run(script).steps(['compute', 'outside', 'steps'])), {(5000, 0, 1)})

    def test_an_optimizer_that_is_made_within_a_pass_takes_over(self):
        def script(training):
            def makes(number):
                if number == 30:
                    training.optimizer = True
                    training.engine.optimizer_made()

            training.optimizer = False
            train(training, Loader(training, [4] * 60, marked=True), optimizers=lambda number: int(number >= 30), before=makes)

        self.check(script, 59)
        self.assertEqual(set(run(script).steps(['compute', 'outside', 'steps'])[30:]), {(5000, 300, 1)})

    def test_several_optimizer_steps_a_batch_and_none(self):
        for optimizers, unseen in ((lambda number: 2, 1), (lambda number: number % 4 == 3, 4), (lambda number: number % 3, 2)):
            self.check(lambda training, optimizers=optimizers: train(training, Loader(training, [4] * 60), 2, optimizers), 120 - unseen, unseen=range(unseen))

    def test_a_last_batch_that_is_smaller_counts_the_samples_that_it_has(self):
        self.check(lambda training: train(training, Loader(training, [4] * 30 + [2]), epochs=2), 61)
        training = run(lambda training: train(training, Loader(training, [4] * 30 + [2]), epochs=2))
        self.assertEqual(sum(samples for samples, in training.steps(['samples'])), 2 * 122 - 4)

    def test_a_last_batch_that_is_dropped_adds_nothing_to_the_one_before(self):
        self.check(lambda training: train(training, Loader(training, [4] * 30, samples=123, drop_last=True), epochs=2), 59)

    def test_streams_count_each_batch(self):
        lengths = [4] * 20 + [3] + [4] * 20 + [1]
        for size in (4, None):  # None: the script makes the batches by itself.
            facts = {'style': 'iterable', 'samples': None, 'batches': None, 'batch_size': size}
            self.check(lambda training, facts=facts: train(training, Loader(training, lengths, **facts), epochs=2), 83)
            training = run(lambda training, facts=facts: train(training, Loader(training, lengths, **facts), epochs=2))
            self.assertEqual([samples for samples, in training.steps(['samples'])], (2 * lengths)[1:])

    def test_a_validation_between_two_steps_and_between_two_epochs(self):
        def script(training):
            validation = Loader(training, [4] * 5)
            for _ in range(2):
                train(training, Loader(training, [4] * 40), after=lambda number: training.validates(validation) if number % 10 == 9 else None)
                training.validates(validation)

        self.check(script, 79)

    def test_a_validation_before_a_steps_optimizer(self):
        def script(training):
            validation = Loader(training, [4] * 5)
            train(training, Loader(training, [4] * 40), before=lambda number: training.validates(validation) if number == 20 else None)

        self.check(script, 39)

    def test_a_look_at_the_same_loader_is_no_epoch(self):
        def script(training):
            loader = Loader(training, [4] * 60)
            train(training, loader, 2, after=lambda number: next(iter(loader)) if number in (15, 31) else None)

        self.check(script, 119)

    def test_a_look_in_the_middle_of_a_step_takes_no_epoch_over(self):
        def script(training):
            loader, kept = Loader(training, [4] * 60), []

            def look(number):
                if number == 31:
                    kept.append(iter(loader))
                    next(kept[0])

            train(training, loader, before=look)

        self.check(script, 59)

    def test_a_second_loader_that_joins_is_found_however_many_batches_a_step_takes(self):
        def script(training):
            loader, second = Loader(training, [4] * 200), iter(Loader(training, [4] * 200))
            train(training, loader, optimizers=lambda number: 1 if number < 20 else number % 8 == 7,
                  before=lambda number: next(second) if number >= 20 and number % 8 == 0 else None)
            self.assertEqual(len(training.engine.roles.training), 2)

        self.assertEqual(len(run(script).steps(['wait'])), 199)

    def test_an_epoch_that_is_left_early(self):
        def script(training):
            loader = Loader(training, [4] * 60)
            for number, _ in enumerate(taken(iter(loader))):
                training.computes()
                if number == 30:
                    break
            train(training, loader)

        self.check(script, 90)

    def test_waiting_for_other_ranks(self):
        def script(training):
            def waits(number):
                training.passes(400)
                training.waits_for_ranks(300 + number)

            loader = Loader(training, [4] * 40)
            train(training, loader, before=waits)
            train(training, loader, after=lambda number: waits(number) if number % 2 else None)
            train(training, loader, optimizers=lambda number: number % 2, before=waits, after=waits)

        self.check(script, 119, world=2)

    def test_an_error_of_the_loader_costs_no_step(self):
        def caught(training):
            loader = Loader(training, [4] * 40, fails=20)
            with self.assertRaises(ValueError):
                train(training, loader)
            training.passes(9000)
            train(training, Loader(training, [4] * 30))

        def skipped(training):
            batches = taken(iter(Loader(training, [4] * 40, fails=20)))
            for _ in range(40):
                try:
                    next(batches)
                except ValueError:
                    continue
                training.computes()

        def let_through(training):
            with self.assertRaises(ValueError):
                train(training, Loader(training, [4] * 40, fails=20))

        self.check(caught, 48, unseen=(0, 20))
        self.check(skipped, 37, unseen=(0, 38))  # The process ends in the last one.
        self.check(let_through, 19)

    def test_scripts_at_random(self):
        for seed in range(40):
            def script(training, seed=seed):
                draw = random.Random(seed)
                validation = Loader(training, [4] * 3)

                def happens(loader):
                    what = draw.randrange(15)
                    if what == 0:
                        training.validates(validation)
                    elif what == 1:
                        next(iter(loader))
                    elif what == 2:
                        training.waits_for_ranks(draw.randrange(4000))
                    training.passes(draw.randrange(2000))

                loader = Loader(training, [4] * draw.randrange(10, 60) + [draw.randrange(1, 5)])
                train(training, loader)
                for _ in range(3):
                    often = draw.choice([0, 0, 0.1])
                    length = draw.choice([10**9, 10**9, 25])
                    for _ in itertools.islice(taken(iter(loader)), length):
                        before = draw.choice([True, False])
                        if before:
                            happens(loader)
                        training.computes(draw.choice([0, 2]) if draw.random() < often else 1)
                        if not before:
                            happens(loader)
                if length < 10**9:
                    next(taken(iter(loader)))  # It goes on as the process ends.

            training = run(script, world=2, interval=30000)
            known = [expected(events) for events in training.events[1:len(training.steps()) + 1]]
            self.assertEqual(training.steps(), known, seed)
            self.assertGreater(training.common_steps, 0)
            self.assertLess(len(training.events) - len(known), 4)


class Seconds(unittest.TestCase):
    def test_all_time_of_a_window_is_in_its_steps_whatever_reading_the_clock_takes(self):
        for interval in (10**9, 40000):
            training = Training(interval=interval, tick=7)
            loader, validation = Loader(training, [4] * 50), Loader(training, [4] * 3)
            train(training, loader, 2, optimizers=lambda number: 1 + (number == 30), after=lambda number: training.validates(validation) if number == 20 else None)
            training.finish()
            self.assertEqual(len(training.steps(['wait'])), 99)
            for window in training.windows:
                self.assertEqual(sum(sum(window[part]) for part in ('wait', 'compute', 'outside')), window['end'] - window['begin'])

    def test_a_common_step_reads_the_clock_three_times(self):
        training = Training()
        batches = iter(Loader(training, [4] * 50))
        for _ in range(20):
            next(batches)
            training.computes()
        self.assertTrue(training.is_common)
        training.tick, before = 1, training.at
        for _ in range(10):
            next(batches)
            training.engine.optimizer_stepped()
        self.assertEqual(training.at - before - sum(range(1020, 1030)), 30)


class Changes(unittest.TestCase):
    """When steps are common ones, and when something else happens."""

    def setUp(self):
        self.training = Training()
        self.loader = Loader(self.training, [4] * 50)
        self.batches = iter(self.loader)

    def steps(self, count):
        for _ in range(count):
            next(self.batches)
            self.training.computes()

    def test_steps_are_common_as_soon_as_it_is_known_who_trains(self):
        self.steps(2)
        self.assertFalse(self.training.is_common)
        self.steps(1)
        self.assertTrue(self.training.is_common)

    def test_another_loader_or_a_further_pass_is_nothing_common_and_a_step_after_it_is(self):
        for leave in (lambda: self.training.validates(Loader(self.training, [4])), lambda: iter(self.loader)):
            self.steps(10)
            self.assertTrue(self.training.is_common)
            leave()
            self.assertFalse(self.training.is_common)

    def test_no_step_without_gradients_and_none_of_another_thread_is_common(self):
        self.steps(10)
        frameworks.current.gradients_enabled = lambda: False
        next(self.batches)
        self.assertFalse(self.training.is_common)
        frameworks.current.gradients_enabled = lambda: True
        self.steps(10)
        common = self.training.engine._common
        common.thread += 1
        next(self.batches)
        self.assertIsNot(self.training.engine._common, common)

    def test_an_error_of_the_hook_ends_it_and_not_the_script(self):
        self.steps(10)
        del self.training.engine.clock.marks
        next(self.batches)
        self.assertTrue(self.training.engine.off)
        self.assertFalse(self.training.is_common)
        self.assertEqual([message['code'] for message in self.training.messages if message['t'] == 'note'], ['hook-failed'])


class Samples(unittest.TestCase):
    """Of the batches to come, where the sampler says them."""

    def sizes(self, count, handed=0, **facts):
        known = {'style': 'map', 'batch_size': 4, 'samples': 10, 'batches': 3, 'drop_last': False}
        iteration = types.SimpleNamespace(record=iterations.Record(dict(known, **facts), None, Loader), thread=1, handed=handed, samples_of_last=len)
        common = clocks.Common(iteration, False, False, None, None)
        return common.sizes and list(itertools.islice(common.sizes, count))

    def test_the_last_batch_has_what_is_left_of_the_samples(self):
        for facts, samples in (({}, [4, 4, 2]), ({'samples': 12}, [4, 4, 4]), ({'drop_last': True, 'samples': 14}, [4, 4, 4])):
            for handed in range(3):
                self.assertEqual(self.sizes(3 - handed, handed, **facts), samples[handed:])

    def test_batches_that_no_sampler_counts_are_looked_at(self):
        for facts in ({'style': 'iterable', 'samples': None, 'batches': None}, {'batches': 5}, {'batch_size': None}):
            self.assertIsNone(self.sizes(1, **facts))

    def test_batches_that_the_sampler_counts_are_not_looked_at(self):
        class Unseen:
            def __getattr__(self, name):
                raise AssertionError(name)

        training = Training()
        batches = iter(Loader(training, [4] * 50))
        for _ in range(5):
            next(batches)
            training.computes()
        batches.fetch = lambda: [Unseen()]
        next(batches)
        self.assertFalse(training.engine.off)


if __name__ == '__main__':
    unittest.main()
