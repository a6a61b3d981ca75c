"""Rows of the own loader, `dsanalyze profile DATASET`, with a real dataset and real or emulated storage, or with all emulated.

Changed are cores, cache, accelerator and storage.
"""

import os

from running import Failed, profiled, ran, two_figures

PHOTOS = 400
REAL_SECONDS, EMULATED_SECONDS = 12, 6  # of a run of truth: two whole epochs and the windows of a rate


class Own:
    changes_of_base = 4

    def __init__(self, arguments, work):
        self.arguments, self.work = arguments, work
        self.cores = sorted(os.sched_getaffinity(0))
        self.missing = ['workers as a change (whatif has none for the own loader: they vary between bases)',
                        'the page cache (--cache page): the cache is minio or lru']

    def base(self, number, generator):
        kind = ('real', 'emulated', 'real-slow')[number % 3]
        each = {'kind': kind, 'cores': generator.choice([1, 2]), 'workers': generator.choice(['auto', 'auto', 1, 2, 4]),
                'cache': generator.choice([0, 20, 35, 50, 75, 100]), 'policy': generator.choice(['minio', 'minio', 'lru']),
                'storage': None, 'prep': None, 'extra': []}
        if kind == 'emulated':
            each['prep'] = generator.choice([200, 400, 800, 1600])
            each['storage'] = generator.choice([40, 80, 160, 320])
            fetch = each['storage'] * 9 / max(0.2, 1 - each['cache'] / 100)
            each['accelerator'] = two_figures(max(200, min(fetch, each['prep'] * each['cores']) * generator.choice([0.5, 0.8, 1.1, 1.5, 3])))
            return each
        each['cores'] = min(each['cores'], len(self.cores))
        if kind == 'real-slow':
            each['storage'] = generator.choice([20, 40, 80, 160])
        each['accelerator'] = generator.choice([300, 500, 800, 1200, 2000])
        photos = self.work / 'photos'
        if not (photos / 'README.md').exists() or sum(1 for _ in photos.rglob('*.jpg')) < PHOTOS:
            ran([self.arguments.program, 'dataset', 'make', photos, '--samples', PHOTOS, '--quiet'])
        return each

    def change(self, each, generator):
        change = {}
        if generator.random() < 0.5:
            change['cores'] = generator.choice([1, 2, 4] if each['kind'] == 'emulated' else range(1, len(self.cores) + 1))
        if generator.random() < 0.5:
            change['cache'] = generator.choice([0, 25, 50, 75, 100])
        if generator.random() < 0.5:
            # A run of truth needs two epochs.
            change['speed'] = generator.choice([factor for factor in (0.25, 0.5, 2, 4) if factor * each['accelerator'] >= 150])
        if each['storage'] and generator.random() < 0.5:
            change['storage'] = max(20, each['storage'] * generator.choice([0.25, 0.5, 2, 4]))
        return {name: value for name, value in change.items() if each.get(name) != value}

    def changed(self, each, change):
        result = {**each, **{name: value for name, value in change.items() if name != 'speed'}}
        result['accelerator'] = each['accelerator'] * change.get('speed', 1)
        return result

    def options(self, change):
        written = {'cores': ('--cores', '{}'), 'speed': ('--accelerator-speed', '{:g}x'), 'cache': ('--cache-size', '{}%'),
                   'storage': ('--storage', '{:g}MB/s')}
        return [word for name, value in change.items() for word in (written[name][0], written[name][1].format(value))]

    def stations(self, each):
        """What can be halved is, where all is emulated; of real prep and storage each station is taken out instead, by itself."""
        if each['kind'] == 'emulated':
            return {'step': ('halved', {**each, 'accelerator': 2 * each['accelerator']}),
                    'prep': ('halved', {**each, 'prep': 2 * each['prep']}),
                    'storage': ('halved', {**each, 'storage': 2 * each['storage']})}
        return {'step': ('removed', {**each, 'accelerator': None}),
                'prep': ('removed', {**each, 'extra': ['--prep', 'null']}), 'storage': ('removed', {**each, 'cache': 100})}

    def words(self, each):
        dataset = 'emulated:imagenet-1k,samples=3000' if each['kind'] == 'emulated' else str(self.work / 'photos')
        words = [dataset, '--cores', str(each['cores']), '--workers', str(each['workers']), '--batch-size', '32',
                 '--cache', each['policy'], '--cache-size', f'{each["cache"]}%',
                 '--accelerator', f'emulated:{each["accelerator"]:g}' if each['accelerator'] else 'null', *each['extra']]
        if each['storage']:
            words += ['--storage', f'emulated:{each["storage"]:g}MB/s']
        if each['prep']:
            words += ['--prep', f'emulated:{each["prep"]}']
        return words

    def profile(self, each, place):
        return profiled(self.arguments.program, place, [*self.words(each), '--time-budget', f'{self.arguments.time_budget:g}s'], folder=self.work)

    def measure(self, each, _record=None):
        """By the loader itself, in a full run alone."""
        place = self.work / 'truth.json'
        seconds = EMULATED_SECONDS if each['kind'] == 'emulated' else REAL_SECONDS
        record = profiled(self.arguments.program, place, [*self.words(each), '--runs', 'full', '--time-budget', f'{seconds}s'], folder=self.work)
        run = next(run for run in record['runs'] if run['name'] == 'full')
        if run['samples_per_s'] <= 0:
            raise Failed(f'no rate of {" ".join(self.words(each))}: {[finding["code"] for finding in record["findings"]]}')
        return {'samples_per_s': run['samples_per_s'], 'ci95_samples_per_s': run['ci95_samples_per_s']}
