"""Batches that are handed out again and again: a script that changes them gets them as they were, and as many of them as before."""
import sys
import unittest
from unittest import mock

from fake_launcher import drain, end, here, run, switch
from script_rig import ScriptTest

sys.path.insert(0, str(here.parents[1] / 'python'))

changes = {
    'an operation in place': 'x.mul_(3)',
    'tensor.data': 'x.data.add_(5)',
    'an array on its memory': 'x.numpy()[:] = 7',
    'a view': 'x[:, 0] = 9',
}


class Scripts(ScriptTest):
    def synthetic(self, text, number=60, keep_bytes=1 << 28):
        output, connection = self.launch(text, run(5), switch('synthetic', keep_bytes=keep_bytes), run(number, 'synthetic'), switch('full'))
        self.assertNotIn('changed', output)
        window, = connection.windows('synthetic')
        return window, connection

    def test_whatever_way_a_script_changes_a_batch_all_stay_and_none_is_seen_changed(self):
        for way, change in changes.items():
            for first in (0, 40):  # From its first step on, or long after the hook has seen that batches are left alone.
                with self.subTest(way, first=first):
                    if first and way in ('tensor.data', 'an array on its memory'):
                        continue  # Nothing tells of these but looking at the data, which a step must not pay for.
                    window, connection = self.synthetic('''
for number, (x,) in enumerate(DataLoader(data(480), 4)):
    if x[0, 1] % 4 or not torch.equal(x[:, 0], torch.arange(4.0) + x[0, 1]):
        print('changed', number)
    if number >= FIRST:
        CHANGE
    step(x)
'''.replace('CHANGE', change).replace('FIRST', str(first)))
                    self.assertEqual(set(connection.notes()), {'batch-mutated'})
                    self.assertEqual(sorted(map(window['batch'].count, set(window['batch']))), [3] * 4 + [4] * 12)
                    self.assertEqual(len(set(window['batch'][-16:])), 16)

    def test_batches_that_are_left_alone_are_not_copied_again(self):
        output, connection = self.launch('''
seen = []
for number, (x,) in enumerate(DataLoader(data(480), 4)):
    seen.append(x.data_ptr())
    kept = x
    step(x)
print('memory', len(set(seen[40:56])), seen[40:56] == seen[56:72])
''', run(5), switch('synthetic'), run(100, 'synthetic'), switch('full'))
        self.assertEqual(output, 'memory 16 True\n')
        self.assertEqual(connection.notes(), {})

    def test_arrays_are_handed_out_as_copies(self):
        window, connection = self.synthetic('''
import numpy

class Arrays(Dataset):
    def __len__(self):
        return 480
    def __getitem__(self, index):
        return {'x': numpy.full(4, index, dtype='float32'), 'more': [numpy.full(2, index)]}

for number, batch in enumerate(DataLoader(Arrays(), 4, collate_fn=lambda samples: samples)):
    if any(sample['x'][0] != sample['more'][0][1] for sample in batch):
        print('changed', number)
    x = torch.from_numpy(numpy.stack([sample['x'] for sample in batch]))
    for sample in batch:
        sample['x'] += 5
        sample['more'][0][0] = -1
    step(x)
''')
        self.assertEqual(connection.notes(), {})
        self.assertEqual(len(set(window['batch'])), 16)

    def test_sparse_batches_go_through_every_phase(self):
        _, connection = self.launch('''
for x in DataLoader(data(800), 4, collate_fn=lambda samples: torch.stack([x for x, in samples]).to_sparse()):
    step(x.to_dense())
''', run(5), switch('synthetic'), run(20, 'synthetic'), drain(0, 8, which='warm'), drain(0, 8), end)
        self.assertEqual(connection.notes(), {})
        self.assertEqual([message['error'] for message in connection.of('drained')], [None, None])

    def test_an_original_that_no_copy_was_made_of_leaves_the_set(self):
        batch = 4 * 4 * 4
        for copies, left in ((32, {16}), (31, {14, 15})):
            window, connection = self.synthetic('''
for number, (x,) in enumerate(DataLoader(data(800), 4)):
    if number >= 60:
        x.mul_(3)
    step(x)
''', 120, copies * batch)
            self.assertEqual(set(connection.notes()), {'batch-mutated'})
            self.assertIn(len(set(window['batch'][-40:])), left)


class Batches(unittest.TestCase):
    def setUp(self):
        import torch
        from dsanalyze._attach import batches, tensors
        self.torch, self.batches = torch, batches
        kinds = mock.patch.object(batches, 'kinds', [tensors.Tensors, *batches.kinds])
        kinds.start()
        self.addCleanup(kinds.stop)

    def replay(self, *batches, limit=1 << 20):
        replay = self.batches.Replay()
        for batch in batches:
            self.assertTrue(replay.add(batch, 4, limit))
        return replay

    def test_a_script_that_looks_one_batch_ahead_may_change_the_batch_before(self):
        replay = self.replay(*[self.torch.full((4,), float(number)) for number in range(3)])
        held = replay.next()[0]
        for number in range(1, 12):
            following = replay.next()[0]
            held.data.mul_(0)
            held = following
            self.assertEqual(held.tolist(), [float(number % 3)] * 4)
        self.assertEqual(len(replay), 3)
        self.assertTrue(replay.changed)

    def test_numbers_that_are_none_and_tensors_of_every_kind_are_no_change(self):
        torch = self.torch
        kinds = [torch.tensor(float('nan')), torch.zeros(0), torch.ones(3, dtype=torch.bool), torch.ones(2, 3, dtype=torch.complex64), torch.ones(5).expand(4, 5),
                 torch.ones(6, 4).t(), torch.ones(9)[1:], torch.eye(3).to_sparse(), torch.ones(3, requires_grad=True), torch.ones(7, dtype=torch.float16)]
        replay = self.replay(kinds)
        for _ in range(4):
            for given, kept in zip(replay.next()[0], kinds):
                self.assertEqual((given.shape, given.dtype), (kept.shape, kept.dtype))
        self.assertFalse(replay.changed)

    def test_a_copy_keeps_its_class_and_its_attributes(self):
        class Named(self.torch.Tensor):
            pass

        tensor = self.torch.ones(3).as_subclass(Named)
        tensor.places = ['a']
        plain = self.torch.ones(3)
        plain.size_before = (5, 5)
        given = self.replay([tensor, plain]).next()[0]
        self.assertEqual((type(given[0]), given[0].places, given[1].size_before), (Named, ['a'], (5, 5)))
        given[0].places.append('b')
        self.assertEqual(tensor.places, ['a'])

    def test_pinned_memory_stays_pinned(self):
        pinned = []
        with mock.patch.object(self.torch.cuda, 'is_initialized', lambda: True), mock.patch.object(self.torch.Tensor, 'is_pinned', lambda tensor: True), \
                mock.patch.object(self.torch.Tensor, 'pin_memory', lambda tensor: pinned.append(tensor) or tensor):
            given = self.replay(self.torch.ones(4)).next()[0]
        self.assertEqual([tensor.data_ptr() for tensor in pinned], [given.data_ptr()])


if __name__ == '__main__':
    unittest.main()
