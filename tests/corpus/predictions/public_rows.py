"""Rows of public scripts, as they stand in tests/bench/attach/public_scripts.json, changed in workers and cores.

They are copied: nothing is written to their repositories.
"""

import json
import os
import pathlib
import shutil
import sys
import types

from running import Failed, profiled, ran

HERE = pathlib.Path(__file__).resolve()
ATTACH = HERE.parents[2] / 'bench' / 'attach'
sys.path.insert(0, str(ATTACH))


class Public:
    changes_of_base = 3

    def __init__(self, arguments, work):
        if not arguments.repositories or not arguments.photos:
            raise SystemExit('make.py: --rows public needs --repositories and --photos, as tests/bench/attach/public_scripts.py does')
        try:
            import public_scripts
        except ImportError as error:
            raise SystemExit(f'make.py: --rows public: {error}; start make.py itself with a Python that has Pillow') from None
        self.arguments, self.work, self.bench = arguments, work, public_scripts
        self.cores = sorted(os.sched_getaffinity(0))
        self.missing = ['the length of a step, page cache and storage (the scripts are unmodified); scripts without a DataLoader and console scripts',
                        'halved stations (data is taken out by batches that are handed out again, steps by draining the loader)']
        self.places = public_scripts.made_data(arguments.program, arguments.photos.resolve(), work / 'data')
        table = json.loads(public_scripts.TABLE.read_text())
        self.scripts = {script['name']: script for script in table if 'repository' in script and 'lines' not in script and self.repository(script).is_dir()
                        and (not arguments.only or script['name'] in arguments.only.split(','))}
        if not self.scripts:
            raise SystemExit(f'make.py: none of the scripts in {public_scripts.TABLE} is below {arguments.repositories}')

    def repository(self, script):
        return self.arguments.repositories.resolve() / script['repository'].split('/')[-1]

    def base(self, number, generator):
        cores = generator.choice([1, 2, 2]) if len(self.cores) > 1 else 1
        return {'kind': list(self.scripts)[number % len(self.scripts)], 'workers': 'keep', 'cores': cores, 'mode': 'found'}

    def change(self, each, generator):
        change = {'workers': generator.choice([0, 1, 2, 3, 4])} if generator.random() < 0.8 else {}
        if generator.random() < 0.5:
            change['cores'] = generator.choice(range(1, len(self.cores) + 1))
        return {name: value for name, value in change.items() if each.get(name) != value}

    def changed(self, each, change):
        return {**each, **change}

    def options(self, change):
        return [word for name, value in change.items() for word in (f'--{name}', str(value))]

    def stations(self, each):
        return {'step': ('removed', {**each, 'mode': 'drain'}), 'prep': ('removed', {**each, 'mode': 'repeat'})}

    def command(self, each):
        """Words after the interpreter, folder and environment."""
        script = self.scripts[each['kind']]
        copy = self.work / 'repositories' / self.repository(script).name
        if not copy.exists():
            part = copy.with_suffix('.part')
            shutil.rmtree(part, ignore_errors=True)
            shutil.copytree(self.repository(script), part, symlinks=True, ignore=shutil.ignore_patterns('.git'))
            part.rename(copy)
        folder = copy / script.get('folder', '.')
        self.bench.made_links(script, folder, self.places)
        words = self.bench.command_of(types.SimpleNamespace(python=self.arguments.python), script, folder, self.places)[1:]
        return words, folder, self.bench.environment_of(script)

    def profile(self, each, place):
        words, folder, environment = self.command(each)
        return profiled(self.arguments.program, place, ['--time-budget', f'{self.arguments.time_budget:g}s'], [self.arguments.python, *words],
                        cores=self.cores[:each['cores']], folder=folder, environment=environment)

    def measure(self, each, record):
        words, folder, environment = self.command(each)
        place = self.work / 'truth.txt'
        place.unlink(missing_ok=True)
        command = [self.arguments.python, HERE.with_name('clock.py'), place, each['mode'], each['workers'], self.arguments.seconds, *words]
        ran(command, cores=self.cores[:each['cores']], folder=folder, environment=environment, timeout=60)
        if not place.exists():
            raise Failed('the script ended before it was clocked')
        return {'samples_per_s': float(place.read_text()) * record['loader']['samples_per_step']['mean']}
