"""The lines of docs/measured/loader.md, each a function that measures one claim and gives rows of the table. Run by loader_table.py."""
import array
import json
import os
import re
import statistics
import subprocess
import sys

import page_cache_bench
from bench_tools import MEGABYTE, ControlGroup, profile, ratios, resident_peak, run, run_of, say, spread, throttle

HDD_REQUESTS_PER_S = 125  # 8 ms a request, as in configs/storage/hdd.json
HDD_BYTES_PER_S = 150 * MEGABYTE
ALONE = ["--accelerator", "null"]


class Row:
    """A line of the table. `least` None: reported, nothing is asked of it. `most` turns the comparison round."""

    def __init__(self, what, against, rounds, least=None, most=None, form="{:.3f}", note=""):
        self.what, self.against, self.rounds, self.least, self.most, self.form, self.note = what, against, rounds, least, most, form, note

    def reached(self):
        middle = statistics.median(self.rounds)
        if self.least is not None:
            return "yes" if middle >= self.least else "no"
        if self.most is not None:
            return "yes" if middle <= self.most else "no"
        return "reported"

    def markdown(self):
        limit = f"{self.least:g}" if self.least is not None else f"at most {self.most:g}" if self.most is not None else "—"
        value = spread(self.rounds, self.form) if len(self.rounds) > 1 else self.form.format(self.rounds[0])
        return f"| {self.what} | {self.against} | {value}{'; ' + self.note if self.note else ''} | {limit} | {self.reached()} |"

    def record(self):
        return {"what": self.what, "against": self.against, "rounds": self.rounds, "median": statistics.median(self.rounds), "at_least": self.least,
                "at_most": self.most, "reached": self.reached(), "note": self.note}


class Bench:
    """What every line gets: programs, datasets, disk, how long to take, and where raw figures go."""

    def __init__(self, build, source, datasets, disk, quick):
        self.build, self.source, self.datasets, self.disk, self.quick = build, source, datasets, disk, quick
        self.program = os.path.join(build, "dsanalyze")
        self.raw = {}
        self.text = {}

    def tool(self, name):
        return os.path.join(self.build, "tests", "bench", name)

    def rounds(self, full, quick=2):
        return quick if self.quick else full

    def json_of(self, command, group=None):
        """The JSON file that a program leaves, and what it says."""
        file = os.path.join(self.datasets.scratch, "figures.json")
        try:
            output = run([*command, "--json", file], group)
            with open(file, encoding="utf-8") as text:
                return json.load(text), output
        finally:
            if os.path.exists(file):
                os.unlink(file)


def fetch(bench):
    """Cold fetch beside fio."""
    rows = []
    script = os.path.join(bench.source, "tests", "bench", "fetch_vs_fio.py")
    cases = [
        ("folder", bench.datasets.folder(), "random", ["uring:16", "uring:16+direct", "uring:16x2", "uring:16x2+direct", "threads:16", "threads:16+direct"]),
        ("tar", bench.datasets.tar(), "sequential", ["uring:16", "uring:16+direct", "uring:32+direct", "threads:4", "threads:16+direct"]),
    ]
    for name, dataset, order, configs in cases:
        result, output = bench.json_of([sys.executable, script, bench.tool("fetch_bench"), dataset, *configs, "--order", order, "--rounds", bench.rounds(9),
                                        "--megabytes", 150 if bench.quick else 400])
        say(output)
        bench.raw[f"fetch, {name}"] = result
        for memory, found in result["ratios"].items():
            best = max(found, key=lambda config: statistics.median(found[config]))
            if name == "folder":
                one = max((config for config in found if re.match(r"uring:16(\+|$)", config)), key=lambda config: statistics.median(found[config]))
                peer = f"fio's best at that request size, any engine and depth, its buffers {memory}"
                rows.append(Row(f"cold fetch, folder of files, 16 in flight ({best})", peer, found[best], 0.95))
                rows.append(Row(f"the same, one io_uring thread ({one})", "the same", found[one], 0.88))
            else:
                rows.append(Row(f"cold sequential tar shards ({best})", f"fio sequential, its best, its buffers {memory}", found[best], 0.95))
    return rows


def limit(bench):
    """Cold fetch under a cgroup's limit."""
    rows = []
    rate = 200 * MEGABYTE
    folder = bench.datasets.folder()
    shares = {"pread": [], "uring": []}
    device = []
    with throttle(bench.disk, rate) as group:
        for _ in range(bench.rounds(5)):
            for engine, list_of_shares in shares.items():
                record = profile(bench.program, [folder, *ALONE, "--runs", "fetch", "--io", engine, "--time-budget", "10s" if bench.quick else "16s"], group)
                fetched = run_of(record, "fetch")
                list_of_shares.append(record["rates"]["S"]["bytes_per_s"] / rate)
                device.append(fetched["storage_bytes"] / fetched["requested_bytes"])
    bench.raw["limit"] = {"share_of_limit": shares, "device_over_asked": device}
    for engine, list_of_shares in shares.items():
        rows.append(Row(f"cold fetch under a cgroup's limit of 200 MB/s ({engine})", "the limit", list_of_shares, 0.95,
                        note=f"the device delivered {statistics.median(device):.3f} × the samples' bytes: whole pages"))
    return rows


def cached_fetch(bench):
    """Cached objects beside memcpy."""
    result, output = bench.json_of([bench.tool("cache_bench"), "fetch", "--bytes", 1 if bench.quick else 2, "--rounds", bench.rounds(15, 5)])
    say(output)
    bench.raw["cached-fetch"] = result
    return [Row(f"cached fetch of 110 KB objects in random order, {each['cache']}, {each['threads']} thread{'s' if each['threads'] > 1 else ''}",
                "memcpy of the same bytes in the same order", [each["median_ratio"], *each["ratio_ci95"]], 0.9 if each["cache"] != "lru, gathered" else None)
            for each in result["results"]]


def pipeline(bench):
    """The whole loader beside its parts."""
    folder = bench.datasets.folder()
    seconds = 1.2 if bench.quick else 2.5
    engines = {"threads": [], "io_uring": ["--io", "uring"], "threads, direct": ["--direct"], "io_uring, direct": ["--io", "uring", "--direct"]}
    trial = {}
    for name, options in engines.items():
        result, output = bench.json_of([bench.tool("pipeline_bench"), folder, *options, "--slices", "prep,fetch,cold", "--rounds", bench.rounds(3), "--seconds", seconds])
        trial[name] = result
        say(f"{name}\n{output}")
    best = max(trial, key=lambda name: statistics.median(trial[name]["ratios"]["cold / min(F, P)"]))
    whole, output = bench.json_of([bench.tool("pipeline_bench"), folder, *engines[best], "--rounds", bench.rounds(9), "--seconds", seconds])
    say(f"{best}, all slices\n{output}")
    prep = statistics.median(whole["slices"]["prep"]["samples_per_s"])
    slow = int(0.5 * prep * whole["mean_bytes"])
    with throttle(bench.disk, slow) as group:
        bound, output = bench.json_of([bench.tool("pipeline_bench"), folder, *engines[best], "--slices", "fetch,cold", "--rounds", bench.rounds(7), "--seconds",
                                       2 * seconds], group)
    say(f"{best}, reads limited to {slow / 1e6:.0f} MB/s\n{output}")
    bench.raw["pipeline"] = {"trial": trial, "best": best, "whole": whole, "limit_bytes_per_s": slow, "fetch_bound": bound}
    cost = ["| engine | prep alone, CPU µs a sample | fetch alone | whole loader, cold | cold / min(F, P) | what the CPU allows: prep / (prep + fetch) |",
            "| --- | --- | --- | --- | --- | --- |"]
    for name, result in trial.items():
        own = {slice_name: statistics.median(slice_["own_cpu_us"]) for slice_name, slice_ in result["slices"].items()}
        cost.append(f"| {name} | {own['prep']:.0f} | {own['fetch']:.0f} | {own['cold']:.0f} | {spread(result['ratios']['cold / min(F, P)'])} | "
                    f"{own['prep'] / (own['prep'] + own['fetch']):.3f} |")
    bench.text["pipeline"] = "\n".join(cost)
    say(bench.text["pipeline"])
    return [Row("whole pipeline, cached", "min(P, C)", whole["ratios"]["cached / min(P, C)"], 0.95),
            Row(f"whole pipeline, cold, prep-bound ({best})", "min(F, P)", whole["ratios"]["cold / min(F, P)"], 0.95),
            Row(f"whole pipeline, cold, fetch-bound: reads limited to {slow / 1e6:.0f} MB/s ({best})", "F", bound["ratios"]["cold / F"], 0.95)]


def shards(bench):
    """Consecutive shards beside random files, on a disk throttled as a hard disk."""
    folder, tar = bench.datasets.folder(), bench.datasets.tar()
    cases = {"random files": [folder, "--order", "random"], "random records in the shards": [tar, "--order", "random"],
             "consecutive shards": [tar, "--order", "shards", "--shuffle-buffer", "1024"]}
    rates = {name: [] for name in cases}
    bytes_a_request = {name: [] for name in cases}
    quality = {}
    with throttle(bench.disk, HDD_BYTES_PER_S, HDD_REQUESTS_PER_S) as group:
        for _ in range(bench.rounds(5)):
            for name, arguments in cases.items():
                before = group.read_totals(bench.disk)
                record = profile(bench.program, [*arguments, *ALONE, "--runs", "fetch", "--io", "pread", "--time-budget", "20s" if bench.quick else "30s"], group)
                after = group.read_totals(bench.disk)
                rates[name].append(record["rates"]["S"]["bytes_per_s"])
                bytes_a_request[name].append((after[1] - before[1]) / max(after[0] - before[0], 1))
                quality[name] = record.get("order")
                say(f"  {name}: {rates[name][-1] / 1e6:.1f} MB/s, {bytes_a_request[name][-1] / 1024:.0f} KiB a request at the throttle")
    bench.raw["shards"] = {"bytes_per_s": rates, "bytes_a_request": bytes_a_request, "order": quality}
    note = ", ".join(f"{name} {statistics.median(values) / 1e6:.1f} MB/s" for name, values in rates.items())
    return [Row("consecutive shards, cold, throttled as a hard disk (125 requests/s, 150 MB/s)", "random files; [Parax] Fig 6: > 2 ×; Py-CoorDL on a hard disk: 2.1–3.3 ×",
                ratios(rates["consecutive shards"], rates["random files"]), form="{:.1f} ×", note=note),
            Row("the same", "random records in the same shards", ratios(rates["consecutive shards"], rates["random records in the shards"]), form="{:.1f} ×")]


def page_cache(bench):
    """The real page cache under a cgroup, beside MinIO."""
    sizes = (65, 35) if bench.quick else (65, 50, 35, 25)
    measured = page_cache_bench.measure_all(bench.program, bench.datasets.folder(), sizes, 4 if bench.quick else 6, 16 if bench.quick else 30)
    bench.raw["page-cache"] = measured
    bench.text["page-cache"] = page_cache_bench.table(measured)
    say(bench.text["page-cache"])
    found = {(each["order"], each["size"], each["cache"]): each["misses"] for each in measured}
    rows = []
    for size in sizes:
        for order in page_cache_bench.ORDERS:
            page, minio = found[order, size, "page"], statistics.median(found[order, size, "minio"])
            rows.append(Row(f"bytes read an epoch, page cache of the kernel at {size} %, {order} order", "MinIO of the same size", [misses / minio for misses in page],
                            form="{:.2f} ×", note=f"misses {statistics.median(page):.1%} and {minio:.1%}"))
    worst = [max(abs(misses - (1 - each["size"] / 100)) for misses in each["misses"]) * 100 for each in measured if each["cache"] == "minio"]
    rows.append(Row("MinIO's own misses, all sizes and orders, largest difference of any epoch", "1 − x", [max(worst)], most=1, form="{:.2f} points"))
    return rows


def lorenz_share(sizes, capacity, a_request, a_byte):
    """What is left of an epoch's storage seconds when the smallest samples are held: they save most a byte."""
    held = saved = whole = 0
    for size in sorted(sizes):
        seconds = a_request + a_byte * size
        whole += seconds
        if held < capacity:
            part = min(1.0, (capacity - held) / size)
            held += part * size
            saved += part * seconds
    return 1 - saved / whole


def admission(bench):
    """Cost-aware against first-come MinIO on an emulated hard disk."""
    sizes_file = os.path.join(bench.datasets.scratch, "sizes")
    configs = os.path.join(bench.source, "configs")
    try:
        result, output = bench.json_of([bench.tool("admission_bench"), f"{configs}/datasets/imagenet-1k.json", f"{configs}/storage/hdd.json", "--sizes", sizes_file,
                                        "--samples", 100_000 if bench.quick else 0])
        with open(sizes_file, "rb") as file:
            sizes = array.array("Q", file.read())
    finally:
        if os.path.exists(sizes_file):
            os.unlink(sizes_file)
    say(output)
    closed = lorenz_share(sizes, result["capacity"], result["seconds_per_request"], result["seconds_per_byte"])
    say(f"the same closed form in Python from the sizes: {closed:.2%}\n")
    # Again through `profile`, with a curve that it measures and time that passes: the clock is the second witness.
    timed = {}
    for name in ("first", "cost-aware"):
        record = profile(bench.program, [f"emulated:imagenet-1k,samples={400 if bench.quick else 3000}", "--storage", "emulated:hdd", "--prep", "null", *ALONE,
                                         "--batch-size", "32", "--cache-size", "35%", "--admit", name, "--runs", "full", "--subset", "100%", "--epochs", "4",
                                         "--time-budget", "40s" if bench.quick else "200s"])
        epochs = run_of(record, "full")["epochs"]
        device = [epoch["cache_misses"] * 0.008 + epoch["requested_bytes"] / HDD_BYTES_PER_S for epoch in epochs]
        timed[name] = {"device_share": [each / device[0] for each in device[1:]], "clock_share": [epoch["seconds"] / epochs[0]["seconds"] for epoch in epochs[1:]],
                       "findings": [finding["code"] for finding in record["findings"]]}
        say(f"  profile, --admit {name}: storage seconds of later epochs {spread(timed[name]['device_share'])}, by the clock {spread(timed[name]['clock_share'])}")
    bench.raw["admission"] = {"loader": result, "closed_form_python": closed, "profile": timed}
    aware, first = result["cost_aware"]["share"], result["first"]["share"]
    return [Row("storage seconds an epoch, cost-aware MinIO at 35 %, emulated hard disk, ImageNet's sizes: points off", f"the closed form, {closed:.2%} of uncached",
                [abs(share - closed) * 100 for share in aware], most=3, form="{:.2f}", note=f"{statistics.median(aware):.2%} of uncached"),
            Row("the same", "first-come MinIO", ratios(aware, first), form="{:.3f} ×", note=f"first-come {statistics.median(first):.2%} of uncached")]


def overhead(bench):
    """The loader's own cost, and what it allocates."""
    result, output = bench.json_of([bench.tool("loader_bench"), "overhead", "--seconds", 6 if bench.quick else 24])
    say(output)
    counted, output = bench.json_of([bench.tool("steady_state_bench"), "allocations", bench.datasets.small(), "--samples", 200_000 if bench.quick else 1_000_000])
    say(output)
    bench.raw["overhead"] = {"costs": result, "allocations": counted}
    rows = []
    for cache in ("none", "minio"):
        worst = max((each for each in result if each["cache"] == cache), key=lambda each: statistics.median(each["nanoseconds"]))
        rows.append(Row(f"null everything, cache {cache}, µs a sample, the worst of batch 32, 256, 512 and 1, 2 workers", f"batch {worst['batch']}, workers: {worst['workers']}",
                        [each / 1000 for each in worst["nanoseconds"]], most=0.5))
    for each in counted:
        if "real prep" in each["set_up"]:
            rows.append(Row(f"allocations a sample, {each['set_up']}", f"{each['samples']:,} samples", [each["allocations"] / each["samples"]], form="{:.1f}"))
        else:
            rows.append(Row(f"allocations in the steady state, {each['set_up']}", f"{each['samples']:,} samples", [each["allocations"]], most=0, form="{:.0f}"))
    return rows


def memory(bench):
    """Memory beside what the cache holds, and whether it stays."""
    folder = bench.datasets.folder()
    figures = {"none": [], "minio": []}
    group_peaks = {"none": [], "minio": []}
    slots = held = 0
    for _ in range(bench.rounds(3, 1)):
        for cache, list_of_peaks in figures.items():
            peak = 0

            def watch(process):
                nonlocal peak
                peak = max(peak, resident_peak(process))

            with ControlGroup("memory") as group:
                record = profile(bench.program, [folder, *ALONE, "--runs", "full", "--batch-size", "64", "--subset", "100%", "--epochs", "3", "--time-budget",
                                                 "20s" if bench.quick else "60s", "--cache", cache, *(["--cache-size", "35%"] if cache == "minio" else [])], group, watch)
                group_peaks[cache].append(group.memory_peak())
            slots = run_of(record, "full")["slot_bytes"]
            if cache == "minio":
                held = 0.35 * record["dataset"]["subset_bytes"]
            list_of_peaks.append(peak)
    tops = [(minio - none) / held for minio, none in zip(figures["minio"], figures["none"])]
    constant = statistics.median(figures["none"]) - slots
    group_share = [(minio - none) / held for minio, none in zip(group_peaks["minio"], group_peaks["none"])]
    flat, output = bench.json_of([bench.tool("steady_state_bench"), "epochs", bench.datasets.small(), "--epochs", 30 if bench.quick else 110])
    say(output)
    rows = [Row("memory: peak with MinIO at 35 %, less the peak without a cache", f"the cache's size, {held / 1e6:.0f} MB", tops, most=1.1,
                note=f"without a cache {statistics.median(figures['none']) / 1e6:.0f} MB, of which slots {slots / 1e6:.0f} MB and all else {constant / 1e6:.0f} MB; "
                     f"by the memory cgroup's peak, pages of files on their way counted, {statistics.median(group_share):.3f}"),
            Row(f"memory over {len(flat['resident_bytes'])} epochs: growth after the first tenth, KiB", "resident memory", [flat["growth_bytes"] / 1024], most=1024, form="{:.0f}")]
    decodes = 20_000 if bench.quick else 100_000
    decoder = bench.tool("decode_memory_bench")
    grown = None
    if os.path.exists(decoder):
        done = subprocess.run([decoder, str(decodes)], capture_output=True, text=True, check=False)
        say(done.stdout)
        grown = float(re.search(r"growth (-?\d+) KiB", done.stdout)[1])
        rows.append(Row(f"memory over {decodes:,} corrupt decodes: growth, KiB", "resident memory", [grown], most=1024, form="{:.0f}"))
    bench.raw["memory"] = {"peaks": figures, "group_peaks": group_peaks, "slots": slots, "cache": held, "epochs": flat, "corrupt_growth_kib": grown}
    return rows


def fio_rate(files, block, depth):
    """Random reads of a block size and depth over the shards, bytes/s; each block at most once."""
    output = run(["fio", "--name=point", "--filename=" + ":".join(files), "--ioengine=io_uring", f"--iodepth={depth}", "--direct=1", f"--bs={block}", "--rw=randread",
                  "--invalidate=1", "--readonly", "--runtime=2", "--randrepeat=0", f"--randseed={int.from_bytes(os.urandom(4), 'little')}", "--output-format=json"])
    return json.loads(output[output.index("{"):])["jobs"][0]["read"]["bw_bytes"]


def curve(bench):
    """Points of the S curve beside fio's."""
    tar = bench.datasets.tar()
    files = sorted(os.path.join(tar, name) for name in os.listdir(tar) if name.endswith(".tar"))
    shares, points = {}, []
    for _ in range(bench.rounds(5)):
        record = profile(bench.program, [tar, *ALONE, "--runs", "fetch", "--io", "uring", "--direct", "--time-budget", "20s" if bench.quick else "60s"])
        points = record["curves"]["S_by_request"]
        for wanted in ((65536, 16), (262144, 4), (1048576, 16)):
            match = [point for point in points if (round(point["request_bytes"]), point["concurrency"]) == wanted]
            if match:
                shares.setdefault(wanted, []).append(match[0]["bytes_per_s"] / fio_rate(files, *wanted))
    bench.raw["curve"] = {"shares": {f"{size} x {depth}": values for (size, depth), values in shares.items()}, "points": points}
    return [Row(f"S curve at {size >> 10} KiB, {depth} in flight", "fio io_uring, direct, the same", values) for (size, depth), values in shares.items()]


LINES = {"fetch": fetch, "limit": limit, "cached-fetch": cached_fetch, "pipeline": pipeline, "shards": shards, "page-cache": page_cache, "admission": admission,
         "overhead": overhead, "memory": memory, "curve": curve}
