"""Runs each example once over an epoch, with the packages that it needs from PyPI: torch, torchvision, lightning, transformers, accelerate, ray[tune].

usage: examples.py --photos FOLDER --python PYTHON [--only NAMES]

FOLDER has class folders; some hundred images suffice. The package is imported from PYTHONPATH, and `dsanalyze` is on the PATH. An example whose package is not installed is named and left out.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

examples = pathlib.Path(__file__).resolve().parents[3] / 'examples'
needs = {'imagefolder.py': 'torchvision', 'imagefolder_dsanalyze.py': 'torchvision', 'ddp.py': 'torchvision', 'two_servers.py': 'torchvision', 'resume.py': 'torchvision', 'lightning_trainer.py': 'lightning',
         'hf_trainer.py': 'transformers', 'ray_tune.py': 'ray'}


def command_of(name, arguments, folder):
    words = [arguments.python]
    if name in ('ddp.py', 'two_servers.py'):
        words += ['-m', 'torch.distributed.run', '--nproc-per-node', '2']
    words += [examples / name, arguments.photos.resolve()]
    return [*words, *([pathlib.Path(folder) / 'checkpoint'] if name == 'resume.py' else []), '1']


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--photos', type=pathlib.Path, required=True)
    parser.add_argument('--python', default=sys.executable)
    parser.add_argument('--only')
    arguments = parser.parse_args()
    failed = 0
    for name, package in needs.items():
        if arguments.only and name not in arguments.only.split(','):
            continue
        if subprocess.run([arguments.python, '-c', f'import {package}'], capture_output=True, check=False).returncode:
            print(f'{name:<26} left out: {package} is not installed', flush=True)
            continue
        with tempfile.TemporaryDirectory() as folder:
            begin = time.perf_counter()
            run = subprocess.run(command_of(name, arguments, folder), cwd=folder, env=dict(os.environ, OMP_NUM_THREADS='1'), capture_output=True, text=True, check=False)
        failed += run.returncode != 0
        said = (run.stdout if run.returncode == 0 else run.stderr).strip().splitlines()
        print(f'{name:<26} {"ran" if run.returncode == 0 else "FAILED"} in {time.perf_counter() - begin:.0f} s: {said[-1] if said else ""}', flush=True)
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
