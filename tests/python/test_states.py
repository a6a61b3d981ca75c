"""Where dsanalyze.Loader goes on: state_dict(), load_state_dict() and set_epoch()."""
import json
import signal
import unittest

import torch
from test_loader import Case, made_images, number_of, side

import dsanalyze


class Resuming(Case):
    def test_an_interrupted_wait_loses_no_batch(self):
        loader = self.loader(batch_size=2)
        seen = []
        passing = iter(loader)

        def interrupt(_, frame):
            while frame is not None and frame.f_code.co_name != '_fetch':
                frame = frame.f_back
            if frame is not None:  # While it waits: what comes behind it may lose what the interpreter hands on.
                raise KeyboardInterrupt

        seen_at = []
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            while True:
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.0005 + 0.0001 * (len(seen) % 7))
                    images, _ = next(passing)
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except KeyboardInterrupt:
                    state = loader.state_dict()
                    seen_at.append((2 * state['batch'] if state['epoch'] == 0 else 50, len(seen)))
                    continue
                except StopIteration:
                    break
                seen += [number_of(image) for image in images]
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        self.assertEqual(sorted(seen), list(range(50)))
        self.assertEqual([saved for saved, _ in seen_at], [had for _, had in seen_at])

    def test_a_state_behind_the_last_whole_batch_is_the_next_epochs_begin(self):
        loader = self.loader(drop_last=True)
        passing = iter(loader)
        for _ in range(6):
            next(passing)
        state = loader.state_dict()
        self.assertEqual((state['epoch'], state['batch']), (1, 0))
        resumed = self.loader(rank=0, world_size=2, drop_last=True)
        resumed.load_state_dict(state)
        self.assertEqual(len(list(resumed)), 3)
        self.assertEqual([len(list(loader)) for _ in range(2)], [6, 6])

    def test_epochs_count_on_where_each_of_them_leaves_its_only_batch_out(self):
        loader = self.loader(batch_size=64, drop_last=True)
        self.assertEqual([(loader.epoch, len(list(loader))) for _ in range(3)], [(0, 0), (1, 0), (2, 0)])
        self.assertEqual(loader.state_dict()['epoch'], 3)

    def test_a_script_that_names_each_epoch_goes_on_in_the_middle_of_one(self):
        loader = self.loader()
        first = iter(loader)
        for _ in range(3):
            next(first)
        resumed = self.loader()
        resumed.load_state_dict(loader.state_dict())
        given = []
        iter(resumed)  # A pass of which nothing is taken changes nothing.
        for epoch in range(resumed.epoch, 2):
            resumed.set_epoch(epoch)
            given.append(self.numbers(resumed))
        self.assertEqual(given[0], self.numbers(first))
        self.assertEqual(len(given[1]), 50)

    def test_a_state_in_mid_epoch_gives_the_very_same_batches(self):
        whole = self.loader(prep=dsanalyze.RandomResizedCrop(side))
        wanted = [images.clone() for _ in range(2) for images, _ in whole]
        for stop in (0, 1, 3, 6, 7, 9):
            loader = self.loader()
            taken = 0
            while taken < stop:
                for _ in loader:
                    taken += 1
                    if taken == stop:
                        break
            state = json.loads(json.dumps(loader.state_dict()))
            loader.close()
            resumed = self.loader()
            resumed.load_state_dict(state)
            rest = [images for images, _ in resumed]
            if stop < 7:
                rest += [images for images, _ in resumed]
            self.assertEqual(len(rest), 14 - stop)
            for one, other in zip(rest, wanted[stop:]):
                self.assertTrue(torch.equal(one, other), stop)

    def test_another_number_of_ranks_goes_on_from_an_epochs_begin_alone(self):
        alone = self.loader()
        list(alone)
        at_begin = alone.state_dict()
        next(iter(alone))
        in_between = alone.state_dict()
        second = self.numbers(alone) and None
        del second
        parts = [self.loader(rank=rank, world_size=2) for rank in range(2)]
        for part in parts:
            part.load_state_dict(at_begin)
            self.assertEqual(part.epoch, 1)
        self.assertEqual(sorted(sum((self.numbers(part) for part in parts), [])), list(range(50)))
        with self.assertRaisesRegex(ValueError, 'middle of an epoch'):
            parts[0].load_state_dict(in_between)

    def test_a_state_that_does_not_fit_is_refused_with_the_reason(self):
        loader = self.loader()
        next(iter(loader))
        state = loader.state_dict()
        with self.assertRaisesRegex(ValueError, 'batches of 8'):
            self.loader(batch_size=4).load_state_dict(state)
        with self.assertRaisesRegex(ValueError, 'batches of 4'):  # Though this loader has fewer batches than that.
            one_by_one = self.loader(batch_size=4)
            passing = iter(one_by_one)
            for _ in range(9):
                next(passing)
            loader.load_state_dict(one_by_one.state_dict())
        with self.assertRaisesRegex(ValueError, 'order'):
            self.loader(shuffle=False).load_state_dict(state)
        with self.assertRaisesRegex(ValueError, 'seed 1, and this loader has seed 2'):
            self.loader(seed=2).load_state_dict(state)
        made_images(self.folder / 'other', 20)
        with dsanalyze.Loader(self.folder / 'other', 8, prep=dsanalyze.RandomResizedCrop(side)) as other:
            with self.assertRaisesRegex(ValueError, '50 samples'):
                other.load_state_dict(state)
        passing = iter(self.loader(batch_size=2))
        for wrong in ({}, {'version': 1}, {**state, 'version': 7}, None, {**state, 'sampler': 'x'}, {**state, 'sampler': 3}, {**state, 'batch': 'two'},
                      {**state, 'epoch': 4}, {**state, 'batch': 3}, {**state, 'batch': 0}, {**state, 'batch': 99}, {**state, 'epoch': 1 << 64},
                      {**state, 'batch': 7, 'sampler': self.loader()._source.state((1, 0))}):
            with self.assertRaises(ValueError):
                loader.load_state_dict(wrong)
            with self.assertRaises(ValueError):
                passing._loader.load_state_dict(wrong)
            next(passing)  # A refused state changes nothing.
        self.assertEqual(len(list(loader)), 7)


if __name__ == '__main__':
    unittest.main()
