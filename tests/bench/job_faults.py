#!/usr/bin/env python3
"""Kills, stops and starves the processes of coordinated jobs, at any time, and checks what the others have of it.

usage: job_faults.py PROGRAM kills [--count 500] [--seed S] [--jobs 8] | stops [--count 5] | rounds [--count 100] | coordinator [--count 20] | memory
       | losses [--count 10]
       (each with --seed S; what failed is printed with the seed of its round: --count 1 --seed THAT does it again)
"""
import argparse
import collections
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
import job_watch  # noqa: E402
from bench_tools import Failure, require  # noqa: E402

SAMPLES, BATCH, EPOCHS = 640, 32, 12
BATCHES = SAMPLES // BATCH
# Prep is fast enough for one job alone, so that what is lost is lost by the death, and not by having fewer workers.
EMULATED = [f"emulated:imagenet-1k,samples={SAMPLES}", "--storage", "emulated:500MB/s", "--prep", "emulated:8000", "--cores", "2", "--accelerator",
            "emulated:4000", "--batch-size", BATCH, "--runs", "full", "--time-budget", "120s", "--subset", "100%", "--cache-size", "100%",
            "--share", "coordinated"]
LEARNING_EPOCHS = 6
LEARNING = ["--accelerator", "cpu:double", "--batch-size", 8, "--runs", "full", "--time-budget", "300s", "--subset", "100%", "--cache-size", "100%",
            "--share", "coordinated", "--jobs", 4, "--epochs", LEARNING_EPOCHS]
PHASES = ["while jobs start", "in mid-epoch", "two at once", "at an epoch's boundary", "in the last epoch"]


def check_survivors(result, samples, epochs, digest):
    """Every sample exactly once an epoch: as many, and the digest of the set of all of them."""
    alive = [job for job in result["jobs"] if job["end"] == "finished"]
    for job in alive:
        require([epoch["epoch"] for epoch in job["epochs"]] == list(range(epochs)), f"job {job['job']} trained epochs {[e['epoch'] for e in job['epochs']]}")
        for epoch in job["epochs"]:
            require(epoch["samples"] == samples, f"job {job['job']} had {epoch['samples']} of {samples} samples in epoch {epoch['epoch']}")
            require(epoch["digest"] == digest, f"job {job['job']} trained on other samples in epoch {epoch['epoch']}")
    return alive


def digest_of_all(program, places):
    run = job_watch.Watched(program, places, [*EMULATED, "--jobs", 1, "--epochs", 2], 1)
    try:
        code, out, err = run.finish()
        require(code == 0, err)
        return json.loads(out)["jobs"][0]["epochs"][0]["digest"]
    finally:
        run.close()


def lost_time(positions, at):
    """What a job lost around an instant, in seconds, beside its iteration; nothing while it had no pace yet."""
    before = [each for each in positions if each[0] <= at]
    after = [each for each in positions if each[0] > at][:40]
    if not after or len(before) < 30:
        return None
    steps = [(late - early) / (to - since) for (early, since), (late, to) in zip(positions, positions[1:]) if to > since]
    iteration = statistics.median(steps)
    last, done = before[-1]
    return max(moved - max(last, at) - (released - done) * iteration for moved, released in after), iteration


class Plan:
    """Who is killed when, in one profile."""

    def __init__(self, draw, jobs, kills):
        self.events = []
        left = min(kills, jobs - 1)
        while left > 0:
            phase = draw.choice(PHASES)
            victims = 2 if phase == "two at once" else 1
            if victims > left:
                continue
            left -= victims
            at = {"while jobs start": draw.uniform(0, 0.4), "in the last epoch": BATCHES * (EPOCHS - 1) + draw.randrange(BATCHES),
                  "at an epoch's boundary": BATCHES * draw.randrange(1, EPOCHS) + draw.choice([-2, -1, 0, 1])}.get(phase, draw.randrange(1, BATCHES * EPOCHS))
            self.events.append((phase, victims, at))
        self.events.sort(key=lambda event: (event[0] != PHASES[0], event[2]))


def strike_by(run, plan, draw):
    """Carries the plan out. Every kill: when, of whom, in which phase."""
    kills = []
    begun = time.monotonic()
    while plan.events and run.profile.poll() is None:
        running = [each for each in run.look() if job_watch.state_of(each) not in ("Z", None)]
        phase, victims, at = plan.events[0]
        # Its own way through the job's life: which job is looked at is drawn as well.
        due = time.monotonic() - begun >= at if phase == PHASES[0] else max([run.position(each) for each in running], default=0) >= at
        if not due or len(running) <= victims or (phase == PHASES[0] and not running):
            time.sleep(0.0005)
            continue
        plan.events.pop(0)
        for victim in draw.sample(running, victims):
            if job_watch.strike(victim, signal.SIGKILL):
                kills.append((time.monotonic(), victim, phase))
    return kills


class Kills:
    def __init__(self):
        self.by_phase = collections.Counter()
        self.survivors = 0
        self.taken_over = 0
        self.losses = []
        self.quiet = []
        self.too_late = 0

    def round(self, program, places, seed, jobs, digest):
        draw = random.Random(seed)
        producers = draw.choice(["jobs", "jobs", "coordinator"])
        plan = Plan(draw, jobs, draw.randrange(3, jobs))
        run = job_watch.Watched(program, places, [*EMULATED, "--jobs", jobs, "--epochs", EPOCHS, "--producers", producers], jobs)
        try:
            kills = strike_by(run, plan, draw)
            code, out, err = run.finish()
            require(code == 0, f"exit code {code}: {err[-600:]}")
            result = json.loads(out)
            ends = collections.Counter(job["end"] for job in result["jobs"])
            died = ends["died"]
            require(died <= len(kills) and set(ends) <= {"died", "finished"}, f"{len(kills)} kills and the ends {dict(ends)}: {result['findings']}")
            self.too_late += len(kills) - died  # it had told all that it had to tell
            alive = check_survivors(result, SAMPLES, EPOCHS, digest)
            require(len(alive) == jobs - died, "not all survivors finished")
            self.note(run, kills, alive, result, seed)
        finally:
            run.close()
        left = places.left_behind(run.shared_before)
        require(not left, f"left behind: {', '.join(left)}")

    def note(self, run, kills, alive, result, seed):
        self.survivors += len(alive)
        self.taken_over += result["sharing"]["taken_over_batches"]
        struck = {victim for _, victim, _ in kills}
        for at, _, phase in kills:
            self.by_phase[phase] += 1
            for child, positions in run.positions.items():
                lost = None if child in struck else lost_time(positions, at)
                if lost is not None:
                    self.losses.append((*lost, phase))
                    if lost[0] > 10 * lost[1] + 0.1:
                        print(f"a survivor lost {lost[0] * 1000:.0f} ms, beyond 10 iterations + 100 ms, in kills --count 1 --seed {seed}", flush=True)
        if kills:  # as much time, just before: what the machine does to them without any death
            at = kills[0][0] - 0.4
            self.quiet += [lost for child, positions in run.positions.items() if child not in struck and (lost := lost_time(positions, at))]

    def report(self):
        print(f"{'phase':<24} {'kills':>6} {'worst loss':>11} {'of iteration + 100 ms':>22}")
        for phase in PHASES:
            of_phase = [(lost, iteration) for lost, iteration, at in self.losses if at == phase]
            worst = max(of_phase, default=(0, 0))
            share = max((lost / (10 * iteration + 0.1) for lost, iteration in of_phase), default=0)
            print(f"{phase:<24} {self.by_phase[phase]:>6} {worst[0] * 1000:>8.1f} ms {share * 100:>20.0f} %")
        over = sum(lost > 10 * iteration + 0.1 for lost, iteration, _ in self.losses)
        quiet = max((lost for lost, _ in self.quiet), default=0)
        print(f"{sum(self.by_phase.values())} kills, {self.survivors} survivors with every sample exactly once; {self.taken_over} batches taken over; "
              f"{self.too_late} came when the job had told all; nothing left behind")
        print(f"time lost: {len(self.losses)} looks, {over} beyond 10 iterations + 100 ms; without a death at most {quiet * 1000:.1f} ms")
        return over


def rounds_of(arguments, places, one, what):
    """Runs so many rounds; seeds that failed are told."""
    failed = 0
    for number in range(arguments.count):
        seed = arguments.seed + number
        try:
            one(seed)
        except Failure as failure:
            failed += 1
            print(f"FAILED {what} --count 1 --seed {seed}: {failure}", flush=True)
            places.close()
            places.__init__()
    return failed


def kills(arguments, places):
    digest = digest_of_all(arguments.program, places)
    campaign = Kills()
    failed = 0
    seed = arguments.seed
    while sum(campaign.by_phase.values()) < arguments.count and failed < 10:
        one = argparse.Namespace(**{**vars(arguments), "count": 1, "seed": seed})
        failed += rounds_of(one, places, lambda number: campaign.round(arguments.program, places, number, arguments.jobs, digest), "kills")
        seed += 1
    over = campaign.report()
    print(f"{seed - arguments.seed} profiles of {arguments.jobs} jobs, {failed} failed")
    return failed + over


def stop_one(arguments, places, seed, digest):
    """One job is stopped for seconds, at any time: the others wait, no job takes over, nothing is made twice."""
    draw = random.Random(seed)
    run = job_watch.Watched(arguments.program, places, [*EMULATED, "--jobs", 3, "--epochs", EPOCHS], 3)
    try:
        at = draw.randrange(BATCHES, BATCHES * (EPOCHS - 2))
        require(run.wait_for_batches(at), "the jobs did not get on")
        victim = draw.choice(run.look())
        job_watch.strike(victim, signal.SIGSTOP)
        until = time.monotonic() + draw.uniform(1, 4)
        while time.monotonic() < until:
            run.look()
            time.sleep(0.01)
        job_watch.strike(victim, signal.SIGCONT)
        code, out, err = run.finish()
        require(code == 0, err)
        result = json.loads(out)
        require(len(check_survivors(result, SAMPLES, EPOCHS, digest)) == 3, "not all jobs finished")
        sharing = result["sharing"]
        require(sharing["taken_over_batches"] == 0 and sharing["departures"] == 0, f"a stopped job's work was taken over: {sharing}")
        require(sharing["samples_prepared"] == SAMPLES * EPOCHS, f"{sharing['samples_prepared']} samples were prepared, not {SAMPLES * EPOCHS}")
        require(sharing["late_reports"] > 0, "no job reported that the stopped job was late")
        return sharing["late_reports"]
    finally:
        run.close()


def stops(arguments, places):
    digest = digest_of_all(arguments.program, places)
    reports = []
    failed = rounds_of(arguments, places, lambda seed: reports.append(stop_one(arguments, places, seed, digest)), "stops")
    print(f"{arguments.count} stops of one of 3 jobs for 1 to 4 s: nothing taken over, nothing prepared twice, {sum(reports)} late reports; {failed} failed")
    return failed


def parent_dies(arguments, places, seed, took):
    """The profile, which is the coordinator, is killed at any time."""
    draw = random.Random(seed)
    producers = draw.choice(["jobs", "coordinator"])
    run = job_watch.Watched(arguments.program, places, [*EMULATED, "--jobs", 4, "--epochs", 1000, "--producers", producers], 4)
    try:
        at = draw.choice([0, draw.randrange(1, 200)])
        jobs = run.wait_for_jobs() if at == 0 else run.look() if run.wait_for_batches(at) else []
        require(len(jobs) == 4, "the jobs did not start")
        time.sleep(draw.uniform(0, 0.1))
        begun = time.monotonic()
        run.profile.kill()
        run.profile.wait()
        while job_watch.processes_with(places.mark) and time.monotonic() - begun < 20:
            time.sleep(0.005)
        took.append(time.monotonic() - begun)
        _, _, errors = run.finish()
        require(took[-1] < 1, f"the last job ended {took[-1]:.2f} s after the coordinator")
        said = [line for line in errors.splitlines() if "error" in line and "gone" in line]
        require(len(said) == 4, f"4 jobs lost their coordinator and {len(said)} said so: {errors}")
    finally:
        run.close()
    left = places.left_behind(run.shared_before)
    require(not left, f"left behind: {', '.join(left)}")


def coordinator(arguments, places):
    took = []
    failed = rounds_of(arguments, places, lambda seed: parent_dies(arguments, places, seed, took), "coordinator")
    print(f"{arguments.count} coordinators killed: the last of 4 jobs ended after at most {max(took, default=0) * 1000:.0f} ms, median "
          f"{statistics.median(took or [0]) * 1000:.0f} ms, each with its error; {failed} failed")
    return failed


def crash_round(arguments, places, seed):
    """A job or the whole profile crashes; the next one begins as if nothing had been."""
    draw = random.Random(seed)
    run = job_watch.Watched(arguments.program, places, [*EMULATED, "--jobs", 3, "--epochs", 2 if seed % 2 else 1000], 3)
    try:
        if draw.random() < 0.7:
            require(run.wait_for_batches(draw.randrange(1, BATCHES)), "the jobs did not start")
        else:
            run.wait_for_jobs()
        victims = run.look()
        draw.shuffle(victims)
        for victim in victims[:draw.randrange(0, 3)]:
            job_watch.strike(victim, signal.SIGKILL)
        if seed % 2 == 0:
            run.profile.kill()
        code, _, err = run.finish()
        require(code in (0, -signal.SIGKILL), f"exit code {code}: {err}")
    finally:
        run.close()
    left = places.left_behind(run.shared_before)
    require(not left, f"left behind: {', '.join(left)}")


def losses_of(job):
    return [epoch["loss"] for epoch in job["training"]["loss_by_epoch"]]


def learn_once(arguments, places, data, kill_after=None):
    """What each of 4 jobs that train one network on photographs lost, epoch by epoch; one of them may be killed on the way."""
    run = job_watch.Watched(arguments.program, places, [data, *LEARNING], 4)
    try:
        if kill_after is not None:
            require(run.wait_for_batches(kill_after), "the jobs did not get on")
            job_watch.strike(run.look()[0], signal.SIGKILL)
        code, out, err = run.finish()
        require(code == 0, err)
        result = json.loads(out)
        ends = collections.Counter(job["end"] for job in result["jobs"])
        require(ends["died"] == (0 if kill_after is None else 1), f"the jobs ended so: {dict(ends)}")
        return [losses_of(job) for job in result["jobs"] if job["end"] == "finished"], result["sharing"]["taken_over_batches"]
    finally:
        run.close()


def losses(arguments, places):
    """A job is killed while all train: what the others lose is the same to the last bit, so the batches that were made in its place are."""
    taken_over = []
    with tempfile.TemporaryDirectory(prefix="dsanalyze-faults-") as data:
        subprocess.run([arguments.program, "dataset", "make", f"{data}/data", "--samples", "96", "--quiet"], check=True, env=places.environment)
        undisturbed, _ = learn_once(arguments, places, f"{data}/data")
        require(all(each == undisturbed[0] for each in undisturbed), "jobs of one group learned different things")

        def one(seed):
            found, number = learn_once(arguments, places, f"{data}/data", random.Random(seed).randrange(1, 12 * LEARNING_EPOCHS - 12))
            require(len(found) == 3 and all(each == undisturbed[0] for each in found), f"survivors learned something else: {found}, not {undisturbed[0]}")
            taken_over.append(number)

        failed = rounds_of(arguments, places, one, "losses")
    print(f"{arguments.count} kills of one of 4 jobs that train: {len(undisturbed[0])} losses of each survivor are those without a death to the last bit; "
          f"{sum(taken_over)} batches taken over; {failed} failed")
    return failed


def kernel_counts():
    """What the whole machine has, of what a segment or a descriptor that no process can find would take: shared memory in bytes, Unix sockets."""
    memory = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in pathlib.Path("/proc/meminfo").read_text().splitlines()}
    return memory["Shmem"], len(pathlib.Path("/proc/net/unix").read_text().splitlines())


def rounds(arguments, places):
    shared_before, sockets_before = kernel_counts()
    failed = rounds_of(arguments, places, lambda seed: crash_round(arguments, places, seed), "rounds")
    deadline = time.monotonic() + 10
    shared, sockets = kernel_counts()
    while (shared > shared_before + (1 << 20) or sockets > sockets_before) and time.monotonic() < deadline:  # others come and go, too
        time.sleep(0.1)
        shared, sockets = kernel_counts()
    print(f"{arguments.count} rounds of crash and restart: no process, file or name left; the machine has {(shared - shared_before) / 1024:+.0f} KiB of shared "
          f"memory and {sockets - sockets_before:+d} sockets more than before; {failed} failed")
    return failed + (shared - shared_before > arguments.count * 100 * 1024) + (sockets - sockets_before >= arguments.count)


def memory(arguments, places):
    """A cgroup that allows more and more: first all is refused before any work, with the reason, then all of it runs. The limit in between is
    found, and tried on both sides."""
    failed = 0
    with tempfile.TemporaryDirectory(prefix="dsanalyze-faults-") as data:
        subprocess.run([arguments.program, "dataset", "make", f"{data}/data", "--samples", "96", "--quiet"], check=True, env=places.environment)
        command = [f"{data}/data", "--accelerator", "emulated:4000", "--runs", "full", "--time-budget", "60s", "--subset", "100%", "--share", "coordinated",
                   "--epochs", 2, "--cache", "none", "--prep", "real"]
        for version, make in job_watch.limited_groups():
            for jobs, batch in ((4, 96), (arguments.jobs, 8), (4 * arguments.jobs, 1)):
                for producers in ("jobs", "coordinator"):
                    this = [*command, "--jobs", jobs, "--batch-size", batch, "--producers", producers]
                    low, high, wrong = 16, 8192, []
                    while high - low > 2:
                        middle = (low + high) // 2
                        answer = job_watch.within_limit(arguments.program, places, make, middle, this)
                        low, high = (middle, high) if answer == "refused" else (low, middle)
                        if answer not in ("ran", "refused"):
                            wrong.append(f"{middle} MiB: {answer}")
                    print(f"version {version}, {jobs} jobs, {producers} make batches of {batch}: refused at {low} MiB, runs at {high} MiB"
                          + "".join(f"\nFAILED at {each}" for each in wrong), flush=True)
                    failed += len(wrong)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("campaign", choices=["kills", "stops", "rounds", "coordinator", "memory", "losses"])
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=8)
    arguments = parser.parse_args()
    arguments.program = os.path.abspath(arguments.program)
    if arguments.count is None:
        arguments.count = {"kills": 500, "stops": 5, "rounds": 100, "coordinator": 20, "memory": 1, "losses": 10}[arguments.campaign]
    places = job_watch.Places()
    try:
        failed = globals()[arguments.campaign](arguments, places)
    finally:
        places.close()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
