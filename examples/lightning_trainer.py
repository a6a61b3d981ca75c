"""dsanalyze.Loader in PyTorch Lightning. usage: lightning_trainer.py FOLDER [EPOCHS]"""
import sys

import dsanalyze
import lightning
import torch
from torchvision import models


class Classifier(lightning.LightningModule):
    def __init__(self, classes):
        super().__init__()
        self.model = models.resnet18(num_classes=classes)

    def training_step(self, batch, _):
        images, labels = batch
        loss = torch.nn.functional.cross_entropy(self.model(images), labels)
        self.log('loss', loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


if __name__ == '__main__':
    loader = dsanalyze.Loader(sys.argv[1], batch_size=64, prep=[dsanalyze.RandomResizedCrop(224), dsanalyze.HorizontalFlip()])
    trainer = lightning.Trainer(max_epochs=int(sys.argv[2]) if len(sys.argv) > 2 else 90, logger=False, enable_checkpointing=False)
    trainer.fit(Classifier(len(loader.classes)), loader)
    print(f'{trainer.current_epoch} epochs of {trainer.num_training_batches} batches, loss {trainer.callback_metrics["loss"]:.3f}')
