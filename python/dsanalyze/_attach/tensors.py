"""PyTorch's tensors in batches, as arrays.py has other arrays."""
import torch

from .batches import transform

page_bytes = 4096


class Tensors:
    @staticmethod
    def has(value):
        return isinstance(value, torch.Tensor)

    @staticmethod
    def own(tensor):
        """Workers' shared memory holds a descriptor for each tensor."""
        return tensor.clone() if is_shared(tensor) else tensor

    @staticmethod
    def copied(tensor):
        """The same on memory of its own, pinned where the tensor's is. What is more than a tensor keeps its class and its attributes."""
        other = tensor.detach().clone()
        if torch.cuda.is_initialized() and tensor.is_pinned():
            other = other.pin_memory()
        if type(other) is not type(tensor):
            other = other.as_subclass(type(tensor))
        for name, value in tensor.__dict__.items():
            other.__dict__[name] = transform(value, lambda kind, item: kind.copied(item))
        return other.requires_grad_(tensor.requires_grad)

    @staticmethod
    def size(tensor):
        size = tensor.numel() * tensor.element_size()
        pinned = size and torch.cuda.is_initialized() and tensor.is_pinned()
        return 1 << (size - 1).bit_length() if pinned else size  # PyTorch pins memory by powers of two.

    @staticmethod
    def room(tensor):
        """Bytes that are free where copies of it are made; None where that is the host's memory."""
        return torch.cuda.mem_get_info(tensor.device)[0] if tensor.device.type == 'cuda' else None


def is_shared(tensor):
    """Whether it lies in memory that processes share; a sparse one does not say."""
    try:
        return tensor.device.type == 'cpu' and tensor.is_shared()
    except (NotImplementedError, RuntimeError):
        return False


def map_pages(tensors):
    """Has the pages of those in shared memory mapped, as a step has that computes on them; batches that are handed out again are mapped already."""
    with torch.no_grad():
        for tensor in tensors:
            if Tensors.has(tensor) and is_shared(tensor) and tensor.numel():
                flat = tensor.detach().reshape(-1)
                flat[::max(1, page_bytes // flat.element_size())].sum()
