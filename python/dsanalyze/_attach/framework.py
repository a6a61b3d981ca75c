"""What the hook asks of the library that a script trains with. Without PyTorch, the answers are those of Framework; pytorch.py has PyTorch's.

Nothing is imported here: a library that the script has not imported, or not started, is not asked.
"""
import sys


class Framework:
    """A script that trains by JAX, by TensorFlow, or by means of its own. Threads: any."""

    folders = ()  # Files in them are none of the script's.

    @staticmethod
    def gradients_enabled():
        """Whether a batch that is asked for now may train."""
        return True

    def has_optimizer(self):
        """Whether there is an optimizer, whose steps are the training's."""
        return False

    def in_worker(self):
        """Whether this process makes samples for another one."""
        return False

    def follow_ranks(self):
        """From now on the waits for other ranks are clocked, where that is possible."""

    def training_is_known(self):
        """What is followed to find out who trains needs not be followed further."""

    def rank(self):
        """(rank, number of ranks), where the library has them; else None."""
        state = getattr(sys.modules.get('jax._src.distributed'), 'global_state', None)
        return (state.process_id, state.num_processes) if (getattr(state, 'num_processes', None) or 1) > 1 else None

    def device(self):
        """(whether it is another one than the CPU, its name); None of what is not known."""
        found = [backend.devices()[0].device_kind for backend in _jax_backends() if backend.platform != 'cpu']
        tensorflow = _tensorflow()
        if tensorflow is not None:
            found += [device.name for device in tensorflow.config.list_logical_devices('GPU')]
        return bool(found), found[0] if found else None

    def gpus(self):
        """UUIDs of those that train, as NVML names them; nothing where that is not known."""
        return ()

    def synchronise(self):
        """Waits for what JAX and TensorFlow still compute while Python goes on. Returns whether one of them is there."""
        backends = _jax_backends()
        for backend in backends:
            for array in backend.live_arrays():
                if not array.is_deleted():
                    array.block_until_ready()
        tensorflow = _tensorflow()
        if tensorflow is not None:  # Its GPUs compute while Python goes on; its CPU does not.
            tensorflow.test.experimental.sync_devices()
        return bool(backends) or tensorflow is not None

    def copy_to_device(self, items):
        """What a copy of a batch's arrays from the host to the device takes: bytes, nanoseconds, and whether their memory is pinned. None where there is no such copy."""
        return None


def _jax_backends():
    """Those that the script has started."""
    return list((getattr(sys.modules.get('jax._src.xla_bridge'), '_backends', None) or {}).values())


def _tensorflow():
    """Where the script has started it, and has not chosen the mode of its first version."""
    contexts = sys.modules.get('tensorflow.python.eager.context')
    started = contexts is not None and hasattr(contexts, 'context_safe') and getattr(contexts.context_safe(), '_initialized', False)
    return sys.modules.get('tensorflow') if started and contexts.executing_eagerly() else None


current = Framework()


def use(framework):
    """From now on `current` is this one. Callers look it up at each use: a script may import PyTorch after its first batches."""
    global current
    current = framework
