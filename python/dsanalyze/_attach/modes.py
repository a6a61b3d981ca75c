"""Where batches come from: the script's own iterators, kept batches, or second loaders; and what a change of that takes.

Modes go one way, and where the launcher lets go, all batches are the script's own again. So no iterator owes the script what it would have delivered
meanwhile, but an epoch keeps its length.
"""
from time import monotonic_ns as now

from . import drains, framework
from .batches import Replay, leaves_of

least_lists = 64  # Batches that are read into memory, where the epoch has so many: four times those that are kept for G, so that P is not that of the same few.


class Modes:
    """full: the script's own batches. cached: those of a part of its data that is in memory. busy: kept ones, while the loader's workers go on as in cached.
    synthetic: kept ones, while its workers rest."""

    def __init__(self, roles, note):
        self.mode = 'full'
        self._roles = roles
        self._note = note
        self._keep = self._keep_bytes = 0
        self._cycles = {}  # Second loaders, of streams: a stream has no index lists by which it would stay with a part of its data.

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
        """Whether batches come from elsewhere than the script's own iterators."""
        return self.mode in ('busy', 'synthetic') and record.replay is not None or record in self._cycles

    def idles(self, record):
        """Whether the workers of the script's own iterators rest."""
        return self.mode == 'synthetic' and record.replay is not None or record in self._cycles

    # Batches.

    def batch(self, iteration, iterator):
        """One that is not the iterator's own."""
        record = iteration.record
        iteration.replaced = True
        if iteration.is_over():
            raise StopIteration
        if record.length is None and record.facts['batches'] is None:
            self._note('length-unknown', 'The dataset has no length, and no epoch had ended before: this epoch may become longer than the stream.')
        cycle = self._cycles.get(record)
        if self.mode == 'cached':
            return cycle.next()
        if self.mode == 'busy':
            if cycle is not None:
                cycle.drop_ready()
            else:
                iteration.drop_ready(iterator)
        return record.replay.next()

    def samples_of_last(self, iteration, batch):
        record = iteration.record
        return self._cycles[record].samples(batch) if self.mode == 'cached' else record.replay.last_samples

    def prepare(self, steps):
        """Before a window of so many steps. Returns whether copies were made."""
        self._apply()
        if self.mode not in ('busy', 'synthetic'):
            return False
        for record in self._roles.training:
            if record.replay is not None:
                left = record.current.left() if record.current is not None else None
                wanted = drains.beside(record, self._roles.primary, steps)
                record.replay.prepare(wanted if left is None else min(wanted, left))
        return True

    # Changes.

    def switch(self, iteration, reply):
        """Changes where all training iterations have their batches from; returns how many are kept, and how many copies may be made before a window."""
        self.mode = reply['mode']
        self._keep, self._keep_bytes = int(reply.get('keep', 0)), int(reply.get('keep_bytes', 0))
        self._apply()
        first = iteration.record
        if first.replay is None:
            return {}
        copies = min(record.replay.copies() * first.each_step // record.each_step for record in self._roles.training if record.replay is not None)
        copy = framework.current.copy_to_device([item for _, item in leaves_of(first.replay.kept[0][0])])
        return {'kept': len(first.replay.kept), 'copies': max(1, copies), **({} if copy is None else {'copy': copy})}

    def let_go(self):
        """All batches are the script's own again."""
        self.mode = 'full'
        self._apply()

    def close(self, record):
        """Its second loader ends."""
        cycle = self._cycles.pop(record, None)
        if cycle is not None:
            cycle.close()

    def _apply(self):
        """A script may have made a loader anew since the mode has changed."""
        from_memory = self.mode in ('cached', 'busy')
        for record in self._roles.training:
            gone = self._roles.over(record) and record is not self._roles.primary
            if gone or not from_memory:
                self.close(record)
            if self.mode == 'full':
                record.subset = record.replay = None
            if gone:
                continue
            if from_memory and record.map_style:
                record.subset = record.subset or record.first_in_memory()
            elif from_memory and record not in self._cycles:
                self._cycles[record] = drains.Cycle(record)
            if self.mode in ('busy', 'synthetic') and record.replay is None:
                record.replay = self._kept(record)
        for iteration, iterator in self.live():
            if self.idles(iteration.record):
                iteration.held = True
            elif iteration.held:
                iteration.resume(iterator)

    def _kept(self, record):
        """As many as come in time."""
        replay = Replay(self._keep_bytes)
        deadline = now() + 1e9 * drains.grace_seconds
        try:
            for batch, samples in drains.first_batches(record, drains.beside(record, self._roles.primary, self._keep)):
                if not replay.add(batch, samples) or now() > deadline:
                    break
        except Exception:
            if not replay.kept:
                raise
        if not replay.kept:
            raise RuntimeError('no batch came that could be handed out again')
        replay.drop_partial(record.recipe['batch_size'])
        return replay

    def drain(self, iteration, reply):
        records = [iteration.record]
        for other, iterator in self.live():
            other.held = True
            other.look_ahead(iterator, drains.beside(other.record, iteration.record, least_lists))
            if other is not iteration:
                records.append(other.record)
        message = drains.drain(records, int(reply['workers']), int(reply['batches']), float(reply['seconds']), reply.get('pass', 'measure'))
        if message.pop('repeats'):
            self._note('workers-repeat', 'Each worker delivers all samples of the iterable dataset: with several, an epoch has each sample several times. Let the dataset '
                       'deal them out (torch.utils.data.get_worker_info()).')
        return message
