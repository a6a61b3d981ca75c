"""dsanalyze.Loader in the Trainer of Hugging Face. usage: hf_trainer.py FOLDER [EPOCHS]"""
import sys
import tempfile

import dsanalyze
from transformers import ResNetConfig, ResNetForImageClassification, Trainer, TrainingArguments


class ImageTrainer(Trainer):
    def get_train_dataloader(self):
        return dsanalyze.Loader(sys.argv[1], self.args.per_device_train_batch_size, prep=[dsanalyze.RandomResizedCrop(224), dsanalyze.HorizontalFlip()],
                                transform=lambda images, labels: {'pixel_values': images.to(self.args.device, non_blocking=True), 'labels': labels.to(self.args.device)})


with dsanalyze.Loader(sys.argv[1], 1, share=False) as loader:
    classes = len(loader.classes)
model = ResNetForImageClassification(ResNetConfig(depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512], layer_type='basic', num_labels=classes))
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(folder, num_train_epochs=float(sys.argv[2]) if len(sys.argv) > 2 else 90, per_device_train_batch_size=64, save_strategy='no', report_to=[])
    result = ImageTrainer(model=model, args=arguments, train_dataset=range(1)).train()
print(f'{result.global_step} steps, loss {result.training_loss:.3f}')
