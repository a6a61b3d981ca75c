"""DSANALYZE_ATTACH_PATIENCE: how long the hook waits for a batch that does not come. A sleep of more than it is a worker that stands still."""
import os
import unittest

from fake_launcher import Launcher, Plan, drain, end, here, run, switch

train = here / 'trainings' / 'train.py'
tiny, ample = 1.0, 50


class Patience(unittest.TestCase):
    def launch(self, plan, patience, *options, virtual=False):
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
                file.write("import sys\nprint(*(getattr(sys.modules['_dsanalyze_attach.' + name], value) for name, value in (('pytorch_loaders', 'stall_seconds'), ('iteration', 'discard_seconds'))))\n")
            self.assertEqual(launcher.run(script), '{0} {0}\n'.format(expected))

    def test_a_drain_ends_where_a_worker_stands_still_for_longer(self):
        for patience, options in ((tiny, ()), (ample, ('--timeout', tiny))):
            drained = self.launch(Plan(run(3), drain(1, 16, which='warm'), drain(1, 8), then=end), patience, '--stuck', 40, *options).of('drained')
            stuck, next_one = drained  # The next one has the batches that were read.
            self.assertEqual(len(stuck['times']), 10)
            self.assertIn('timed out after {} seconds'.format(tiny), stuck['error'])
            self.assertEqual((len(next_one['times']), next_one['error']), (8, None))

    def test_a_drain_waits_for_a_worker_that_goes_on_earlier(self):
        drained, = self.launch(Plan(run(3), drain(1, 16, which='warm'), then=end), ample, '--stuck', 40, '--stuck-for', 2 * tiny).of('drained')
        self.assertEqual((len(drained['times']), drained['error']), (16, None))

    # After the first step, which shows that the loader trains, and three more two batches are outstanding: of the samples 16 to 19 and 20 to 23.

    def test_discarding_ends_where_a_worker_stands_still_for_longer(self):
        said = self.launch(Plan(run(3), switch('synthetic'), run(4, 'synthetic'), then=end), tiny, '--stuck', 20)
        switched, = said.at('switched')
        self.assertEqual((switched['discarded'], switched['kept']), (1, 1))
        self.assertIn('timed out after {} seconds'.format(tiny), said.notes()['discard-failed']['text'])
        self.assertEqual(len(said.windows('synthetic')[0]['wait']), 4)  # With the batch that came.

    def test_discarding_waits_for_a_worker_that_goes_on_earlier(self):
        said = self.launch(Plan(run(3), switch('synthetic', keep=4), run(4, 'synthetic'), then=end), ample, '--stuck', 20, '--stuck-for', 2 * tiny)
        switched, = said.at('switched')
        self.assertEqual((switched['discarded'], switched['kept']), (4, 4))
        self.assertEqual(said.notes(), {})

    def test_a_loaders_own_timeout_is_what_discarding_waits_and_what_the_script_has_afterwards(self):
        said = self.launch(Plan(run(3), switch('synthetic'), run(4, 'synthetic'), then=end), ample, '--stuck', 20, '--timeout', tiny)
        self.assertIn('timed out after {} seconds'.format(tiny), said.notes()['discard-failed']['text'])
        launcher = Launcher(Plan(run(3), switch('synthetic'), switch('full'), then={'do': 'pass'}), environment={'DSANALYZE_ATTACH_PATIENCE': str(tiny)})
        output = launcher.run(train, '--samples', 80, '--workers', 1, '--stuck', 60, '--stuck-for', 2 * tiny, virtual=False)
        self.assertIn('done 20', output)  # The script itself waits for as long as it takes.

    def test_where_no_batch_comes_at_all_it_is_said_and_the_script_goes_on(self):
        launcher = Launcher(Plan(run(3), switch('synthetic'), run(4, 'synthetic'), then=end), environment={'DSANALYZE_ATTACH_PATIENCE': str(tiny)})
        output = launcher.run(train, '--samples', 80, '--workers', 1, '--stuck', 16, '--stuck-for', 5 * tiny, virtual=False)
        self.assertIn('done 20', output)
        self.assertEqual(launcher.first.at('switched')[0]['kept'], 0)
        self.assertEqual(list(launcher.first.notes()), ['discard-failed', 'nothing-kept'])
        left, = launcher.first.of('off')  # Else the other ranks would wait for this one.
        self.assertIn('No batch came', left['why'])

    def test_batches_that_are_kept_are_as_many_as_come_in_time(self):
        for patience, kept in ((tiny, 3), (ample, 8)):
            plan = Plan(run(3), switch('synthetic', keep=8), run(2, 'synthetic'), then=end)
            said = self.launch(plan, patience, '--workers', 0, '--prep', 0.1, virtual=True)  # 0.4 s a batch.
            self.assertEqual(said.at('switched')[0]['kept'], kept)
            self.assertEqual(said.notes(), {})


if __name__ == '__main__':
    unittest.main()
