"""Trains torchvision's ResNet-18 on a folder of class folders with photographs. usage: imagefolder.py FOLDER [EPOCHS]"""
import sys

import torch
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms

transform = transforms.Compose([transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor()])
dataset = datasets.ImageFolder(sys.argv[1], transform)
loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=4)
model = models.resnet18(num_classes=len(dataset.classes))
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
