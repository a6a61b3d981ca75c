"""Test accuracy of a small network that dsanalyze.Loader and torchvision with a DataLoader train, on the same files with the same augmentation: equal within run-to-run noise?

usage: accuracy.py --photos FOLDER [--seeds 5] [--epochs 12] [--images 120]

Makes a dataset of ten classes, of which the label can be learnt: a shape (disc, square, triangle, cross, ring) in one of two brightnesses, at a random place and size before a
part of one of the photographs. Each seed trains the same network twice, once by each loader, with the same initial weights. Both networks are tested by torchvision's transforms.
"""
import argparse
import pathlib
import random
import statistics
import tempfile

size = 64
batch_size = 64
scale, ratio = (0.5, 1.0), (3 / 4, 4 / 3)
shapes = ('disc', 'square', 'triangle', 'cross', 'ring')
student_975 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 8: 2.36, 10: 2.26}  # By the number of pairs.


def drawn(photo, shape, bright, generator):
    from PIL import ImageDraw
    width, height = 120, 96
    left, top = generator.randint(0, max(photo.width - width, 0)), generator.randint(0, max(photo.height - height, 0))
    image = photo.crop((left, top, left + width, top + height))
    draw = ImageDraw.Draw(image)
    radius = generator.randint(14, 22)
    x, y = generator.randint(radius + 12, width - radius - 12), generator.randint(radius + 8, height - radius - 8)
    tone = generator.randint(215, 255) if bright else generator.randint(0, 40)
    colour, box = (tone, tone, generator.randint(90, 160)), (x - radius, y - radius, x + radius, y + radius)
    if shape == 'disc':
        draw.ellipse(box, fill=colour)
    elif shape == 'square':
        draw.rectangle(box, fill=colour)
    elif shape == 'triangle':
        draw.polygon([(x, y - radius), (x - radius, y + radius), (x + radius, y + radius)], fill=colour)
    elif shape == 'cross':
        third = radius // 3
        draw.rectangle((x - third, y - radius, x + third, y + radius), fill=colour)
        draw.rectangle((x - radius, y - third, x + radius, y + third), fill=colour)
    else:
        draw.ellipse(box, outline=colour, width=max(radius // 3, 4))
    return image


def make(photos, folder, images):
    from PIL import Image
    generator = random.Random(7)
    paths = sorted(photos.glob('*/*.jpg'))[:60]
    opened = [Image.open(path).convert('RGB') for path in paths]
    for part, count in (('train', images), ('test', images // 2)):
        for shape in shapes:
            for bright in (False, True):
                place = folder / part / f'{shape}-{"bright" if bright else "dark"}'
                place.mkdir(parents=True)
                for number in range(count):
                    drawn(generator.choice(opened), shape, bright, generator).save(place / f'{number:04}.jpg', quality=92)


def ours(folder, seed):
    import dsanalyze
    return dsanalyze.Loader(folder, batch_size, prep=[dsanalyze.RandomResizedCrop(size, scale, ratio), dsanalyze.HorizontalFlip(), dsanalyze.Normalize((0.5,) * 3, (0.25,) * 3)],
                            seed=seed)


def torchvisions(folder, seed):
    import torch
    from torchvision import datasets, transforms
    steps = [transforms.RandomResizedCrop(size, scale, ratio, antialias=True), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
             transforms.Normalize((0.5,) * 3, (0.25,) * 3)]
    return torch.utils.data.DataLoader(datasets.ImageFolder(folder, transforms.Compose(steps)), batch_size, shuffle=True, num_workers=1,
                                       generator=torch.Generator().manual_seed(seed))


def network():
    from torch import nn
    layers, before = [], 3
    for width in (24, 48, 96):
        layers += [nn.Conv2d(before, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)]
        before = width
    return nn.Sequential(*layers, nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(before, 2 * len(shapes)))


def trained(loader, seed, epochs):
    import torch
    torch.manual_seed(seed)
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
        schedule.step()
    return model.eval()


def accuracy(model, folder):
    import torch
    from torchvision import datasets, transforms
    steps = transforms.Compose([transforms.Resize(76, antialias=True), transforms.CenterCrop(size), transforms.ToTensor(), transforms.Normalize((0.5,) * 3, (0.25,) * 3)])
    right = count = 0
    with torch.no_grad():
        for images, labels in torch.utils.data.DataLoader(datasets.ImageFolder(folder, steps), batch_size):
            right += int((model(images).argmax(1) == labels).sum())
            count += len(labels)
    return 100 * right / count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--photos', type=pathlib.Path, required=True)
    parser.add_argument('--seeds', type=int, default=5, choices=sorted(student_975))
    parser.add_argument('--epochs', type=int, default=12)
    parser.add_argument('--images', type=int, default=120)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make(arguments.photos, folder, arguments.images)
        rows = []
        for seed in range(1, arguments.seeds + 1):
            makers = [('dsanalyze', ours), ('torchvision', torchvisions)][::1 if seed % 2 else -1]
            reached = {loader: accuracy(trained(of(folder / 'train', seed), seed, arguments.epochs), folder / 'test') for loader, of in makers}
            rows.append(reached)
            print(f'seed {seed}: dsanalyze {reached["dsanalyze"]:.1f} %, torchvision {reached["torchvision"]:.1f} %', flush=True)
    for loader in ('dsanalyze', 'torchvision'):
        values = [row[loader] for row in rows]
        print(f'{loader:<12} {statistics.mean(values):.1f} %, standard deviation {statistics.stdev(values):.1f}')
    differences = [row['dsanalyze'] - row['torchvision'] for row in rows]
    half = student_975[len(rows)] * statistics.stdev(differences) / len(rows) ** 0.5
    print(f'difference   {statistics.mean(differences):+.1f} points, 95 % interval [{statistics.mean(differences) - half:+.1f}, {statistics.mean(differences) + half:+.1f}]')


if __name__ == '__main__':
    main()
