"""Which loaders train: those whose batches an optimizer step follows."""
import sys

import torch

patience = 3


gradients_enabled = torch.is_grad_enabled  # Inference mode disables them, too.


class Roles:
    """Counts hand-outs (with gradients enabled) between optimizer steps.

    The loader asked last before a step trains. One that is asked equally often beside it (zip of two loaders) does so, too, when this is seen twice:
    a validation loop that was left early looks the same once.
    """

    def __init__(self):
        self._since = {}
        self._last = None
        self._missing = 0
        self._doubted = False
        self._alike = ()
        self.training = []
        self.primary = None

    def served(self, record):
        self._since[record] = self._since.get(record, 0) + 1
        self._last = record

    def ended(self, record):
        self._since.pop(record, None)

    def stepped(self):
        """An optimizer has stepped: returns the loaders that are now known to train, the primary first."""
        since, last = self._since, self._last
        if not since:
            return ()
        self._since, self._last = {}, None
        if self.primary in since:
            self._missing = 0
            if len(since) == 1:
                self._alike = ()
                return ()
        else:
            self._missing += 1
        if last not in since:
            return ()
        alike = [record for record, count in since.items() if count == since[last]]
        sole = last if self.primary not in since else None
        found = [record for record in alike if not record.training and (record in self._alike or record is sole)]
        self._alike = alike
        if self.primary is None and len(since) > 1 and len(found) < 2 and not self._doubted:
            self._doubted = True  # The next step tells.
            return ()
        for record in found:
            record.training = True
        self.training += found
        if self.primary is None:
            self.primary = found[0]
        elif self.primary not in since and (self.over(self.primary) or self._missing >= patience):
            self.primary = last
            self._missing = 0
            if last not in found:
                found.insert(0, last)
        return found

    @staticmethod
    def over(record):
        """Whether the script has no use for the loader's last iterator any more."""
        iteration = record.current
        return iteration is None or iteration.ended or iteration.iterator() is None


class Randomness:
    """Random number generators as they were, whatever a drain or a discarded batch drew from them."""

    def __enter__(self):
        self._torch = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
        random, numpy = sys.modules.get('random'), sys.modules.get('numpy')
        self._random = (random, random.getstate()) if random is not None else None
        self._numpy = (numpy, numpy.random.get_state()) if numpy is not None and hasattr(numpy, 'random') else None

    def __exit__(self, *_):
        torch.set_rng_state(self._torch)
        if self._cuda is not None:
            torch.cuda.set_rng_state_all(self._cuda)
        if self._random is not None:
            self._random[0].setstate(self._random[1])
        if self._numpy is not None:
            self._numpy[0].random.set_state(self._numpy[1])
