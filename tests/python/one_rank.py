"""One rank of a job whose ranks hold a dataset together: usage: one_rank.py OPTIONS, a JSON object. Prints what it loaded as one."""
import json
import os
import sys
import time

import dsanalyze

given = json.loads(sys.argv[1])
if 'machine' in given:
    import dsanalyze._ranks
    dsanalyze._ranks._machine = lambda: given['machine']
if given.get('torch'):
    import torch
    torch.distributed.init_process_group('gloo')
    torch.distributed.barrier()
options = {'partition': 'partitioned', 'cache_size': '60%', 'prep': dsanalyze.RandomResizedCrop(8), 'dtype': 'uint8', 'workers': 1, 'with_ids': True,
           'output': 'numpy', **given.get('options', {})}
try:
    loader = dsanalyze.Loader(given['dataset'], given.get('batch_size', 4), **options)
    if 'state' in given:
        loader.load_state_dict(given['state'])
    epochs = []
    for step in given.get('passes', [{}]):
        if 'set_epoch' in step:
            loader.set_epoch(step['set_epoch'])
        ids, sizes = [], []
        for at, (images, labels, numbers) in enumerate(loader):  # The last batch is held while the next pass begins.
            ids += [int(number) for number in numbers]
            sizes.append(len(numbers))
            if step.get('kill') == at:
                os.kill(os.getpid(), 9)
            if step.get('leave') == at + 1:
                break
            if step.get('close') == at:
                loader.close()
                time.sleep(60)
            time.sleep(step.get('pause', 0))
        epochs.append({'ids': ids, 'sizes': sizes})
    report = loader.report()
    while True:  # What is prepared ahead changes it until there is room for no more.
        time.sleep(0.1)
        before, report = report, loader.report()
        if before == report:
            break
    print(json.dumps({'epochs': epochs, 'report': report, 'state': loader.state_dict()}))
    loader.close()
except (ValueError, OSError, RuntimeError) as error:
    print(json.dumps({'error': str(error), 'kind': type(error).__name__, 'epochs': epochs if 'epochs' in globals() else []}), flush=True)
    time.sleep(given.get('lives_on', 0))
