"""Runs the tests of this folder, each class in a process of its own and as many side by side as there are processors, or those named one after another;
ends with `N passed, N failed`. scripts/browser-test prepares the environment."""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import unittest


def run_named(names):
    """(passed, failed)"""
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(unittest.TestLoader().loadTestsFromNames(names))
    for test, reason in result.skipped:
        print(f"skipped: {test}: {reason}")
    failed_tests = {getattr(test, "test_case", test).id() for test, _ in result.failures + result.errors}
    ran = [name for name in failed_tests if name.startswith("test_")]  # what a class could not set up did not run
    if result.testsRun == 0 and not failed_tests:
        print("no test ran")
        return 0, 1
    return result.testsRun - len(ran) - len(result.skipped), len(failed_tests)


def classes():
    """Names of all classes with tests."""
    found = set()
    waiting = [unittest.TestLoader().discover(str(pathlib.Path(__file__).resolve().parent))]
    while waiting:
        one = waiting.pop()
        if isinstance(one, unittest.TestSuite):
            waiting += list(one)
        else:
            found.add(one.id().rpartition(".")[0] if type(one).__module__ != "unittest.loader" else one.id().rpartition(".")[2])
    return sorted(found)


def run_class(name):
    """(passed, failed, what it printed); a process that ended without a count is one failed test."""
    done = subprocess.run([sys.executable, __file__, name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    count = re.search(r"^(\d+) passed, (\d+) failed\n\Z", done.stdout, re.MULTILINE)
    if count is None:
        return 0, 1, f"{done.stdout}\n{name}: ended with {done.returncode}\n"
    return int(count[1]), int(count[2]), done.stdout[:count.start()]


def main():
    if sys.argv[1:]:
        passed, failed = run_named(sys.argv[1:])
    else:
        passed = failed = 0
        with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as side_by_side:
            for more_passed, more_failed, printed in side_by_side.map(run_class, classes()):
                print(printed, end="", flush=True)
                passed += more_passed
                failed += more_failed
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
