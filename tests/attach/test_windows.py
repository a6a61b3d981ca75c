"""Windows of training steps: in the script's own order, with all of their time divided."""
import unittest

from fake_launcher import Launcher, Plan, drain, end, here, run, switch, unexplained
from script_rig import ScriptTest

train = here / 'trainings' / 'train.py'


def epochs(output):
    """The first sample of each batch, for each epoch of the script."""
    return [[int(word) for word in line.split()[5:]] for line in output.splitlines() if line.startswith('epoch')]


def result(output):
    return output[output.index('done'):]


def every_mode(*first):
    return Plan(*first, run(5), drain(2, 8, which='warm'), switch('cached'), run(30), switch('busy'), run(13), switch('synthetic'), run(25), switch('full'), then=run(1000))


class Windows(unittest.TestCase):
    def check_sums(self, connection):
        self.assertTrue(connection.windows())
        for window in connection.windows():
            self.assertEqual(unexplained(window), 0)
            self.assertTrue(all(value >= 0 for part in ('wait', 'compute', 'outside', 'validation') for value in window[part]))

    def test_full_windows_have_the_steps_that_were_asked_for_and_divide_all_of_their_time(self):
        launcher = Launcher(Plan(run(5), run(7), then=run(1000)))
        output = launcher.run(train, '--samples', 96, '--epochs', 2, '--step', 0.01)
        self.assertEqual(epochs(output), [list(range(0, 96, 4))] * 2)
        connection = launcher.first
        self.assertEqual([len(window['wait']) for window in connection.windows()], [5, 7, 11, 24])
        self.assertEqual(connection.windows()[0]['samples'], [4] * 5)
        self.assertEqual(connection.windows()[0]['steps'], [1] * 5)
        self.check_sums(connection)
        start, later = connection.at('start')
        self.assertEqual((start['step'], later['step']), (1, 0))
        self.assertIn('between', later)
        self.assertEqual(len(connection.at('epoch_end')), 2)

    def test_training_is_the_same_with_the_hook_as_without(self):
        options = ('--samples', 80, '--epochs', 2, '--workers', 2, '--shuffle')
        plain = Launcher().run(train, *options)
        self.assertEqual(Launcher(Plan(then=run(7))).run(train, *options), plain)
        self.assertEqual(Launcher(mode='passive').run(train, *options), plain)

    def test_preparation_is_waited_for_and_a_step_is_computed(self):
        launcher = Launcher(Plan(run(10), then=end))
        launcher.run(train, '--samples', 200, '--prep', 0.005, '--step', 0.01, '--outside', 0.003)
        window, = launcher.first.windows()
        self.assertEqual([set(window[part]) for part in ('wait', 'compute', 'outside')], [{20_000_000}, {10_000_000}, {3_000_000}])

    def test_the_end_ends_the_process_at_once(self):
        launcher = Launcher(Plan(run(5), then=end))
        output = launcher.run(train, '--samples', 4000, '--workers', 2)
        self.assertNotIn('done', output)
        self.assertEqual(launcher.first.messages[-1]['t'], 'bye')

    def test_validation_and_what_lies_between_epochs_are_timed_apart(self):
        launcher = Launcher(Plan(then=run(1000)))
        launcher.run(train, '--samples', 80, '--epochs', 2, '--does', 'validate')
        self.assertEqual([len(window['wait']) for window in launcher.first.windows()], [19, 20])
        between = launcher.first.at('start')[1]['between']
        self.assertEqual((between['validation'], between['end'] - between['begin']), (20_000_000, 20_000_000))

    def test_accumulated_gradients_count_as_steps_without_an_optimizer(self):
        launcher = Launcher(Plan(run(8), then=end))
        launcher.run(train, '--samples', 200, '--outside', 0.001, '--does', 'accumulate')
        window, = launcher.first.windows()
        self.assertEqual(window['steps'], [0, 0, 0, 1] * 2)
        self.assertEqual([outside == 0 for outside in window['outside']], [True, True, True, False] * 2)

    def test_an_epoch_that_the_script_leaves_early_ends_its_window(self):
        launcher = Launcher(Plan(then=run(1000)))
        launcher.run(train, '--samples', 200, '--epochs', 3, '--workers', 2, '--does', 'break,validate')
        self.assertEqual([len(window['wait']) for window in launcher.first.windows()], [9, 10, 9])
        self.assertEqual([message['why'] for message in launcher.first.of('at')], ['start', 'epoch_end', 'start', 'epoch_end', 'start'])
        self.check_sums(launcher.first)
        # What follows the last optimizer step lies between epochs: validation, the end of the workers and the start of new ones.
        self.assertEqual([window['outside'][-1] for window in launcher.first.windows()[:2]], [0, 0])
        for message, window in zip(launcher.first.at('start')[1:], launcher.first.windows()):
            between = message['between']
            self.assertGreaterEqual(between['begin'], window['end'])
            self.assertEqual((between['validation'], between['end'] - between['begin']), (50_000_000, 50_000_000))

    def test_a_loader_made_anew_for_each_pass_gives_windows_of_passes(self):
        launcher = Launcher(Plan(run(20), switch('synthetic'), run(40), then=end))
        launcher.run(train, '--samples', 200, '--epochs', 20, '--workers', 2, '--does', 'break,anew')
        self.assertEqual([len(window['wait']) for window in launcher.first.windows('full')[:2]], [9, 10])
        self.check_sums(launcher.first)
        self.assertEqual([len(window['wait']) for window in launcher.first.windows('synthetic')][:3], [9, 10, 10])

    def test_two_loaders_in_step_are_one_training(self):
        launcher = Launcher(Plan(run(5), switch('synthetic'), run(10), switch('full'), then=run(1000)))
        output = launcher.run(train, '--samples', 120, '--does', 'zip', '--epochs', 2)
        self.assertEqual([len(epoch) for epoch in epochs(output)], [30, 30])
        self.assertEqual(len(launcher.first.of('loader')), 1)
        self.check_sums(launcher.first)
        self.assertEqual(launcher.first.notes(), {})


class Synthetic(unittest.TestCase):
    def test_a_known_step_is_found_whatever_the_preparation_takes(self):
        launcher = Launcher(Plan(run(20), switch('synthetic'), run(5), run(40), then=end))
        launcher.run(train, '--samples', 400, '--prep', 0.005, '--step', 0.02, '--workers', 2)
        window = launcher.first.windows('synthetic')[1]
        self.assertEqual(sum(window['wait']), 0)
        self.assertEqual((set(window['compute']), set(window['outside'])), ({20_000_000}, {0}))
        switched, = launcher.first.at('switched')
        self.assertEqual(switched['kept'], 16)

    def test_an_epoch_keeps_its_length_through_every_mode(self):
        for options in (('--workers', 2), ('--workers', 0), ('--workers', 2, '--persistent'), ('--workers', 1, '--prefetch', 8, '--shuffle'),
                        ('--workers', 2, '--style', 'sized'), ('--workers', 0, '--style', 'sized'), ('--workers', 2, '--style', 'batched')):
            launcher = Launcher(every_mode())
            output = launcher.run(train, '--samples', 160, '--epochs', 3, '--does', 'onecycle', *options)
            self.assertEqual([len(epoch) for epoch in epochs(output)], [40] * 3, options)
            self.assertEqual(set(launcher.first.notes()), set(), options)

    def test_a_stream_without_length_keeps_its_length_from_the_second_epoch_on(self):
        launcher = Launcher(every_mode(run(60), run(5)))
        output = launcher.run(train, '--samples', 160, '--epochs', 4, '--workers', 2, '--style', 'iterable')
        self.assertEqual([len(epoch) for epoch in epochs(output)], [40] * 4)
        self.assertEqual(set(launcher.first.notes()), set())
        launcher = Launcher(every_mode())
        output = launcher.run(train, '--samples', 160, '--epochs', 2, '--workers', 2, '--style', 'iterable')
        self.assertEqual(set(launcher.first.notes()), {'length-unknown'})

    def test_short_last_batches_of_a_stream_count_as_many_samples_as_they_have(self):
        launcher = Launcher(Plan(then=run(1000)))
        launcher.run(train, '--samples', 42, '--epochs', 2, '--workers', 2, '--style', 'iterable')
        self.assertEqual(sum(sum(window['samples']) for window in launcher.first.windows('full')), 2 * 42 - 4)

    def test_an_epoch_shorter_than_the_replayed_set_goes_on_in_the_next(self):
        launcher = Launcher(Plan(run(2), switch('synthetic'), run(20), then=end))
        launcher.run(train, '--samples', 24, '--epochs', 50, '--workers', 2)
        self.assertEqual(sum(len(window['wait']) for window in launcher.first.windows('synthetic')), 20)

    def test_what_a_script_does_to_a_batch_is_not_seen_again(self):
        for container, does in (('tuple', 'mixup'), ('dict', 'pop'), ('dict', 'pop,mixup'), ('dataclass', 'mixup'), ('named', 'mixup'), ('padded', 'mixup')):
            launcher = Launcher(Plan(run(3), switch('synthetic'), run(50), switch('full'), then=run(1000)))
            output = launcher.run(train, '--samples', 280, '--container', container, '--does', does)
            self.assertEqual([len(epoch) for epoch in epochs(output)], [70], container)
            self.assertEqual(launcher.first.notes(), {}, container)
            self.assertEqual(set(launcher.first.windows('synthetic')[0]['compute']), {2_000_000}, container)

    def test_an_error_in_a_worker_reaches_the_script_as_it_would(self):
        launcher = Launcher(Plan(run(2), switch('synthetic'), run(4), switch('full'), then=run(1000)))
        output = launcher.run(train, '--samples', 80, '--workers', 2, '--does', 'raise', '--shuffle', expect=1)
        self.assertIn('bad sample 20', output)
        self.assertIn('bad sample 20', launcher.first.of('bye')[0]['error'])


def spent(connection, what):
    """Sums over all checkpoints, by line."""
    sums = {}
    for message in connection.of('at'):
        for place in message.get('spent', ()):
            if place['what'] == what:
                found = sums.setdefault(place['line'], {'count': 0, 'time': 0, 'waited': 0, 'workers': place['workers']})
                for part in ('count', 'time', 'waited'):
                    found[part] += place[part]
    return sums


class Spent(ScriptTest):
    def test_checkpoints_are_timed_by_the_line_that_writes_them_once_each(self):
        _, connection = self.launch('''
class Slow:
    def __reduce__(self):
        time.sleep(0.02)
        return list, ()

for epoch in range(2):
    for number, (x,) in enumerate(DataLoader(data(), 4)):
        step(x)
        if number % 10 == 9:
            torch.save({'model': model.state_dict(), 'slow': Slow()}, os.devnull)
''', run(1000))
        (_, sums), = spent(connection, 'save').items()
        self.assertEqual(sums['count'], 8)
        self.assertEqual(sums['time'], 8 * 20_000_000)

    def test_checkpoints_that_another_thread_writes_and_those_into_memory_are_none_that_steps_wait_for(self):
        _, connection = self.launch('''
import concurrent.futures, io, pickle
writer = concurrent.futures.ThreadPoolExecutor(1)
for epoch in range(2):
    for number, (x,) in enumerate(DataLoader(data(), 4)):
        step(x)
        if number % 10 == 9:
            pickle.dumps(model.state_dict())
            torch.save(model.state_dict(), io.BytesIO())
            writer.submit(torch.save, model.state_dict(), os.devnull).result()
''', run(1000))
        self.assertEqual(spent(connection, 'save'), {})

    def test_loaders_that_are_validated_on_together_are_one_loop_each_and_their_time_is_told_once(self):
        _, connection = self.launch('''
train = DataLoader(data(), 4)
first = DataLoader(data(40), 4)
second = DataLoader(data(40), 4)
for number, (x,) in enumerate(train):
    step(x)
    if number % 20 == 19:
        with torch.no_grad():
            for (x,), (y,) in zip(first, second):
                time.sleep(0.01)
            torch.save(model.state_dict(), os.devnull)
''', run(1000))
        loops = spent(connection, 'validation')
        self.assertEqual([loop['count'] for loop in loops.values()], [2, 2])
        self.assertEqual(sum(loop['time'] for loop in loops.values()), 2 * 9 * 10_000_000)

    def test_a_validation_is_timed_by_its_loader_with_what_it_waits_for_batches(self):
        _, connection = self.launch('''
class Slow(Dataset):
    def __len__(self):
        return 16
    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.zeros(4)

train, validation = DataLoader(data(), 4), DataLoader(Slow(), 4)
for epoch in range(2):
    for number, (x,) in enumerate(train):
        step(x)
        if number % 20 == 19:
            with torch.no_grad():
                for x in validation:
                    model(x)
                    time.sleep(0.004)
''', run(1000))
        (_, sums), = spent(connection, 'validation').items()
        self.assertEqual(sums['count'], 4)
        self.assertEqual(sums['workers'], 0)
        self.assertEqual((sums['waited'], sums['time']), (4 * 4 * 8_000_000, 4 * (4 * 8 + 3 * 4) * 1_000_000))  # What follows a loop's last batch is not clocked.

    def test_training_between_two_batches_of_one_validation_pass_is_no_part_of_it(self):
        _, connection = self.launch('''
train, validation = DataLoader(data(), 4), iter(DataLoader(data(40), 4))
for number, (x,) in enumerate(train):
    step(x, 0.01)
    if number % 10 == 9:
        with torch.no_grad():
            model(next(validation)[0])
''', run(1000))
        (_, sums), = spent(connection, 'validation').items()
        self.assertEqual(sums['count'], 4)
        self.assertEqual(sums['time'], 0)

    def test_the_pictures_of_a_batch_are_known_by_their_size(self):
        for sample, picture in (('torch.zeros(3, 6, 8)', [6, 8]), ('torch.zeros(6, 8, 3)', [6, 8]), ('torch.zeros(5, 6, 8)', None), ('torch.zeros(3, 6)', None),
                                ('(torch.zeros(3, 6, 8), torch.zeros(3, 6, 8))', None)):  # two views
            with self.subTest(sample):
                _, connection = self.launch('''
for x in DataLoader([SAMPLE] * 80, 4):
    x = x[0] if isinstance(x, list) else x
    step(x.reshape(len(x), -1)[:, :4])
'''.replace('SAMPLE', sample), run(1000))
                self.assertEqual(connection.of('at')[-1].get('picture'), picture)


class Tokens(ScriptTest):
    def test_rows_of_as_many_whole_numbers_are_counted_and_no_others(self):
        for samples, tokens in (('torch.ones(400, 16, dtype=torch.int64)', 16), ('torch.randn(400, 16)', None), ('torch.ones(400, 16, dtype=torch.uint8)', None),
                                ('torch.ones(400, dtype=torch.int64)', None), ('[torch.ones(16 + index % 8 // 4, dtype=torch.int64) for index in range(400)]', None)):
            with self.subTest(samples):
                _, connection = self.launch(f'''
for epoch in range(3):
    for x in DataLoader({samples}, 4):
        step(x.float().reshape(len(x), -1)[:, :1].repeat(1, 4))
''', run(50))
                self.assertEqual(connection.of('at')[-1].get('tokens'), tokens)


if __name__ == '__main__':
    unittest.main()
