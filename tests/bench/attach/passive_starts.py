"""Whether `dsanalyze profile --passive -- COMMAND` changes how a command ends: many starts of scripts that end in every way there is.

usage: passive_starts.py PROGRAM [--python PYTHON] [--starts N] [--seed SEED] [--json FILE]

Each start is drawn: a training that ends, exits with a status, raises, aborts, is killed at a random moment, forks a child that outlives it for a moment,
or has its launcher killed at a random moment. Counted are exit codes that differ from the command's own, processes that are left ten seconds later (a
loader's worker notices within five that its training was killed), and, where the launcher was killed, trainings that did not go on to their end. PYTHON is one that has torch (default: /usr/bin/python3).
"""

import argparse
import collections
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

SCRIPT = r"""
import os, signal, sys, time, torch
from torch.utils.data import DataLoader, TensorDataset
way, steps, marker = sys.argv[1], int(sys.argv[2]), sys.argv[3]
torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, (x,) in enumerate(DataLoader(TensorDataset(torch.randn(4 * steps, 4)), 4, num_workers=int(sys.argv[4]))):
    model(x).sum().backward()
    optimizer.step()
    time.sleep(0.002)
open(marker, "w").write("trained")
if way == "raise": raise RuntimeError("asked to")
if way == "abort": os.abort()
if way == "exit": os._exit(7)
if way == "leave": sys.exit(3)
if way == "segv": os.kill(os.getpid(), signal.SIGSEGV)
if way == "child" and not os.fork(): time.sleep(0.3); os._exit(0)
"""
# What a shell makes of the command's own end.
EXPECTED = {"end": 0, "raise": 1, "abort": 134, "exit": 7, "leave": 3, "segv": 139, "child": 0, "kill": 137, "launcher": None}


def marked(mark):
    """Processes, but for ended ones, whose environment holds a mark."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes() and (process / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                found.append(int(process.name))
        except OSError:
            pass
    return found


def start(program, python, way, drawn, folder):
    """What was wrong with one start; nothing, as a rule."""
    mark = f"DSANALYZE_TEST_START={folder.name}"
    marker = folder / "trained"
    steps, workers = drawn.choice((1, 20, 100)), drawn.choice((0, 0, 1))
    process = subprocess.Popen([program, "profile", "--passive", "-o", folder / "profile.json", "--", python, folder / "script.py", way, str(steps), marker, str(workers)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ, DSANALYZE_TEST_START=folder.name))
    expected = EXPECTED[way]
    if way in ("kill", "launcher"):
        time.sleep(drawn.uniform(0.05, 2.5))
        if way == "launcher":
            process.kill()
        else:
            children = [pid for pid in marked(mark.encode()) if pid != process.pid and parent_of(pid) == process.pid]
            if process.poll() is not None or not children:
                expected = None
            for pid in children:
                os.kill(pid, signal.SIGKILL)
    code = process.wait(120)
    end = time.monotonic() + (60 if way == "launcher" else 10)
    while marked(mark.encode()) and time.monotonic() < end:
        time.sleep(0.05)
    left = marked(mark.encode())
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    if left:
        return f"{len(left)} processes left"
    if way == "kill" and code == 0 and marker.exists():
        return None  # It had ended before.
    if expected is not None and code != expected:
        return f"exit code {code} instead of {expected}"
    return None


def parent_of(pid):
    try:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--starts", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    drawn = random.Random(options.seed)
    ways, wrong = collections.Counter(), []
    for number in range(options.starts):
        way = drawn.choice(list(EXPECTED))
        ways[way] += 1
        with tempfile.TemporaryDirectory(prefix="dsanalyze-start-") as name:
            folder = pathlib.Path(name)
            (folder / "script.py").write_text(SCRIPT)
            problem = start(options.program, options.python, way, drawn, folder)
        if problem:
            wrong.append({"start": number, "way": way, "problem": problem})
            print(f"start {number}, {way}: {problem}", file=sys.stderr, flush=True)
        if number % 50 == 49:
            print(f"{number + 1} of {options.starts}, {len(wrong)} wrong", file=sys.stderr, flush=True)
    print(f"{options.starts} starts, {len(wrong)} wrong; {dict(ways)}")
    if options.json:
        options.json.write_text(json.dumps({"starts": options.starts, "seed": options.seed, "ways": ways, "wrong": wrong}, indent=2))


main()
