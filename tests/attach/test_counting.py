"""Windows of which the steps are only counted."""
import unittest

from fake_launcher import run, switch
from script_rig import ScriptTest


class Counted(ScriptTest):
    def test_their_steps_samples_and_time_are_told_and_nothing_of_the_steps(self):
        output, connection = self.launch('''
for epoch in range(3):
    print('epoch', sum(1 for x, in DataLoader(data(400), 4) if step(x) is None))
''', run(10), run(10, counted=True), run(10), run(10, counted=True), run(10))
        self.assertEqual(output, 'epoch 100\n' * 3)
        counted = [message['counted'] for message in connection.of('at') if 'counted' in message]
        self.assertEqual([(each['steps'], each['samples'], each['end'] - each['begin']) for each in counted], [(10, 40, 20_000_000)] * 2)
        self.assertEqual([len(window['wait']) for window in connection.windows()][1:3], [10, 10])
        self.assertEqual([message['step'] for message in connection.at('window')][:5], [11, 21, 31, 41, 51])
        self.assertNotIn('hook-failed', connection.notes())

    def test_whatever_else_comes_ends_them_and_the_steps_that_follow_are_clocked(self):
        for what in ('[model(x) for x, in DataLoader(data(8), 4)]', 'os.fork() or os._exit(0)', 'iter(loader)', 'torch.optim.SGD(model.parameters(), lr=1e-6)'):
            with self.subTest(what):
                output, connection = self.launch(f'''
loader = DataLoader(data(400), 4)
for epoch in range(3):
    for number, (x,) in enumerate(loader):
        step(x)
        if number == 15 and not epoch:
            with torch.no_grad():
                {what}
    print('epoch', number + 1)
''', run(10), run(10, counted=True), run(10), run(10, counted=True), run(10))
                self.assertEqual(output, 'epoch 100\n' * 3)
                counted = [message['counted']['steps'] for message in connection.of('at') if 'counted' in message]
                self.assertEqual(counted[-1], 10)
                self.assertNotIn('hook-failed', connection.notes())

    def test_a_pass_that_is_left_within_one_is_told(self):
        output, connection = self.launch('''
for epoch in range(6):
    for number, (x,) in enumerate(DataLoader(data(400), 4)):
        step(x)
        if number == 24:
            break
    print('epoch', number + 1)
''', run(10), run(10, counted=True), run(10, counted=True), run(10), run(10, counted=True))
        self.assertEqual(output, 'epoch 25\n' * 6)
        self.assertEqual(len(connection.at('epoch_end')), 5)
        self.assertNotIn('hook-failed', connection.notes())

    def test_an_epoch_that_ends_within_one_is_clocked(self):
        output, connection = self.launch('''
for epoch in range(3):
    print('epoch', sum(1 for x, in DataLoader(data(60), 4) if step(x) is None))
''', run(10), run(10, counted=True), run(10, counted=True), run(10, counted=True))
        self.assertEqual(output, 'epoch 15\n' * 3)
        self.assertFalse(any('counted' in message for message in connection.of('at')))


if __name__ == '__main__':
    unittest.main()
