"""What the launcher asks to be different in a run: num_workers of the loaders that the script makes at one place."""
import pathlib
import unittest

from fake_launcher import Launcher, Plan, run
from script_rig import ScriptTest, preamble

makers = '''
first = DataLoader(data(), 8, {first})
other = DataLoader(data(), 8, num_workers=1)
for epoch in range(3):
    for x, in first:
        step(x)
print('workers', first.num_workers, other.num_workers, first.prefetch_factor, first.persistent_workers)
'''
line = preamble.count('\n') + 2


class Changes(ScriptTest):
    def asked(self, workers, place, arguments='num_workers=2, prefetch_factor=4, persistent_workers=True'):
        """What the script prints when so many are asked for at a line of it."""
        environment = {'DSANALYZE_ATTACH_WORKERS': f'{workers} {place} SCRIPT'}
        output, connection = self.launch_at(makers.format(first=arguments), environment)
        return output.split('workers ')[1].split('\n')[0].split(), connection

    def launch_at(self, text, environment):
        self.launcher = Launcher(Plan(then=run(1000)))
        path = pathlib.Path(self.launcher.folder.name, 'script.py')
        path.write_text(preamble + text)
        self.launcher.environment.update({name: value.replace('SCRIPT', str(path)) for name, value in environment.items()})
        output = self.launcher.run(path)
        return output, self.launcher.connections[0]

    def test_the_loaders_of_that_place_and_no_others_have_the_number(self):
        printed, connection = self.asked(3, line)
        self.assertEqual(printed[:2], ['3', '1'])
        self.assertEqual(printed[2:], ['4', 'True'])
        self.assertEqual(connection.of('loader')[0]['workers'], 3)

    def test_without_workers_what_only_workers_have_is_left_out(self):
        printed, connection = self.asked(0, line)
        self.assertEqual((printed[0], printed[3]), ('0', 'False'))
        self.assertEqual(connection.of('loader')[0]['workers'], 0)

    def test_workers_are_given_to_a_loader_that_had_none_and_to_one_that_names_them_by_place(self):
        self.assertEqual(self.asked(2, line, '')[0][:2], ['2', '1'])
        self.assertEqual(self.asked(3, line, 'False, None, None, 1')[0][:2], ['3', '1'])

    def test_another_place_changes_nothing(self):
        self.assertEqual(self.asked(3, line + 5)[0][:2], ['2', '1'])


if __name__ == '__main__':
    unittest.main()
