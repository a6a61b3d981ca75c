"""The same on several processes: each rank has its part of each global batch. usage: torchrun --nproc-per-node 2 ddp.py FOLDER [EPOCHS]"""
import sys

import dsanalyze
import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel
from torchvision import models

torch.distributed.init_process_group('nccl' if torch.cuda.is_available() else 'gloo')
rank = torch.distributed.get_rank()
device = torch.device('cuda', rank % torch.cuda.device_count()) if torch.cuda.is_available() else torch.device('cpu')
# Rank and number of ranks are those that torchrun has set. All ranks give as many batches; without drop_last the last ones may differ in size.
loader = dsanalyze.Loader(sys.argv[1], batch_size=32, prep=[dsanalyze.RandomResizedCrop(224), dsanalyze.HorizontalFlip()], drop_last=True)
model = DistributedDataParallel(models.resnet18(num_classes=len(loader.classes)).to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for epoch in range(int(sys.argv[2]) if len(sys.argv) > 2 else 90):
    seen = 0
    for images, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(images.to(device, non_blocking=True)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen += len(labels)
    print(f'rank {rank}, epoch {epoch}: {seen} samples', flush=True)
loader.close()
torch.distributed.destroy_process_group()
