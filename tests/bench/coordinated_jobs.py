#!/usr/bin/env python3
"""What several jobs on one server gain by sharing what is prepared, each claim a sub-command that prints a table:

  once          each sample is read and prepared once for all jobs; exit 1 where it is not
  speed         photographs, where prep is the bottleneck: a job alone, jobs for themselves, coordinated jobs with and without a copy of each batch
  fetch         an emulated SSD is the bottleneck: coordinated jobs on MinIO beside jobs for themselves on a page cache
  accelerators  eight accelerators as 8, 4, 2 jobs and 1 [CoorDL, Fig 9e]
  table7        emulated Config-SSD-V100, all cached [CoorDL, Table 7]
  losses        a network learns the same with sharing as without; exit 1 where it does not
  whatif        what `whatif --jobs` predicts from a profile of one job, beside what is measured
  search        a search of 16 trials, eight at a time [CoorDL, App. E.2.3]

  tests/bench/coordinated_jobs.py build/release/dsanalyze speed [--rounds N] [--scratch DIR] [--json FILE]

Datasets are made below --scratch and stay there. Cases take turns, in the other order every second round."""
import argparse
import json
import os
import pathlib
import re
import statistics
import sys
import tempfile
import time

import bench_tools
from bench_tools import ratios, run_of, say, spread

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
import sample_digests  # noqa: E402

IMAGENET_SAMPLE = 113959  # bytes: 146 GB in 1,281,167 samples [CoorDL, Table 1]
MOST = 1 << 40  # bytes/s: a limit that is none, so that a group counts
JOBS = 8


class Failures:
    """What a table shows not to hold."""

    def __init__(self):
        self.texts = []

    def expect(self, holds, text):
        if not holds:
            self.texts.append(text)
        return "yes" if holds else "**no**"

    def verdict(self):
        for text in self.texts:
            say(f"does not hold: {text}")
        return 1 if self.texts else 0


def table(heads, rows):
    say("\n".join(["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)] + ["| " + " | ".join(map(str, row)) + " |" for row in rows]) + "\n")


class Bench:
    """Runs the cases of a table, and keeps every record for --json."""

    def __init__(self, options):
        self.options = options
        self.program = options.program
        self.datasets = bench_tools.Datasets(options.program, options.scratch, options.samples)
        self.kept = []

    def profile(self, name, arguments, group=None, watch=None):
        record = bench_tools.profile(self.program, arguments, group, watch)
        if "runs" not in record:
            raise RuntimeError(f"{name}: {record}")
        distrust = [f"{each['code']}: {each['message']}" for each in record["findings"] if each["code"] in ("job-failed", "jobs-did-not-end")]
        if distrust:
            raise RuntimeError(f"{name}: {distrust}")
        self.kept.append({"case": name, "record": record})
        return record

    def rounds(self, cases):
        """For each case, by name: the records of all rounds."""
        records = {name: [] for name in cases}
        for number in range(self.options.rounds):
            for name in list(cases) if number % 2 == 0 else reversed(list(cases)):
                records[name].append(self.profile(name, cases[name]))
        return records

    def write(self):
        if self.options.json:
            with open(self.options.json, "w", encoding="utf-8") as file:
                json.dump({"command": sys.argv[1:], "runs": self.kept}, file, indent=1)


def job_rate(record):
    """Samples/s of one job, mean of all: of all epochs but the first, whatever others took of the CPU meanwhile."""
    rates = []
    for job in record.get("jobs") or [run_of(record, "full")]:
        later = job["epochs"][1:]
        rates.append(sum(epoch["samples"] for epoch in later) / sum(epoch["seconds"] for epoch in later) if later else job["samples_per_s"])
    return statistics.fmean(rates)


def job_rates(records):
    return [job_rate(record) for record in records]


def rate_text(rates):
    return spread(rates, "{:,.0f}")


def full(*arguments, budget="60s"):
    return ["--runs", "full", "--subset", "100%", "--time-budget", budget, *map(str, arguments)]


def coordinated(*arguments, jobs=JOBS):
    return ["--jobs", str(jobs), "--share", "coordinated", *map(str, arguments)]


def emulated(dataset, samples, *arguments):
    """Only waits: a dataset whose bytes are a thousandth, on devices that are a thousandth as fast in bytes and as fast in samples."""
    return [f"emulated:{dataset},samples={samples}", "--scale", "1:1000", *arguments]


# once

class ReadByJobs:
    """What the block layer counted from the start of a profile's jobs on: what it read before, to find out how to read, is not theirs."""

    def __init__(self, group, disk):
        self.group, self.disk = group, disk
        self.before, self.started = 0, False

    def watch(self, profile):
        while not self.started and profile.poll() is None:
            totals = self.group.read_totals(self.disk)[1]
            self.started = bool(bench_tools.read(f"/proc/{profile.pid}/task/{profile.pid}/children"))
            self.before = self.before if self.started else totals
            time.sleep(0.002)

    def bytes(self):
        return self.group.read_totals(self.disk)[1] - self.before


def once(bench, options):
    """Eight coordinated jobs, 20 epochs, and what the block layer counted of them: of all processes in their cgroup."""
    epochs, failures, rows = 20, Failures(), []
    folder = bench.datasets.small()
    disk = bench_tools.Disk(folder)
    for producers in ("jobs", "coordinator"):
        for cache in (0.35, 1.0):
            name = f"{producers}, {cache:.0%}"
            arguments = [folder, *full("--accelerator", "emulated:50000", "--batch-size", 10, "--dtype", "uint8", "--io", "pread",
                                       "--cache-size", f"{cache:.0%}", "--epochs", epochs, budget="120s"), *coordinated("--producers", producers)]
            with bench_tools.throttle(disk, bytes_per_s=MOST) as group:
                counted = ReadByJobs(group, disk)
                record = bench.profile(name, arguments, group, counted.watch)
                delivered = counted.bytes()
            run, dataset, sharing = run_of(record, "full"), record["dataset"], record["sharing"]
            samples = dataset["samples"]
            held, rest = divmod(run["cache_hits"], epochs - 1)
            misses = samples + (epochs - 1) * (samples - held)
            digests = {epoch["digest"] for job in record["jobs"] for epoch in job["epochs"]}
            trained = [len(job["epochs"]) for job in record["jobs"]]
            of_epochs = [sum(job["epochs"][epoch]["samples_prepared"] for job in record["jobs"]) for epoch in range(min(trained))]
            once_each = failures.expect(digests == {sample_digests.of(range(samples))} and trained == [epochs] * JOBS, f"{name}: {trained} epochs, digests {digests}")
            read_once = failures.expect(rest == 0 and run["cache_misses"] == misses, f"{name}: {run['cache_hits']} hits, {run['cache_misses']} misses")
            prepared_once = failures.expect(sharing["samples_prepared"] == samples * epochs and (producers != "jobs" or set(of_epochs) == {samples}),
                                            f"{name}: {sharing['samples_prepared']} prepared, by epoch {of_epochs}")
            # Whole pages are read: half a page a file more, in the mean.
            over = run["requested_bytes"] / (dataset["bytes"] / samples * run["cache_misses"])
            failures.expect(0.97 < over < 1.06, f"{name}: {over:.3f} x the bytes of the samples missed were asked for")
            failures.expect(0.98 < delivered / run["requested_bytes"] < 1.03, f"{name}: the block layer counted {delivered} of {run['requested_bytes']} bytes")
            rows.append([producers, f"{cache:.0%}", f"{held / samples:.1%}", f"{run['cache_misses']:,} of {misses:,}: {read_once}", f"{over:.3f}",
                         f"{delivered / run['requested_bytes']:.3f}", f"{sharing['samples_prepared'] / (samples * epochs):g}: {prepared_once}",
                         f"{len(digests)} of {sum(trained)} epochs: {once_each}"])
    table(["producers", "cache", "samples held", "samples read, of one sweep's misses", "bytes asked for / of these samples", "block layer's count / asked for",
           "prepared an epoch", "different digests, all the whole dataset's"], rows)
    return failures.verdict()


# speed

def closed_form(prep, copy):
    return JOBS * (prep + copy) / (prep + JOBS * copy)


def speed(bench, _):
    folder = bench.datasets.folder()
    common = [folder, "--accelerator", "emulated:50000", "--batch-size", "32", "--dtype", "uint8", "--cache-size", "100%"]
    shared = ["--epochs", "9", *common]
    cases = {"one job alone": full(*common, budget="10s"), "one job alone, 8 prep threads": full(*common, "--workers", JOBS, budget="10s"),
             "8 for themselves": full(*common, "--jobs", JOBS, "--epochs", 2),
             "8 coordinated, by DMA": full(*shared, *coordinated()), "8 coordinated, a copy each": full(*shared, *coordinated("--batch-copy", "cpu")),
             "8 coordinated, by DMA, one producer": full(*shared, *coordinated("--producers", "coordinator"))}
    records = bench.rounds(cases)
    rates = {name: job_rates(found) for name, found in records.items()}
    alone, apart = rates["one job alone"], rates["8 for themselves"]
    goals = {"8 coordinated, by DMA": (0.97, 7.5), "8 coordinated, a copy each": (0, 6.5)}
    rows = []
    for name, found in rates.items():
        least = goals.get(name)
        beside = [spread(ratios(found, alone)), spread(ratios(found, apart), "{:.2f}")]
        rows.append([name, rate_text(found), *beside, f"{least[0] or '-'}; {least[1]}" if least else "-"])
    table(["jobs", "samples/s a job", "against one alone", "against 8 for themselves", "at least"], rows)
    cores = records["one job alone"][0]["settings"]["cores"] or os.cpu_count()
    prep = cores / statistics.median(alone)
    copy = statistics.median(copy_seconds(record) for record in records["8 coordinated, a copy each"])
    say(f"closed form 8(p + c)/(p + 8c): p = {prep * 1e6:.0f} us of a core to prepare a sample (cores / rate of one job alone), c = {copy * 1e6:.1f} us "
        f"of a core to copy one: {closed_form(prep, copy):.2f} x; without the copy {JOBS:.2f} x")
    return 0


def copy_seconds(record):
    """CPU seconds of copying a sample, mean of all jobs."""
    return sum(job["batch_copy_cpu_seconds"] for job in record["jobs"]) / sum(job["samples"] for job in record["jobs"])


# fetch

def fetch(bench, _):
    common = ["--storage", "emulated:500MB/s", "--prep", "emulated:2000", "--cores", 24, "--accelerator", "emulated:50000", "--batch-size", 64,
              "--cache-size", "35%"]
    cases = {"8 for themselves, page-model:linux": emulated("imagenet-1k", 6400, *full(*common, "--cache", "page-model:linux", "--jobs", JOBS, "--epochs", 3)),
             "8 for themselves, MinIO": emulated("imagenet-1k", 6400, *full(*common, "--jobs", JOBS, "--epochs", 3)),
             "8 coordinated, MinIO": emulated("imagenet-1k", 6400, *full(*common, "--epochs", 16, *coordinated()))}
    records = bench.rounds(cases)
    apart = job_rates(records["8 for themselves, page-model:linux"])
    rows = []
    for name, found in records.items():
        # Of all epochs, the first included: a cold cache misses everything once.
        asked = [run_of(each, "full")["requested_bytes"] / each["dataset"]["bytes"] / statistics.fmean(
            job["samples"] / each["dataset"]["samples"] for job in each["jobs"]) for each in found]
        rows.append([name, rate_text(job_rates(found)), spread(asked, "{:.2f}"), spread(ratios(job_rates(found), apart), "{:.2f}"),
                     "6.5" if "coordinated" in name else "-"])
    table(["jobs", "samples/s a job", "datasets read an epoch of all", "against page-model:linux", "at least"], rows)
    one_sweep = 500e6 / IMAGENET_SAMPLE / (1 - 0.35)
    say(f"closed form: one sweep of MinIO past 35 % = 500 MB/s / {IMAGENET_SAMPLE} B / 0.65 = {one_sweep:,.0f} samples/s for each job")
    return 0


# accelerators

def accelerators(bench, options):
    """Config-SSD-V100, AlexNet, OpenImages, 65 % of it in memory. AlexNet's prep rate is ImageNet's, less in proportion to the larger images."""
    common = ["--preset", "config-ssd-v100", "--workload", "alexnet", "--prep", f"emulated:{options.prep_rate}", "--cache-size", "65%", "--batch-size", 64]
    rows, gains = [], []
    cases = {}
    for jobs in (1, 2, 4, 8):
        each = [*common, "--accelerators", 8 // jobs]
        several = ["--jobs", jobs] if jobs > 1 else []
        apart = full(*each, *several, "--cache", "page-model:linux", "--epochs", 2, budget="60s" if jobs > 1 else "12s")
        cases[f"{jobs} apart"] = emulated("openimages", 6144, *apart)
        cases[f"{jobs} together"] = emulated("openimages", 6144, *full(*each, "--epochs", 6, *coordinated(jobs=jobs)))
    records = bench.rounds(cases)
    for jobs in (8, 4, 2, 1):
        apart, together = (job_rates(records[f"{jobs} {how}"]) for how in ("apart", "together"))
        gain = ratios(together, apart)
        gains.append(statistics.median(gain))
        rows.append([f"{jobs} x {8 // jobs}", rate_text(apart), rate_text(together), spread(gain, "{:.2f}")])
    table(["jobs x accelerators", "samples/s a job, each for itself, page-model:linux", "coordinated, MinIO", "gain"], rows)
    say(f"the gain falls as jobs become fewer: {'yes' if gains == sorted(gains, reverse=True) else '**no**'}")
    return 0


# table7

TABLE_7 = {"shufflenetv2": (1441, 1.81), "alexnet": (1399, 1.87), "resnet18": (1056, 1.53), "squeezenet": (835, 1.50), "mobilenetv2": (752, 1.35),
           "resnet50": (569, 1.21), "vgg11": (552, 1.22)}
# P of all 24 cores from elsewhere in the paper; of the other networks nothing else is known than Table 7's own column.
PREP_ELSEWHERE = {"alexnet": (10208, "Fig 16"), "resnet18": (9319, "Fig 1")}


def table7(bench, _):
    """G is fitted: DALI's rate a job x CoorDL's speed-up, a lower bound of what a V100 takes. P as said in each row."""
    cases, made = {}, {}
    for network, (rate, speedup) in TABLE_7.items():
        prep = {"Table 7, fitted: 8 x DALI's rate": 8 * rate}
        if network in PREP_ELSEWHERE:
            prep[PREP_ELSEWHERE[network][1]] = PREP_ELSEWHERE[network][0]
        for source, whole in prep.items():
            common = ["--preset", "config-ssd-v100", "--workload", network, "--accelerators", 1, "--accelerator", f"emulated:{rate * speedup:.0f}", "--prep",
                      f"emulated:{whole / 24:.2f}", "--cache-size", "100%", "--batch-size", 64]
            apart, together = f"{network} apart, P of {source}", f"{network} coordinated, P of {source}"
            cases[apart] = emulated("imagenet-1k", 3072, *full(*common, "--jobs", JOBS, "--epochs", 3))
            cases[together] = emulated("imagenet-1k", 3072, *full(*common, "--epochs", 4, *coordinated()))
            made[network, source] = (apart, together)
    records = bench.rounds(cases)
    rows = []
    for (network, source), (apart, together) in made.items():
        rate, speedup = TABLE_7[network]
        gain = statistics.median(ratios(job_rates(records[together]), job_rates(records[apart])))
        rows.append([network, source, f"{rate:,}", rate_text(job_rates(records[apart])), f"{speedup:.2f} x", f"{gain:.2f} x", f"{gain / speedup - 1:+.1%}"])
    table(["network", "P from", "DALI, samples/s a job", "8 for themselves", "CoorDL", "coordinated", "off by"], rows)
    return 0


# losses

def by_photograph(bench):
    """The demo's samples by the photograph that each was cut from, which can be learned: links, no copies."""
    source = bench.datasets.small()
    target = source + "-by-photograph"
    if not os.path.isdir(target):
        for folder, _, files in os.walk(source):
            for name in sorted(file for file in files if file.endswith(".jpg")):
                with open(os.path.join(folder, name), "rb") as file:
                    photograph = re.search(rb"cut from (\w+)", file.read(4096))[1].decode()
                label = os.path.join(target, photograph)
                os.makedirs(label, exist_ok=True)
                os.link(os.path.join(folder, name), os.path.join(label, os.path.basename(folder) + "-" + name))
    return target


def losses_of(training, epochs):
    """The losses of the first epochs."""
    return [each["loss"] for each in training["loss_by_epoch"][:epochs]]


def losses(bench, options):
    folder, epochs, failures = by_photograph(bench), 8, Failures()
    common = [folder, *full("--accelerator", "cpu:double", "--batch-size", 16, "--cache-size", "100%", "--epochs", epochs, budget="25s")]
    alone = {seed: losses_of(run_of(bench.profile(f"alone, seed {seed}", [*common, "--seed", str(seed)]), "full")["training"], epochs)
             for seed in range(1, 2 + options.rounds)}
    apart = bench.profile("for themselves", [*common, "--jobs", JOBS])["jobs"][0]
    shared = {producers: bench.profile(f"coordinated, {producers}", [*common, *coordinated("--producers", producers)])["jobs"]
              for producers in ("jobs", "coordinator")}
    if min(map(len, alone.values())) < epochs:
        raise RuntimeError("the jobs alone did not get through their epochs in time")
    rows = []
    for epoch in range(epochs):
        of_seeds = [found[epoch] for found in alone.values()]
        noise = max(of_seeds) - min(of_seeds)
        off = max(abs(losses_of(job["training"], epochs)[epoch] - alone[1][epoch]) for jobs in shared.values() for job in jobs)
        failures.expect(off <= noise, f"epoch {epoch}: off by {off:.3g}, seeds by {noise:.3g}")
        apart_loss = losses_of(apart["training"], epochs)
        rows.append([epoch, f"{alone[1][epoch]:.6f}", f"{apart_loss[epoch]:.6f}" if epoch < len(apart_loss) else "-",
                     *(f"{losses_of(jobs[0]['training'], epochs)[epoch]:.6f}" for jobs in shared.values()), f"{off:.3g}", f"{noise:.3f}"])
    table(["epoch", "one job alone", "the first of 8 for themselves", "8 coordinated, each prepares", "8 coordinated, one producer",
           "largest difference of 16 jobs", f"range of {len(alone)} seeds"], rows)
    return failures.verdict()


# whatif

def whatif_cases(bench):
    waits = ["--batch-size", 64, "--cores", 24]
    return {
        "photographs, prep is the bottleneck": ([bench.datasets.folder(), "--accelerator", "emulated:50000", "--batch-size", 32, "--dtype", "uint8",
                                                 "--cache-size", "100%"], 9, 2),
        "emulated, fetch is the bottleneck": (emulated("imagenet-1k", 6400, *waits, "--storage", "emulated:500MB/s", "--prep", "emulated:2000",
                                                       "--accelerator", "emulated:50000", "--cache-size", "35%"), 12, 2),
        "emulated, prep is the bottleneck": (emulated("imagenet-1k", 6400, *waits, "--storage", "emulated:500MB/s", "--prep", "emulated:200",
                                                      "--accelerator", "emulated:50000", "--cache-size", "100%"), 9, 2),
        "emulated, accelerators are the bottleneck": (emulated("imagenet-1k", 6400, *waits, "--storage", "emulated:500MB/s", "--prep",
                                                               "emulated:200", "--accelerator", "emulated:1200", "--cache-size", "100%"), 3, 2)}


def answers(bench, profile, *more):
    text = bench_tools.run([bench.program, "whatif", profile, "--jobs", JOBS, "--share", "none,coordinated", *more, "--json", "--quiet"], good=(0, 1, 4))
    return json.loads(text)


def whatif(bench, options):
    rows = []
    for name, (arguments, shared_epochs, own_epochs) in whatif_cases(bench).items():
        if options.only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            profile = os.path.join(folder, "profile.json")
            bench_tools.run([bench.program, "profile", *arguments, "--subset", "100%", "--time-budget", "40s", "--quiet", "-o", profile], good=(0, 4))
            predicted = {each["change"]["share"]: each for each in answers(bench, profile)["answers"] if each["change"].get("jobs")}
            measured = bench.rounds({"none": [*arguments, *full("--jobs", JOBS, "--epochs", own_epochs)],
                                     "coordinated": [*arguments, *full("--epochs", shared_epochs, *coordinated())]})
            checked = answers(bench, profile, "--validate")["answers"] if options.validate else []
        for share, answer in predicted.items():
            rates = job_rates(measured[share])
            each = answer["jobs"]["samples_per_s_each"]
            own = next((found["measured"] for found in checked if found["change"].get("share") == share and "measured" in found), None)
            rows.append([name, share, f"{each:,.0f}", answer["bottleneck"], rate_text(rates), f"{each / statistics.median(rates) - 1:+.1%}",
                         f"{own['samples_per_s'] / JOBS:,.0f}: {own['error']:+.1%}" if own else "-"])
    table(["profile of one job", "share", "predicted, samples/s a job", "binds", "measured", "error", "by --validate: measured, error"], rows)
    return 0


# search

def search(bench, options):
    """The server of Py-CoorDL: 24 data workers, 327 MB/s of prep, 75 % cached; ResNet18's rate is fitted to the 1.8 x of Fig 22."""
    rows = []
    prep = 327e6 / IMAGENET_SAMPLE / 24
    accelerator = 1.8 * 24 * prep / JOBS
    ends = [] if options.run_out else ["--stop-at", "1epoch"]
    for storage, rate, samples in (("hard disk", "15MB/s", 640), ("SSD", "500MB/s", 1920)):
        if options.only not in storage:
            continue
        common = ["--storage", f"emulated:{rate}", "--prep", f"emulated:{prep:.2f}", "--cores", 24, "--accelerator",
                  f"emulated:{accelerator:.0f}", "--batch-size", 32, "--trials", 16, *ends, "--epochs", 2, "--jobs", JOBS]
        kinds = {"for themselves, page-model:linux": ["--cache", "page-model:linux", "--cache-size", "75%"],
                 "coordinated, no cache": ["--share", "coordinated", "--cache", "none"],
                 "coordinated, MinIO": ["--share", "coordinated", "--cache-size", "75%"]}
        records = bench.rounds({name: emulated("imagenet-1k", samples, *full(*common, *kind, budget="300s")) for name, kind in kinds.items()})
        seconds = {name: [run_of(each, "full")["seconds"] for each in found] for name, found in records.items()}
        for name, found in seconds.items():
            trials = records[name][0].get("trials", [])
            rows.append([storage, name, len(trials), sum(each["epochs"] for each in trials), spread(found, "{:.1f}"),
                         spread(ratios(seconds["for themselves, page-model:linux"], found), "{:.2f}")])
    table(["storage", "jobs", "trials", "epochs of all", "the search, s", "faster"], rows)
    return 0


COMMANDS = {each.__name__: each for each in (once, speed, fetch, accelerators, table7, losses, whatif, search)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("what", choices=COMMANDS)
    parser.add_argument("--scratch", default="/var/tmp/dsanalyze-bench", help="on a local disk")
    parser.add_argument("--samples", type=int, default=1000, help="of the dataset of photographs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prep-rate", type=float, default=161, help="accelerators: of a core; AlexNet's 425 of images of 114 kB x 114/300")
    parser.add_argument("--validate", action="store_true", help="whatif: let the program measure its answers too")
    parser.add_argument("--only", default="", help="whatif and search: profiles or storage whose name has this in it")
    parser.add_argument("--run-out", action="store_true", help="search: no trial is stopped before its two epochs are over; the paper's train one each")
    parser.add_argument("--json", help="keeps every run's record")
    options = parser.parse_args()
    bench_tools.clean_up_on_signals()
    os.makedirs(options.scratch, exist_ok=True)
    bench = Bench(options)
    if options.what in ("once", "speed", "losses"):
        say(bench_tools.describe_machine(bench_tools.Disk(options.scratch), options.scratch) + "\n")
    try:
        return COMMANDS[options.what](bench, options)
    finally:
        bench.write()


if __name__ == "__main__":
    sys.exit(main())
