"""Cases about figures that other programs on the machine can move."""
import contextlib
import functools
import sys

attempts = 3


def measured(case):
    """Of a unittest case: it fails where it fails three times, one after another, as what the product does wrong it does wrong each time. Each attempt but the last that
    fails is told on stderr, and counted at the end of all tests. For what is measured alone, never for what has to hold each time; an error is no failure, and ends the case."""

    @functools.wraps(case)
    def tried(self):
        for left in reversed(range(attempts)):
            self.subTest = _part
            try:
                return case(self)
            except self.failureException as error:
                if not left:
                    raise
                print('\n{}: tried again: {}'.format(self.id(), ' '.join(str(error).split())[:300]), file=sys.stderr, flush=True)
            finally:
                del self.subTest
            self.tearDown()
            self.doCleanups()
            type(self).setUpClass()
            self.setUp()

    return tried


@contextlib.contextmanager
def _part(message=None, **parameters):
    """In place of unittest's, which keeps a failure to itself and goes on."""
    try:
        yield
    except AssertionError as error:
        raise AssertionError('{} {}: {}'.format(message or '', parameters, error)) from error
