"""Kills a program that loads by dsanalyze.Loader again and again, and counts the samples of the whole.

usage: resume_kills.py --data FOLDER [--kills 500] [--seed 1] [--batch 16]

The program notes each batch (numbers, a digest of the values, and the state after it) in one write, as a training that checkpoints each step does, and goes on from
the last note. It is killed (SIGKILL) at drawn times. Afterwards each sample must have come once an epoch, with the same values as in a run that is not killed.
"""
import argparse
import collections
import hashlib
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time


def train(folder, notes, batch, until):
    import dsanalyze
    loader = dsanalyze.Loader(folder, batch, prep=[dsanalyze.RandomResizedCrop(64), dsanalyze.HorizontalFlip()], dtype='uint8', with_ids=True, output='memoryview')
    lines = pathlib.Path(notes).read_text().splitlines() if os.path.exists(notes) else []
    if lines:
        loader.load_state_dict(json.loads(lines[-1])['state'])
    out = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while loader.epoch < until:
        epoch = loader.epoch
        for images, _, ids in loader:
            ids = ids.tolist()
            data, each = images.tobytes(), images.nbytes // max(len(ids), 1)
            digests = [hashlib.blake2b(data[at * each:(at + 1) * each], digest_size=8).hexdigest() for at in range(len(ids))]
            os.write(out, (json.dumps({'epoch': epoch, 'ids': ids, 'digests': digests, 'state': loader.state_dict()}) + '\n').encode())


def noted(notes):
    epochs = collections.defaultdict(list)
    for line in pathlib.Path(notes).read_text().splitlines():
        note = json.loads(line)
        epochs[note['epoch']] += zip(note['ids'], note['digests'])
    return epochs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--data', required=True)
    parser.add_argument('--kills', type=int, default=500)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--batch', type=int, default=16)
    parser.add_argument('--train', nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        train(arguments.data, arguments.train[0], arguments.batch, int(arguments.train[1]))
        return
    generator = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        killed, whole = f'{folder}/killed', f'{folder}/whole'
        words = [sys.executable, __file__, '--data', arguments.data, '--batch', str(arguments.batch), '--train']
        kills = 0
        while kills < arguments.kills:
            script = subprocess.Popen([*words, killed, '1000000'])
            time.sleep(generator.uniform(0.1, 1.2))
            script.kill()
            if script.wait() != -9:
                sys.exit(f'the program ended by itself: {script.returncode}')
            kills += 1
        epochs = noted(killed)
        last = max(epochs)
        subprocess.run([*words, killed, str(last + 1)], check=True)
        epochs = noted(killed)
        checked = min(len(epochs), 3)
        subprocess.run([*words, whole, str(checked)], check=True)
        reference = noted(whole)
        every = collections.Counter(sample for sample, _ in reference[0])
        lost = repeated = 0
        for epoch in epochs.values():
            counted = collections.Counter(sample for sample, _ in epoch)
            lost += sum((every - counted).values())
            repeated += sum((counted - every).values())
        same = all(epochs[epoch] == reference[epoch] for epoch in range(checked))
        print(f'{kills} kills over {len(epochs)} epochs of {sum(every.values())} samples: {lost} lost, {repeated} repeated; '
              f'the first {checked} epochs are {"bit-identical to" if same else "NOT those of"} a run that is not killed')
        sys.exit(0 if lost == repeated == 0 and same else 1)


if __name__ == '__main__':
    main()
