"""Batches that are handed out again and again, of arrays and of Python's own values: what a script does to one, the next hand-out does not show."""
import collections
import dataclasses
import importlib
import unittest

import fake_script  # noqa: F401  It makes the package.

batches = importlib.import_module('fake_hook.batches')


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


def replay(*kept, limit=10**9):
    made = batches.Replay(limit)
    for batch in kept:
        made.add(batch, batches.samples_of(batch))
    return made


class Kept(unittest.TestCase):
    def test_what_a_script_does_to_one_the_next_does_not_show(self):
        made = replay(*({'x': [number, number], 'y': {'z': [0]}} for number in range(3)))
        made.prepare(5)
        for turn in range(7):
            batch = made.next()
            self.assertEqual((batch, made.last_samples), ({'x': [turn % 3] * 2, 'y': {'z': [0]}}, 2))
            batch.pop('x')
            batch['y']['z'].append(1)

    def test_a_donated_array_is_a_copy_in_whatever_it_lies(self):
        for wrap in (lambda x: {'x': x}, lambda x: Pair(x, None), Frozen, lambda x: [(x,)]):
            made = replay(*(wrap(Array((4, 2))) for _ in range(4)))
            made.prepare(9)
            for _ in range(12):
                (_, array), = batches.leaves_of(made.next())
                self.assertFalse(array.is_deleted())
                array.deleted = True

    def test_copies_are_made_before_they_are_handed_out_as_many_as_there_is_memory_for(self):
        made = replay(*(Array((4, 2)) for _ in range(3)), limit=32 * 10)
        self.assertEqual((len(made.kept), made.copies()), (3, 7))
        Array.copies = 0
        made.prepare(100)
        self.assertEqual(Array.copies, 7)
        for _ in range(7):
            made.next()
        self.assertEqual(Array.copies, 7)
        made.next()
        self.assertEqual(Array.copies, 8)

    def test_half_of_the_memory_is_left_to_copies_and_one_batch_is_kept_at_least(self):
        self.assertEqual([len(replay(*(Array((4, 2)) for _ in range(5)), limit=limit).kept) for limit in (10, 64, 128, 1000)], [1, 1, 2, 5])

    def test_they_come_in_turn_whatever_the_windows(self):
        made = replay([0], [1], [2])
        for steps in (4, 2):
            made.prepare(steps)
            self.assertEqual([made.next() for _ in range(3)], [[0], [1], [2]])

    def test_the_last_batch_of_an_epoch_is_left_out_where_it_is_smaller(self):
        made = replay([1, 2, 3], [1, 2, 3], [1])
        made.drop_partial(3)
        self.assertEqual(len(made.kept), 2)
        made.drop_partial(4)
        self.assertEqual(len(made.kept), 2)

    def test_an_array_of_numpys_is_handed_out_as_a_copy(self):
        try:
            import numpy
        except ImportError:
            self.skipTest('no NumPy')
        own = numpy.zeros((4, 2))
        made = replay({'x': own}, {'x': numpy.ones((4, 2))})
        own += 7  # A loader that fills the same array again.
        for expected in (0, 1, 0, 1):
            batch = made.next()
            self.assertEqual((batch['x'].tolist(), made.last_samples), ([[expected] * 2] * 4, 4))
            batch['x'] += 5

    def test_samples_are_those_of_the_first_array_or_list(self):
        array = Array((6, 2))
        for batch, samples in ((array, 6), ((array, [1, 2]), 6), ([1.0, 2.0, 3.0], 3), ({'x': [1, 2], 'y': [3, 4]}, 2), (([1, 2, 3], [4, 5, 6]), 3),
                               ((1, 2), 2), ([{'x': 1}, {'x': 2}], 2), ('text', 1), (5, 1), ([], 1), ({}, 1)):
            self.assertEqual(batches.samples_of(batch), samples, batch)
            self.assertEqual(batches.samples_seen(batch), samples, batch)
        self.assertEqual(batches.samples_of({'name': 'x', 'x': array}), 6)


if __name__ == '__main__':
    unittest.main()
