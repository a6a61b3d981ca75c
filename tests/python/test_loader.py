"""dsanalyze.Loader as training scripts use it."""
import gc
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

import torch
from PIL import Image

import dsanalyze

side = 8


def made_images(folder, samples, classes=3):
    """Images of one colour each, which says which sample it is, whatever is cut out of it."""
    for sample in range(samples):
        place = folder / f'class{sample % classes}'
        place.mkdir(parents=True, exist_ok=True)
        Image.new('RGB', (24 + sample % 5, 20), (sample % 256, sample // 256, 7)).save(place / f'{sample:05}.png')


def number_of(image):
    """The sample that an image of uint8 is."""
    return int(image[0, 0, 0]) + 256 * int(image[1, 0, 0])


class Case(unittest.TestCase):
    samples = 50

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix='dsanalyze-test-'))
        made_images(cls.folder / 'data', cls.samples)

    @classmethod
    def tearDownClass(cls):
        subprocess.run(['rm', '-rf', cls.folder], check=True)

    def loader(self, batch_size=8, **options):
        options = {'prep': dsanalyze.RandomResizedCrop(side), 'dtype': 'uint8', 'workers': 2, **options}
        loader = dsanalyze.Loader(self.folder / 'data', batch_size, **options)
        self.addCleanup(loader.close)
        return loader

    @staticmethod
    def numbers(passing):
        return [number_of(image) for images, _ in passing for image in images]


class Epochs(Case):
    def test_fewer_batches_are_prepared_ahead_where_they_are_large(self):
        # Three that the script may hold, and as many as 256 MiB have room for: three of 69 MB.
        loader = self.loader(batch_size=1, prep=dsanalyze.RandomResizedCrop(2400), dtype='float32')
        until = time.monotonic() + 60
        while loader.report()['prepared'] < 6 and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.5)  # Time for more.
        self.assertEqual(loader.report()['prepared'], 6)

    def test_a_pass_gives_each_sample_once_with_its_label(self):
        loader = self.loader()
        self.assertEqual((len(loader), loader.samples, loader.batch_size), (7, 50, 8))
        self.assertEqual(loader.classes, ['class0', 'class1', 'class2'])
        orders = []
        for _ in range(3):
            seen = []
            batches = 0
            for images, labels in loader:
                self.assertEqual((images.dtype, labels.dtype), (torch.uint8, torch.int64))
                self.assertEqual(tuple(images.shape), (len(labels), 3, side, side))
                self.assertEqual([number_of(image) % 3 for image in images], labels.tolist())
                seen += [number_of(image) for image in images]
                batches += 1
            self.assertEqual(batches, 7)
            self.assertEqual(sorted(seen), list(range(50)))
            orders.append(seen)
        self.assertNotEqual(orders[0], orders[1])
        self.assertEqual(self.numbers(self.loader()), orders[0])
        self.assertNotEqual(self.numbers(self.loader(seed=2)), orders[0])

    def test_the_files_order_is_kept_where_nothing_is_shuffled(self):
        with_ids = [number for _, _, ids in self.loader(shuffle=False, with_ids=True) for number in ids.tolist()]
        self.assertEqual(with_ids, list(range(50)))

    def test_an_epoch_is_the_same_however_it_is_reached(self):
        loader = self.loader()
        orders = [self.numbers(loader) for _ in range(3)]
        self.assertEqual(loader.epoch, 3)
        loader.set_epoch(1)
        self.assertEqual(self.numbers(loader), orders[1])
        self.assertEqual(self.numbers(loader), orders[2])
        other = self.loader()
        other.set_epoch(2)
        self.assertEqual(self.numbers(other), orders[2])

    def test_a_pass_that_is_left_is_followed_by_the_next_epoch_whole(self):
        orders = [self.numbers(passing) for passing in [self.loader()]]
        loader = self.loader()
        orders.append([self.numbers(loader) for _ in range(2)][1])
        left = self.loader()
        for at, (images, _) in enumerate(left):
            self.assertEqual([number_of(image) for image in images], orders[0][8 * at:8 * at + 8])
            if at == 2:
                break
        self.assertEqual(self.numbers(left), orders[1])
        first = iter(left)
        next(first)
        iter(left)
        with self.assertRaisesRegex(RuntimeError, 'another pass'):
            next(first)

    def test_the_short_last_batch_can_be_left_out(self):
        loader = self.loader(drop_last=True)
        self.assertEqual(len(loader), 6)
        self.assertEqual([len(labels) for _ in range(2) for _, labels in loader], 12 * [8])
        whole = self.loader(batch_size=10, drop_last=True)
        self.assertEqual((len(whole), [len(labels) for _, labels in whole]), (5, 5 * [10]))

    def test_ranks_have_each_sample_once_together(self):
        parts = [self.loader(rank=rank, world_size=3) for rank in range(3)]
        self.assertEqual([len(part) for part in parts], [3, 3, 3])
        for _ in range(2):
            numbers = [self.numbers(part) for part in parts]
            self.assertEqual(sorted(sum(numbers, [])), list(range(50)))
            self.assertLessEqual(max(map(len, numbers)) - min(map(len, numbers)), 3)
        os.environ.update(RANK='1', WORLD_SIZE='3')
        try:
            self.assertEqual(self.numbers(self.loader()), self.numbers(self.loader(rank=1, world_size=3)))
        finally:
            del os.environ['RANK'], os.environ['WORLD_SIZE']

    def test_what_was_read_once_stays_in_the_cache(self):
        loader = self.loader(cache_size='100%')
        for _ in range(3):
            self.numbers(loader)
        report = loader.report()
        # Of later epochs, also of the one that is being prepared.
        self.assertEqual(report['cache_misses'], 50)
        self.assertGreaterEqual(report['cache_hits'], 100)
        self.assertEqual(report['failed'], 0)


    def test_the_short_last_batch_is_left_out_by_all_ranks_or_none(self):
        # The last 2 of 50 samples would be a whole batch of rank 0.
        for batch_size, length in ((2, 12), (8, 3), (13, 1), (25, 1), (26, 0)):
            parts = [self.loader(batch_size=batch_size, rank=rank, world_size=2, drop_last=True) for rank in range(2)]
            for _ in range(2):
                self.assertEqual([len(list(part)) for part in parts], [length, length], batch_size)
            self.assertEqual([len(part) for part in parts], [length, length])

    def test_ranks_without_a_sample_in_the_last_batch_are_told(self):
        with self.assertLogs('dsanalyze', 'WARNING') as logs:
            self.loader(batch_size=7, rank=0, world_size=7)
        self.assertIn('drop_last=True', logs.output[0])

    def test_ranks_have_parts_of_the_files_order(self):
        parts = [self.loader(shuffle=False, with_ids=True, rank=rank, world_size=2) for rank in range(2)]
        ids = [[batch[2].tolist() for batch in part] for part in parts]
        self.assertEqual(sum((one + other for one, other in zip(*ids)), []), list(range(50)))

    def test_an_epoch_that_is_chosen_begins_anew(self):
        loader = self.loader()
        first = self.numbers(loader)
        loader.set_epoch(0)
        next(iter(loader))
        loader.set_epoch(0)
        self.assertEqual(self.numbers(loader), first)
        loader.set_epoch(5)
        self.assertEqual((loader.epoch, loader.state_dict()['epoch']), (5, 5))
        other = self.loader()
        other.load_state_dict(loader.state_dict())
        self.assertEqual(self.numbers(other), self.numbers(loader))
        for wrong in (-1, 1 << 64, 1.5):
            with self.assertRaises(ValueError):
                loader.set_epoch(wrong)

    def test_a_script_of_sbatch_is_no_rank(self):
        os.environ.update(SLURM_PROCID='0', SLURM_NTASKS='4')
        try:
            self.assertEqual(len(self.loader()), 7)
            os.environ['SLURM_STEP_ID'] = '0'
            self.assertEqual(len(self.loader()), 2)
        finally:
            for name in ('SLURM_PROCID', 'SLURM_NTASKS', 'SLURM_STEP_ID'):
                os.environ.pop(name, None)


class Values(Case):
    samples = 9

    def test_values_and_layouts_are_as_asked_for(self):
        red = {}
        for dtype, layout, prep in (('uint8', 'nchw', dsanalyze.CenterCrop(side)), ('uint8', 'nhwc', dsanalyze.CenterCrop(side)),
                                    ('float32', 'nchw', dsanalyze.CenterCrop(side)),
                                    ('float32', 'nhwc', [dsanalyze.Resize(16), dsanalyze.CenterCrop(side), dsanalyze.Normalize((0.5,) * 3, (0.25,) * 3)])):
            loader = self.loader(batch_size=9, dtype=dtype, layout=layout, prep=prep, shuffle=False, with_ids=True)
            (images, labels, ids), = loader
            self.assertEqual(images.dtype, getattr(torch, dtype))
            self.assertEqual(tuple(images.shape), (9, 3, side, side) if layout == 'nchw' else (9, side, side, 3))
            self.assertTrue(images.is_contiguous())
            at = images[:, 0, 0, 0]
            red[dtype, layout] = at.tolist()
            self.assertEqual(ids.tolist(), list(range(9)))
        # In the order of the files: those of the first class first.
        in_order = [0, 3, 6, 1, 4, 7, 2, 5, 8]
        self.assertEqual(red['uint8', 'nchw'], in_order)
        self.assertEqual(red['uint8', 'nhwc'], in_order)
        for found, wanted in zip(red['float32', 'nchw'], in_order):
            self.assertAlmostEqual(found, wanted / 255, delta=1e-6)
        for found, wanted in zip(red['float32', 'nhwc'], in_order):
            self.assertAlmostEqual(found, (wanted / 255 - 0.5) / 0.25, delta=1e-5)

    def test_the_middle_of_a_resized_image_is_within_a_level_of_pillows(self):
        import torchvision
        folder = self.folder / 'photograph' / 'one'
        folder.mkdir(parents=True)
        generator = torch.Generator().manual_seed(1)
        smooth = torch.nn.functional.interpolate(torch.rand(1, 3, 9, 13, generator=generator), (300, 451), mode='bicubic').clamp(0, 1)[0]
        picture = torchvision.transforms.functional.to_pil_image(smooth)
        picture.save(folder / 'x.png')
        wanted = torchvision.transforms.functional.center_crop(torchvision.transforms.functional.resize(picture, 64, antialias=True), 56)
        with dsanalyze.Loader(folder.parent, 1, dtype='uint8', prep=[dsanalyze.Resize(64), dsanalyze.CenterCrop(56)]) as loader:
            (images, _), = loader
            levels = (images[0].int() - torchvision.transforms.functional.pil_to_tensor(wanted).int()).abs()
        self.assertLessEqual(int(levels.max()), 1)

    def test_batches_may_be_written_to_and_kept(self):
        loader = self.loader(batch_size=2)
        kept = []
        for images, labels in loader:
            images += 1
            kept.append((images, labels))
        self.assertEqual(sorted(number_of(image - 1) for images, _ in kept for image in images), list(range(9)))
        again = [images for images, _ in loader]
        self.assertEqual(sorted(number_of(image) for images in again for image in images), list(range(9)))
        loader.close()
        # What is kept stays; nothing more comes.
        self.assertEqual(sorted(number_of(image) for images in again for image in images), list(range(9)))
        with self.assertRaisesRegex(RuntimeError, 'closed'):
            next(iter(loader))

    def test_memory_goes_back_when_the_last_tensor_is_gone(self):
        loader = self.loader(batch_size=1)
        for _ in range(30):
            for images, _ in loader:
                one = images[0]
                del images
        del one
        gc.collect()
        self.assertEqual(len(loader._loan), 0)

    def test_numpy_arrays_and_buffers_are_the_same_batches(self):
        import numpy
        tensors = [images for images, _ in self.loader(batch_size=4)]
        arrays = [images for images, _ in self.loader(batch_size=4, output='numpy')]
        views = [images for images, _ in self.loader(batch_size=4, output='memoryview')]
        for tensor, array, view in zip(tensors, arrays, views):
            self.assertIsInstance(array, numpy.ndarray)
            self.assertTrue((tensor.numpy() == array).all())
            self.assertEqual(view.shape, tuple(tensor.shape))
            self.assertEqual(view.tobytes(), array.tobytes())
            self.assertEqual(memoryview(view).shape, view.shape)
            self.assertEqual(int(view[-1, 2, 0, 1]), int(tensor[-1, 2, 0, 1]))

    def test_every_kind_of_batch_supports_dlpack(self):
        import numpy
        for dtype in ('uint8', 'float32'):
            wanted = [(images.clone(), labels) for images, labels in self.loader(batch_size=4, dtype=dtype)]
            for output in ('torch', 'numpy', 'memoryview'):
                loader = self.loader(batch_size=4, dtype=dtype, output=output)
                for (images, labels), (same, numbers) in zip(loader, wanted):
                    self.assertEqual(images.__dlpack_device__()[0], 1)
                    for read in (torch.from_dlpack, numpy.from_dlpack):
                        self.assertTrue(numpy.array_equal(read(images), same))
                        self.assertTrue(numpy.array_equal(read(labels), numbers))
        for copy in (False, True):
            tensor = torch.utils.dlpack.from_dlpack(images.__dlpack__(copy=copy))
            tensor[0, 0, 0, 0] = 77
            self.assertEqual(images[0, 0, 0, 0] == 77, not copy)
            images[0][0][0][0] = 1
        for wrong in ({'stream': 1}, {'dl_device': (2, 0)}):
            with self.assertRaises(BufferError):
                images.__dlpack__(**wrong)

    def test_memory_stays_while_a_reader_by_dlpack_has_it(self):
        loader = self.loader(batch_size=1, output='memoryview')
        read = [torch.from_dlpack(images) for images, _ in loader]
        self.assertEqual(sorted(number_of(image[0]) for image in read), list(range(9)))
        self.assertEqual(len(loader._loan), 2)
        del read
        gc.collect()
        images, _ = next(iter(loader))
        capsule = images.__dlpack__()
        del images
        gc.collect()
        self.assertEqual(len(loader._loan), 1)
        del capsule  # No reader took it.
        gc.collect()
        self.assertEqual(len(loader._loan), 0)

    def test_a_reader_by_dlpack_may_outlive_the_interpreter(self):
        script = 'import builtins, sys, torch, dsanalyze\nloader = dsanalyze.Loader(sys.argv[1], 2, output="memoryview")\n' \
                 'images, labels = next(iter(loader))\nbuiltins.kept = [torch.from_dlpack(images), torch.from_dlpack(labels), images.__dlpack__()]\n'
        run = subprocess.run([sys.executable, '-c', script, self.folder / 'data'], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((run.returncode, run.stderr), (0, ''))

    def test_a_function_gets_each_finished_batch_and_what_it_raises_comes_out(self):
        loader = self.loader(batch_size=4, transform=lambda images, labels: {'x': images.float() / 255, 'y': labels})
        self.assertEqual([sorted(batch) for batch in loader], 3 * [['x', 'y']])
        calls = []

        def broken(images, labels):
            calls.append(len(labels))
            if len(calls) == 2:
                raise KeyError('mine')
            return images, labels

        failing = self.loader(batch_size=4, transform=broken)
        with self.assertRaises(KeyError):
            list(failing)
        gc.collect()
        self.assertEqual(len(failing._loan), 0)
        self.assertEqual(sum(len(labels) for _, labels in failing), 9)

    def test_a_child_of_fork_keeps_the_batch_that_it_had(self):
        loader = self.loader(batch_size=1)
        passing = iter(loader)
        images, _ = next(passing)
        number = number_of(images[0])
        out, into = os.pipe()
        child = os.fork()
        if child == 0:
            os.read(out, 1)
            os._exit(number_of(images[0]))
        del images
        for _ in range(3):
            list(loader)
        os.write(into, b'x')
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), number)

    def test_arrays_come_with_their_type_and_shape(self):
        import numpy
        for dtype in ('int64', 'float64', 'uint8', 'float32', 'int16', 'bool'):
            array = (numpy.arange(70) % 2 if dtype == 'bool' else numpy.arange(70)).reshape(10, 7).astype(dtype)
            numpy.save(self.folder / 'rows.npy', array)
            for output in ('torch', 'numpy'):
                with dsanalyze.Loader(self.folder / 'rows.npy', 4, shuffle=False, output=output) as loader:
                    rows = numpy.concatenate([numpy.asarray(batch) for batch, _ in loader])
                self.assertEqual((rows.dtype, rows.tolist()), (array.dtype, array.tolist()))
        for options in ({'dtype': 'float32'}, {'prep': dsanalyze.RandomResizedCrop(8)}):
            with self.assertRaisesRegex(ValueError, 'arrays'):
                dsanalyze.Loader(self.folder / 'rows.npy', 4, **options)
        numpy.save(self.folder / 'rows.npy', numpy.arange(70, dtype='uint32').reshape(10, 7))
        with self.assertRaisesRegex(ValueError, 'uint32|<u4'):
            dsanalyze.Loader(self.folder / 'rows.npy', 4, output='torch')

    def test_a_function_that_says_stop_iteration_does_not_end_the_pass(self):
        with self.assertRaisesRegex(RuntimeError, 'StopIteration'):
            list(self.loader(transform=lambda *_: next(iter(()))))


if __name__ == '__main__':
    unittest.main()
