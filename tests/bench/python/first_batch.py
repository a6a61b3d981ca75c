"""Seconds until a script has the first batch of a large folder of images: dsanalyze.Loader beside ImageFolder with a DataLoader.

usage: first_batch.py --folder FOLDER [--files 1281167] [--classes 1000] [--rounds 3] [--program dsanalyze] [--only NAMES]

FOLDER is made if it is not there: so many hard links to small images, in class folders. What it takes to list them is part of the time; importing libraries is not. The
folder's entries are in memory after the first round. With --program, an index is made once, and the loader is measured with it too. Let nothing else run.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

batch_size = 256
most_links = 30_000


def made(folder, files, classes):
    from PIL import Image
    import random
    generator = random.Random(1)
    original = None
    for number in range(files):
        place = folder / f'class{number % classes:04}'
        if number < classes:
            place.mkdir(parents=True)
        path = place / f'{number:08}.jpg'
        if number % most_links == 0:
            original = path
            Image.frombytes('RGB', (40, 30), generator.randbytes(3600)).save(original)
        else:
            os.link(original, path)


def ours(folder, index=None):
    import dsanalyze
    import torch
    assert torch.get_num_threads()  # Imported before, as for the others.
    begin = time.perf_counter()
    with dsanalyze.Loader(folder, batch_size, prep=dsanalyze.RandomResizedCrop(224), index=index) as loader:
        images, labels = next(iter(loader))
        return time.perf_counter() - begin, images.shape


def image_folder(folder):
    import torch.utils.data
    from torchvision import datasets, transforms
    begin = time.perf_counter()
    dataset = datasets.ImageFolder(folder, transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()]))
    loader = torch.utils.data.DataLoader(dataset, batch_size, shuffle=True, num_workers=len(os.sched_getaffinity(0)))
    images, labels = next(iter(loader))
    return time.perf_counter() - begin, images.shape


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--folder', type=pathlib.Path, required=True)
    parser.add_argument('--files', type=int, default=1_281_167)
    parser.add_argument('--classes', type=int, default=1000)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--program')
    parser.add_argument('--only')
    parser.add_argument('--measure', help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    index = arguments.folder.with_suffix('.dsidx')
    ways = {'dsanalyze': lambda: ours(arguments.folder), 'dsanalyze, index': lambda: ours(arguments.folder, index), 'ImageFolder': lambda: image_folder(arguments.folder)}
    if arguments.measure:
        seconds, shape = ways[arguments.measure]()
        assert tuple(shape) == (batch_size, 3, 224, 224), shape
        print(seconds)
        return
    if not arguments.folder.exists():
        made(arguments.folder, arguments.files, arguments.classes)
    if arguments.program:
        begin = time.perf_counter()
        subprocess.run([arguments.program, 'dataset', 'index', arguments.folder, '--index', index], check=True, stdout=subprocess.DEVNULL)
        print(f'the index was made in {time.perf_counter() - begin:.1f} s', flush=True)
    names = [name for name in ways if (name != 'dsanalyze, index' or arguments.program) and (not arguments.only or name in arguments.only.split(';'))]
    rows = {name: [] for name in names}
    for _ in range(arguments.rounds):
        for name in names:
            with tempfile.TemporaryDirectory() as cache:  # Where no index lies that an earlier run kept.
                run = subprocess.run([sys.executable, __file__, '--folder', arguments.folder, '--measure', name], check=True, capture_output=True, text=True,
                                     env=dict(os.environ, XDG_CACHE_HOME=cache))
            rows[name].append(float(run.stdout))
            print(f'{name:<18} {rows[name][-1]:7.2f} s', flush=True)
    for name, seconds in rows.items():
        said = f', ImageFolder takes {statistics.median(other / own for other, own in zip(rows["ImageFolder"], seconds)):.1f} times as long' if 'ImageFolder' in rows and name != 'ImageFolder' else ''
        print(f'{name:<18} median {statistics.median(seconds):7.2f} s [{min(seconds):.2f}, {max(seconds):.2f}]{said}')


if __name__ == '__main__':
    main()
