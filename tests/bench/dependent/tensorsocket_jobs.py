#!/usr/bin/env python3
"""TensorSocket's part of mixed_jobs.py: one producer for all jobs, or one job. Needs torch, torchvision and tensorsocket of PyPI.

  tensorsocket_jobs.py producer DATASET BATCH JOBS      prepares with torchvision until it is ended
  tensorsocket_jobs.py job RATE BATCH EPOCHS            takes batches, and computes for batch / rate seconds with each"""
import json
import os
import sys
import time

import tensorsocket


def produce(dataset, batch, jobs):
    import torch
    import torchvision
    from torchvision import transforms
    torch.set_num_threads(1)
    prep = transforms.Compose([transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.PILToTensor()])
    data = torchvision.datasets.ImageFolder(dataset, prep)
    # What is sent is put together from several batches of the loader, and what is left of the last one is dropped.
    parts = 8
    loader = torch.utils.data.DataLoader(data, batch_size=batch // parts, shuffle=True, num_workers=os.cpu_count(), persistent_workers=True)
    producer = tensorsocket.TensorProducer(loader, producer_batch_size=parts)
    print("ready", flush=True)
    while len(producer.hb.consumers) < jobs:
        time.sleep(0.01)
    while True:
        for _ in producer:
            pass


def train(rate, batch, epochs):
    print("ready", flush=True)
    consumer = tensorsocket.TensorConsumer(batch_size=batch)
    samples = 0
    done = 0.0
    for _ in range(epochs):
        for data in consumer:
            count = len(data[0])
            done = max(done, time.monotonic()) + count / rate
            time.sleep(max(0, done - time.monotonic()))
            samples += count
    print(json.dumps({"job": int(os.environ["MIXED_JOB"]), "samples": samples, "ended": time.monotonic()}), flush=True)
    os._exit(0)  # Its threads wait for batches for ever.


def main():
    if sys.argv[1] == "producer":
        produce(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        train(float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))


if __name__ == "__main__":
    main()
