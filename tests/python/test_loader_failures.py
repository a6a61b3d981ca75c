"""What dsanalyze.Loader does with wrong arguments, files that vanish, forks, threads, and scripts that end."""
import ctypes
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock

import numpy as np
from test_loader import Case, made_images, number_of, side

import dsanalyze
from dsanalyze import _library
from dsanalyze._sources import Own


class Failures(Case):
    samples = 20

    def test_wrong_arguments_are_refused_by_name(self):
        for options, name in (({'batch_size': 0}, 'batch_size'), ({'batch_size': 2.5}, 'batch_size'), ({'dtype': 'float16'}, 'dtype'), ({'layout': 'chw'}, 'layout'),
                              ({'workers': -1}, 'workers'), ({'cache_size': 'much'}, 'much'), ({'rank': 1}, 'rank'), ({'rank': 3, 'world_size': 2}, 'rank'),
                              ({'on_error': 'ignore'}, 'on_error'), ({'output': 'jax'}, 'output'), ({'prep': []}, 'prep'), ({'seed': -1}, 'seed'),
                              ({'prep': [dsanalyze.HorizontalFlip(), dsanalyze.RandomResizedCrop(8)]}, 'prep'),
                              ({'cache_size': -5}, 'cache_size: "-5"'),
                              ({'cache_size': 35}, '^cache_size: "35" has no unit; write 35% \\(of the dataset\\) or 35B$'), ({'cache_size': '35.5'}, '35.5% .* or 35.5B'),
                              ({'cache_size': np.int64(200)}, 'write 200B or 200MB'), ({'cache_size': 0.35}, 'write 0.35% or 35%'),
                              ({'rank': 0, 'world_size': 1 << 20}, 'world_size: '), ({'layout': 1}, 'layout: '),
                              ({'prep': dsanalyze.RandomResizedCrop(8, scale=(0.5, 0.1))}, '^scale: '),
                              ({'prep': [dsanalyze.Resize(4), dsanalyze.CenterCrop(8)]}, 'resize'), ({'prep': [dsanalyze.RandomResizedCrop(8), dsanalyze.Normalize()]}, 'Normalize')):
            with self.subTest(options), self.assertRaisesRegex(ValueError, name):
                self.loader(**options)
        for options in ({'copy': 'no'}, {'shuffle': 'no'}, {'drop_last': 1}, {'share': 5}, {'share': ''}, {'transform': 3}, {'pin_memory': 'no'}, {'index': 3}, {'cache_size': True}):
            with self.subTest(options), self.assertRaisesRegex(TypeError, next(iter(options))):
                self.loader(**options)
        with self.assertRaisesRegex(TypeError, '^dataset: found None'):
            dsanalyze.Loader(None)
        with self.assertRaisesRegex(FileNotFoundError, '^dataset: there is no'):
            dsanalyze.Loader('no\0where')
        with unittest.mock.patch('os.stat', side_effect=PermissionError), self.assertRaisesRegex(PermissionError, '^dataset: this user may not look at'):
            self.loader()
        for make, name in ((lambda: dsanalyze.RandomResizedCrop(0), 'size'), (lambda: dsanalyze.RandomResizedCrop(8, scale=None), 'scale'),
                           (lambda: dsanalyze.HorizontalFlip(2), 'p'), (lambda: dsanalyze.Normalize(std=0), 'std'), (lambda: dsanalyze.Normalize(mean='123'), 'mean'), (lambda: dsanalyze.Normalize(mean=(10**400, 0, 0)), 'mean'),
                           (lambda: dsanalyze.CenterCrop(4097), 'size')):
            with self.subTest(name), self.assertRaisesRegex(ValueError, f'^{name}: found'):
                make()
        self.assertEqual((dsanalyze.Normalize(std=np.float32(0.5)).std, dsanalyze.HorizontalFlip(np.float32(0.5)).p), (3 * (0.5,), 0.5))
        for boolean in (np.bool_, type('bool', (), {'__init__': lambda self, value: None, '__bool__': lambda _: False})):  # NumPy's, of version 1 and 2.
            self.assertTrue(self.loader(shuffle=boolean(False), copy=boolean(False))._lends)
        with self.assertRaisesRegex(ValueError, 'there is no group'):
            self.loader(share=True)
        with self.assertRaisesRegex(TypeError, 'transform='):
            self.loader(prep=lambda image: image)

    def test_a_batch_for_which_the_function_raised_is_given_by_the_next_call(self):
        raising = []

        def broken(images, labels, ids):
            if raising:
                raise raising.pop()
            return images, ids.tolist()

        whole = [ids for _, ids in self.loader(batch_size=2, transform=broken, with_ids=True)]
        loader = self.loader(batch_size=2, transform=broken, with_ids=True)
        passing, given = iter(loader), []
        for at, batch in enumerate(whole):
            before = loader.state_dict()
            raising.append(KeyboardInterrupt() if at % 2 else ValueError('mine'))
            with self.assertRaises((ValueError, KeyboardInterrupt)):
                next(passing)
            self.assertEqual(loader.state_dict(), before)
            given.append(next(passing)[1])
        self.assertEqual(given, whole)
        self.assertEqual(list(passing), [])
        raising.append(ValueError('mine'))
        passing = iter(loader)
        with self.assertRaises(ValueError):
            next(passing)
        other = self.loader(batch_size=2, transform=broken, with_ids=True)
        other.load_state_dict(loader.state_dict())
        following = [ids for _, ids in other]
        self.assertEqual(len(following), len(whole))
        self.assertEqual([ids for _, ids in passing], following)

    def test_a_rank_of_a_partition_goes_on_with_the_others_when_its_function_raises(self):
        def broken(images, labels, ids):
            given.append(ids.tolist())
            if len(given) == 1:
                raise ValueError('mine')

        given = []
        passing = iter(self.loader(batch_size=2, transform=broken, with_ids=True, partition='partitioned', cache_size='100%'))
        with self.assertRaises(ValueError):
            next(passing)
        list(passing)
        self.assertEqual(sorted(sum(given, [])), list(range(self.samples)))

    def test_an_interrupt_while_the_collector_gives_a_batch_back_is_raised_by_the_next_call_and_leaks_nothing(self):
        loader = self.loader(batch_size=2)
        passing = iter(loader)
        images, _ = next(passing)
        release, interrupts = loader._loan._source.release, [KeyboardInterrupt()]

        def interrupted(token):
            if interrupts:
                raise interrupts.pop()
            return release(token)

        loader._loan._source.release = interrupted
        del images
        gc.collect()
        self.assertEqual(len(loader._loan), 1)
        with self.assertRaises(KeyboardInterrupt):
            next(passing)
        self.assertEqual(len(loader._loan), 0)
        self.assertEqual(sum(len(labels) for _, labels in passing), self.samples - 2)

    def test_a_batch_that_an_interrupt_caught_while_it_was_lent_is_given_by_the_next_call(self):
        whole = [ids.tolist() for _, _, ids in self.loader(batch_size=2, with_ids=True)]
        loader = self.loader(batch_size=2, with_ids=True)
        passing, lend, interrupts, kept = iter(loader), loader._loan.lend, [], []

        def interrupted(buffer, token):
            lend(buffer, token)
            if interrupts:
                raise interrupts.pop()

        loader._loan.lend = interrupted
        for at in range(2):
            before = loader.state_dict()
            interrupts.append(KeyboardInterrupt())
            with self.assertRaises(KeyboardInterrupt):
                next(passing)
            gc.collect()
            self.assertEqual(loader.state_dict(), before)
            kept.append(next(passing))  # Two batches in the script's hands: their memory is not one.
        self.assertEqual(len(loader._loan), 2)
        self.assertFalse((kept[0][0] == kept[1][0]).all())
        self.assertEqual([ids.tolist() for _, _, ids in kept] + [ids.tolist() for _, _, ids in passing], whole)

    def test_a_batch_that_was_taken_and_not_given_is_given_back_when_its_loader_goes(self):
        for close in (True, False):
            loader, given_back = dsanalyze.Loader(self.folder / 'data', 4, prep=dsanalyze.RandomResizedCrop(side)), []
            release = loader._source.release
            loader._source.release = lambda token: (given_back.append(token), release(token))

            def fails(*_, **__):
                raise MemoryError

            loader._made = fails
            with self.assertRaises(MemoryError):
                next(iter(loader))
            self.assertEqual(given_back, [])
            if close:
                loader.close()
            del loader
            gc.collect()
            self.assertEqual(len(given_back), 1)

    def test_a_batch_that_outlives_its_loader_is_given_back(self):
        loader = self.loader(batch_size=4)
        images, _ = next(iter(loader))
        source, given_back = loader._source, []
        release = source.release
        source.release = lambda token: (given_back.append(token), release(token))
        del loader
        gc.collect()
        self.assertEqual(given_back, [])
        del images
        gc.collect()
        self.assertEqual(len(given_back), 1)

    def test_numbers_of_other_libraries_are_numbers(self):
        import numpy
        loader = self.loader(batch_size=numpy.int64(4), seed=numpy.uint8(3), rank=numpy.int32(0), world_size=numpy.int64(1), workers=numpy.int16(1),
                             prep=[dsanalyze.RandomResizedCrop(numpy.int64(side)), dsanalyze.Normalize(numpy.array([0.5, 0.5, 0.5]), 0.5)], dtype='float32')
        self.assertEqual(len(list(loader)), 5)
        with self.assertRaisesRegex(ValueError, 'scale'):
            dsanalyze.RandomResizedCrop(8, scale=(float('nan'), 1))
        with dsanalyze.Loader(os.fsencode(self.folder / 'data'), 4, prep=dsanalyze.RandomResizedCrop(side)) as of_bytes:
            self.assertEqual(of_bytes.samples, 20)
        with self.assertRaisesRegex(FileNotFoundError, 'index'):
            self.loader(index='/no/such.dsidx')

    def test_a_loader_cannot_be_copied(self):
        import copy
        import pickle
        loader = self.loader()
        for way in (copy.copy, copy.deepcopy, pickle.dumps):
            with self.assertRaisesRegex(TypeError, 'make another one'):
                way(loader)

    def test_what_is_asked_while_another_thread_closes_the_loader_names_that(self):
        for name in ('report', 'state'):
            loader = self.loader()
            asked = getattr(loader._source, name)

            def closing(*arguments):
                loader.close()
                return asked(*arguments)

            setattr(loader._source, name, closing)
            with self.assertRaisesRegex(RuntimeError, 'the loader is closed'):
                loader.report() if name == 'report' else loader.state_dict()

    def test_a_pass_that_another_thread_ends_says_so(self):
        for end in (lambda loader, _: loader.close(), lambda loader, state: loader.load_state_dict(state)):
            loader = self.loader(batch_size=1)
            state = loader.state_dict()
            passing = iter(loader)
            next(passing)
            timer = threading.Timer(0.05, end, (loader, state))
            timer.start()
            with self.assertRaisesRegex(RuntimeError, 'closed|another pass|go on elsewhere'):
                for _ in passing:
                    time.sleep(0.02)
            timer.join()

    def test_a_thread_that_the_end_of_the_script_surprises_is_silent(self):
        # With NumPy: a daemon thread that is within a call of PyTorch's when the interpreter ends can end the process by itself.
        script = self.run_script('import threading\nloader = dsanalyze.Loader(sys.argv[1], 2, output="numpy")\ndef run():\n  while True:\n    for batch in loader: pass\n'
                                 'threading.Thread(target=run, daemon=True).start()\ntime.sleep(0.3)\n')
        _, error = script.communicate(timeout=60)
        self.assertEqual((script.returncode, error), (0, ''))

    def test_a_folder_that_is_not_there_or_holds_nothing_is_named(self):
        with self.assertRaisesRegex(FileNotFoundError, 'no/such'):
            dsanalyze.Loader('/no/such')
        (self.folder / 'empty').mkdir()
        with self.assertRaisesRegex(dsanalyze.LoaderError, 'empty'):
            dsanalyze.Loader(self.folder / 'empty')

    def test_more_memory_than_there_is_is_refused_with_what_is_needed_and_what_there_is(self):
        with self.assertRaisesRegex(MemoryError, r'batch slots: it needs [\d.,]+ [GT]iB, and this process may use'):
            self.loader(batch_size=65_536, prep=dsanalyze.RandomResizedCrop(4096), dtype='float32')

    def test_a_process_that_runs_short_of_memory_gets_an_error_or_all_samples(self):
        script = 'import os, resource\nlist(dsanalyze.Loader(sys.argv[1], 4, workers=1, output="memoryview", prep=dsanalyze.CenterCrop(64)))\n' \
                 'pages = int(open("/proc/self/statm").read().split()[0])\n' \
                 'resource.setrlimit(resource.RLIMIT_AS, (4096 * pages + (int(sys.argv[2]) << 20), -1))\n' \
                 'try:\n  with dsanalyze.Loader(sys.argv[1], 4, workers=1, output="memoryview", prep=getattr(dsanalyze, sys.argv[3])(*map(int, sys.argv[4:]))) as loader:\n' \
                 '    print(sum(len(labels) for _, labels in loader))\nexcept MemoryError as error: print("MemoryError", error)\n'
        ends = []
        for prep in (['CenterCrop', '64'], ['Decoded']):
            for megabytes in (0, 1, 4, 16, 64, 256, 1024):
                run = subprocess.run([sys.executable, '-c', 'import dsanalyze, sys\n' + script, str(self.folder / 'data'), str(megabytes), *prep], capture_output=True, text=True, timeout=120, check=False)
                with self.subTest(prep=prep, megabytes=megabytes):
                    self.assertEqual((run.returncode, run.stderr), (0, ''))
                    self.assertRegex(run.stdout, r'^(20$|MemoryError \S)')
                    ends.append(run.stdout.startswith('20'))
        self.assertEqual({True, False}, set(ends))

    def test_samples_that_cannot_be_decoded_are_left_out_or_end_the_pass(self):
        folder = self.folder / 'torn'
        made_images(folder, 40)
        torn = folder / 'class1' / '00004.png'
        torn.write_bytes(torn.read_bytes()[:40])
        options = {'prep': dsanalyze.RandomResizedCrop(side), 'dtype': 'uint8'}
        with dsanalyze.Loader(folder, 8, **options) as loader:
            self.assertEqual(sorted(self.numbers(loader)), [each for each in range(40) if each != 4])
            failure, = loader.report()['failures']
            self.assertTrue(failure['path'].endswith('00004.png'))
            for _ in range(3):
                next(iter(loader))  # A pass that is left: the next one reads the sample again.
                list(loader)
            self.assertEqual(len(loader.report()['failures']), 1)
        with dsanalyze.Loader(folder, 8, on_error='substitute', **options) as loader:
            self.assertEqual(len(self.numbers(loader)), 40)
        with dsanalyze.Loader(folder, 8, on_error='fail', **options) as loader:
            with self.assertRaisesRegex(dsanalyze.LoaderError, '00004.png'):
                for _ in range(2):
                    list(loader)

    def test_an_interrupt_while_the_dataset_is_opened_ends_that(self):
        ready = Own.ready
        handles = []

        def interrupted(source, milliseconds):
            handles.append(source)
            signal.raise_signal(signal.SIGINT)
            return ready(source, milliseconds)

        with unittest.mock.patch.object(Own, 'ready', interrupted), self.assertRaises(KeyboardInterrupt):
            self.loader()
        self.assertEqual(ready(handles[0], 0), _library.INVALID)  # It is closed.

    def test_files_that_vanish_in_mid_epoch_end_it_with_their_names(self):
        folder = self.folder / 'vanishing'
        made_images(folder, 400)
        with dsanalyze.Loader(folder, 4, prep=dsanalyze.RandomResizedCrop(side), dtype='uint8') as loader:
            passing = iter(loader)
            next(passing)
            subprocess.run(['rm', '-r', folder], check=True)
            with self.assertRaisesRegex(dsanalyze.LoaderError, 'png'):
                for _ in range(3):
                    list(passing)
                    passing = iter(loader)

    def test_a_child_of_fork_cannot_use_it_and_takes_nothing_from_it(self):
        loader = self.loader(batch_size=2)
        passing = iter(loader)
        images, _ = next(passing)
        child = os.fork()
        if child == 0:
            try:
                next(passing)
            except RuntimeError as error:
                del images
                gc.collect()
                loader.close()
                os._exit(17 if 'fork' in str(error) else 3)
            os._exit(4)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 17)
        self.assertEqual(sum(len(labels) for _, labels in passing), 18)

    def test_two_loaders_do_not_disturb_each_other(self):
        pair = [self.loader(batch_size=4), self.loader(batch_size=4, seed=5)]
        together = [[], []]
        for batches in zip(*pair):
            for at, (images, _) in enumerate(batches):
                together[at] += [number_of(image) for image in images]
        self.assertEqual([sorted(each) for each in together], 2 * [list(range(20))])

    def run_script(self, text, **options):
        return subprocess.Popen([sys.executable, '-c', 'import dsanalyze, sys, time\n' + text, str(self.folder / 'data')], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, **options)

    def test_a_script_that_ends_in_mid_epoch_ends_at_once_and_leaves_nothing(self):
        for end in ('', 'sys.exit(3)', 'raise ValueError("mine")', 'import os; os._exit(4)', 'import os, signal; os.kill(os.getpid(), signal.SIGKILL)'):
            script = self.run_script(f'loader = dsanalyze.Loader(sys.argv[1], 2)\nkept = []\nfor batch in loader:\n  kept.append(batch)\n  if len(kept) == 3: break\n{end}\n')
            began = time.monotonic()
            _, error = script.communicate(timeout=60)
            self.assertEqual(script.returncode, {'': 0, 'sys.exit(3)': 3, 'raise ValueError("mine")': 1, 'import os; os._exit(4)': 4}.get(end, -9), error)
            self.assertLess(time.monotonic() - began, 50)
            if end != 'raise ValueError("mine")':
                self.assertEqual(error, '')

    def test_ctrl_c_ends_a_pass_at_once(self):
        script = self.run_script('loader = dsanalyze.Loader(sys.argv[1], 2)\nprint("on", flush=True)\nwhile True:\n  for batch in loader: time.sleep(0.01)\n')
        self.assertEqual(script.stdout.readline(), 'on\n')
        script.send_signal(signal.SIGINT)
        _, error = script.communicate(timeout=30)
        self.assertIn('KeyboardInterrupt', error)
        self.assertEqual(script.returncode, -signal.SIGINT)

    def test_importing_the_package_imports_nothing_else(self):
        text = 'before = set(sys.modules)\nimport dsanalyze\nprint(sorted(set(sys.modules) - before))'
        run = subprocess.run([sys.executable, '-c', 'import sys, os\n' + text], capture_output=True, text=True, check=True)
        self.assertEqual(run.stdout.strip(), "['dsanalyze']")

    def test_what_the_library_refuses_is_refused_with_its_words(self):
        from dsanalyze import _library
        library = _library.library()
        handle = ctypes.c_void_p()
        for options in (b'', b'{', b'{"settings": {}}', b'{"settings": {"dataset": "/tmp", "batchsize": 3}}', b'{"settings": {"dataset": "/tmp"}, "held": 0}'):
            self.assertEqual(library.dsa_loader_open(options, ctypes.byref(handle)), _library.INVALID, options)
            self.assertIn('options', _library.last_error())
            self.assertIsNone(handle.value)
        self.assertEqual(library.dsa_loader_release(ctypes.c_void_p(77), 1), _library.INVALID)
        loader = self.loader(batch_size=2)
        size = ctypes.c_size_t(3)
        room = ctypes.create_string_buffer(3)
        self.assertEqual(library.dsa_loader_state(loader._source.handle, 0, 1, room, ctypes.byref(size)), _library.INVALID)
        self.assertGreater(size.value, 3)
        size.value = 0
        self.assertEqual(library.dsa_loader_state(loader._source.handle, 0, 11, None, ctypes.byref(size)), _library.INVALID)
        next(iter(loader))
        self.assertEqual(library.dsa_loader_release(loader._source.handle, 999), _library.INVALID)


if __name__ == '__main__':
    unittest.main()
