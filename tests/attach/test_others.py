"""Loaders of other libraries that are no DataLoader, followed without a line in the script: libraries made for the tests, with the interfaces of DALI's and SPDL's."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from fake_launcher import run, switch
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
    def __init__(self, batches):
        super().__init__(batches)
        self.first = DALIGenericIterator.__next__(self)
    def reset(self):
        self.at = 0
    def __next__(self):
        if self.__dict__.get('first') is not None:
            first, self.first = self.first, None
            return first
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
''', run(5), switch('synthetic'), run(20))
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
again = iter(loader)
print(again is loader, len(again), next(again)[0]['data'][0, 0].item(), next(loader)[0]['data'][0, 0].item())
again.reset()
print([batch[0]['data'][0, 0].item() for batch in zip(*[loader] * 2) for batch in batch], len(list(loader)))

class Doubled(DALIGenericIterator):
    def __next__(self):
        return [{'data': 2 * super().__next__()[0]['data']}]

print([batch[0]['data'][0, 0].item() for batch in Doubled(3)])
it = iter(DALIGenericIterator(3))
print([len([batch for batch in it]) for _ in range(3)])
generator = iter(spdl.dataloader.DataLoader(3))
print(next(generator)[0, 0].item(), generator.close(), list(generator), type(generator).__name__)

class Once(spdl.dataloader.DataLoader):
    def __iter__(self):
        if self.__dict__.setdefault('begun', 0):
            raise RuntimeError('once only')
        self.begun = 1
        return super().__iter__()

once = Once(2)
try:
    print(len(list(once)), len(list(once)))
except RuntimeError as error:
    print('caught', error)
print(torch.rand(1).item())
del again
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

    def test_whatever_way_a_library_is_found_its_import_is_the_scripts(self):
        before = f'''
import importlib.abc, importlib.machinery, importlib.util, sys
sys.path.insert(0, {self.folder.name!r})

class Static(importlib.abc.MetaPathFinder):
    class Loader:
        create_module = staticmethod(lambda spec: None)
        exec_module = staticmethod(lambda module: module.__dict__.update(DataLoader=Stubborn, __name__='other'))
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, Static.Loader) if name in ('spdl.dataloader', 'one_more') else None

class Meta(type):
    def __setattr__(cls, name, value):
        raise AttributeError('sealed')

class Stubborn(metaclass=Meta):
    def __iter__(self):
        return iter([])
'''
        text = '''
sys.meta_path.insert(1, Static())
for name in ('spdl.dataloader', 'spdl.dataloader', 'nothing'):
    print(importlib.util.find_spec(name) is None)
import spdl.dataloader
import one_more
print(list(spdl.dataloader.DataLoader()), one_more.__name__)
for x in DataLoader(data(), 4):
    step(x[0])
'''
        output, _ = self.launch(before + text, run(1000))
        self.assertEqual(output, 'False\nFalse\nTrue\n[] other\n')


if __name__ == '__main__':
    unittest.main()
