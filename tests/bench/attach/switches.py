"""Whether the ranks of a launched job stay in step over thousands of switches of phase, at random steps.

usage: switches.py [--python PYTHON] [--ranks N] [--switches N] [--seed SEED]

A script with gloo and DistributedDataParallel (tests/attach/trainings/train_ranks.py) checks after each step that all ranks are at the same one, and ends with an
error otherwise. A launcher in a few lines answers all ranks alike: one to four steps, then a switch to a random phase, until N switches were made. PYTHON is
one that has torch (default: /usr/bin/python3).
"""

import argparse
import pathlib
import random
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "attach"))
import fake_launcher  # noqa: E402
from fake_launcher import Launcher, run, switch  # noqa: E402


class Random(fake_launcher.Plan):
    """The same answers for every rank, each given once all ranks have come to the same checkpoint."""

    def __init__(self, barrier, seed, switches):
        super().__init__()
        self.random = random.Random(seed)
        self.barrier = barrier
        self.left = switches
        self.mode = "full"
        self.checkpoints = []

    def answer(self, message):
        self.barrier.wait(120)
        self.checkpoints.append((message["why"], message["epoch"], message["step"]))
        if message["why"] == "epoch_end":
            return {"do": "go"}
        if message["why"] == "window" and self.left > 0:
            self.left -= 1
            self.mode = self.random.choice([mode for mode in ("full", "synthetic", "cached") if mode != self.mode])
            return switch(self.mode, keep=4)
        return run(self.random.randint(1, 4) if self.left > 0 else 1000000, self.mode)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--switches", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    fake_launcher.seconds = 3600
    barrier = threading.Barrier(arguments.ranks)
    plans = []

    def plan(_):
        plans.append(Random(barrier, arguments.seed, arguments.switches))
        return plans[-1]

    launcher = Launcher(plan, python=arguments.python)
    steps = 320
    epochs = arguments.switches * 4 // (steps // arguments.ranks) + 2
    output = launcher.run(fake_launcher.here / "trainings" / "train_ranks.py", "--spawn", arguments.ranks, "--samples", steps * 4, "--epochs", epochs, virtual=False)
    trained = [made for made in plans if made.checkpoints]
    alike = all(made.checkpoints == trained[0].checkpoints for made in trained)
    done = output.count("done")
    made = arguments.switches - max(each.left for each in trained)
    print(f"{made} switches over {done} ranks, {len(trained[0].checkpoints)} checkpoints at the same steps: {alike}; out of step: {'out of step' in output}")
    return 0 if done == arguments.ranks and alike and made == arguments.switches else 1


if __name__ == "__main__":
    sys.exit(main())
