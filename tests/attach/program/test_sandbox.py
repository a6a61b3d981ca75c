"""What `dsanalyze profile -- COMMAND` does to the user's files: nothing, whatever the command does and whatever is killed when."""
import hashlib
import json
import os
import pathlib
import signal
import stat
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from test_program import ProgramTest, processes_of, program

script = '''
import os, shutil, sqlite3, subprocess, sys, torch
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def change(step):
    open('log.csv', 'a').write('%d\\n' % step)
    torch.save(model.state_dict(), 'best.tmp')
    os.replace('best.tmp', 'best.pt')
    shutil.rmtree('out', ignore_errors=True)
    os.makedirs('out/sub')
    with open('inplace', 'r+b') as file:
        file.write(b'changed')
    with sqlite3.connect('runs.db') as runs:
        runs.execute('insert into runs values (%d)' % step)
    runs.close()
    subprocess.run(['sh', '-c', 'echo shell >> log.csv; rm -f other'], check=True)

step = 0
while True:
    for x, in DataLoader(TensorDataset(torch.randn(400, 4)), 4, num_workers=1):
        model(x).sum().backward()
        optimizer.step()
        step += 1
        if step % 20 == 5:
            change(step)
            if len(sys.argv) > 1:
                open(sys.argv[1], 'w').close()
'''


def tree(root):
    """A line for each entry: what it is, who may do what with it, when it was changed, and what is in it."""
    found = {}
    for path in sorted(root.rglob('*')):
        facts = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(facts.st_mode) else os.readlink(path) if stat.S_ISLNK(facts.st_mode) else ''
        attributes = {name: os.getxattr(path, name, follow_symlinks=False) for name in os.listxattr(path, follow_symlinks=False)}
        found[str(path.relative_to(root))] = (facts.st_mode, facts.st_uid, facts.st_gid, facts.st_nlink, facts.st_mtime_ns, attributes, content)
    return found


def permits(*command):
    return subprocess.run(command, capture_output=True).returncode == 0


class Sandbox(ProgramTest):
    def setUp(self):
        super().setUp()
        self.work = self.folder / 'work'
        (self.work / 'out' / 'old').mkdir(parents=True)
        for name in ('log.csv', 'best.pt', 'inplace', 'other', 'out/old/1'):
            (self.work / name).write_text('of the user')
        os.link(self.work / 'other', self.work / 'linked')
        subprocess.run([sys.executable, '-c', 'import sqlite3; runs = sqlite3.connect("runs.db"); runs.execute("create table runs (step)"); runs.commit()'],
                       cwd=self.work, check=True)
        self.path = self.folder / 'script.py'
        self.path.write_text(script)
        self.before = tree(self.work)
        self.changed = self.shared / 'changed'

    def assert_untouched(self):
        self.assert_nothing_left()
        self.assertEqual(tree(self.work), self.before)
        self.assertEqual(list((self.folder / 'state' / 'dsanalyze').glob('sandbox')), [])

    def profile(self, *options, prefix=(), environment=None):
        run = subprocess.run([*prefix, *self.command('--time-budget', '4s', '--json', *options, command=[sys.executable, self.path])], capture_output=True,
                             text=True, env=dict(self.environment, **(environment or {})), timeout=200, cwd=self.work)
        self.assertEqual(run.returncode, 0, run.stderr)
        result = json.loads(run.stdout)
        return result, {finding['code']: finding['message'] for finding in result['findings']}, run.stderr

    def start(self, *options):
        running = subprocess.Popen(self.command('--time-budget', '60s', *options, command=[sys.executable, self.path, self.changed]), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env=self.environment, cwd=self.work)
        self.addCleanup(running.wait)
        self.addCleanup(running.kill)
        while not self.changed.exists():
            self.assertIsNone(running.poll())
            time.sleep(0.02)
        return running

    def test_what_a_command_writes_is_discarded_and_said(self):
        result, findings, said = self.profile()
        self.assertIn('sandbox and is discarded', said)
        self.assertIn(str(self.work), findings['outputs-discarded'])
        self.assertEqual([run['name'] for run in result['runs']], ['full', 'synthetic', 'prep', 'busy', 'cached'])
        self.assert_untouched()

    def test_what_is_to_be_kept_stays_and_all_else_is_discarded(self):
        self.profile('--keep', 'out')
        self.assertTrue((self.work / 'out' / 'sub').is_dir())
        others = [{path: facts for path, facts in each.items() if not path.startswith('out')} for each in (tree(self.work), self.before)]
        self.assertEqual(*others)
        for options, why in ((['out/none'], 'is not there'), (['.'], 'the command works in there'), (['out', '--keep-output'], 'leave one of the two out')):
            run = self.run_program('--keep', *options, command=[sys.executable, self.path], cwd=self.work)
            self.assertEqual((run.returncode, why in run.stderr), (2, True), run.stderr)

    def test_it_is_discarded_whatever_is_killed(self):
        for signals in ([signal.SIGINT], [signal.SIGINT, signal.SIGINT], [signal.SIGKILL]):
            self.changed.unlink(missing_ok=True)
            running = self.start()
            for number in signals:
                running.send_signal(number)
            running.wait()
            self.assert_untouched()

    def test_what_is_left_when_all_are_killed_at_once_is_swept_by_the_next_start(self):
        self.start()
        for process in processes_of(self.mark, 'stat'):
            os.kill(int(process.split()[0]), signal.SIGKILL)
        self.assertEqual(tree(self.work), self.before)
        self.assertTrue(list((self.folder / 'state' / 'dsanalyze' / 'sandbox').iterdir()))
        self.profile()
        self.assert_untouched()

    def test_two_profiles_in_one_folder_leave_it_as_it_was_in_either_order(self):
        for first_ends_first in (True, False):
            self.changed.unlink(missing_ok=True)
            first = self.start()
            self.changed.unlink()
            second = self.start()
            for running in (first, second) if first_ends_first else (second, first):
                running.send_signal(signal.SIGINT)
                running.wait()
            self.assert_untouched()

    def test_a_folder_for_it_can_be_chosen_and_output_can_be_kept(self):
        place = self.folder / 'elsewhere'
        place.mkdir()
        self.profile('--sandbox', place)
        self.assertEqual(list(place.iterdir()), [])
        self.assert_untouched()
        _, findings, said = self.profile('--keep-output')
        self.assertIn('stays (--keep-output)', said)
        self.assertNotIn('outputs-discarded', findings)
        self.assertNotEqual((self.work / 'best.pt').read_text(errors='replace'), 'of the user')

    @unittest.skipUnless(os.geteuid() == 0 and permits('unshare', '-m', 'true'), 'only root becomes somebody else')
    def test_an_ordinary_user_has_it_too_and_without_it_only_what_an_ordinary_run_does(self):
        user = ('setpriv', '--reuid=65534', '--regid=65534', '--clear-groups')
        for path in (self.folder, *self.folder.rglob('*')):
            os.chown(path, 65534, 65534, follow_symlinks=False)
        self.before = tree(self.work)
        _, findings, _ = self.profile(prefix=user, environment={'HOME': str(self.folder)})
        self.assertIn('outputs-discarded', findings)
        self.assert_untouched()
        # In a chroot no user may make a namespace, as in containers and where they are switched off.
        root = self.folder / 'root'
        root.mkdir()
        within = ('unshare', '-m', 'sh', '-c', 'mount --rbind / "$0" && exec chroot "$0" "$@"', str(root), 'env', '-C', str(self.work))
        for who in (user, ('setpriv', '--bounding-set=-sys_admin')):
            result, findings, said = self.profile(prefix=(*within, *who), environment={'HOME': str(self.folder)})
            self.assertIn('no sandbox', said)
            self.assertIn('--keep-output', findings['sandbox-refused'])
            self.assertEqual([run['name'] for run in result['runs']], ['full', 'prep'])
            self.assertIn('as found', result['rates']['G']['method'])
            self.assertGreater(result['rates']['G']['samples_per_s'], result['runs'][0]['samples_per_s'])
            self.assertNotIn('phases-missing', findings)
            self.assertNotEqual((self.work / 'best.pt').read_text(errors='replace'), 'of the user')


if __name__ == '__main__':
    unittest.main()
