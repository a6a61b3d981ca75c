"""Scripts that are not like the textbook's: what trains is found all the same, and nothing of the script's changes."""
import pathlib
import unittest

from fake_launcher import Launcher, Plan, drain, end, run, switch
from script_rig import ScriptTest, preamble


class Scripts(ScriptTest):
    def test_batches_of_different_sizes_are_all_handed_out_again(self):
        _, connection = self.launch('''
class Buckets:
    batch_size = 8  # At most.

    def __len__(self):
        return 60

    def __iter__(self):
        return (list(range(2 + 2 * (number % 4))) for number in range(60))

for x, in DataLoader(data(), batch_sampler=Buckets()):
    step(x)
''', run(20), switch('synthetic'), run(20), end)
        self.check(connection)
        window = connection.windows('synthetic')[0]
        self.assertEqual(set(window['samples']), {2, 4, 6, 8})
        self.assertEqual(window['samples'][:4], window['samples'][16:])

    def test_only_the_last_batch_of_an_epoch_that_a_batch_size_leaves_short_is_not_handed_out_again(self):
        for options in ('batch_size=4', 'batch_size=4, num_workers=2'):
            _, connection = self.launch('''
for epoch in range(8):
    for x, in DataLoader(data(42), OPTIONS):
        step(x)
'''.replace('OPTIONS', options), run(1), switch('synthetic'), run(30))
            self.assertEqual({samples for window in connection.windows('synthetic') for samples in window['samples']}, {4})

    def test_validation_with_gradients_enabled_is_not_training(self):
        output, connection = self.launch('''
train, validation = DataLoader(data(), 4, shuffle=True), DataLoader(data(40), 4)
for x, in validation:
    model(x)
    break
for epoch in range(2):
    for number, (x,) in enumerate(train):
        step(x)
        if number % 10 == 9:
            for x, in validation:
                model(x)
                time.sleep(0.001)
    print('epoch', number + 1)
''')
        self.assertEqual(output, 'epoch 40\nepoch 40\n')
        self.check(connection)
        self.assertEqual(sum(sum(window['validation']) for window in connection.windows()), 8 * 10 * 1_000_000)

    def test_evaluation_over_the_training_loader_is_not_training(self):
        output, connection = self.launch('''
train = DataLoader(data(), 4)
for epoch in range(3):
    seen = sum(1 for x, in train if step(x) is None)
    with torch.no_grad():
        seen += sum(1 for x, in train if time.sleep(0.001) is None)
    print('epoch', seen)
''')
        self.assertEqual(output, 'epoch 80\n' * 3)
        self.check(connection)
        self.assertEqual(len(connection.at('epoch_end')), 3)
        self.assertEqual(connection.at('start')[-1]['between']['validation'], 40 * 1_000_000)

    def test_a_look_at_a_batch_is_no_epoch_and_no_step(self):
        for look in ('next(iter(train))', 'kept = iter(train); next(kept)'):
            for options in ('', ', num_workers=1'):
                output, connection = self.launch('''
train = DataLoader(data(), 4OPTIONS)
for epoch in range(3):
    seen = 0
    for number, (x,) in enumerate(train):
        if number % 10 == 5:
            LOOK
        step(x)
        seen += 1
    print('epoch', seen)
'''.replace('LOOK', look).replace('OPTIONS', options))
                self.assertEqual(output, 'epoch 40\n' * 3)
                self.check(connection)
                self.assertEqual(len(connection.at('start')), 3)
                steps = sum(len(window['wait']) for window in connection.windows())
                self.assertEqual(steps, 119)

    def test_an_epoch_is_found_whose_predecessor_is_still_kept(self):
        output, connection = self.launch('''
train = DataLoader(data(), 4)
kept = []
for epoch in range(4):
    kept.append(iter(train))
    print('epoch', sum(1 for _, (x,) in zip(range(20), kept[-1]) if step(x) is None))
''')
        self.assertEqual(output, 'epoch 20\n' * 4)
        self.assertEqual(sum(len(window['wait']) for window in connection.windows('synthetic')), 20)
        self.assertEqual(len(connection.at('start')), 4)

    def test_a_loader_of_which_a_step_takes_two_batches_trains_beside_the_other(self):
        text = '''
class Slow(Dataset):
    def __len__(self):
        return 400
    def __getitem__(self, index):
        time.sleep(0.001)
        return torch.ones(4)

labeled, unlabeled = DataLoader(Slow(), 4), DataLoader(data(800), 4)
second = iter(unlabeled)
for x in labeled:
    model(next(second)[0]).mean().backward()
    model(next(second)[0]).mean().backward()
    step(x)
'''
        _, connection = self.launch(text, run(20), switch('synthetic'), run(20), switch('full'), drain(0, 12, which='warm'), drain(0, 12))
        self.assertEqual([(loader['batch_size'], loader['samples']) for loader in connection.of('loader')], [(4, 400)])
        full = connection.windows('full')[0]
        self.assertEqual((len(full['wait']), set(full['steps']), sum(full['validation'])), (20, {1}, 0))
        self.assertEqual(set(full['wait']), {4_000_000})
        warm, measured = connection.of('drained')
        self.assertEqual((len(measured['times']), measured['error']), (12, None))

    def test_what_comes_before_the_first_batch_is_no_part_of_a_drains_seconds(self):
        _, connection = self.launch('''
class StartsSlowly(Dataset):
    def __len__(self):
        return 400
    def __getitem__(self, index):
        time.sleep(0.01 if index else 6)
        return torch.ones(4)

for x in DataLoader(StartsSlowly(), 4):
    step(x)
''', run(20), drain(0, 20, which='warm'), drain(0, 0, seconds=0.5), end)
        _, measured = connection.of('drained')
        self.assertEqual([after - before for before, after in zip(measured['times'], measured['times'][1:])], 13 * [40_000_000])

    def test_a_loader_made_anew_for_each_epoch_stays_the_training_loader(self):
        output, connection = self.launch('''
for epoch in range(4):
    print('epoch', sum(1 for x, in DataLoader(data(), 4) if step(x) is None))
''')
        self.assertEqual(output, 'epoch 40\n' * 4)
        self.check(connection, primaries=4)
        self.assertEqual(len(connection.at('start')), 4)

    def test_a_loop_that_looks_one_batch_ahead_keeps_its_epochs(self):
        output, connection = self.launch('''
def ahead(loader):
    batches = iter(loader)
    current = next(batches)
    for following in batches:
        yield current
        current = following
    yield current

train = DataLoader(data(), 4, num_workers=2)
for epoch in range(3):
    print('epoch', sum(1 for x, in ahead(train) if step(x) is None))
''')
        self.assertEqual(output, 'epoch 40\n' * 3)
        self.check(connection)

    def test_batches_fetched_by_a_thread_are_training_all_the_same(self):
        output, connection = self.launch('''
def background(loader):
    fetched = queue.Queue(2)
    def fetch():
        for batch in loader:
            fetched.put(batch)
        fetched.put(None)
    threading.Thread(target=fetch, daemon=True).start()
    return iter(fetched.get, None)

train = DataLoader(data(), 4)
for epoch in range(3):
    print('epoch', sum(1 for x, in background(train) if step(x) is None))
''')
        self.assertEqual(output, 'epoch 40\n' * 3)
        self.assertEqual(set(connection.notes()) - {'loader-in-thread'}, set())
        self.assertIn('loader-in-thread', connection.notes())

    def test_a_loader_inside_a_dataset_is_not_the_training_loader(self):
        output, connection = self.launch('''
class Nested(Dataset):
    def __len__(self):
        return 160
    def __getitem__(self, index):
        return next(iter(DataLoader(data(4), 1)))[0][0] + index

class Outer(DataLoader):
    pass

print('epoch', sum(1 for x in Outer(Nested(), 4) if step(x) is None))
''')
        self.assertEqual(output, 'epoch 40\n')
        self.check(connection)
        self.assertEqual(connection.of('loader')[0]['name'], '__main__.Outer')

    def test_two_optimizers_that_take_turns_are_one_step(self):
        output, connection = self.launch('''
other = torch.optim.Adam(torch.nn.Linear(4, 1).parameters())
for epoch in range(2):
    for x, in DataLoader(data(), 4) if epoch else DataLoader(data(), 4):
        step(x)
        other.step()
print('done')
''')
        self.check(connection, primaries=2)
        self.assertEqual(set(connection.windows('synthetic')[0]['steps']), {2})

    def test_a_scheduler_and_a_closure_step_as_they_would(self):
        output, connection = self.launch('''
optimizer = torch.optim.LBFGS(model.parameters(), lr=1e-9, max_iter=2)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-9, total_steps=40, cycle_momentum=False)
def closure():
    optimizer.zero_grad()
    loss = model(x).mean()
    loss.backward()
    return loss
for x, in DataLoader(data(), 4):
    optimizer.step(closure)
    schedule.step()
print('epoch', schedule.last_epoch)
''')
        self.assertEqual(output, 'epoch 40\n')
        self.check(connection)

    def test_workers_without_a_share_of_the_stream_end_at_once_and_the_others_are_followed(self):
        _, connection = self.launch('''
from torch.utils.data import IterableDataset, get_worker_info
class OneShard(IterableDataset):
    def __iter__(self):
        worker = get_worker_info()
        yield from (torch.randn(4) for _ in range(4000 if worker is None or worker.id == 0 else 0))
for x in DataLoader(OneShard(), 4, num_workers=4):
    step(x)
''', run(5), drain(4, 8, which='warm'), switch('cached'), run(10), switch('busy'), run(10), switch('synthetic'), run(10), drain(4, 8), end)
        self.assertNotIn('hook-failed', connection.notes())
        self.assertEqual([window['mode'] for window in connection.windows()], ['full', 'cached', 'busy', 'synthetic'])

    def test_steps_that_a_scaler_leaves_out_are_counted(self):
        output, connection = self.launch('''
if not hasattr(torch.amp, 'GradScaler'):
    print('no scaler')
    sys.exit()
scaler = torch.amp.GradScaler('cpu', init_scale=2.0)
for number, (x,) in enumerate(DataLoader(data(), 4)):
    scaler.scale(model(x).mean() * (float('inf') if number in (7, 8) else 1)).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
''', run(10), end)
        if 'no scaler' in output:
            self.skipTest('this torch has no GradScaler for the CPU')
        self.assertEqual(connection.windows()[0]['skipped'], 2)

    def test_an_evaluation_on_the_training_loader_gets_all_of_its_batches_in_every_phase(self):
        text = '''
persistent = sys.argv[1] == 'persistent'
loader = DataLoader(data(), 4, num_workers=1, persistent_workers=persistent)

def evaluate():
    with torch.no_grad():
        return sum(1 for x, in loader)

for epoch in range(4):
    for number, (x,) in enumerate(loader):
        step(x)
        if number == 15 and not persistent:
            print('in between', evaluate(), len(next(iter(loader))))
            with torch.no_grad():
                model(next(iter(loader))[0])
    print('epoch', number + 1, evaluate())
'''
        for way, lines in (('new', 'in between 40 1\nepoch 40 40\n'), ('persistent', 'epoch 40 40\n')):
            output, _ = self.launch_with(text, way, run(5), switch('synthetic'), run(60), drain(1, 8, which='warm'), switch('cached'), run(60))
            self.assertEqual(output, lines * 4)

    def test_batches_that_a_collate_function_dropped_end_no_drain(self):
        _, connection = self.launch('''
def collate(samples):
    return None if samples[0][0][0] in (0, 20) else torch.utils.data.default_collate(samples)

for batch in DataLoader(data(), 4, collate_fn=collate, num_workers=1):
    if batch is not None:
        step(batch[0])
''', run(10), drain(1, 12, which='warm'), drain(1, 30))
        self.assertEqual([len(message['times']) for message in connection.of('drained')], [12, 30])

    def test_streams_of_batches_whose_first_dimension_is_time_are_drained_in_samples(self):
        _, connection = self.launch('''
from torch.utils.data import IterableDataset

class Stream(IterableDataset):
    def __iter__(self):
        return (torch.ones(50, 4) for _ in range(160))

for x in DataLoader(Stream(), 8, collate_fn=lambda samples: torch.stack(samples, 1)):
    step(x)
''', run(3), drain(0, 8, which='warm'), drain(0, 10))
        self.assertEqual({count for message in connection.of('drained') for count in message['samples']}, {8})

    def test_a_passive_run_counts_what_the_sampler_draws(self):
        for make, drawn in (('DataLoader(data(), 8, sampler=torch.utils.data.SubsetRandomSampler(range(50)))', 50),
                            ('DataLoader(data(), 8, sampler=torch.utils.data.WeightedRandomSampler([1.0] * 160, 205))', 205),
                            ('DataLoader(data(), batch_sampler=torch.utils.data.BatchSampler(range(63), 8, drop_last=True))', 56),
                            ('DataLoader(data(), batch_sampler=Buckets())', 60)):
            _, connection = self.launch('''
class Buckets:
    batch_size = 8
    def __iter__(self):
        return (list(range(number)) for number in (8, 7, 6, 5, 4, 8, 7, 6, 5, 4))

loader = {}
for epoch in range(2):
    for x, in loader:
        step(x)
'''.format(make), mode='passive')
            counted = 0
            for message in connection.of('passive'):
                samples = message['window']['samples']
                counted += sum(samples) if isinstance(samples, list) else samples * len(message['window']['wait'])
            self.assertEqual(counted, 2 * drawn - 8, make)

    def test_a_script_that_closes_every_descriptor_keeps_its_files_to_itself(self):
        text = '''
for number, (x,) in enumerate(DataLoader(data(), 4)):
    if number == 8:
        os.closerange(3, 64)
        files = [open('file' + str(number), 'w') for number in range(24)]
    step(x, 0.03 if number > 30 else 0.001)
for file in files:
    file.close()
print('epoch', number + 1, sum(os.path.getsize('file' + str(number)) for number in range(24)))
'''
        self.assertEqual(self.launch(text, mode='passive')[0], 'epoch 40 0\n')
        # Under phases the launcher is lost with the descriptors, and the run with it.
        self.launcher = Launcher(Plan(then=run(1000)))
        path = pathlib.Path(self.launcher.folder.name, 'script.py')
        path.write_text(preamble + text)
        self.launcher.run(path, expect=1)
        written = [pathlib.Path(self.launcher.folder.name, 'file' + str(number)) for number in range(24)]
        self.assertEqual(sum(file.stat().st_size for file in written), 0)

    def test_a_daemon_of_the_script_is_left_alone(self):
        output, connection = self.launch('''
for number, (x,) in enumerate(DataLoader(data(), 4)):
    step(x)
    if number == 10 and not os.fork():
        time.sleep(0.1)
        os._exit(0)
print('epoch', number + 1)
''')
        self.assertEqual(output, 'epoch 40\n')
        self.check(connection)

    def test_a_hook_that_fails_leaves_the_script_to_itself(self):
        output, connection = self.launch('''
sys.modules['_dsanalyze_attach.batches'].Replay.next = lambda self: 1 / 0
for epoch in range(2):
    print('epoch', sum(1 for x, in DataLoader(data(), 4, num_workers=2) if step(x) is None))
''')
        self.assertEqual(output, 'epoch 40\nepoch 40\n')
        self.assertIn('ZeroDivisionError', connection.notes()['hook-failed']['text'])
        self.assertEqual([message['why'] for message in connection.of('off')], ['ZeroDivisionError: division by zero'])

    def test_what_a_signal_handler_of_the_script_raises_within_the_hook_is_the_scripts(self):
        text = '''
import functools, signal
class Late(Exception): pass
class Handler:
    def late(self, *_):
        raise Late('from a signal')
    def __call__(self, *_):
        self.late()
handler = {'method': Handler().late, 'object': Handler(), 'partial': functools.partial(Handler.late, None)}[sys.argv[1]]
signal.signal(signal.SIGALRM, handler)
def interrupted():
    os.kill(os.getpid(), signal.SIGALRM)
    yield 4
loader, heard = DataLoader(data(), 4), []
for epoch in range(2):
    try:
        for number, (x,) in enumerate(loader):
            step(x)
            if number == 8 and not epoch:
                sys.modules['_dsanalyze_attach.hook'].hook.engine._common.sizes = interrupted()
    except Late as error:
        heard.append((number, str(error)))
print('heard', heard, 'epoch', number + 1)
'''
        for mode, kind in (('passive', 'method'), ('phases', 'method'), ('phases', 'object'), ('phases', 'partial')):
            with self.subTest(mode=mode, kind=kind):
                output, connection = self.launch_with(text, kind, run(1000), mode=mode)
                self.assertRegex(output, r"^heard \[\([0-9]+, 'from a signal'\)\] epoch 40\n$")
                self.assertIn('Late: from a signal', connection.notes()['hook-failed']['text'])
                # A script that goes on is not followed further, which is told once it does so.
                self.assertEqual([message['why'] for message in connection.of('off')], ['Late: from a signal'] * (mode == 'phases'))

    def test_an_error_that_a_signal_handler_raises_within_the_hook_ends_the_script_under_its_own_name(self):
        _, connection = self.launch('''
import signal
def late(*_):
    raise RuntimeError('DataLoader worker is killed')
signal.signal(signal.SIGCHLD, late)
def interrupted():
    os.kill(os.getpid(), signal.SIGCHLD)
    yield 4
for number, (x,) in enumerate(DataLoader(data(), 4)):
    step(x)
    if number == 8:
        sys.modules['_dsanalyze_attach.hook'].hook.engine._common.sizes = interrupted()
''', run(1000), expect=1)
        self.assertEqual(connection.of('off'), [])
        self.assertIn('RuntimeError: DataLoader worker is killed', connection.of('bye')[0]['error'])


if __name__ == '__main__':
    unittest.main()
