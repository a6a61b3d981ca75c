"""A passive run: only clocks are read."""
import os
import unittest

import script_rig
from fake_launcher import Launcher, here

train = here / 'trainings' / 'train.py'


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
            total = sum(sum(window[part]) for part in ('wait', 'compute', 'outside'))
            self.assertEqual(total, window['end'] - window['begin'])
        between, = [message['between'] for message in launcher.first.of('passive') if 'between' in message]
        self.assertEqual(between['validation'], 100 * 1_000_000)
        self.assertEqual(launcher.first.notes(), {})

    def test_steps_of_all_kinds_are_clocked_without_a_gap_between_them(self):
        launcher = Launcher(mode='passive')
        script = os.path.join(launcher.folder.name, 'kinds.py')
        with open(script, 'w') as file:
            file.write('''
import sys, time, torch
from torch.utils.data import DataLoader, TensorDataset
sys.modules['_dsanalyze_attach.passive'].interval = 50000000
weight = torch.nn.Parameter(torch.zeros(2))
optimizer, other = torch.optim.SGD([weight], lr=0.1), torch.optim.Adam([weight])
train, validation = (DataLoader(TensorDataset(torch.ones(402, 2)), 4) for _ in range(2))
for kind in ('plain', 'accumulate', 'validate', 'evaluate', 'look', 'two', 'leave', 'plain'):
    for number, (x,) in enumerate(train):
        (weight * x).sum().backward()
        time.sleep(0.001)
        if kind != 'accumulate' or number % 4 == 3:
            optimizer.step()
        if kind == 'two':
            other.step()
        if kind in ('validate', 'evaluate') and number % 20 == 10:
            with torch.set_grad_enabled(kind == 'evaluate'):
                for x, in validation: time.sleep(0.0001)
        if kind == 'look' and number % 10 == 5:
            next(iter(train))
        if kind == 'leave' and number == 30:
            break
''')
        launcher.run(script)
        windows = self.windows(launcher.first)
        self.assertEqual(sum(len(window['wait']) for window in windows), 7 * 101 + 31 - 1)
        self.assertEqual(sum(sum(array(window, 'samples')) for window in windows), 7 * 402 + 31 * 4 - 4)
        self.assertEqual(sum(sum(array(window, 'steps')) for window in windows), 6 * 101 + 101 + 25 + 31 - 1)
        for window in windows:
            self.assertEqual(sum(sum(array(window, part)) for part in ('wait', 'compute', 'outside')), window['end'] - window['begin'])
        for before, after in zip(windows, windows[1:]):
            self.assertGreaterEqual(after['begin'], before['end'])
        self.assertEqual(len([message for message in launcher.first.of('passive') if 'between' in message]), 6)
        self.assertEqual(sum(sum(array(window, 'validation')) for window in windows), 2 * 5 * 101 * 100_000)
        self.assertEqual(launcher.first.notes(), {})

    def test_short_last_batches_of_a_stream_count_as_many_samples_as_they_have(self):
        for container in ('tuple', 'dict'):
            launcher = Launcher(mode='passive')
            launcher.run(train, '--samples', 42, '--epochs', 2, '--workers', 2, '--style', 'iterable', '--container', container)
            self.assertEqual(sum(sum(array(window, 'samples')) for window in self.windows(launcher.first)), 2 * 42 - 4)

    def test_windows_larger_than_the_sockets_buffer_arrive_whole(self):
        launcher = Launcher(mode='passive')
        script = os.path.join(launcher.folder.name, 'seldom.py')
        with open(script, 'w') as file:
            file.write("import runpy, socket, sys\nsys.modules['_dsanalyze_attach.passive'].interval = 10 ** 12\n"
                       "connection = sys.modules['_dsanalyze_attach.hook'].hook.engine.link._socket\n"
                       "connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)\n"
                       "runpy.run_path({!r}, run_name='__main__')\n".format(str(train)))
        launcher.run(script, '--samples', 8000, '--batch', 4, '--step', 0)
        self.assertEqual(sum(len(window['wait']) for window in self.windows(launcher.first)), 1999)
        self.assertEqual(launcher.first.messages[-1]['t'], 'bye')

    def test_the_exit_of_a_script_is_its_own(self):
        for does, status in (('os_exit', 7), ('raise', 1)):
            launcher = Launcher(mode='passive')
            launcher.run(train, '--samples', 80, '--does', does, expect=status)

    def test_a_launcher_that_does_not_read_or_has_gone_stops_nothing(self):
        for serve in (lambda peer, connection: self.peers.append(peer), lambda peer, connection: peer.close()):
            self.peers = []
            launcher = Launcher(mode='passive')
            launcher._serve = serve
            script = os.path.join(launcher.folder.name, 'often.py')
            with open(script, 'w') as file:
                file.write("import runpy, sys\nsys.modules['_dsanalyze_attach.passive'].interval = 0\nsys.modules['_dsanalyze_attach.link'].unsent_bytes = 1000\n"
                           "runpy.run_path({!r}, run_name='__main__')\n"
                           "engine = sys.modules['_dsanalyze_attach.hook'].hook.engine\nprint('lost', engine.off, engine.link.dropped > 0)\n".format(str(train)))
            output = launcher.run(script, '--samples', 8000, '--step', 0)
            self.assertIn('done 2000', output)
            self.assertIn('lost False True' if self.peers else 'lost True False', output)

    def test_batches_that_another_thread_fetches_are_clocked_as_steps_all_the_same(self):
        rig = script_rig.ScriptTest()
        _, connection = rig.launch('''
import queue
import threading
class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 160
    def __getitem__(self, index):
        time.sleep(0.004)
        return torch.full((4,), float(index))
def fetched(loader):
    batches = queue.Queue(4)
    def run():
        for batch in loader:
            batches.put(batch)
        batches.put(None)
    threading.Thread(target=run, daemon=True).start()
    while True:
        batch = batches.get()
        if batch is None:
            return
        yield batch
for epoch in range(3):
    for x in fetched(DataLoader(Slow(), 4, num_workers=1)):
        step(x)
        time.sleep(0.01)
''', mode='passive')
        self.assertEqual(set(connection.notes()), {'loader-in-thread'})
        for window in self.windows(connection):
            for part in ('wait', 'compute', 'outside'):
                self.assertGreaterEqual(min(array(window, part)), 0)
        self.assertGreater(sum(len(window['wait']) for window in self.windows(connection)), 60)

    def test_samples_are_those_that_a_batch_sampler_of_the_script_chose_whatever_the_batches_look_like(self):
        rig = script_rig.ScriptTest()
        _, connection = rig.launch('''
class Sizes:
    def __iter__(self):
        return iter([[index, index + 1, index + 2][:1 + index % 3] for index in range(100)])
def time_first(samples):
    return {'x': torch.ones(7, len(samples)), 'y': torch.ones(len(samples))}
for epoch in range(2):
    for batch in DataLoader(torch.utils.data.TensorDataset(torch.ones(102, 4)), batch_sampler=Sizes(), collate_fn=time_first, num_workers=2):
        step(torch.ones(len(batch['y']), 4))
''', mode='passive')
        samples = [count for window in self.windows(connection) for count in array(window, 'samples')]
        self.assertEqual(samples[-100:], [1 + index % 3 for index in range(100)])

    def test_the_length_of_a_dataset_is_not_asked_for_before_its_workers_are_there_and_never_where_torch_does_not(self):
        text = '''
class Lazy(torch.utils.data.Dataset):
    def __len__(self):
        print('asked')
        return 8
    def __getitem__(self, index):
        return torch.full((4,), float(index))
class Own(torch.utils.data.Sampler):
    def __init__(self):
        pass
    def __iter__(self):
        return iter(range(8))
for epoch in range(2):
    for x in DataLoader(Lazy(), 4, sampler=Own(), num_workers=1):
        print('first')
        step(x)
'''
        for mode in ('phases', 'passive'):
            rig = script_rig.ScriptTest()
            output, connection = rig.launch(text, mode=mode)
            self.assertTrue(connection.of("loader"), output)
            self.assertTrue(output.startswith('first'), output)
            if mode == 'passive':
                self.assertNotIn('asked', output)


if __name__ == '__main__':
    unittest.main()
