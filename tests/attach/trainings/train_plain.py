"""Trains a weight without PyTorch: usage: train_plain.py KIND STEP PREP [BATCHES] [unwatched]. KIND: lists (Python's own numbers), arrays (NumPy's, which a step changes
in place), ahead (lists that a thread prepares, four batches ahead). A step refuses a batch that another one has changed; its losses are printed."""
import queue
import sys
import threading
import time

kind, step, prep = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
batches = int(sys.argv[4]) if sys.argv[4:] not in ([], ['unwatched']) else 20000


def batch(number):
    time.sleep(prep)
    values = [number % 10 + index / 8 for index in range(8)]
    if kind == 'arrays':
        import numpy
        return {'x': numpy.array(values), 'y': numpy.array(values)}
    return {'x': values, 'y': [2 * value for value in values]}


class Batches:
    def __len__(self):
        return batches

    def __iter__(self):
        return self.ahead() if kind == 'ahead' else map(batch, range(batches))

    def ahead(self):
        ready = queue.Queue(4)

        def fill():
            for number in range(batches):
                ready.put(batch(number))

        threading.Thread(target=fill, daemon=True).start()
        return iter(ready.get, None)


def trained(weight, given):
    y = given.pop('y')  # Which the next epoch, or hand-out, has to have again.
    x = given['x']
    if kind == 'arrays':
        y *= 2
    assert abs(y[1] - 2 * (y[0] / 2 + 0.125)) < 1e-9 and y[0] == 2 * x[0]
    error = [weight * each - known for each, known in zip(x, y)]
    time.sleep(step)
    loss = sum(each * each for each in error) / len(error)
    return weight - 0.001 * sum(2 * each * value for each, value in zip(error, x)) / len(error), loss


if sys.argv[-1] != 'unwatched':
    import dsanalyze
loader = Batches()
weight, losses = 0.0, []
for given in loader if sys.argv[-1] == 'unwatched' else dsanalyze.watch(loader):
    weight, loss = trained(weight, given)
    losses.append(loss)
print(len(losses), losses[-1], weight)
