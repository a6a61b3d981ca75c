"""Whether the tracer harms what it traces, and what it costs: storms of processes that are killed, and reads that are timed.

usage: tracer_faults.py BUILD [--rounds N] [--files N] [--seed SEED] [--json FILE]

BUILD is a build folder (its tests/attach/tracer/reader and traced_command, its tracer). Each round starts a process that reads in a way that is drawn, and kills
some of them at a random moment. Counted are processes that end in another way than without the tracer, accesses that are not whole, and rings that were
lost. Then a process reads as many files as are given, a tree of forks reads as deep as it goes, and reads are timed in pairs with and without the tracer.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

KILLED = r"""
import random, signal, subprocess, sys, time
reader, file, rounds, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
draw = random.Random(seed)
ways = 'read fread fseek ifstream threads signals fork vfork raw_fork around dup preadv'.split()
bad = 0
for number in range(rounds):
    kill = draw.random() < 0.6
    process = subprocess.Popen([reader, 'forever' if kill else draw.choice(ways), file], stderr=subprocess.DEVNULL)
    if kill:
        time.sleep(draw.random() * 0.01)
        process.kill()
    if process.wait() != (-signal.SIGKILL if kill else 0):
        bad += 1
print('bad', bad, file=sys.stderr)
"""
MANY = r"""
import os, sys
for number in range(int(sys.argv[2])):
    path = os.path.join(sys.argv[1], str(number))
    with open(path, 'wb') as file:
        file.write(b'x' * 100)
for number in range(int(sys.argv[2])):
    with open(os.path.join(sys.argv[1], str(number)), 'rb', buffering=0) as file:
        file.read(1000)
"""
BOMB = r"""
import os, sys
def grow(depth):
    file = os.open(sys.argv[1], os.O_RDONLY)
    assert len(os.pread(file, 100, 0)) == 100
    if depth:
        children = []
        for _ in range(2):
            child = os.fork()
            if not child:
                grow(depth - 1)
                os._exit(0)
            children.append(child)
        assert all(os.waitpid(child, 0)[1] == 0 for child in children)
grow(int(sys.argv[2]))
"""
TIMED = r"""
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
int main(int argc, char** argv) {
  char buffer[4096];
  (void)argc;
  int file = open(argv[1], O_RDONLY);
  enum { count = 20000 };
  double begin = now();
  for (int i = 0; i < count; ++i) if (pread(file, buffer, 4096, 0) != 4096) return 1;
  double positioned = (now() - begin) / count;
  begin = now();
  for (int i = 0; i < count; ++i) if (read(file, buffer, 1) != 1) return 1;
  double here = (now() - begin) / count;
  FILE* stream = fopen(argv[1], "rb");
  begin = now();
  for (int i = 0; i < 200000; ++i) if (fread(buffer, 1, 1, stream) != 1) rewind(stream);
  double buffered = (now() - begin) / 200000;
  begin = now();
  for (int i = 0; i < 5000; ++i) close(open(argv[1], O_RDONLY));
  double opened = (now() - begin) / 5000;
  printf("%f %f %f %f\n", positioned, here, buffered, opened);
  return 0;
}
"""


class Bench:
    def __init__(self, args):
        self.args = args
        build = args.build.resolve()
        self.tracer = build / "src/attach/tracer/libdsanalyze-trace.so"
        self.reader = build / "tests/attach/tracer/reader"
        self.traced = build / "tests/attach/tracer/traced_command"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tracer-"))
        self.file = self.folder / "data"
        self.file.write_bytes(b"a line of text\n" * 10000)

    def trace(self, *command):
        launch = tempfile.mkdtemp(dir=self.folder)
        run = subprocess.run([self.traced, self.tracer, launch, *map(str, command)], capture_output=True, text=True, check=False)
        return run.returncode, json.loads(run.stdout), run.stderr

    def storms(self):
        status, trace, errors = self.trace(sys.executable, "-c", KILLED, self.reader, self.file, self.args.rounds, self.args.seed)
        reads = [access for access in trace["accesses"] if access["path"] == str(self.file)]
        torn = sum(access["offset"] + access["bytes"] > self.file.stat().st_size for access in reads)
        return {"rounds": self.args.rounds, "status": status, "ended_otherwise": int(errors.split()[-1]), "reads": len(reads), "torn": torn,
                "lost": trace["lost_accesses"], "processes": len(trace["processes"])}

    def many_files(self):
        place = self.folder / "many"
        place.mkdir()
        status, trace, _ = self.trace(sys.executable, "-c", MANY, place, self.args.files)
        read = {access["path"] for access in trace["accesses"] if access["kind"] == "read" and access["path"].startswith(str(place))}
        return {"files": self.args.files, "status": status, "seen": len(read), "lost": trace["lost_accesses"]}

    def bomb(self, depth=7):
        status, trace, _ = self.trace(sys.executable, "-c", BOMB, self.file, depth)
        reads = [access for access in trace["accesses"] if access["kind"] == "positioned" and access["path"] == str(self.file)]
        return {"processes": 2 ** (depth + 1) - 1, "status": status, "seen": len({access["pid"] for access in reads}), "lost": trace["lost_accesses"]}

    def cost(self):
        source = self.folder / "timed.c"
        source.write_text(TIMED)
        program = self.folder / "timed"
        subprocess.run(["cc", "-O2", source, "-o", program], check=True)
        wrapper = self.folder / "keep"
        pairs = []
        for _ in range(self.args.pairs):
            alone = subprocess.run([program, self.file], capture_output=True, text=True, check=True).stdout
            launch = tempfile.mkdtemp(dir=self.folder)
            run = subprocess.run([self.traced, self.tracer, launch, "sh", "-c", f'"{program}" "{self.file}" >"{wrapper}"'], capture_output=True, check=True)
            assert run.returncode == 0
            pairs.append([float(b) - float(a) for a, b in zip(alone.split(), wrapper.read_text().split())])
        names = ("pread", "read", "fread of a byte", "open and close")
        return {name: round(statistics.median(pair[i] for pair in pairs), 1) for i, name in enumerate(names)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--files", type=int, default=100000)
    parser.add_argument("--pairs", type=int, default=11)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="storms,many_files,bomb,cost")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    bench = Bench(args)
    results = {}
    for name in args.only.split(","):
        results[name] = getattr(bench, name)()
        print(name, results[name], flush=True)
    if "cost" in results:
        slowest = max(results["cost"][name] for name in ("pread", "read"))
        print(f"10,000 reads a second take {slowest * 1e4 / 1e7:.2f} % of a process's time more")
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":

    main()
