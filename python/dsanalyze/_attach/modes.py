"""Where batches come from: the script's own iterators, replayed ones, or second loaders; and what a change of that takes."""
from . import drains
from .batches import Replay
from .roles import Randomness
from .shared_memory import error_text


class Modes:
    def __init__(self, roles, note):
        self.mode = 'full'
        self._roles = roles
        self._note = note
        self._cached = {}
        self._keep = 0
        self._keep_bytes = 0

    def live(self):
        """The training iterations that go on, with their iterators."""
        found = []
        for record in self._roles.training:
            iteration = record.current
            iterator = iteration.iterator() if iteration is not None else None
            if iterator is not None and not iteration.ended:
                found.append((iteration, iterator))
        return found

    def replaces(self, record):
        """Whether batches come from elsewhere than the script's own iterators: a map-style loader itself is given the subset's index lists."""
        return self.mode == 'synthetic' or (self.mode == 'cached' and not record.map_style)

    def apply(self, iteration, iterator):
        """Makes one iteration idle, and for synthetic mode keeps what it delivers meanwhile."""
        if not self._keep or iteration.record.replay:
            return iteration.discard(iterator)
        replay = Replay()
        with Randomness():
            count, error = iteration.discard(iterator, self._keep, lambda batch, samples: replay.add(batch, samples, self._keep_bytes))
        recipe = iteration.record.recipe
        replay.drop_partial(recipe['batch_size'] if recipe else None)
        if len(replay):
            iteration.record.replay = replay
        return count, error

    def switch(self, iteration, reply):
        """Changes where all training iterations have their batches from, and returns what that discarded and kept."""
        mode = reply['mode']
        self._keep = int(reply.get('keep', 16)) if mode == 'synthetic' else 0
        self._keep_bytes = int(reply.get('keep_bytes', 1 << 30))
        discarded = 0
        with Randomness():
            for other, iterator in self.live() if mode != 'full' or self.mode == 'cached' else ():
                other.record.replay = None
                count, error = self.apply(other, iterator)
                discarded += count if other is iteration else 0
                if error is not None:
                    self._note('discard-failed', 'A batch failed while outstanding batches were discarded: {}'.format(error_text(error)))
            self.close_cached()
            self.mode = mode
            for record in self._roles.training if mode == 'cached' else ():
                if record.map_style:
                    record.keep_to_subset()
                elif record.current is not None and not record.current.ended:
                    self._cached[record] = drains.Cycle(record)
            if mode != 'synthetic':
                self.resume()
        replay = iteration.record.replay if self._keep else None
        return {'discarded': discarded, 'kept': len(replay) if replay is not None else 0, 'bytes': replay.bytes if replay is not None else 0}

    def resume(self):
        for other, iterator in self.live():
            if self.replaces(other.record):
                continue
            if other.held:
                other.resume(iterator)
            if other.ahead:
                left = other.skip_ahead(iterator)
                if left:
                    self._note('epoch-lengthened', 'The stream could not be read as fast as the epoch went on without it: {} batches.'.format(left))

    def cached_batch(self, iteration):
        """A batch of the second loader, and its samples."""
        record = iteration.record
        if record not in self._cached:
            with Randomness():
                self._cached[record] = drains.Cycle(record)
        return self._cached[record].next()

    def close_cached(self):
        for record in self._roles.training:
            record.subset = None
        self._close_second_loaders()

    def _close_second_loaders(self):
        cached, self._cached = self._cached, {}
        for cycle in cached.values():
            cycle.close()

    def drain(self, iteration, reply):
        records = [iteration.record]
        with Randomness():
            self._close_second_loaders()  # Their workers would prepare ahead beside the drain.
            for other, iterator in self.live():
                if not other.held:
                    other.discard(iterator)
                other.peek(iterator, drains.beside(other.record, iteration.record, int(reply['batches'])))
                if other is not iteration:
                    records.append(other.record)
            message = drains.drain(records, int(reply['workers']), int(reply['batches']), float(reply['seconds']), reply.get('pass', 'measure'))
        if message['differs']:
            self._note('not-separable', 'Two starts of the iterable dataset gave different batches.')
        if message.pop('repeats'):
            self._note('workers-repeat', 'Each worker delivers all samples of the iterable dataset: with several, an epoch has each sample several times. Let the dataset '
                       'deal them out (torch.utils.data.get_worker_info()).')
        message['mode'] = self.mode
        return message
