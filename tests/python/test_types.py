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
            words = ['mypy', '--python-executable', sys.executable, '--no-error-summary', '--hide-error-context', '--cache-dir', folder, '--ignore-missing-imports']
            right, wrong = (subprocess.run([*words, f'{folder}/{name}.py'], capture_output=True, text=True, check=False) for name in ('used', 'misused'))
            self.assertEqual((right.returncode, right.stdout), (0, ''))
            lines = {int(line.split(':')[1]) for line in wrong.stdout.splitlines() if 'misused.py' in line and 'error:' in line}
            self.assertEqual(lines, {4, 5, 6, 7, 8, 9}, wrong.stdout)


if __name__ == '__main__':
    unittest.main()
