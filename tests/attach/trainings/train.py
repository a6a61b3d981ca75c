"""A small training script for tests of the hook. Its steps and its preparation take a known time; each epoch's batches are printed at the end."""
import argparse
import collections
import dataclasses
import os
import time

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

parser = argparse.ArgumentParser()
parser.add_argument('--samples', type=int, default=64)
parser.add_argument('--batch', type=int, default=4)
parser.add_argument('--epochs', type=int, default=1)
parser.add_argument('--workers', type=int, default=0)
parser.add_argument('--prefetch', type=int, default=2)
parser.add_argument('--step', type=float, default=0.002)
parser.add_argument('--outside', type=float, default=0, help='seconds after each step of the optimizer')
parser.add_argument('--prep', type=float, default=0, help='seconds a sample')
parser.add_argument('--stuck', type=int, default=None, help='the sample at which a worker stands still')
parser.add_argument('--stuck-for', type=float, default=600)
parser.add_argument('--timeout', type=float, default=0)
parser.add_argument('--style', default='map', choices=['map', 'iterable', 'sized', 'batched'])
parser.add_argument('--container', default='tuple', choices=['tuple', 'dict', 'dataclass', 'named', 'padded'])
parser.add_argument('--persistent', action='store_true')
parser.add_argument('--start', default=None)
parser.add_argument('--shuffle', action='store_true')
parser.add_argument('--refuse-workers', type=int, default=None, help='ends where its loader has so many')
parser.add_argument('--does', default='', help='comma-separated: pop, mixup, onecycle, accumulate, validate, zip, break, anew, raise, late')
args = parser.parse_args()
does = set(args.does.split(','))


@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    y: torch.Tensor


Named = collections.namedtuple('Named', 'x y')


def sample(index):
    if args.prep:
        time.sleep(args.prep)
    if index == args.stuck:
        if 'late' in does and not os.path.exists('seen'):
            open('seen', 'w').close()  # It is the second time that takes long.
        else:
            time.sleep(args.stuck_for)
    if 'raise' in does and index == 20:
        raise ValueError('bad sample 20')
    return torch.full((8,), float(index)), index


class Map(Dataset):
    def __len__(self):
        return args.samples

    def __getitem__(self, index):
        return sample(index)


class Batched(Map):
    def __getitem__(self, indices):
        return collate([sample(index) for index in indices])


class Stream(IterableDataset):
    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        return (sample(index) for index in range(first, args.samples, step))


class Sized(Stream):
    def __len__(self):
        return args.samples


def collate(samples):
    x, y = torch.stack([x for x, _ in samples]), torch.tensor([y for _, y in samples])
    if args.container == 'padded':
        return torch.nn.functional.pad(x, (0, int(y[0]) % 5)), y
    if args.container == 'dict':
        return {'x': x, 'y': y, 'names': [str(y) for _, y in samples]}
    return {'tuple': tuple, 'dataclass': lambda pair: Batch(*pair), 'named': lambda pair: Named(*pair)}[args.container]((x, y))


def main():
    torch.manual_seed(1)
    if args.stuck is not None:
        torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL = 0.2  # How long PyTorch waits for a worker's end before it ends it.
    options = {}
    if args.workers:
        options = {'prefetch_factor': args.prefetch, 'persistent_workers': args.persistent, 'timeout': args.timeout, 'multiprocessing_context': args.start}
    dataset = {'map': Map, 'iterable': Stream, 'sized': Sized, 'batched': Batched}[args.style]()
    if args.style == 'batched':
        sampler = torch.utils.data.BatchSampler(torch.utils.data.SequentialSampler(dataset), args.batch, False)
        loader = DataLoader(dataset, sampler=sampler, batch_size=None, num_workers=args.workers, **options)
    else:
        loader = DataLoader(dataset, args.batch, shuffle=args.shuffle, collate_fn=collate, num_workers=args.workers, **options)
    if loader.num_workers == args.refuse_workers:
        raise SystemExit(3)
    other = DataLoader(Map(), args.batch, collate_fn=collate)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    schedule = None
    if 'onecycle' in does:
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-6, total_steps=args.epochs * len(loader))
    total = 0
    for epoch in range(args.epochs):
        seen = []
        if 'anew' in does:
            loader = DataLoader(dataset, args.batch, shuffle=args.shuffle, collate_fn=collate, num_workers=args.workers, **options)
        for number, batch in enumerate(zip(loader, other) if 'zip' in does else loader):
            if 'zip' in does:
                batch = batch[0]
            if args.container == 'dict':
                x, y = (batch.pop('x'), batch.pop('y')) if 'pop' in does else (batch['x'], batch['y'])
            elif args.container in ('dataclass', 'named'):
                x, y = batch.x, batch.y
            else:
                x, y = batch
            if 'pop' in does and isinstance(batch, list):
                batch.clear()
            first = int(y[0])
            if abs(float(x[0, 0]) - first) > 1e-3:
                raise SystemExit('batch {} is not what the dataset gave: {} for {}'.format(number, float(x[0, 0]), first))
            seen.append(first)
            if 'mixup' in does:
                x.mul_(0.5).add_(1)
            loss = (model(x[:, :8]) ** 2).mean()
            loss.backward()
            time.sleep(args.step)
            if 'accumulate' not in does or number % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()
                time.sleep(args.outside)
            if schedule is not None:
                schedule.step()
            total += 1
            if 'break' in does and number == 9:
                break
        print('epoch', epoch, 'steps', len(seen), 'batches', *seen, flush=True)
        if 'validate' in does:
            with torch.no_grad():
                for _ in other:
                    time.sleep(0.001)
    print('done', total, 'loss', repr(loss.item()), 'random', torch.rand(1).item(), 'weight', repr(model.weight.sum().item()), flush=True)
    if 'os_exit' in does:
        os._exit(7)


if __name__ == '__main__':
    main()
