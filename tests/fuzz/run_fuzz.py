"""Runs one libFuzzer program for a while from its corpus and says what came of it; a test of the suite "fuzz".

usage: run_fuzz.py PROGRAM --name NAME --dictionary FILE CORPUS...

Inputs that end the program are kept in fuzz-found/ of the build folder, and printed. $DSANALYZE_FUZZ_SECONDS says for how long (60).
"""

import argparse
import base64
import os
import pathlib
import re
import subprocess
import sys
import tempfile

LEAST_INPUTS_A_SECOND = 10  # fewer: the program is not instrumented, or hangs on everything
MOST_SHOWN_BYTES = 6000
MEMORY_MIB = 1024
SECONDS_AN_INPUT = 10


def number(pattern, text, default=0):
    found = re.findall(pattern, text)
    return int(found[-1]) if found else default


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("corpora", type=pathlib.Path, nargs="+")
    parser.add_argument("--name", required=True)
    parser.add_argument("--dictionary", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    seconds = int(os.environ.get("DSANALYZE_FUZZ_SECONDS", "60"))
    least = LEAST_INPUTS_A_SECOND * seconds
    found = pathlib.Path.cwd() / "fuzz-found"
    found.mkdir(exist_ok=True)
    before = set(found.iterdir())
    with tempfile.TemporaryDirectory(prefix="dsanalyze-fuzz-") as grown:
        command = [arguments.program, f"-max_total_time={seconds}", f"-timeout={SECONDS_AN_INPUT}", f"-rss_limit_mb={MEMORY_MIB}", f"-dict={arguments.dictionary}",
                   f"-artifact_prefix={found}/{arguments.name}-", "-print_final_stats=1", grown, *arguments.corpora]
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=seconds + 300)
        output = run.stdout.decode(errors="replace")
        new = len(list(pathlib.Path(grown).iterdir()))
    inputs = number(r"stat::number_of_executed_units:\s*(\d+)", output)
    edges = number(r"cov: (\d+)", output)
    print(f"{arguments.name}: {inputs} inputs in {seconds} s, {edges} edges covered, {new} inputs reached something new")
    if run.returncode == 0 and inputs >= least and edges > 0:
        return 0
    print("\n".join(output.splitlines()[-80:]))
    for path in sorted(set(found.iterdir()) - before):
        content = path.read_bytes()
        print(f"kept: {path} ({len(content)} bytes)")
        if len(content) <= MOST_SHOWN_BYTES:
            print(f"  base64: {base64.b64encode(content).decode()}")
        print(f"  again:  {arguments.program} {path}")
    if run.returncode == 0:
        print(f"error: fewer than {least} inputs: the fuzzer did not work")
    return 1


if __name__ == "__main__":
    sys.exit(main())
