"""dsanalyze.Loader of ranks that hold a dataset together."""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

from test_loader import made_images

import dsanalyze

here = pathlib.Path(__file__).resolve().parent
samples = 50
patience_s = 120


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def address_of_network():
    """An interface, its IPv4 address and the bits of its network; nothing for each without one."""
    for line in subprocess.run(['ip', '-4', '-o', 'addr', 'show', 'scope', 'global', 'up'], capture_output=True, text=True, check=True).stdout.splitlines():
        _, interface, _, address, *_ = line.split()
        return interface.split('@')[0], *address.split('/')
    return None, None, None


class Ranks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix='dsanalyze-test-'))
        made_images(cls.folder / 'data', samples)

    @classmethod
    def tearDownClass(cls):
        subprocess.run(['rm', '-rf', cls.folder], check=True)

    def start(self, world, given, of_rank=lambda _: {}, environment=None):
        """A process for each rank."""
        meeting = {'rendezvous': f'127.0.0.1:{free_port()}'}
        self.ranks = []
        for rank in range(world):
            mine = {'dataset': str(self.folder / 'data'), **given, **of_rank(rank)}
            if not mine.get('torch'):
                mine['options'] = {**meeting, **mine.get('options', {})}
            variables = {**os.environ, 'RANK': str(rank), 'WORLD_SIZE': str(world), **(environment or {})}
            run = subprocess.Popen([sys.executable, str(here / 'one_rank.py'), json.dumps(mine)], env=variables, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
            self.addCleanup(self.end, run)
            self.ranks.append(run)
        return self.ranks

    @staticmethod
    def end(run):
        run.kill()
        run.communicate()

    def told(self, world, given, of_rank=lambda _: {}, environment=None):
        """What each rank printed."""
        told = []
        for run in self.start(world, given, of_rank, environment):
            out, err = run.communicate(timeout=patience_s)
            self.assertTrue(out, err)
            told.append(json.loads(out))
        return told

    def ids(self, told, epoch):
        for rank in told:
            self.assertNotIn('error', rank)
        return sorted(number for rank in told for number in rank['epochs'][epoch]['ids'])

    def test_each_sample_comes_once_in_an_epoch_and_is_read_once_from_storage_in_all(self):
        for partition in ('partitioned', 'locality'):
            with self.subTest(partition=partition):
                told = self.told(3, {'options': {'partition': partition}, 'passes': [{}] * 4})
                for epoch in range(4):
                    self.assertEqual(self.ids(told, epoch), list(range(samples)))
                for rank in told:
                    self.assertEqual([len(epoch['sizes']) for epoch in rank['epochs']], [5] * 4)
                    self.assertLessEqual(max(size for epoch in rank['epochs'] for size in epoch['sizes']), 4)
                size = told[0]['report']['bytes']
                # What storage gave: all that was fetched but what came from other ranks.
                read = sum(rank['report']['bytes_read'] - rank['report']['ranks']['bytes_from_others'] for rank in told)
                self.assertEqual(read, size)
                self.assertTrue(all(rank['report']['ranks']['bytes_from_others'] > 0 for rank in told))

    def test_caches_too_small_for_all_read_the_rest_again(self):
        told = self.told(2, {'options': {'cache_size': '20%'}, 'passes': [{}] * 3})
        for epoch in range(3):
            self.assertEqual(self.ids(told, epoch), list(range(samples)))

    def test_parts_are_those_without_a_partition(self):
        told = self.told(2, {'passes': [{}, {}]})
        plain = [dsanalyze.Loader(self.folder / 'data', 4, prep=dsanalyze.RandomResizedCrop(8), dtype='uint8', workers=1, with_ids=True, output='numpy',
                                  rank=rank, world_size=2) for rank in range(2)]
        for rank, loader in enumerate(plain):
            next_epoch = [[int(number) for batch in loader for number in batch[2]] for _ in range(2)][1]
            self.assertEqual(told[rank]['epochs'][1]['ids'], next_epoch)
            loader.close()

    def test_passes_that_are_left_and_epochs_that_are_set_keep_all_together(self):
        for first in (2, 7):
            with self.subTest(first=first):
                passes = [{'leave': first}, {}, {'leave': 1}, {'set_epoch': 9}, {'leave': 6}, {}]
                told = self.told(2, {'passes': passes})
                for epoch in (1, 3, 5):
                    self.assertEqual(self.ids(told, epoch), list(range(samples)), epoch)
                again = self.told(2, {'passes': [{'set_epoch': 9}]})
                self.assertEqual(self.ids(again, 0), list(range(samples)))

    def test_a_pass_that_is_left_while_the_next_epoch_begins_does_not_part_the_ranks(self):
        # One rank is far ahead of the other when both leave.
        told = self.told(2, {}, lambda rank: {'passes': [{'leave': 6, 'pause': 0.2 * rank}, {}, {'leave': 7, 'pause': 0.2 * (1 - rank)}, {}, {}]})
        for epoch in (1, 3, 4):
            self.assertEqual(self.ids(told, epoch), list(range(samples)), epoch)

    def test_a_state_is_gone_on_with_in_mid_epoch(self):
        whole = self.told(2, {'passes': [{}, {}]})
        for left in (3, 7):
            before = self.told(2, {'passes': [{'leave': left}]})
            after = self.told(2, {'passes': [{}, {}]}, lambda rank: {'state': before[rank]['state']})
            done = sorted(number for told in (before, after) for rank in told for number in rank['epochs'][0]['ids']) if left < 7 else list(range(samples))
            self.assertEqual(done, list(range(samples)))
            self.assertEqual(self.ids(after, 1 if left < 7 else 0), self.ids(whole, 1))

    def test_a_rank_that_was_killed_is_named_by_all_others_which_end(self):
        told = []
        ranks = self.start(3, {'passes': [{}] * 6}, lambda rank: {'passes': [{}, {'kill': 2}] if rank == 1 else [{'pause': 0.02}] * 6})
        for rank, run in enumerate(ranks):
            out, err = run.communicate(timeout=patience_s)
            if rank == 1:
                self.assertEqual(run.returncode, -signal.SIGKILL)
                continue
            told.append(json.loads(out))
            self.assertEqual(told[-1].get('kind'), 'LoaderError', err)
            self.assertIn('rank 1 of 3 was lost', told[-1]['error'])

    def failed(self, told, word):
        for rank in told:
            self.assertEqual(rank.get('kind'), 'LoaderError', rank)
        self.assertTrue(any(word in rank['error'] for rank in told), told)

    def test_ranks_that_begin_at_different_places_are_told_so(self):
        self.failed(self.told(2, {}, lambda rank: {'passes': [{}, {'set_epoch': 5 + rank}]}), 'begins epoch')
        states = [self.told(2, {'passes': [{'leave': leave}]})[0]['state'] for leave in (2, 3)]
        self.failed(self.told(2, {}, lambda rank: {'state': states[rank]}), 'samples')

    def test_a_rank_that_goes_on_elsewhere_alone_is_noticed_by_the_others(self):
        # However much faster rank 1 is, it does not end its fourth pass without the batches that rank 0 leaves.
        told = self.told(2, {}, lambda rank: {'passes': [{'leave': 2, 'pause': 0.5}, {}] if rank == 0 else [{}] * 4})
        self.failed(told, 'and this one did not')

    def test_a_rank_that_is_closed_while_a_batch_is_held_has_left(self):
        ranks = self.start(2, {}, lambda rank: {'passes': [{'close': 2}] if rank == 0 else [{}] * 3})
        out, err = ranks[1].communicate(timeout=45)
        self.assertIn('rank 0 of 2 was lost', json.loads(out)['error'], err)

    def test_a_rank_that_cannot_make_its_loader_tells_the_process_group(self):
        environment = {'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': str(free_port())}
        for of_rank_1, word in (({'dataset': '/no/such'}, '/no/such'), ({'options': {'rank': 0, 'world_size': 2}}, 'torch.distributed')):
            with self.subTest(word=word):
                ranks = self.start(2, {'torch': True, 'lives_on': 20}, lambda rank: of_rank_1 if rank == 1 else {'lives_on': 0},
                                   {**environment, 'MASTER_PORT': str(free_port())})
                line = ranks[0].stdout.readline()
                self.assertIn(word, json.loads(line)['error'])

    def test_ranks_that_end_at_different_times_lose_no_batch_of_those_that_stay(self):
        told = self.told(2, {}, lambda rank: {'passes': [{}, {'pause': 0.2 * rank}]})
        for epoch in range(2):
            self.assertEqual(self.ids(told, epoch), list(range(samples)))

    def test_ranks_that_contradict_one_another_are_told_in_what(self):
        told = self.told(2, {}, lambda rank: {'options': {'seed': 7 + rank}})
        for rank in told:
            self.assertEqual(rank['kind'], 'ValueError')
            self.assertIn('seed', rank['error'])

    def test_they_meet_through_a_file_and_through_the_process_group_of_pytorch(self):
        told = self.told(2, {'options': {'rendezvous': str(self.folder / 'meeting')}})
        self.assertEqual(self.ids(told, 0), list(range(samples)))
        told = self.told(2, {'torch': True, 'passes': [{}, {}]}, environment={'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': str(free_port())})
        self.assertEqual(self.ids(told, 1), list(range(samples)))

    def told_apart(self, listen, address):
        """What two ranks print that take each other for one of another machine. They meet through PyTorch's process group."""
        return self.told(2, {'torch': True, 'options': {'listen': listen}}, lambda rank: {'machine': f'machine {rank}'},
                         {'MASTER_ADDR': address, 'MASTER_PORT': str(free_port())})

    def test_ranks_of_several_machines_meet_where_listen_says(self):
        interface, address, bits = address_of_network()
        if address is None:
            self.skipTest('this machine has no address but loopback')
        for listen in (None, address, f'{address}/{bits}', interface):
            with self.subTest(listen=listen):
                self.assertEqual(self.ids(self.told_apart(listen, address), 0), list(range(samples)))

    def test_addresses_that_no_other_machine_reaches_are_refused(self):
        for listen in ('0.0.0.0', 'lo'):
            with self.subTest(listen=listen):
                for rank in self.told_apart(listen, '127.0.0.1'):
                    self.assertEqual(rank['epochs'], [])
                    self.assertIn('other', rank['error'])

    def test_ctrl_c_ends_a_meeting_that_lacks_a_rank(self):
        (run,) = self.start(1, {'options': {'rank': 0, 'world_size': 2}})
        while not pathlib.Path(f'/proc/{run.pid}/task').exists() or len(os.listdir(f'/proc/{run.pid}/task')) < 2:
            self.assertIsNone(run.poll())
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=30)
        self.assertIn('KeyboardInterrupt', err)

    def test_wrong_arguments_are_refused_by_name(self):
        for options, word in (({'rendezvous': 'x:1'}, 'rendezvous'), ({'partition': 'all'}, 'partition'), ({'partition': 'locality'}, 'cache_size'),
                              ({'partition': 'locality', 'cache_size': '10%', 'rank': 0, 'world_size': 2}, 'rendezvous'),
                              ({'partition': 'locality', 'cache_size': '10%', 'rank': 0, 'world_size': 2, 'rendezvous': 'x:1', 'listen': 'no-such-interface'},
                               'no-such-interface'),
                              ({'partition': 'locality', 'cache_size': '10%', 'rank': 0, 'world_size': 2, 'rendezvous': 'x:1', 'key_file': '/no/such'},
                               '/no/such'),
                              ({'partition': 'locality', 'cache_size': '10%', 'rank': 0, 'world_size': 2, 'rendezvous': '127.0.0.1:0'}, 'port'),
                              ({'partition': 'locality', 'cache_size': '10%', 'rank': 0, 'world_size': 5000, 'rendezvous': 'x:1'}, '5000'),
                              *(({'partition': 'locality', 'cache_size': '10%', 'peer_timeout': value}, 'peer_timeout')
                                for value in (0, -1, float('nan'), float('inf'), 'long', True, 3601, [1])),
                              ({'partition': 'locality', 'cache_size': '10%', 'listen': 5}, 'listen')):
            with self.subTest(options=options):
                with self.assertRaisesRegex((ValueError, dsanalyze.LoaderError), word):
                    dsanalyze.Loader(self.folder / 'data', 4, **options)

    def test_a_single_rank_needs_no_other(self):
        loader = dsanalyze.Loader(self.folder / 'data', 4, partition='partitioned', cache_size='100%', rank=0, world_size=1, output='numpy')
        self.assertEqual(sum(len(labels) for _, labels in loader), samples)
        loader.close()


if __name__ == '__main__':
    unittest.main()
