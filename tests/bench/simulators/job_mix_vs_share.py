#!/usr/bin/env python3
"""Job mixes as `dsanalyze whatif --job-mix` predicts them, beside what `dsanalyze share --share dependent` makes of them: jobs of other speeds, arrivals, parts
and batch sizes, drawn from a seed. Prep is emulated, so that P is known; a job's training is a sleep. Of each job's rate and completion time and of the
preparings a sample the error is (predicted - measured) / measured.

usage: job_mix_vs_share.py PROGRAM [--library libdsanalyze.so.0] [--mixes 12] [--seed 1] [--seconds 15] [--json FILE]
       (the machine must be quiet: late jobs are slow jobs; a mix in which some sleep was late by more than 2 % of the time is repeated twice, then left out)
"""
import argparse
import ctypes
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS / "client"), str(TESTS / "bench")]
import minimal  # noqa: E402
from bench_tools import Failure, require  # noqa: E402
from dependent_job import Options  # noqa: E402

SAMPLES = 3000
CORES = 2
ATTEMPTS = 3
MOST_LATE = 0.02  # of a job's time
MEDIAN, WORST = 0.02, 0.05


def drawn_mix(draw, seconds):
    """A mix of two to four jobs, the fastest of which trains for about so many seconds, and prep that keeps up with all, with some, or with none."""
    jobs = []
    for number in range(draw.randrange(2, 5)):
        ratio = 1 if number == 0 else draw.uniform(0.2, 1)
        subset = draw.choice([None, None, None, "0%-60%", "30%-100%"])
        part = 1 if subset is None else 0.6 if subset == "0%-60%" else 0.7
        rate = 600 * ratio
        jobs.append({"name": f"job {number}", "samples_per_s": rate, "batch_size": draw.choice([8, 16, 16, 32]), "subset": subset or "",
                     "epochs": max(1, round(seconds * rate / (SAMPLES * part))), "arrival_seconds": draw.choice([0, 0, draw.uniform(0, seconds / 3)])})
    demand = sum(job["samples_per_s"] for job in jobs)
    return {"samples": SAMPLES, "jobs": jobs}, demand * draw.choice([0.5, 0.7, 1.5]), draw.choice([0, 0, 0.1, 0.25])


def train(job, path):
    """Takes all batches; each is trained on after the one before it, and as long as the job's speed says."""
    library = minimal.load()
    client = ctypes.c_void_p()
    asked = Options(struct_size=ctypes.sizeof(Options), batch_size=job["batch_size"], epochs=job["epochs"], subset=job["subset"].encode() or None)
    arrived = time.monotonic()
    require(library.dsa_attach(ctypes.byref(asked), ctypes.byref(client)) == minimal.DSA_OK, library.dsa_last_error().decode())
    attached = time.monotonic()
    batch = minimal.Batch(struct_size=ctypes.sizeof(minimal.Batch))
    taken, late, end = 0, 0.0, attached
    while (status := library.dsa_next(client, ctypes.byref(batch), -1)) in (minimal.DSA_OK, minimal.DSA_TIMEOUT):
        if status == minimal.DSA_TIMEOUT:
            continue
        now = time.monotonic()
        end = max(end, now if now - end > 0.0005 else end) + batch.count / job["samples_per_s"]  # half a millisecond is the call's own
        time.sleep(max(0, end - time.monotonic()))
        late = max(late, time.monotonic() - end)
        library.dsa_release(client, batch.token)
        taken += batch.count
    require(status == minimal.DSA_END, library.dsa_last_error().decode())
    library.dsa_detach(client)
    path.write_text(json.dumps({"arrived": arrived, "attached": attached, "end": end, "samples": taken, "late": late}))


def start(job, path, environment):
    """The process of a job, which attaches when it arrives."""
    process = os.fork()
    if process == 0:
        status = 1
        try:
            os.environ.update(environment)
            time.sleep(job["arrival_seconds"])
            train(job, path)
            status = 0
        except Failure as failure:
            sys.stderr.write(f"{job['name']}: {failure}\n")
        finally:
            os._exit(status)  # pylint: disable=protected-access
    return process


class Bench:
    def __init__(self, program, library, folder):
        self.program = program
        self.folder = folder
        self.environment = dict(os.environ, DSANALYZE_LIBRARY=str(library), XDG_STATE_HOME=str(folder / "state"), XDG_CACHE_HOME=str(folder / "cache"))

    def measured(self, mix, prep, staging):
        record = self.folder / "share.json"
        words = [f"emulated:imagenet-1k,samples={SAMPLES}", "--storage", "null", "--prep", f"emulated:{prep / CORES}", "--cores", CORES, "--cache", "none",
                 "--dtype", "uint8", "--share", "dependent", "--jobs", len(mix["jobs"]), "--staging-size", f"{100 * staging:g}%", "-o", record]
        coordinator = subprocess.Popen([self.program, "share", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       env=self.environment)
        try:
            line = coordinator.stdout.readline().strip()
            require(line.startswith("export DSANALYZE_GROUP="), coordinator.stderr.read() if not line else line)
            environment = dict(self.environment, DSANALYZE_GROUP=line.removeprefix("export DSANALYZE_GROUP="))
            paths = [self.folder / f"job-{number}.json" for number in range(len(mix["jobs"]))]
            processes = [start(job, path, environment) for job, path in zip(mix["jobs"], paths)]
            for process in processes:
                require(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0, "a job failed")
            coordinator.communicate(timeout=60)
            require(coordinator.returncode == 0, f"the coordinator ended with {coordinator.returncode}")
        finally:
            if coordinator.poll() is None:
                coordinator.kill()
            coordinator.communicate()
        return [json.loads(path.read_text()) for path in paths], json.loads(record.read_text())["dependent"]

    def predicted(self, mix, prep, staging):
        path = self.folder / "mix.json"
        path.write_text(json.dumps(mix))
        run = subprocess.run([self.program, "whatif", "--rates", f"P={prep:.3f},C=1000M,S=1000M", "--base", f"cores={CORES}", "--job-mix", path, "--staging-size",
                              f"{100 * staging:g}%", "--json"], check=True, capture_output=True, text=True, env=self.environment)
        return json.loads(run.stdout)["job_mix"]["answers"][0]

    def compare(self, draw, seconds):
        """Errors by what they are of; None where the machine was not quiet enough."""
        mix, prep, staging = drawn_mix(draw, seconds)
        answer = self.predicted(mix, prep, staging)
        for _ in range(ATTEMPTS):
            jobs, made = self.measured(mix, prep, staging)
            late = max(job["late"] / (job["end"] - job["attached"]) for job in jobs)
            if late <= MOST_LATE:
                break
        else:
            return None
        errors = []
        for job, of in zip(jobs, answer["jobs"]):
            seconds_taken = job["end"] - job["attached"]
            errors.append(("rate", of["samples_per_s"] * seconds_taken / job["samples"] - 1))
            errors.append(("completion", of["completion_seconds"] / seconds_taken - 1))
        errors.append(("preparings a sample", answer["prepared_per_sample"] * made["samples_drawn"] / made["samples_prepared"] - 1))
        mean = statistics.mean(job["end"] - job["attached"] for job in jobs)
        errors.append(("mean completion", answer["mean_completion_seconds"] / mean - 1))
        last = max(job["end"] for job in jobs) - min(job["attached"] for job in jobs)
        errors.append(("makespan", answer["makespan_seconds"] / last - 1))
        return {"mix": mix, "P": prep, "staging": staging, "method": answer["method"], "errors": errors}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--library", help="libdsanalyze.so.0 (beside the program, in src/client)")
    parser.add_argument("--mixes", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=15, help="that the fastest job trains for, about")
    parser.add_argument("--json", type=pathlib.Path, help="writes the mixes and their errors")
    arguments = parser.parse_args()
    program = pathlib.Path(arguments.program).resolve()
    library = pathlib.Path(arguments.library or program.parent / "src" / "client" / "libdsanalyze.so.0").resolve()
    done = []
    noisy = 0
    with tempfile.TemporaryDirectory(prefix="dsanalyze-mix-") as folder:
        bench = Bench(program, library, pathlib.Path(folder))
        for seed in range(arguments.seed, arguments.seed + arguments.mixes):
            compared = bench.compare(random.Random(seed), arguments.seconds)
            if compared is None:
                noisy += 1
                print(f"seed {seed}: left out, the machine was not quiet", flush=True)
                continue
            done.append({"seed": seed, **compared})
            worst = max(compared["errors"], key=lambda each: abs(each[1]))
            print(f"seed {seed}: {len(compared['mix']['jobs'])} jobs, P {compared['P']:.0f}, store {compared['staging']:.0%}, {compared['method']}: "
                  f"{' '.join(f'{100 * error:+.1f}' for _, error in compared['errors'])} % (worst: {worst[0]})", flush=True)
    require(done, "no mix was compared")
    if arguments.json:
        arguments.json.write_text(json.dumps(done, indent=2) + "\n")
    of_all = [abs(error) for each in done for _, error in each["errors"]]
    for what in dict.fromkeys(name for each in done for name, _ in each["errors"]):
        of = [abs(error) for each in done for name, error in each["errors"] if name == what]
        print(f"| {what} | {len(of)} | {100 * statistics.median(of):.2f} % | {100 * max(of):.2f} % |")
    median, worst = statistics.median(of_all), max(of_all)
    print(f"{len(done)} mixes, {noisy} left out: median {100 * median:.2f} % (at most {100 * MEDIAN:g}), worst {100 * worst:.2f} % (at most {100 * WORST:g})")
    sys.exit(0 if median <= MEDIAN and worst <= WORST and noisy == 0 else 1)


if __name__ == "__main__":
    main()
