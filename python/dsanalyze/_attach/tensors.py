"""PyTorch's tensors in batches, as arrays.py has other arrays."""
import torch

page_bytes = 4096


class Tensors:
    """A tensor's version shows that a script has changed it in place."""

    copied = staticmethod(torch.Tensor.clone)

    @staticmethod
    def has(value):
        return isinstance(value, torch.Tensor)

    @staticmethod
    def own(tensor):
        """Workers' shared memory holds a descriptor for each tensor."""
        return tensor.clone() if tensor.device.type == 'cpu' and tensor.is_shared() else tensor

    @staticmethod
    def again(tensor):
        """A tensor of its own on the same memory and version counter, so that requires_grad, .grad or .data of the kept one stay as they were."""
        return tensor.detach() if type(tensor) is torch.Tensor and not tensor.__dict__ else tensor

    @staticmethod
    def mark(tensor):
        return tensor._version

    @staticmethod
    def size(tensor):
        return tensor.numel() * tensor.element_size()

    @staticmethod
    def shared(tensor):
        return Tensors.size(tensor) if tensor.is_shared() else 0


def map_pages(tensors):
    """Has the pages of those in shared memory mapped, as a step has that computes on them; batches that are handed out again are mapped already."""
    with torch.no_grad():
        for tensor in tensors:
            if Tensors.has(tensor) and tensor.device.type == 'cpu' and tensor.is_shared() and tensor.numel():
                flat = tensor.detach().reshape(-1)
                flat[::max(1, page_bytes // flat.element_size())].sum()
