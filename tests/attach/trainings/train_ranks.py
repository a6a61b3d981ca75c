"""A small job of several ranks for tests of the hook: gloo, DistributedDataParallel, a slow loader on one rank if asked for."""
import argparse
import os
import pathlib
import socket
import time

import torch
import torch.distributed as distributed
from torch.distributed.algorithms.join import Join
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

parser = argparse.ArgumentParser()
parser.add_argument('--samples', type=int, default=160)
parser.add_argument('--epochs', type=int, default=2)
parser.add_argument('--slow', type=int, default=-1, help='the rank whose loader is slow')
parser.add_argument('--spawn', type=int, default=0, help='starts this many ranks by itself')
parser.add_argument('--plain', action='store_true', help='gradients are averaged by the script')
parser.add_argument('--leave', type=int, default=0, help='each pass after this many steps')
parser.add_argument('--looks', action='store_true', help='rank 1 looks at a batch in each epoch and between two of them')
parser.add_argument('--follows', action='store_true', help='rank 1 has no loader')
parser.add_argument('--uneven', choices=['asks', 'joins'], help='rank 1 has fewer batches: all leave the epoch with it, or it joins in what the others do')
parser.add_argument('--meet', default='env://', help='where the ranks meet, whose numbers are in DSANALYZE_TEST_RANK')
parser.add_argument('--numbers', help='a folder in which each rank leaves its PID once it trains')
args = parser.parse_args()


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def rank_number():
    return int(os.environ.get('DSANALYZE_TEST_RANK', os.environ.get('RANK', 0)))


class Data(Dataset):
    def __len__(self):
        return args.samples

    def __getitem__(self, index):
        if rank_number() == args.slow:
            time.sleep(0.005)
        return torch.full((8,), float(index)), index


def while_all_have(loader):
    """The batches up to the last one that every rank has."""
    batches = iter(loader)
    while True:
        batch = next(batches, None)
        more = torch.tensor([batch is not None], dtype=torch.int64)
        distributed.all_reduce(more, distributed.ReduceOp.MIN)
        if not more:
            return
        yield batch


def main(rank=None):
    if rank is not None:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(args.spawn))
    if args.meet == 'env://':
        distributed.init_process_group('gloo')
    else:
        distributed.init_process_group('gloo', init_method=args.meet, rank=rank_number(), world_size=2)
    torch.manual_seed(1)
    dataset = Data()
    sampler = DistributedSampler(dataset)
    short = args.uneven and rank_number() == 1
    loader = DataLoader(dataset, 4, sampler=list(range(args.samples // 2 - 4 * 11)) if short else sampler, num_workers=0)
    batches = [(torch.ones(4, 8), 0)] * len(loader) if args.follows and rank_number() == 1 else loader
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 1))
    if not args.plain:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        steps = 0
        if args.uneven == 'joins':
            with Join([model]):
                for x, _ in loader:
                    model(x).mean().backward()
                    time.sleep(0.002)
                    optimizer.step()
                    optimizer.zero_grad()
            continue
        for x, _ in while_all_have(loader) if args.uneven else batches:
            model(x).mean().backward()
            if args.plain:
                for parameter in model.parameters():
                    distributed.all_reduce(parameter.grad)
            time.sleep(0.002)
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
            if args.numbers and steps == 5:
                pathlib.Path(args.numbers, str(rank_number())).write_text(str(os.getpid()))
            # Every rank must be at the same step: the sum of the numbers says so.
            number = torch.tensor([epoch * 1000 + steps])
            distributed.all_reduce(number)
            if args.looks and distributed.get_rank() == 1 and steps % 7 == 3:
                model(next(iter(loader))[0])
            if int(number) != (epoch * 1000 + steps) * distributed.get_world_size():
                raise SystemExit('ranks are out of step')
            if steps == args.leave:
                break
        if args.looks:
            if distributed.get_rank() == 1:
                model(next(iter(loader))[0])
            distributed.barrier()
    print('rank', distributed.get_rank(), 'done', steps, flush=True)
    distributed.destroy_process_group()


if __name__ == '__main__':
    if args.spawn:
        os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(free_port()))
        torch.multiprocessing.start_processes(main, nprocs=args.spawn, start_method='fork')
    else:
        main()
