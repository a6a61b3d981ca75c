"""dsanalyze.Loader with samples of sizes of their own: files as they are, and whole decoded images."""
import gc
import io
import json
import pathlib
import subprocess
import tempfile
import unittest

import numpy
import torch
from PIL import Image

import dsanalyze


def pixels_of(file):
    return numpy.asarray(Image.open(io.BytesIO(file)).convert('RGB'))


class OwnSizes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix='dsanalyze-test-'))
        generator = numpy.random.default_rng(1)
        for number in range(30):
            shape = (5 + number % 7, 11 + number % 3, 3) if number != 13 else (1900, 1700, 3)
            image = Image.fromarray(generator.integers(0, 256, shape, 'uint8'))
            if number % 5 == 1:
                image = image.convert('L')
            place = cls.folder / 'data' / f'class{number // 10}'
            place.mkdir(parents=True, exist_ok=True)
            image.save(place / f'{number:02}.{"jpg" if number % 4 == 3 else "webp" if number % 4 == 2 else "png"}', **({'lossless': True} if number % 4 == 2 else {}))
        cls.files = [path.read_bytes() for path in sorted((cls.folder / 'data').glob('*/*'))]

    @classmethod
    def tearDownClass(cls):
        subprocess.run(['rm', '-rf', cls.folder], check=True)

    def loader(self, prep, data='data', **options):
        loader = dsanalyze.Loader(self.folder / data, 8, prep=prep, with_ids=True, workers=2, **options)
        self.addCleanup(loader.close)
        return loader

    def test_encoded_samples_are_the_files_bytes(self):
        for output in ('torch', 'numpy', 'memoryview'):
            for cache in (None, '100%'):
                loader = self.loader(dsanalyze.Encoded(), output=output, cache_size=cache)
                self.assertEqual(len(loader), 4)
                for _ in range(3):
                    seen = {}
                    for files, labels, ids in loader:
                        self.assertIsInstance(files, list)
                        self.assertEqual(len(files), len(labels))
                        seen.update((number, memoryview(numpy.asarray(file)).tobytes()) for number, file in zip(ids.tolist(), files))
                        self.assertEqual([number // 10 for number in ids.tolist()], labels.tolist())
                    self.assertEqual([seen[number] for number in range(30)], self.files)

    def test_decoded_samples_are_whole_images(self):
        for output in ('torch', 'numpy', 'memoryview'):
            loader = self.loader(dsanalyze.Decoded(), output=output)
            seen = 0
            for images, _, ids in loader:
                for image, number in zip(images, ids.tolist()):
                    wanted = pixels_of(self.files[number])
                    self.assertEqual((tuple(image.shape), numpy.asarray(image).dtype), (wanted.shape, numpy.uint8))
                    self.assertLessEqual(numpy.abs(numpy.asarray(image).astype(int) - wanted).max(), 1)
                    seen += 1
            self.assertEqual(seen, 30)
            self.assertTrue(torch.from_dlpack(image).shape, wanted.shape)

    def test_a_state_in_mid_epoch_gives_the_very_same_samples(self):
        for prep in (dsanalyze.Encoded(), dsanalyze.Decoded()):
            whole = [(ids.tolist(), [numpy.asarray(each).tobytes() for each in samples]) for samples, _, ids in self.loader(prep)]
            for stop in (1, 3):
                loader = self.loader(prep)
                for _, _ in zip(range(stop), loader):
                    pass
                state = json.loads(json.dumps(loader.state_dict()))
                resumed = self.loader(prep)
                resumed.load_state_dict(state)
                taken = [(ids.tolist(), [numpy.asarray(each).tobytes() for each in samples]) for samples, _, ids in resumed]
                self.assertEqual(taken, whole[state['batch']:])

    def test_a_batchs_memory_goes_back_when_the_last_of_its_samples_is_gone(self):
        loader = self.loader(dsanalyze.Encoded())
        kept = []
        for _ in range(10):
            for files, _, ids in loader:
                kept.append((files[-1], ids.tolist()[-1]))
        for file, number in kept:
            self.assertEqual(file.numpy().tobytes(), self.files[number])
        self.assertEqual(len(loader._loan), 2)
        del file, files, kept
        gc.collect()
        self.assertEqual(len(loader._loan), 0)
        passing = iter(loader)
        files, _, ids = next(passing)
        files[0] += 1
        loader.close()
        self.assertEqual(files[1].numpy().tobytes(), self.files[ids.tolist()[1]])

    def test_images_that_cannot_be_decoded_are_left_out_and_their_bytes_are_not(self):
        for number in range(12):
            place = self.folder / 'torn' / 'one'
            place.mkdir(parents=True, exist_ok=True)
            (place / f'{number}.png').write_bytes(self.files[0] if number != 5 else self.files[0][:60])
        self.assertEqual(sum(len(images) for images, _, _ in self.loader(dsanalyze.Decoded(), 'torn')), 11)
        self.assertEqual(sum(len(images) for images, _, _ in self.loader(dsanalyze.Decoded(), 'torn', on_error='substitute')), 12)
        self.assertEqual(sorted(len(file) for files, _, _ in self.loader(dsanalyze.Encoded(), 'torn') for file in files)[0], 60)

    def test_what_does_not_go_together_is_refused(self):
        numpy.save(self.folder / 'rows.npy', numpy.zeros((9, 4), 'uint8'))
        for prep, options, name in ((dsanalyze.Decoded(), {'dtype': 'float32'}, 'dtype'), ([dsanalyze.Decoded(), dsanalyze.HorizontalFlip()], {}, 'stand alone'),
                                    ([dsanalyze.Encoded(), dsanalyze.Normalize()], {}, 'prep'), (dsanalyze.Encoded(), {'data': 'rows.npy'}, 'arrays')):
            with self.assertRaisesRegex(ValueError, name):
                self.loader(prep, **options)


if __name__ == '__main__':
    unittest.main()
