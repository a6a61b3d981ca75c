"""Runs scripts of a few lines under the hook, against a launcher made for the tests."""
import pathlib
import unittest

from fake_launcher import Launcher, Plan, run, switch, unexplained

preamble = '''
import os, queue, sys, threading, time
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

def data(samples=160):
    return TensorDataset(torch.arange(samples, dtype=torch.float32).repeat(4, 1).t().contiguous())

torch.manual_seed(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)

def step(x, sleep=0.002):
    model(x).mean().backward()
    time.sleep(sleep)
    optimizer.step()
    optimizer.zero_grad()
'''
phases = (run(5), switch('synthetic'), run(20), switch('full'))


class ScriptTest(unittest.TestCase):
    def launch(self, text, *answers, mode='phases', environment=None, **options):
        self.launcher = Launcher(Plan(*(answers or phases), then=run(1000)), mode=mode, environment=environment)
        path = pathlib.Path(self.launcher.folder.name, 'script.py')
        path.write_text(preamble + text)
        output = self.launcher.run(path, **options)
        return output, self.launcher.connections[0] if self.launcher.connections else None

    def check(self, connection, primaries=1, notes=()):
        self.assertEqual(len(connection.of('loader')), primaries)
        self.assertEqual(set(connection.notes()), set(notes))
        self.assertEqual(len(connection.windows('synthetic')[0]['wait']), 20)
        for window in connection.windows():
            self.assertEqual(unexplained(window), 0)

    def launch_with(self, text, argument, *answers, mode='phases'):
        self.launcher = Launcher(Plan(*answers, then=run(1000)), mode=mode)
        path = pathlib.Path(self.launcher.folder.name, 'script.py')
        path.write_text(preamble + text)
        return self.launcher.run(path, argument), self.launcher.first
