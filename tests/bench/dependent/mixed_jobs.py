#!/usr/bin/env python3
"""Jobs of different speed on one dataset: how long each takes by itself, coordinated, drawing dependently, and with TensorSocket.

  tests/bench/dependent/mixed_jobs.py build/release/dsanalyze DATASET [--speeds 1,0.6,0.45,0.28,0.2 | --rates 500,300] [--epochs 2] [--rounds 3]
      [--tensorsocket PYTHON] [--json FILE]

Every job is a process that takes batches and computes for batch / rate seconds with each, as an accelerator would. Speeds are parts of what one job
without computing is given, measured first. All cases have the same jobs, threads and memory for prepared or encoded samples, and start all jobs at
once; TensorSocket prepares with torchvision in as many processes as there are cores, and has the dataset in the page cache. Cases alternate, in the
other order every second round. A job's completion time is from the start of its case; the makespan is that of the last job."""
import argparse
import contextlib
import ctypes
import datetime
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER.parent), str(FOLDER.parents[1] / "client")]
import bench_tools  # noqa: E402
import minimal  # noqa: E402
from bench_tools import Failure, require, say, spread  # noqa: E402

BATCH = 32
PATIENCE = 3600  # seconds
PEER = FOLDER / "tensorsocket_jobs.py"


def train(rate):
    """The job: every batch, each computed as soon as it is there and the one before is done. Prints its samples and the instant at which it ended."""
    library = minimal.load()
    client = ctypes.c_void_p()
    if library.dsa_attach(None, ctypes.byref(client)) != minimal.DSA_OK:
        sys.exit(library.dsa_last_error().decode())
    batch = minimal.Batch(struct_size=ctypes.sizeof(minimal.Batch))
    samples = 0
    done = 0.0
    while (status := library.dsa_next(client, ctypes.byref(batch), -1)) in (minimal.DSA_OK, minimal.DSA_TIMEOUT):
        if status == minimal.DSA_TIMEOUT:
            continue
        done = max(done, time.monotonic()) + batch.count / rate
        time.sleep(max(0, done - time.monotonic()))
        samples += batch.count
        library.dsa_release(client, batch.token)
    if status != minimal.DSA_END:
        sys.exit(library.dsa_last_error().decode())
    print(json.dumps({"job": int(os.environ["MIXED_JOB"]), "samples": samples, "ended": time.monotonic()}), flush=True)
    library.dsa_detach(client)


class Case:
    """Coordinators and their jobs. `options`: those of each coordinator; `alone`: each job has one of its own."""

    def __init__(self, name, options, alone=False):
        self.name = name
        self.options = options
        self.alone = alone
        self.runs = []

    def run(self, settings, folder):
        """Starts all at once; returns when all have ended."""
        jobs = list(enumerate(settings.rates))
        groups = [[job] for job in jobs] if self.alone else [jobs]
        started = time.monotonic()
        running = []
        try:
            for number, group in enumerate(groups):
                script = "".join(f"  {place}) export MIXED_JOB={job}; exec '{sys.executable}' '{__file__}' --train {rate};;\n"
                                 for place, (job, rate) in enumerate(group))
                record = folder / f"share-{number}.json"
                words = [settings.program, "share", settings.dataset, "--jobs", len(group), "--epochs", settings.epochs, "--batch-size", BATCH,
                         "--dtype", "uint8", *self.options, "-o", record, "--quiet", "--", "sh", "-c", f"case $DSANALYZE_JOB in\n{script}esac"]
                running.append((record, subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)))
            ended = [self.end_of(process) for _, process in running]
        finally:
            for _, process in running:
                if process.poll() is None:
                    process.terminate()
                    process.communicate()
        records = [json.loads(record.read_text()) for record, _ in running]
        expected = records[0]["dataset"]["samples"] * settings.epochs
        self.keep(ended, started, len(jobs), expected, sum(record["samples_prepared"] for record in records))

    def keep(self, outputs, started, jobs, expected, prepared, dropped=0):
        """`dropped`: samples that a job may not get."""
        lines = [json.loads(line) for output in outputs for line in output.splitlines() if line.startswith('{"job"')]
        require(len(lines) == jobs, f"{self.name}: {len(lines)} of {jobs} jobs said that they had ended")
        require(all(expected - dropped <= line["samples"] <= expected for line in lines), f"{self.name}: {lines}, expected {expected} samples each")
        times = [line["ended"] - started for line in sorted(lines, key=lambda line: line["job"])]
        self.runs.append({"times": times, "mean": statistics.fmean(times), "makespan": max(times), "expected": expected, "prepared": prepared})

    def end_of(self, process):
        output, errors = process.communicate(timeout=PATIENCE)
        require(process.returncode == 0, f"{self.name}: exit code {process.returncode}: {errors[-600:]}")
        return output


class PeerCase(Case):
    """TensorSocket: all jobs get the same batches from one producer, at most a few batches apart."""

    def run(self, settings, folder):
        samples = sum(len(files) for path, _, files in os.walk(settings.dataset) if path != os.fspath(settings.dataset))
        require(samples > 0, f"{settings.dataset} is no folder of classes, which the peer reads")
        words = [settings.tensorsocket, PEER]
        running = []
        try:
            # Jobs that come when the producer has begun may miss batches. All are there, and have imported what they need, when the time begins.
            for job, rate in enumerate(settings.rates):
                running.append(self.started([*words, "job", rate, BATCH, settings.epochs], {"MIXED_JOB": str(job)}))
            running.append(self.started([*words, "producer", settings.dataset, BATCH, len(settings.rates)], {}))
            for process in running:
                require("ready\n" in iter(process.stdout.readline, ""), f"{self.name}: a process came to nothing")
            started = time.monotonic()
            ended = [self.end_of(process) for process in running[:-1]]
        finally:
            for process in running:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        # What does not fill a batch, and one batch an epoch, which the peer's consumer does not get.
        dropped = (samples % BATCH + BATCH) * settings.epochs
        self.keep(ended, started, len(running) - 1, samples * settings.epochs, samples * settings.epochs, dropped)

    @staticmethod
    def started(words, environment):
        return subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                                env={**os.environ, **environment})


def prep_rate(settings, folder):
    """What one job without computing is given, samples/s, from the second epoch on."""
    alone = Case("prep", cases_of(settings)[1].options)
    ends = []
    for epochs in (1, 3):
        alone.run(argparse.Namespace(**{**vars(settings), "rates": [1e9], "epochs": epochs}), folder)
        ends.append(alone.runs[-1])
    return (ends[1]["expected"] - ends[0]["expected"]) / (ends[1]["makespan"] - ends[0]["makespan"])


def cases_of(settings):
    """The same memory for all: of encoded samples `cache` of the dataset, of prepared ones `staging`."""
    share = settings.cache / len(settings.speeds)
    cache = ["--cache-size", f"{settings.cache:g}%"]
    dependent = ["--share", "dependent", *cache, "--staging-size", f"{settings.staging:g}%"]
    return [Case("independent", ["--producers", "coordinator", "--cache-size", f"{share:g}%"], alone=True),
            Case("coordinated", ["--producers", "coordinator", *cache]),
            Case("dependent, refcnt", [*dependent, "--staging-policy", "refcnt"]),
            Case("dependent, lru", [*dependent, "--staging-policy", "lru"]), *([PeerCase("TensorSocket", [])] if settings.tensorsocket else [])]


def table(cases):
    """The ratio is that of each round; below it, the middle and the range."""
    others = [min(runs, key=lambda run: run["mean"]) for runs in zip(*(case.runs for case in cases if not case.name.startswith("dependent")))]
    say("| case | mean completion, s | best of all but dependent / this | makespan, s | prepared / an epoch's samples of one job |")
    say("| --- | --- | --- | --- | --- |")
    for case in cases:
        gains = [other["mean"] / run["mean"] for other, run in zip(others, case.runs)]
        prepared = [run["prepared"] / run["expected"] for run in case.runs]
        say(f"| {case.name} | {spread([run['mean'] for run in case.runs], '{:.2f}')} | {spread(gains, '{:.2f}')} | "
            f"{spread([run['makespan'] for run in case.runs], '{:.2f}')} | {spread(prepared, '{:.2f}')} |")
    say()
    say("| case | " + " | ".join(f"job {job}, s" for job in range(len(cases[0].runs[0]["times"]))) + " |")
    say("| --- |" + " --- |" * len(cases[0].runs[0]["times"]))
    for case in cases:
        say(f"| {case.name} | " + " | ".join(spread(list(times), "{:.2f}") for times in zip(*(run["times"] for run in case.runs))) + " |")


def numbers(text):
    return [float(number) for number in text.split(",")]


def main():
    if sys.argv[1:2] == ["--train"]:
        train(float(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("dataset", help="such as `dsanalyze dataset make` makes")
    parser.add_argument("--library", type=os.path.abspath, help="libdsanalyze.so.0 (beside the program, in src/client)")
    parser.add_argument("--speeds", type=numbers, default=[1, 0.6, 0.45, 0.28, 0.2], help="that each job could train at, of what one is given")
    parser.add_argument("--rates", type=numbers, help="samples/s, in place of speeds")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tensorsocket", metavar="PYTHON", help="an interpreter with torchvision and tensorsocket of PyPI")
    parser.add_argument("--cache", type=float, default=35, help="percent of the dataset's bytes that all caches together hold")
    parser.add_argument("--staging", type=float, default=10, help="percent of the dataset's samples that are kept prepared")
    parser.add_argument("--json", help="keeps every figure here")
    settings = parser.parse_args()
    bench_tools.clean_up_on_signals()
    library = settings.library or os.path.join(os.path.dirname(settings.program), "src", "client", "libdsanalyze.so.0")
    settings.speeds = settings.rates or settings.speeds
    cases = cases_of(settings)
    with tempfile.TemporaryDirectory(prefix="dsanalyze-mixed-") as folder:
        runtime = pathlib.Path(folder) / "runtime"
        runtime.mkdir(mode=0o700)
        os.environ.update(DSANALYZE_LIBRARY=library, XDG_RUNTIME_DIR=str(runtime), XDG_STATE_HOME=folder)
        try:
            if settings.rates is None:
                rate = prep_rate(settings, pathlib.Path(folder))
                settings.rates = [round(rate * speed) for speed in settings.speeds]
            for number in range(settings.rounds):
                for case in cases if number % 2 == 0 else reversed(cases):
                    case.run(settings, pathlib.Path(folder))
        except Failure as failure:
            sys.exit(f"failed: {failure}")
    say(f"`{' '.join(map(str, ['tests/bench/dependent/mixed_jobs.py', *sys.argv[1:]]))}`, {datetime.date.today()}, {os.cpu_count()} cores, "
        f"{settings.rounds} rounds: median [range]; jobs that could train at {', '.join(f'{rate:g}' for rate in settings.rates)} samples/s")
    say()
    table(cases)
    if settings.json:
        pathlib.Path(settings.json).write_text(json.dumps({"command": sys.argv[1:], "cases": {case.name: case.runs for case in cases}}, indent=1))


if __name__ == "__main__":
    main()
