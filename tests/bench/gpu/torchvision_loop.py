"""JPEG images decoded, cropped at random, resized to 224 x 224, mirrored and normalised on the GPU by torchvision, images in memory.

usage: torchvision_loop.py FOLDER SECONDS

Prints the best rate in images a second of several batch sizes: decode_jpeg of a whole list at once, then each image's RandomResizedCrop (antialiased), and
flip and normalise of the batch.
"""

import pathlib
import sys
import time

import torch
import torchvision.transforms.v2.functional as functional
from torchvision.io import ImageReadMode, decode_jpeg, read_file
from torchvision.transforms.v2 import RandomResizedCrop

MEAN = torch.tensor([0.485, 0.456, 0.406], device="cuda").view(3, 1, 1) * 255
DEVIATION = torch.tensor([0.229, 0.224, 0.225], device="cuda").view(3, 1, 1) * 255


def prepared(files, crop):
    images = []
    for image in decode_jpeg(files, device="cuda", mode=ImageReadMode.RGB):
        image = crop(image)
        images.append(functional.horizontal_flip(image) if torch.rand(1) < 0.5 else image)
    return (torch.stack(images).float() - MEAN) / DEVIATION


def main():
    files = [read_file(str(path)) for path in sorted(pathlib.Path(sys.argv[1]).glob("**/*.jpg"))]
    crop = RandomResizedCrop(224, antialias=True)
    best = 0
    for batch in (64, 256):
        prepared(files[:batch], crop)
        torch.cuda.synchronize()
        begun, count, at = time.perf_counter(), 0, 0
        while time.perf_counter() - begun < float(sys.argv[2]):
            if at + batch > len(files):
                at = 0
            prepared(files[at : at + batch], crop)
            at += batch
            count += batch
        torch.cuda.synchronize()
        best = max(best, count / (time.perf_counter() - begun))
    print(best)


if __name__ == "__main__":
    main()
