"""Memory for the page cache and a slower storage of a launched training: `dsanalyze whatif --validate` runs them in cgroups."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

from test_program import ProgramTest, program

here = pathlib.Path(__file__).resolve().parent
files, size = 1600, 60_000


class Limits(ProgramTest):
    def whatif(self, *words, code=(0, 1, 4)):
        run = subprocess.run([program, 'whatif', self.saved, *words], capture_output=True, text=True, env=self.environment, timeout=280, check=False)
        self.assertIn(run.returncode, code, run.stderr + run.stdout)
        return run

    def profile(self):
        data = self.folder / 'data'
        data.mkdir()
        for number in range(files):
            (data / f'{number:04}.bin').write_bytes(os.urandom(size))
        os.sync()
        self.saved = self.folder / 'profile.json'
        run = self.run_program('--time-budget', '12s', '-o', self.saved, command=[sys.executable, here / 'trainings' / 'train_files.py', data, '--times', '1'])
        self.assertEqual(run.returncode, 0, run.stderr)
        result = json.loads(self.saved.read_text())
        if result['rates']['S'] is None:
            self.skipTest(' '.join(finding['message'] for finding in result['findings'] if finding['code'] == 'storage-not-separable'))
        self.assertEqual(result['reads']['dataset_path'], str(data))
        return result

    def test_they_are_run_where_control_groups_permit_and_what_cannot_be_run_says_why(self):
        self.profile()
        run = self.whatif('--cache-size', '50%,20%', '--storage', '8MB/s,100GB/s,2x', '--all', '--validate', '--time-budget', '66s', '--json')
        answers = {json.dumps({key: value for key, value in answer['change'].items() if key != 'cache_bytes'}): answer for answer in json.loads(run.stdout)['answers']}
        self.assertIn('below 32 MiB', answers['{"cache_fraction": 0.2}']['not_measured'])
        self.assertIn('a faster one cannot be run', answers['{"storage_bytes_per_s": 100000000000.0}']['not_measured'])
        self.assertIn('given as a rate', answers['{"storage_factor": 2.0}']['not_measured'])
        both = answers['{"cache_fraction": 0.5, "storage_bytes_per_s": 8000000.0}']
        if both.get('not_measured'):  # no root, or no cgroups
            self.skipTest(both['not_measured'])
        self.assertGreater(both['measured']['samples_per_s'], 0)
        self.assertEqual(both['bottleneck_detail'], 'storage')  # As predicted: the rate is given, and far below what was measured of prep.
        self.assertEqual([folder for folder, _, _ in os.walk('/sys/fs/cgroup') if pathlib.Path(folder).name.startswith('dsanalyze-')], [])
        self.check_other_hardware()
        # What is not the profile's dataset any more is said before anything runs.
        (self.folder / 'data' / 'more.bin').write_bytes(b'x' * files * size)
        run = self.whatif('--cache-size', '50%', '--validate', '--json')
        changed, = (answer for answer in json.loads(run.stdout)['answers'] if answer['change'])
        self.assertIn('which files its epochs read is not known', changed['not_measured'])

    def check_other_hardware(self):
        """Of the same profile: a search among machines, and the sliders of its page."""
        found = json.loads(self.whatif('--search', '--prices', 'google-us-central1', '--measured-accelerator', 'v100', '--json').stdout)['search']
        self.assertGreater(found['setups'], 100)
        self.assertIn('workers-as-needed', {finding['code'] for finding in found['findings']})
        self.assertIn('--workers does not go with --search', self.whatif('--search', '--prices', 'google-us-central1', '--workers', '4', code=(2,)).stderr)
        page = self.folder / 'page.html'
        subprocess.run([program, 'report', self.saved, '-o', page], capture_output=True, env=self.environment, check=True)
        live, = json.loads(page.read_text().split('id="record">')[1].split('</script>')[0])['live']
        self.assertEqual([axis['name'] for axis in live['axes'] if axis['points']],
                         ['workers', 'cores', 'cache_fraction', 'accelerator_speed', 'storage_factor'])


if __name__ == '__main__':
    unittest.main()
