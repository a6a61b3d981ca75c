"""dsanalyze.share(): jobs that share prep, started from Python."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

from test_loader import made_images, side

import dsanalyze
from dsanalyze._sources import Shared

samples = 44
prep = [dsanalyze.RandomResizedCrop(side), dsanalyze.HorizontalFlip()]
# A job that inherits the group, or joins the one at an address, and prints which samples each of its passes had.
job = '''
import json, sys
import dsanalyze
loader = dsanalyze.Loader(sys.argv[1], int(sys.argv[2]), with_ids=True, share=sys.argv[4] if len(sys.argv) > 4 else None)
print(json.dumps([[ids.tolist() for _, _, ids in loader] for _ in range(int(sys.argv[3]))]))
'''
# A script that shares at an address, whether another one has done so or not.
script = '''
import json, sys
import dsanalyze
with dsanalyze.share(sys.argv[1], jobs=2, batch_size=8, dtype='uint8', epochs=2, address=sys.argv[2]) as group:
    with dsanalyze.Loader(sys.argv[1], 8, with_ids=True) as loader:
        print(json.dumps([[ids.tolist() for _, _, ids in loader] for _ in range(2)]), flush=True)
        if len(sys.argv) > 3: sys.stdin.read()
'''


def until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def answers(address):
    """Whether the group has its address still. It is not asked: who asks again and again is waited for."""
    return os.path.exists(address.split(':', 1)[1])


def joined(batches):
    return sorted(number for batch in batches for number in batch)


class Share(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory(prefix='dsanalyze-test-')
        self.addCleanup(self.place.cleanup)
        self.folder = pathlib.Path(self.place.name)
        self.data = self.folder / 'data'
        made_images(self.data, samples)

    def start(self, text, *words):
        process = subprocess.Popen([sys.executable, '-c', text, self.data, *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for end in (process.stdin.close, process.stdout.close, process.stderr.close, process.wait, process.kill):
            self.addCleanup(end)
        return process

    def passes_of(self, process):
        output, error = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, error)
        return json.loads(output.splitlines()[0])

    def test_this_process_and_one_that_it_starts_read_the_same_batches(self):
        self.assertNotIn('DSANALYZE_GROUP', os.environ)
        for producers in ('jobs', 'coordinator'):
            with dsanalyze.share(self.data, 2, batch_size=8, prep=prep, dtype='uint8', producers=producers, seed=3) as group:
                self.assertEqual(os.environ['DSANALYZE_GROUP'], group.address)
                other = self.start(job, 8, 2)
                with dsanalyze.Loader(self.data, 8, with_ids=True) as loader:
                    mine = [[(images.shape, ids.tolist()) for images, _, ids in loader] for _ in range(2)]
                    self.assertEqual([[ids for _, ids in each] for each in mine], self.passes_of(other))
                self.assertEqual(tuple(mine[0][0][0]), (8, 3, side, side))
                self.assertEqual(joined(ids for _, ids in mine[0]), list(range(samples)))
            self.assertNotIn('DSANALYZE_GROUP', os.environ)
            self.assertTrue(until(lambda: not answers(group.address)))
        with dsanalyze.Loader(self.data, 9, prep=prep) as alone:
            self.assertEqual(len(list(alone)), 5)

    def test_dependent_jobs_have_batches_of_their_own(self):
        with dsanalyze.share(self.data, 3, mode='dependent', dtype='uint8', prep=prep, staging_size='30%'):
            others = [self.start(job, batch_size, epochs) for batch_size, epochs in ((5, 3), (16, 1))]
            with dsanalyze.Loader(self.data, 8, with_ids=True) as loader:
                self.assertEqual((loader.batch_size, len(loader)), (8, 6))
                for _ in range(2):
                    mine = [ids.tolist() for _, _, ids in loader]
                    self.assertEqual(joined(mine), list(range(samples)))
                with self.assertRaisesRegex(dsanalyze.LoaderError, 'state'):
                    loader.state_dict()
                for other, batch_size, epochs in zip(others, (5, 16), (3, 1)):
                    passes = self.passes_of(other)
                    self.assertEqual([joined(each) for each in passes], epochs * [list(range(samples))])
                    self.assertEqual({len(ids) for ids in passes[0][:-1]}, {batch_size})

    def test_batches_that_are_read_in_place_outlive_their_loader(self):
        with dsanalyze.share(self.data, 1, batch_size=8, dtype='uint8', prep=prep):
            loader = dsanalyze.Loader(self.data, 8, copy=False)
            images, _ = next(iter(loader))
            first = images.sum()
            with self.assertRaisesRegex(dsanalyze.LoaderError, 'state'):
                loader.load_state_dict({'version': 1, 'world_size': 1, 'epoch': 0, 'batch': 0, 'sampler': ''})
            loader.close()
            self.assertEqual(images.sum(), first)

    def test_a_script_that_ends_with_a_batch_in_its_hands_has_left_its_group(self):
        lends = 'import sys, dsanalyze\nfor images, _ in dsanalyze.Loader(sys.argv[1], 8, copy=False): break'
        with self.assertLogs('dsanalyze') as said:
            with dsanalyze.share(self.data, 1, batch_size=8, dtype='uint8', prep=prep) as group:
                subprocess.run([sys.executable, '-c', lends, self.data], timeout=60, check=True)
                self.assertTrue(until(lambda: not answers(group.address)))
            self.assertTrue(until(lambda: any(' left' in line for line in said.output[-4:])))
        self.assertFalse([line for line in said.output if 'died' in line])

    def test_a_shared_loader_is_closed_after_the_batch_that_another_thread_reads(self):
        with dsanalyze.share(self.data, 1, batch_size=8, dtype='uint8', prep=prep):
            loader, order = dsanalyze.Loader(self.data, 8), []
            made, close = loader._made, loader._source.close

            def reads(*arguments, **named):
                closing = threading.Thread(target=loader.close)
                closing.start()
                closing.join()
                order.append('read')
                return made(*arguments, **named)

            loader._made, loader._source.close = reads, lambda: (order.append('closed'), close())
            next(iter(loader))
            self.assertEqual(order, ['read', 'closed'])
            with self.assertRaisesRegex(RuntimeError, 'closed'):
                iter(loader)

    def test_a_refused_loader_is_no_job_though_its_error_is_kept(self):
        with dsanalyze.share(self.data, 1, batch_size=8, dtype='uint8', prep=prep) as group:
            with self.assertRaises(ValueError) as kept:
                dsanalyze.Loader(self.data, 8, dtype='float32')
            self.assertTrue(until(lambda: not answers(group.address)))  # Its last job has left it.
            self.assertIn('dtype', str(kept.exception))

    def test_an_interrupt_ends_the_wait_for_a_place_and_no_job_is_left_of_it(self):
        with dsanalyze.share(self.data, 1, batch_size=8, dtype='uint8', prep=prep) as group:
            loader = dsanalyze.Loader(self.data, 8)
            attached = Shared._attach

            def interrupted(source, options):
                signal.setitimer(signal.ITIMER_REAL, 0.2)
                return attached(source, options)

            before = signal.signal(signal.SIGALRM, signal.default_int_handler)
            try:
                with unittest.mock.patch.object(Shared, '_attach', interrupted), self.assertRaises(KeyboardInterrupt):
                    dsanalyze.Loader(self.data, 8)
                self.assertIn('dsanalyze-attach', [thread.name for thread in threading.enumerate()])  # The call goes on, and was not waited for.
            finally:
                signal.signal(signal.SIGALRM, before)
            loader.close()
            self.assertTrue(until(lambda: not answers(group.address)))  # Who was let in meanwhile, as a place fell free, has left, too.

    def test_groups_may_end_in_the_order_in_which_they_began(self):
        groups = [dsanalyze.share(self.data, 1, batch_size=8, dtype='uint8', prep=prep) for _ in range(2)]
        for group in groups:
            group.close()
        self.assertNotIn('DSANALYZE_GROUP', os.environ)

    def test_a_dependent_job_that_leaves_a_pass_goes_on_with_its_next_epoch(self):
        with dsanalyze.share(self.data, 1, mode='dependent', dtype='uint8', prep=prep), dsanalyze.Loader(self.data, 8, with_ids=True) as loader:
            next(iter(loader))
            self.assertEqual(loader.epoch, 1)
            self.assertEqual(joined(ids.tolist() for _, _, ids in loader), list(range(samples)))

    def test_a_job_that_does_not_inherit_the_environment_joins_by_the_address(self):
        with dsanalyze.share(self.data, 1, batch_size=8, dtype='uint8') as group:
            environment = {name: value for name, value in os.environ.items() if name != 'DSANALYZE_GROUP'}
            run = subprocess.run([sys.executable, '-c', job, self.data, '8', '1', group.address], env=environment, capture_output=True, text=True, timeout=120, check=True)
            self.assertEqual(joined(json.loads(run.stdout)[0]), list(range(samples)))

    def test_scripts_that_name_the_same_address_find_one_another_whichever_is_first(self):
        address = f'unix:{self.folder}/group'
        scripts = [self.start(script, address) for _ in range(2)]
        first, second = map(self.passes_of, scripts)
        self.assertEqual(first, second)
        self.assertEqual(joined(first[1]), list(range(samples)))
        self.assertTrue(until(lambda: not answers(address)))

    def test_a_group_outlives_the_script_that_started_it_until_its_last_job_has_left(self):
        address = f'unix:{self.folder}/group'
        starter = self.start(script, address, 'wait')
        self.assertTrue(until(lambda: answers(address)))
        other = self.start(script, address, 'wait')
        starter.stdout.readline()
        starter.send_signal(signal.SIGKILL)
        passes = json.loads(other.stdout.readline())
        self.assertEqual(joined(passes[1]), list(range(samples)))
        self.assertTrue(answers(address))
        other.stdin.close()
        other.wait(timeout=60)
        self.assertTrue(until(lambda: not answers(address)))

    def test_a_group_that_no_job_joined_ends_with_its_script(self):
        address = f'unix:{self.folder}/group'
        for end in ('', 'import os; os.kill(os.getpid(), 9)'):
            subprocess.run([sys.executable, '-c', f'import sys, dsanalyze\ndsanalyze.share(sys.argv[1], 2, address=sys.argv[2])\n{end}', self.data, address], timeout=60, check=False)
            self.assertTrue(until(lambda: not answers(address)))
        group = dsanalyze.share(self.data, 2, address=address)
        self.assertTrue(answers(address))
        group.close()
        group.close()
        self.assertTrue(until(lambda: not answers(address)))

    def test_a_killed_script_and_a_child_that_it_forked_leave_no_group_and_no_folder(self):
        script_with_child = 'import os, sys, time, dsanalyze\nprint(dsanalyze.share(sys.argv[1], 2).address, flush=True)\npid = os.fork()\nif pid == 0: time.sleep(120)\nprint(pid, flush=True)\nos.kill(os.getpid(), 9)'
        run = subprocess.Popen([sys.executable, '-c', script_with_child, self.data], stdout=subprocess.PIPE, text=True)
        address, child = run.stdout.readline().strip(), int(run.stdout.readline())
        try:
            run.wait(60)
            run.stdout.close()
            self.assertTrue(until(lambda: not pathlib.Path(address).parent.exists(), 30))
        finally:
            os.kill(child, signal.SIGKILL)

    def test_what_cannot_be_is_refused_by_name(self):
        for arguments, options, kind, name in (
                ((self.data, 0), {}, ValueError, 'jobs'), ((self.data, 2), {'mode': 'other'}, ValueError, 'mode'), ((self.data, 2), {'dtype': 'float64'}, ValueError, 'dtype'),
                ((self.data, 2), {'prep': dsanalyze.CenterCrop(8)}, ValueError, 'prep'), ((self.data, 2), {'staging_size': '30%'}, ValueError, 'staging_size'),
                ((self.data, 2), {'cache_size': 35}, ValueError, '^cache_size: "35" has no unit; write 35% .* or 35B'),
                ((self.data, 2), {'epochs': 0}, ValueError, 'epochs'), ((self.folder / 'none', 2), {}, FileNotFoundError, 'none')):
            with self.subTest(options), self.assertRaisesRegex(kind, name):
                dsanalyze.share(*arguments, **options)
            self.assertNotIn('DSANALYZE_GROUP', os.environ)
        with dsanalyze.share(self.data, 1, batch_size=8, dtype='uint8'), self.assertRaisesRegex(ValueError, 'of one size'):
            dsanalyze.Loader(self.data, 8, prep=dsanalyze.Encoded())


if __name__ == '__main__':
    unittest.main()
