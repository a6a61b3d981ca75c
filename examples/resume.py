"""Saves its state with each checkpoint and goes on from it in mid-epoch, with the very same batches. usage: resume.py FOLDER CHECKPOINT [EPOCHS]"""
import os
import sys

import dsanalyze
import torch
from torchvision import models

folder, checkpoint = sys.argv[1:3]
epochs = int(sys.argv[3]) if len(sys.argv) > 3 else 90
loader = dsanalyze.Loader(folder, batch_size=64, prep=[dsanalyze.RandomResizedCrop(224), dsanalyze.HorizontalFlip()])
model = models.resnet18(num_classes=len(loader.classes))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
if os.path.exists(checkpoint):
    saved = torch.load(checkpoint)
    model.load_state_dict(saved['model'])
    optimizer.load_state_dict(saved['optimizer'])
    loader.load_state_dict(saved['loader'])
    print(f'goes on in epoch {loader.epoch}', flush=True)
while loader.epoch < epochs:
    epoch = loader.epoch
    for step, (images, labels) in enumerate(loader):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 4:
            torch.save({'model': model.state_dict(), 'optimizer': optimizer.state_dict(), 'loader': loader.state_dict()}, checkpoint + '.new')
            os.replace(checkpoint + '.new', checkpoint)
    print(f'epoch {epoch}: loss {loss.item():.3f}', flush=True)
