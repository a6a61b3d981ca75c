#!/usr/bin/env python3
"""The kernel's page cache, held to a share of the dataset by a cgroup, beside MinIO of the same size and beside the two models of it.

usage: page_cache_bench.py PROGRAM FOLDER [--sizes 65,50,35,25] [--epochs 6] [--budget SECONDS] [--json FILE]

Needs root. Misses are the bytes that storage delivered in an epoch, from the third epoch on, over those of the first, which reads everything (so that
the part of a page that each file ends with counts nowhere). Read by the loader alone, without prep. The models run on emulated storage, on the same
files in the same orders.
"""
import argparse
import json
import math
import statistics

from bench_tools import Disk, clean_up_on_signals, profile, run_of, say

ORDERS = ("random", "sequential")
# Misses in the papers. Random: [CoorDL] Table 6, DALI-shuffle. Sequential: Table 6, DALI-seq, and [DS-Analyzer] Table 3 (TFRecord).
PAPERS = {("random", 65): "53 % (Table 6)", ("sequential", 65): "66 % (Table 6)", ("sequential", 50): "91 % (Table 3)",
          ("sequential", 35): "94 % (Table 3)", ("sequential", 25): "97 % (Table 3)"}


def caches(size):
    return {
        "page": ["--cache", "page", "--memory-limit", f"{size}%"],
        "minio": ["--cache", "minio", "--cache-size", f"{size}%"],
        "page-model:linux": ["--cache", "page-model:linux", "--cache-size", f"{size}%", "--storage", "emulated:4GB/s"],
        "page-model:random": ["--cache", "page-model:random", "--cache-size", f"{size}%", "--storage", "emulated:4GB/s"],
    }


def measure(program, folder, size, order, cache, arguments, epochs, budget):
    disk = Disk(folder)
    before = disk.counters()[1]
    ordered = ["--order", order] + ([] if order == "random" else ["--shuffle-buffer", "1024"])
    record = profile(program, [folder, "--runs", "full", "--prep", "null", "--accelerator", "null", "--batch-size", "64", "--subset", "100%", "--io", "pread",
                               "--epochs", epochs, "--time-budget", f"{budget}s", *ordered, *arguments])
    full = run_of(record, "full")
    read = [epoch["storage_bytes"] for epoch in full["epochs"]]
    misses = [bytes_read / read[0] for bytes_read in read[2:]]
    if not misses:
        raise RuntimeError(f"{cache}, {order}, {size} %: fewer than three epochs; a longer --budget, or fewer files")
    # The device's own counter, for whomever: the trial reads before the run are in it too.
    return {"size": size, "order": order, "cache": cache, "misses": misses, "epoch_bytes": read, "run_bytes": full["storage_bytes"],
            "device_bytes": disk.counters()[1] - before, "dataset_bytes": record["dataset"]["subset_bytes"], "seconds": full["seconds"],
            "trusted": record["trusted"], "findings": [finding["code"] for finding in record["findings"]]}


def lru_misses(order, share):
    """Of plain LRU, items of one size. Random: an item drawn at u of one epoch and at v of the next has 1 - u (1 - v) of the others between, so it is held if
    u (1 - v) is at least 1 - x."""
    return 1.0 if order == "sequential" else 1 - share - (1 - share) * math.log(1 - share)


def table(measured):
    """Markdown."""
    lines = ["| order | cache | 1 − x | page cache, kernel | MinIO | page cache / MinIO | page-model:linux | page-model:random | plain LRU, closed form | the papers |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    found = {(each["order"], each["size"], each["cache"]): statistics.median(each["misses"]) for each in measured}
    for order, size in sorted({(each["order"], each["size"]) for each in measured}, key=lambda pair: (pair[0], -pair[1])):
        values = {cache: found.get((order, size, cache)) for cache in caches(size)}
        percent = {cache: "—" if value is None else f"{value:.1%}" for cache, value in values.items()}
        factor = f"{values['page'] / values['minio']:.2f} ×" if values["page"] and values["minio"] else "—"
        lines.append(f"| {order} | {size} % | {100 - size} % | {percent['page']} | {percent['minio']} | {factor} | {percent['page-model:linux']} | "
                     f"{percent['page-model:random']} | {lru_misses(order, size / 100):.1%} | {PAPERS.get((order, size), '—')} |")
    return "\n".join(lines)


def measure_all(program, folder, sizes, epochs, budget):
    measured = []
    for order in ORDERS:
        for size in sizes:
            for cache, arguments in caches(size).items():
                each = measure(program, folder, size, order, cache, arguments, epochs, budget)
                measured.append(each)
                say(f"  {order}, {size} %, {cache}: misses {statistics.median(each['misses']):.3f} of {len(each['misses'])} epochs; "
                    f"process {each['run_bytes'] / 1e9:.2f} GB, device {each['device_bytes'] / 1e9:.2f} GB {' '.join(each['findings'])}")
    return measured


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("--sizes", default="65,50,35,25")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--budget", type=int, default=30)
    parser.add_argument("--json")
    options = parser.parse_args()
    clean_up_on_signals()
    measured = measure_all(options.program, options.folder, [int(size) for size in options.sizes.split(",")], options.epochs, options.budget)
    say(table(measured))
    if options.json:
        with open(options.json, "w", encoding="ascii") as file:
            json.dump(measured, file, indent=1)


if __name__ == "__main__":
    main()
