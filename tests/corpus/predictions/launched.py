"""Rows of launched trainings: `training.py`, as changed in workers, cores, the length of a step, memory for the page cache and the disk's speed."""

import json
import os
import pathlib
import sys

from running import Failed, profiled, ran, two_figures

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'bench' / 'attach'))
from limits import Groups, cool  # noqa: E402

SCRIPT = pathlib.Path(__file__).resolve().with_name('training.py')
KINDS = ('waiting', 'computing', 'mixed', 'streaming', 'tokens', 'storage', 'cached')
FILES, FILE_BYTES, TOKEN_BYTES = 1536, 128 << 10, 64 << 20
SETTLED = 3  # epochs with less memory, until each misses about as much as the next
CACHES = (10, 30, 50, 75, 100)  # percent: with less, the limit that follows what the processes hold ends them


def limits_work(folder):
    """Whether memory for the page cache can be limited: root, version 1 of cgroups and a disk are needed."""
    device = os.stat(folder).st_dev
    groups = os.access('/sys/fs/cgroup/memory/memory.limit_in_bytes', os.F_OK) and os.access('/sys/fs/cgroup/blkio', os.W_OK)
    return os.geteuid() == 0 and groups and pathlib.Path(f'/sys/dev/block/{os.major(device)}:{os.minor(device)}').exists()


class Launched:
    changes_of_base = 4

    def __init__(self, arguments, work):
        self.arguments, self.work = arguments, work
        self.cores = sorted(os.sched_getaffinity(0))
        self.kinds = KINDS if limits_work(work) else KINDS[:-1]
        self.missing = []
        if not limits_work(work):
            self.missing.append('the page cache (kind cached, options --cache-size and --storage): needs root, version 1 of cgroups and a disk')
        if len(self.cores) == 1:
            self.missing.append('cores: only one may be used')

    def base(self, number, generator):
        kind = self.kinds[number % len(self.kinds)]
        each = {'kind': kind, 'batch': 16, 'workers': generator.choice([0, 1, 2, 2, 3, 4]), 'cores': generator.choice([1, 2, 2, 2]),
                'prefetch': generator.choice([2, 2, 4]), 'work': 0.0, 'wait': 0.0, 'spread': generator.choice([0, 0.5]), 'depth': 1, 'settle': 0,
                'cache': None, 'storage': None, 'data': '', 'step_kind': generator.choice(['waits', 'waits', 'waits', 'computes'])}
        each['cores'] = min(each['cores'], len(self.cores))
        if kind != 'waiting':
            each['work'] = generator.choice({'cached': [0.0005, 0.001], 'storage': [0.0005, 0.001, 0.002]}.get(kind, [0.0005, 0.001, 0.002, 0.004]))
        if kind in ('waiting', 'mixed', 'storage'):
            each['wait'] = generator.choice([0.001, 0.002] if kind == 'storage' else [0.001, 0.002, 0.004, 0.008])
        if kind == 'storage':
            each['depth'] = generator.choice([1, 1, 2])
        # Near the balance of loader and steps, and on both sides of it.
        workers = max(1, each['workers'])
        prep = max(each['work'] / min(workers, each['cores']), each['wait'] / (min(workers, each['depth']) if kind == 'storage' else workers))
        each['step'] = two_figures(min(0.012 if kind == 'cached' else 0.06, max(0.004, each['batch'] * prep * generator.choice([0.3, 0.6, 0.9, 1.2, 2, 3]))))
        each['data'] = self.data(kind)
        return each

    def data(self, kind):
        """What the samples are read from; made once."""
        if kind == 'tokens':
            place = self.work / 'tokens.bin'
            if not place.exists() or place.stat().st_size != TOKEN_BYTES:
                place.write_bytes(os.urandom(TOKEN_BYTES))
            return str(place)
        if kind == 'cached':
            place = self.work / 'files'
            place.mkdir(exist_ok=True)
            for at in range(FILES):
                file = place / f'{at:06}'
                if not file.exists() or file.stat().st_size != FILE_BYTES:
                    file.write_bytes(os.urandom(FILE_BYTES))
            os.sync()
            return str(place)
        return ''

    def change(self, each, generator):
        change = {}
        if generator.random() < 0.7:
            change['workers'] = generator.choice([0, 1, 2, 3, 4, 6, 8])
        if generator.random() < 0.4:
            change['cores'] = generator.choice(range(1, len(self.cores) + 1))
        if generator.random() < 0.5:
            # A run of cached files has five epochs, which have to end soon.
            change['speed'] = generator.choice([0.5, 2, 4] if each['kind'] == 'cached' else [0.25, 0.5, 2, 4])
        if each['kind'] == 'cached':
            change['cache'] = generator.choice(CACHES)
            if change['cache'] < 100 and generator.random() < 0.7:
                change['storage'] = generator.choice([60, 120, 240])
        return {name: value for name, value in change.items() if each.get(name) != value}

    def changed(self, each, change):
        result = {**each, **{name: value for name, value in change.items() if name != 'speed'}}
        result['step'] = each['step'] / change.get('speed', 1)
        result['settle'] = SETTLED if result['cache'] is not None else int(each['kind'] == 'cached')
        return result

    def options(self, change):
        """Those of whatif. A step is as long as its clock says, so the accelerator's speed is its factor alone."""
        written = {'workers': ('--workers', '{}'), 'cores': ('--cores', '{}'), 'speed': ('--accelerator-speed', '{:g}x'), 'cache': ('--cache-size', '{}%'),
                   'storage': ('--storage', '{}MB/s')}
        return [word for name, value in change.items() for word in (written[name][0], written[name][1].format(value))]

    def stations(self, each):
        """What the bottleneck is told from: the configuration with one station's times halved."""
        found = {'step': ('halved', {**each, 'step': each['step'] / 2})}
        for name, station in (('work', 'prep'), ('wait', 'wait')):
            if each[name]:
                found[station] = ('halved', {**each, name: each[name] / 2})
        if each['storage']:
            found['storage'] = ('halved', {**each, 'storage': 2 * each['storage']})
        return found

    def profile(self, each, place):
        self.in_memory(each)
        command = [self.arguments.python, SCRIPT, json.dumps(each), 'train']
        return profiled(self.arguments.program, place, ['--time-budget', f'{self.arguments.time_budget:g}s'], command,
                        cores=self.cores[:each['cores']], folder=self.work)

    def in_memory(self, each):
        if each['kind'] == 'cached':
            for path in pathlib.Path(each['data']).iterdir():
                path.read_bytes()

    def measure(self, each, _record=None):
        command = [self.arguments.python, SCRIPT, json.dumps(each), 'clock', str(self.arguments.seconds)]
        limited = each['cache'] is not None
        groups = Groups(self.work, FILES * FILE_BYTES * each['cache'] // 100 if limited else None, 1e6 * (each['storage'] or 0))
        # Pages count to the group that reads them first. Without a limit they lie in memory from the start.
        if limited:
            cool(list(pathlib.Path(each['data']).iterdir()))
        else:
            self.in_memory(each)
        try:
            rate, waiting = map(float, ran(command, cores=self.cores[:each['cores']], folder=self.work, enter=groups.enter).split())
        finally:
            groups.close()
        if rate <= 0:
            raise Failed('no rate')
        return {'samples_per_s': rate, 'waiting': waiting}
