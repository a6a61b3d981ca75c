"""Two servers hold the dataset together, half of it each, and storage is read once. usage, on both servers: torchrun --nnodes 2 --rdzv-endpoint FIRST:29400 two_servers.py FOLDER [EPOCHS]"""
import sys

import dsanalyze
import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel
from torchvision import models

torch.distributed.init_process_group('nccl' if torch.cuda.is_available() else 'gloo')
rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
device = torch.device('cuda', rank % torch.cuda.device_count()) if torch.cuda.is_available() else torch.device('cpu')
# The loaders meet through the process group. Each keeps its part in memory, a little more than its share, and asks the others for the rest.
loader = dsanalyze.Loader(sys.argv[1], batch_size=32, cache_size=f'{105 / world:.1f}%', partition='partitioned', drop_last=True)
model = DistributedDataParallel(models.resnet18(num_classes=len(loader.classes)).to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for epoch in range(int(sys.argv[2]) if len(sys.argv) > 2 else 90):
    for images, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(images.to(device, non_blocking=True)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    report = loader.report()
    print(f'rank {rank}, epoch {epoch}: {report["ranks"]["bytes_from_others"]:,} bytes came from other ranks', flush=True)
loader.close()
torch.distributed.destroy_process_group()
