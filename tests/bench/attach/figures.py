"""Figures that the hook clocks of several processes, beside what they should be. What else the machine does moves them, so that no test asserts them.

usage: figures.py [--python PYTHON] [--only NAME,...]

prep      samples/s of a drain whose samples wait 10 ms, with 2, 1 and no workers
stages    the share of the workers' CPU time of a transform that takes three times as long as decoding
locks     the share of code that keeps Python's lock, against what the worker itself clocks meanwhile
takes     how many times as long an array that comes through a pipe takes to take over as a tensor in shared memory: more than twice
ranks     milliseconds a step in which a rank waits for another one, whose loader takes 20 ms

Prints a row each: name, what is expected, what was measured, and whether that is near (or beyond it, where it says `more than`). PYTHON is one that has torch (default:
/usr/bin/python3). Let nothing else run.
"""

import argparse
import pathlib
import statistics
import sys
import threading

attach = pathlib.Path(__file__).resolve().parents[2] / "attach"
sys.path.insert(0, str(attach))
from fake_launcher import Launcher, Plan, drain, end, run, switch  # noqa: E402

trainings = attach / "trainings"


def drained(python, script, *options, plan):
    launcher = Launcher(Plan(run(3), drain(2, 16, which="warm"), *plan, then=end), python=python)
    launcher.run(trainings / script, *options, virtual=False)
    return launcher.first.of("drained")[1:]


def row(name, expected, measured, within=0.1, least=False):
    good = measured > expected if least else abs(measured / expected - 1) < within
    print(f"{name:28} {'more than ' if least else ''}{expected:<10.4g} {measured:<10.4g} {'ok' if good else 'OFF'}", flush=True)


def prep(python):
    for message in drained(python, "train.py", "--samples", 400, "--prep", 0.01, "--workers", 1, "--step", 0, plan=[drain(2, 40), drain(1, 24), drain(0, 12)]):
        skip = 4  # The queue is filled.
        rate = sum(message["samples"][skip:]) / ((message["times"][-1] - message["times"][skip - 1]) / 1e9)
        row(f"prep, {message['workers']} workers", 100 * max(1, message["workers"]), rate)


def stages(python):
    message, = drained(python, "train_stages.py", plan=[drain(2, 0, seconds=6)])
    cpu = {stage["name"].split()[-1]: stage["cpu"] for stage in message["stages"]}
    row("stages", 0.75, cpu["Slow"] / (cpu["Slow"] + cpu["decode"]))


def locks(python):
    launcher = Launcher(Plan(run(3), drain(1, 16, which="warm"), drain(1, 0, seconds=6), then=end), python=python)
    costs = pathlib.Path(launcher.folder.name, "costs")
    launcher.run(trainings / "train_locks.py", costs, virtual=False)
    packing, parsing = (sum(column) for column in zip(*(map(int, line.split()) for line in costs.read_text().splitlines() if line.count(" ") == 1)))
    cpu = {stage["name"].split()[-1]: stage["cpu"] for stage in launcher.first.of("drained")[-1]["stages"]}
    # It lets go where it has returned to its caller, which then frees what it made.
    row("locks", parsing / (packing + parsing), 1 - cpu["pack"] / sum(cpu.values()), within=0.25)


def takes(python):
    least = {}
    for kind in 3 * ("tensors", "arrays"):
        message, = drained(python, "train_arrays.py", kind, plan=[drain(1, 0, seconds=1)])
        least[kind] = min([*message["takes"], least.get(kind, float("inf"))])
    row("takes", 2, least["arrays"] / least["tensors"], least=True)


def ranks(python):
    barrier = threading.Barrier(2)

    class Agreed(Plan):
        def answer(self, message):
            barrier.wait(30)
            return super().answer(message)

    launcher = Launcher(lambda hello: Agreed(run(8), switch("synthetic"), run(6, "synthetic"), switch("full"), then=run(1000)), python=python)
    launcher.run(trainings / "train_ranks.py", "--spawn", 2, "--slow", 1, virtual=False)
    waits = [statistics.median(connection.windows("full")[0]["ranks"]) / 1e6 for connection in launcher.connections if connection.of("loader")]
    row("ranks", 20, max(waits), within=0.25)


figures = [prep, stages, locks, takes, ranks]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--only", default=",".join(figure.__name__ for figure in figures))
    arguments = parser.parse_args()
    for figure in figures:
        if figure.__name__ in arguments.only.split(","):
            figure(arguments.python)


if __name__ == "__main__":
    main()
