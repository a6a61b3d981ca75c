"""Several ranks of one job: each speaks for itself, and waiting for the others is clocked apart."""
import threading
import unittest

from fake_launcher import Launcher, Plan, here, run, switch

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
    def launch(self, *arguments, mode='phases', answers=(run(8), switch('synthetic'), run(6), switch('full')), virtual=False):
        barrier = threading.Barrier(2)
        self.launcher = Launcher(lambda hello: Agreed(barrier, *answers, then=run(1000)), mode=mode)
        output = self.launcher.run(train, '--spawn', 2, *arguments, virtual=virtual)
        self.assertEqual(output.count('done 7' if '--leave' in arguments else 'done 20'), 2)
        found = {}
        for connection in self.launcher.connections:
            if connection.of('loader'):
                rank = (connection.of('rank') or connection.of('hello'))[-1]
                self.assertEqual(rank['world'], 2)
                found[rank['rank']] = connection
        self.assertEqual(set(found), {0, 1})
        return found

    @staticmethod
    def window(connection, mode='full'):
        return connection.windows(mode)[0] if connection.of('at') else connection.of('passive')[-1]['window']

    def test_ranks_that_leave_each_pass_early_stay_in_step(self):
        ranks = self.launch('--leave', '7', '--epochs', '6', answers=(run(4), run(100)))
        for connection in ranks.values():
            self.assertEqual([len(window['wait']) for window in connection.windows()][1:], [2, *[1, 6] * 4, 1])  # The first step tells that it is an epoch's. A forked rank ends without a last word.
            self.assertEqual(len(connection.at('epoch_end')), 5)

    def test_ranks_say_how_many_there_are_and_those_without_a_loader_too(self):
        self.launcher = Launcher(lambda hello: Plan(then=run(1000)))
        self.launcher.run(train, '--spawn', 2, '--follows', virtual=False)
        ranks = {}
        for connection in self.launcher.connections:
            for message in connection.of('hello') + connection.of('rank'):
                ranks[message['rank'], message['world']] = message
        self.assertEqual({(0, 2), (1, 2)} - set(ranks), set())
        for number in range(2):
            self.assertTrue(ranks[number, 2]['distributed'])
            self.assertGreater(ranks[number, 2]['pid'], 0)
        self.assertEqual(sum(len(connection.of('loader')) for connection in self.launcher.connections), 1)

    def test_a_slow_rank_waits_for_its_data_and_no_other_does(self):
        for mode in ('phases', 'passive'):
            ranks = self.launch('--slow', '1', mode=mode, virtual=True)
            self.assertEqual([set(self.window(ranks[number])['wait']) for number in (0, 1)], [{0}, {20_000_000}])

    def test_what_passes_until_all_ranks_have_averaged_their_gradients_is_clocked_apart_from_the_computing_that_it_is_a_part_of(self):
        for arguments in ((), ('--plain',)):
            for connection in self.launch('--slow', '1', *arguments).values():
                self.assertEqual(connection.notes(), {})
                for window in connection.windows():
                    self.assertTrue(all(0 < part <= whole for part, whole in zip(window['ranks'], window['compute'])), window)
                self.assertLess(max(self.window(connection, 'synthetic')['wait']), min(self.window(connection, 'synthetic')['compute']))

    def test_a_rank_that_looks_at_a_batch_keeps_no_other_waiting(self):
        ranks = self.launch('--looks', '--epochs', 4)
        for connection in ranks.values():
            self.assertEqual(len(connection.at('start')), 4)
            self.assertEqual({start['step'] for start in connection.at('start')}, {1})
            starts = connection.at('start')[1:]
            self.assertTrue(all(start['between']['begin'] < start['between']['end'] <= start['window']['begin'] for start in starts), starts)
            self.assertEqual([len(start['window']['wait']) for start in starts], [1, 1, 1])


if __name__ == '__main__':
    unittest.main()
