"""Where the time of training steps goes: one number a step and part, in nanoseconds of the monotonic clock."""
parts = ('wait', 'compute', 'outside', 'validation', 'hook', 'samples', 'steps', 'ranks', 'outside_ranks')


class Gap:
    """What happened between the end of one training epoch and the first step of the next."""

    def __init__(self, begin):
        self.begin = begin
        self.end = None  # Known, where steps came before it is told.
        self.start = 0
        self.validation = 0
        self.optimizer_steps = 0

    def report(self, end):
        return {'begin': self.begin, 'end': end, 'start': self.start, 'validation': self.validation}


class StepClock:
    """Each part of a step is between clock readings of its own: computing from the batch to the end of the optimizer's step, outside from there to the
    next request. What happens in one of these and belongs elsewhere (a further loader's batch, a validation, the hook) is taken out of it. The launcher
    learns what none of the parts holds, as begin and end of the window are read apart.

    Follows one step at a time: open() when the primary loader is asked, served() when it has answered, close() when it is asked again.
    """

    def __init__(self):
        self.begin = None
        self.gap = None
        self.shortcut = None  # What follows steps in place of this clock.
        self.skipped = 0
        self._open = None
        self._validation_began = None
        self._validation_left = None
        self._raw = []
        self._reset()

    def _reset(self):
        self.stepped = 0
        self.steps = 0
        self._wait = self._hook = self._samples = self._validation = self._ranks = self._outside_ranks = 0
        self._after = self._followed = 0
        self._inside = 0, 0, 0, 0, 0
        self._started = 0
        self._ready = self._paused = None
        self._synchronised = 0

    @property
    def running(self):
        return self._open is not None

    @property
    def validating(self):
        return self._validation_began is not None

    def __len__(self):
        return len(self._raw)

    def open(self, at):
        if self.begin is None:
            self.begin = at
        self._open = at

    def cancel(self):
        """The step that was opened did not happen: its loader had ended. Returns when it was opened."""
        at, self._open = self._open, None
        if not self._raw:
            self.begin = None
        self._reset()
        return at

    def served(self, at, wait, hook, samples):
        """The primary loader has handed out its batch."""
        self._ready = at
        self._wait += wait
        self._hook += hook
        self._samples += samples

    def followed(self, wait, hook):
        """A further training loader has handed out a batch, inside of this step."""
        if self._open is None:
            return
        self._wait += wait
        self._hook += hook
        self._followed += wait + hook

    def hooked_within(self, duration):
        """The hook's own time while the step computes."""
        if self._open is not None:
            self._hook += duration
            self._followed += duration

    def _computed(self):
        """Computing ends here, as far as is known: so much of it belongs elsewhere."""
        self._inside = self._followed, self._after, self._validation, self._wait, self._hook

    def started(self, duration):
        """Workers of another pass over the loader have started, while this step goes on: unless it has ended, and the pass before was left early."""
        self._started += duration

    def stepped_at(self, at):
        if self._validation_began is not None:
            self.validation_ended()
        self.stepped = at
        self.steps += 1
        self._computed()

    def hooked_after(self, duration):
        """The hook's own time after an optimizer's step."""
        if self._open is not None:
            self._after += duration

    def skipped_at(self, at):
        """A GradScaler left out the optimizer's step."""
        self.skipped += 1
        if self._open is not None:
            self.stepped = at
            self._computed()

    def waited_for_ranks(self, duration):
        if self.shortcut is not None:
            self.shortcut.waited_for_ranks(duration)
        elif self._open is not None:
            if self.stepped or self._paused:
                self._outside_ranks += duration
            else:
                self._ranks += duration

    def synchronised(self, duration):
        """The device was waited for at the end of a window; that is the last step's computing."""
        if self._open is not None:
            self._synchronised += duration

    def validation_entered(self, at):
        """A batch is asked for that no training loader serves, as far as is known."""
        if self._validation_began is None:
            self._validation_began = at
            if self._open is not None and not self.stepped:
                self._paused = at
                self._computed()

    def validation_served(self, at):
        self._validation_left = at

    def validation_ended(self, at=None):
        """`at` is nothing where a loop was left before its loader's end: its last batch is the last that is known of it."""
        began, left = self._validation_began, at or self._validation_left
        self._validation_began = self._validation_left = None
        if began is None or left is None or left < began:  # Another thread may have left one that this thread had ended.
            return
        if self._open is not None:
            self._validation += left - began
        elif self.gap is not None:
            self.gap.validation += left - began

    def close(self, at):
        """The primary loader is asked again (or has ended). The step's time is divided later, by take(). Returns whether there was a step."""
        if self._validation_began is not None:
            self.validation_ended()
        if self._open is None or self._ready is None:
            return False
        computed = self.stepped or self._paused
        if not computed:
            computed = at - self._synchronised
            self._computed()
        self._raw.append((self._open, at, self._ready, computed, self._synchronised, self._wait, self._hook, self._validation, self._samples, self.steps,
                          self._ranks, self._outside_ranks, self._after, self._followed, sum(self._inside[:3])))
        self._open = None
        self._reset()
        return True

    def worked_on(self, duration):
        """The device has worked on for so long after the last step, which is closed: that is its computing. Returns the duration."""
        if self._raw and duration:
            opened, closed, ready, computed, synchronised, *others = self._raw[-1]
            self._raw[-1] = (opened, closed + duration, ready, computed, synchronised + duration, *others)
        return duration

    def leave(self, worked_on, ranks):
        """The script has left a pass over its loader without asking for its end: the last step ends with its computing, and is none where no optimizer has
        stepped. What came after lies between two epochs. `worked_on`: how long the device still had to work. Returns the window since the last take()."""
        if self._validation_began is not None:
            self.validation_ended()
        computed = self.stepped or self._paused
        known = bool(self._open is not None and self._ready is not None and computed)
        end = self._open
        if known:
            followed, after, validation, wait, hook = self._inside
            computed = max(computed, self._ready)
            worked_on += self._synchronised
            end = computed + worked_on
            self._raw.append((self._open, end, self._ready, computed, worked_on, wait, hook, validation, self._samples, self.steps, self._ranks, 0, after,
                              followed, followed + after + validation))
            self.gap = Gap(end)
            self.gap.validation = self._validation - validation
        elif end is not None and self.gap is None:
            self.gap = Gap(end)
            self.gap.validation = self._validation
        if self.gap is not None:
            self.gap.start += self._started
            self.gap.end = None
        raw, self._raw = self._raw, []
        window = _window(self.begin, end, raw, self.skipped, ranks)
        self.begin = self._open = None
        self.skipped = 0
        self._reset()
        return window

    def take(self, end, ranks):
        """The window since the last take(), or nothing where no step was closed."""
        begin, self.begin = self.begin, None
        raw, self._raw = self._raw, []
        skipped, self.skipped = self.skipped, 0
        return _window(begin, end, raw, skipped, ranks)


def _window(begin, end, raw, skipped, ranks):
    if raw:
        window = {'begin': begin, 'end': end}
        window.update(zip(parts, map(list, zip(*[_divided(*step) for step in raw]))))
        if not ranks:
            del window['ranks'], window['outside_ranks']
        window['skipped'] = skipped
        return window
    return None


def _divided(opened, closed, ready, computed, synchronised, wait, hook, validation, samples, steps, ranks, outside_ranks, after, followed, inside):
    """One step's parts, of which the first three and the hook's own time are all that was measured of it."""
    computed = max(computed, ready)  # A loop that fetches in a thread of its own has the optimizer's step while it waits.
    compute = max(0, computed - ready - inside) + synchronised
    beyond = followed + after + validation - inside
    outside = max(0, closed - computed - synchronised - beyond + validation)
    return wait, compute, outside, min(validation, outside), hook + after, samples, steps, min(ranks, compute), min(outside_ranks, outside)
