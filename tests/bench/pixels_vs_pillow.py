#!/usr/bin/env python3
"""Compares what prep makes of seeded images, and of JPEG files that the library warns about, with what Pillow makes of the same files.

usage: pixels_vs_pillow.py BUILD [--images N] [--seed N] [--size N] [--freeze FILE]

BUILD is a build folder with the target "bench". Pillow decodes each file at the scale that prep chose (its draft mode), converts it to RGB, cuts out
the rectangle that prep decoded and resizes the crop with its bilinear filter. An image is an exception when a value is more than one level off, or when
one of the two refuses it; each is listed. Needs python3-pil and python3-numpy of the system's Python. --freeze writes a small corpus with Pillow's
answers, which the tests hold prep to (tests/loaders/prep/pillow_answers.txt).
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile

import numpy
import PIL
from PIL import Image, features

from odd_jpegs import odd_jpegs

Image.MAX_IMAGE_PIXELS = None
CROPS = ("random", "centre")
LONGEST = 500
FROZEN = {"images": 36, "longest": 26, "size": 8}
FROZEN_DAMAGED = 3  # of each kind


def decoded_by_pillow(path, denominator):
    image = Image.open(path)
    image.decodermaxblock = os.path.getsize(path)  # the library cannot wait for more of an arithmetic-coded file
    width, height = image.size
    if denominator > 1:
        image.draft(None, (max(width // denominator, 1), max(height // denominator, 1)))
        if image.size != (-(-width // denominator), -(-height // denominator)):
            raise ValueError(f"{path}: Pillow decodes at another scale: {image.size} of {width} x {height}")
    if image.mode.startswith("I"):
        # Pillow clips 16-bit grey to 255 in convert(); the upper byte is what a picture is, as Pillow has it for 16-bit colour.
        return Image.fromarray((numpy.asarray(image).astype(numpy.uint32) >> 8).astype(numpy.uint8)).convert("RGB")
    return image.convert("RGB")


def pillow_refuses(path):
    try:
        decoded_by_pillow(path, 1)
        return False
    except (OSError, SyntaxError):
        return True


def pillow_says(path, facts, size):
    image = decoded_by_pillow(path, facts["denominator"])
    left, top, width, height = facts["rectangle"]
    image = image.crop((left, top, left + width, top + height))
    box = [min(max(edge, 0), limit) for edge, limit in zip(facts["box"], (width, height, width, height))]
    image = image.resize((size, size), Image.Resampling.BILINEAR, box=box)
    if facts["mirror"]:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return numpy.asarray(image)


def prepare(program, names, size, seed, crop, folder):
    output = os.path.join(folder, "pixels")
    answer = subprocess.run([program, "prepare", str(size), str(seed), crop, output], input="\n".join(names) + "\n", check=True, text=True,
                            capture_output=True)
    facts = [json.loads(line) for line in answer.stdout.splitlines()]
    prepared = iter(numpy.fromfile(output, dtype=numpy.uint8).reshape(-1, size, size, 3))
    return [(name, each, next(prepared) if each["status"] == "ok" else None) for name, each in zip(names, facts)]


def make_images(program, folder, count, seed, longest):
    subprocess.run([program, "make", folder, str(count), str(seed), str(longest)], check=True)
    return sorted(os.path.join(folder, name) for name in os.listdir(folder))


def make_odd(folder, seed):
    os.mkdir(folder)
    names = []
    for name, content in odd_jpegs(seed):
        names.append(os.path.join(folder, name + ".jpg"))
        with open(names[-1], "wb") as file:
            file.write(content)
    return names


def compare(rows, crop, size):
    """The number of exceptions, each of them listed."""
    exceptions = refused = 0
    levels, scales = collections.Counter(), collections.Counter()
    for name, facts, prepared in rows:
        said = ""
        if pillow_refuses(name) != (prepared is None):
            said = f"prep says {facts['status']}, and Pillow {'decodes it' if prepared is None else 'refuses it'}"
        elif prepared is None:
            refused += 1
        else:
            most = int(numpy.abs(pillow_says(name, facts, size).astype(int) - prepared).max())
            levels[most] += 1
            scales[facts["denominator"]] += 1
            said = f"{most} levels off, {facts}" if most > 1 else ""
        if said:
            exceptions += 1
            print(f"{crop}: {os.path.basename(name)}: {said}")
    print(f"{crop}: images by their largest difference {dict(sorted(levels.items()))}, by scale 1/n {dict(sorted(scales.items()))}, refused by both "
          f"{refused}", flush=True)
    return exceptions


def freeze(path, program, folder, seed):
    size = FROZEN["size"]
    names = make_images(program, os.path.join(folder, "small"), FROZEN["images"], seed, FROZEN["longest"])
    names += [name for name in make_odd(os.path.join(folder, "small odd"), seed)
              if "damaged" not in name or int(name.split("-")[-1].removesuffix(".jpg")) < FROZEN_DAMAGED]
    with open(path, "w", encoding="ascii") as file:
        file.write("# name, file, then for each crop (random, centre) Pillow's values or \"refused\"; bytes are hexadecimal.\n"
                   f"# Made by tests/bench/pixels_vs_pillow.py --freeze with Pillow {PIL.__version__}, seed {seed}, size {size}.\n")
        by_crop = [prepare(program, names, size, seed, crop, folder) for crop in CROPS]
        for answers in zip(*by_crop):
            name = answers[0][0]
            said = ["refused" if pillow_refuses(name) else pillow_says(name, facts, size).tobytes().hex() for _, facts, _ in answers]
            with open(name, "rb") as image:
                file.write(" ".join([os.path.basename(name), image.read().hex(), *said]) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--freeze")
    options = parser.parse_args()
    program = os.path.join(options.build, "tests", "bench", "prepared_pixels")
    print(f"Pillow {PIL.__version__}, libjpeg-turbo {features.version('libjpeg_turbo')}, NumPy {numpy.__version__}, seed {options.seed}, "
          f"{options.images} images, size {options.size}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        if options.freeze:
            freeze(options.freeze, program, folder, options.seed)
            return 0
        images = make_images(program, os.path.join(folder, "images"), options.images, options.seed, LONGEST)
        odd = make_odd(os.path.join(folder, "odd"), options.seed)
        exceptions = {}
        for kind, names in (("images", images), ("odd JPEG files", odd)):
            exceptions[kind] = sum(compare(prepare(program, names, options.size, options.seed, crop, folder), crop, options.size) for crop in CROPS)
            share = exceptions[kind] / (len(CROPS) * len(names))
            print(f"{kind}: {exceptions[kind]} exceptions in {len(CROPS)} x {len(names)} ({100 * share:.3f} %)", flush=True)
    return 0 if exceptions["images"] <= len(CROPS) * options.images / 1000 else 1


if __name__ == "__main__":
    sys.exit(main())
