#!/usr/bin/env python3
"""Ranks of one job that are killed or interrupted at any moment of a run: what the others make of it.

usage: rank_faults.py PROGRAM [--seed 1] [--count 100] [--lines FILE]
       Each seed draws 2 to 4 ranks, the way they partition the dataset, which of them ends, how, and in which stage of the run: while the ranks meet, in the first epoch,
       while the directory is exchanged, while samples are adopted, in a later epoch, or at the end. One cache holds 5 % of the dataset, so that there is something to adopt.
       Checks: no other rank crashes, each lost rank is named, the epochs' digests are those of the samples that were to be trained, and no file is left behind.
       FILE gets a line of JSON for each seed. The program may be built with sanitizers: what they print is a failure.
"""
import collections
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
import sample_digests  # noqa: E402
from bench_tools import Failure, campaign_parser, keep_line, require, seeds_of  # noqa: E402

SAMPLES, EPOCHS = 600, 4
SETTING = [f"emulated:imagenet-1k,samples={SAMPLES}", "--storage", "emulated:60MB/s", "--prep", "emulated:4000", "--cores", "2", "--accelerator", "emulated:1000",
           "--batch-size", "10", "--epochs", EPOCHS, "--subset", "100%", "--runs", "full", "--time-budget", "60s", "--quiet", "--json"]
# Percent of the dataset in each rank's cache.
CACHES = {2: [(5, 100), (100, 5)], 3: [(5, 60, 60), (60, 60, 5)], 4: [(5, 20, 60, 60), (60, 60, 20, 5)]}
STAGES = {"meeting": 1, "first epoch": 2, "directory": 3, "adoption": 3, "later epochs": 2, "end": 2}  # how often, in proportion
DIRECTORY_BYTES, DIRECTORY_SECONDS = 200_000, 0.008  # the exchange begins once the last of these is kept
END_SECONDS = 2.0
LONGEST_RUN = 120
STARVED = "it did not answer for 1 s"  # on a machine that is too busy the others go on without a rank that lives; the result names that one, too
CRASHED = re.compile(r"Sanitizer|runtime error:|terminate called|corrupted|invalid pointer|free\(\)|malloc\(\)")


class Run:
    """The ranks of one job, over loopback."""

    def __init__(self, program, mode, caches, folder):
        self.folder, self.caches = pathlib.Path(folder), caches
        environment = dict(os.environ, XDG_STATE_HOME=f"{folder}/state", XDG_CACHE_HOME=f"{folder}/cache")
        self.processes = []
        self.began = time.monotonic()
        for rank, percent in enumerate(caches):
            words = [program, "profile", *SETTING, "--partition", mode, "--cache-size", f"{percent}%", "--world", len(caches), "--rank", rank, "--rendezvous",
                     f"{folder}/meeting"]
            self.processes.append(subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.communicate()

    def cached(self):
        """Bytes that the rank with the largest cache has kept, nearly: of shared memory."""
        process = self.processes[self.caches.index(max(self.caches))]
        try:
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        except OSError:
            return 0
        found = re.search(r"RssShmem:\s+(\d+)", status)
        return int(found[1]) * 1024 if found else 0

    def wait_until_cached(self, size):
        deadline = time.monotonic() + LONGEST_RUN
        while self.cached() < size and time.monotonic() < deadline and all(process.poll() is None for process in self.processes):
            time.sleep(0.0005)

    def ended(self):
        """Exit status, stdout and stderr of each."""
        return [(process.returncode, out, err) for process in self.processes for out, err in [process.communicate(timeout=LONGEST_RUN)]]


class Course:
    """How an undisturbed run goes: what the stages of another like it are told by."""

    def __init__(self, program, mode, caches):
        with tempfile.TemporaryDirectory(prefix="dsanalyze-faults-") as folder, Run(program, mode, caches, folder) as run:
            run.wait_until_cached(1)
            self.meeting_seconds = time.monotonic() - run.began
            self.before = run.cached()
            ended = run.ended()
        require(all(code == 0 for code, _, _ in ended), f"undisturbed, {mode}, {caches}: {[(code, err[-300:]) for code, _, err in ended]}")
        result = json.loads(ended[0][1])
        rank = result["ranks"][caches.index(max(caches))]
        self.adopted = rank["adopted_bytes"]
        room = max(caches) * result["dataset"]["bytes"] / 100
        self.first_epoch = min(rank["epochs"][0]["requested_bytes"] - self.adopted, room)
        self.later_seconds = sum(epoch["seconds"] for epoch in full(result)["epochs"][1:])


def full(result):
    return next(run for run in result["runs"] if run["name"] == "full")


def wait_for(run, course, stage, share):
    """Until that share of the stage is over. Returns the stage that it is."""
    if stage == "meeting":
        time.sleep(share * course.meeting_seconds)
    elif stage == "first epoch":
        run.wait_until_cached(course.before + share * course.first_epoch)
    elif stage == "directory":
        run.wait_until_cached(course.before + course.first_epoch - DIRECTORY_BYTES)
        time.sleep(share * DIRECTORY_SECONDS)
    elif stage == "adoption":
        run.wait_until_cached(course.before + course.first_epoch + max(share * course.adopted, 1))
    else:
        run.wait_until_cached(course.before + course.first_epoch + 0.99 * course.adopted)
        time.sleep(share * course.later_seconds if stage == "later epochs" else course.later_seconds + share * END_SECONDS)
        return stage
    kept = run.cached() - course.before
    if kept < 0:
        return "meeting"
    if kept < course.first_epoch:
        return "first epoch"
    if kept <= course.first_epoch + 65536:
        return "directory"
    return "adoption" if kept < course.first_epoch + 0.99 * course.adopted else "later epochs"


def check_result(result, world, victim, gone):
    """`gone`: ranks that did not come to the end, for whatever reason. Returns the epoch in which the victim was lost; None: it had told all that it did."""
    there = [rank["rank"] for rank in result["ranks"]]
    lost = {each["rank"]: each for each in result["partition"]["lost"]}
    require(len(lost) == len(result["partition"]["lost"]), f"a rank was lost twice: {result['partition']['lost']}")
    require(sorted([*there, *lost]) == list(range(world)), f"ranks at the end {there}, lost {sorted(lost)}")
    require(set(lost) <= gone, f"lost {sorted(lost)}, and gone {sorted(gone)}")
    require(gone - {victim} <= set(lost), f"ranks that ended with an error are not named: gone {sorted(gone)}, lost {sorted(lost)}")
    codes = [finding["code"] for finding in result["findings"]]
    require(codes.count("rank-lost") == len(lost), f"lost {sorted(lost)}, findings {codes}")
    trained = {epoch["epoch"]: epoch["digest"] for epoch in full(result)["epochs"]}
    require(sorted(trained) == list(range(EPOCHS)), f"epochs trained: {sorted(trained)}")
    whole = sample_digests.of(range(SAMPLES))
    for epoch, digest in trained.items():
        if any(each["epoch"] > epoch for each in lost.values()):
            continue  # what the lost rank trained of it was lost with its record
        parts = [sample_digests.of(int(number) for number in each["untrained"].split(",") if number) for each in lost.values() if each["epoch"] == epoch]
        require(sample_digests.add(digest, *parts) == whole, f"epoch {epoch}: {digest} and {parts} untrained are not the whole dataset")
    return lost[victim]["epoch"] if victim in lost else None


def check_files(folder, stage, how):
    left = {path.name for path in pathlib.Path(folder).iterdir()} - {"state", "cache"}
    if stage == "meeting" and how == "kill":
        left = {name for name in left if not name.startswith("meeting")}  # what a killed rank wrote stays
    require(not left, f"files were left: {sorted(left)}")


def one_fault(program, seed, courses):
    draw = random.Random(seed)
    world = draw.choice(sorted(CACHES))
    mode = draw.choice(["none", *["partitioned"] * 3, *["locality"] * 2])
    caches = draw.choice(CACHES[world])
    victim = draw.randrange(world)
    how = draw.choice([*["kill"] * 4, "interrupt"])
    planned = draw.choices([*STAGES], [*STAGES.values()])[0]
    if planned == "adoption" and mode == "none":
        planned = "later epochs"
    kind = (mode == "none", caches)
    if kind not in courses:
        courses[kind] = Course(program, mode, caches)
    line = {"seed": seed, "world": world, "partition": mode, "caches": caches, "victim": victim, "how": how, "planned": planned}
    with tempfile.TemporaryDirectory(prefix="dsanalyze-faults-") as folder:
        try:
            with Run(program, mode, caches, folder) as run:
                line["stage"] = wait_for(run, courses[kind], planned, draw.random())
                run.processes[victim].send_signal(signal.SIGKILL if how == "kill" else signal.SIGINT)
                ended = run.ended()
                line["seconds"] = round(time.monotonic() - run.began, 2)
            line["exit"] = [code for code, _, _ in ended]
            for rank, (code, _, err) in enumerate(ended):
                require((code >= 0 or rank == victim) and not CRASHED.search(err), f"rank {rank} ended with {code}: {err[-2000:]}")
            expected = [-signal.SIGKILL, 0] if how == "kill" else [130]
            if how == "interrupt":
                expected += {"meeting": [-signal.SIGINT], "end": [0]}.get(line["stage"], [])  # before the program looks for interrupts, and after all was told
            require(ended[victim][0] in expected, f"rank {victim} ended with {ended[victim][0]}: {ended[victim][2][-500:]}")
            failed = [rank for rank, (code, _, _) in enumerate(ended) if code != 0 and rank != victim]
            line["starved"] = [rank for rank in failed if STARVED in ended[rank][2]]
            untold = [rank for rank in failed if "was lost while it reported the result" in ended[rank][2]]
            for rank in sorted({*failed} - {*line["starved"]}):
                require(line["stage"] == "meeting" or rank in untold, f"rank {rank} ended with {ended[rank][0]}: {ended[rank][2][-500:]}")
                require(re.search(rf"\brank {victim}\b", ended[rank][2]), f"rank {rank} does not name rank {victim}: {ended[rank][2][-500:]}")
            results = [out for code, out, _ in ended if code == 0 and out]
            line["told"] = len(results)
            require(len(results) <= 1, f"{len(results)} ranks told a result")
            if len(failed) < world - 1 and not untold:
                require(len(results) == 1, f"{len(results)} ranks told a result")
                line["lost in"] = check_result(json.loads(results[0]), world, victim, {victim, *failed})
            check_files(folder, line["stage"], how)
        except (Failure, subprocess.TimeoutExpired) as failure:
            line["failure"] = str(failure)
    return line


def main():
    arguments = campaign_parser(__doc__, 100).parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore interrupts, and so would the ranks
    courses, stages, failed, starved = {}, collections.Counter(), 0, 0
    for seed in seeds_of(arguments):
        line = one_fault(arguments.program, seed, courses)
        stages[line.get("stage", line["planned"])] += 1
        starved += len(line.get("starved", []))
        if "failure" in line:
            failed += 1
            print(f"FAILED --seed {seed} --count 1: {line}", flush=True)
        keep_line(arguments, line)
    print(f"{arguments.count} runs from seed {arguments.seed}: {dict(stages)}; {starved} other ranks were too slow; {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
