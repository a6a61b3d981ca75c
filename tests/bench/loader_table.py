#!/usr/bin/env python3
"""Measures the lines of docs/measured/loader.md and writes its table.

usage: loader_table.py BUILD [--only NAME,NAME] [--quick] [--scratch FOLDER] [--samples N] [--json FILE] [--write] [--keep]

BUILD is a build folder with the program and the target "bench" built (buildtype release). Datasets are made below --scratch (3 GB; /var/tmp) and removed
at the end, unless --keep. --write puts the table into docs/measured/loader.md between its markers; lines that were not run keep their rows. --quick takes
minutes instead of an hour and says only whether all works. Lines under limits need root, and fio is installed by `scripts/setup --for bench`.
"""
import argparse
import json
import os
import shutil
import sys
import tempfile

from bench_tools import Datasets, Disk, clean_up_on_signals, describe_machine, say
from loader_lines import LINES, Bench

HEAD = ["| what | against | measured: median [range of the rounds] | at least | reached |", "| --- | --- | --- | --- | --- |"]


def replace_between(text, name, content):
    begin, end = f"<!-- {name} begins -->", f"<!-- {name} ends -->"
    if begin not in text or end not in text:
        sys.exit(f"docs/measured/loader.md: no markers for \"{name}\"")
    return text[: text.index(begin) + len(begin)] + "\n" + content + "\n" + text[text.index(end):]


def write_document(path, machine, rows, texts):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    text = replace_between(text, "machine", machine)
    for name, lines in rows.items():
        text = replace_between(text, name, "\n".join(HEAD + [row.markdown() for row in lines]))
    for name, content in texts.items():
        if f"<!-- {name} figures begins -->" in text:
            text = replace_between(text, name + " figures", content)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--only", default=",".join(LINES), help="of: " + ", ".join(LINES))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--scratch", default="/var/tmp")
    parser.add_argument("--samples", type=int, default=12_000)
    parser.add_argument("--json", default="loader_table.json")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--keep", action="store_true", help="leave the datasets in SCRATCH/dsanalyze-bench for the next time")
    options = parser.parse_args()
    names = options.only.split(",")
    for name in names:
        if name not in LINES:
            parser.error(f"--only: {name} is none of {', '.join(LINES)}")
    clean_up_on_signals()
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    os.makedirs(options.scratch, exist_ok=True)
    kept = os.path.join(options.scratch, "dsanalyze-bench")
    scratch = kept if options.keep or os.path.isdir(kept) else tempfile.mkdtemp(prefix="dsanalyze-bench-", dir=options.scratch)
    os.makedirs(scratch, exist_ok=True)
    rows, failed, machine, bench = {}, {}, "", None
    try:
        disk = Disk(scratch)
        machine = describe_machine(disk, scratch)
        say(machine)
        bench = Bench(os.path.abspath(options.build), source, Datasets(os.path.join(os.path.abspath(options.build), "dsanalyze"), scratch, options.samples), disk,
                      options.quick)
        for name in names:
            say(f"\n## {name}: {LINES[name].__doc__}")
            try:
                rows[name] = LINES[name](bench)
                say("\n".join(row.markdown() for row in rows[name]))
            except (RuntimeError, OSError, ValueError, KeyError, StopIteration) as error:
                failed[name] = f"{type(error).__name__}: {error}"
                say(f"{name}: not measured: {failed[name]}")
    except KeyboardInterrupt:
        say("interrupted")
        failed["interrupted"] = "the lines after this one were not measured"
    finally:
        if not options.keep and scratch != kept:
            shutil.rmtree(scratch, ignore_errors=True)
    with open(options.json, "w", encoding="utf-8") as file:
        json.dump({"machine": machine, "quick": options.quick, "rows": {name: [row.record() for row in lines] for name, lines in rows.items()},
                   "raw": bench.raw if bench else {}, "text": bench.text if bench else {}, "failed": failed}, file, indent=1, ensure_ascii=False)
    say("\n" + "\n".join(HEAD + [row.markdown() for lines in rows.values() for row in lines]))
    say(f"\nall rounds: {options.json}")
    if options.write and bench:
        write_document(os.path.join(source, "docs", "measured", "loader.md"), machine, rows, bench.text)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
