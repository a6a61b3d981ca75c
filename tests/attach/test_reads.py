"""What a launched training reads, as `dsanalyze profile -- COMMAND` says it."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

try:
    import jsonschema
except ImportError:
    jsonschema = None  # Debian: python3-jsonschema

from test_program import ProgramTest, program

train = [sys.executable, str(pathlib.Path(__file__).resolve().parent / 'trainings' / 'train_files.py')]
schema = pathlib.Path(__file__).resolve().parents[2] / 'reports' / 'schemas' / 'profile-1.json'
files = 40
size = 50_000


class Reads(ProgramTest):
    def setUp(self):
        super().setUp()
        self.data = self.folder / 'data'
        self.data.mkdir()
        for i in range(files):
            (self.data / f'{i:03}.bin').write_bytes(bytes([i]) * size)

    def profile(self, *options, command=()):
        run = self.run_program('--time-budget', '4s', '--json', *options, command=[*train, self.data, *command])
        self.assertEqual(run.returncode, 0, run.stderr)
        self.saved = self.folder / 'profile.json'
        self.saved.write_text(run.stdout)
        self.assert_nothing_left()
        if jsonschema:
            jsonschema.validate(json.loads(run.stdout), json.loads(schema.read_text()))
        return json.loads(run.stdout)

    def findings(self, result):
        return {finding['code']: finding['message'] for finding in result['findings']}

    def test_the_files_of_the_dataset_and_the_requests_of_a_sample(self):
        trace = self.folder / 'trace'
        result = self.profile('--trace', trace)
        reads = result['reads']
        self.assertEqual((reads['files'], reads['file_bytes'], reads['mapped_files']), (files, files * size, 0))
        # Python reads a file in one call and the end of it in another, which has no bytes.
        self.assertEqual(reads['mean_request_bytes'], size)
        self.assertGreater(reads['requests_per_sample'], 0)
        self.assertLess(reads['ordered_fraction'], 0.3)
        self.assertEqual({'reads-untraced', 'reads-partly-seen', 'reads-mapped'} & set(self.findings(result)), set())
        self.check_storage(result)
        view = subprocess.run([program, 'report', self.saved, '--format', 'console'], capture_output=True, text=True, env=self.environment, check=True)
        self.assertIn('a sample in', view.stdout)
        self.assertIn(f'from {files} files', view.stdout)
        simulated = subprocess.run([program, 'simulate', '--trace', trace, '--policy', 'lru,minio', '--cache-size', '1GB', '--json'], capture_output=True,
                                   text=True, env=self.environment, check=False)
        self.assertEqual(simulated.returncode, 0, simulated.stderr)
        self.assertIn('lru', simulated.stdout)

    def check_storage(self, result):
        """S and C of the ranges that were read, and what an epoch reads: the same forty files again and again."""
        self.assertEqual(result['reads']['dataset_bytes'], files * size)
        self.assertGreater(result['reads']['page_cache_bytes'], 0)
        filesystem = subprocess.run(['stat', '-f', '-c', '%T', self.data], capture_output=True, text=True, check=True).stdout.strip()
        if 'storage-not-separable' in self.findings(result):
            self.assertNotIn(filesystem, ('ext2/ext3', 'xfs', 'btrfs'), self.findings(result)['storage-not-separable'])
            self.assertIsNone(result['rates']['S'])
            return
        storage, cache = result['rates']['S'], result['rates']['C']
        self.assertAlmostEqual(storage['bytes_per_s'] / storage['samples_per_s'], result['reads']['bytes_per_sample'], delta=1)
        self.assertGreater(cache['samples_per_s'], 0)
        self.assertGreater(storage['ci95_samples_per_s']['high'], storage['samples_per_s'])
        fetch, = (run for run in result['runs'] if run['name'] == 'fetch')
        self.assertIn(fetch['storage_proof'], ('proved', 'corroborated'))
        self.assertGreater(fetch['storage_bytes'], 0.9 * fetch['requested_bytes'])
        self.assertEqual({point['request_bytes'] for point in result['curves']['S_by_request']}, {size})
        self.assertIn(2, {point['concurrency'] for point in result['curves']['S_by_request']})

    def test_files_that_are_mapped_are_named(self):
        result = self.profile(command=['--way', 'mapped'])
        self.assertIn('memory-mapped', self.findings(result)['storage-not-separable'])
        self.assertIsNone(result['rates']['S'])
        self.assertEqual((result['reads']['mapped_files'], result['reads']['mapped_bytes']), (files, files * size))
        self.assertIn('000.bin', self.findings(result)['reads-mapped'])

    def test_what_a_program_without_tracer_reads_is_missed_and_named(self):
        result = self.profile(command=['--program', os.environ['STATIC_COPY'], '--step', '0.02'])
        self.assertIn('reads-partly-seen', self.findings(result))
        self.assertIn('a part', self.findings(result)['storage-not-separable'])

    def test_a_real_run_is_not_traced(self):
        run = self.run_program('--passive', command=[sys.executable, '-c', 'import os; print(os.environ.get("LD_PRELOAD", ""), "DSANALYZE_TRACE" in os.environ)'])
        self.assertIn(' False', run.stdout)
        self.assertNotIn('dsanalyze-trace', run.stdout)
        run = self.run_program('--passive', '--trace', self.folder / 'trace', command=['true'])
        self.assertIn('--trace: what a run under --passive reads is not traced', run.stderr)


if __name__ == '__main__':
    unittest.main(defaultTest='Reads')
