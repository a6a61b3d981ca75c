"""The public names of the package as type checkers see them."""
import ast
import inspect
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import dsanalyze

package = pathlib.Path(dsanalyze.__file__).parent

used = '''
import dsanalyze

loader = dsanalyze.Loader('/data', 256, prep=[dsanalyze.RandomResizedCrop(224), dsanalyze.Normalize()], cache_size='35%')
state: dict = loader.state_dict()
length: int = len(loader)
watched: list = dsanalyze.watch([1, 2])
with dsanalyze.Loader('/data') as other:
    for images, labels in other:
        print(images, labels)
'''
# Each line is wrong in one way that a checker can see.
misused = '''
import dsanalyze

dsanalyze.Loader('/data', batch='many')
dsanalyze.Loader('/data', 'many')
dsanalyze.Loader('/data').epoch.upper()
dsanalyze.RandomResizedCrop('224')
dsanalyze.Loader('/data', cache_size=35)
dsanalyze.NoSuchName
'''


def declared():
    """Public names that are imported for type checkers, with their modules."""
    tree = ast.parse((package / '__init__.py').read_text())
    guarded, = (node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == 'TYPE_CHECKING')
    return {name.name: each.module for each in guarded.body if isinstance(each, ast.ImportFrom) and each.level == 1 for name in each.names}


class Types(unittest.TestCase):
    def test_every_public_name_is_declared_for_type_checkers_where_it_is(self):
        names = declared()
        self.assertEqual(sorted([*names, 'watch']), sorted(dsanalyze.__all__))
        for name, module in names.items():
            self.assertEqual(getattr(dsanalyze, name).__module__, f'dsanalyze.{module}', name)
        with self.assertRaisesRegex(AttributeError, 'NoSuchName'):
            dsanalyze.NoSuchName

    def test_every_argument_of_a_public_function_has_a_type(self):
        for name in dsanalyze.__all__:
            public = getattr(dsanalyze, name)
            functions = [public]
            if inspect.isclass(public):
                functions = [function for of, function in vars(public).items() if inspect.isfunction(function) and (of == '__init__' or not of.startswith('_'))]
            for function in functions:
                arguments = [each for each in inspect.signature(function).parameters.values() if each.name not in ('self', '_')]
                self.assertEqual([each.name for each in arguments if each.annotation is each.empty], [], f'{name}: {function}')

    @unittest.skipUnless(shutil.which('mypy'), 'mypy is not installed')
    def test_a_type_checker_sees_the_signatures(self):
        with tempfile.TemporaryDirectory(prefix='dsanalyze-test-') as folder:
            for name, text in (('used', used), ('misused', misused)):
                pathlib.Path(folder, f'{name}.py').write_text(text)
            # Of other packages' types nothing is asked, and to read PyTorch's takes most of a minute.
            pathlib.Path(folder, 'mypy.ini').write_text('[mypy]\nignore_missing_imports = True\n[mypy-torch.*,torchvision.*,numpy.*]\nfollow_imports = skip\n')
            words = ['mypy', '--config-file', f'{folder}/mypy.ini', '--python-executable', sys.executable, '--no-error-summary', '--hide-error-context', '--cache-dir', folder]
            run = subprocess.run([*words, f'{folder}/used.py', f'{folder}/misused.py'], capture_output=True, text=True, check=False)
            lines = [(line.split(':')[0].rsplit('/')[-1], int(line.split(':')[1])) for line in run.stdout.splitlines() if 'error:' in line]
            self.assertEqual(sorted(set(lines)), [('misused.py', line) for line in (4, 5, 6, 7, 8, 9)], run.stdout)


if __name__ == '__main__':
    unittest.main()
