"""dsanalyze.Loader in jobs that `dsanalyze share` started."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from test_loader import made_images

program = os.environ.get('DSANALYZE', 'dsanalyze')

script = '''
import json, os, sys
import dsanalyze
loader = dsanalyze.Loader(sys.argv[1], 8, with_ids=True, **json.loads(sys.argv[2]))
said = {'length': len(loader), 'classes': loader.classes, 'passes': [], 'in_place': []}
def is_shared(address):
    for line in open('/proc/self/maps'):
        begin, end = (int(word, 16) for word in line.split()[0].split('-'))
        if begin <= address < end: return line.split()[1][3] == 's'
for number in range(4):
    ids = []
    for at, (images, labels, of_batch) in enumerate(loader):
        ids += of_batch.tolist()
        said['in_place'].append(is_shared(images.data_ptr()))
        assert tuple(images.shape[1:]) == (3, 224, 224), images.shape
        if number == 1 and at == 2: break
    images = None  # One that is read in place holds up those that follow.
    said['passes'].append(ids)
said['epoch'] = loader.epoch
try: loader.state_dict()
except dsanalyze.LoaderError as error: said['state'] = str(error)
try: loader.set_epoch(0)
except dsanalyze.LoaderError as error: said['set_epoch'] = str(error)
open(os.environ['SAID'] + os.environ['DSANALYZE_JOB'], 'w').write(json.dumps(said))
'''


class Shared(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory(prefix='dsanalyze-test-')
        self.addCleanup(self.place.cleanup)
        self.folder = pathlib.Path(self.place.name)
        made_images(self.folder / 'data', 44)

    def shared(self, options, *words):
        (self.folder / 'job.py').write_text(script)
        run = subprocess.run([program, 'share', self.folder / 'data', '--jobs', '2', '--epochs', '3', '--batch-size', '8', '--dtype', 'uint8', *words, '--', sys.executable,
                              self.folder / 'job.py', self.folder / 'data', json.dumps(options)], env=dict(os.environ, SAID=str(self.folder / 'said')), capture_output=True, text=True,
                             timeout=120, check=False)
        return run, [json.loads(path.read_text()) for path in sorted(self.folder.glob('said?'))]

    def test_what_the_group_decides_is_refused_by_name(self):
        for name, value in (('shuffle', False), ('world_size', 2), ('layout', 'nhwc')):
            run, _ = self.shared({name: value})
            self.assertIn(f'ValueError: {name}: found', run.stderr)

    def test_a_script_that_says_what_it_needs_alone_runs_in_a_group(self):
        run, said = self.shared({'cache_size': '35%', 'workers': 2, 'on_error': 'fail', 'index': '/nowhere'})
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(len(said), 2)

    def test_jobs_have_the_same_batches_epoch_after_epoch(self):
        for options, words in (({}, ()), ({'copy': False}, ()), ({'copy': False}, ('--held', '1')), ({'copy': False}, ('--held', '4'))):
            run, said = self.shared(options, *words)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual(len(said), 2)
            for job in said:
                self.assertEqual((job['length'], job['classes']), (6, ['class0', 'class1', 'class2']))
                # The second pass is left after three batches, and the third is the next epoch, whole; the fourth finds the group's end.
                self.assertEqual([len(ids) for ids in job['passes']], [44, 24, 44, 0])
                self.assertEqual(sorted(job['passes'][2]), list(range(44)))
                self.assertIn('dsanalyze share', job['state'])
                self.assertEqual(set(job['in_place']), {'copy' in options and '1' not in words})
                self.assertIn('next epoch of the group', job['set_epoch'])
            self.assertEqual(said[0]['passes'], said[1]['passes'])
            self.assertIn('this pass has no batches', run.stderr)

    def test_what_the_group_has_otherwise_is_refused(self):
        for options, name in (({'dtype': 'float32'}, 'dtype'), ({'seed': 7}, 'seed')):
            run, said = self.shared(options)
            self.assertEqual(said, [])
            self.assertNotEqual(run.returncode, 0)
            self.assertIn(f'{name}: found', run.stderr)


if __name__ == '__main__':
    unittest.main()
