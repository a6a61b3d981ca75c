"""What is said where the memory is full through which workers hand batches over."""
import pathlib
import sys
import types
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'python' / 'dsanalyze' / '_attach'))
import shared_memory  # noqa: E402


class SharedMemory(unittest.TestCase):
    def with_free(self, free, blocks=32):
        return mock.patch.object(shared_memory.os, 'statvfs', return_value=types.SimpleNamespace(f_bavail=free, f_blocks=blocks, f_frsize=4096))

    def text(self, free, blocks=32, error=''):
        with self.with_free(free, blocks):
            return shared_memory.full_text(error)

    def test_an_error_says_so_only_where_it_is_full(self):
        self.assertTrue(self.text(1).startswith(' (/dev/shm is full: 4 of 128 KiB are free: make it larger'), self.text(1))
        self.assertEqual(self.text(8), '')
        self.assertEqual(self.text(0, blocks=0), '')

    def test_an_error_of_a_worker_is_one_line_with_what_to_do(self):
        error = RuntimeError('Caught RuntimeError in DataLoader worker process 0.\nTraceback:\n  File "x", line 1\nRuntimeError: unable to allocate shared memory(shm) for file </torch_1>: '
                             'No space left on device (28)\n')
        with self.with_free(16):
            text = shared_memory.error_text(error)
        self.assertTrue(text.startswith('RuntimeError: Caught RuntimeError in DataLoader worker process 0. ... RuntimeError: unable to allocate'), text)
        self.assertIn('(/dev/shm is full: 64 of 128 KiB are free: make it larger (docker run --shm-size 8g), or lower num_workers', text)
        self.assertNotIn('\n', text)
        with self.with_free(32):
            self.assertEqual(shared_memory.error_text(ValueError('mine')), 'ValueError: mine')
            self.assertEqual(shared_memory.error_text(ValueError()), 'ValueError')

    def test_a_machine_without_it_is_no_error(self):
        with mock.patch.object(shared_memory.os, 'statvfs', side_effect=OSError):
            self.assertEqual(shared_memory.full_text(), '')


if __name__ == '__main__':
    unittest.main()
