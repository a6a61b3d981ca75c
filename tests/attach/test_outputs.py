"""What a profiled script changes among its user's files is taken back; the script itself finds all that it wrote."""
import hashlib
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

from fake_launcher import Launcher, Plan, end, run

undo = os.environ['UNDO_OUTPUTS']

training = '''
import json, os, pathlib, shutil, sys, tempfile
import torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train():
    for x, in DataLoader(TensorDataset(torch.randn(64, 4)), 4):
        model(x).sum().backward()
        optimizer.step()
'''

rotating = training + '''
os.makedirs('configured/run')
pathlib.Path('configured/run/options.json').write_text('{}')
log = open('log.txt', 'a')
train()
state = model.state_dict()
for step in (1, 2, 3):
    torch.save(state, f'checkpoint-{step}.pt')
    os.remove(sorted(pathlib.Path('.').glob('checkpoint-*.pt'))[0])
assert list(map(str, pathlib.Path('.').glob('checkpoint-*.pt'))) == ['checkpoint-3.pt'], os.listdir()
assert torch.equal(torch.load('checkpoint-3.pt')['weight'], state['weight'])
os.replace('best.pt', 'best-before.pt')
with open('best.pt', 'wb') as file:
    torch.save(state, file)
with tempfile.NamedTemporaryFile(dir='.', delete=False) as file:
    torch.save(state, file)
os.rename(file.name, 'last.pt')
torch.jit.script(model).save('scripted.pt')
torch.jit.save(torch.jit.script(model), f='scripted-too.pt')
shutil.rmtree('old')
os.makedirs('tmp-old/deep')
open('tmp-old/deep/a', 'w').write('of the run')
os.rename('tmp-old', 'old')
shutil.copyfile('last.pt', 'copy.pt')
os.symlink('last.pt', 'newest')
os.unlink('link')
os.symlink('last.pt', 'link')
with open('state.json', 'r+') as file:
    file.write('XX')
os.truncate('numbers', 2)
log.write('trained')
log.close()
fd = os.open('.', os.O_RDONLY)
os.remove('at.pt', dir_fd=fd)
os.rename('numbers', 'counted', src_dir_fd=fd, dst_dir_fd=fd)
os.close(fd)
open('configured/run/options.json', 'w').write('of the run')
open('read-only', 'w').write('root may')
print('there', *sorted(os.listdir('.')))
if 'more' in sys.argv:
    while True:
        train()
'''

before = {'checkpoint-0.pt': b'zero', 'best.pt': b'best', 'last.pt': b'last', 'old/deep/b': b'b', 'old/c': b'', 'state.json': b'{"a": 1}', 'numbers': b'12345',
          'log.txt': b'old lines\n', 'at.pt': b'at', 'read-only': b'never'}


def content(folder):
    """Of every file its hash, of every link its target, with the mode."""
    return {str(path.relative_to(folder)): (path.lstat().st_mode, os.readlink(path) if path.is_symlink() else
                                            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None)
            for path in sorted(folder.rglob('*'))}


class Outputs(unittest.TestCase):
    def launch(self, script, mode='phases', plan=None, arguments=()):
        self.launcher = Launcher(plan or Plan(then=run(1000)), mode=mode, journals=mode == 'phases')
        folder = pathlib.Path(self.launcher.folder.name)
        self.addCleanup(self.launcher.folder.cleanup)
        self.work = folder / 'work'
        for name, data in before.items():
            path = self.work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        (self.work / 'link').symlink_to('best.pt')
        (self.work / 'read-only').chmod(0o444)
        (self.work / 'old').chmod(0o750)
        self.before = content(self.work)
        time.sleep(0.02)  # What is older than the folder of the journals was there before the run.
        os.rmdir(self.launcher.output)
        os.mkdir(self.launcher.output)
        self.addCleanup(subprocess.run, [undo, self.launcher.output], stdout=subprocess.DEVNULL, check=True)
        path = folder / 'script.py'
        path.write_text(script)
        return self.launcher.run(path, *arguments, folder=str(self.work))

    def undone(self):
        done = subprocess.run([undo, self.launcher.output], capture_output=True, text=True, check=False)
        self.assertEqual(done.stderr, '')
        self.assertEqual(done.returncode, 0)
        kept = '.dsanalyze-kept-' + os.path.basename(self.launcher.folder.name)
        self.assertEqual([folder for folder in self.work.parents if (folder / kept).exists()], [])
        return content(self.work)

    def test_all_is_as_before_but_for_what_was_new_before_the_training_began(self):
        self.assertIn('there ', self.launch(rotating))
        self.assertNotEqual(content(self.work), self.before)
        after = self.undone()
        self.assertEqual(sorted(set(after) - set(self.before)), ['configured', 'configured/run', 'configured/run/options.json'])
        self.assertEqual((self.work / 'configured/run/options.json').read_text(), '{}')
        self.assertEqual({name: after.get(name) for name in self.before}, self.before)
        notes = self.launcher.first.notes()
        self.assertEqual(set(notes), {'files-written'})
        self.assertEqual(notes['files-written']['paths'], [str(self.work / 'configured/run/options.json')])

    def test_so_it_is_when_the_launcher_ends_the_run(self):
        self.launch(rotating, plan=Plan(run(13), run(2), run(8), then=end), arguments=['more'])
        after = self.undone()
        self.assertEqual({name: after.get(name) for name in self.before}, self.before)

    def test_where_changes_cannot_be_written_down_originals_are_not_changed_and_the_script_hears_why(self):
        refused = training + '''
train()
with open('of the run', 'w') as file:
    file.write('as ever')
os.system('rm -r "$DSANALYZE_ATTACH_OUTPUT"')
with open('of the run', 'a') as file:
    file.write(', and on')
for change in (lambda: open('best.pt', 'wb'), lambda: open('log.txt', 'a'), lambda: os.remove('last.pt'), lambda: os.rename('last.pt', 'first.pt'),
               lambda: os.replace('of the run', 'numbers'), lambda: torch.save(1, 'checkpoint-0.pt'), lambda: os.truncate('state.json', 2)):
    try:
        change()
        print('changed')
    except OSError as error:
        assert '--keep-output' in str(error), error
        print('refused')
'''
        printed = self.launch(refused)
        self.assertEqual(printed.split(), ['refused'] * 7)
        os.mkdir(self.launcher.output)
        after = content(self.work)
        self.assertEqual({name: after.get(name) for name in self.before}, self.before)

    def test_backups_that_a_script_makes_at_its_start_are_taken_back(self):
        for when in ('', 'train()\n'):
            self.launch(training + when + '''
os.rename('old', 'old.bak')
os.makedirs('old')
open('old/new', 'w').write('of the run')
for name, to in (('best.pt', 'b3'), ('last.pt', 'best.pt'), ('state.json', 'last.pt')):
    os.rename(name, to)
open('state.json', 'w').write('of the run')
train()
''')
            after = self.undone()
            self.assertEqual({name: after.get(name) for name in self.before}, self.before)

    def test_a_rename_that_fails_changes_nothing(self):
        self.launch(training + '''
for first in (lambda: None, train):
    first()
    shutil.rmtree('tmp', ignore_errors=True)
    os.mkdir('tmp')
    open('tmp/c', 'w').write('of the run')
    try:
        os.rename('tmp', 'old')
    except OSError:
        shutil.copy('tmp/c', 'old/c')
        open('old/deep/b', 'w').write('of the run')
        os.system('rm -r tmp')
''')
        after = self.undone()
        self.assertEqual({name: after.get(name) for name in self.before}, self.before)

    def test_files_that_are_changed_in_place_have_their_content_back_under_all_names(self):
        self.launch(training + '''
os.link('best.pt', 'best-too.pt')
train()
with open('best-too.pt', 'r+b') as file:
    file.write(b'X')
with open('log.txt', 'a+') as file:
    file.seek(0)
    file.truncate()
    file.write('X')
handle = os.open('at.pt', os.O_RDWR)
os.ftruncate(handle, 0)
open('last.pt', 'w', opener=lambda path, flags: os.open(path, flags)).write('X')
os.makedirs('.cache')
os.rename('numbers', '.cache/numbers')
''')
        after = self.undone()
        self.assertEqual({name: after.get(name) for name in self.before}, self.before)

    def test_a_script_that_starts_itself_anew_keeps_the_first_originals(self):
        self.launch(training + '''
if not os.path.exists('again'):
    open('best.pt', 'w').write('1')
    open('again', 'w')
    os.execv(sys.executable, [sys.executable, *sys.argv])
open('last.pt', 'w').write('2')
train()
''')
        after = self.undone()
        self.assertEqual({name: after.get(name) for name in self.before}, self.before)

    def test_two_processes_that_change_the_same_files_leave_the_originals(self):
        self.launch(training + '''
train()
child = os.fork()
for i in range(200):
    open('best.pt', 'w').write(str(child))
    open('last.pt', 'w').write(str(i))
if not child:
    os._exit(0)
os.waitpid(child, 0)
''')
        after = self.undone()
        self.assertEqual({name: after.get(name) for name in self.before}, self.before)

    def test_a_passive_run_changes_what_the_script_says(self):
        self.launch(rotating, mode='passive')
        self.assertEqual(os.listdir(self.launcher.output), [])
        self.assertNotEqual((self.work / 'best.pt').read_bytes(), b'best')
        self.assertFalse((self.work / 'checkpoint-0.pt').exists())

    def test_folders_beside_a_file_that_is_changed_in_place_are_the_scripts_own(self):
        output = self.launch(training + '''
os.makedirs('data/a')
open('data/list', 'w').write('a')
train()
with open('state.json', 'r+') as file:
    file.write('XX')
print('folders', *sorted(entry.name for entry in os.scandir('.') if entry.is_dir()))
try:
    os.rmdir('best.pt')
except OSError:
    print('no folder')
os.remove('best.pt')
log = open('log.txt', 'a')
log.truncate(0)
log.close()
train()
''')
        self.assertIn('folders data old\nno folder', output)
        after = self.undone()
        self.assertEqual({name: after.get(name) for name in self.before}, self.before)

    def test_a_workers_new_files_are_caches_and_stay_and_originals_are_kept_all_the_same(self):
        self.launch(training + '''
class Cached(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        pathlib.Path(f'cached-{index}').write_text('made')
        pathlib.Path('best.pt').write_text('spoilt')
        return torch.zeros(4)
for epoch in range(2):
    for x in DataLoader(Cached(), 4, num_workers=2):
        model(x).sum().backward()
        optimizer.step()
''')
        after = self.undone()
        self.assertEqual(sum(name.startswith('cached-') for name in after), 64)
        self.assertEqual({name: after.get(name) for name in self.before}, self.before)

    def test_commands_are_named_as_what_they_write_stays(self):
        self.launch(training + "import subprocess\ntrain()\nsubprocess.run(['touch', 'touched'])\n")
        self.assertIn('touch', self.launcher.first.notes()['commands-started']['text'])


class Overlays(unittest.TestCase):
    @unittest.skipUnless(os.geteuid() == 0, 'mounting a file system takes root')
    def test_an_original_of_a_lower_layer_is_older_than_its_copy_and_comes_back(self):
        with tempfile.TemporaryDirectory(prefix='dsanalyze-test-') as folder:
            for name in ('lower', 'upper', 'work', 'merged', 'journals'):
                os.mkdir(os.path.join(folder, name))
            pathlib.Path(folder, 'lower', 'old.pt').write_text('original')
            changes = '''
mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged || exit 9
mkdir merged/kept
mv merged/old.pt merged/kept/1
printf '%s\\0' kept 1 "$PWD/merged/old.pt" "$PWD/merged/kept/1" > journals/journal-1
"$1" journals > /dev/null && cat merged/old.pt
'''
            run = subprocess.run(['unshare', '--mount', 'sh', '-c', changes, 'sh', undo], cwd=folder, capture_output=True, text=True, check=False)
        if run.returncode == 9:
            self.skipTest('no overlay can be mounted here')
        self.assertEqual((run.returncode, run.stdout), (0, 'original'), run.stderr)


if __name__ == '__main__':
    unittest.main()
