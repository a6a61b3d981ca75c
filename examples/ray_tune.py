"""Eight trials of Ray Tune that share one preparation: each sample is read and prepared once for all of them. usage: ray_tune.py FOLDER [EPOCHS]"""
import os
import sys
import tempfile

import dsanalyze
import ray
import torch
from ray import tune
from torchvision import models

trials = 8
folder, epochs = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 90


def train(config):
    torch.manual_seed(1)
    loader = dsanalyze.Loader(folder, 64, share=config['group'])  # Each trial is a process that does not inherit this one's environment.
    model = models.shufflenet_v2_x0_5(num_classes=config['classes'])
    optimizer = torch.optim.SGD(model.parameters(), lr=config['lr'], momentum=0.9)
    for _ in range(epochs):
        losses = []
        for images, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        tune.report({'loss': sum(losses) / len(losses)})
    loader.close()


with tempfile.TemporaryDirectory() as place, dsanalyze.share(folder, jobs=trials, batch_size=64, epochs=epochs) as group:
    with dsanalyze.Loader(folder, 1, share=False) as loader:
        classes = len(loader.classes)
    ray.init(num_cpus=trials, include_dashboard=False, log_to_driver=False)  # All trials at a time: shared prep waits for all of them.
    space = {'lr': tune.grid_search([0.4 / 2 ** at for at in range(trials)]), 'group': group.address, 'classes': classes}
    results = tune.Tuner(train, param_space=space, run_config=tune.RunConfig(storage_path=place, verbose=0)).fit()
    best = results.get_best_result('loss', 'min')
    print(f'{len(results)} trials, {len(results.errors)} failed; best: lr {best.config["lr"]:g}, loss {best.metrics["loss"]:.3f}')
    ray.shutdown()
