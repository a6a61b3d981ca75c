"""A window whose steps are counted and nothing else: beside windows that are clocked it tells what the hook costs the script."""


class Counting:
    """Stands in the engine's place until so many more batches of a pass were asked for. Whatever else is asked of the engine ends it before that. Threads: that of the
    steps; another one ends it."""

    off = False
    _over = False

    def __init__(self, engine, iteration, begin, left):
        self.begin = begin
        self.steps = 1  # One has its batch.
        self.left = left
        self.optimizer_steps = engine.optimizer_steps
        self._engine, self._iteration = engine, iteration
        engine.replace(self)

    def next(self, iteration, iterator):
        if iteration is not self._iteration or not self.left:
            return self.stop().next(iteration, iterator)
        self.left -= 1
        self.steps += 1
        return iteration.fetch(iterator)

    def optimizer_stepped(self):
        self.optimizer_steps += 1

    def stop(self):
        """The engine, in its place again."""
        if not self._over:
            self._over = True
            self._engine.replace(self._engine)
            self._engine.counted(self, self._iteration)
        return self._engine

    def __getattr__(self, name):
        return getattr(self.stop(), name)
