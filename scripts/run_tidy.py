"""Runs clang-tidy-14 over every source of the product in a build folder (tests have the compilers' warnings and the sanitizers); what passed is remembered by
the digest of all that it looked at.

Most of its time goes into what files include. So the sources of a library are looked at together, joined into one file, which compiles because the unity
builds of the sanitizers have to (docs/architecture.md).

usage: run_tidy.py --build build/lint --jobs N
"""

import argparse
import bisect
import collections
import concurrent.futures
import hashlib
import itertools
import json
import pathlib
import re
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILES_AT_ONCE = 48  # about half a minute; half as many take a quarter longer in all
# The analyzer's depth: deep takes three times as long in all, and following templates (most are the standard library's) twice as long. Of nine seeded bugs it finds
# the same seven without.
SHALLOW = [word for option in ("mode=shallow", "c++-template-inlining=false") for word in ("-Xclang", "-analyzer-config", "-Xclang", option)]


def libraries(build):
    """{folder of objects: [(source, command)]} of the product's own sources; generated ones lie in the build folder and are left out."""
    found = collections.defaultdict(list)
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = (pathlib.Path(entry["directory"]) / entry["file"]).resolve()
        if ROOT in source.parents and build.resolve() not in source.parents and ROOT / "tests" not in source.parents:
            found[pathlib.Path(entry["output"]).parent].append((source, shlex.split(entry["command"])))
    return found


class Joined:
    """The sources' texts in one file, and which of its lines is which source's."""

    def __init__(self, file, sources):
        self.file, self.sources = file, sources
        self.ends = []
        texts = [source.read_text(encoding="utf-8").rstrip("\n") + "\n" for source in sources]
        for text in texts:
            self.ends.append((self.ends[-1] if self.ends else 0) + text.count("\n"))
        file.write_text("".join(texts), encoding="utf-8")

    def place(self, match):
        line = int(match[1])
        number = min(bisect.bisect_left(self.ends, line), len(self.ends) - 1)
        return f"{self.sources[number].relative_to(ROOT)}:{line - (self.ends[number - 1] if number else 0)}"

    def named(self, findings):
        """The findings with the sources' names and lines."""
        return re.sub(re.escape(str(self.file)) + r":(\d+)", self.place, findings)


def flags_of(command):
    """Of a compilation: without the compiler (which may stand behind ccache), input and outputs."""
    kept, words = [], itertools.dropwhile(lambda word: not word.startswith("-"), command)
    for word in words:
        if word in ("-o", "-MF", "-MQ", "-c"):
            next(words, None)
        elif word not in ("-MD", "-fcolor-diagnostics", "-fdiagnostics-color=always") and not word.startswith("-Wno-"):
            kept.append(word)
    return kept


def command_of(joined, command):
    """clang-tidy over the joined file, as its sources are compiled."""
    folders = dict.fromkeys(source.parent for source in joined.sources)
    options = [*flags_of(command), *(f"-iquote{folder}" for folder in folders), "-Wno-unknown-warning-option", *SHALLOW]
    return ["clang-tidy-14", "--quiet", *checks_for(joined.sources), str(joined.file), "--", *options]


def checks_for(sources):
    """What differs from the rules: in CLI11's header, one check takes longer than all others together."""
    return ["--checks=-performance-unnecessary-value-param"] if any("<CLI/CLI.hpp>" in source.read_text(encoding="utf-8") for source in sources) else []


def digest(command, build, rules):
    """Of the preprocessed text, the rules and the command; None when it cannot be preprocessed (clang-tidy will say why)."""
    place = command.index("--")
    preprocess = ["clang++-14", *command[place + 1 :], "-E", "-C", "-o", "-", command[place - 1]]
    text = subprocess.run(preprocess, cwd=build, capture_output=True, check=False)
    if text.returncode != 0:
        return None
    return hashlib.sha256(rules + "\0".join(command).encode() + text.stdout).hexdigest()


def check(joined, command, build, rules, passed):
    """Returns what clang-tidy found, or None."""
    key = digest(command, build, rules)
    if key and (passed / key).exists():
        return None
    run = subprocess.run(command, cwd=build, capture_output=True, text=True, check=False)
    if run.returncode == 0:
        if key:
            (passed / key).touch()
        return None
    return joined.named(run.stdout) + "\n".join(line for line in run.stderr.splitlines() if "warnings generated" not in line)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="libraries whose name contains this")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    rules = (ROOT / ".clang-tidy").read_bytes()
    passed = build / "tidy"
    passed.mkdir(exist_ok=True)
    looks = {}
    for folder, sources in libraries(build).items():
        for start in range(0, len(sources), FILES_AT_ONCE):
            parts = sources[start:start + FILES_AT_ONCE]
            name = f"{folder.name.removesuffix('.p')} from {parts[0][0].relative_to(ROOT)}"
            if arguments.only in name:
                file = Joined(build / folder / f"joined-{start}.cpp", [source for source, _ in parts])
                looks[name] = (file, command_of(file, parts[0][1]))
    start = time.monotonic()
    findings = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        longest_first = sorted(looks.items(), key=lambda look: -look[1][0].ends[-1])
        jobs = {pool.submit(check, *look, build, rules, passed): name for name, look in longest_first}
        for number, job in enumerate(concurrent.futures.as_completed(jobs), 1):
            if job.result() is not None:
                findings += 1
                print(f"{jobs[job]}:\n{job.result()}", flush=True)
            print(f"clang-tidy: {number} of {len(jobs)} ({jobs[job]}), {findings} with findings, {time.monotonic() - start:.0f} s", flush=True)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
