"""How right a program's predictions are about the rows of the corpus.

usage: replay.py PROGRAM FOLDER [--json FILE]

Every row is asked of each profile of its base (`whatif RECORD CHANGE --json`), so a row of two profiles has two answers. Of each kind are printed:

rows, answers    and how many were refused
median, 95 %, worst   of the answers' relative errors, against the median of the measured runs
scatter          of the rows themselves (half of the range of a row's runs; median of all): no model can be better
apart            how far the answers of the profiles of one row lie from their mean (median): what the profiles bring, whatever the model
found            how far the profiles' own run lies from the script's, both unchanged (median): what following a script costs, and drift
held             how many of the answers' 95 % intervals held the truth, and with the row's own scatter beside the interval
bottleneck       right, wrong and inconclusive. It is right where the named station is the one whose halving gave most, and where
                 the two that gave most differ by less than their runs, or by less than 2 %, either of them is right

Nothing runs but the program, and neither torch nor data is needed.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

# A program names what it tells apart: the steps, preparing (computing or waiting in a sample), and storage.
NAMED = {'gpu': 'step', 'cpu': 'prep', 'io': 'storage'}
CHANGED = {'--workers': 'workers', '--cores': 'cores', '--accelerator-speed': 'accelerator_speed', '--cache-size': 'cache_fraction',
           '--storage': 'storage_bytes_per_s'}
STATIONS = {'step': 'step', 'prep': 'prep', 'wait': 'prep', 'storage': 'storage'}
ALIKE = 0.02


def answer_of(arguments, folder, row, record):
    """The answer with all changes made, or why there is none."""
    words = [arguments.program, 'whatif', folder / record, *row['options'], '--json']
    run = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    try:
        result = json.loads(run.stdout)
    except ValueError:
        return None, (run.stderr.strip().splitlines() or ['no answer'])[0]
    if run.returncode not in (0, 4) or 'error' in result:
        return None, result.get('error', {}).get('message', f'exit code {run.returncode}')
    wanted = {CHANGED[word] for word in row['options'] if word in CHANGED}
    for answer in result['answers']:
        if wanted <= set(answer['change']):
            return answer, None
    return None, 'left out: ' + '; '.join(finding['message'] for finding in result.get('findings', []))


def right_stations(truth):
    """Those that may be named, as the program names them."""
    gains = {}
    for name, station in truth['stations'].items():
        best = gains.get(STATIONS[name])
        if best is None or station['gain'] > best['gain']:
            gains[STATIONS[name]] = station
    first, *others = sorted(gains, key=lambda name: -gains[name]['gain'])
    best = gains[first]
    return {first, *(name for name in others if best['gain'] - gains[name]['gain'] <= max(ALIKE, best['scatter'], gains[name]['scatter']))}


def verdict(answer, right):
    # No row has other cores for a truth.
    if answer.get('too_close') or answer.get('bottleneck_detail') == 'cores':
        return 'inconclusive'
    return 'right' if NAMED.get(answer['bottleneck'], answer['bottleneck']) in right else 'wrong'


def found_error(row, record):
    """Of the profile's run as found, beside the truth of the same configuration."""
    full = next((run['samples_per_s'] for run in record['runs'] if run['name'] == 'full'), 0)
    return abs(full / row['base']['truth']['samples_per_s'] - 1) if full else None


def judged(row, record, found, answer, why):
    truth = row['truth']
    kind = f'{row["rows"]} {row["kind"]}' if row['rows'] != 'public' else 'public'
    result = {'name': row['name'], 'kind': kind, 'script': row['kind'], 'options': row['options'],
              'record': record, 'found': found, 'measured': truth['samples_per_s'], 'scatter': truth['scatter'], 'truth': truth['bottleneck']['station']}
    if answer is None:
        return {**result, 'refused': why}
    rate, interval = answer['samples_per_s'], answer['ci95_samples_per_s']
    measured, spread = truth['samples_per_s'], truth['samples_per_s'] * truth['scatter']
    return {**result, 'predicted': rate, 'error': rate / measured - 1, 'held': interval['low'] <= measured <= interval['high'],
            'held_with_scatter': interval['low'] - spread <= measured <= interval['high'] + spread, 'bottleneck': answer['bottleneck'],
            'verdict': verdict(answer, right_stations(truth))}


def asked_and_judged(arguments, folder, row, record):
    found = found_error(row, json.loads((folder / record).read_text()))
    return judged(row, record, found, *answer_of(arguments, folder, row, record))


def apart(results):
    """Of the answers of one row, beside their mean."""
    rows = {}
    for each in results:
        rows.setdefault(each['name'], []).append(each['predicted'])
    return [(max(rates) - min(rates)) / 2 / statistics.mean(rates) for rates in rows.values()]


def quantile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(part * len(values)))]


def summary(kind, results):
    answers = [each for each in results if 'refused' not in each]
    rows = {each['name']: each['scatter'] for each in results}
    start = f'{kind:<22}{len(rows):>5}{len(answers):>9}{len(results) - len(answers):>9}'
    if not answers:
        return start
    errors = [abs(each['error']) for each in answers]
    told = [each['verdict'] for each in answers]
    percents = [statistics.median(errors), quantile(errors, 0.95), max(errors), statistics.median(rows.values()), statistics.median(apart(answers)),
                statistics.median([each['found'] for each in answers if each['found'] is not None] or [0])]
    held = [statistics.mean(each[name] for each in answers) for name in ('held', 'held_with_scatter')]
    return (start + ''.join(f'{100 * value:>8.1f}%' for value in percents) + ''.join(f'{100 * value:>8.0f}%' for value in held)
            + f'{told.count("right"):>7}{told.count("wrong"):>7}{told.count("inconclusive"):>7}')


def table(results):
    print(f'{"kind":<22}{"rows":>5}{"answers":>9}{"refused":>9}{"median":>9}{"95 %":>9}{"worst":>9}{"scatter":>9}{"apart":>9}{"found":>9}'
          f'{"held":>9}{"+scatter":>9}{"right":>7}{"wrong":>7}{"unsure":>7}')
    for kind in sorted({each['kind'] for each in results}):
        print(summary(kind, [each for each in results if each['kind'] == kind]))
    print(summary('all', results))


def worst(results, count):
    """A row once, with its worst answer."""
    rows = {}
    for each in sorted((each for each in results if 'refused' not in each), key=lambda each: -abs(each['error'])):
        rows.setdefault(each['name'], each)
    print(f'\nthe worst {min(count, len(rows))} rows')
    for each in list(rows.values())[:count]:
        print(f'{100 * each["error"]:>+8.1f}%  {each["name"]} ({each["script"]})  {" ".join(each["options"])}: '
              f'predicted {each["predicted"]:.4g}, measured {each["measured"]:.4g} (scatter {100 * each["scatter"]:.1f} %), '
              f'bottleneck {each["bottleneck"]}, truth {each["truth"]}')


def refusals(results):
    refused = {}
    for each in results:
        if 'refused' in each:
            refused.setdefault(each['refused'], set()).add(each['name'])
    for why, names in sorted(refused.items(), key=lambda item: -len(item[1])):
        print(f'refused, {len(names)} rows ({sorted(names)[0]}): {why[:200]}')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('program', type=lambda text: os.path.abspath(shutil.which(text) or text))
    parser.add_argument('folder', type=pathlib.Path)
    parser.add_argument('--json', type=pathlib.Path, help='writes all answers there')
    arguments = parser.parse_args()
    if not os.access(arguments.program, os.X_OK):
        raise SystemExit(f'replay.py: no program {arguments.program}')
    places = sorted([*arguments.folder.glob('*.json'), *arguments.folder.glob('*/*.json')])
    rows = [(place.parent, json.loads(place.read_text())) for place in places if place.parent.name not in ('bases', 'work')]
    rows = [(folder, row) for folder, row in rows if isinstance(row, dict) and str(row.get('schema', '')).startswith('dsanalyze.prediction-row/')]
    if not rows:
        raise SystemExit(f'replay.py: no rows in {arguments.folder}')
    asked = [(folder, row, record) for folder, row in rows for record in row['base']['records']]
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = list(pool.map(lambda each: asked_and_judged(arguments, *each), asked))
    table(results)
    worst(results, 10)
    refusals(results)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + '\n')
    return 0


if __name__ == '__main__':
    sys.exit(main())
