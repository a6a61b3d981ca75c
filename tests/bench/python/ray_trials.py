"""Samples/s of eight trials of Ray Tune that share prep, beside eight that each load for themselves: how many times as many?

usage: ray_trials.py --photos FOLDER [--trials 8] [--seconds 15] [--rounds 3] [--dtype float32] [--batch-size 64] [--copy]

Each trial takes whole batches of torch tensors. Both ways use all cores: the group's prep, or the loaders
of all trials together, each with a worker of its own. Without --copy, trials read the shared batches in place. The two ways alternate. Let nothing else run.
"""
import argparse
import os
import statistics
import tempfile
import time


def train(config):
    import dsanalyze
    import torch
    from ray import tune
    torch.set_num_threads(1)
    shares = config['group'] is not None
    options = {'share': config['group'], 'copy': config['copy']} if shares else {'share': False, 'workers': 1, 'dtype': config['dtype']}
    with dsanalyze.Loader(config['folder'], config['batch_size'], **options) as loader:
        begin, samples = None, 0
        while True:
            for images, labels in loader:
                assert len(images) == len(labels)
                if begin is None:  # All trials are there with the first batch.
                    begin = time.perf_counter()
                    continue
                samples += len(labels)
                if time.perf_counter() - begin > config['seconds']:
                    tune.report({'rate': samples / (time.perf_counter() - begin)})
                    return


def measured(arguments, group):
    from ray import tune
    with tempfile.TemporaryDirectory() as place:
        space = {'trial': tune.grid_search(list(range(arguments.trials))), 'group': group, 'folder': os.path.abspath(arguments.photos), 'seconds': arguments.seconds,
                 'batch_size': arguments.batch_size, 'dtype': arguments.dtype, 'copy': arguments.copy}
        results = tune.Tuner(train, param_space=space, run_config=tune.RunConfig(storage_path=place, verbose=0)).fit()
        if results.errors:
            raise SystemExit(results.errors[0])
        return sum(result.metrics['rate'] for result in results)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--photos', required=True)
    parser.add_argument('--trials', type=int, default=8)
    parser.add_argument('--seconds', type=float, default=15)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--dtype', default='float32', choices=('float32', 'uint8'))
    parser.add_argument('--batch-size', type=int, default=64)
    parser.add_argument('--copy', action='store_true')
    arguments = parser.parse_args()
    import dsanalyze
    import ray
    ray.init(num_cpus=arguments.trials, include_dashboard=False, log_to_driver=False)
    ratios = []
    for _ in range(arguments.rounds):
        with dsanalyze.share(arguments.photos, jobs=arguments.trials, batch_size=arguments.batch_size, dtype=arguments.dtype) as group:
            shared = measured(arguments, group.address)
        alone = measured(arguments, None)
        ratios.append(shared / alone)
        print(f'shared prep {shared:,.0f} samples/s of all trials, each for itself {alone:,.0f}: {ratios[-1]:.2f} times', flush=True)
    print(f'median {statistics.median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]')
    ray.shutdown()


if __name__ == '__main__':
    main()
