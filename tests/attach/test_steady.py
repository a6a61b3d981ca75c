"""The short way of a passive run's steps: no step and no part of one may differ from the long way."""
import itertools
import random
import types
import unittest

from fake_script import Batch, Loader, Training, clocks, divided, frameworks, iterations, passives, run, steadies, train


class Ways(unittest.TestCase):
    """The same script on both ways. The first step is not clocked: it is what shows that the loader trains."""

    def compare(self, script, steps, world=1, intervals=(10**9, 40000, 0)):
        parts = divided if world == 1 else (*divided, 'ranks', 'outside_ranks')
        for interval in intervals:
            short, long = (run(script, short, world, interval) for short in (True, False))
            self.assertGreater(short.most_marks, 0)
            self.assertEqual(long.most_marks, 0)
            self.assertEqual(len(long.steps(parts)), steps)
            self.assertEqual(short.steps(parts), long.steps(parts))
            self.assertEqual(short.messages, long.messages)

    def test_steps_of_one_batch_and_one_optimizer(self):
        self.compare(lambda training: train(training, Loader(training, [4] * 50), epochs=3), 149)

    def test_steps_that_end_where_the_next_batch_is_asked_for(self):
        def script(training):
            training.optimizer = False
            train(training, Loader(training, [4] * 50, marked=True), epochs=3, optimizers=lambda number: 0)

        self.compare(script, 149)
        steps = run(script).steps()
        self.assertEqual({(compute, outside, count) for _, compute, outside, _, _, _, count in steps[:49]}, {(5000, 0, 1)})

    def test_an_optimizer_that_is_made_within_a_pass_takes_over(self):
        def script(training):
            def makes(number):
                if number == 30:
                    training.optimizer = True
                    training.engine.optimizer_made()

            training.optimizer = False
            train(training, Loader(training, [4] * 60, marked=True), optimizers=lambda number: int(number >= 30), before=makes)

        self.compare(script, 59)
        self.assertEqual({(compute, outside, count) for _, compute, outside, _, _, _, count in run(script).steps()[30:-1]}, {(5000, 300, 1)})

    def test_several_optimizer_steps_a_batch_and_none(self):
        for optimizers, unseen in ((lambda number: 2, 1), (lambda number: number % 4 == 3, 4), (lambda number: number % 3, 2)):
            self.compare(lambda training, optimizers=optimizers: train(training, Loader(training, [4] * 60), 2, optimizers), 120 - unseen)

    def test_a_last_batch_that_is_smaller_counts_the_samples_that_it_has(self):
        self.compare(lambda training: train(training, Loader(training, [4] * 30 + [2]), epochs=2), 61)
        training = run(lambda training: train(training, Loader(training, [4] * 30 + [2]), epochs=2))
        self.assertEqual(sum(samples for samples, in training.steps(['samples'])), 2 * 122 - 4)

    def test_a_last_batch_that_is_dropped_adds_nothing_to_the_one_before(self):
        self.compare(lambda training: train(training, Loader(training, [4] * 30, samples=123, drop_last=True), epochs=2), 59)

    def test_streams_count_each_batch(self):
        lengths = [4] * 20 + [3] + [4] * 20 + [1]
        for size in (4, None):  # None: the script makes the batches by itself.
            facts = {'style': 'iterable', 'samples': None, 'batches': None, 'batch_size': size}
            self.compare(lambda training, facts=facts: train(training, Loader(training, lengths, **facts), epochs=2), 83)
            training = run(lambda training, facts=facts: train(training, Loader(training, lengths, **facts), epochs=2))
            self.assertEqual([samples for samples, in training.steps(['samples'])], (2 * lengths)[1:])

    def test_a_validation_between_two_steps_and_between_two_epochs(self):
        def script(training):
            validation = Loader(training, [4] * 5)
            for _ in range(2):
                train(training, Loader(training, [4] * 40), after=lambda number: training.validates(validation) if number % 10 == 9 else None)
                training.validates(validation)

        self.compare(script, 79)

    def test_a_validation_before_a_steps_optimizer(self):
        def script(training):
            validation = Loader(training, [4] * 5)
            train(training, Loader(training, [4] * 40), before=lambda number: training.validates(validation) if number == 20 else None)

        self.compare(script, 39)

    def test_a_look_at_the_same_loader_is_no_epoch(self):
        def script(training):
            loader = Loader(training, [4] * 60)
            train(training, loader, 2, after=lambda number: next(iter(loader)) if number in (15, 31) else None)

        self.compare(script, 119)

    def test_a_look_in_the_middle_of_a_step_takes_no_epoch_over(self):
        def script(training):
            loader, kept = Loader(training, [4] * 60), []

            def look(number):
                if number == 31:
                    kept.append(iter(loader))
                    next(kept[0])

            train(training, loader, before=look)

        self.compare(script, 59)

    def test_a_second_loader_that_joins_is_found_however_many_batches_a_step_takes(self):
        def script(training):
            loader, second = Loader(training, [4] * 200), iter(Loader(training, [4] * 200))
            train(training, loader, optimizers=lambda number: 1 if number < 20 else number % 8 == 7,
                  before=lambda number: next(second) if number >= 20 and number % 8 == 0 else None)
            self.assertEqual(len(training.engine.roles.training), 2)

        self.compare(script, 199)

    def test_an_epoch_that_is_left_early(self):
        def script(training):
            loader = Loader(training, [4] * 60)
            for number, _ in enumerate(loader):
                training.computes()
                if number == 30:
                    break
            train(training, loader)

        self.compare(script, 90)

    def test_waiting_for_other_ranks(self):
        def script(training):
            def waits(number):
                training.passes(400)
                training.engine.clock.waited_for_ranks(300 + number)

            loader = Loader(training, [4] * 40)
            train(training, loader, before=waits)
            train(training, loader, after=lambda number: waits(number) if number % 2 else None)
            train(training, loader, optimizers=lambda number: number % 2, before=waits, after=waits)

        self.compare(script, 119, world=2)

    def test_an_error_of_the_loader_costs_no_step(self):
        def caught(training):
            loader = Loader(training, [4] * 40, fails=20)
            with self.assertRaises(ValueError):
                train(training, loader)
            training.passes(9000)
            train(training, Loader(training, [4] * 30))

        def skipped(training):
            batches = iter(Loader(training, [4] * 40, fails=20))
            for _ in range(40):
                try:
                    next(batches)
                except ValueError:
                    continue
                training.computes()

        def let_through(training):
            with self.assertRaises(ValueError):
                train(training, Loader(training, [4] * 40, fails=20))

        self.compare(caught, 48)
        self.compare(skipped, 37)  # The process ends in the last one.
        self.compare(let_through, 19)

    def test_scripts_at_random(self):
        marks = 0
        for seed in range(40):
            def script(training, seed=seed):
                draw = random.Random(seed)
                validation = Loader(training, [4] * 3)

                def happens(loader):
                    what = draw.randrange(30)
                    if what == 0:
                        training.validates(validation)
                    elif what == 1:
                        next(iter(loader))
                    elif what == 2:
                        training.engine.clock.waited_for_ranks(draw.randrange(4000))
                    training.passes(draw.randrange(2000))

                for _ in range(4):
                    loader = Loader(training, [4] * draw.randrange(10, 60) + [draw.randrange(1, 5)])
                    often = draw.choice([0, 0, 0.1])
                    length = draw.choice([10**9, 10**9, 25])
                    for _ in itertools.islice(loader, length):
                        happens(loader)
                        training.computes(draw.choice([0, 2]) if draw.random() < often else 1)
                        happens(loader)

            short, long = (run(script, short, world=2, interval=30000) for short in (True, False))
            marks += short.most_marks
            self.assertEqual(short.messages, long.messages, seed)
        self.assertGreater(marks, 0)


class Seconds(unittest.TestCase):
    def test_all_time_of_a_window_is_in_its_steps_whatever_reading_the_clock_takes(self):
        for interval in (10**9, 40000):
            training = Training(interval=interval, tick=7)
            loader, validation = Loader(training, [4] * 50), Loader(training, [4] * 3)
            train(training, loader, 2, optimizers=lambda number: 1 + (number == 30), after=lambda number: training.validates(validation) if number == 20 else None)
            training.finish()
            self.assertGreater(training.most_marks, 0)
            self.assertEqual(len(training.steps()), 99)
            for window in training.windows:
                self.assertEqual(sum(sum(window[part]) for part in ('wait', 'compute', 'outside', 'hook')), window['end'] - window['begin'])

    def test_a_step_of_the_short_way_reads_the_clock_three_times(self):
        training = Training()
        batches = iter(Loader(training, [4] * 50))
        for _ in range(20):
            next(batches)
            training.computes()
        self.assertTrue(training.on_short_way)
        training.tick, before = 1, training.at
        for _ in range(10):
            next(batches)
            training.engine.optimizer_stepped()
        self.assertEqual(training.at - before - sum(range(1020, 1030)), 30)


class Changes(unittest.TestCase):
    """When the short way is taken, and when it is left."""

    def setUp(self):
        self.training = Training()
        self.loader = Loader(self.training, [4] * 50)
        self.batches = iter(self.loader)

    def steps(self, count):
        for _ in range(count):
            next(self.batches)
            self.training.computes()

    def test_it_is_taken_after_a_few_plain_steps(self):
        self.steps(5)
        self.assertFalse(self.training.on_short_way)
        self.steps(1)
        self.assertTrue(self.training.on_short_way)

    def test_another_loader_or_a_further_pass_leaves_it_and_plain_steps_take_it_again(self):
        for leave in (lambda: self.training.validates(Loader(self.training, [4])), lambda: iter(self.loader)):
            self.steps(10)
            self.assertTrue(self.training.on_short_way)
            leave()
            self.assertFalse(self.training.on_short_way)
            self.assertIsNone(self.training.engine.clock.shortcut)

    def test_no_step_without_gradients_and_none_of_another_thread_takes_it(self):
        self.steps(10)
        frameworks.current.gradients_enabled = lambda: False
        next(self.batches)
        self.assertFalse(self.training.on_short_way)
        frameworks.current.gradients_enabled = lambda: True
        self.steps(10)
        self.assertTrue(self.training.on_short_way)
        self.training.engine._steady.thread += 1
        next(self.batches)
        self.assertFalse(self.training.on_short_way)

    def test_an_error_of_the_hook_ends_it_and_not_the_script(self):
        self.steps(10)
        del self.training.engine._steady._size, self.training.engine._steady.marks
        next(self.batches)
        self.assertTrue(self.training.engine.off)
        self.assertFalse(self.training.on_short_way)
        self.assertEqual([message['code'] for message in self.training.messages if message['t'] == 'note'], ['hook-failed'])


class Marks(unittest.TestCase):
    """Steady by itself."""

    def steady(self, **facts):
        known = {'style': 'map', 'batch_size': 4, 'samples': 10, 'batches': 3, 'drop_last': False}
        iteration = types.SimpleNamespace(record=iterations.Record(dict(known, **facts), None, Loader), thread=1, handed=0)
        iteration.samples_of_last = lambda batch: iterations.Iteration.samples_of_last(iteration, batch)
        iteration.list_taken = lambda: None
        return steadies.Steady(iteration, 100, False, None)

    def test_three_marks_a_step_are_its_parts(self):
        steady = self.steady()
        for asked, served, stepped in ((100, 130, 170), (180, 190, 250)):
            steady.step(asked, served, None)
            steady.stepped(stepped)
        window = steady.take(300, ranks=False)
        self.assertEqual((window['begin'], window['end'], window['skipped']), (100, 300, 0))
        self.assertEqual([window[part] for part in ('wait', 'compute', 'outside', 'steps', 'samples')], [[30, 10], [40, 60], [10, 50], [1, 1], [4, 4]])
        self.assertNotIn('ranks', window)
        self.assertIsNone(steady.take(300, ranks=False))

    def test_floats_are_waits_for_ranks_before_an_optimizer_and_after_it(self):
        for ranks in (True, False):
            steady = self.steady()
            steady.step(100, 130, None)
            steady.waited_for_ranks(5)
            steady.waited_for_ranks(6)
            steady.stepped(170)
            steady.waited_for_ranks(7)
            steady.step(180, 190, None)
            steady.waited_for_ranks(1000)  # More than the step has computed.
            steady.stepped(250)
            window = steady.take(300, ranks)
            self.assertEqual([window[part] for part in ('wait', 'compute', 'outside', 'steps')], [[30, 10], [40, 60], [10, 50], [1, 1]])
            self.assertEqual([window.get('ranks'), window.get('outside_ranks')], [[11, 60], [7, 0]] if ranks else [None, None])
            self.assertTrue(all(isinstance(value, int) for part in ('ranks', 'outside_ranks') for value in window.get(part, ())))

    def test_a_wait_of_no_time_is_no_mark_of_another_kind(self):
        steady = self.steady()
        steady.step(100, 130, None)
        steady.waited_for_ranks(0)
        steady.step(180, 190, None)
        steady.stepped(250)
        window = steady.take(300, ranks=True)
        self.assertEqual([window[part] for part in ('wait', 'compute', 'steps', 'ranks')], [[30, 10], [50, 60], [0, 1], [0, 0]])

    def test_steps_without_an_optimizer_compute_until_the_next_request(self):
        steady = self.steady()
        steady.step(100, 130, None)
        steady.step(180, 190, None)
        steady.stepped(250)
        steady.stepped(270)
        window = steady.take(300, ranks=False)
        self.assertEqual([window[part] for part in ('wait', 'compute', 'outside', 'steps')], [[30, 10], [50, 80], [0, 30], [0, 2]])

    def test_the_last_batch_has_what_is_left_of_the_samples(self):
        for facts, samples in (({}, [4, 4, 2]), ({'samples': 12}, [4, 4, 4]), ({'drop_last': True, 'samples': 14}, [4, 4, 4])):
            steady = self.steady(**facts)
            for at in (100, 200, 300):
                steady.step(at, at + 10, None)
                steady.stepped(at + 20)
            steady.iteration.handed = 3
            self.assertEqual(steady.take(400, False)['samples'], samples)

    def test_batches_that_the_sampler_counts_are_not_looked_at(self):
        class Unseen:
            def __getattr__(self, name):
                raise AssertionError(name)

        steady = self.steady()
        steady.step(100, 110, Unseen())
        self.assertEqual(steady.take(300, False)['samples'], [4])

    def test_all_steps_but_the_one_that_goes_on(self):
        steady = self.steady()
        self.assertIsNone(steady.take_closed(False))
        self.assertFalse(steady.resume(clocks.StepClock()))
        for at in (100, 200, 300):
            steady.step(at, at + 10, None)
            if at < 300:
                steady.stepped(at + 20)
        window = steady.take_closed(False)
        self.assertEqual((window['begin'], window['end'], window['samples']), (100, 300, [4, 4]))
        clock = clocks.StepClock()
        self.assertTrue(steady.resume(clock))
        clock.stepped_at(350)
        clock.close(400)
        rest = clock.take(400, ranks=False)
        self.assertEqual([rest[part] for part in ('begin', 'wait', 'compute', 'outside', 'samples', 'steps')], [300, [10], [40], [50], [2], [1]])

    def test_a_step_that_goes_on_has_its_optimizers_and_its_waits(self):
        steady = self.steady(batch_size=None)
        steady.step(100, 130, [Batch(3)])
        steady.stepped(150)
        steady.step(200, 230, [Batch(5)])
        steady.waited_for_ranks(6)
        steady.stepped(250)
        steady.waited_for_ranks(7)
        self.assertEqual(steady.take_closed(True)['samples'], [3])
        clock = clocks.StepClock()
        self.assertFalse(steady.resume(clock))
        clock.close(300)
        rest = clock.take(300, ranks=True)
        self.assertEqual([rest[part] for part in ('wait', 'compute', 'outside', 'samples', 'steps', 'ranks', 'outside_ranks')], [[30], [20], [50], [5], [1], [6], [7]])

    def test_batches_that_no_sampler_counts_are_looked_at(self):
        for facts in ({'style': 'iterable', 'samples': None, 'batches': None}, {'batches': 5}, {'batch_size': None}):
            steady = self.steady(**facts)
            for at, samples in ((100, 4), (200, 3)):
                steady.step(at, at + 10, [Batch(samples)])
                steady.stepped(at + 20)
            self.assertEqual(steady.take(300, False)['samples'], [4, 3])


if __name__ == '__main__':
    unittest.main()
