"""Several ranks of one job: each speaks for itself, and waiting for the others is clocked apart."""
import statistics
import threading
import unittest

from fake_launcher import Launcher, Plan, here, run, switch
from measured import measured

train = here / 'trainings' / 'train_ranks.py'


class Agreed(Plan):
    """Answers a rank's checkpoint only when every rank is at the same one."""

    ranks = 2

    def __init__(self, barrier, *answers, **named):
        super().__init__(*answers, **named)
        self.barrier = barrier

    def answer(self, message):
        self.barrier.wait(30)
        return super().answer(message)


class Ranks(unittest.TestCase):
    def launch(self, *arguments, mode='phases', answers=(run(8), switch('synthetic'), run(6, 'synthetic'), switch('full'))):
        barrier = threading.Barrier(2)
        self.launcher = Launcher(lambda hello: Agreed(barrier, *answers, then=run(1000)), mode=mode)
        output = self.launcher.run(train, '--spawn', 2, *arguments)
        self.assertEqual(output.count('done 7' if '--leave' in arguments else 'done 20'), 2)
        found = {}
        for connection in self.launcher.connections:
            if connection.of('loader'):
                rank = (connection.of('rank') or connection.of('hello'))[-1]
                self.assertEqual(rank['world'], 2)
                found[rank['rank']] = connection
        self.assertEqual(set(found), {0, 1})
        return found

    def typical(self, connection, part, mode='full'):
        window = connection.windows(mode)[0] if connection.of('at') else connection.of('passive')[-1]['window']
        return statistics.median(window[part]) / 1e6

    def test_ranks_that_leave_each_pass_early_stay_in_step(self):
        ranks = self.launch('--leave', '7', '--epochs', '6', answers=(run(4), run(100)))
        for connection in ranks.values():
            self.assertEqual([len(window['wait']) for window in connection.windows()][1:], [2, *[6] * 4])  # A forked rank ends without a last word.
            self.assertEqual(len(connection.at('epoch_end')), 5)

    def test_ranks_say_how_many_there_are_and_those_without_a_loader_too(self):
        self.launcher = Launcher(lambda hello: Plan(then=run(1000)))
        self.launcher.run(train, '--spawn', 2, '--follows')
        ranks = {}
        for connection in self.launcher.connections:
            for message in connection.of('hello') + connection.of('rank'):
                ranks[message['rank'], message['world']] = message
        self.assertEqual({(0, 2), (1, 2)} - set(ranks), set())
        for number in range(2):
            self.assertTrue(ranks[number, 2]['distributed'])
            self.assertGreater(ranks[number, 2]['pid'], 0)
        self.assertEqual(sum(len(connection.of('loader')) for connection in self.launcher.connections), 1)

    @measured
    def test_a_slow_rank_waits_for_data_and_the_other_for_it(self):
        for arguments in ((), ('--plain',)):
            ranks = self.launch('--slow', '1', *arguments)
            self.assertGreaterEqual(self.typical(ranks[1], 'wait'), 20)
            self.assertGreaterEqual(self.typical(ranks[0], 'ranks'), 14)
            self.assertLess(self.typical(ranks[1], 'ranks'), self.typical(ranks[0], 'ranks'))
            self.assertLess(self.typical(ranks[0], 'wait'), self.typical(ranks[1], 'wait'))
            for connection in ranks.values():
                self.assertEqual(connection.notes(), {})
                for window in connection.windows():
                    self.assertTrue(all(part <= whole for part, whole in zip(window['ranks'], window['compute'])))
                self.assertEqual(self.typical(connection, 'wait', 'synthetic'), 0)

    @measured
    def test_a_rank_that_looks_at_a_batch_keeps_no_other_waiting(self):
        ranks = self.launch('--looks', '--epochs', 4)
        for connection in ranks.values():
            self.assertEqual([start['epoch'] for start in connection.at('start')], [0, 1, 2, 3])
            self.assertEqual({start['step'] for start in connection.at('start')}, {1})
            between = [start['between'] for start in connection.at('start')[1:]]
            self.assertTrue(all(0 < gap['first_batch'] < gap['end'] for gap in between), between)

    @measured
    def test_a_passive_run_clocks_the_wait_for_the_slow_rank_too(self):
        ranks = self.launch('--slow', '0', mode='passive')
        self.assertGreaterEqual(self.typical(ranks[1], 'ranks'), 14)
        self.assertGreaterEqual(self.typical(ranks[0], 'wait'), 20)


if __name__ == '__main__':
    unittest.main()
