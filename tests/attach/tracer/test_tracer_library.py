"""What the tracer's library asks of the system into whose programs it is loaded."""
import os
import re
import subprocess
import unittest

library = os.environ['TRACER']


def lines_of(*command):
    return subprocess.run([*command, library], capture_output=True, text=True, check=True).stdout.splitlines()


class LibraryTest(unittest.TestCase):
    def test_it_needs_the_c_library_alone(self):
        needed = [re.search(r'\[(.*)\]', line).group(1) for line in lines_of('readelf', '-d', '-W') if 'NEEDED' in line]
        self.assertLessEqual(set(needed), {'libc.so.6', 'libdl.so.2', 'libpthread.so.0'})

    def test_it_asks_for_no_symbol_that_a_c_library_of_2012_lacks(self):
        versions = set(re.findall(r'GLIBC_([0-9.]+)', '\n'.join(lines_of('nm', '-D', '--undefined-only'))))
        self.assertTrue(versions)
        for version in versions:
            self.assertLessEqual(tuple(map(int, version.split('.'))), (2, 17), version)

    def test_what_it_needs_beside_is_there_in_every_program(self):
        strong = {line.split()[-1] for line in lines_of('nm', '-D', '--undefined-only') if ' U ' in line and 'GLIBC' not in line}
        self.assertEqual(strong, set())

    def test_it_stands_before_calls_that_read_and_no_others(self):
        names = {line.split()[-1] for line in lines_of('nm', '-D', '--defined-only')}
        self.assertLessEqual({'open', 'open64', 'openat', 'read', 'pread64', 'readv', 'preadv64', 'fopen64', 'fread', 'mmap', 'dup', 'close'}, names)
        self.assertEqual({name for name in names if re.search('write|malloc|free$|fork|exec', name)}, set())


if __name__ == '__main__':
    unittest.main()
