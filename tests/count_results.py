"""Counts what `meson test` ran, from its testlog.json, and prints `N passed, N failed` as the last line.

A doctest program counts by its test cases, a Python program by its unittest tests, anything else as one. A program that ends badly without naming a
failed case (a crash, a time-out) counts as one failed.

usage: count_results.py BUILD_FOLDER [--logbase NAME]
"""

import argparse
import dataclasses
import json
import pathlib
import re
import sys

DOCTEST = re.compile(r"\[doctest\] test cases:\s*(\d+)\s*\|\s*(\d+) passed\s*\|\s*(\d+) failed\s*\|\s*(\d+) skipped")
UNITTEST_RAN = re.compile(r"^Ran (\d+) tests? in ", re.MULTILINE)
UNITTEST_END = re.compile(r"^(?:OK|FAILED)(?: \(([^)]*)\))?\s*$", re.MULTILINE)
DOCTEST_CASE = re.compile(r"^TEST CASE:\s+(.*?)\n(.*?)(?=^={10}|\Z)", re.MULTILINE | re.DOTALL)
DOCTEST_ERROR = re.compile(r"^\S+: (?:FATAL )?ERROR: .*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
UNITTEST_FAILED = re.compile(r"^(?:FAIL|ERROR): (.*)$", re.MULTILINE)
TERMINAL_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
GOOD = ("OK", "EXPECTEDFAIL")


@dataclasses.dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other):
        return Count(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)


def count_unittest(output):
    """The sum over the unittest summaries in the output, or None when there are none."""
    total = None
    for ran, end in zip(UNITTEST_RAN.findall(output), UNITTEST_END.findall(output)):
        named = {name: int(number) for name, number in re.findall(r"([\w ]+)=(\d+)", end)}
        named = {name.strip(): number for name, number in named.items()}
        failed = named.get("failures", 0) + named.get("errors", 0) + named.get("unexpected successes", 0)
        skipped = named.get("skipped", 0)
        total = (total or Count()) + Count(max(int(ran) - failed - skipped, 0), failed, skipped)
    return total


def count_doctest(output):
    total = None
    for _, passed, failed, _ in DOCTEST.findall(output):
        total = (total or Count()) + Count(int(passed), int(failed), 0)
    return total


def output_of(entry):
    return TERMINAL_COLOUR.sub("", (entry.get("stdout") or "") + "\n" + (entry.get("stderr") or ""))


def failed_cases(output):
    """The names of the cases that the output says failed, those of doctest each with its first error."""
    cases = []
    for name, text in DOCTEST_CASE.findall(output):
        error = DOCTEST_ERROR.search(text)
        if error:
            cases.append(f"{name.strip()}: {' '.join(error.group().split())}")
    return cases + [name.strip() for name in UNITTEST_FAILED.findall(output)]


def count_test(entry):
    """Of one line of testlog.json."""
    output = output_of(entry)
    result = entry["result"]
    count = count_doctest(output) or count_unittest(output)
    if count is None:
        if result == "SKIP":
            return Count(skipped=1)
        return Count(passed=1) if result in GOOD else Count(failed=1)
    if result not in GOOD and result != "SKIP" and count.failed == 0:
        count = count + Count(failed=1)
    return count


def count_log(text):
    """(total, [(name, count, failed cases)]) of a whole testlog.json: one JSON document a line."""
    counts = []
    for line in text.splitlines():
        if line.strip():
            entry = json.loads(line)
            counts.append((entry["name"], count_test(entry), failed_cases(output_of(entry))))
    return sum((count for _, count, *_ in counts), Count()), counts


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--logbase", default="testlog")
    arguments = parser.parse_args()
    log = arguments.build / "meson-logs" / f"{arguments.logbase}.json"
    if not log.exists():
        print(f"error: {log} is not there: no test ran")
        print("0 passed, 1 failed")
        return 1
    total, counts = count_log(log.read_text())
    for name, count, cases in counts:
        if count.failed:
            print(f"  failed: {name} ({count.failed})")
            for case in cases:
                print(f"    {case}")
    if total.skipped:
        print(f"  skipped: {total.skipped}")
    if total.passed + total.failed == 0:
        total.failed = 1
    print(f"{total.passed} passed, {total.failed} failed")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
