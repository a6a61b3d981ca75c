"""Runs clang-tidy-14 over every source of the product in a build folder (tests have the compilers' warnings and the sanitizers); files that passed are remembered by the digest of all that it looked at.

usage: run_tidy.py --build build/test --jobs N
"""

import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def sources(build):
    """(source, command line, folder) of every compilation of a file of ours; generated ones lie in the build folder and are left out."""
    seen = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = (pathlib.Path(entry["directory"]) / entry["file"]).resolve()
        if ROOT in source.parents and build.resolve() not in source.parents and ROOT / "tests" not in source.parents:
            seen.setdefault(source, (shlex.split(entry["command"]), entry["directory"]))
    return sorted((source, command, folder) for source, (command, folder) in seen.items())


def digest(command, folder, rules):
    """Of the preprocessed text, the rules and the command; None when it cannot be preprocessed (clang-tidy will say why)."""
    options = [word for word in command if word != "-c"]
    position = options.index("-o")
    text = subprocess.run([*options[:position], *options[position + 2 :], "-E", "-C", "-o", "-"], cwd=folder, capture_output=True, check=False)
    if text.returncode != 0:
        return None
    return hashlib.sha256(rules + "\0".join(command).encode() + text.stdout).hexdigest()


def checks_for(source):
    """What differs from the rules for some files: in CLI11's header, one check takes longer than all others together."""
    return ["--checks=-performance-unnecessary-value-param"] if "<CLI/CLI.hpp>" in source.read_text(encoding="utf-8") else []


def check(source, command, folder, build, rules, passed):
    """Returns what clang-tidy found, or None."""
    key = digest(command, folder, rules)
    if key and (passed / key).exists():
        return None
    run = subprocess.run(["clang-tidy-14", "--quiet", "--extra-arg=-Wno-unknown-warning-option", *checks_for(source), "-p", str(build), str(source)], capture_output=True, text=True, check=False)
    if run.returncode == 0:
        if key:
            (passed / key).touch()
        return None
    return run.stdout + "\n".join(line for line in run.stderr.splitlines() if "warnings generated" not in line)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    rules = (ROOT / ".clang-tidy").read_bytes()
    passed = arguments.build / "tidy"
    passed.mkdir(exist_ok=True)
    all_sources = sources(arguments.build)
    start = time.monotonic()
    findings = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        jobs = {pool.submit(check, *entry, arguments.build, rules, passed): entry[0] for entry in all_sources}
        for number, job in enumerate(concurrent.futures.as_completed(jobs), 1):
            if job.result() is not None:
                findings += 1
                print(f"{jobs[job].relative_to(ROOT)}:\n{job.result()}", flush=True)
            if number % 20 == 0 or number == len(jobs):
                print(f"clang-tidy: {number} of {len(jobs)} files, {findings} with findings, {time.monotonic() - start:.0f} s", flush=True)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
