"""What the launcher asks to be different in this run: another num_workers for the loaders that the script makes at one place."""
import os

_place_of_workers = 5  # Among the positional arguments behind the dataset: batch_size, shuffle, sampler, batch_sampler, num_workers.
_of_workers_alone = ('prefetch_factor', 'persistent_workers', 'timeout', 'multiprocessing_context')  # Without workers, the loader refuses them.


def _asked():
    text = os.environ.get('DSANALYZE_ATTACH_WORKERS', '')
    workers, _, place = text.partition(' ')
    line, _, file = place.partition(' ')
    return (int(workers), (file, int(line))) if file else None


def with_workers(origin, arguments, named):
    """The arguments of the constructor of a loader that is made at `origin`, changed where the launcher asked for that."""
    asked = _asked()
    if asked is None or origin != asked[1]:
        return arguments, named
    arguments, named = list(arguments), dict(named)
    if len(arguments) > _place_of_workers:
        arguments[_place_of_workers] = asked[0]
    else:
        named['num_workers'] = asked[0]
    if asked[0] == 0:
        for name in _of_workers_alone:
            named.pop(name, None)
    return arguments, named
