"""What verify_resume() says of loaders that resume rightly, and of ones with a known mistake."""
import pathlib
import tempfile
import unittest

import torch
from torch.utils.data import DataLoader, TensorDataset

import dsanalyze


class Stateful:
    """Batches of numbers in an order of its own, with a state, and with a mistake that is asked for."""

    def __init__(self, mistake=None, samples=37, batch=4, at_end='remainder'):
        self.mistake, self.samples, self.batch, self.at_end = mistake, samples, batch, at_end
        self.epoch = self.position = 0

    def order(self):
        seed = self.epoch + self.shift + (100 if self.mistake == 'epoch seed' and self.resumed_in == self.epoch else 0)
        return torch.randperm(self.samples, generator=torch.Generator().manual_seed(seed)).tolist()

    resumed_in = None
    shift = 0

    def __iter__(self):
        order = self.order()
        while self.position < self.samples:
            begin, self.position = self.position, self.position + self.batch
            yield order[begin:begin + self.batch]
        self.epoch, self.position = self.epoch + 1, 0

    def state_dict(self):
        if self.mistake == 'epoch again' and self.position >= self.samples:
            return {'epoch': self.epoch, 'position': 0}
        if self.at_end == 'next epoch' and self.position >= self.samples:
            return {'epoch': self.epoch + 1, 'position': 0}
        return {'epoch': self.epoch, 'position': self.position}

    def load_state_dict(self, state):
        self.epoch, self.position = state['epoch'], state['position']
        self.resumed_in = self.epoch if self.position else None
        if self.mistake == 'between epochs' and not self.position and self.epoch:
            self.position = self.batch
        if self.mistake == 'before the first batch' and not self.position and not self.epoch:
            self.position = self.batch
        if self.mistake == 'next epoch' and not self.position and self.epoch:
            self.shift = 1
        if self.mistake == 'skip one' and self.position:
            self.position += 1
        if self.mistake == 'repeat one' and self.position:
            self.position -= 1


class Verdicts(unittest.TestCase):
    def test_a_loader_that_resumes_rightly_passes_however_it_ends_an_epoch(self):
        for at_end in ('remainder', 'next epoch'):
            report = dsanalyze.verify_resume(lambda: Stateful(at_end=at_end), epochs=3, runs=40, identify=list)
            self.assertTrue(report, str(report))
            self.assertTrue(report.same_order)
            self.assertEqual((report.runs, report.samples, report.lost, report.repeated), (40, 40 * 3 * 37, 0, 0))
            self.assertEqual(report.stops, 120)
            self.assertIn('0 lost, 0 repeated', str(report))

    def test_each_known_mistake_is_found_and_the_sample_named(self):
        for mistake, what in (('skip one', 'lost'), ('repeat one', 'repeated'), ('epoch seed', 'lost')):
            report = dsanalyze.verify_resume(lambda: Stateful(mistake), runs=5, identify=list)
            self.assertFalse(report, mistake)
            self.assertEqual(report.fault.what, what)
            self.assertIn(report.fault.sample, range(37))
            self.assertIn(f'First {what}: {report.fault.sample}', str(report))
            self.assertFalse(report.same_order)
            again = dsanalyze.verify_resume(lambda: Stateful(mistake), runs=5, identify=list)
            self.assertEqual(report, again)

    def test_mistakes_between_epochs_and_before_the_first_batch_are_found(self):
        for mistake, what in (('between epochs', 'lost'), ('before the first batch', 'lost'), ('epoch again', 'repeated epoch'), ('next epoch', 'skipped epoch')):
            report = dsanalyze.verify_resume(lambda: Stateful(mistake), epochs=3, runs=20, identify=list)
            self.assertFalse(report, mistake)
            self.assertEqual(report.fault.what, what)

    def test_batches_of_every_kind_are_told_apart(self):
        for made in (lambda numbers: {'epoch': torch.tensor(3), 'x': torch.tensor(numbers)}, lambda numbers: torch.tensor(numbers).to(torch.bfloat16),
                     lambda numbers: memoryview(bytes(each for number in numbers for each in (number, 1))).cast('B', (len(numbers), 2)),
                     lambda numbers: [[f'{each}.jpg' for each in numbers], numbers]):
            class Made(Stateful):
                def __iter__(self):
                    return map(made, super().__iter__())

            self.assertTrue(dsanalyze.verify_resume(Made, runs=3))
            self.assertFalse(dsanalyze.verify_resume(lambda: Made('skip one'), runs=3))

    def test_batches_of_samples_of_own_sizes_are_told_apart_sample_by_sample(self):
        def image(number):
            return torch.full((5 + number % 7, 3), number, dtype=torch.uint8)

        kinds = {'images in a list beside labels': lambda numbers: ([image(each) for each in numbers], torch.tensor(numbers) % 3),
                 'a list of images': lambda numbers: [image(each) for each in numbers],
                 'a list of dicts': lambda numbers: [{'boxes': image(each), 'label': each % 3} for each in numbers],
                 'two lists': lambda numbers: [[image(each) for each in numbers], [{'boxes': image(each)} for each in numbers]]}
        for what, made in kinds.items():
            class Made(Stateful):
                def __iter__(self):
                    return map(made, super().__iter__())

            with self.subTest(what):
                self.assertEqual(len(set(dsanalyze._resume.digests(made(list(range(4)))))), 4)
                report = dsanalyze.verify_resume(Made, runs=3)
                self.assertTrue(report)
                if what != 'a list of images':  # Of one image alone it is not known whether it is a sample, or a column of its rows.
                    self.assertEqual(report.samples, 3 * 2 * 37)
                self.assertFalse(dsanalyze.verify_resume(lambda: Made('skip one'), runs=3))
        self.assertEqual(len(dsanalyze._resume.digests(([image(2)], torch.tensor([1])))), 1)  # of one sample, whose array has more rows

    def test_samples_may_be_named_by_a_tensor(self):
        class Tensors(Stateful):
            def __iter__(self):
                return map(torch.tensor, super().__iter__())

        self.assertTrue(dsanalyze.verify_resume(Tensors, runs=3, identify=lambda batch: batch))

    def test_another_order_alone_is_no_fault_and_is_told(self):
        class Reordered(Stateful):
            def order(self):
                return super().order() if self.resumed_in is None else sorted(super().order()[:self.position]) + sorted(super().order()[self.position:])

        report = dsanalyze.verify_resume(Reordered, runs=5, stops=1, identify=list)
        self.assertTrue(report)
        self.assertFalse(report.same_order)
        self.assertIn('in another order', str(report))

    def test_samples_are_told_apart_by_their_values(self):
        class Tensors(Stateful):
            def __iter__(self):
                for numbers in super().__iter__():
                    yield {'x': torch.tensor(numbers, dtype=torch.float32)[:, None].expand(-1, 5), 'y': torch.zeros(len(numbers)), 'z': [str(each) for each in numbers]}

        self.assertTrue(dsanalyze.verify_resume(Tensors, runs=4))
        self.assertEqual(dsanalyze.verify_resume(lambda: Tensors('skip one'), runs=4).fault.what, 'lost')

    def test_what_cannot_be_verified_is_said(self):
        def by_chance():
            loader = Stateful()
            loader.order = lambda: torch.randint(10**9, (37,)).tolist()
            return loader

        with self.assertRaisesRegex(ValueError, 'identify='):
            dsanalyze.verify_resume(by_chance, runs=1, identify=list)
        with self.assertRaisesRegex(ValueError, 'too few'):
            dsanalyze.verify_resume(lambda: Stateful(samples=3), epochs=1, runs=1, identify=list)
        with self.assertRaises(ValueError):
            dsanalyze.verify_resume(Stateful, runs=0)

        class Endless(Stateful):
            def __iter__(self):
                while True:
                    yield [0]

        with self.assertRaisesRegex(ValueError, 'end its passes'):
            dsanalyze.verify_resume(Endless, runs=1, identify=tuple)
        with self.assertRaises(AttributeError):
            dsanalyze.verify_resume(lambda: DataLoader(TensorDataset(torch.arange(20)), batch_size=2), runs=1)

    def test_a_loader_that_never_ends_or_gives_nothing_after_its_stop_ends_the_proof(self):
        class Endless(Stateful):
            def __iter__(self):
                while self.resumed_in is not None:
                    yield [0]
                yield from super().__iter__()

        self.assertFalse(dsanalyze.verify_resume(Endless, runs=2, identify=list))

        class Silent(Stateful):
            def __iter__(self):
                if self.resumed_in is None:
                    yield from super().__iter__()

        report = dsanalyze.verify_resume(Silent, runs=2, identify=list)
        self.assertGreater(report.lost, 0)

    def test_numbers_of_workers_go_round(self):
        asked = []

        def make(workers):
            asked.append(workers)
            return Stateful()

        dsanalyze.verify_resume(make, runs=1, stops=4, workers=(1, 3), identify=list)
        self.assertEqual(asked, [1, 1, 1, 3, 1, 3, 1])


class Own(unittest.TestCase):
    def test_our_loader_resumes_to_the_bit_with_any_number_of_threads(self):
        from test_loader import made_images
        with tempfile.TemporaryDirectory(prefix='dsanalyze-test-') as folder:
            made_images(pathlib.Path(folder), 60)
            report = dsanalyze.verify_resume(lambda workers: dsanalyze.Loader(folder, 7, prep=[dsanalyze.RandomResizedCrop(8), dsanalyze.HorizontalFlip()], dtype='uint8',
                                                                            workers=workers), runs=6, epochs=3)
            self.assertTrue(report, str(report))
            self.assertTrue(report.same_order)
            # Two runs give the same crops: a digest of the values tells each sample of each epoch.
            self.assertEqual(report.samples, 6 * 180)


if __name__ == '__main__':
    unittest.main()
