"""Trainings of which no step is recognised: what was seen of them is told."""
import unittest

from script_rig import ScriptTest

without_optimizer = '''
parameters = list(model.parameters())
for epoch in range(2):
    for x, in DataLoader(data(), 4):
        model(x).mean().backward()
        with torch.no_grad():
            for parameter in parameters:
                parameter -= 1e-6 * parameter.grad
'''
without_loader = '''
for number in range(50):
    step(torch.ones(4, 4))
'''


class Unseen(ScriptTest):
    def seen(self, text, mode='phases'):
        _, connection = self.launch(text, mode=mode)
        return connection.of('seen')

    def test_batches_and_backward_passes_without_an_optimizer_are_counted_with_their_loader(self):
        for mode, backward in (('phases', 80), ('passive', 0)):
            message = self.seen(without_optimizer, mode)[-1]
            self.assertEqual([message[key] for key in ('batches', 'with_gradients', 'backward', 'optimizer_steps')], [80, 80, backward, 0])
            self.assertEqual(message['dataset_class'], 'torch.utils.data.dataset.TensorDataset')
            self.assertTrue(message['file'].endswith('script.py'))
            self.assertGreater(message['line'], 1)

    def test_batches_fetched_without_gradients_and_steps_without_a_loader_are_told_apart(self):
        message = self.seen('''
with torch.no_grad():
    for x, in DataLoader(data(), 4):
        model(x)
''' + without_loader)[-1]
        self.assertEqual([message[key] for key in ('batches', 'with_gradients', 'backward', 'optimizer_steps')], [40, 0, 50, 50])

    def test_it_is_told_at_once_and_then_once_a_second(self):
        messages = self.seen(without_optimizer + 'time.sleep(1.1)\n' + without_loader)
        self.assertEqual([(message['batches'], message['optimizer_steps']) for message in messages], [(1, 0), (80, 0), (80, 50)])

    def test_a_training_that_goes_on_with_batches_that_it_keeps_is_given_up_in_words(self):
        _, connection = self.launch('''
import itertools
batches = itertools.cycle(DataLoader(data(), 4))
for number in range(100):
    step(next(batches)[0])
''', environment={'DSANALYZE_ATTACH_PATIENCE': '0'})
        self.assertIn('itertools.cycle', connection.of('off')[0]['why'])
        _, connection = self.launch('''
for epoch in range(3):
    for x, in DataLoader(data(), 4):
        step(x)
    for number in range(10):
        step(x)
''', environment={'DSANALYZE_ATTACH_PATIENCE': '0'})
        self.assertEqual(connection.of('off'), [])

    def test_nothing_is_told_of_it_once_a_training_loader_is_known(self):
        for mode in ('phases', 'passive'):
            messages = self.seen('''
for x, in DataLoader(data(), 4):
    step(x)
''', mode)
            self.assertLessEqual(len(messages), 1)


if __name__ == '__main__':
    unittest.main()
