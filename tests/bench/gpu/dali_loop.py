"""JPEG images decoded, cropped at random, resized to 224 x 224, mirrored and normalised by NVIDIA's DALI, decoder "mixed", files in the page cache.

usage: dali_loop.py FOLDER SECONDS

Prints the best rate in images a second of several settings of the decoder's share for the JPEG engines (hw_decoder_load) and of threads.
"""

import os
import pathlib
import sys
import time

from nvidia.dali import fn, pipeline_def, types

BATCH = 256


@pipeline_def
def images(files, load):
    encoded, _ = fn.readers.file(files=files, random_shuffle=True, initial_fill=4096, name="reader", prefetch_queue_depth=4)
    decoded = fn.decoders.image_random_crop(encoded, device="mixed", output_type=types.RGB, random_area=[0.08, 1.0], random_aspect_ratio=[0.75, 4 / 3],
                                            hw_decoder_load=load, preallocate_width_hint=1024, preallocate_height_hint=1024)
    resized = fn.resize(decoded, device="gpu", size=(224, 224), antialias=True)
    return fn.crop_mirror_normalize(resized, device="gpu", mirror=fn.random.coin_flip(), mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375],
                                    dtype=types.FLOAT, output_layout="CHW")


def main():
    files = [str(path) for path in sorted(pathlib.Path(sys.argv[1]).glob("**/*.jpg"))]
    best, cores = 0, len(os.sched_getaffinity(0))
    for load in (0.65, 0.8, 1.0):
        for threads in sorted({4, cores}):
            pipeline = images(files, load, batch_size=BATCH, num_threads=threads, device_id=0, prefetch_queue_depth=3)
            pipeline.build()
            for _ in range(10):
                pipeline.run()
            begun, count = time.perf_counter(), 0
            while time.perf_counter() - begun < float(sys.argv[2]):
                pipeline.run()
                count += BATCH
            rate = count / (time.perf_counter() - begun)
            print(f"load {load} threads {threads}: {rate:.0f}", file=sys.stderr)
            best = max(best, rate)
            del pipeline
    print(best)


if __name__ == "__main__":
    main()
