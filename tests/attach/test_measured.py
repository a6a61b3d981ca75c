"""Cases that are tried again."""
import contextlib
import io
import unittest

from measured import attempts, measured


class Case(unittest.TestCase):
    made = 0
    tried = 0
    near = 0  # At this attempt.
    left = 0

    @classmethod
    def setUpClass(cls):
        Case.made += 1

    def setUp(self):
        self.addCleanup(setattr, Case, 'left', Case.left + 1)

    @measured
    def whole(self):
        Case.tried += 1
        self.assertGreaterEqual(Case.tried, Case.near)

    @measured
    def parts(self):
        Case.tried += 1
        for part in range(2):
            with self.subTest(part=part):
                self.assertGreaterEqual(Case.tried + 1 - part, Case.near)

    @measured
    def breaks(self):
        Case.tried += 1
        raise OSError('no such file')


class Measured(unittest.TestCase):
    def attempt(self, name, near=1):
        Case.made, Case.tried, Case.near, Case.left = 0, 0, near, 0
        self.said = io.StringIO()
        with contextlib.redirect_stderr(self.said):
            return unittest.TestSuite([Case(name)]).run(unittest.TestResult())

    def test_a_case_that_passes_at_once_is_run_once(self):
        self.assertTrue(self.attempt('whole').wasSuccessful())
        self.assertEqual((Case.tried, Case.made, Case.left, self.said.getvalue()), (1, 1, 1, ''))

    def test_one_that_comes_near_at_the_last_attempt_passes_and_each_before_is_told(self):
        for name in ('whole', 'parts'):
            self.assertTrue(self.attempt(name, attempts).wasSuccessful(), name)
            self.assertEqual((Case.tried, Case.made, Case.left), (attempts, attempts, attempts), name)
            self.assertEqual(self.said.getvalue().count(f'Case.{name}: tried again: '), attempts - 1, name)

    def test_one_that_never_does_fails_and_says_which_part(self):
        for name in ('whole', 'parts'):
            result = self.attempt(name, attempts + 1)
            self.assertEqual((Case.tried, len(result.failures), len(result.errors)), (attempts, 1, 0), name)
        self.assertIn("{'part': 1}", result.failures[0][1])

    def test_an_error_is_not_tried_again(self):
        result = self.attempt('breaks')
        self.assertEqual((Case.tried, len(result.errors)), (1, 1))


if __name__ == '__main__':
    unittest.main()
