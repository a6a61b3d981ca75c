"""First batches of a loader that the script makes anew for each epoch."""
import unittest

from fake_launcher import run, switch
from script_rig import ScriptTest

slow_start = '''
class Slow(Dataset):
    """Its first batch takes 40 ms."""
    def __init__(self, samples=160):
        self.samples = samples
    def __len__(self):
        return self.samples
    def __getitem__(self, index):
        if index == 0:
            time.sleep(0.04)
        return torch.full((4,), float(index))

def validate(loader):
    with torch.no_grad():
        for x in loader:
            time.sleep(0.001)
'''


def steps_of(windows, part):
    return [value for window in windows for value in (window[part] if isinstance(window[part], list) else [window[part]] * len(window['wait']))]


class FirstBatches(ScriptTest):
    def passive(self, text):
        _, connection = self.launch(text, mode='passive')
        windows = [message['window'] for message in connection.of('passive')]
        for window in windows:
            self.assertEqual(sum(sum(steps_of([window], part)) for part in ('wait', 'compute', 'outside')), window['end'] - window['begin'])
        return windows, [message['between'] for message in connection.of('passive') if 'between' in message]

    def check(self, windows):
        """Every step but the very first, which shows that a loader trains; each epoch's first one with its wait."""
        self.assertEqual(set(steps_of(windows, 'validation')), {0})
        for window in windows:
            self.assertEqual(sum(sum(steps_of([window], part)) for part in ('wait', 'compute', 'outside')), window['end'] - window['begin'])

    def test_those_of_a_loader_made_anew_for_each_epoch_are_steps(self):
        text = slow_start + '''
for epoch in range(3):
    for x in DataLoader(Slow(), 4):
        step(x)
'''
        _, connection = self.launch(text, run(1000))
        self.assertEqual([start['between']['validation'] for start in connection.at('start')[1:]], [0, 0])
        windows, gaps = self.passive(text)
        self.assertEqual([gap['validation'] for gap in gaps], [0, 0])
        for found in (connection.windows(), windows):
            self.check(found)
            waits = steps_of(found, 'wait')
            self.assertEqual((len(waits), waits[39], waits[79]), (3 * 40 - 1, 40_000_000, 40_000_000))

    def test_those_of_a_loader_made_anew_every_few_steps_are_steps(self):
        text = slow_start + '''
for part in range(6):
    for number, x in enumerate(DataLoader(Slow(), 4)):
        step(x)
        if number == 19:
            break
'''
        _, connection = self.launch(text, run(1000))
        self.assertEqual([len(window['wait']) for window in connection.windows()], [19, *[20] * 4, 19])
        self.check(connection.windows())
        self.assertEqual(set(steps_of(connection.windows(), 'steps')), {1})
        self.assertEqual([steps_of(connection.windows(), 'wait')[first] for first in range(19, 118, 20)], [40_000_000] * 5)
        windows, _ = self.passive(text)
        self.assertEqual(len(steps_of(windows, 'wait')), 6 * 20 - 2)
        self.assertEqual(set(steps_of(windows, 'validation')), {0})

    def test_a_validation_before_them_stays_one(self):
        for leave, validated in (('', 100), ('[:5]', 92)):  # What is not a loader's, and what follows the last batch of a loop that is left, is not known.
            text = slow_start + '''
validation = DataLoader(Slow(40), 4)
for epoch in range(3):
    for x in DataLoader(Slow(), 4):
        step(x)
    validate([x for x in validation]LEAVE)
    for x in validation:
        time.sleep(0.002)
        LEFT
'''.replace('LEAVE', leave).replace('LEFT', 'if x[0, 0] > 20: break' if leave else '')
            _, connection = self.launch(text, run(1000))
            for start in connection.at('start')[1:]:
                self.assertEqual(start['between']['validation'], validated * 1_000_000)
                self.assertLessEqual(start['between']['validation'], start['between']['end'] - start['between']['begin'])
            self.check(connection.windows())

    def test_a_loader_of_another_length_that_the_same_line_makes_is_a_validations(self):
        _, connection = self.launch(slow_start + '''
def loader(samples):
    return DataLoader(Slow(samples), 4)
for epoch in range(3):
    for x in loader(160):
        step(x)
    for x in loader(80):
        time.sleep(0.002)
''', run(1000))
        self.assertEqual(len(steps_of(connection.windows(), 'wait')), 3 * 40 - 1)
        self.assertEqual([start['between']['validation'] for start in connection.at('start')[1:]], [80_000_000] * 2)

    def test_those_of_two_loaders_that_are_made_anew_together_are_steps(self):
        _, connection = self.launch(slow_start + '''
for epoch in range(3):
    for x, y in zip(DataLoader(Slow(), 4), DataLoader(Slow(), 4)):
        step(x + y)
''', run(1000))
        self.check(connection.windows())
        self.assertEqual([wait for wait in steps_of(connection.windows(), 'wait') if wait], [80_000_000] * 2)

    def test_a_step_of_several_batches_is_as_many(self):
        _, connection = self.launch(slow_start + '''
for epoch in range(3):
    for number, x in enumerate(DataLoader(Slow(), 4)):
        model(x).mean().backward()
        if number % 4 == 3:
            optimizer.step()
''', run(1000))
        self.check(connection.windows())
        self.assertEqual(steps_of(connection.windows(), 'steps')[-80:], [0, 0, 0, 1] * 20)


class Optimizers(ScriptTest):
    def test_a_validation_between_two_optimizers_is_none(self):
        _, connection = self.launch('''
other = torch.optim.SGD(model.parameters(), lr=1e-6)
validation = DataLoader(data(40), 4)
for x, in DataLoader(data(), 4):
    step(x)
    with torch.no_grad():
        for x, in validation:
            time.sleep(0.001)
    other.step()
''')
        self.check(connection)
        self.assertTrue(all(steps_of(connection.windows('synthetic'), 'validation')))


class Samplers(ScriptTest):
    def test_what_a_sampler_draws_before_an_epoch_is_no_start_of_workers(self):
        output, connection = self.launch('''
class Slow:
    def __iter__(self):
        time.sleep(0.4)
        return iter(range(128))

    def __len__(self):
        return 128

for epoch in range(6):
    for x, in DataLoader(TensorDataset(torch.randn(128, 4)), 4, sampler=Slow(), num_workers=1):
        step(x)
''', run(1000))
        starts = [message['between']['start'] for message in connection.of('at') if 'between' in message]
        self.assertGreater(len(starts), 2)
        self.assertEqual(set(starts), {0})
        self.assertEqual({message['between']['sampling'] for message in connection.of('at') if 'between' in message}, {400_000_000})

    def test_what_a_sampler_takes_for_each_batch_is_told(self):
        _, connection = self.launch('''
class Slow:
    def __iter__(self):
        for first in range(0, 400, 4):
            time.sleep(0.003)
            yield list(range(first, first + 4))

    def __len__(self):
        return 100

for x, in DataLoader(data(400), batch_sampler=Slow(), num_workers=1):
    step(x)
''', run(50))
        window = connection.windows()[0]
        self.assertEqual(window['sampling'], 3_000_000 * 52)  # With those that lie ready.

    def test_a_thread_that_asks_while_its_loader_is_being_introduced_waits_with_its_first_checkpoint(self):
        _, connection = self.launch('''
engine = sys.modules['_dsanalyze_attach.hook'].hook.engine
introduce, asked, introducing = engine._introduce, threading.Semaphore(0), threading.Event()

def introduce_late(record):
    introducing.set()
    for _ in range(3):
        asked.acquire(timeout=20)
    introduce(record)

engine._introduce = introduce_late

def fetch(batches):
    for batch in DataLoader(data(), 4):
        batches.put(batch)
        introducing.wait(20)
        asked.release()

batches = queue.Queue(8)
threading.Thread(target=fetch, args=(batches,), daemon=True).start()
for _ in range(40):
    step(batches.get()[0])
''', run(5), run(5))
        order = [message['t'] for message in connection.messages if message['t'] in ('loader', 'at')]
        self.assertEqual(order[0], 'loader', order)
        self.assertIn('at', order)

    def test_training_loaders_that_two_threads_ask_are_left_alone_and_keep_their_epochs(self):
        for of_first in (1, 2):
            with self.subTest(of_first=of_first):
                output, connection = self.launch('''
def fetch(batches, count):
    loaders = [DataLoader(data(1600), 4) for _ in range(count)]
    for epoch in range(2):
        print('epoch', sum(1 for batch in zip(*loaders) if batches.put(sum(x for x, in batch)) is None), flush=True)

both = queue.Queue(2), queue.Queue(2)
for batches, count in zip(both, (%d, 1)):
    threading.Thread(target=fetch, args=(batches, count), daemon=True).start()
for _ in range(800):
    step(both[0].get() + both[1].get(), 0)
for thread in threading.enumerate():
    if thread is not threading.current_thread():
        thread.join(20)
''' % of_first, run(300), switch('synthetic'), run(20), switch('full'))
                self.assertEqual(output.split(), ['epoch', '400'] * 4)
                self.assertIn('different threads', connection.of('off')[0]['why'])


if __name__ == '__main__':
    unittest.main()
