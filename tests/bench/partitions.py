#!/usr/bin/env python3
"""Ranks of one job whose network is cut in two at any moment of a run: at most one part may report a result.

usage: partitions.py PROGRAM [--seed 1] [--count 60] [--lines FILE] [--killed] [--way WAY]      (root: each rank has a network namespace of its own)
       Each seed draws 2 to 5 ranks, how they partition the dataset, the two parts, the moment, and how they are cut:
         silent    nothing comes through, either way
         one way   nothing comes through from the first part to the second
         reset     connections between the parts are reset, and new ones cannot be made
         flash     connections between the parts are reset, and new ones can be made: all ranks have to go on
         gap       the same, and for 0.1 s what one part answers is lost; with --way alone
       With --killed one rank is killed up to 1.5 s before the cut: the others may know of its end, or treat it as cut off, too.
       Checks: at most one result, of ranks of one part (flash: one, of all ranks), the digests of the epochs that all trained, and that every rank ends.
       FILE gets a line of JSON for each seed.
"""
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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "net"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
import networks  # noqa: E402
import sample_digests  # noqa: E402
from bench_tools import Failure, campaign_parser, keep_line, require, seeds_of  # noqa: E402

SAMPLES, EPOCHS = 400, 5
SETTING = [f"emulated:imagenet-1k,samples={SAMPLES}", "--storage", "emulated:60MB/s", "--prep", "emulated:4000", "--cores", "2", "--accelerator", "emulated:1000",
           "--batch-size", "10", "--epochs", EPOCHS, "--subset", "100%", "--runs", "full", "--time-budget", "30s", "--quiet", "--json"]
WAYS = ("silent", "one way", "reset", "flash")
HARMLESS_WAYS = ("flash", "gap")
LONGEST_MOMENT = 2.5  # seconds after the start; some cuts come before the ranks have met, some after they have ended
LONGEST_RUN = 150


def tool(places, i, *words):
    places.run(i, words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def reset(places, one, other):
    """What namespace `one` has of connections with `other`."""
    tool(places, one, "ss", "-K", "dst", places.addresses()[other])


def shut(places, one, other, kind):
    """Nothing goes from `one` to `other` any more."""
    tool(places, one, "ip", "route", "add", kind, f"{places.addresses()[other]}/32")


def cut(places, first, second, way):
    for one in first:
        for other in second:
            if way in ("silent", "one way"):
                shut(places, one, other, "blackhole")
            if way == "silent":
                shut(places, other, one, "blackhole")
            if way == "reset":
                shut(places, one, other, "unreachable")
                shut(places, other, one, "unreachable")
            if way in ("reset", "flash"):
                reset(places, one, other)
                reset(places, other, one)
            if way == "gap":
                shut(places, one, other, "blackhole")
                reset(places, other, one)
    if way == "gap":
        time.sleep(0.1)
        for one in first:
            for other in second:
                tool(places, one, "ip", "route", "del", "blackhole", f"{places.addresses()[other]}/32")


def run_ranks(program, places, mode, world, percent, folder):
    environment = dict(os.environ, XDG_STATE_HOME=f"{folder}/state", XDG_CACHE_HOME=f"{folder}/cache")
    key = pathlib.Path(folder, "key")
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)
    processes = []
    for rank in range(world):
        words = [program, "profile", *SETTING, "--partition", mode, "--cache-size", f"{percent}%", "--world", world, "--rank", rank, "--rendezvous",
                 f"{folder}/meeting", "--listen", places.addresses()[rank], "--key-file", key]
        processes.append(places.start(rank, [str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment))
    return processes


def one_seed(program, seed, kills, forced_way):
    draw = random.Random(seed)
    world = draw.randint(2, 5)
    mode = draw.choice(("partitioned", "locality"))
    ranks = list(range(world))
    draw.shuffle(ranks)
    first = sorted(ranks[:draw.randint(1, world - 1)])
    second = sorted(set(ranks) - set(first))
    way = forced_way or WAYS[seed % len(WAYS)]
    moment = draw.uniform(0.3, LONGEST_MOMENT)
    told = {"seed": seed, "world": world, "partition": mode, "parts": [first, second], "way": way, "at_seconds": round(moment, 2)}
    killed, before = (draw.randrange(world), draw.uniform(0, min(1.5, moment))) if kills else (None, 0)
    if kills:
        told["killed"], told["before_seconds"] = killed, round(before, 2)
    with networks.Networks(world) as places, tempfile.TemporaryDirectory(prefix="dsanalyze-partitions-") as folder:
        began = time.monotonic()
        processes = run_ranks(program, places, mode, world, 120 / world, folder)
        time.sleep(moment - before)
        if kills:
            processes[killed].kill()
            time.sleep(before)
        told["running"] = sum(process.poll() is None for process in processes)
        cut(places, first, second, way)
        try:
            ended = [process.communicate(timeout=LONGEST_RUN) for process in processes]
        except subprocess.TimeoutExpired:
            require(False, f"a rank still runs after {LONGEST_RUN} s: {told}")
        told["seconds"] = round(time.monotonic() - began, 1)
    codes = [process.returncode for process in processes]
    require(all(code in ((0, -signal.SIGKILL) if rank == killed else (0, 1)) for rank, code in enumerate(codes)), f"exit codes {codes}: {told}")
    documents = [json.loads(out) if out.strip() else {} for out, _ in ended]
    results = {rank: document for rank, document in enumerate(documents) if document.get("schema", "").startswith("dsanalyze.profile/")}
    told["exit_codes"], told["results"] = codes, sorted(results)
    require(len(results) <= 1, f"{len(results)} results, of ranks {sorted(results)}: {told}")
    # Who goes on without reporting has exit code 0 too: all of those are of the part that did.
    there = [rank for rank, code in enumerate(codes) if code == 0]
    whole = sample_digests.of(range(SAMPLES))
    for result in results.values():
        of_result = [rank["rank"] for rank in result["ranks"]]
        told["ranks"] = of_result
        require(set(there) <= set(of_result), f"ranks {there} ended well, of the result are {of_result}: {told}")
        if way in HARMLESS_WAYS and not kills:
            require(of_result == list(range(world)) and not result["partition"]["lost"], f"connections were reset, and ranks were lost: {told}")
        lost_in = {each["epoch"] for each in result["partition"]["lost"]}
        epochs = next(run for run in result["runs"] if run["name"] == "full")["epochs"]
        for epoch in epochs:
            if not lost_in or epoch["epoch"] > max(lost_in):
                require(epoch["digest"] == whole, f"epoch {epoch['epoch']} trained other samples: {told}")
    if way in HARMLESS_WAYS and told["running"] == world and moment > 1.5 and not kills:
        require(results, f"connections were reset, and there is no result: {told} {[err[-300:] for _, err in ended]}")
    return told


def main():
    parser = campaign_parser(__doc__, 60)
    parser.add_argument("--killed", action="store_true")
    parser.add_argument("--way", choices=[*WAYS, "gap"])
    arguments = parser.parse_args()
    failures, counts = 0, collections.Counter()
    for seed in seeds_of(arguments):
        try:
            told = one_seed(arguments.program, seed, arguments.killed, arguments.way)
            counts[told["way"], "one result" if told["results"] else "no result"] += 1
        except Failure as failure:
            failures += 1
            told = {"seed": seed, "failure": str(failure)}
        print(json.dumps(told), flush=True)
        keep_line(arguments, told)
    for way in sorted({way for way, _ in counts}):
        print(f"{way}: {counts[way, 'one result']} with one result, {counts[way, 'no result']} with none")
    print(f"{arguments.count} partitions, {failures} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
