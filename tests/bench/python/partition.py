"""Memory and storage reads of ranks on one server that hold a dataset together (partition=), beside one rank, and beside ranks that each hold what comes by.

usage: partition.py FOLDER [--ranks 8] [--epochs 3] [--batch-size 32]

FOLDER is a dataset that fits into memory twice. Prints a table: resident memory of all ranks together (PSS: a page that n processes share counts 1/n in each), less that of as
many ranks without a cache, which is what the caches take; bytes that storage gave in all epochs; and the samples/s of all ranks, over all epochs.
"""
import argparse
import json
import os
import pathlib
import socket
import subprocess
import sys
import time

workers_of_all = len(os.sched_getaffinity(0))


def rank_main(given):
    import dsanalyze
    options = {'partition': given['partition'], 'rendezvous': given['rendezvous']} if given['partition'] else {}
    loader = dsanalyze.Loader(given['folder'], given['batch_size'], cache_size=given['cache_size'], prep=dsanalyze.RandomResizedCrop(224), dtype='uint8', output='numpy',
                              workers=max(workers_of_all // given['ranks'], 1), **options)
    samples, begin = 0, None
    for _ in range(given['epochs']):
        for _, labels in loader:
            samples += len(labels)
            begin = begin or time.monotonic()
    end = time.monotonic()
    report = loader.report()
    print('loaded', flush=True)
    sys.stdin.readline()
    from_others = report['ranks']['bytes_from_others'] if report['ranks'] else 0
    print(json.dumps({'samples': samples, 'begin': begin, 'end': end, 'read': report['bytes_read'] - from_others, 'from_others': from_others, 'bytes': report['bytes']}), flush=True)
    loader.close()


def resident(process):
    lines = pathlib.Path(f'/proc/{process.pid}/smaps_rollup').read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith('Pss:'))


def measured(folder, ranks, cache_size, partition, arguments):
    """Bytes of memory, and what the ranks say, once all have had their epochs."""
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        place = f'127.0.0.1:{probe.getsockname()[1]}'
    given = {'folder': folder, 'batch_size': arguments.batch_size, 'cache_size': cache_size, 'partition': partition, 'rendezvous': place, 'epochs': arguments.epochs,
             'ranks': ranks}
    runs = [subprocess.Popen([sys.executable, __file__, '--rank', json.dumps(given)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             env={**os.environ, 'RANK': str(rank), 'WORLD_SIZE': str(ranks)}) for rank in range(ranks)]
    for run in runs:
        if run.stdout.readline() != 'loaded\n':
            raise SystemExit('a rank failed')
    memory = sum(resident(run) for run in runs)
    told = [json.loads(run.communicate('\n', timeout=120)[0]) for run in runs]
    return memory, told


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder', nargs='?')
    parser.add_argument('--ranks', type=int, default=8)
    parser.add_argument('--epochs', type=int, default=3)
    parser.add_argument('--batch-size', type=int, default=32)
    parser.add_argument('--rank', help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank:
        return rank_main(json.loads(arguments.rank))
    if not arguments.folder:
        parser.error('FOLDER is needed')
    ranks = arguments.ranks
    part = f'{100 / ranks + 0.5:.2f}%'
    rows = [('one rank, all in its cache', 1, '100%', None), (f'{ranks} ranks, all in each cache', ranks, '100%', None),
            (f'{ranks} ranks, {part} in each cache', ranks, part, None), (f'the same, partitioned', ranks, part, 'partitioned'),
            (f'the same, locality', ranks, part, 'locality')]
    without = {count: measured(arguments.folder, count, '0%', None, arguments)[0] for count in (1, ranks)}
    print('| what | caches take, MB | of the dataset | storage gave, of the dataset | from other ranks, of the dataset | samples/s of all |')
    print('| --- | --- | --- | --- | --- | --- |')
    for name, count, size, partition in rows:
        memory, told = measured(arguments.folder, count, size, partition, arguments)
        whole, taken = told[0]['bytes'], memory - without[count]
        rate = sum(each['samples'] for each in told) / (max(each['end'] for each in told) - min(each['begin'] for each in told))
        print(f'| {name} | {taken / 1e6:.0f} | {taken / whole:.2f} | {sum(each["read"] for each in told) / whole:.2f} | '
              f'{sum(each["from_others"] for each in told) / whole:.2f} | {rate:,.0f} |', flush=True)


if __name__ == '__main__':
    main()
