"""How the hook gets into a process, and what it says first."""
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

from fake_launcher import Launcher, Plan, end, here, run, site

train = here / 'trainings' / 'train.py'


def write(folder, name, text):
    path = pathlib.Path(folder, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


class Start(unittest.TestCase):
    def test_the_first_message_names_the_process(self):
        launcher = Launcher()
        output = launcher.start(train, '--samples', 8)
        self.assertIn('done 2', output)
        hello = launcher.first.messages[0]
        self.assertEqual((hello['t'], hello['rank'], hello['world']), ('hello', 0, 1))
        self.assertGreater(hello['pid'], 0)

    def test_a_script_whose_name_is_no_text_is_followed(self):
        launcher = Launcher(Plan(run(5), then=end))
        name = os.path.join(os.fsencode(launcher.folder.name), b'tr\xe4in.py')
        shutil.copy(train, name)
        launcher.run(os.fsdecode(name), '--samples', 80)
        self.assertTrue(launcher.first.of('loader')[0]['file'].endswith('tr?in.py'))

    def test_the_loader_is_named_with_the_line_that_makes_it(self):
        launcher = Launcher()
        launcher.run(train, '--samples', 32, '--workers', 2, '--shuffle')
        loader, = launcher.first.of('loader')
        self.assertEqual((loader['name'], loader['dataset_class']), ('torch.utils.data.DataLoader', '__main__.Map'))
        self.assertEqual((loader['workers'], loader['prefetch'], loader['batch_size'], loader['batches'], loader['samples']), (2, 2, 4, 8, 32))
        self.assertEqual(loader['style'], 'map')
        self.assertEqual(loader['file'], str(train))
        self.assertIn('loader = DataLoader(', train.read_text().splitlines()[loader['line'] - 1])

    @unittest.skipUnless(os.getuid() == 0 and all(folder.stat().st_mode & 0o005 == 0o005 for place in (site, pathlib.Path(sys.executable))
                                                  for folder in place.resolve().parents), 'only root may become another user, who has to find Python and the hook')
    def test_a_process_that_became_another_user_says_so_where_it_ends(self):
        launcher = Launcher()
        trains = 'import torch; next(iter(torch.utils.data.DataLoader([1]))); print("trained")'
        script = write(launcher.folder.name, 'script.py', f'import os, sys\nos.setuid(65534)\nos.execv(sys.executable, [sys.executable, "-c", {trains!r}])\n')
        output = launcher.run(script, expect=1)
        self.assertIn('it changed its user', output)
        self.assertNotIn('trained', output)

    def test_the_dict_that_a_script_had_from_locals_stays_as_it_made_it(self):
        launcher = Launcher(mode='passive')
        script = write(launcher.folder.name, 'script.py', '''
from torch.utils.data import DataLoader
class Trainer:
    def __init__(self, rate):
        options = locals()
        options['rate'] = 5
        del options['self']
        self.loader = DataLoader([1, 2])
        print(sorted(options.items()))
Trainer(1)
''')
        self.assertIn("[('rate', 5)]", launcher.run(script))

    def test_a_process_without_torch_loads_nothing_more_than_it_would(self):
        script = "import sys; print(*sorted(set(sys.modules) - {'sitecustomize'}))"
        launcher = Launcher()
        with_hook = launcher.start('-c', script)
        plain = subprocess.run([launcher.python, '-c', script], env={**launcher.environment, 'PYTHONPATH': ''}, capture_output=True, text=True, check=True).stdout
        self.assertEqual(with_hook, plain)
        self.assertEqual(launcher.connections, [])

    def test_a_script_with_torch_loads_nothing_more_than_it_would(self):
        """But for the interpreter's own modules by which is told where a training stands that is led through phases."""
        script = "import torch, sys; print(*sorted(name for name in sys.modules if not name.startswith('_dsanalyze_attach') and name != 'sitecustomize'))"
        launcher = Launcher()
        with_hook = launcher.start('-c', script)
        plain = subprocess.run([launcher.python, '-c', script], env={**launcher.environment, 'PYTHONPATH': ''}, capture_output=True, text=True, check=True).stdout
        self.assertEqual(set(with_hook.split()) - {'faulthandler', 'mmap'}, set(plain.split()))
        self.assertEqual(launcher.first.messages[0]['t'], 'hello')
        launcher = Launcher(mode='passive')
        self.assertEqual(launcher.start('-c', script), plain)

    def test_the_next_sitecustomize_runs_as_it_would_without_the_hook(self):
        launcher = Launcher()
        own = write(launcher.folder.name, 'own/sitecustomize.py', "import sys\nprint('own', __name__, __file__, sys.modules['sitecustomize'].__file__ == __file__)\n")
        launcher.environment['PYTHONPATH'] = os.pathsep.join([str(site), str(own.parent)])
        output = launcher.start('-c', "import sys, sitecustomize; print(sitecustomize.__file__, sys.path[1], len(sys.meta_path))")
        self.assertEqual(output.splitlines()[0], 'own sitecustomize {} True'.format(own))
        self.assertEqual(output.splitlines()[1].split()[:2], [str(own), str(own.parent)])

    def test_an_error_in_the_next_sitecustomize_is_reported_as_it_would_be(self):
        launcher = Launcher()
        own = write(launcher.folder.name, 'own/sitecustomize.py', "raise ValueError('mine')\n")
        launcher.environment['PYTHONPATH'] = os.pathsep.join([str(site), str(own.parent)])
        with_hook = launcher.start('-c', "import sys; print('sitecustomize' in sys.modules)")
        plain = subprocess.run([launcher.python, '-c', "import sys; print('sitecustomize' in sys.modules)"], text=True, check=True,
                               env={**launcher.environment, 'PYTHONPATH': str(own.parent)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
        self.assertEqual(with_hook, plain)

    def test_without_a_next_sitecustomize_the_import_fails_as_it_would(self):
        launcher = Launcher()
        script = "import sys, site; sys.path[:] = ['{}']; site.execsitecustomize(); print('sitecustomize' in sys.modules, sys.path, len(sys.meta_path))".format(site)
        self.assertEqual(launcher.start('-S', '-c', script), 'False [] 6\n')

    def test_a_launcher_that_is_gone_leaves_a_real_run_alone_and_lets_no_other_train_on(self):
        launcher = Launcher(mode='passive')
        launcher.environment['DSANALYZE_ATTACH'] = '/nonexistent/socket'
        self.assertIn('done 2', launcher.run(train, '--samples', 8))
        launcher.environment['DSANALYZE_ATTACH_MODE'] = 'phases'
        self.assertEqual(launcher.run(train, '--samples', 8, expect=1), '')
        self.assertEqual(launcher.connections, [])

    def test_a_launcher_that_dies_during_a_window_ends_the_run(self):
        class Dies(Plan):
            def answer(self, message):
                raise OSError('gone')

        launcher = Launcher(Dies())
        self.assertNotIn('done', launcher.run(train, '--samples', 64, '--workers', 2, expect=1))

    def test_workers_of_every_start_method_say_nothing(self):
        for start in ('spawn', 'forkserver'):
            launcher = Launcher(Plan())
            self.assertIn('done 4', launcher.run(train, '--samples', 16, '--workers', 1, '--start', start))
            self.assertEqual(len(launcher.connections), 1, start)


if __name__ == '__main__':
    unittest.main()
