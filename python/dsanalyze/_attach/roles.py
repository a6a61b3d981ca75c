"""Which loaders train: those whose batches an optimizer step follows."""
patience = 3
seen_beside = 2  # Steps in a row in which a loader was asked as often as the one asked last.
seen_otherwise = 3  # The same of one that was asked more or less often than that one, but each time equally often.


class Roles:
    """Counts hand-outs (with gradients enabled) between optimizer steps.

    The loader asked last before a step trains. One that is asked beside it (zip of two loaders) does so, too, when several steps in a row ask it equally
    often: a validation loop that was left early looks the same once, unless as many loaders trained together before. Of those found together, the one
    asked least often is the primary.
    """

    def __init__(self):
        self._since = {}
        self._last = None
        self._missing = 0
        self._doubts = 0
        self._together = 1  # Loaders of the last step of which all are known to train.
        self._repeated = {}  # By loader: its batches of one step, and for how many steps in a row that is so.
        self.training = []
        self.primary = None

    def served(self, record):
        self._since[record] = self._since.get(record, 0) + 1
        self._last = record

    def ended(self, record):
        self._since.pop(record, None)

    def undoubted(self):
        """Whether no step of late asked for batches of any loader but the primary one."""
        return not self._repeated and not self._missing and (not self._since or list(self._since) == [self.primary])

    def resume(self, record, asked):
        """Since the last optimizer step, this loader alone was asked, or none."""
        self._since = {record: 1} if asked else {}
        self._last = record

    def stepped(self):
        """An optimizer has stepped: returns the loaders that are now known to train, the primary first."""
        since, last = self._since, self._last
        if not since:
            return ()
        self._since, self._last = {}, None
        if self.primary in since:
            self._missing = 0
            if len(since) == 1:
                self._repeated = {}
                self._together = 1
                return ()
        else:
            self._missing += 1
        before, self._repeated = self._repeated, {}
        for record, count in since.items():
            old, times = before.get(record, (count, 0))
            self._repeated[record] = (count, times + 1 if count == old else 1)
        if last not in since:
            return ()
        sole = last if self.primary not in since else None
        renewed = sole is not None and self._together == len(since) > 1 and len(set(since.values())) == 1
        found = [record for record in since if not record.training and (renewed or self._seen_enough(record, since[last]) or record is sole)]
        known = sum(1 for record in since if record.training or self._seen_enough(record, since[last]))
        if self.primary is None and len(since) > max(known, 1) and self._doubts < seen_otherwise - 1:
            self._doubts += 1  # The next step tells.
            return ()
        for record in found:
            record.training = True
            record.each_step = since[record]
        self.training += found
        if all(record.training for record in since):
            self._together = len(since)
        if self.primary is None:
            found.sort(key=since.get)
            self.primary = found[0]
        elif self.primary not in since and (self.over(self.primary) or self._missing >= patience):
            self.primary = found[0] if renewed and found else last
            self._missing = 0
            if self.primary not in found:
                found.insert(0, self.primary)
        return found

    def renew(self, record, old):
        """It trains in place of `old`, whose epoch is over."""
        record.training = True
        record.each_step = old.each_step
        self.training[self.training.index(old)] = record
        if self.primary is old:
            self.primary = record
            self._missing = 0

    def _seen_enough(self, record, count_of_last):
        count, times = self._repeated[record]
        return times >= (seen_beside if count == count_of_last else seen_otherwise)

    @staticmethod
    def over(record):
        """Whether the script has no use for the loader's last iterator any more."""
        iteration = record.current
        return iteration is None or iteration.ended or iteration.iterator() is None
