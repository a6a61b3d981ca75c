"""Images a second into torch tensors: dsanalyze.Loader beside other loaders, on the same files with the same augmentation.

usage: loaders.py --photos FOLDER [--cores 1,2] [--rounds 5] [--seconds 8] [--warm-up 8] [--only NAMES] [--dtype float32,uint8] [--program dsanalyze] [--json FILE] [--work FOLDER]

WebDataset reads tar shards of the same files. FFCV reads its own file, as its ImageNet example writes one: images of more than 500 pixels are made smaller, and half of
them are stored as pixels, so that it has less to decode than the others. Both are made once, in --work. tf.data resizes with antialiasing after it cut while it decoded.

Each loader makes batches of 256 of RandomResizedCrop(224) with antialiasing, HorizontalFlip and, for float32, Normalize, in layout NCHW, from a folder of class
folders that lies in the page cache. Each measurement is a process of its own on so many cores (affinity), with as many workers or threads as cores, as each
loader's own pages recommend; the loaders take turns, `--rounds` times. A loader whose package is not installed is named and left out. With --program,
`profile --runs prep` takes part. What a loader does in its first seconds (--warm-up) is not counted: the system clears its memory then, which a virtual machine may
have to get from its host. Let nothing else run.
"""
import argparse
import contextlib
import importlib.util
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

batch_size = 256
size = 224
mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def ours(folder, cores, dtype, cache_size=None):
    import dsanalyze
    prep = [dsanalyze.RandomResizedCrop(size), dsanalyze.HorizontalFlip()] + ([dsanalyze.Normalize(mean, std)] if dtype == 'float32' else [])
    loader = dsanalyze.Loader(folder, batch_size, prep=prep, dtype=dtype, workers=cores, cache_size=cache_size)
    while True:
        yield from loader


def ours_cached(folder, cores, dtype):
    """The samples lie in the loader's own cache after the first epoch, as in a run prep: nothing is read."""
    return ours(folder, cores, dtype, '100%')


def _forever(loader):
    while True:
        yield from loader


def _data_loader(dataset, cores):
    from torch.utils.data import DataLoader
    # On one core a worker would only take turns with the process; both ways were tried there, and a worker was the faster one.
    return _forever(DataLoader(dataset, batch_size, shuffle=True, num_workers=cores, persistent_workers=True, prefetch_factor=2))


def torchvision_pil(folder, cores, dtype):
    """The examples' way: Pillow decodes, transforms on Pillow images."""
    from torchvision import datasets, transforms
    steps = [transforms.RandomResizedCrop(size), transforms.RandomHorizontalFlip()]
    steps += [transforms.ToTensor(), transforms.Normalize(mean, std)] if dtype == 'float32' else [transforms.PILToTensor()]
    return _data_loader(datasets.ImageFolder(folder, transforms.Compose(steps)), cores)


def torchvision_v2(folder, cores, dtype):
    """torchvision's decoder and transforms v2 on tensors of bytes, normalised last: what its pages call the fast way."""
    import torch
    from torchvision import datasets, io
    from torchvision.transforms import v2
    torch.set_num_threads(1)
    steps = [v2.RandomResizedCrop(size, antialias=True), v2.RandomHorizontalFlip()]
    if dtype == 'float32':
        steps += [v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, std)]
    return _data_loader(datasets.ImageFolder(folder, v2.Compose(steps), loader=lambda path: io.decode_image(path, mode=io.ImageReadMode.RGB)), cores)


def opencv(folder, cores, dtype):
    """OpenCV decodes, cuts and resizes (INTER_AREA, which averages, where it makes smaller)."""
    import cv2
    import numpy
    import torch
    from torchvision import datasets, transforms
    cv2.setNumThreads(0)
    a_mean, a_std = numpy.array(mean, numpy.float32) * 255, numpy.array(std, numpy.float32) * 255

    def read(path):
        return cv2.cvtColor(cv2.imread(path, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)

    def augment(image):
        height, width = image.shape[:2]
        top, left, tall, wide = transforms.RandomResizedCrop.get_params(torch.empty(1, height, width), (0.08, 1.0), (3 / 4, 4 / 3))
        cut = image[top:top + tall, left:left + wide]
        cut = cv2.resize(cut, (size, size), interpolation=cv2.INTER_AREA if tall > size or wide > size else cv2.INTER_LINEAR)
        if torch.rand(1) < 0.5:
            cut = cv2.flip(cut, 1)
        if dtype == 'float32':
            cut = (cut.astype(numpy.float32) - a_mean) / a_std
        return torch.from_numpy(numpy.ascontiguousarray(cut.transpose(2, 0, 1)))

    return _data_loader(datasets.ImageFolder(folder, augment, loader=read), cores)


def dali(folder, cores, dtype):
    from nvidia.dali import fn, pipeline_def, types
    from nvidia.dali.plugin.pytorch import DALIGenericIterator, LastBatchPolicy

    @pipeline_def(batch_size=batch_size, num_threads=cores, device_id=None)
    def pipe():
        encoded, labels = fn.readers.file(file_root=folder, random_shuffle=True, name='reader')
        images = fn.decoders.image_random_crop(encoded, device='cpu', random_area=[0.08, 1.0], random_aspect_ratio=[3 / 4, 4 / 3])
        images = fn.resize(images, size=(size, size), antialias=True, interp_type=types.INTERP_LINEAR)
        mirror = fn.random.coin_flip()
        if dtype == 'float32':
            images = fn.crop_mirror_normalize(images, mirror=mirror, dtype=types.FLOAT, output_layout='CHW', mean=[255 * each for each in mean], std=[255 * each for each in std])
        else:
            images = fn.crop_mirror_normalize(images, mirror=mirror, dtype=types.UINT8, output_layout='CHW', mean=[0.0], std=[1.0])
        return images, labels

    pipeline = pipe()
    pipeline.build()
    iterator = DALIGenericIterator([pipeline], ['images', 'labels'], reader_name='reader', last_batch_policy=LastBatchPolicy.PARTIAL, auto_reset=True)
    return ((batch[0]['images'], batch[0]['labels']) for batch in _forever(iterator))


def spdl(folder, cores, dtype):
    import random
    import torch
    import spdl.io
    from spdl.pipeline import PipelineBuilder
    from torchvision import datasets
    from torchvision.transforms import v2
    torch.set_num_threads(1)
    paths = datasets.ImageFolder(folder).samples
    augment = v2.Compose([v2.RandomResizedCrop(size, antialias=True), v2.RandomHorizontalFlip()] +
                         ([v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, std)] if dtype == 'float32' else []))

    def source():
        while True:
            yield from random.sample(paths, len(paths))

    def decode(sample):
        packets = spdl.io.demux_image(sample[0])
        frames = spdl.io.decode_packets(packets, filter_desc='format=pix_fmts=rgb24')
        array = spdl.io.to_numpy(spdl.io.convert_frames(frames))
        return augment(torch.from_numpy(array).permute(2, 0, 1)), sample[1]

    def collate(samples):
        return torch.stack([image for image, _ in samples]), torch.tensor([label for _, label in samples])

    pipeline = PipelineBuilder().add_source(source()).pipe(decode, concurrency=cores).aggregate(batch_size).pipe(collate).add_sink(3).build(num_threads=cores + 1)

    def batches():
        with pipeline.auto_stop():
            yield from pipeline

    return batches()


def webdataset(folder, cores, dtype):
    """As its pages recommend for ImageNet: shards, a shuffle buffer, decoding and transforms in workers, batches of the workers unbatched and shuffled."""
    import webdataset as wds
    from torchvision import transforms
    steps = [transforms.RandomResizedCrop(size), transforms.RandomHorizontalFlip()]
    steps += [transforms.ToTensor(), transforms.Normalize(mean, std)] if dtype == 'float32' else [transforms.PILToTensor()]
    shards = sorted(str(path) for path in work.glob('*.tar'))
    dataset = wds.WebDataset(shards, resampled=True, shardshuffle=False, nodesplitter=None).shuffle(1000).decode('pil').to_tuple('jpg', 'cls')
    dataset = dataset.map_tuple(transforms.Compose(steps), int).batched(64)
    return iter(wds.WebLoader(dataset, batch_size=None, num_workers=cores).unbatched().shuffle(1000).batched(batch_size))


def make_shards(folder):
    import webdataset as wds
    from torchvision import datasets
    with wds.ShardWriter(str(work / 'photos-%06d.tar'), maxcount=200, verbose=0) as writer:
        for number, (path, label) in enumerate(datasets.ImageFolder(folder).samples):
            writer.write({'__key__': f'{number:08}', 'jpg': pathlib.Path(path).read_bytes(), 'cls': label})


def tf_data(folder, cores, dtype):
    """As its guide on performance recommends: a parallel map that decodes the crop alone, batch, prefetch. Arrays of NumPy, as TensorFlow and PyTorch do not start in one
    process; torch.from_numpy() would copy nothing."""
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(cores)
    samples = [(str(path), label) for label, place in enumerate(sorted(each for each in pathlib.Path(folder).iterdir() if each.is_dir())) for path in sorted(place.iterdir())]
    whole_image = tf.zeros([1, 0, 4])

    def augment(path, label):
        encoded = tf.io.read_file(path)
        begin, extent, _ = tf.image.sample_distorted_bounding_box(tf.image.extract_jpeg_shape(encoded), whole_image, area_range=(0.08, 1.0), aspect_ratio_range=(3 / 4, 4 / 3),
                                                                  min_object_covered=0.0, max_attempts=10, use_image_if_no_bounding_boxes=True)
        image = tf.image.decode_and_crop_jpeg(encoded, tf.concat([begin[:2], extent[:2]], 0), channels=3)
        image = tf.image.random_flip_left_right(tf.image.resize(image, (size, size), antialias=True))
        image = (image / 255 - mean) / std if dtype == 'float32' else tf.cast(tf.clip_by_value(tf.round(image), 0, 255), tf.uint8)
        return tf.transpose(image, (2, 0, 1)), label

    dataset = tf.data.Dataset.from_tensor_slices(([path for path, _ in samples], [label for _, label in samples])).shuffle(len(samples)).repeat()
    dataset = dataset.map(augment, num_parallel_calls=cores, deterministic=False).batch(batch_size).prefetch(tf.data.AUTOTUNE)
    options = tf.data.Options()
    options.threading.private_threadpool_size = cores
    return dataset.with_options(options).as_numpy_iterator()


def ffcv(folder, cores, dtype):
    """The pipeline of its ImageNet example, on the CPU."""
    import numpy
    from ffcv import loader, transforms
    from ffcv.fields import basics, rgb_image
    steps = [rgb_image.RandomResizedCropRGBImageDecoder((size, size)), transforms.RandomHorizontalFlip()]
    if dtype == 'float32':
        steps.append(transforms.NormalizeImage(numpy.array(mean) * 255, numpy.array(std) * 255, numpy.float32))
    steps += [transforms.ToTensor(), transforms.ToTorchImage(convert_back_int16=False)]
    labels = [basics.IntDecoder(), transforms.ToTensor(), transforms.Squeeze()]
    return _forever(loader.Loader(str(work / 'photos.beton'), batch_size, num_workers=cores, order=loader.OrderOption.RANDOM, os_cache=True, drop_last=True,
                                  pipelines={'image': steps, 'label': labels}))


def make_beton(folder):
    from ffcv.fields import IntField, RGBImageField
    from ffcv.writer import DatasetWriter
    from torchvision import datasets
    image = RGBImageField(write_mode='proportion', max_resolution=500, compress_probability=0.5, jpeg_quality=90)
    DatasetWriter(str(work / 'photos.beton'), {'image': image, 'label': IntField()}, num_workers=1).from_indexed_dataset(datasets.ImageFolder(folder))


loaders = {'dsanalyze': ours, 'dsanalyze, cached': ours_cached, 'torchvision, Pillow': torchvision_pil, 'torchvision v2': torchvision_v2, 'OpenCV': opencv, 'DALI': dali, 'SPDL': spdl, 'WebDataset': webdataset,
           'tf.data': tf_data, 'FFCV': ffcv}
needs = {'dsanalyze': 'dsanalyze', 'dsanalyze, cached': 'dsanalyze', 'torchvision, Pillow': 'torchvision', 'torchvision v2': 'torchvision.transforms.v2', 'OpenCV': 'cv2', 'DALI': 'nvidia.dali', 'SPDL': 'spdl',
         'WebDataset': 'webdataset', 'tf.data': 'tensorflow', 'FFCV': 'ffcv'}
# What some read instead of the files: a file that is there once it is made, and what makes it.
made_of = {'WebDataset': ('photos-000000.tar', make_shards), 'FFCV': ('photos.beton', make_beton)}
work = pathlib.Path()  # Where that is.


def installed(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def measure(name, folder, cores, dtype, seconds, warm_up):
    """In this process: samples a second after two batches a core, and after `warm_up` seconds."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    if name != 'tf.data':
        import torch
        torch.set_num_threads(1)
    warm = time.perf_counter() + warm_up
    batches = loaders[name](folder, cores, dtype)
    for number, (images, labels) in enumerate(batches, 1):
        assert tuple(images.shape[1:]) == (3, size, size) and str(images.dtype).endswith(dtype), (images.shape, images.dtype)
        if number >= 2 * cores + 2 and time.perf_counter() >= warm:
            break
    begin = time.perf_counter()
    samples = 0
    for images, labels in batches:
        samples += len(images)
        if time.perf_counter() - begin > seconds:
            break
    return samples / (time.perf_counter() - begin)


def prep_run(program, folder, cores, dtype, seconds):
    record = pathlib.Path(f'/tmp/loaders-prep-{os.getpid()}.json')
    subprocess.run([program, 'profile', folder, '--runs', 'prep', '--accelerator', 'null', '--dtype', dtype, '--batch-size', str(batch_size), '--cores', str(cores),
                    '--time-budget', f'{seconds + 5}s', '-o', record, '--quiet'], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    rate = json.loads(record.read_text())['rates']['P']['samples_per_s']
    record.unlink()
    return rate


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--photos', required=True)
    parser.add_argument('--cores', default='1,2')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--seconds', type=float, default=8)
    parser.add_argument('--warm-up', type=float, default=8, metavar='SECONDS')
    parser.add_argument('--only')
    parser.add_argument('--dtype', default='float32,uint8')
    parser.add_argument('--program')
    parser.add_argument('--json', type=pathlib.Path)
    parser.add_argument('--work', type=pathlib.Path, help='for what WebDataset and FFCV read; it is kept (default: a temporary folder)')
    parser.add_argument('--measure', help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        global work
        work = arguments.work or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        work.mkdir(exist_ok=True)
        run(arguments)


def run(arguments):
    if arguments.measure:
        print(measure(arguments.measure, arguments.photos, int(arguments.cores), arguments.dtype, arguments.seconds, arguments.warm_up))
        return
    names = [name for name in loaders if (not arguments.only or name in arguments.only.split(';')) and installed(needs[name])]
    print('not installed:', ', '.join(name for name in loaders if not installed(needs[name])) or 'none')
    subprocess.run(f'cat {arguments.photos}/*/* > /dev/null', shell=True, check=True)
    for name, (file, make) in made_of.items():
        if name in names and not (work / file).exists():
            make(arguments.photos)
    rows = {}
    for at, cores, dtype in itertools.product(range(arguments.rounds), map(int, arguments.cores.split(',')), arguments.dtype.split(',')):
        for name in [*names, *(['profile --runs prep'] if arguments.program else [])][::1 if at % 2 else -1]:
            if name not in names:
                rate = prep_run(arguments.program, arguments.photos, cores, dtype, arguments.seconds)
            else:
                # One that stands still is killed, and left out.
                measured = subprocess.run(['timeout', '120', sys.executable, __file__, '--photos', arguments.photos, '--measure', name, '--cores', str(cores), '--dtype', dtype, '--seconds',
                                      str(arguments.seconds), '--warm-up', str(arguments.warm_up), '--work', work], capture_output=True, text=True, check=False)
                if measured.returncode:
                    print(f'{name}: FAILED, exit status {measured.returncode}: {measured.stderr.strip().splitlines()[-1:]}', flush=True)
                    names.remove(name)
                    continue
                rate = float(measured.stdout.split()[-1])
            rows.setdefault((name, cores, dtype), []).append(rate)
    for (name, cores, dtype), rates in sorted(rows.items(), key=lambda row: (row[0][1], row[0][2], -statistics.median(row[1]))):
        # Nothing is read in a run prep.
        own_name = 'dsanalyze, cached' if name == 'profile --runs prep' and ('dsanalyze, cached', cores, dtype) in rows else 'dsanalyze'
        mine = rows.get((own_name, cores, dtype))
        ratio = [own / other for own, other in zip(mine, rates)] if mine and not name.startswith('dsanalyze') else []
        told = f'  {own_name} is {statistics.median(ratio):.2f}x [{min(ratio):.2f}, {max(ratio):.2f}]' if ratio else ''
        print(f'{cores} core{"s" if cores > 1 else " "} {dtype:<8} {name:<20} {statistics.median(rates):7.0f} images/s [{min(rates):.0f}, {max(rates):.0f}]{told}')
    if arguments.json:
        arguments.json.write_text(json.dumps([{'loader': name, 'cores': cores, 'dtype': dtype, 'images_per_s': rates} for (name, cores, dtype), rates in rows.items()], indent=1))


if __name__ == '__main__':
    main()
