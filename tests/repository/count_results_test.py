"""tests/count_results.py counts cases, and never makes a failure vanish."""

import json
import sys
import unittest

import repository

sys.path.insert(0, str(repository.ROOT / "tests"))
import count_results  # noqa: E402

DOCTEST = "[doctest] test cases: {0} | {1} passed | {2} failed | 0 skipped\n[doctest] assertions: 9 | 9 passed | 0 failed |\n"


def entry(result="OK", stdout="", stderr="", name="x"):
    return {"name": name, "result": result, "stdout": stdout, "stderr": stderr}


class CountResults(unittest.TestCase):
    def count(self, **fields):
        count = count_results.count_test(entry(**fields))
        return count.passed, count.failed, count.skipped

    def test_doctest_counts_by_cases(self):
        self.assertEqual(self.count(stdout=DOCTEST.format(12, 12, 0)), (12, 0, 0))
        self.assertEqual(self.count(result="FAIL", stdout=DOCTEST.format(12, 10, 2)), (10, 2, 0))

    def test_unittest_counts_by_tests(self):
        self.assertEqual(self.count(stderr="...\nRan 3 tests in 0.1s\n\nOK\n"), (3, 0, 0))
        self.assertEqual(self.count(result="FAIL", stderr="Ran 8 tests in 0.1s\n\nFAILED (failures=1, errors=2, skipped=1)\n"), (4, 3, 1))

    def test_a_crash_after_passed_cases_is_a_failure(self):
        self.assertEqual(self.count(result="FAIL", stdout=DOCTEST.format(12, 12, 0)), (12, 1, 0))

    def test_a_time_out_or_a_crash_without_summary_is_one_failure(self):
        self.assertEqual(self.count(result="TIMEOUT"), (0, 1, 0))
        self.assertEqual(self.count(result="ERROR", stdout="Segmentation fault"), (0, 1, 0))

    def test_other_programs_count_as_one(self):
        self.assertEqual(self.count(stdout="fine"), (1, 0, 0))
        self.assertEqual(self.count(result="SKIP"), (0, 0, 1))

    def test_the_failed_cases_are_named(self):
        rule = "=" * 79
        doctest = f"{rule}\n../a_test.cpp:5:\nTEST CASE:  a told one\n\n../a_test.cpp:7: MESSAGE: told\n\n{rule}\n../a_test.cpp:9:\nTEST CASE:  a bad one\n\n../a_test.cpp:11: ERROR: CHECK( a == b ) is NOT correct!\n  values: CHECK( 1 == 2 )\n\n{rule}\n"
        self.assertEqual(count_results.failed_cases(doctest), ["a bad one: ../a_test.cpp:11: ERROR: CHECK( a == b ) is NOT correct! values: CHECK( 1 == 2 )"])
        self.assertEqual(count_results.failed_cases("FAIL: test_a (x.X.test_a)\n---\nERROR: test_b (x.X.test_b)\n"), ["test_a (x.X.test_a)", "test_b (x.X.test_b)"])
        self.assertEqual(count_results.failed_cases("fine\n"), [])

    def test_a_log_is_summed_over_its_lines(self):
        log = "\n".join(json.dumps(line) for line in (entry(stdout=DOCTEST.format(2, 2, 0)), entry(result="FAIL"), entry()))
        total, counts = count_results.count_log(log)
        self.assertEqual((total.passed, total.failed, len(counts)), (3, 1, 3))


if __name__ == "__main__":
    unittest.main()
