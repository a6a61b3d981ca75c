#!/usr/bin/env python3
"""Cold fetch by the engines against the best that fio reaches on the same filesystem, interleaved; medians of the ratios.

usage: fetch_vs_fio.py FETCH_BENCH DATASET [--order random|sequential] [--record BYTES] [--rounds 9] [--megabytes 400] [--json FILE] [CONFIG...]

Random order: fio reads blocks of the dataset's mean sample size (of 128 KiB with --block 128k) at random places of a file of its own, none twice. Sequential
order: fio reads a file from its start, 1 MiB at a time. Each of fio's engines and depths is tried once, with buffers in pages of 4 KiB and, as root, in huge
pages; the best three of each then take turns with the configurations of fetch_bench (see there), and a round's ratios are to the best of fio's three in that
round, once with and once without huge pages; "best of three" is the best of ours in that round, which compares like with like. The file is as large as the dataset, lies beside it in
.fetch-vs-fio, and is removed at the end. Runs of either that did not come from the device are refused.
"""
import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys

RANDOM = (
    [("psync", 1, jobs, direct) for jobs in (1, 4, 8, 16, 32, 64) for direct in (0, 1)]
    + [("libaio", depth, 1, 1) for depth in (4, 8, 16, 32, 64)]
    + [("io_uring", depth, 1, direct) for depth in (4, 8, 16, 32, 64) for direct in (0, 1)]
    + [("io_uring", 8, 2, 1), ("io_uring", 8, 2, 0), ("libaio", 8, 2, 1)]
)
SEQUENTIAL = [("psync", 1, 1, 0), ("psync", 1, 1, 1)] + [
    (engine, depth, 1, direct) for engine in ("libaio", "io_uring") for depth in (2, 4, 8, 16, 32, 64) for direct in (0, 1) if (engine, direct) != ("libaio", 0)
]
DEFAULTS = {
    "random": ["uring:16+direct", "uring:16", "uring:16x2", "uring:16x2+direct", "threads:16", "threads:16+direct"],
    "sequential": ["uring:16", "uring:16+direct", "uring:32+direct", "threads:4", "threads:16", "threads:16+direct"],
}


BEST_OF_THREE = "best of three"
MEMORIES = {"malloc": "in pages of 4 KiB", "shmhuge": "in huge pages"}
HUGE_PAGES = "/proc/sys/vm/nr_hugepages"
HUGE_PAGES_NEEDED = 256  # of 2 MiB, for 64 buffers of 1 MiB each several times over


@contextlib.contextmanager
def huge_pages():
    """Reserved for a while; gives the memories that fio may use then."""
    try:
        with open(HUGE_PAGES, encoding="ascii") as file:
            before = int(file.read())
        with open(HUGE_PAGES, "w", encoding="ascii") as file:
            file.write(str(before + HUGE_PAGES_NEEDED))
    except (OSError, ValueError) as error:
        print(f"fio runs without huge pages: {error}")
        yield ["malloc"]
        return
    try:
        yield list(MEMORIES)
    finally:
        with open(HUGE_PAGES, "w", encoding="ascii") as file:
            file.write(str(before))


def device_bytes(path):
    device = os.stat(path).st_dev
    with open(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat", encoding="ascii") as stat:
        return int(stat.read().split()[2]) * 512


def fio_rate(candidate, file, order, block, total, budget):
    """Bytes a second."""
    engine, depth, jobs, direct, memory = candidate
    part = total // jobs // block * block
    command = ["fio", "--name=cold", f"--filename={file}", f"--ioengine={engine}", f"--iodepth={depth}", f"--numjobs={jobs}", f"--direct={direct}", "--thread",
               "--group_reporting", "--invalidate=1", "--output-format=json", f"--bs={block}", f"--iomem={memory}", "--randrepeat=0", f"--randseed={int.from_bytes(os.urandom(4), 'little')}",
               f"--size={part}", f"--offset_increment={part}", f"--io_size={min(budget // jobs, part)}", "--rw=" + ("randread" if order == "random" else "read")]
    before = device_bytes(file)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]["read"]
    if device_bytes(file) - before < 0.97 * job["io_bytes"]:
        sys.exit(f"fio read {job['io_bytes']} bytes, of which the device delivered {device_bytes(file) - before}: {' '.join(command)}")
    return job["bw_bytes"]


def bench_rate(arguments, config, samples, seed):
    command = [arguments.bench, arguments.dataset, config, "--order", arguments.order, "--samples", str(samples), "--rounds", "1", "--seed", str(seed)]
    if arguments.record:
        command += ["--record", str(arguments.record)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result = json.loads(done.stdout.splitlines()[-1])[0]
    if result["read_over_asked"] < 0.97:
        sys.exit(f"{config}: the device delivered {result['read_over_asked']:.3f} of what was fetched: not cold")
    return result


def interval(values):
    """Of the median, 95 %: between the order statistics that a binomial distribution names."""
    ordered = sorted(values)
    count = len(ordered)
    tail, term, low = 0.0, 0.5**count, 0
    while low < count // 2:
        tail += term
        if tail > 0.025:
            break
        low += 1
        term *= (count - low + 1) / low
    low = max(low - 1, 0)
    return ordered[low], ordered[count - 1 - low]


def name(candidate):
    engine, depth, jobs, direct, memory = candidate
    return f"fio {engine} {'direct' if direct else 'buffered'} {jobs} x {depth}, {MEMORIES[memory]}"


def take_turns(arguments, memories, configs, samples, rate_of):
    """(fio's rates by candidate, its best rate in each round by memory, ours by configuration, our ratios by memory and configuration)"""
    candidates = [(*candidate, memory) for candidate in (RANDOM if arguments.order == "random" else SEQUENTIAL) for memory in memories]
    tried = sorted(((rate_of(candidate), candidate) for candidate in candidates), reverse=True)
    for rate, candidate in tried[:8]:
        print(f"{name(candidate):<60}{rate / 1e6:>8.0f} MB/s")
    best = {MEMORIES[memory]: [candidate for _, candidate in tried if candidate[-1] == memory][:3] for memory in memories}
    rates = {config: [] for config in configs}
    ratios = {memory: {config: [] for config in configs} for memory in best}
    fio_rates = {memory: [] for memory in best}
    for number in range(arguments.rounds):
        for memory, three in best.items():
            fio_rates[memory].append(max(map(rate_of, three)))
        for config in configs:
            rates[config].append(bench_rate(arguments, config, samples, number + 1)["bytes_per_s"])
            for memory in best:
                ratios[memory][config].append(rates[config][-1] / fio_rates[memory][-1])
    # Like with like: fio's is the best of three runs, which on a disk that scatters is more than any one of them usually reaches.
    three = sorted(configs, key=lambda config: statistics.median(rates[config]))[-3:]
    rates[BEST_OF_THREE] = [max(of_round) for of_round in zip(*(rates[config] for config in three))]
    for memory in best:
        ratios[memory][BEST_OF_THREE] = [ours / theirs for ours, theirs in zip(rates[BEST_OF_THREE], fio_rates[memory])]
    return tried, fio_rates, rates, ratios


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("bench")
    parser.add_argument("dataset")
    parser.add_argument("configs", nargs="*")
    parser.add_argument("--order", choices=("random", "sequential"), default="random")
    parser.add_argument("--record", type=int, help="bytes: every file is cut into records of so many")
    parser.add_argument("--block", help="fio's block in random order (the mean sample)")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--megabytes", type=int, default=400, help="to read in each run")
    parser.add_argument("--json", help="file for the rates of every round")
    arguments = parser.parse_intermixed_args()
    configs = arguments.configs or DEFAULTS[arguments.order]
    budget = arguments.megabytes * 1_000_000

    # The first run also says how large a sample is.
    probe = bench_rate(arguments, configs[0], 1000, 0)
    mean = probe["bytes_per_s"] / probe["samples_per_s"]
    samples = max(int(budget / mean), 1)
    block = 1 << 20
    if arguments.order == "random":
        block = int(mean) // 4096 * 4096 if not arguments.block else int(arguments.block.rstrip("k")) * 1024
    total = sum(os.path.getsize(os.path.join(folder, file)) for folder, _, files in os.walk(arguments.dataset) for file in files)
    total = total // (1 << 20) * (1 << 20)

    scratch = os.path.join(os.path.dirname(os.path.abspath(arguments.dataset)), ".fetch-vs-fio")
    os.makedirs(scratch)
    try:
        file = os.path.join(scratch, "data")
        subprocess.run(["fio", "--name=write", f"--filename={file}", f"--size={total}", "--rw=write", "--bs=1m", "--ioengine=psync", "--end_fsync=1"],
                       capture_output=True, check=True)
        with huge_pages() as memories:
            found = take_turns(arguments, memories, configs, samples, lambda candidate: fio_rate(candidate, file, arguments.order, block, total, budget))
    finally:
        shutil.rmtree(scratch)
    tried, fio_rates, rates, ratios = found

    if arguments.json:
        with open(arguments.json, "w", encoding="ascii") as record:
            json.dump({"block": block, "fio_tried": [[name(candidate), rate] for rate, candidate in tried], "fio": fio_rates, "rates": rates, "ratios": ratios}, record)
    for memories, best in fio_rates.items():
        print(f"\n{arguments.order} order, {mean:.0f} bytes a sample, fio in blocks of {block}, {memories}: {statistics.median(best) / 1e6:.0f} MB/s at best, "
              f"{arguments.rounds} rounds")
        print(f"{'configuration':<24}{'MB/s':>8}{'of fio':>8}   95 % of the median")
        for config in [*configs, BEST_OF_THREE]:
            low, high = interval(ratios[memories][config])
            print(f"{config:<24}{statistics.median(rates[config]) / 1e6:>8.0f}{statistics.median(ratios[memories][config]):>8.3f}   {low:.3f} to {high:.3f}")


if __name__ == "__main__":
    main()
