#!/usr/bin/env python3
"""What 10,000 connections of strangers cost the ranks of a job, and what the strangers get of it.

usage: strangers.py PROGRAM [--rounds 5] [--count 10000]   (as root; needs iproute2)

Two ranks in network namespaces of their own, whose links `tc tbf` limits, train on what they hold for each other; strangers come from a third namespace. In each
round the same job runs with strangers and without, in turns. A stranger scans (connects and hangs up), sends garbage, sends too much, breaks off a rank's
greeting, sends it too slowly, or greets as a rank does and does not know the key.
"""
import argparse
import asyncio
import collections
import contextlib
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time

from bench_tools import clean_up_on_signals, ratios, say, spread
from servers import Servers, full, networks, require, sample_digests

GREETING = b"dsaRank\n" + (1).to_bytes(4, "little") + os.urandom(32)
NONCE = 32  # bytes that a rank answers to a greeting
LINK_MBIT = 1000
SAMPLES = 4000
JOB = [f"emulated:imagenet-1k,samples={SAMPLES}", "--storage", "emulated:500MB/s", "--prep", "emulated:20000", "--cores", "2", "--accelerator", "emulated:20000",
       "--batch-size", "64", "--time-budget", "300s", "--partition", "partitioned", "--cache-size", "55%", "--epochs", "32"]


async def scan(reader, writer, draw):
    pass


async def send_garbage(reader, writer, draw):
    writer.write(draw.randbytes(draw.randrange(1, 257)))


async def send_too_much(reader, writer, draw):
    writer.write(GREETING + b"\xff" * 100_000)


async def break_off(reader, writer, draw):
    writer.write(GREETING[: draw.randrange(1, len(GREETING))])


async def send_slowly(reader, writer, draw):
    for byte in GREETING:
        writer.write(bytes([byte]))
        await writer.drain()  # raises once the rank has hung up
        await asyncio.sleep(0.1)


async def greet_without_the_key(reader, writer, draw):
    writer.write(GREETING)
    await reader.readexactly(NONCE)
    writer.write(draw.randbytes(72))


KINDS = (scan, send_garbage, send_too_much, break_off, send_slowly, greet_without_the_key)
WAITING_FOR_AN_ANSWER = (send_garbage, send_too_much, greet_without_the_key)


async def one_stranger(kind, address, draw, seen):
    """What one connection sees until the rank hangs up."""
    begun = time.monotonic()
    got = 0
    try:
        reader, writer = await asyncio.wait_for(asyncio.open_connection(*address), 5)
    except (OSError, asyncio.TimeoutError) as error:
        seen[f"not let to connect: {type(error).__name__}"] += 1
        return
    try:
        await asyncio.wait_for(kind(reader, writer, draw), 10)
        if kind in WAITING_FOR_AN_ANSWER:
            got = len(await asyncio.wait_for(reader.read(1 << 20), 10))
    except (OSError, asyncio.IncompleteReadError):
        pass  # the rank hung up
    except asyncio.TimeoutError:
        seen["held longer than 10 s"] += 1
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    seen[kind.__name__] += 1
    seen["most bytes that a rank sent after its nonce"] = max(seen["most bytes that a rank sent after its nonce"], got if kind is not send_too_much else max(0, got - NONCE))
    seen["longest, ms"] = max(seen["longest, ms"], round(1000 * (time.monotonic() - begun)))


async def all_strangers(addresses, count, seconds):
    """Evenly over the time, each kind as often as the others. Prints what they saw."""
    draw = random.Random(count)
    seen = collections.Counter()
    begun = time.monotonic()
    tasks = set()
    for number in range(count):
        await asyncio.sleep(max(0, begun + seconds * number / count - time.monotonic()))
        task = asyncio.create_task(one_stranger(KINDS[number % len(KINDS)], addresses[number // len(KINDS) % len(addresses)], draw, seen))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    if tasks:
        await asyncio.wait(tasks)
    seen["seconds"] = round(time.monotonic() - begun, 1)
    seen["CPU ms"] = round(1000 * time.process_time())
    print(json.dumps(seen))


def doors_of(running):
    """Where the ranks listen, once they have met: (address, port) of each."""
    places = running.places
    for _ in range(400):
        found = []
        for rank in range(running.world):
            lines = places.run(rank, ["ss", "-ltnH"], stdout=subprocess.PIPE, text=True).stdout
            found.append([(host, int(port)) for host, port in re.findall(r"(198\.18\.\d+\.\d+):(\d+)\s", lines)])
        joined = places.run(0, ["ss", "-tnH", "state", "established"], stdout=subprocess.PIPE, text=True).stdout.count("\n")
        if all(len(each) == 1 for each in found) and joined > 0:
            return [each[0] for each in found]
        time.sleep(0.05)
    sys.exit(f"the ranks did not meet: they listen at {found}")


def job(arguments, with_strangers, seconds):
    """(samples/s, seconds of the run, what strangers saw or None)"""
    servers = Servers(arguments.program, 2, True, onlookers=1, rate_mbit=LINK_MBIT)
    with servers.start(*JOB) as running:
        strangers = None
        if with_strangers:
            words = [f"{host}:{port}" for host, port in doors_of(running)]
            strangers = running.places.start(2, [sys.executable, os.path.abspath(__file__), "--attack", *words, "--count", str(arguments.count), "--seconds", str(seconds)],
                                             stdout=subprocess.PIPE, text=True)
        result = running.result()
        saw = json.loads(strangers.communicate(timeout=120)[0]) if strangers else None
    run = full(result)
    whole = sample_digests.of(range(SAMPLES))
    require(all(epoch["digest"] == whole for epoch in run["epochs"]), f"digests: {run['epochs']}")
    require(sum(rank["served_bytes"] for rank in result["ranks"]) == sum(epoch["peer_bytes"] for epoch in run["epochs"]), "more was served than ranks got")
    require(not result["partition"]["lost"], f"lost: {result['partition']['lost']}")
    refused = sum(rank["refused_connections"] for rank in result["ranks"])
    require((refused > 0) == with_strangers, f"{refused} connections refused")
    return run["samples_per_s"], sum(epoch["seconds"] for epoch in run["epochs"]), saw, refused


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?", type=os.path.abspath)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--attack", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.attack:
        addresses = [(host, int(port)) for host, port in (word.rsplit(":", 1) for word in arguments.attack)]
        asyncio.run(all_strangers(addresses, arguments.count, arguments.seconds))
        return
    if not arguments.program:
        parser.error("PROGRAM is missing")
    why = networks.why_not()
    if why:
        sys.exit(f"no network namespaces here: {why}")
    clean_up_on_signals()
    _, seconds, _, _ = job(arguments, False, 0)
    seconds = 0.8 * seconds
    say(f"{arguments.count} strangers in {seconds:.0f} s, {arguments.count / seconds:.0f}/s")
    alone, beside = [], []
    for number in range(arguments.rounds):
        for with_strangers in (False, True) if number % 2 == 0 else (True, False):
            rate, took, saw, refused = job(arguments, with_strangers, seconds)
            (beside if with_strangers else alone).append(rate)
            say(f"  round {number + 1}: {rate:,.0f} samples/s in {took:.1f} s" + (f" with strangers: {refused} refused; {saw}" if with_strangers else " alone"))
    say(f"alone {spread(alone, '{:,.0f}')} samples/s, with strangers {spread(beside, '{:,.0f}')}, ratio {spread(ratios(beside, alone), '{:.3f}')}")


if __name__ == "__main__":
    main()
