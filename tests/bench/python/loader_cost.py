"""Time that the package itself takes for a batch: from next() of a pass until the batch is there, while batches are ready and nothing else runs.

usage: loader_cost.py [--batches 400] [--batch-size 256] [--outputs torch,numpy,memoryview]

The samples are arrays of 12 bytes, so that none of the time is prep. A pause before each batch lets the loader's threads make the next ones. What is printed is the
median of a batch, with the range of its middle half, in microseconds.
"""
import argparse
import os
import pathlib
import statistics
import tempfile
import time

import dsanalyze
import numpy

pause_seconds = 0.004


def measure(folder, output, batches, batch_size):
    taken = []
    with dsanalyze.Loader(folder, batch_size, output=output, workers=1, drop_last=True) as loader:
        while len(taken) < batches:
            passing = iter(loader)
            batch = next(passing)
            while len(taken) < batches:
                time.sleep(pause_seconds)
                begin = time.perf_counter()
                batch = next(passing, None)
                end = time.perf_counter()
                if batch is None:
                    break
                taken.append(1e6 * (end - begin))
    return statistics.quantiles(taken, n=4)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--batches', type=int, default=400)
    parser.add_argument('--batch-size', type=int, default=256)
    parser.add_argument('--outputs', default='torch,numpy,memoryview')
    arguments = parser.parse_args()
    print(f'load of the machine: {os.getloadavg()[0]:.1f}')
    with tempfile.TemporaryDirectory() as folder:
        rows = pathlib.Path(folder, 'rows.npy')
        numpy.save(rows, numpy.zeros((100 * arguments.batch_size, 12), 'uint8'))
        for output in arguments.outputs.split(','):
            low, middle, high = measure(rows, output, arguments.batches, arguments.batch_size)
            print(f'{output:<12} {middle:6.0f} us a batch of {arguments.batch_size} [{low:.0f}, {high:.0f}]', flush=True)


if __name__ == '__main__':
    main()
