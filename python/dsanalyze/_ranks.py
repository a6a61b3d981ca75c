"""How the ranks of a training that hold a dataset together find one another."""
import datetime
import itertools
import json
import os
import secrets
import socket
import sys
import time

from ._library import LoaderError
from ._arguments import one_of, optional_text, seconds

modes = ('partitioned', 'locality')
meeting_seconds = 60
look_seconds = 0.2
_meetings = itertools.count()  # Of this process: as many in each rank of a process group.


def ranks_options(partition, rendezvous, listen, key_file, peer_timeout, epoch_timeout):
    """The options of a loader that are about other ranks, as far as they are given. Raises ValueError."""
    options = {'rendezvous': optional_text('rendezvous', rendezvous), 'listen': optional_text('listen', listen), 'key_file': optional_text('key_file', key_file),
               'peer_timeout': seconds('peer_timeout', peer_timeout, 3600), 'epoch_timeout': seconds('epoch_timeout', epoch_timeout, 86_400)}
    options = {name: value for name, value in options.items() if value is not None}
    if partition is None and options:
        raise ValueError(f'{next(iter(options))}: without partition="partitioned" or "locality" ranks ask one another for nothing')
    if partition is not None:
        one_of('partition', partition, modes)
    if 'key_file' in options and 'rendezvous' not in options:
        raise ValueError('key_file: it belongs to rendezvous; through torch.distributed the ranks tell one another a key')
    return options


class ProcessGroup:
    """The ranks of torch.distributed, which tell one another where they meet through its store, the only part of it that no collective of the script uses. All ranks
    make one, and each either calls meet() or fail(), so that no rank waits for one whose arguments are wrong."""

    def __init__(self):
        torch = sys.modules.get('torch')
        self._distributed = getattr(torch, 'distributed', None)
        if self._distributed is None or not self._distributed.is_available() or not self._distributed.is_initialized():
            raise ValueError('rendezvous: the ranks of a partition have to meet: call torch.distributed.init_process_group() before, or pass HOST:PORT where '
                             'rank 0 listens, or a file on a file system that all ranks share')
        self._rank, self._world = self._distributed.get_rank(), self._distributed.get_world_size()
        self._store = self._distributed.distributed_c10d._get_default_store()
        self._prefix = f'dsanalyze/{next(_meetings)}'

    def fail(self, error):
        """Tells the other ranks why this one does not come."""
        self._tell('rank', {'error': str(error)})

    def meet(self, rank, world_size, listen):
        """Where rank 0 listens, and a key that only the group's ranks know, as options. Raises ValueError, LoaderError."""
        if (self._rank, self._world) != (rank, world_size):
            error = ValueError(f'rank and world_size: found {rank} and {world_size}, and torch.distributed has {self._rank} and {self._world}; leave them out, or pass rendezvous')
            self.fail(error)
            raise error
        self._tell('rank', {'machine': _machine()})
        deadline = time.monotonic() + meeting_seconds
        machines = [self._hear('rank', other, deadline)['machine'] for other in range(world_size)]
        on_one_machine = all(machine == machines[0] for machine in machines)
        if rank == 0:
            try:
                host = '127.0.0.1' if on_one_machine else listen if _is_address(listen) else _reached_from(_address_of_rank_0())
                self._tell('offer', {'host': host, 'port': _free_port(host), 'key': secrets.token_hex(32)})
            except (OSError, ValueError) as error:
                self._tell('offer', {'error': str(error)})
                raise
        offer = self._hear('offer', 0, deadline)
        host = offer['host']
        options = {'rendezvous': f'[{host}]:{offer["port"]}' if ':' in host else f'{host}:{offer["port"]}', 'key': offer['key']}
        if not on_one_machine:
            options['listen'] = listen or _reached_from(host)
        return options

    def _tell(self, what, value):
        self._store.set(f'{self._prefix}/{what}/{self._rank}', json.dumps(value))

    def _hear(self, what, rank, deadline):
        key = f'{self._prefix}/{what}/{rank}'
        while not self._is_there(key):
            if time.monotonic() > deadline:
                raise LoaderError(f'rank {rank} of {self._world} did not make its loader within {meeting_seconds} s: all ranks make as many with a partition')
        value = json.loads(self._store.get(key))
        if 'error' in value:
            raise LoaderError(f'rank {rank} of {self._world} could not make its loader: {value["error"]}')
        return value

    def _is_there(self, key):
        """Waits for a moment only, so that Ctrl-C comes through. PyTorch 1.13's stores cannot be asked without waiting."""
        begin = time.monotonic()
        try:
            self._store.wait([key], datetime.timedelta(seconds=look_seconds))
            return True
        except RuntimeError:
            if time.monotonic() - begin < look_seconds / 2:
                raise  # It is no timeout: the store is gone.
            return False


def _machine():
    """What differs between machines, and between containers with networks of their own."""
    try:
        with open('/proc/sys/kernel/random/boot_id') as file:
            boot = file.read().strip()
        return [boot, os.readlink('/proc/self/ns/net')]
    except OSError:
        return [socket.gethostname(), '']


def _address_of_rank_0():
    address = os.environ.get('MASTER_ADDR')
    if not address:
        raise ValueError('listen: say by which address of this machine the other ranks reach it, as the environment has no MASTER_ADDR')
    return address


def _reached_from(host):
    """The address of this machine that packets to `host` are sent from."""
    family, _, _, _, place = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(place)  # Of a datagram's socket this sends nothing.
        address = probe.getsockname()[0]
    if address.startswith('127.') or address == '::1':
        raise ValueError(f'listen: {host} is this machine\'s loopback address, by which no other machine reaches it; say which address, network or '
                         'interface the other ranks reach')
    return address


def _is_address(listen):
    """Whether it is one, and no network or interface, which the library looks up."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, listen or '')
            return True
        except OSError:
            pass
    return False


def _free_port(host):
    family = socket.AF_INET6 if ':' in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]
