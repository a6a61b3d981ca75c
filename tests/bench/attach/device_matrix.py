"""G and the rate as found, told of a training on the simulated GPU, against the same script over a list and alone: `device_matrix.py [REGIME...]`."""
import itertools
import os
import pathlib
import subprocess
import sys

attach = pathlib.Path(__file__).resolve().parents[2] / 'attach'
sys.path.insert(0, str(attach))
os.environ['PYTHONDONTWRITEBYTECODE'] = '1'
from fake_launcher import Launcher, Plan, run, switch  # noqa: E402

python = '/usr/bin/python3'
train = attach / 'trainings' / 'train_device.py'
regimes = ('device-bound', 'mixed', 'host-bound', 'perceptron')
cases = {
    'no wait': [],
    'a hidden wait': ['--wait', '2'],
    'an exposed wait': ['--wait', '20'],
    'batches changed in place': ['--in-place', '--elements', '150528'],
    'accumulation': ['--accumulate', '4', '--wait', '4'],
    'skipped steps': ['--skip', '5'],
    'pageable': ['--pageable', '--elements', '150528'],
    'two loaders': ['--two', '--wait', '2'],
    'validation inside': ['--validate', '40', '--wait', '2'],
    'another device': ['--device', '1', '--wait', '4'],
}


def truth(regime, options, over):
    return float(subprocess.run([python, train, regime, *options, '--over', over], capture_output=True, text=True, check=True).stdout.split()[0])


def step(windows):
    """Milliseconds a step, of windows of which the hook's own time is left out."""
    time = sum(window['end'] - window['begin'] - sum(window['hook']) - sum(window['validation']) for window in windows)
    return time / sum(len(window['hook']) for window in windows) / 1e6


def told(regime, options, steps):
    windows = max(3, 240 // steps)
    launcher = Launcher(Plan(*[run(steps)] * windows, switch('synthetic'), run(20, 'synthetic'), run(20, 'synthetic'), *[run(steps, 'synthetic')] * windows), python=python)
    launcher.run(train, regime, *options, '--steps', 2 * windows * steps + 150)
    connection = launcher.first
    return step(connection.windows('full')[1:]), step(connection.windows('synthetic')[2:])


def main():
    for regime, (name, options) in itertools.product(sys.argv[1:] or regimes, cases.items()):
        over_list, alone = truth(regime, options, 'list'), truth(regime, options, 'loader')
        for steps in (8, 100):
            try:
                found, synthetic = told(regime, options, steps)
                print('{}, {}, windows of {}: G {:+.1%}, as found {:+.1%}'.format(regime, name, steps, over_list / synthetic - 1, alone / found - 1), flush=True)
            except (AssertionError, ZeroDivisionError, IndexError) as error:
                print('{}, {}, windows of {}: {}'.format(regime, name, steps, str(error).splitlines()[-1] if str(error) else type(error).__name__), flush=True)


if __name__ == '__main__':
    main()
