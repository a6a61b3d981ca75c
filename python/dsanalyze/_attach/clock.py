"""Where the time of training steps goes: one number a step and part, in nanoseconds of the monotonic clock.

What happens is marked while the script trains, and divided into steps when a window of them is taken.
"""
import itertools

parts = ('wait', 'compute', 'outside', 'validation', 'steps', 'ranks', 'outside_ranks')
# Kinds of marks: the first three are instants, and the others durations.
stepped, paused, closed, validation, followed, synchronised, ranks, outside_ranks, started = range(9)


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
    """A step's wait lasts until its batch is there, computing from then to the end of the optimizer's last step in it, outside from there to the next
    request. What happens in one of these and belongs elsewhere (a further loader's batch, a validation) is taken out of it.

    `marks` holds for each step when its batch was asked for and when it was there, then the negative times of optimizer steps, and (kind, value) of all else.
    """

    def __init__(self):
        self.gap = None
        self.skipped = 0  # Optimizer steps that a GradScaler left out.
        self.marks = []
        self.samples = []  # Of each step's batch.
        self.counts = False  # The window is to be counted alone, and not clocked.
        self.counted = False  # It is: of its steps there is the first one's beginning, and how many there were.
        self.cut = False  # More than its steps has happened in it.
        self._plain = True  # Where there are three marks a step, they are those that a step takes anyway, and in their order.
        self._validation_began = None
        self._validation_left = None

    @property
    def running(self):
        """Whether there is a step that goes on."""
        return bool(self.marks) and (isinstance(self.marks[-1], int) or self.marks[-1][0] != closed)

    @property
    def stepped(self):
        """Whether an optimizer has stepped in the step that goes on."""
        return next((mark for mark in reversed(self.marks) if isinstance(mark, int)), 1) < 0

    @property
    def validating(self):
        return self._validation_began is not None

    def _mark(self, kind, value):
        if self.running:
            self.marks.append((kind, value))
            self._plain = False

    def served(self, asked, there, samples):
        """The primary loader has handed out the batch of a further step."""
        self.marks += asked, there
        self.samples.append(samples)

    def stepped_at(self, at):
        self.validation_ended()
        if self.running:
            self.marks.append(-at)
            self._plain = False  # Another thread may have asked for the next batch before.

    def followed(self, wait):
        """A further training loader has handed out a batch, inside of this step."""
        self._mark(followed, wait)

    def waited_for_ranks(self, duration):
        self._mark(ranks, duration)

    def synchronised(self, duration):
        """The device was waited for at the end of a window; that is the last step's computing."""
        self._mark(synchronised, duration)

    def started(self, duration):
        """Workers of another pass over the loader have started, while this step goes on: unless it has ended, and the pass before was left early."""
        self._mark(started, duration)

    def validation_entered(self, at):
        """A batch is asked for that no training loader serves, as far as is known."""
        if self._validation_began is None:
            self._validation_began = at
            if not self.stepped:
                self._mark(paused, at)

    def validation_served(self, at):
        self._validation_left = at

    def validation_ended(self, at=None):
        """`at` is nothing where a loop was left before its loader's end: its last batch is the last that is known of it."""
        began, left = self._validation_began, at or self._validation_left
        self._validation_began = self._validation_left = None
        if began is None or left is None or left < began:  # Another thread may have left one that this thread had ended.
            return
        if self.running:
            self._mark(validation, left - began)
        elif self.gap is not None:
            self.gap.validation += left - began

    def close(self, at):
        """The step that goes on ends, and none follows yet."""
        self._mark(closed, at)

    def leave(self, worked_on):
        """The script has left a pass over its loader without asking for its end: the last step ends with its computing, and is none where no optimizer has
        stepped. What came after lies between two epochs. `worked_on`: how long the device still had to work. Returns when the last step has ended."""
        place = _steps_begin(self.marks)[-1]
        step = self.marks[place:]
        computed = max((number for number, mark in enumerate(step) if number > 1 and (isinstance(mark, int) or mark[0] == paused)), default=0)
        after = step[computed + 1 if computed else 2:]
        if computed:
            worked_on += _sum(after, synchronised)
            end = worked_on + (-step[computed] if isinstance(step[computed], int) else step[computed][1])
            self.marks[place + computed + 1:] = [(synchronised, worked_on)]
            self._plain = False
        else:
            end = self._cancel(place)
        if computed or self.gap is None:
            self.gap = Gap(end)
        self.gap.validation += _sum(after, validation)
        self.gap.start += _sum(step, started)
        self.gap.end = None
        return end

    def clock_again(self, at, stepped):
        """Something else happens than steps that are counted, of which the last one goes on: those before it are marked as one."""
        self.cut = True
        first = self.marks[0]
        self.marks = (self.marks[:2] if len(self.samples) == 1 else [first, first, -at, at, at]) + [-at] * stepped

    def drop(self):
        """What was marked since the last window were no steps."""
        self.marks, self.samples = [], []
        if self.gap is not None:
            self.gap.end = None

    def _cancel(self, place):
        """Takes the last step out, of which the marks begin at `place`. Returns when it began, and the one before ended."""
        at = self.marks[place]
        del self.marks[place:]
        self.samples.pop()
        return at

    def take(self, with_ranks, end=None):
        """The window since the last take(), or nothing where there was no step. The last step was closed at `end`; it is left out where that is not known."""
        if self.marks and not self.running:
            end = self.marks[-1][1]
        elif self.marks and end is None:
            end = self._cancel(_steps_begin(self.marks)[-1])
        marks, self.marks = self.marks, []
        samples, self.samples = self.samples, []
        skipped, self.skipped = self.skipped, 0
        counted, self.counted = self.counted, False
        cut, self.cut = self.cut, False
        plain, self._plain = self._plain, True
        if not marks:
            return None
        window = {'begin': marks[0], 'end': end, 'samples': samples, 'skipped': skipped}
        if counted:
            return dict(window, cut=cut)
        window.update(_divided_plain(marks, end) if plain and not with_ranks and _three_a_step(marks) else _divided(marks, end))
        if not with_ranks:
            window.pop('ranks', None)
            window.pop('outside_ranks', None)
        return window


class Common:
    """A pass over a loader whose batches alone take part in steps, which is so nearly always: of these steps the clock's marks are all that is kept, and each
    costs a few microseconds."""

    def __init__(self, iteration, by_request, counts, fetch, samples_of):
        """`by_request`: each request ends a step. `counts`: its steps are counted, and no clock is read. `fetch` and `samples_of`: see Engine.source()."""
        self.iteration = iteration
        self.thread = iteration.thread
        self.by_request = by_request and not counts
        self.counts = counts
        self.stepped = False  # An optimizer has, in a step that is counted.
        self.fetch = fetch
        self.handed_before = iteration.handed
        self.sizes = _sizes_ahead(iteration) if samples_of is None else None
        self.samples_of = samples_of or iteration.samples_of_last


def _sizes_ahead(iteration):
    """The numbers of samples of the batches to come, where the sampler says them: then no batch is looked at."""
    facts_of = iteration.record.facts
    size, samples, batches = facts_of['batch_size'], facts_of['samples'], facts_of['batches']
    if facts_of['style'] != 'map' or not size or not samples or batches != (samples // size if facts_of['drop_last'] else -(-samples // size)):
        return None
    return itertools.chain(itertools.repeat(size, batches - 1 - iteration.handed), itertools.repeat(min(size, samples - size * (batches - 1))))


def _sum(marks, kind):
    return sum(mark[1] for mark in marks if isinstance(mark, tuple) and mark[0] == kind)


def _steps_begin(marks):
    """The places where steps begin."""
    return [place for place, mark in enumerate(marks) if isinstance(mark, int) and mark >= 0][::2]


def _three_a_step(marks):
    """Whether each step has one step of an optimizer."""
    return len(marks) % 3 == 0 and max(marks[2::3]) < 0 <= min(min(marks[0::3]), min(marks[1::3]))


def _divided_plain(marks, end):
    asked, there, computed = marks[0::3], marks[1::3], marks[2::3]
    return {'wait': [at - began for began, at in zip(asked, there)], 'compute': [-at - began for began, at in zip(there, computed)],
            'outside': [following + at for at, following in zip(computed, [*asked[1:], end])], 'validation': [0] * len(asked), 'steps': [1] * len(asked)}


def _divided(marks, end):
    begins = _steps_begin(marks)
    ends = [marks[place] for place in begins[1:]] + [end]
    steps = [_parts(marks[place:following], at) for place, following, at in zip(begins, [*begins[1:], None], ends)]
    return dict(zip(parts, map(list, zip(*steps))))


def _parts(marks, end):
    """One step's parts. What lies in one and belongs elsewhere is taken out of it."""
    asked, there, *marks = marks
    sums = [0] * (started + 1)
    computed = inside = 0
    for mark in marks:
        kind, value = (stepped, -mark) if isinstance(mark, int) else mark
        if kind == closed:
            end = value
        elif kind in (stepped, paused):
            computed, inside = value, sums[followed] + sums[validation]
            sums[stepped] += kind == stepped
        else:
            sums[outside_ranks if kind == ranks and computed else kind] += value
    end_computed = end - sums[synchronised]
    elsewhere = sums[followed] + sums[validation]
    if not computed:
        computed, inside = end_computed, elsewhere
    computed = min(max(computed, there), end_computed)  # A loop that fetches in a thread of its own has the optimizer's step while it waits.
    compute = max(0, computed - there - inside) + sums[synchronised]
    outside = max(0, end_computed - computed - (elsewhere - inside) + sums[validation])
    return (there - asked + sums[followed], compute, outside, min(sums[validation], outside), sums[stepped], min(sums[ranks], compute),
            min(sums[outside_ranks], outside))
