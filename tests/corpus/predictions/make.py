"""Makes rows of the corpus that predictions are judged by: profiles, changes to what was profiled, and the rates that were then measured.

usage: make.py PROGRAM --python PYTHON --rows launched|own|public --count N --seed S --out FOLDER
               [--minutes M] [--work FOLDER] [--time-budget S] [--seconds S] [--repeats N] [--repositories FOLDER --photos FOLDER] [--only NAMES]

Configurations are drawn by the seed. Each is profiled, and several changes of it are measured, in turn: profile, truth of all changes, profile, truth, ...
(--repeats). A row is a file of one change; README.md says what is in it. A row costs at most 3 minutes: with two repeats a launched row some 80 s (profiles
of 35 s, which four rows share, and runs of 5 s), an own one 60 to 120 s, a public one 110 s. Rows that exist are skipped, so that a run that was
interrupted, or ended by --minutes, goes on when it is started again. Let nothing else run.

--work has to lie on a disk, for rows whose page cache is limited; data is made there, once. --rows public needs PyTorch 2.0 and what
tests/bench/attach/public_scripts.py needs.
"""

import argparse
import datetime
import json
import math
import os
import pathlib
import platform
import random
import shutil
import statistics
import subprocess
import sys
import time

from launched import Launched
from own import Own
from public_rows import Public
from running import Failed

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'bench'))
from bench_tools import clean_up_on_signals  # noqa: E402

KINDS = {'launched': Launched, 'own': Own, 'public': Public}
SCHEMA = 'dsanalyze.prediction-row/1'


def note(text):
    print(text, file=sys.stderr, flush=True)


def written(place, text):
    part = place.with_name(place.name + '.part')
    part.write_text(text)
    os.replace(part, place)


def versions_of(arguments):
    """Of what took part; ends with a clear error where something is missing."""
    if not pathlib.Path(arguments.program).is_file():
        raise SystemExit(f'make.py: no program {arguments.program}')
    versions = {'dsanalyze': subprocess.run([arguments.program, '--version'], capture_output=True, text=True, check=True).stdout.strip()}
    if arguments.rows == 'own':
        return versions
    try:
        asked = 'import platform, torch; print(platform.python_version(), torch.__version__)'
        run = subprocess.run([arguments.python, '-c', asked], capture_output=True, text=True, check=False)
    except OSError as error:
        raise SystemExit(f'make.py: --python {arguments.python}: {error.strerror}') from None
    if run.returncode != 0:
        raise SystemExit(f'make.py: --python {arguments.python} has no torch: {run.stderr.strip().splitlines()[-1]}')
    versions['python'], versions['torch'] = run.stdout.split()
    if arguments.rows == 'public' and int(versions['torch'].split('.')[0]) < 2:
        raise SystemExit(f'make.py: --rows public needs PyTorch 2.0 or later, and {arguments.python} has {versions["torch"]}')
    return versions


def machine_of():
    with open('/proc/cpuinfo', encoding='ascii', errors='replace') as lines:
        model = next((line.split(':', 1)[1].strip() for line in lines if line.startswith('model name')), platform.machine())
    return {'cpu': model, 'cores': len(os.sched_getaffinity(0)), 'kernel': platform.release(), 'load': os.getloadavg()[0]}


def median_and_scatter(runs):
    """Scatter is half of the range, beside the median."""
    rates = [run['samples_per_s'] for run in runs]
    median = statistics.median(rates)
    return median, (max(rates) - min(rates)) / 2 / median


def told_bottleneck(stations):
    """The station whose halving gives most, and by how much more than the next."""
    gains = sorted(((station['gain'], name) for name, station in stations.items()), reverse=True)
    return {'station': gains[0][1], 'gain': gains[0][0], 'next_gain': gains[1][0] if len(gains) > 1 else None}


class Base:
    """A configuration, its profiles and the rows of its changes."""

    def __init__(self, corpus, number):
        arguments = corpus.arguments
        self.corpus, self.kind, self.number = corpus, corpus.kind, number
        self.generator = random.Random(f'{arguments.seed} {arguments.rows} {number}')
        self.name = f'{arguments.rows}-{arguments.seed}-{number:03}'
        first = number * self.kind.changes_of_base
        self.count = min(self.kind.changes_of_base, arguments.count - first)
        self.places = [arguments.out / f'{self.name}-{at}.json' for at in range(self.count)]
        self.records = [arguments.out / 'bases' / f'{self.name}-{at}.json' for at in range(arguments.repeats)]

    def done(self):
        return all(place.exists() for place in self.places)

    def changes(self):
        """All that a base may have are drawn, so that --count changes none of them."""
        found = []
        for _ in range(1000):
            change = self.kind.change(self.configuration, self.generator)
            if change and change not in found:
                found.append(change)
            if len(found) == self.kind.changes_of_base:
                break
        return found[:self.count]

    def make(self):
        self.configuration = self.kind.base(self.number, self.generator)
        changes = self.changes()
        configurations = [self.kind.changed(self.configuration, change) for change in changes]
        stations = [self.kind.stations(each) for each in configurations]
        plain, runs = [], [{'': [], **{name: [] for name in each}} for each in stations]
        work = [self.corpus.work / place.name for place in self.records]
        started = datetime.datetime.now(datetime.timezone.utc)
        for place in work:
            place.unlink(missing_ok=True)
            record = self.kind.profile(self.configuration, place)
            plain.append(self.kind.measure(self.kind.changed(self.configuration, {}), record))
            for each, others, kept in zip(configurations, stations, runs):
                kept[''].append(self.kind.measure(each, record))
                for name, (_, other) in others.items():
                    kept[name].append(self.kind.measure(other, record))
        self.save(work, plain, started, [self.row(*each) for each in zip(changes, configurations, stations, runs)])

    def row(self, change, configuration, stations, runs):
        median, scatter = median_and_scatter(runs[''])
        found = {}
        for name, (how, _) in stations.items():
            # Each beside the run before it, so that what the machine gives by then is the same.
            gains = [one['samples_per_s'] / other['samples_per_s'] for one, other in zip(runs[name], runs[''])]
            gain = statistics.median(gains)
            found[name] = {'how': how, 'runs': runs[name], 'gain': gain, 'scatter': (max(gains) - min(gains)) / 2 / gain}
        return {'change': change, 'options': self.kind.options(change), 'configuration': configuration,
                'truth': {'runs': runs[''], 'samples_per_s': median, 'scatter': scatter, 'stations': found, 'bottleneck': told_bottleneck(found)}}

    def save(self, work, plain, started, rows):
        """The profiles first, as they were saved. Rows of other profiles are removed before them."""
        arguments = self.corpus.arguments
        for place in self.places:
            place.unlink(missing_ok=True)
        for source, place in zip(work, self.records):
            written(place, self.corpus.of_any_machine(source.read_text()))
            source.unlink()
        median, scatter = median_and_scatter(plain)
        common = {'base': {'configuration': self.configuration, 'records': [f'bases/{place.name}' for place in self.records],
                           'truth': {'runs': plain, 'samples_per_s': median, 'scatter': scatter}}}
        made = {'machine': machine_of(), 'versions': self.corpus.versions, 'seed': arguments.seed, 'started_utc': started.strftime('%Y-%m-%dT%H:%M:%SZ'),
                'time_budget_seconds': arguments.time_budget, 'run_seconds': arguments.seconds}
        for place, row in zip(self.places, rows):
            record = {'schema': SCHEMA, 'name': place.stem, 'rows': arguments.rows, 'kind': self.configuration['kind'], **common, **row, 'made': made}
            written(place, self.corpus.of_any_machine(json.dumps(record, indent=1) + '\n'))


class Corpus:
    def __init__(self, arguments):
        self.arguments, self.versions = arguments, versions_of(arguments)
        (arguments.out / 'bases').mkdir(parents=True, exist_ok=True)
        self.work = (arguments.work or arguments.out / 'work').resolve()
        self.work.mkdir(parents=True, exist_ok=True)
        self.kind = KINDS[arguments.rows](arguments, self.work)
        for axis in self.kind.missing:
            note(f'left out: {axis}')

    def of_any_machine(self, text):
        """Where this machine has the corpus and its data says nothing."""
        folders = {str(pathlib.Path(__file__).resolve().parent): '/corpus', str(self.work): '/corpus/data'}
        for folder, name in sorted(folders.items(), key=lambda each: -len(each[0])):
            text = text.replace(folder, name)
        return text

    def make(self):
        """The number of rows that could not be made."""
        begin, slowest, failed = time.monotonic(), 0.0, 0
        bases = [Base(self, number) for number in range(math.ceil(self.arguments.count / self.kind.changes_of_base))]
        for base in bases:
            if base.done():
                continue
            if self.arguments.minutes and time.monotonic() - begin + slowest > 60 * self.arguments.minutes:
                note(f'{self.arguments.minutes:g} min are over: start it again for the rest')
                break
            before = time.monotonic()
            try:
                base.make()
                took = time.monotonic() - before
                slowest = max(slowest, took)
                note(f'{base.name} ({base.configuration["kind"]}): {base.count} rows, {took / base.count:.0f} s each')
            except Failed as error:
                failed += base.count
                note(f'{base.name} ({base.configuration["kind"]}): FAILED: {error}')
        made = sum(place.exists() for base in bases for place in base.places)
        note(f'{made} of {self.arguments.count} rows, {(time.monotonic() - begin) / 60:.1f} min')
        return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('program', type=lambda text: os.path.abspath(shutil.which(text) or text))
    parser.add_argument('--python', default='/usr/bin/python3')
    parser.add_argument('--rows', choices=KINDS, required=True)
    parser.add_argument('--count', type=int, required=True)
    parser.add_argument('--seed', required=True, help='a number, or the hash of a commit')
    parser.add_argument('--out', type=pathlib.Path, required=True)
    parser.add_argument('--minutes', type=float, help='no row is begun that would end later')
    parser.add_argument('--work', type=pathlib.Path, help='for data and copies (OUT/work)')
    parser.add_argument('--time-budget', type=float, default=35, help='of each profile')
    parser.add_argument('--seconds', type=float, default=5, help='of each run of a script that is clocked')
    parser.add_argument('--repeats', type=int, default=2, help='of profile and truth')
    parser.add_argument('--repositories', type=pathlib.Path)
    parser.add_argument('--photos', type=pathlib.Path)
    parser.add_argument('--only', help='of the public scripts')
    clean_up_on_signals()
    arguments = parser.parse_args()
    arguments.out = arguments.out.resolve()
    try:
        sys.exit(1 if Corpus(arguments).make() else 0)
    except KeyboardInterrupt:
        note('interrupted: all rows are whole; start it again for the rest')
        sys.exit(130)


if __name__ == '__main__':
    main()
