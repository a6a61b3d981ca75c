"""A GPU in virtual time (virtual_time.py): launches, copies and waits take what they are declared to, and nothing else takes any.

The host puts kernels into the queue of a stream, which has room for 1,024, and goes on; the stream works through them in order. A copy from pinned memory is one of
them; one from pageable memory waits for the stream, as do synchronize() and item().
install() puts it under torch.cuda. Tensors stay where they are: on_device() makes parameters that say otherwise.
"""
import collections
import types

import torch

import virtual_time

queue_length = 1024
us = 1000  # nanoseconds
copy_cost = 8 * us
pinned_bytes_per_s = 25e9
pageable_bytes_per_s = 5e9


def host_works(nanoseconds):
    virtual_time.at += round(nanoseconds)


def host_waits_until(at):
    virtual_time.at = max(virtual_time.at, round(at))


class Stream:
    def __init__(self):
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
    def __init__(self):
        self.has_context = False  # Until something is asked of it.
        self.stream = Stream()
        self.side = Stream()  # Another one, for copies.

    def free(self):
        return max(self.stream.free, self.side.free)


devices = [Device(), Device()]
captures = False  # A graph: then nothing may be waited for.
asked = collections.Counter()  # What the script and the hook asked of the library, by name.


def device_of(device):
    """As torch.cuda takes it: nothing, a number, a torch.device."""
    index = getattr(device, 'index', device)
    return devices[index or 0]


def stream(device=None):
    device_of(device).has_context = True
    return device_of(device).stream


def launch(kernels, host_us, device_us, device=None):
    for _ in range(kernels):
        host_works(host_us * us)
        stream(device).put(device_us * us)


def copy(size, pinned, device=None, beside=False):
    """`beside`: on the other stream, for which this one waits."""
    if pinned and beside:
        host_works(copy_cost)
        side = device_of(device).side
        side.put(size / pinned_bytes_per_s * 1e9)
        stream(device).free = max(stream(device).free, side.free)
    elif pinned:
        host_works(copy_cost)
        stream(device).put(size / pinned_bytes_per_s * 1e9)
    else:
        host_waits_until(stream(device).free)
        host_works(size / pageable_bytes_per_s * 1e9)
        stream(device).free = virtual_time.at


def item(device=None):
    asked['item'] += 1
    host_waits_until(stream(device).free)


def collective(wait_ms, device=None):
    """The device waits for other ranks, and the host goes on."""
    host_works(copy_cost)
    stream(device).put(wait_ms * 1000 * us)


def synchronize(device=None):
    if captures:
        raise RuntimeError('operation not permitted when stream is capturing')
    asked['synchronize'] += 1
    if not device_of(device).has_context:
        asked['contexts'] += 1
    host_waits_until(device_of(device).free())


def no_event(*_, **__):
    asked['events'] += 1
    raise RuntimeError('nothing is clocked by events')


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
    return max(virtual_time.at, *(device.free() for device in devices))


def install(pinned=True):
    virtual_time.install()
    cuda = torch.cuda
    cuda.is_available = cuda.is_initialized = lambda: True
    cuda.device_count = lambda: len(devices)
    cuda.current_device = lambda: 0
    cuda.Event, cuda.synchronize = no_event, synchronize
    cuda.get_device_name = lambda *_: 'simulated'
    cuda.get_device_properties = lambda device: types.SimpleNamespace(uuid='simulated-{}'.format(device.index))
    cuda.get_rng_state_all, cuda.set_rng_state_all = list, lambda _: None
    torch.Tensor.is_pinned = lambda tensor, *_: pinned
    torch.Tensor.pin_memory = lambda tensor, *_: tensor

