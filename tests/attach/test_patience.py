"""DSANALYZE_ATTACH_PATIENCE: how long the hook waits for a batch that does not come. A sleep of more than it is a worker that stands still."""
import os
import unittest

from fake_launcher import Launcher, Plan, drain, end, here, run, switch

train = here / 'trainings' / 'train.py'
tiny, ample = 1.0, 50


class Patience(unittest.TestCase):
    def launch(self, plan, patience, *options, virtual=False):
        """'late': a sample is stuck in a second loader alone."""
        launcher = Launcher(plan, environment={'DSANALYZE_ATTACH_PATIENCE': str(patience)})
        launcher.run(train, '--samples', 80, '--workers', 1, *options, virtual=virtual)
        return launcher.first

    def test_it_is_two_minutes_at_most(self):
        for given, expected in ((None, 120.0), ('0.4', 0.4), ('1e+06', 120.0)):
            launcher = Launcher(Plan(), environment={'DSANALYZE_ATTACH_PATIENCE': given} if given else {})
            if not given:
                launcher.environment.pop('DSANALYZE_ATTACH_PATIENCE', None)
            script = os.path.join(launcher.folder.name, 'script.py')
            with open(script, 'w') as file:
                file.write("import sys\nprint(sys.modules['_dsanalyze_attach.pytorch_loaders'].stall_seconds)\n")
            self.assertEqual(launcher.run(script), '{}\n'.format(expected))

    def test_a_drain_ends_where_a_worker_stands_still_for_longer(self):
        for patience, options in ((tiny, ()), (ample, ('--timeout', tiny))):
            drained = self.launch(Plan(run(9), drain(1, 16, which='warm'), drain(1, 8), then=end), patience, '--does', 'late', '--stuck', 40, *options).of('drained')
            stuck, next_one = drained  # The next one has the batches that were read.
            self.assertEqual(len(stuck['times']), 10)
            self.assertIn('timed out after {} seconds'.format(tiny), stuck['error'])
            self.assertEqual((len(next_one['times']), next_one['error']), (8, None))

    def test_a_drain_waits_for_a_worker_that_goes_on_earlier(self):
        drained, = self.launch(Plan(run(14), drain(1, 16, which='warm'), then=end), ample, '--does', 'late', '--stuck', 40, '--stuck-for', 2 * tiny).of('drained')
        self.assertEqual((len(drained['times']), drained['error']), (16, None))

    def test_where_a_worker_stands_still_what_came_before_is_kept(self):
        for stuck, kept in ((8, 2), (0, 0)):
            plan = Plan(run(4), switch('synthetic', keep=8), run(4), then=end)
            said = self.launch(plan, tiny, '--stuck-for', 5 * tiny, '--does', 'late', '--stuck', stuck)
            self.assertEqual([switched['kept'] for switched in said.at('switched')], [kept] if kept else [])
            self.assertEqual(len(said.of('off')), not kept)  # Else the other ranks would wait for this one.

    def test_batches_that_are_kept_are_as_many_as_come_in_time(self):
        for patience, kept in ((tiny, 3), (ample, 8)):
            plan = Plan(run(8), switch('synthetic', keep=8), run(2), then=end)
            said = self.launch(plan, patience, '--workers', 0, '--prep', 0.1, virtual=True)  # 0.4 s a batch.
            self.assertEqual(said.at('switched')[0]['kept'], kept)
            self.assertEqual(said.notes(), {})


if __name__ == '__main__':
    unittest.main()
