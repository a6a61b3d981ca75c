"""A training on the simulated GPU (device/simulation.py): `--over list` says what it takes a step with batches at hand, `--over loader` what it takes as it is."""
import argparse
import itertools
import pathlib
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / 'device'), str(pathlib.Path(__file__).resolve().parents[1])]
import simulation  # noqa: E402

# Kernels, microseconds of the host each, microseconds of the device each: forward, backward, optimizer.
regimes = {
    'device-bound': ((175, 25, 30), (350, 15, 33), (30, 20, 15)),  # host 10.2 ms, device 17.3 ms
    'mixed': ((175, 68, 20), (350, 15, 30), (30, 20, 20)),  # host 17.8 ms, device 14.6 ms
    'host-bound': ((175, 60, 8), (350, 20, 10), (30, 20, 5)),  # host 18.1 ms, device 5 ms
    'perceptron': ((10, 12, 4), (10, 12, 4), (5, 12, 4)),  # host 0.3 ms, device 0.1 ms
}
parser = argparse.ArgumentParser()
parser.add_argument('regime', choices=regimes)
parser.add_argument('--over', choices=('list', 'loader'), default='loader')
parser.add_argument('--steps', type=int, default=400)
parser.add_argument('--wait', type=float, default=0, help='milliseconds until the loader has a batch')
parser.add_argument('--in-place', action='store_true', help='each step changes its batch')
parser.add_argument('--accumulate', type=int, default=1)
parser.add_argument('--skip', type=int, default=0, help="every so many steps an optimizer's step is left out, as GradScaler does")
parser.add_argument('--pageable', action='store_true')
parser.add_argument('--two', action='store_true', help='each step has batches of two loaders')
parser.add_argument('--validate', type=int, default=0, help='a validation after so many steps')
parser.add_argument('--epoch', type=int, default=100_000, help='batches')
parser.add_argument('--leave', type=int, help='batches after which a pass is left')
parser.add_argument('--teacher', action='store_true', help='each step has a batch without gradients, too')
parser.add_argument('--elements', type=int, default=256)
parser.add_argument('--device', type=int, default=0)
parser.add_argument('--beside', action='store_true', help='copies go over a stream of their own')
parser.add_argument('--item', action='store_true', help='each step waits for its loss')
parser.add_argument('--ranks', type=float, default=0, help='milliseconds that the device waits for other ranks in each step')
parser.add_argument('--capture', action='store_true', help='steps are captured as graphs are')
args = parser.parse_args()
simulation.install(pinned=not args.pageable)

import torch  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

forward, backward, optimize = regimes[args.regime]
unmeasured = 100


class Samples(Dataset):
    def __len__(self):
        return 32 * args.epoch

    def __getitem__(self, i):
        return 0


whole = torch.ones(32, args.elements)


def collate(_):
    time.sleep(args.wait / 1000)
    return whole.clone()


def loader():
    return DataLoader(Samples(), 32, collate_fn=collate)


model = simulation.on_device(torch.nn.Linear(4, 1), args.device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)


def train_on(number, batch):
    if args.in_place:
        batch.data[0, 0] = number
    simulation.captures = args.capture
    simulation.copy(batch.numel() * batch.element_size(), pinned=not args.pageable, device=args.device, beside=args.beside)
    simulation.launch(*forward, device=args.device)
    model(batch[0, :4]).sum().backward()
    simulation.launch(*backward, device=args.device)
    if args.ranks:
        simulation.collective(args.ranks, device=args.device)
    if number % args.accumulate == 0 and not (args.skip and number % args.skip == 0):
        simulation.launch(*optimize, device=args.device)
        optimizer.step()
        optimizer.zero_grad()
    simulation.captures = False
    if args.item:
        simulation.item(device=args.device)


def validate():
    with torch.no_grad():
        for batch in DataLoader(range(160), 32, collate_fn=collate) if args.over == 'loader' else [whole] * 5:
            simulation.copy(batch.numel() * batch.element_size(), pinned=not args.pageable, device=args.device)
            simulation.launch(*forward, device=args.device)


def source():
    if args.over == 'loader':
        return loader()
    return itertools.cycle([whole.clone() for _ in range(16)])


def batches():
    while True:
        yield from itertools.islice(source(), args.leave)


begin = validated = 0
others = iter(source()) if args.two else None
teacher = iter(source()) if args.teacher else None
for number, batch in enumerate(batches(), 1):
    if others:
        next(others)
    if teacher:
        with torch.no_grad():
            next(teacher)
    train_on(number, batch)
    if args.validate and number % args.validate == 0:
        before = simulation.finished()
        validate()
        validated += simulation.finished() - before if number > unmeasured else 0
    if number == unmeasured:
        begin = simulation.finished()
    if number == args.steps:
        break
print('{:.6f} ms a step'.format((simulation.finished() - begin - validated) / (args.steps - unmeasured) / 1e6))
print('asked', *('{}={}'.format(what, count) for what, count in sorted(simulation.asked.items())))
