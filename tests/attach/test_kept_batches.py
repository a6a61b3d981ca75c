"""Batches that are handed out again and again, of arrays and of Python's own values: what a script does to one, the next hand-out does not show."""
import collections
import dataclasses
import importlib
import unittest

import fake_script  # noqa: F401  It makes the package.

batches = importlib.import_module('steady_hook.batches')


class Array:
    """As one of JAX's: it is never changed, and a computation that it is donated to deletes it."""
    __module__ = 'jaxlib.arrays'
    dtype = 'float32'
    copies = 0

    def __init__(self, shape):
        self.shape, self.deleted = shape, False

    @property
    def nbytes(self):
        return 4 * self.shape[0] * self.shape[1]

    def is_deleted(self):
        return self.deleted

    def copy(self):
        assert not self.deleted
        Array.copies += 1
        return Array(self.shape)


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: object


Pair = collections.namedtuple('Pair', ('x', 'y'))


def replay(*kept):
    made = batches.Replay()
    for batch in kept:
        made.add(batch, batches.samples_of(batch), 10**9)
    return made


class Kept(unittest.TestCase):
    def test_keys_that_are_popped_and_lists_that_are_changed_are_whole_again(self):
        made = replay(*({'x': [number, number], 'y': {'z': [0]}} for number in range(3)))
        for turn in range(7):
            batch, samples, _ = made.next()
            self.assertEqual((batch, samples), ({'x': [turn % 3] * 2, 'y': {'z': [0]}}, 2))
            batch.pop('x')
            batch['y']['z'].append(1)
        self.assertEqual((len(made), made.changed), (3, 0))

    def test_a_donated_array_is_replaced_and_from_then_on_copies_are_handed_out(self):
        for wrap in (lambda x: {'x': x}, lambda x: Pair(x, None), Frozen, lambda x: [(x,)]):
            made = replay(*(wrap(Array((4, 2))) for _ in range(4)))
            Array.copies = 0
            handed = []
            for _ in range(9):
                batch, samples, _ = made.next()
                (_, array), = batches.leaves_of(batch)
                self.assertFalse(array.is_deleted())
                self.assertEqual(samples, 4)
                array.deleted = True
                handed.append(array)
            self.assertGreater(made.changed, 0)
            self.assertEqual(len(made), 3)
            self.assertEqual(Array.copies, 8)

    def test_arrays_that_are_not_donated_are_handed_out_as_they_are(self):
        arrays = [Array((4, 2)) for _ in range(3)]
        made = replay(*({'x': array} for array in arrays))
        self.assertEqual([made.next()[0]['x'] for _ in range(9)], 3 * arrays)
        self.assertEqual(made.bytes, 3 * 32)

    def test_a_script_that_looks_one_batch_ahead_and_donates_each_never_gets_one_that_is_deleted(self):
        for count in (1, 2, 3, 5):
            made = replay(*({'x': Array((4, 2))} for _ in range(count)))
            held = made.next()[0]['x']
            for _ in range(12):
                following = made.next()[0]['x']
                self.assertFalse(held.is_deleted())
                held.deleted = True
                held = following
            self.assertEqual(len(made), count if count < 3 else count - 2)

    def test_an_array_of_numpys_is_handed_out_as_a_copy(self):
        try:
            import numpy
        except ImportError:
            self.skipTest('no NumPy')
        own = numpy.zeros((4, 2))
        made = replay({'x': own}, {'x': numpy.ones((4, 2))})
        own += 7  # A loader that fills the same array again.
        for expected in (0, 1, 0, 1):
            batch, samples, _ = made.next()
            self.assertEqual((batch['x'].tolist(), samples), ([[expected] * 2] * 4, 4))
            batch['x'] += 5
        self.assertEqual(made.bytes, 2 * 64)

    def test_samples_are_those_of_the_first_array_or_list(self):
        array = Array((6, 2))
        for batch, samples in ((array, 6), ((array, [1, 2]), 6), ([1.0, 2.0, 3.0], 3), ({'x': [1, 2], 'y': [3, 4]}, 2), (([1, 2, 3], [4, 5, 6]), 3),
                               ((1, 2), 2), ([{'x': 1}, {'x': 2}], 2), ('text', 1), (5, 1), ([], 1), ({}, 1)):
            self.assertEqual(batches.samples_of(batch), samples, batch)
            self.assertEqual(batches.samples_seen(batch), samples, batch)
        self.assertEqual(batches.samples_of({'name': 'x', 'x': array}), 6)


if __name__ == '__main__':
    unittest.main()
