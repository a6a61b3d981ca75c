"""P of streams of which no two starts need read the same, as `dsanalyze profile -- COMMAND` says it."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from test_program import ProgramTest, here, program

train = [sys.executable, str(here / 'trainings' / 'train_stream.py')]
files = 600
size = 256 << 10


class Streams(ProgramTest):
    @classmethod
    def setUpClass(cls):
        cls.data = pathlib.Path(tempfile.mkdtemp(prefix='dsanalyze-test-'))
        cls.addClassCleanup(shutil.rmtree, cls.data)
        for number in range(files):
            (cls.data / f'{number:03}.bin').write_bytes(os.urandom(size))
        os.sync()

    def setUp(self):
        super().setUp()
        for path in self.data.iterdir():
            with path.open('rb') as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def profile(self, order, *options):
        run = self.run_program('--time-budget', '8s', '--json', command=[*train, self.data, order, *options])
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assert_nothing_left()
        result = json.loads(run.stdout)
        full, = [each for each in result['runs'] if each['name'] == 'full']
        if full['storage_bytes'] < full['requested_bytes'] / 4:
            self.skipTest('this file system keeps files in memory that were to be dropped')
        return result, {finding['code']: finding['message'] for finding in result['findings']}, run.stderr

    def test_a_stream_that_reads_other_files_at_each_start_has_no_p(self):
        result, findings, said = self.profile('another')
        self.assertIn('is not separable from storage', findings['prep-not-separable'])
        self.assertIn('had been read by the pass before', findings['prep-not-separable'])
        self.assertIsNone(result['rates']['P'])
        self.assertEqual(result['curves'].get('P_by_workers', []), [])
        self.assertEqual({run['name'] for run in result['runs']} & {'prep', 'cached'}, set())
        self.assertNotIn('phases-missing', findings)
        self.assertIsNotNone(result['rates']['G'])
        self.assertNotRegex(said, r'prep: [0-9.,]+ samples/s')
        saved = self.folder / 'profile.json'
        saved.write_text(json.dumps(result))
        view = subprocess.run([program, 'report', saved, '--format', 'console'], capture_output=True, text=True, env=self.environment, check=True)
        self.assertIn('not separable from storage', ' '.join(view.stdout.split()))

    def test_one_that_reads_the_same_files_has_a_p_that_its_storage_reads_bound(self):
        result, findings, _ = self.profile('same', '--files', '60')  # So few that a pass reads all of them, however slow the machine is.
        self.assertNotIn('prep-not-separable', findings)
        self.assertGreater(result['rates']['P']['samples_per_s'], 0)


if __name__ == '__main__':
    unittest.main(defaultTest='Streams')
