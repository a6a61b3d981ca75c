"""A GPU in virtual time (virtual_time.py): launches, copies and waits take what they are declared to, and nothing else takes any.

The host puts kernels into the queue of a stream, which has room for 1,024, and goes on; the stream works through them in order. A copy from pinned memory is one of
them; one from pageable memory waits for the stream, as do synchronize(), Event.synchronize() and item(). A collective keeps its stream waiting, and not the host.
install() puts it under torch.cuda. Tensors stay where they are: on_device() makes parameters that say otherwise.
"""
import collections
import contextlib

import torch

import virtual_time

queue_length = 1024
us = 1000  # nanoseconds
event_cost = 3 * us
copy_cost = 8 * us
pinned_bytes_per_s = 25e9
pageable_bytes_per_s = 5e9


def host_works(nanoseconds):
    virtual_time.at += round(nanoseconds)


def host_waits_until(at):
    virtual_time.at = max(virtual_time.at, round(at))


class Stream:
    def __init__(self, device):
        self.device = device
        self.free = 0  # When all that was asked of it is done.
        self.queue = collections.deque()  # When each of what is queued is done.

    def put(self, nanoseconds):
        while self.queue and self.queue[0] <= virtual_time.at:
            self.queue.popleft()
        if len(self.queue) >= queue_length:
            host_waits_until(self.queue.popleft())
        self.free = max(self.free, virtual_time.at) + nanoseconds
        self.queue.append(self.free)


class Device:
    def __init__(self, index):
        self.index = index
        self.has_context = index == 0
        self.default = self.current = Stream(self)
        self.streams = [self.default]

    def new_stream(self):
        self.streams.append(Stream(self))
        return self.streams[-1]


devices = [Device(0), Device(1)]
current = devices[0]
asked = collections.Counter()  # What the script and the hook asked of the library, by name.
capturing = False


def device_of(device):
    """As torch.cuda takes it: nothing, a number, a torch.device."""
    index = getattr(device, 'index', device)
    return current if index is None else devices[index]


def stream():
    current.has_context = True
    return current.current


def launch(kernels, host_us, device_us):
    for _ in range(kernels):
        host_works(host_us * us)
        stream().put(device_us * us)


def copy(size, pinned):
    if pinned:
        host_works(copy_cost)
        stream().put(size / pinned_bytes_per_s * 1e9)
    else:
        host_waits_until(stream().free)
        host_works(size / pageable_bytes_per_s * 1e9)
        stream().free = virtual_time.at


def collective(device_us):
    host_works(copy_cost)
    stream().put(device_us * us)


def item():
    asked['item'] += 1
    host_waits_until(stream().free)


def refuse_while_capturing(what):
    if capturing:
        raise RuntimeError('CUDA error: operation not permitted when stream is capturing ({})'.format(what))


def synchronize(device=None):
    asked['synchronize'] += 1
    refuse_while_capturing('synchronize')
    target = device_of(device)
    if not target.has_context:
        asked['contexts'] += 1
        target.has_context = True
    host_waits_until(max(each.free for each in target.streams))


class Event:
    def __init__(self, enable_timing=False, **_):
        self.timing = enable_timing
        self.at = None

    def record(self, on=None):
        asked['events'] += 1
        if self.timing:
            refuse_while_capturing('event')
        host_works(event_cost)
        self.at = max(virtual_time.at, (on or stream()).free)

    def query(self):
        return self.at is None or self.at <= virtual_time.at

    def synchronize(self):
        refuse_while_capturing('event')
        host_waits_until(self.at or 0)

    def elapsed_time(self, other):
        if not self.timing or None in (self.at, other.at):
            raise RuntimeError('CUDA error: invalid resource handle')
        return (other.at - self.at) / 1e6


@contextlib.contextmanager
def capture():
    global capturing
    capturing = True
    try:
        yield
    finally:
        capturing = False


@contextlib.contextmanager
def on_stream(which):
    before, which.device.current = which.device.current, which
    try:
        yield
    finally:
        which.device.current = before


def set_device(index):
    global current
    current = devices[index]


class _OnDevice(torch.nn.Parameter):
    place = torch.device('cuda', 0)

    @property
    def device(self):
        return self.place

    @property
    def is_cuda(self):
        return True


def on_device(module, index=0):
    """The module, whose parameters say that they are on the device."""
    for child in module.modules():
        for name, parameter in list(child._parameters.items()):
            moved = child._parameters[name] = torch.Tensor._make_subclass(_OnDevice, parameter.data, True)
            moved.place = torch.device('cuda', index)
    return module


def finished():
    """When host and devices have done all that was asked of them."""
    return max(virtual_time.at, *(each.free for device in devices for each in device.streams))


def install(pinned=True):
    virtual_time.install()
    cuda = torch.cuda
    cuda.is_available = cuda.is_initialized = lambda: True
    cuda.device_count = lambda: len(devices)
    cuda.current_device = lambda: current.index
    cuda.set_device = set_device
    cuda.current_stream = lambda device=None: device_of(device).current
    cuda.is_current_stream_capturing = lambda: capturing
    cuda.Event, cuda.synchronize = Event, synchronize
    cuda.get_device_name = lambda *_: 'simulated'
    cuda.get_rng_state_all, cuda.set_rng_state_all = list, lambda _: None
    torch.Tensor.is_pinned = lambda tensor, *_: pinned
    torch.Tensor.pin_memory = lambda tensor, *_: tensor

