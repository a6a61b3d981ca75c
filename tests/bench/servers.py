#!/usr/bin/env python3
"""Ranks of one job on several servers: what a partition saves, against what is predicted; and what they do when one dies.

usage: servers.py PROGRAM once [--networks] | locality [--networks] | hdd [--rounds 3] | predicted [--networks] | faults [--count 100] [--seed 1] [--networks]
       once       2, 3 and 4 ranks: storage bytes after the first epoch, digests, with and without replicas
       locality   2 and 4 ranks: what moves, beside the closed form and what slices would move; the same balanced from (slow) storage
       hdd        servers with a hard disk each [CoorDL, Fig 9b and 18]: bytes an epoch and speed-up, without a partition and with
       predicted  what whatif says of 2, 4 and 8 servers, from a profile of two, against what they do
       faults     a rank is killed, or with --networks its link cut, at any time: what the others have of it
       --networks each rank in a network namespace of its own (root), instead of over loopback
"""
import argparse
import collections
import contextlib
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "net"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
import networks  # noqa: E402
import sample_digests  # noqa: E402
from bench_tools import Failure, require  # noqa: E402


class Servers:
    """Starts a rank for each of `world` servers, over loopback or each in a namespace of its own; `onlookers` more namespaces have none."""

    def __init__(self, program, world, in_networks, onlookers=0, rate_mbit=None):
        self.program, self.world, self.in_networks = program, world, in_networks
        self.onlookers, self.rate_mbit = onlookers, rate_mbit

    @contextlib.contextmanager
    def start(self, *arguments, measuring=("--runs", "full", "--subset", "100%")):
        with contextlib.ExitStack() as stack:
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dsanalyze-servers-")))
            environment = dict(os.environ, XDG_STATE_HOME=str(folder / "state"), XDG_CACHE_HOME=str(folder / "cache"))
            places = stack.enter_context(networks.Networks(self.world + self.onlookers, self.rate_mbit)) if self.in_networks else None
            key = folder / "key"
            key.write_bytes(os.urandom(32))
            key.chmod(0o600)
            self.places, self.processes = places, []
            for rank in range(self.world):
                meeting = ["--rendezvous", f"{places.addresses()[0]}:17640", "--listen", places.addresses()[rank], "--key-file", key] if places else [
                    "--rendezvous", folder / "meeting"]
                command = [self.program, "profile", *arguments, "--world", self.world, "--rank", rank, *meeting, *measuring, "--quiet", "--json"]
                words = [str(word) for word in command]
                self.processes.append(subprocess.Popen(places.words(rank, words) if places else words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                                       env=environment))
            try:
                yield self
            finally:
                for process in self.processes:
                    process.kill()
                    process.communicate()

    def result(self, ranks=None):
        """Of those ranks, told by the first of them."""
        ranks = list(range(self.world)) if ranks is None else ranks
        ended = [self.processes[rank].communicate(timeout=600) for rank in ranks]
        failed = [f"rank {rank} ended with {self.processes[rank].returncode}: {err[-500:]}" for rank, (_, err) in zip(ranks, ended) if self.processes[rank].returncode != 0]
        require(not failed, "; ".join(failed))
        return json.loads(ended[0][0])

    def run(self, *arguments, **options):
        with self.start(*arguments, **options):
            return self.result()


def full(result):
    return next(run for run in result["runs"] if run["name"] == "full")


SAMPLES = 4000
EMULATED = [f"emulated:imagenet-1k,samples={SAMPLES}", "--storage", "emulated:500MB/s", "--prep", "emulated:4000", "--cores", "2", "--accelerator", "emulated:1000",
            "--batch-size", "64", "--time-budget", "120s"]


def once(arguments):
    whole = sample_digests.of(range(SAMPLES))
    print("| ranks | partition | one cache | held nowhere, bytes | read in each epoch, bytes | digests |\n| --- | --- | --- | --- | --- | --- |")
    for world in (2, 3, 4):
        for mode in ("partitioned", "locality"):
            for share in (0.6, 1.1, 2.0):
                result = Servers(arguments.program, world, arguments.networks).run(*EMULATED, "--partition", mode, "--cache-size", f"{100 * share / world:.1f}%")
                epochs = full(result)["epochs"]
                right = all(epoch["digest"] == whole for epoch in epochs)
                nowhere = result["partition"]["nowhere_bytes"]
                require(right and all(epoch["requested_bytes"] == nowhere for epoch in epochs[1:]), f"{world} ranks, {mode}, {share}: {epochs}")
                read = ", ".join(f"{epoch['requested_bytes']:,}" for epoch in epochs)
                print(f"| {world} | {mode} | {100 * share / world:.0f} % | {nowhere:,} | {read} | the whole dataset's in each epoch |", flush=True)


def locality(arguments):
    print("| ranks | samples of a rank's mini-batch | moved, of all samples | balance_traffic | closed form | slices would move | read instead, balanced from storage "
          "| samples/s, from peers | from storage |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for world, batch in ((2, 64), (4, 32), (4, 64), (4, 128)):
        setting = [word for word in EMULATED]
        setting[setting.index("--batch-size") + 1] = batch
        setting[setting.index("--storage") + 1] = "emulated:6MB/s"
        setting += ["--partition", "locality", "--cache-size", f"{110 / world:.1f}%", "--epochs", 9]
        results = {source: Servers(arguments.program, world, arguments.networks).run(*setting, "--balance-from", source) for source in ("peers", "storage")}
        later = {source: full(result)["epochs"][1:] for source, result in results.items()}
        trained = sum(epoch["samples"] for epoch in later["peers"])
        moved = sum(epoch["peer_hits"] for epoch in later["peers"]) / trained
        read = sum(epoch["samples"] - epoch["cache_hits"] - epoch["peer_hits"] for epoch in later["storage"]) / trained
        form = math.sqrt((1 - 1 / world) * (1 - world * batch / SAMPLES) / (2 * math.pi * batch))
        print(f"| {world} | {batch} | {100 * moved:.2f} % | {100 * results['peers']['partition']['balance_traffic']:.2f} % | {100 * form:.2f} % "
              f"| {100 * (1 - 1 / world):.0f} % | {100 * read:.2f} % | {full(results['peers'])['samples_per_s']:,.0f} | {full(results['storage'])['samples_per_s']:,.0f} |", flush=True)


HDD_SAMPLES, HDD_CACHE, HDD_EPOCHS = 2400, 0.65, 8
# What one server is told, and what whatif is asked.
HDD_CASES = {"page-model:linux": (["--cache", "page-model:linux"], ["--cache", "page", "--all"]), "MinIO": ([], []),
             "partitioned": (["--partition", "partitioned"], ["--partition", "partitioned", "--network", "10GB/s"])}


def answer_of_servers(program, profile, world, options):
    """What whatif says of so many servers like the one profiled: samples/s of all, and the share of the dataset that one reads from storage in an epoch."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(profile, file)
        file.flush()
        run = subprocess.run([str(word) for word in (program, "whatif", file.name, "--servers", world, *options, "--json")], check=True, capture_output=True,
                             text=True)
    of_servers = [each for each in json.loads(run.stdout)["answers"] if each["change"].get("servers") == world]
    answer = max(of_servers, key=lambda each: len(each["change"]))
    return answer["samples_per_s"], answer["servers"]["storage_bytes_server_epoch"] / profile["dataset"]["bytes"] / profile["settings"]["scale"]


def hdd(arguments):
    """S = 20 MB/s, P = 735 MB/s, samples of about 300 KB, 65 % in one server's cache. Predicted from the profile of one server. Of the last three epochs: each
    cache is full then."""
    setting = [f"emulated:openimages,samples={HDD_SAMPLES}", "--scale", "1:1000", "--storage", "emulated:20MB/s", "--prep", "emulated:102", "--cores", "24", "--accelerator",
               "emulated:400", "--accelerators", "8", "--batch-size", "16", "--time-budget", "300s", "--cache-size", f"{HDD_CACHE:.0%}"]
    words = [str(word) for word in (arguments.program, "profile", *setting, "--epochs", 3, "--subset", "25%", "--quiet", "--json")]
    profile = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    print("| servers | cache | samples/s of all, predicted | measured | of the dataset a server reads an epoch, predicted | measured |\n| --- | --- | --- | --- | --- | --- |")
    for world in (2, 3, 4):
        foreseen = {name: answer_of_servers(arguments.program, profile, world, asked) for name, (_, asked) in HDD_CASES.items()}
        ratios = []
        for _ in range(arguments.rounds):
            rates = {}
            for name, (options, _) in HDD_CASES.items():
                result = Servers(arguments.program, world, False).run(*setting, "--epochs", HDD_EPOCHS, *options)
                last = full(result)["epochs"][-3:]
                share = statistics.mean(epoch["requested_bytes"] for epoch in last) / world / result["dataset"]["bytes"]
                rates[name] = sum(epoch["samples"] for epoch in last) / sum(epoch["seconds"] for epoch in last)
                print(f"| {world} | {name} | {foreseen[name][0]:,.0f} | {rates[name]:,.0f} | {100 * foreseen[name][1]:.1f} % | {100 * share:.1f} % |", flush=True)
            ratios.append(rates["partitioned"] / rates["page-model:linux"])
        print(f"partitioned over page-model:linux on {world} servers: {statistics.median(ratios):.1f} [{min(ratios):.1f}, {max(ratios):.1f}], predicted "
              f"{foreseen['partitioned'][0] / foreseen['page-model:linux'][0]:.1f}", flush=True)


SLOW = ["emulated:imagenet-1k,samples=8000", "--storage", "emulated:20MB/s", "--prep", "emulated:2000", "--cores", "2", "--accelerator", "emulated:1500",
        "--batch-size", "16", "--time-budget", "300s"]
LINK = ["--network", "emulated:30MB/s"]


def predicted(arguments):
    """Each server's storage delivers 175 samples/s, its link 263, prep 4,000, its accelerator takes 1,500. Measured over the last two epochs, when caches
    on their own have filled. Where partitioned caches hold more than the dataset, copies come over as many epochs as there are servers: left out."""
    worlds, modes, sizes = (2, 4, 8), ("none", "partitioned", "locality"), ("12%", "30%")
    base = Servers(arguments.program, 2, arguments.networks).run(*SLOW, *LINK, "--epochs", "3", "--partition", "partitioned", "--cache-size", "30%", measuring=())
    print("measured on one of 2 servers: " + ", ".join(f"{letter} {rate['samples_per_s']:,.0f}" for letter, rate in base["rates"].items() if rate), flush=True)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as profile:
        json.dump(base, profile)
        profile.flush()
        lists = [word for option, values in (("--servers", map(str, worlds)), ("--partition", modes), ("--cache-size", sizes)) for word in (option, ",".join(values))]
        answers = json.loads(subprocess.run([arguments.program, "whatif", profile.name, *lists, "--json"], check=True, capture_output=True, text=True).stdout)["answers"]
    print("| servers | partition | cache of each | predicted samples/s | measured | error | storage bytes a server and epoch, predicted | measured | bytes from others, "
          "predicted | measured |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    errors = []
    for answer in answers:
        change = answer["change"]
        if not {"servers", "cache_fraction"} <= change.keys():
            continue
        world, mode = change["servers"], change.get("partition", "none")
        if mode == "partitioned" and world * change["cache_fraction"] > 1:
            continue
        epochs = {2: 4, 4: 5, 8: 6}[world]
        result = Servers(arguments.program, world, arguments.networks).run(*SLOW, *(["--partition", mode, *LINK] if mode != "none" else []), "--epochs", epochs,
                                                                           "--cache-size", f"{change['cache_fraction']:.0%}")
        last = full(result)["epochs"][-2:]
        rate = sum(epoch["samples"] for epoch in last) / sum(epoch["seconds"] for epoch in last)
        storage, network = (statistics.mean(epoch[field] for epoch in last) / world for field in ("requested_bytes", "peer_bytes"))
        errors.append(answer["samples_per_s"] / rate - 1)
        forecast = answer["servers"]
        print(f"| {world} | {mode} | {change['cache_fraction']:.0%} | {answer['samples_per_s']:,.0f} | {rate:,.0f} | {100 * errors[-1]:+.1f} % "
              f"| {forecast['storage_bytes_server_epoch']:,.0f} | {storage:,.0f} | {forecast['network_bytes_server_epoch']:,.0f} | {network:,.0f} |", flush=True)
    print(f"of {len(errors)} configurations the median error is {100 * statistics.median(map(abs, errors)):.1f} %, the largest {100 * max(map(abs, errors)):.1f} %")


LONGEST_WAIT = 2  # seconds
ALONE = "the network between them is cut"


def one_fault(arguments, seed, seen):
    draw = random.Random(seed)
    world = draw.choice([2, 3, 4])
    mode = draw.choice(["partitioned", "locality"])
    servers = Servers(arguments.program, world, arguments.networks)
    whole = sample_digests.of(range(SAMPLES))
    epochs = 6
    with servers.start(*EMULATED, "--partition", mode, "--cache-size", f"{draw.choice([60, 110, 200]) / world:.1f}%", "--epochs", epochs) as running:
        victim = draw.randrange(world)
        time.sleep(draw.uniform(0.2, 0.4 + SAMPLES / world / 1000 * epochs))
        cut = arguments.networks and world > 2 and draw.random() < 0.5
        if cut:
            running.places.cut(victim)
        else:
            running.processes[victim].kill()
        others = [rank for rank in range(world) if rank != victim]
        seen["cuts" if cut else "kills"] += 1
        if arguments.networks and world == 2 and victim == 0:
            # Of two servers the higher one cannot tell a killed rank from a cut network.
            _, errors = running.processes[1].communicate(timeout=600)
            require(running.processes[1].returncode == 0 or ALONE in errors, f"rank 1 ended with {running.processes[1].returncode}: {errors[-500:]}")
            seen["ended with the lower one of two"] += running.processes[1].returncode != 0
            return
        result = running.result(others)
        lost = result["partition"]["lost"]
        if not lost:  # then it had told all that it did
            seen["after the run"] += 1
            require(len(result["ranks"]) == world, f"rank {victim} is neither lost nor there")
            require(all(epoch["digest"] == whole for epoch in full(result)["epochs"]), f"epochs: {full(result)['epochs']}")
            return
        seen[f"in epoch {lost[0]['epoch']}"] += 1
        require([each["rank"] for each in lost] == [victim], f"lost: {lost}")
        trained = {epoch["epoch"]: epoch["digest"] for epoch in full(result)["epochs"]}
        require(sorted(trained) == list(range(epochs)), f"epochs trained: {sorted(trained)}")
        at = lost[0]["epoch"]
        together = sample_digests.add(trained[at], sample_digests.of(int(number) for number in lost[0]["untrained"].split(",") if number))
        require(together == whole, f"epoch {at}: {trained[at]} and {lost[0]['untrained_samples']} untrained are not the whole dataset")
        require(all(trained[epoch] == whole for epoch in range(at + 1, epochs)), "an epoch after the loss was not whole")
        for rank in result["ranks"]:
            seen["longest wait for a batch, s"] = max(seen["longest wait for a batch, s"], rank["longest_stall_seconds"])
            seen["most memory of a rank, bytes"] = max(seen["most memory of a rank, bytes"], rank["peak_memory_bytes"])
        require(all(rank["longest_stall_seconds"] <= LONGEST_WAIT for rank in result["ranks"]), f"waits: {[rank['longest_stall_seconds'] for rank in result['ranks']]}")


def faults(arguments):
    seen = collections.Counter()
    failed = 0
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        try:
            one_fault(arguments, seed, seen)
        except (Failure, subprocess.TimeoutExpired) as failure:
            failed += 1
            print(f"FAILED faults --count 1 --seed {seed}: {failure}", flush=True)
    print(f"{arguments.count} runs: {dict(seen)}; {failed} failed")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("what", choices=["once", "locality", "hdd", "predicted", "faults"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--networks", action="store_true")
    arguments = parser.parse_args()
    arguments.program = os.path.abspath(arguments.program)
    sys.exit(1 if globals()[arguments.what](arguments) else 0)


if __name__ == "__main__":
    main()
