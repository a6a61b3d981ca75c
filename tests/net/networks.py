#!/usr/bin/env python3
"""Network namespaces for tests of several machines on one: each has an address of its own on one bridge, and all are removed again, whatever happens.

usage: networks.py --check | --clean | --count N [--rate MBIT] [--cut I@SECONDS]... [--timeout SECONDS] -- COMMAND...
       --check            says whether namespaces may be made here; exit 0 or 1
       --clean            removes what dead owners left (each start does)
       --count N          makes N namespaces and runs COMMAND in each; {i}, {n}, {address} and {addresses} in its words stand for the namespace's number, N, its
                          address and all of them, with commas. Without the right to make them the commands run over loopback, and a line says so.
       --rate MBIT        limits what each namespace sends (tc tbf), in Mbit/s
       --cut I@SECONDS    takes the link of namespace I down, so long after the start
       --timeout SECONDS  kills what still runs then (default 300)
Exit code: of the first command that failed, 124 after the timeout, 130 or 143 when stopped.

As a module: `with Networks(4, rate_mbit=1000) as networks: networks.run(0, ["dsanalyze", ...]); networks.cut(2)`.
"""
import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

# A name is the owner's process number, the time of its start and the namespace's number: so a later start knows whose owner is dead.
NAME = re.compile(r"dsn-(\d+)-(\d+)-(\d+|b)")
BURST_BYTES = 256 * 1024
RIGHTS = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21}


class NotPermitted(Exception):
    """Namespaces cannot be made here; the text says why."""


def start_of(process):
    """When the process started, in the kernel's ticks; None when there is none."""
    try:
        return int(pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def command(*words, check=True):
    run = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    if check and run.returncode != 0:
        raise NotPermitted(f"{' '.join(words)}: {run.stderr.strip() or run.returncode}")
    return run.stdout


def why_not():
    """Why namespaces cannot be made here; empty when they can, which is tried."""
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            return f"there is no {tool} (Debian: iproute2)"
    effective = int(re.search(r"^CapEff:\s*(\w+)", pathlib.Path("/proc/self/status").read_text(), re.MULTILINE).group(1), 16)
    lacking = [name for name, bit in RIGHTS.items() if not effective >> bit & 1]
    if lacking:
        return f"this process lacks {' and '.join(lacking)} (run as root, a container with --cap-add)"
    try:
        with Networks(1):
            return ""
    except NotPermitted as refusal:
        return str(refusal)


def remove_left_overs():
    """Removes namespaces, and bridges, whose owners are dead. Returns the names."""
    removed = []
    for line in command("ip", "netns", "list", check=False).splitlines():
        match = NAME.match(line)
        if match and start_of(match.group(1)) != int(match.group(2)):
            name = line.split()[0]
            end_processes(name)
            command("ip", "netns", "delete", name, check=False)
            removed.append(name)
    return removed


def end_processes(name):
    """Of a namespace that is about to go: a dead owner's commands."""
    for process in command("ip", "netns", "pids", name, check=False).split():
        try:
            os.kill(int(process), signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


class Networks:
    """N namespaces, or loopback (`loopback`) where they are not permitted and `or_loopback` is set. The bridge lies in a namespace of its own, so that nothing
    is added to the machine's own network, and goes with it."""

    def __init__(self, count, rate_mbit=None, or_loopback=False):
        self.count = count
        self.rate_mbit = rate_mbit
        self.or_loopback = or_loopback
        self.loopback = False
        self.why = ""
        self.owner = f"dsn-{os.getpid()}-{start_of(os.getpid())}"
        self.made = []
        self.processes = []

    def __enter__(self):
        try:
            remove_left_overs()
            self.make()
        except (NotPermitted, OSError) as refusal:
            self.remove()
            if not self.or_loopback:
                raise NotPermitted(str(refusal)) from refusal
            self.loopback, self.why = True, str(refusal)
        return self

    def __exit__(self, *_):
        self.remove()

    def name(self, i):
        return f"{self.owner}-{i}"

    def addresses(self):
        """Of each, in a network that is made for documentation and tests (RFC 2544); over loopback 127.0.0.1 of all."""
        return ["127.0.0.1" if self.loopback else f"198.18.{i // 250}.{i % 250 + 1}" for i in range(self.count)]

    def make(self):
        hub = self.name("b")
        self.add(hub)
        command("ip", "-n", hub, "link", "add", "hub", "type", "bridge")
        command("ip", "-n", hub, "link", "set", "hub", "up")
        for i, address in enumerate(self.addresses()):
            name = self.name(i)
            self.add(name)
            command("ip", "-n", hub, "link", "add", f"port{i}", "type", "veth", "peer", "name", "eth0", "netns", name)
            command("ip", "-n", hub, "link", "set", f"port{i}", "master", "hub", "up")
            command("ip", "-n", name, "link", "set", "lo", "up")
            command("ip", "-n", name, "address", "add", f"{address}/16", "dev", "eth0")
            command("ip", "-n", name, "link", "set", "eth0", "up")
            if self.rate_mbit:
                self.limit(i, self.rate_mbit)

    def add(self, name):
        self.made.append(name)  # first: what is interrupted half-way is removed too
        command("ip", "netns", "add", name)

    def limit(self, i, mbit):
        """What namespace i sends, and what is sent to it."""
        for place, device in ((self.name(i), "eth0"), (self.name("b"), f"port{i}")):
            command("ip", "netns", "exec", place, "tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", f"{mbit}mbit",
                    "burst", str(max(BURST_BYTES, int(mbit * 1e6 / 8 / 250))), "latency", "50ms")

    def cut(self, i):
        if not self.loopback:
            command("ip", "-n", self.name("b"), "link", "set", f"port{i}", "down")

    def mend(self, i):
        if not self.loopback:
            command("ip", "-n", self.name("b"), "link", "set", f"port{i}", "up")

    def words(self, i, words):
        """The command as it runs in namespace i."""
        return list(words) if self.loopback else ["ip", "netns", "exec", self.name(i), *words]

    def start(self, i, words, **options):
        process = subprocess.Popen(self.words(i, words), start_new_session=True, **options)
        self.processes.append(process)
        return process

    def run(self, i, words, **options):
        return subprocess.run(self.words(i, words), check=False, **options)

    def remove(self):
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        for name in reversed(self.made):
            end_processes(name)
            command("ip", "netns", "delete", name, check=False)
        self.made = []


def filled(words, networks, i):
    values = {"{i}": str(i), "{n}": str(networks.count), "{address}": networks.addresses()[i], "{addresses}": ",".join(networks.addresses())}
    for mark, value in values.items():
        words = [word.replace(mark, value) for word in words]
    return words


def stopped(number, _):
    raise SystemExit(128 + number)


def run_all(networks, words, cuts, timeout):
    """Runs the command everywhere; the exit code of the first that failed."""
    timers = [threading.Timer(seconds, networks.cut, [i]) for i, seconds in cuts]
    processes = [networks.start(i, filled(words, networks, i)) for i in range(networks.count)]
    for timer in timers:
        timer.start()
    deadline = time.monotonic() + timeout
    try:
        codes = [process.wait(timeout=max(0, deadline - time.monotonic())) for process in processes]
    except subprocess.TimeoutExpired:
        print(f"networks: still running after {timeout:g} s: killed", file=sys.stderr)
        return 124
    finally:
        for timer in timers:
            timer.cancel()
    return next((code if code > 0 else 128 - code for code in codes if code != 0), 0)


def cut_of(text):
    match = re.fullmatch(r"(\d+)@(\d+(?:\.\d+)?)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected I@SECONDS")
    return int(match.group(1)), float(match.group(2))


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ", 1)[1].splitlines()[0], add_help=True)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--clean", action="store_true")
    parser.add_argument("--count", type=int)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--cut", type=cut_of, action="append", default=[])
    parser.add_argument("--timeout", type=float, default=300)
    parser.add_argument("words", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, stopped)
    if options.check:
        why = why_not()
        print(f"no network namespaces here: {why}" if why else "network namespaces may be made here")
        return 1 if why else 0
    if options.clean:
        for name in remove_left_overs():
            print(f"removed {name}")
        return 0
    words = options.words[1:] if options.words[:1] == ["--"] else options.words
    if not options.count or not 1 <= options.count <= 200 or not words or any(i >= options.count for i, _ in options.cut):
        parser.error("--count N (1 to 200), a COMMAND, and cuts of namespaces that there are")
    with Networks(options.count, options.rate, or_loopback=True) as networks:
        if networks.loopback:
            print(f"networks: over loopback, without limits and cuts: {networks.why}", file=sys.stderr)
        return run_all(networks, words, options.cut, options.timeout)


if __name__ == "__main__":
    sys.exit(main())
