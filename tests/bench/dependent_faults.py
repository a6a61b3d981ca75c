#!/usr/bin/env python3
"""Jobs of a dependent group that come, are slow, stop, leave and are killed as a seed draws it, and what the others have of it.

usage: dependent_faults.py PROGRAM [--library libdsanalyze.so.0] [--count 500] [--seed 1] [--saves]
       (--saves: in each round the group is saved twice, at any time, and resumed)
       (what failed is printed with its seed: --count 1 --seed THAT does it again)
"""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "client"))
import dependent_job  # noqa: E402
from bench_tools import Failure, require  # noqa: E402

SAMPLES = 48
SUBSETS = {None: range(SAMPLES), "50%": range(24), "25%-75%": range(12, 36), "0-9,40-47": [*range(10), *range(40, 48)], "7": [7]}
MOST_JOBS = 6
PATIENCE = 60  # seconds


class Job:
    """What a job does, and when what is done to it."""

    def __init__(self, draw, name):
        self.name = name
        self.subset = draw.choice(list(SUBSETS))
        self.epochs = draw.randrange(1, 5)
        self.batch_size = draw.randrange(1, 12)
        self.seconds = draw.choice([0, 0, 0.001, 0.005, 0.01])
        self.arrival = draw.choice([0, 0, draw.uniform(0, 0.5)])
        self.fault = draw.choice(["none", "none", "none", "kill at a batch", "kill at a time", "kill at a time", "stop", "leave"])
        self.batches = draw.randrange(1, 8)
        self.after = draw.choice([draw.uniform(0, 0.05), draw.uniform(0, 0.6)])  # seconds, in which it starts or has long started
        self.process = None
        self.status = None
        self.struck = False
        self.saved = False  # its group is saved and resumed, and it comes again

    def words(self, folder):
        words = ["--append", "--again", self.name] if self.saved else []
        words += [str(folder), "--name", self.name, "--batch-size", str(self.batch_size), "--epochs", str(self.epochs), "--seconds", str(self.seconds)]
        if self.subset is not None:
            words += ["--subset", self.subset]
        if self.name == "keeper":
            words += ["--attached", str(folder / "attached"), "--hurry", str(folder / "hurry")]
        if self.fault == "kill at a batch":
            words += ["--kill-after", str(self.batches)]
        if self.fault == "leave":
            words += ["--leave-after", str(self.batches)]
        return words

    def start(self, folder, environment):
        self.process = os.fork()
        if self.process != 0:
            return
        status = 97
        with contextlib.suppress(BaseException):
            os.environ.update(environment)
            sys.argv = ["dependent_job.py", *self.words(folder)]
            try:
                dependent_job.main()
                status = 0
            except SystemExit as end:
                if not self.saved:
                    sys.stderr.write(f"job {self.name}: {end}\n")
                status = 1
        os._exit(status)  # pylint: disable=protected-access

    def strike(self):
        self.struck = True
        os.kill(self.process, signal.SIGSTOP if self.fault == "stop" else signal.SIGKILL)

    def look(self):
        if self.status is not None:
            return
        process, status = os.waitpid(self.process, os.WNOHANG)
        if process != 0:
            self.status = os.waitstatus_to_exitcode(status)

    def end(self):
        if self.process and self.status is None:
            os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)

    def whole(self):
        """It must have all of its epochs."""
        return self.status == 0 and self.fault != "leave"


def run_jobs(keeper, jobs, folder, environment):
    """The coordinator is there before the others, and stays until they have ended."""
    begun = time.monotonic()
    keeper.start(folder, environment)
    while not (folder / "attached").exists():
        require(time.monotonic() - begun < PATIENCE, "the first job was not let in")
        time.sleep(0.0005)
    begun = time.monotonic()
    run_others(jobs, begun, folder, environment)
    (folder / "hurry").touch()
    run_others([keeper], begun, folder, environment)


def run_others(jobs, begun, folder, environment):
    while any(job.status is None for job in jobs):
        now = time.monotonic() - begun
        require(now < PATIENCE, f"jobs {[job.name for job in jobs if job.status is None]} still run after {PATIENCE} s")
        for job in jobs:
            if job.process is None and now >= job.arrival:
                job.start(folder, environment)
            if job.process is None:
                continue
            job.look()
            due = job.arrival + job.after
            if job.status is None and not job.struck and now >= due and job.fault in ("kill at a time", "stop"):
                job.strike()
            if job.status is None and job.fault == "stop" and job.struck and now >= due + 0.3:
                os.kill(job.process, signal.SIGCONT)
        time.sleep(0.0005)


def check_epochs(job, folder):
    """Each sample once an epoch, and no version twice."""
    epochs = json.loads((folder / f"job-{job.name}.json").read_text())
    if not job.whole():
        require(len(epochs) <= job.epochs, f"job {job.name} had {len(epochs)} epochs")
    else:
        require(len(epochs) == job.epochs, f"job {job.name} had {len(epochs)} of {job.epochs} epochs")
    versions = set()
    for number, epoch in enumerate(epochs):
        ids = sorted(sample for sample, _, _ in epoch)
        require(len(set(ids)) == len(ids) and set(ids) <= set(SUBSETS[job.subset]), f"job {job.name} had a sample twice, or one that is not its own")
        require(not job.whole() or ids == list(SUBSETS[job.subset]), f"job {job.name} had {len(ids)} samples in epoch {number}")
        for sample, _, content in epoch:
            require((sample, content) not in versions, f"job {job.name} had a version of sample {sample} twice")
            versions.add((sample, content))
    return versions


class Campaign:
    def __init__(self, program, library, folder):
        self.program = program
        self.folder = folder
        self.data = folder / "data"
        self.environment = dict(os.environ, DSANALYZE_LIBRARY=str(library), XDG_STATE_HOME=str(folder / "state"), XDG_CACHE_HOME=str(folder / "cache"))
        subprocess.run([program, "dataset", "make", self.data, "--samples", str(SAMPLES), "--quiet"], check=True, env=self.environment)
        self.ends = collections.Counter()
        self.faults = collections.Counter()
        self.whole = self.shared = self.drawn = self.prepared = self.resumed = 0

    def round(self, seed):
        draw = random.Random(seed)
        jobs = [Job(draw, str(number)) for number in range(draw.randrange(2, MOST_JOBS + 1))]
        folder = self.folder / f"round-{seed}"
        runtime = folder / "runtime"
        runtime.mkdir(parents=True, mode=0o700)
        environment = dict(self.environment, XDG_RUNTIME_DIR=str(runtime))
        keeper = Job(draw, "keeper")  # without faults, so that the group lasts
        keeper.fault, keeper.arrival, keeper.epochs, keeper.seconds, keeper.subset = "none", 0, 4, 0.5, None
        words = ["--jobs", len(jobs) + 1, "--staging-size", draw.choice(["0%", "10%", "40%"]), "--staging-policy", draw.choice(["refcnt", "lru"])]
        coordinator = self.coordinate(seed, words, folder, environment)
        try:
            run_jobs(keeper, jobs, folder, environment)
            _, errors = coordinator.communicate(timeout=PATIENCE)
            require(coordinator.returncode == 0, f"exit code {coordinator.returncode}: {errors[-600:]}")
            self.check([keeper, *jobs], folder)
            require(not list(runtime.iterdir()), f"left behind: {list(runtime.iterdir())}")
        finally:
            for job in [keeper, *jobs]:
                job.end()
            if coordinator.poll() is None:
                coordinator.kill()
            coordinator.communicate()

    def coordinate(self, seed, words, folder, environment):
        """A coordinator; its group's address is in the environment."""
        coordinator = subprocess.Popen([self.program, "share", self.data, "--share", "dependent", "--dtype", "uint8", "--seed", str(seed), *map(str, words),
                                        "-o", folder / "share.json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        line = coordinator.stdout.readline().strip()
        require(line.startswith("export DSANALYZE_GROUP="), coordinator.stderr.read() if not line else line)
        environment["DSANALYZE_GROUP"] = line.removeprefix("export DSANALYZE_GROUP=")
        return coordinator

    def saved_round(self, seed):
        draw = random.Random(seed)
        jobs = [Job(draw, str(number)) for number in range(draw.randrange(2, MOST_JOBS + 1))]
        folder = self.folder / f"round-{seed}"
        runtime = folder / "runtime"
        runtime.mkdir(parents=True, mode=0o700)
        environment = dict(self.environment, XDG_RUNTIME_DIR=str(runtime))
        for job in jobs:
            job.saved, job.fault = True, draw.choice(["none", "none", "none", "kill at a time"])
            job.seconds = draw.choice([0.002, 0.01, 0.03])
            self.faults[job.fault] += 1
        words = ["--jobs", len(jobs), "--staging-size", draw.choice(["0%", "10%", "40%"]), "--staging-policy", draw.choice(["refcnt", "lru"])]
        for run in range(3):
            going = [job for job in jobs if job.status not in (0, -signal.SIGKILL)]
            resume = ["--resume", folder / "state"] if run > 0 else []
            coordinator = self.coordinate(seed, [*words, *resume, "--save-state", folder / "state"], folder, environment)
            try:
                for job in going:
                    job.process = job.status = None
                    job.arrival = draw.choice([0, 0, draw.uniform(0, 0.3)]) if run < 2 else 0
                self.run_until(going, draw.uniform(0.05, 0.7) if run < 2 else PATIENCE, folder, environment)
                coordinator.send_signal(signal.SIGTERM)
                _, errors = coordinator.communicate(timeout=PATIENCE)
                require(coordinator.returncode in (0, 130), f"exit code {coordinator.returncode}: {errors[-600:]}")
                run_others([job for job in going if job.process], time.monotonic() - PATIENCE / 2, folder, environment)
                self.resumed += errors.count("goes on with batch")
            finally:
                for job in jobs:
                    job.end()
                if coordinator.poll() is None:
                    coordinator.kill()
                coordinator.communicate()
        for job in jobs:
            require(job.status in (0, -signal.SIGKILL), f"job {job.name} ended with {job.status}")
            if job.status == 0:
                self.shared += len(check_epochs(job, folder))
                self.whole += job.whole()
        require(not list(runtime.iterdir()), f"left behind: {list(runtime.iterdir())}")

    @staticmethod
    def run_until(jobs, seconds, folder, environment):
        """Starts and kills jobs when they are due, until that time or the end of all."""
        begun = time.monotonic()
        while time.monotonic() - begun < seconds and any(job.status is None for job in jobs):
            for job in jobs:
                if job.process is None and time.monotonic() - begun >= job.arrival:
                    job.start(folder, environment)
                if job.process is None:
                    continue
                job.look()
                if job.status is None and job.fault == "kill at a time" and not job.struck and time.monotonic() - begun >= job.arrival + job.after:
                    job.strike()
            time.sleep(0.0005)

    def check(self, jobs, folder):
        for job in jobs:
            self.faults[job.fault] += 1
            killed = job.fault.startswith("kill") and job.status == -signal.SIGKILL
            # A job may be done before its kill is due.
            require(killed or job.status == 0, f"job {job.name} ({job.fault}) ended with {job.status}")
            if job.status == 0:
                self.shared += len(check_epochs(job, folder))
                self.whole += job.whole()
        record = json.loads((folder / "share.json").read_text())
        for job in record["jobs"]:
            self.ends[job["end"]] += 1
        require(all(job["end"] in ("left", "died") for job in record["jobs"]), f"ends: {record['jobs']}")
        require(record["memory"]["shared_bytes"] <= record["memory"]["bound_bytes"], f"memory: {record['memory']}")
        drawn = record["dependent"]["samples_drawn"]
        require(record["samples_taken"] <= drawn, f"{record['samples_taken']} samples were taken, {drawn} drawn")
        self.drawn += drawn
        self.prepared += record["samples_prepared"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--library", help="libdsanalyze.so.0 (beside the program, in src/client)")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--saves", action="store_true", help="the group is saved and resumed")
    arguments = parser.parse_args()
    program = pathlib.Path(arguments.program).resolve()
    library = arguments.library or program.parent / "src" / "client" / "libdsanalyze.so.0"
    failed = 0
    with tempfile.TemporaryDirectory(prefix="dsanalyze-faults-") as folder:
        campaign = Campaign(program, library, pathlib.Path(folder))
        for seed in range(arguments.seed, arguments.seed + arguments.count):
            try:
                campaign.saved_round(seed) if arguments.saves else campaign.round(seed)
            except Failure as failure:
                failed += 1
                print(f"FAILED with --seed {seed}: {failure}", flush=True)
    ends = ", ".join(f"{count} {end}" for end, count in sorted(campaign.ends.items()))
    faults = ", ".join(f"{count} x {fault}" for fault, count in sorted(campaign.faults.items()))
    if arguments.saves:
        print(f"{arguments.count} rounds, each saved twice ({faults}): {campaign.resumed} times a job went on in mid-epoch; {campaign.whole} had all of their epochs; "
              f"{failed} rounds failed")
        sys.exit(1 if failed else 0)
    print(f"{arguments.count} rounds ({faults}): jobs that were let in: {ends}; {campaign.whole} had all of their epochs; {campaign.drawn} samples were drawn, "
          f"{campaign.prepared} prepared; {failed} rounds failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
