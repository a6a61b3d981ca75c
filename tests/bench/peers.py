#!/usr/bin/env python3
"""Samples from another rank's memory beside iperf3, between two network namespaces that are joined by a veth pair, or over loopback.

usage: peers.py PEER_BENCH [--loopback] [--rounds N] [--seconds S] [--links GBIT,...] [--mtu N] [--fetch "OPTIONS"]   (needs iproute2 and iperf3, and root for namespaces)

Each round runs iperf3 with every congestion control of the system, 1 to 4 streams, with and without --zerocopy, and peer_bench with checksums and with tags, one after another; the ratio is
to the best of iperf3's runs in the same round. The rate with tags is compared with what the rate with checksums and the tags' own rates allow on two cores that do
nothing else. Then the same over links that `tc tbf` limits: the share of the link that samples' bytes have, and with half of that asked for, evenly, the latencies.
The namespaces are removed whatever happens.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from bench_tools import clean_up_on_signals, ratios, say, spread

STREAMS = (1, 2, 3, 4)
ADDRESSES = ("10.213.77.1", "10.213.77.2")
RESULT = re.compile(r"(\d+) bytes/s, (\d+) requests/s, latency p50 (\d+) us, p99 (\d+) us")


def command(*words, check=True):
    return subprocess.run([str(word) for word in words], check=check, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class Namespaces:
    """Two, each with an address of its own, on the ends of one veth pair."""

    def __init__(self, mtu):
        self.mtu = mtu
        self.names = [f"dsa-peers-{os.getpid()}-{side}" for side in "ab"]
        self.devices = [f"dsap{os.getpid() % 1000000}{side}" for side in "ab"]

    def __enter__(self):
        try:
            for name in self.names:
                command("ip", "netns", "add", name)
            command("ip", "link", "add", self.devices[0], "netns", self.names[0], "type", "veth", "peer", "name", self.devices[1], "netns", self.names[1])
            for name, device, address in zip(self.names, self.devices, ADDRESSES):
                command("ip", "-n", name, "addr", "add", f"{address}/24", "dev", device)
                command("ip", "-n", name, "link", "set", device, "mtu", self.mtu, "up")
                command("ip", "-n", name, "link", "set", "lo", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in self.names:
            command("ip", "netns", "del", name, check=False)

    def limit(self, gbit):
        """Both directions; 0: none."""
        for name, device in zip(self.names, self.devices):
            command("ip", "netns", "exec", name, "tc", "qdisc", "del", "dev", device, "root", check=False)
            if gbit:
                command("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{gbit}gbit", "burst", "2mb", "latency", "20ms")

    def inside(self, side, *words):
        return ["ip", "netns", "exec", self.names[side], *[str(word) for word in words]]

    addresses = ADDRESSES


class Loopback:
    """This machine alone."""

    addresses = ("127.0.0.1", "127.0.0.1")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def inside(self, _, *words):
        return [str(word) for word in words]


def congestion_controls():
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control") as file:
        return file.read().split()


def iperf3(namespaces, streams, seconds, control, *options):
    """Bytes/s that arrived."""
    server = subprocess.Popen(namespaces.inside(0, "iperf3", "-s", "-1"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            client = command(*namespaces.inside(1, "iperf3", "-c", namespaces.addresses[0], "-R", "-P", streams, "-t", seconds, "-O", "0.5", "-J",
                                              "-C", control, *options), check=False)
            answer = json.loads(client.stdout or "{}")
            if "end" in answer and "sum_received" in answer["end"]:
                return answer["end"]["sum_received"]["bits_per_second"] / 8
            time.sleep(0.05)
        sys.exit(f"iperf3: {client.stdout[-500:]}{client.stderr[-500:]}")
    finally:
        server.terminate()
        server.wait()


def peer_bench(program, namespaces, frames, options):
    """(bytes/s, requests/s, p50, p99 in microseconds)"""
    words = ["--frames", frames, *options]
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen(namespaces.inside(0, program, "serve", folder, "--listen", namespaces.addresses[0], "--frames", frames), stdout=subprocess.DEVNULL)
        try:
            found = command(*namespaces.inside(1, program, "fetch", folder, "--listen", namespaces.addresses[1], *words))
        finally:
            server.terminate()
            server.wait()
    return tuple(int(number) for number in RESULT.search(found.stdout).groups())


def rates_of_tags(program):
    """Bytes/s of one core: (of what lies in memory, as the sender's; of what lies in its caches, as the receiver's)"""
    found = re.search(r"tag: (\d+) bytes/s from memory, (\d+) bytes/s from caches", command(program, "sums", "--seconds", "0.5").stdout)
    return int(found.group(1)), int(found.group(2))


def iperf3_runs(arguments, namespaces):
    """Bytes/s by what iperf3 ran with."""
    return {" ".join([control, str(streams), *options]): iperf3(namespaces, streams, arguments.seconds, control, *options)
            for control in congestion_controls() for streams in STREAMS for options in ((), ("--zerocopy",))}


def compare(arguments, namespaces):
    options = ["--seconds", arguments.seconds, *arguments.fetch.split()]
    rates, tagged, possible, tails, peers = [], [], [], [], []
    for number in range(arguments.rounds):
        runs = [lambda: ("checksum", peer_bench(arguments.program, namespaces, "checksum", options)),
                lambda: ("tag", peer_bench(arguments.program, namespaces, "tag", options)),
                lambda: ("tags alone", rates_of_tags(arguments.program)),
                lambda: ("iperf3", iperf3_runs(arguments, namespaces))]
        found = dict(run() for run in (runs if number % 2 == 0 else reversed(runs)))
        ours, best = found["checksum"], max(found["iperf3"], key=found["iperf3"].get)
        rates.append(ours[0] / 1e9)
        tails.append(ours[3])
        tagged.append(found["tag"][0] / 1e9)
        # Both ends' tags are made on two cores, which the rate without them has filled.
        possible.append(1 / (1 / rates[-1] + (1e9 / found["tags alone"][0] + 1e9 / found["tags alone"][1]) / 2))
        peers.append(found["iperf3"][best] / 1e9)
        say(f"  round {number + 1}: ours {rates[-1]:.2f} GB/s, {ours[1]} requests/s, p50 {ours[2]} us, p99 {ours[3]} us; with tags {tagged[-1]:.2f} of "
            f"{possible[-1]:.2f} GB/s; iperf3 {peers[-1]:.2f} GB/s ({best}); all: "
            + ", ".join(f"{name} {rate / 1e9:.2f}" for name, rate in found["iperf3"].items()))
    say(f"no limit: ours {spread(rates, '{:.2f}')} GB/s, p99 {statistics.median(tails):.0f} us; iperf3 at its best {spread(peers, '{:.2f}')} GB/s, "
        f"ratio {spread(ratios(rates, peers), '{:.2f}')}; with tags {spread(tagged, '{:.2f}')} GB/s, of what they allow {spread(ratios(tagged, possible), '{:.2f}')}")


def over_link(arguments, namespaces, gbit):
    link = gbit * 1e9 / 8
    # What the headers of IP and TCP, with its time stamps, and of Ethernet leave of it.
    possible = (arguments.mtu - 52) / (arguments.mtu + 14)
    namespaces.limit(gbit)
    ours = [peer_bench(arguments.program, namespaces, "tag", ["--seconds", arguments.seconds, *arguments.fetch.split()]) for _ in range(arguments.rounds)]
    tool = max(iperf3_runs(arguments, namespaces).values())
    calm = peer_bench(arguments.program, namespaces, "tag", ["--seconds", arguments.seconds, "--rate", int(link / 110000 / 2), *arguments.fetch.split()])
    namespaces.limit(0)
    say(f"{gbit} Gbit/s: samples' bytes are {spread([each[0] / link for each in ours])} of the link, of which TCP can have {possible:.3f} (iperf3 at its best {tool / link:.3f}), "
        f"p50 {statistics.median(each[2] for each in ours):.0f} us, p99 {statistics.median(each[3] for each in ours):.0f} us; "
        f"at half of that p50 {calm[2]} us, p99 {calm[3]} us")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--links", default="5,10")
    parser.add_argument("--mtu", type=int, default=1500, help="bytes in a packet (1500)")
    parser.add_argument("--loopback", action="store_true", help="over loopback, without links and packet sizes")
    parser.add_argument("--fetch", default="", help="options of peer_bench fetch")
    arguments = parser.parse_args()
    for tool in ("ip", "tc", "iperf3"):
        if not shutil.which(tool):
            sys.exit(f"{tool} is not there: apt-get install iproute2 iperf3")
    clean_up_on_signals()
    with Loopback() if arguments.loopback else Namespaces(arguments.mtu) as namespaces:
        say(f"{os.cpu_count()} cores, Linux {os.uname().release}; 110 KB objects unless --fetch says otherwise")
        compare(arguments, namespaces)
        for gbit in filter(None, [] if arguments.loopback else arguments.links.split(",")):
            over_link(arguments, namespaces, float(gbit))


if __name__ == "__main__":
    main()
