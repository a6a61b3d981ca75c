"""Runs the tests of this folder, or those named, and ends with `N passed, N failed`; scripts/browser-test prepares the environment."""

import pathlib
import sys
import unittest


def main():
    loader = unittest.TestLoader()
    folder = pathlib.Path(__file__).resolve().parent
    suite = loader.loadTestsFromNames(sys.argv[1:]) if sys.argv[1:] else loader.discover(str(folder))
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    for test, reason in result.skipped:
        print(f"skipped: {test}: {reason}")
    failed_tests = {getattr(test, "test_case", test).id() for test, _ in result.failures + result.errors}
    ran = [name for name in failed_tests if name.startswith("test_")]  # what a class could not set up did not run
    passed, failed = result.testsRun - len(ran) - len(result.skipped), len(failed_tests)
    if result.testsRun == 0 and failed == 0:
        failed = 1
        print("no test ran")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
