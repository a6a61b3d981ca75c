"""dsanalyze.Loader as training scripts use it."""
import ctypes
import gc
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
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
            self.assertTrue((torch.from_dlpack(array) == tensor).all())

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


class Resuming(Case):
    def test_an_interrupted_wait_loses_no_batch(self):
        loader = self.loader(batch_size=2)
        seen = []
        passing = iter(loader)
        interrupts = 0

        def interrupt(*_):
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            while True:
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.0005 + 0.0001 * (len(seen) % 7))
                    images, _ = next(passing)
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except KeyboardInterrupt:
                    interrupts += 1
                    state = loader.state_dict()
                    self.assertEqual(2 * state['batch'] if state['epoch'] == 0 else 50, len(seen))
                    continue
                except StopIteration:
                    break
                seen += [number_of(image) for image in images]
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        self.assertEqual(sorted(seen), list(range(50)))

    def test_a_state_behind_the_last_whole_batch_is_the_next_epochs_begin(self):
        loader = self.loader(drop_last=True)
        passing = iter(loader)
        for _ in range(6):
            next(passing)
        state = loader.state_dict()
        self.assertEqual((state['epoch'], state['batch']), (1, 0))
        resumed = self.loader(rank=0, world_size=2, drop_last=True)
        resumed.load_state_dict(state)
        self.assertEqual(len(list(resumed)), 3)
        self.assertEqual([len(list(loader)) for _ in range(2)], [6, 6])


    def test_a_state_in_mid_epoch_gives_the_very_same_batches(self):
        whole = self.loader(prep=dsanalyze.RandomResizedCrop(side))
        wanted = [images.clone() for _ in range(2) for images, _ in whole]
        for stop in (0, 1, 3, 6, 7, 9):
            loader = self.loader()
            taken = 0
            while taken < stop:
                for _ in loader:
                    taken += 1
                    if taken == stop:
                        break
            state = json.loads(json.dumps(loader.state_dict()))
            loader.close()
            resumed = self.loader()
            resumed.load_state_dict(state)
            rest = [images for images, _ in resumed]
            if stop < 7:
                rest += [images for images, _ in resumed]
            self.assertEqual(len(rest), 14 - stop)
            for one, other in zip(rest, wanted[stop:]):
                self.assertTrue(torch.equal(one, other), stop)

    def test_another_number_of_ranks_goes_on_from_an_epochs_begin_alone(self):
        alone = self.loader()
        list(alone)
        at_begin = alone.state_dict()
        next(iter(alone))
        in_between = alone.state_dict()
        second = self.numbers(alone) and None
        del second
        parts = [self.loader(rank=rank, world_size=2) for rank in range(2)]
        for part in parts:
            part.load_state_dict(at_begin)
            self.assertEqual(part.epoch, 1)
        self.assertEqual(sorted(sum((self.numbers(part) for part in parts), [])), list(range(50)))
        with self.assertRaisesRegex(ValueError, 'middle of an epoch'):
            parts[0].load_state_dict(in_between)

    def test_a_state_that_does_not_fit_is_refused_with_the_reason(self):
        loader = self.loader()
        next(iter(loader))
        state = loader.state_dict()
        with self.assertRaisesRegex(ValueError, 'batches of 8'):
            self.loader(batch_size=4).load_state_dict(state)
        with self.assertRaisesRegex(ValueError, 'order'):
            self.loader(shuffle=False).load_state_dict(state)
        with self.assertRaisesRegex(ValueError, 'seed 1, and this loader has seed 2'):
            self.loader(seed=2).load_state_dict(state)
        made_images(self.folder / 'other', 20)
        with dsanalyze.Loader(self.folder / 'other', 8, prep=dsanalyze.RandomResizedCrop(side)) as other:
            with self.assertRaisesRegex(ValueError, '50 samples'):
                other.load_state_dict(state)
        passing = iter(self.loader())
        for wrong in ({}, {'version': 1}, {**state, 'version': 7}, None, {**state, 'sampler': 'x'}, {**state, 'sampler': 3}, {**state, 'batch': 'two'}):
            with self.assertRaises(ValueError):
                loader.load_state_dict(wrong)
            with self.assertRaises(ValueError):
                passing._loader.load_state_dict(wrong)
            next(passing)  # A refused state changes nothing.
        self.assertEqual(len(list(loader)), 7)


class Failures(Case):
    samples = 20

    def test_wrong_arguments_are_refused_by_name(self):
        for options, name in (({'batch_size': 0}, 'batch_size'), ({'batch_size': 2.5}, 'batch_size'), ({'dtype': 'float16'}, 'dtype'), ({'layout': 'chw'}, 'layout'),
                              ({'workers': -1}, 'workers'), ({'cache_size': 'much'}, 'much'), ({'rank': 1}, 'rank'), ({'rank': 3, 'world_size': 2}, 'rank'),
                              ({'on_error': 'ignore'}, 'on_error'), ({'output': 'jax'}, 'output'), ({'prep': []}, 'prep'), ({'seed': -1}, 'seed'),
                              ({'prep': [dsanalyze.HorizontalFlip(), dsanalyze.RandomResizedCrop(8)]}, 'prep'), ({'prep': dsanalyze.RandomResizedCrop(0)}, 'size'),
                              ({'prep': [dsanalyze.Resize(4), dsanalyze.CenterCrop(8)]}, 'resize'), ({'prep': [dsanalyze.RandomResizedCrop(8), dsanalyze.Normalize()]}, 'Normalize')):
            with self.subTest(options), self.assertRaisesRegex(ValueError, name):
                self.loader(**options)
        with self.assertRaisesRegex(TypeError, 'transform='):
            self.loader(prep=lambda image: image)

    def test_numbers_of_other_libraries_are_numbers(self):
        import numpy
        loader = self.loader(batch_size=numpy.int64(4), seed=numpy.uint8(3), rank=numpy.int32(0), world_size=numpy.int64(1), workers=numpy.int16(1),
                             prep=[dsanalyze.RandomResizedCrop(numpy.int64(side)), dsanalyze.Normalize(numpy.array([0.5, 0.5, 0.5]), 0.5)], dtype='float32')
        self.assertEqual(len(list(loader)), 5)
        with self.assertRaisesRegex(TypeError, '"35%"'):
            self.loader(cache_size=0.35)
        with self.assertRaisesRegex(ValueError, 'scale'):
            dsanalyze.RandomResizedCrop(8, scale=(float('nan'), 1))
        with dsanalyze.Loader(os.fsencode(self.folder / 'data'), 4, prep=dsanalyze.RandomResizedCrop(side)) as of_bytes:
            self.assertEqual(of_bytes.samples, 20)
        with self.assertRaisesRegex(FileNotFoundError, 'index'):
            self.loader(index='/no/such.dsidx')

    def test_a_loader_cannot_be_copied(self):
        import copy
        import pickle
        loader = self.loader()
        for way in (copy.copy, copy.deepcopy, pickle.dumps):
            with self.assertRaisesRegex(TypeError, 'make another one'):
                way(loader)

    def test_a_pass_that_another_thread_ends_says_so(self):
        for end in (lambda loader, _: loader.close(), lambda loader, state: loader.load_state_dict(state)):
            loader = self.loader(batch_size=1)
            state = loader.state_dict()
            passing = iter(loader)
            next(passing)
            timer = threading.Timer(0.05, end, (loader, state))
            timer.start()
            with self.assertRaisesRegex(RuntimeError, 'closed|another pass|go on elsewhere'):
                for _ in passing:
                    time.sleep(0.02)
            timer.join()

    def test_a_thread_that_the_end_of_the_script_surprises_is_silent(self):
        script = self.run_script('import threading\nloader = dsanalyze.Loader(sys.argv[1], 2)\ndef run():\n  while True:\n    for batch in loader: pass\n'
                                 'threading.Thread(target=run, daemon=True).start()\ntime.sleep(0.3)\n')
        _, error = script.communicate(timeout=60)
        self.assertEqual((script.returncode, error), (0, ''))

    def test_a_folder_that_is_not_there_or_holds_nothing_is_named(self):
        with self.assertRaisesRegex(FileNotFoundError, 'no/such'):
            dsanalyze.Loader('/no/such')
        (self.folder / 'empty').mkdir()
        with self.assertRaisesRegex(dsanalyze.LoaderError, 'empty'):
            dsanalyze.Loader(self.folder / 'empty')

    def test_samples_that_cannot_be_decoded_are_left_out_or_end_the_pass(self):
        folder = self.folder / 'torn'
        made_images(folder, 40)
        torn = folder / 'class1' / '00004.png'
        torn.write_bytes(torn.read_bytes()[:40])
        options = {'prep': dsanalyze.RandomResizedCrop(side), 'dtype': 'uint8'}
        with dsanalyze.Loader(folder, 8, **options) as loader:
            self.assertEqual(sorted(self.numbers(loader)), [each for each in range(40) if each != 4])
            failure, = loader.report()['failures']
            self.assertTrue(failure['path'].endswith('00004.png'))
        with dsanalyze.Loader(folder, 8, on_error='substitute', **options) as loader:
            self.assertEqual(len(self.numbers(loader)), 40)
        with dsanalyze.Loader(folder, 8, on_error='fail', **options) as loader:
            with self.assertRaisesRegex(dsanalyze.LoaderError, '00004.png'):
                for _ in range(2):
                    list(loader)

    def test_files_that_vanish_in_mid_epoch_end_it_with_their_names(self):
        folder = self.folder / 'vanishing'
        made_images(folder, 400)
        with dsanalyze.Loader(folder, 4, prep=dsanalyze.RandomResizedCrop(side), dtype='uint8') as loader:
            passing = iter(loader)
            next(passing)
            subprocess.run(['rm', '-r', folder], check=True)
            with self.assertRaisesRegex(dsanalyze.LoaderError, 'png'):
                for _ in range(3):
                    list(passing)
                    passing = iter(loader)

    def test_a_child_of_fork_cannot_use_it_and_takes_nothing_from_it(self):
        loader = self.loader(batch_size=2)
        passing = iter(loader)
        images, _ = next(passing)
        child = os.fork()
        if child == 0:
            try:
                next(passing)
            except RuntimeError as error:
                del images
                gc.collect()
                loader.close()
                os._exit(17 if 'fork' in str(error) else 3)
            os._exit(4)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 17)
        self.assertEqual(sum(len(labels) for _, labels in passing), 18)

    def test_two_loaders_do_not_disturb_each_other(self):
        pair = [self.loader(batch_size=4), self.loader(batch_size=4, seed=5)]
        together = [[], []]
        for batches in zip(*pair):
            for at, (images, _) in enumerate(batches):
                together[at] += [number_of(image) for image in images]
        self.assertEqual([sorted(each) for each in together], 2 * [list(range(20))])

    def run_script(self, text, **options):
        return subprocess.Popen([sys.executable, '-c', 'import dsanalyze, sys, time\n' + text, str(self.folder / 'data')], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, **options)

    def test_a_script_that_ends_in_mid_epoch_ends_at_once_and_leaves_nothing(self):
        for end in ('', 'sys.exit(3)', 'raise ValueError("mine")', 'import os; os._exit(4)', 'import os, signal; os.kill(os.getpid(), signal.SIGKILL)'):
            script = self.run_script(f'loader = dsanalyze.Loader(sys.argv[1], 2)\nkept = []\nfor batch in loader:\n  kept.append(batch)\n  if len(kept) == 3: break\n{end}\n')
            began = time.monotonic()
            _, error = script.communicate(timeout=60)
            self.assertEqual(script.returncode, {'': 0, 'sys.exit(3)': 3, 'raise ValueError("mine")': 1, 'import os; os._exit(4)': 4}.get(end, -9), error)
            self.assertLess(time.monotonic() - began, 50)
            if end != 'raise ValueError("mine")':
                self.assertEqual(error, '')

    def test_ctrl_c_ends_a_pass_at_once(self):
        script = self.run_script('loader = dsanalyze.Loader(sys.argv[1], 2)\nprint("on", flush=True)\nwhile True:\n  for batch in loader: time.sleep(0.01)\n')
        self.assertEqual(script.stdout.readline(), 'on\n')
        script.send_signal(signal.SIGINT)
        _, error = script.communicate(timeout=30)
        self.assertIn('KeyboardInterrupt', error)
        self.assertEqual(script.returncode, -signal.SIGINT)

    def test_importing_the_package_imports_nothing_else(self):
        text = 'before = set(sys.modules)\nimport dsanalyze\nprint(sorted(set(sys.modules) - before))'
        run = subprocess.run([sys.executable, '-c', 'import sys, os\n' + text], capture_output=True, text=True, check=True)
        self.assertEqual(run.stdout.strip(), "['dsanalyze']")

    def test_what_the_library_refuses_is_refused_with_its_words(self):
        from dsanalyze import _library
        library = _library.library()
        handle = ctypes.c_void_p()
        for options in (b'', b'{', b'{"settings": {}}', b'{"settings": {"dataset": "/tmp", "batchsize": 3}}', b'{"settings": {"dataset": "/tmp"}, "held": 0}'):
            self.assertEqual(library.dsa_loader_open(options, ctypes.byref(handle)), _library.INVALID, options)
            self.assertIn('options', _library.last_error())
            self.assertIsNone(handle.value)
        self.assertEqual(library.dsa_loader_release(ctypes.c_void_p(77), 1), _library.INVALID)
        loader = self.loader(batch_size=2)
        size = ctypes.c_size_t(3)
        room = ctypes.create_string_buffer(3)
        self.assertEqual(library.dsa_loader_state(loader._source.handle, 0, 1, room, ctypes.byref(size)), _library.INVALID)
        self.assertGreater(size.value, 3)
        size.value = 0
        self.assertEqual(library.dsa_loader_state(loader._source.handle, 0, 11, None, ctypes.byref(size)), _library.INVALID)
        next(iter(loader))
        self.assertEqual(library.dsa_loader_release(loader._source.handle, 999), _library.INVALID)


if __name__ == '__main__':
    unittest.main()
