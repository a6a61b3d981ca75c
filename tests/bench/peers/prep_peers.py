#!/usr/bin/env python3
"""Compares our prep with torchvision's and OpenCV's: the same JPEG files, from memory, one process and one thread each, interleaved in rounds.

    python3 tests/bench/peers/prep_peers.py DIR --bench BUILD/tests/bench/prep_bench [--rounds N] [--cpu N] [--json FILE]

All do the training transform of ImageNet classifiers to 224 x 224 float32 planes: decode, random-resized-crop, flip, normalise. A peer whose Python
packages (torch and torchvision, or opencv-python-headless and numpy) are missing is left out and named. What counts are the ratios within a round.
"""

import argparse
import io
import json
import math
import os
import pathlib
import platform
import random
import statistics
import subprocess
import sys
import time

SIZE = 224
MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)


def make_torchvision():
    import PIL
    import torch
    import torchvision
    from PIL import Image
    from torchvision import transforms

    torch.set_num_threads(1)
    transform = transforms.Compose([
        transforms.RandomResizedCrop(SIZE),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize(MEAN, DEVIATION),
    ])
    batch = torch.empty(256, 3, SIZE, SIZE)

    def prepare(index, data):
        batch[index % len(batch)] = transform(Image.open(io.BytesIO(data)).convert("RGB"))

    return f"torchvision {torchvision.__version__}, Pillow {PIL.__version__}", prepare


def random_crop(width, height):
    """torchvision's RandomResizedCrop.get_params in plain Python."""
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1.0)
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        crop_width = round(math.sqrt(area * ratio))
        crop_height = round(math.sqrt(area / ratio))
        if 0 < crop_width <= width and 0 < crop_height <= height:
            return random.randint(0, width - crop_width), random.randint(0, height - crop_height), crop_width, crop_height
    side = min(width, height)
    return (width - side) // 2, (height - side) // 2, side, side


def make_opencv():
    import cv2
    import numpy

    cv2.setNumThreads(0)
    scale = [1 / (255 * deviation) for deviation in DEVIATION]
    offset = [-mean / deviation for mean, deviation in zip(MEAN, DEVIATION)]
    batch = numpy.empty((256, 3, SIZE, SIZE), dtype=numpy.float32)

    def prepare(index, data):
        image = cv2.imdecode(numpy.frombuffer(data, dtype=numpy.uint8), cv2.IMREAD_COLOR)
        left, top, width, height = random_crop(image.shape[1], image.shape[0])
        interpolation = cv2.INTER_AREA if min(width, height) >= SIZE else cv2.INTER_LINEAR
        resized = cv2.resize(image[top:top + height, left:left + width], (SIZE, SIZE), interpolation=interpolation)
        if random.random() < 0.5:
            resized = cv2.flip(resized, 1)
        sample = batch[index % len(batch)]
        for channel, plane in enumerate(reversed(cv2.split(resized))):
            numpy.multiply(plane, scale[channel], out=sample[channel], casting="unsafe", dtype=numpy.float32)
            numpy.add(sample[channel], offset[channel], out=sample[channel])

    return f"OpenCV {cv2.__version__}", prepare


def images_per_second(prepare, files):
    begin = time.perf_counter()
    for index, data in enumerate(files):
        prepare(index, data)
    return len(files) / (time.perf_counter() - begin)


def ours(bench, directory):
    seconds, count = subprocess.run([bench, directory, "--one-round"], check=True, capture_output=True, text=True, timeout=600).stdout.split()
    return int(count) / float(seconds)


def ratio_with_interval(numerators, denominators):
    ratios = [a / b for a, b in zip(numerators, denominators)]
    # Two-sided 95 % points of Student's t, by degrees of freedom; beyond the table the next smaller entry, which is on the safe side.
    points = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228, 15: 2.131, 20: 2.086, 30: 2.042}
    half = 0.0
    if len(ratios) > 1:
        point = points[max(degrees for degrees in points if degrees <= len(ratios) - 1)]
        half = point * statistics.stdev(ratios) / math.sqrt(len(ratios))
    middle = statistics.mean(ratios)
    return {"median": statistics.median(ratios), "mean_ci95": [middle - half, middle + half]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", help="folder of .jpg or .JPEG files")
    parser.add_argument("--bench", required=True, help="the prep_bench program")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--cpu", type=int, help="run everything on this processor")
    parser.add_argument("--json", help="write the result here too")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds: expected at least 1")
    if options.cpu is not None:
        os.sched_setaffinity(0, {options.cpu})

    paths = sorted(path for path in pathlib.Path(options.directory).rglob("*") if path.suffix in (".jpg", ".JPEG"))
    if not paths:
        parser.error(f"{options.directory}: no .jpg or .JPEG files")
    files = [path.read_bytes() for path in paths]
    peers, missing = {}, []
    for name, make in (("torchvision", make_torchvision), ("opencv", make_opencv)):
        try:
            peers[name] = make()
        except ImportError as error:
            missing.append(f"{name}: {error}")

    runners = {"ours": lambda: ours(options.bench, options.directory)}
    for name, (_, prepare) in peers.items():
        images_per_second(prepare, files)
        runners[name] = lambda prepare=prepare: images_per_second(prepare, files)
    rates = {name: [] for name in runners}
    names = list(runners)
    for turn in range(options.rounds):
        for place in range(len(names)):
            name = names[(place + turn) % len(names)]
            rates[name].append(runners[name]())
        print(f"round {turn + 1} of {options.rounds}", file=sys.stderr)

    result = {
        "files": len(files),
        "mean_bytes": statistics.mean(len(data) for data in files),
        "rounds": options.rounds,
        "python": platform.python_version(),
        "missing": missing,
        "images_per_second": {name: statistics.median(values) for name, values in rates.items()},
        "versions": {name: version for name, (version, _) in peers.items()},
        "ours_over": {name: ratio_with_interval(rates["ours"], rates[name]) for name in peers},
    }
    print(f"{len(files)} files of mean {result['mean_bytes'] / 1000:.0f} kB, {options.rounds} rounds, one thread each")
    print(f"{'':42} {'images/s':>9}   ours / it, 95 % interval of the mean")
    print(f"{'dsanalyze':42} {result['images_per_second']['ours']:9.0f}")
    for name in peers:
        ratio = result["ours_over"][name]
        low, high = ratio["mean_ci95"]
        print(f"{result['versions'][name]:42} {result['images_per_second'][name]:9.0f}   {ratio['median']:.2f} [{low:.2f}, {high:.2f}]")
    for line in missing:
        print(f"left out: {line}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
