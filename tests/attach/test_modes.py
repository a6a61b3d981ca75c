"""Where batches come from in each mode, and what of them a script may change."""
import sys
import unittest
from unittest import mock

from fake_launcher import drain, end, here, run, switch
from script_rig import ScriptTest

sys.path.insert(0, str(here.parents[1] / 'python'))

counting = '''
made = os.open('made', os.O_CREAT | os.O_RDWR | os.O_APPEND)

class Counted(Dataset):
    def __len__(self):
        return 8000
    def __getitem__(self, index):
        os.write(made, b'.')
        return torch.full((4,), float(index))

modes = sys.modules['_dsanalyze_attach.hook'].hook.engine.modes if 'torch' in sys.modules else None
seen, last = {}, 0
for x in DataLoader(Counted(), 4, num_workers=2, OPTIONS):
    step(x)
    mode = modes.mode
    while mode == 'busy' and os.fstat(made).st_size == last and seen.get(mode, 0) < 20:
        pass  # Until the workers have made more; where they rest, the script is ended by the launcher's guard.
    last = os.fstat(made).st_size
    seen[mode] = seen.get(mode, 0) + 1
    if seen[mode] == 20:
        print(mode, os.fstat(made).st_size)
    if seen[mode] == 40:
        print(mode, os.fstat(made).st_size)
'''


class Modes(ScriptTest):
    def test_workers_go_on_beside_kept_batches_and_rest_in_the_mode_after(self):
        for options in ('', 'persistent_workers=True', 'pin_memory=False, prefetch_factor=4'):
            output, connection = self.launch(counting.replace('OPTIONS', options), run(30), drain(2, 8, which='warm'), switch('cached'), run(30), switch('busy'), run(40),
                                             switch('synthetic'), run(50), end, virtual=False)
            sizes = [line.split() for line in output.splitlines()]
            at = {}
            for mode, size in sizes:
                at.setdefault(mode, []).append(int(size))
            self.assertEqual(at['synthetic'][0], at['synthetic'][1])
            self.assertGreater(at['busy'][0], at['cached'][0])

    def test_whatever_way_a_script_changes_a_batch_it_is_as_it_was(self):
        for change in ('x.mul_(3)', 'x.data.add_(5)', 'x.numpy()[:] = 7', 'x[:, 0] = 9'):
            with self.subTest(change):
                output, connection = self.launch('''
for number, (x,) in enumerate(DataLoader(data(480), 4)):
    if x[0, 1] % 4 or not torch.equal(x[:, 0], torch.arange(4.0) + x[0, 1]):
        print('changed', number)
    CHANGE
    step(x)
'''.replace('CHANGE', change), run(20), switch('synthetic'), run(60), end)
                self.assertEqual((output, connection.notes()), ('', {}))

    def test_what_is_kept_and_copied_stays_below_the_limit(self):
        batch = 4 * 4 * 4
        _, connection = self.launch('for x, in DataLoader(data(800), 4): step(x)', run(40), switch('synthetic', keep_bytes=20 * batch), run(60), end)
        switched, = connection.at('switched')
        self.assertEqual((switched['kept'], switched['copies']), (10, 10))

    def test_sparse_batches_go_through_every_mode(self):
        _, connection = self.launch('''
for x in DataLoader(data(800), 4, collate_fn=lambda samples: torch.stack([x for x, in samples]).to_sparse()):
    step(x.to_dense())
''', run(5), drain(0, 8, which='warm'), switch('cached'), run(5), switch('busy'), run(5), switch('synthetic'), run(20), drain(0, 8), end)
        self.assertEqual(connection.notes(), {})
        self.assertEqual([message['error'] for message in connection.of('drained')], [None, None])


class Tensors(unittest.TestCase):
    def setUp(self):
        import torch
        from dsanalyze._attach import batches, tensors
        self.torch, self.batches = torch, batches
        kinds = mock.patch.object(batches, 'kinds', [tensors.Tensors, *batches.kinds])
        kinds.start()
        self.addCleanup(kinds.stop)

    def copied(self, batch):
        replay = self.batches.Replay(1 << 20)
        replay.add(batch, 4)
        return replay.next()

    def test_tensors_of_every_kind_are_copied(self):
        torch = self.torch
        kinds = [torch.tensor(float('nan')), torch.zeros(0), torch.ones(3, dtype=torch.bool), torch.ones(2, 3, dtype=torch.complex64), torch.ones(5).expand(4, 5),
                 torch.ones(6, 4).t(), torch.ones(9)[1:], torch.eye(3).to_sparse(), torch.ones(3, requires_grad=True), torch.ones(7, dtype=torch.float16)]
        for given, kept in zip(self.copied(kinds), kinds):
            self.assertEqual((given.shape, given.dtype, given.requires_grad, given.layout), (kept.shape, kept.dtype, kept.requires_grad, kept.layout))

    def test_a_copy_keeps_its_class_and_its_attributes(self):
        class Named(self.torch.Tensor):
            pass

        tensor = self.torch.ones(3).as_subclass(Named)
        tensor.places = ['a']
        plain = self.torch.ones(3)
        plain.size_before = (5, 5)
        given = self.copied([tensor, plain])
        self.assertEqual((type(given[0]), given[0].places, given[1].size_before), (Named, ['a'], (5, 5)))
        given[0].places.append('b')
        self.assertEqual(tensor.places, ['a'])

    def test_pinned_memory_stays_pinned(self):
        pinned = []
        with mock.patch.object(self.torch.cuda, 'is_initialized', lambda: True), mock.patch.object(self.torch.Tensor, 'is_pinned', lambda tensor: True), \
                mock.patch.object(self.torch.Tensor, 'pin_memory', lambda tensor: pinned.append(tensor) or tensor):
            given = self.copied(self.torch.ones(4))
        self.assertEqual([tensor.data_ptr() for tensor in pinned], [given.data_ptr()])

    def test_what_is_kept_counts_the_memory_that_it_takes(self):
        kept = self.torch.ones(5)
        with mock.patch.object(self.torch.cuda, 'is_initialized', lambda: True), mock.patch.object(self.torch.Tensor, 'is_pinned', lambda tensor: True):
            self.assertEqual(self.batches.bytes_of([kept]), 32)
        self.assertEqual(self.batches.bytes_of([kept]), 20)

    def test_half_of_the_memory_that_is_free_on_a_device_is_for_what_is_kept_there(self):
        from dsanalyze._attach import tensors
        for free, fit in ((None, True), (160, True), (150, False)):
            replay = self.batches.Replay(1 << 20)
            with mock.patch.object(tensors.Tensors, 'room', lambda tensor: free):
                self.assertEqual([replay.add(self.torch.ones(5), 5) for _ in range(2)], [True, fit])


if __name__ == '__main__':
    unittest.main()
