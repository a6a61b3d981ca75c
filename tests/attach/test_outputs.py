"""Checkpoints of a profiled script go elsewhere, and the script finds them there again."""
import os
import pathlib
import unittest

from fake_launcher import Launcher, Plan, end, run

script = '''
import os, pathlib, shutil, sys
import torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, in DataLoader(TensorDataset(torch.randn(64, 4)), 4):
    model(x).sum().backward()
    optimizer.step()
state = model.state_dict()
os.makedirs('runs', exist_ok=True)
torch.save(state, 'runs/a.pt')
torch.save(state, pathlib.Path('runs') / 'b.tmp')
os.replace('runs/b.tmp', 'runs/b.pt')
shutil.copyfile('runs/a.pt', 'runs/best.pt')
torch.save(state, 'old.pt')
assert os.path.exists('runs/b.pt') and pathlib.Path('runs/best.pt').exists() and not os.path.exists('runs/b.tmp')
for name in ('runs/a.pt', pathlib.Path('runs/b.pt'), 'runs/best.pt', 'old.pt'):
    assert torch.equal(torch.load(name)['weight'], state['weight'])
with open('runs/a.pt', 'rb') as file:
    assert torch.equal(torch.load(file)['weight'], state['weight'])
assert torch.equal(torch.load(f='runs/a.pt')['weight'], state['weight']) and open(file='runs/a.pt', mode='rb').read()
torch.save(obj=state, f='runs/c.pt')
os.rename(src='runs/c.pt', dst='runs/d.pt')
os.unlink('runs/d.pt')
assert os.stat in os.supports_dir_fd
shutil.rmtree('nothing', ignore_errors=True)
os.remove('runs/a.pt')
assert not os.path.exists('runs/a.pt')
with open('log.txt', 'w') as log:
    log.write('done')
print('there', *sorted(os.listdir('runs')), *sorted(os.listdir('.')))
if 'more' in sys.argv:
    while True:
        for x, in DataLoader(TensorDataset(torch.randn(64, 4)), 4):
            model(x).sum().backward()
            optimizer.step()
'''


class Outputs(unittest.TestCase):
    def launch(self, mode='phases', plan=None, arguments=()):
        self.launcher = Launcher(plan or Plan(then=run(1000)), mode=mode)
        self.work = pathlib.Path(self.launcher.folder.name, 'work')
        self.work.mkdir()
        path = pathlib.Path(self.launcher.folder.name, 'script.py')
        path.write_text(script)
        (self.work / 'old.pt').write_bytes(b'before')
        return self.launcher.run(path, *arguments, folder=str(self.work))

    def test_checkpoints_go_to_the_launchers_folder_and_are_found_there(self):
        self.assertIn('there log.txt old.pt runs', self.launch())
        self.assertEqual((self.work / 'old.pt').read_bytes(), b'before')
        diverted = {os.path.relpath(path, self.launcher.output + str(self.work)) for path in pathlib.Path(self.launcher.output).rglob('*') if path.is_file()}
        self.assertEqual(diverted, {'runs/b.pt', 'runs/best.pt', 'old.pt'})
        notes = self.launcher.first.notes()
        self.assertEqual(notes['outputs-diverted']['paths'], [str(self.work / name) for name in ('old.pt', 'runs/b.pt', 'runs/best.pt')])
        self.assertEqual(notes['files-written']['paths'], [str(self.work / 'log.txt')])

    def test_they_are_named_when_the_launcher_ends_the_run(self):
        self.launch(plan=Plan(run(13), run(2), run(8), then=end), arguments=['more'])
        self.assertEqual(set(self.launcher.first.notes()), {'outputs-diverted', 'files-written'})

    def test_a_passive_run_writes_where_the_script_says(self):
        self.assertIn('there b.pt best.pt log.txt old.pt runs', self.launch(mode='passive'))
        self.assertNotEqual((self.work / 'old.pt').read_bytes(), b'before')
        self.assertEqual(os.listdir(self.launcher.output), [])


if __name__ == '__main__':
    unittest.main()
