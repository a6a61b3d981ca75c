"""Trains torchvision's ResNet-18 on a folder of class folders with photographs. usage: imagefolder_dsanalyze.py FOLDER [EPOCHS]"""
import sys

import dsanalyze
import torch
from torchvision import models

prep = [dsanalyze.RandomResizedCrop(224), dsanalyze.HorizontalFlip()]
loader = dsanalyze.Loader(sys.argv[1], batch_size=64, prep=prep)
model = models.resnet18(num_classes=len(loader.classes))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for epoch in range(int(sys.argv[2]) if len(sys.argv) > 2 else 90):
    losses = []
    for images, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f'epoch {epoch}: loss {sum(losses) / len(losses):.3f}', flush=True)
