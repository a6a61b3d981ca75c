"""What is said where the memory is full through which workers hand batches over."""
import pathlib
import sys
import types
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'python' / 'dsanalyze' / '_attach'))
import shared_memory  # noqa: E402


class SharedMemory(unittest.TestCase):
    def text(self, free, blocks=32):
        with mock.patch.object(shared_memory.os, 'statvfs', return_value=types.SimpleNamespace(f_bavail=free, f_blocks=blocks, f_frsize=4096)):
            return shared_memory.full_text()

    def test_an_error_says_so_only_where_it_is_full(self):
        self.assertEqual(self.text(1), ' (/dev/shm is full: 4 of 128 KiB are free)')
        self.assertEqual(self.text(8), '')
        self.assertEqual(self.text(0, blocks=0), '')

    def test_a_machine_without_it_is_no_error(self):
        with mock.patch.object(shared_memory.os, 'statvfs', side_effect=OSError):
            self.assertEqual(shared_memory.full_text(), '')


if __name__ == '__main__':
    unittest.main()
