"""Loaders of other libraries that are no DataLoader, followed without a line in the script: libraries made for the tests, with the interfaces of DALI's and SPDL's."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from fake_launcher import run
from script_rig import ScriptTest

dali = '''
import torch

class _Base:
    """Its own iterator, which begins anew after its end."""

    def __init__(self, batches):
        self.batches, self.at = batches, 0
    def __iter__(self):
        if self.at >= self.batches:
            self.at = 0
        return self
    def __len__(self):
        return self.batches

class DALIGenericIterator(_Base):
    def __next__(self):
        if self.at >= self.batches:
            raise StopIteration
        self.at += 1
        return [{'data': torch.full((4, 4), float(self.at))}]
'''
spdl = '''
import torch

class DataLoader:
    def __init__(self, batches):
        self.batches = batches
    def __iter__(self):
        for number in range(self.batches):
            yield torch.full((4, 4), float(number))
    def __len__(self):
        return self.batches
'''
libraries = {'nvidia/dali/plugin/pytorch/__init__.py': dali, 'spdl/dataloader/__init__.py': spdl}


class Others(ScriptTest):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix='dsanalyze-test-')
        self.addCleanup(self.folder.cleanup)
        for name, text in libraries.items():
            path = pathlib.Path(self.folder.name, name)
            path.parent.mkdir(parents=True)
            path.write_text(text)
        self.text = f'sys.path.insert(0, {self.folder.name!r})\n'

    def alone(self):
        path = pathlib.Path(self.launcher.folder.name, 'script.py')
        return subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True, env={name: value for name, value in os.environ.items() if name != 'PYTHONPATH'}).stdout

    def test_an_iterator_of_dali_is_followed_over_its_epochs(self):
        output, connection = self.launch(self.text + '''
from nvidia.dali.plugin.pytorch import DALIGenericIterator
loader = DALIGenericIterator(40)
for epoch in range(4):
    for number, batch in enumerate(loader):
        step(batch[0]['data'])
    print(epoch, number, len(loader))
''')
        self.assertEqual(output, ''.join(f'{epoch} 39 40\n' for epoch in range(4)))
        self.check(connection, notes=('stream-goes-on',))
        loader = connection.of('loader')[0]
        self.assertEqual((loader['style'], loader['name']), ('watched', 'nvidia.dali.plugin.pytorch.DALIGenericIterator'))
        self.assertTrue(loader['file'].endswith('script.py'))

    def test_a_loader_of_spdl_is_followed_as_one_over_its_passes(self):
        output, connection = self.launch(self.text + '''
import spdl.dataloader
loader = spdl.dataloader.DataLoader(40)
for epoch in range(4):
    for number, x in enumerate(loader):
        step(x)
    print(epoch, number)
''')
        self.assertEqual(output, ''.join(f'{epoch} 39\n' for epoch in range(4)))
        self.check(connection)
        self.assertEqual(connection.of('loader')[0]['name'], 'spdl.dataloader.DataLoader')

    def test_a_pass_that_is_watched_too_is_followed_once(self):
        _, connection = self.launch(self.text + '''
import dsanalyze, spdl.dataloader
loader = dsanalyze.watch(spdl.dataloader.DataLoader(300))
for x in loader:
    step(x)
''')
        self.check(connection)

    def test_what_a_script_sees_of_a_real_run_is_the_librarys_own(self):
        text = self.text + '''
import gc, weakref
from nvidia.dali.plugin.pytorch import DALIGenericIterator
import spdl.dataloader
torch.manual_seed(5)

class Broken(spdl.dataloader.DataLoader):
    def __iter__(self):
        yield from super().__iter__()
        raise KeyError('no such sample')

loader = DALIGenericIterator(6)
for batch in loader:
    if batch[0]['data'][0, 0] == 3:
        break
print(next(loader)[0]['data'][0, 0].item(), [batch[0]['data'][0, 0].item() for batch in loader], [len(batch) for batch in loader])
for kind in (spdl.dataloader.DataLoader, Broken):
    try:
        print([x[0, 0].item() for x in kind(3)])
    except KeyError as error:
        print('caught', error)
print(torch.rand(1).item())
gone = weakref.ref(loader)
del loader, batch
print(gone() is None)
for x in spdl.dataloader.DataLoader(4):
    step(x)
'''
        for mode in ('passive', 'phases'):
            output, _ = self.launch(text, run(1000), mode=mode)
            with self.subTest(mode):
                self.assertEqual(output, self.alone())
                self.assertIn("caught 'no such sample'", output)

    def test_a_library_whose_classes_cannot_be_changed_is_left_alone(self):
        pathlib.Path(self.folder.name, 'spdl/dataloader/__init__.py').write_text('DataLoader = 3\nPyTorchDataLoader = list\n')
        output, _ = self.launch(self.text + 'import spdl.dataloader\nprint(spdl.dataloader.DataLoader)\nfor x in DataLoader(data(), 4):\n    step(x[0])\n', run(1000))
        self.assertEqual(output, '3\n')


if __name__ == '__main__':
    unittest.main()
