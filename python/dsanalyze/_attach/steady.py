"""Training steps that take one batch of one loader each: three clock readings a step, which are divided once a second."""


class Steady:
    """Follows the steps of one epoch. `marks` holds for each step when its batch was asked for and when it was there, then the negative times of optimizer
    steps and, as floats, how long other ranks were waited for."""

    def __init__(self, iteration, begin, by_request, fetch, samples_of=None):
        """The first step's batch is asked for at `begin`, when the last step of the long way was closed. `by_request`: each request ends a step.
        `fetch(iterator)`: the next batch. `samples_of(batch)`: of the batch that was handed out last; else the loader's facts say it, or the iteration."""
        self.iteration = iteration
        self.fetch = fetch
        self.by_request = by_request
        self._handed_before = iteration.handed
        self.begin = begin
        self.thread = iteration.thread
        self.marks = []
        self.skipped = 0
        self._sizes = []
        self._samples_of = samples_of or iteration.samples_of_last
        facts = iteration.record.facts
        size, samples, batches = facts['batch_size'], facts['samples'], facts['batches']
        self._size = size
        # The sampler says how many samples a batch has: then no batch is looked at.
        self._counts = None
        if samples_of is None and facts['style'] == 'map' and size and samples and batches == (samples // size if facts['drop_last'] else -(-samples // size)):
            self._counts = batches
            self._last = min(size, samples - size * (batches - 1))

    def step(self, asked, served, batch):
        """A batch has been handed out."""
        iteration = self.iteration
        iteration.handed += 1
        marks = self.marks
        marks.append(asked)
        marks.append(served)
        if self._counts is None:
            self._sizes.append(self._samples_of(batch))

    def handed(self):
        """Batches, since it follows the steps."""
        return self.iteration.handed - self._handed_before

    def stepped(self, at):
        self.marks.append(-at)

    def waited_for_ranks(self, duration):
        self.marks.append(float(duration))

    def take(self, end, ranks):
        """The steps so far as a window, the last of them closed at `end`; nothing where there is none."""
        marks, self.marks = self.marks, []
        sizes, self._sizes = self._sizes, []
        if not marks:
            return None
        steps = len(marks) // 3
        if len(marks) == 3 * steps and max(marks[2::3]) < 0 < min(marks[0::3]) and min(marks[1::3]) > 0 and not ranks:
            asked, served, stepped = marks[0::3], marks[1::3], marks[2::3]
            window = {'wait': [there - at for at, there in zip(asked, served)], 'compute': [-at - there for at, there in zip(stepped, served)],
                      'outside': [following + at for following, at in zip([*asked[1:], end], stepped)], 'steps': [1] * steps}
            begin = asked[0]
        else:
            window, begin = _divided(marks, end)
            steps = len(window['wait'])
            if not ranks:
                del window['ranks'], window['outside_ranks']
        none = [0] * steps
        window.update(begin=begin, end=end, validation=none, hook=list(none), samples=self._samples(steps, sizes), skipped=self.skipped)
        self.skipped = 0
        return window

    def take_closed(self, ranks):
        """The same of all steps but the last, which has begun and goes on."""
        last = _last_step(self.marks)
        going, self.marks = self.marks[last:], self.marks[:last]
        size, self._sizes = self._sizes[-1:], self._sizes[:-1]
        self.iteration.handed -= bool(going)
        window = self.take(going[0], ranks) if going else None
        self.iteration.handed += bool(going)
        self.marks, self._sizes = going, size
        return window

    def resume(self, clock):
        """The step that goes on, from now on in a clock. Returns whether no optimizer has stepped in it."""
        if not self.marks:
            return False
        asked, served, *rest = self.marks
        clock.open(asked)
        clock.served(served, served - asked, 0, self._samples(1, self._sizes)[0])
        for mark in rest:
            if isinstance(mark, float):
                clock.waited_for_ranks(int(mark))
            else:
                clock.stepped_at(-mark)
        return not clock.steps

    def _samples(self, steps, sizes):
        if self._counts is None:
            return sizes
        samples = [self._size] * steps
        if self.iteration.handed == self._counts:
            samples[-1] = self._last
        return samples


def _last_step(marks):
    """Where the last step's marks begin."""
    place = len(marks) - 1
    while place > 0 and (isinstance(marks[place], float) or marks[place] < 0):
        place -= 1
    return max(place - 1, 0)


def _divided(marks, end):
    """Steps without an optimizer step, with several, or with waits for other ranks."""
    window = {part: [] for part in ('wait', 'compute', 'outside', 'steps', 'ranks', 'outside_ranks')}
    place, begin = 0, marks[0]
    while place < len(marks):
        asked, served = marks[place], marks[place + 1]
        place += 2
        steps = ranks = outside_ranks = stepped = 0
        while place < len(marks) and (isinstance(marks[place], float) or marks[place] < 0):
            if not isinstance(marks[place], float):
                stepped, steps = -marks[place], steps + 1
            elif steps:
                outside_ranks += int(marks[place])
            else:
                ranks += int(marks[place])
            place += 1
        closed = marks[place] if place < len(marks) else end
        computed = max(stepped or closed, served)
        for part, value in (('wait', served - asked), ('compute', computed - served), ('outside', closed - computed), ('steps', steps),
                            ('ranks', min(ranks, computed - served)), ('outside_ranks', min(outside_ranks, closed - computed))):
            window[part].append(value)
    return window, begin
