"""A wheel as a user has it: `PYTHON installed_wheel.py WHEEL PHOTOGRAPHS [--user NAME]`, with the PYTHON of a virtual environment.

Installs, asks the doctor, profiles a training on the photographs (of PyTorch where there is torchvision), profiles them with the own loader, reads them by
dsanalyze.Loader, uninstalls, and prints a row of a table. Fails where a step does, and where a file is left. With --user all but pip runs as that user, to
whom the environment is read-only.
"""
import argparse
import json
import os
import pathlib
import platform
import pwd
import shutil
import subprocess
import sys
import tempfile
import time

of_torch = '''
import sys, torch, torchvision
from torchvision import transforms
class_folders = torchvision.datasets.ImageFolder(sys.argv[1], transforms.Compose([transforms.RandomResizedCrop(64), transforms.ToTensor()]))
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 64 * 64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for epoch in range(100):
    for images, labels in torch.utils.data.DataLoader(class_folders, 16, shuffle=True, num_workers=1):
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        optimizer.zero_grad()
'''
of_python = '''
import pathlib, sys, time
import dsanalyze
files = [file for file in sorted(pathlib.Path(sys.argv[1]).rglob('*.jpg'))]
for epoch in range(100):
    for batch in dsanalyze.watch([files[i:i + 16] for i in range(0, len(files), 16)]):
        for file in batch: file.read_bytes()
        time.sleep(0.01)
'''
of_loader = '''
import sys, dsanalyze
loader = dsanalyze.Loader(sys.argv[1], batch_size=16, cache_size='100%', prep=[dsanalyze.RandomResizedCrop(64)])
assert sum(len(labels) for _, labels in loader) == int(sys.argv[2])
'''


def has(module):
    return subprocess.run([sys.executable, '-c', f'import {module}'], stderr=subprocess.DEVNULL).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('wheel', type=pathlib.Path)
    parser.add_argument('photographs', type=pathlib.Path)
    parser.add_argument('--user')
    arguments = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix='wheel-'))
    identity, environment = None, {**os.environ, 'XDG_STATE_HOME': str(folder / 'state')}
    if arguments.user:
        identity = pwd.getpwnam(arguments.user)
        os.chown(folder, identity.pw_uid, identity.pw_gid)
        environment['HOME'] = str(folder)

    def become():
        if identity:
            os.setgroups([])
            os.setgid(identity.pw_gid)
            os.setuid(identity.pw_uid)

    def run(*command):
        ran = subprocess.run([str(word) for word in command], cwd=folder, env=environment, preexec_fn=become, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        if ran.returncode != 0:
            sys.exit('{} ended with {}:\n{}{}'.format(command, ran.returncode, ran.stdout, ran.stderr))
        return ran.stdout

    def pip(*words):
        subprocess.run([sys.executable, '-m', 'pip', '--quiet', '--disable-pip-version-check', *words], check=True)

    begin = time.time()
    pip('install', '--no-index', '--no-deps', '--force-reinstall', arguments.wheel)
    installed = time.time() - begin
    program = pathlib.Path(sys.executable).parent / 'dsanalyze'
    images = len(list(arguments.photographs.rglob('*.jpg')))
    run(program, 'doctor')
    begin = time.time()
    run(program, 'profile', '--time-budget', '40s', '--quiet', '-o', 'training.json', '--', sys.executable, '-c', of_torch if has('torchvision') else of_python, arguments.photographs)
    profiled = time.time() - begin
    training = json.loads((folder / 'training.json').read_text())
    run(program, 'profile', arguments.photographs, '--time-budget', '10s', '--quiet', '-o', 'dataset.json')
    run(sys.executable, '-c', of_loader, arguments.photographs, images)
    run(sys.executable, '-m', 'dsanalyze', '--version')
    pip('uninstall', '--yes', 'dsanalyze')
    left = [str(path) for path in pathlib.Path(sys.prefix).rglob('*dsanalyze*')]
    shutil.rmtree(folder)
    torch = subprocess.run([sys.executable, '-c', 'import torch; print(torch.__version__)'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True).stdout.strip()
    bottleneck = training['bottleneck']
    print('| {} | {} | {} | {} | {:.1f} s | {} in {:.0f} s | {} |'.format(
        ' '.join(platform.libc_ver()), platform.python_version(), torch or '-', arguments.user or 'root', installed,
        bottleneck.get('detail', bottleneck.get('kind')), profiled, ', '.join(left) or 'nothing'))
    sys.exit(1 if left else 0)


if __name__ == '__main__':
    main()
