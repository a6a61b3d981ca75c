#!/usr/bin/env python3
"""Whether samples, labels and their order are those of the readers that people train with: WebDataset, NumPy and torchvision's ImageFolder.

usage: readers_differential.py PROGRAM [--seed 1] [--shards 200] [--arrays 60] [--trees 60] [--default-keys] [--keep FOLDER]

Makes seeded datasets with odd names, keys, orders, formats and files that change behind a kept index, and reads each both ways. Ours is what `dataset index` writes,
or what `dataset convert` makes of a dataset whose index was kept before it changed. A case ends in one of four ways:

  same       the same samples, bytes and labels, in the same order
  refused    both end in an error
  stricter   we end in an error that names members, and the other reader guesses: members of one sample torn apart, two that could be the sample
  DIFFERENT  a defect; it is printed with the case's seed, and the exit code is 1

What is different on purpose is left out of the comparison, and counted: hidden files and files beside class folders (ImageFolder takes the first and leaves out the
second), formats that only one of the two reads (.bmp, .jpe). WebDataset and NumPy come from PyPI (pip install webdataset numpy), torchvision from Debian
(python3-torchvision); where one is missing its cases are left out, and said so.
"""
import argparse
import collections
import contextlib
import io
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile

IMAGES = ("jpg", "jpeg", "jpe", "png", "webp")
NO_LABEL = 0xFFFFFFFF  # in our index: others have a label, this sample has none
DATA_KEYS = (*IMAGES, "npy")
WORDS = ["a", "b", "img", "n01440764", "x y", "grün", "猫", b"\xff\xfe", "a-b", "a_b", "A", "10", "9", "__x", "x__", "c+d", "z" * 90]


class Refused(Exception):
    pass


def as_path(part):
    return os.fsdecode(part) if isinstance(part, bytes) else part


class Program:
    def __init__(self, path, folder):
        self.path = path
        self.folder = folder
        self.environment = dict(os.environ, XDG_CACHE_HOME=str(folder / "cache"), XDG_STATE_HOME=str(folder / "state"))

    def run(self, *arguments):
        command = [self.path, *map(os.fsencode, map(str, arguments))]
        run = subprocess.run(command, capture_output=True, env=self.environment, timeout=300, check=False)
        if run.returncode != 0:
            raise Refused(run.stderr.decode(errors="replace"))

    def samples_of_index(self, path, *options):
        """Bytes, label and place of each sample, by the index file that the program makes."""
        file = self.folder / "view.dsidx"
        self.run("dataset", "index", path, "--index", file, *options)
        content = file.read_bytes()
        _, _, records, files, _, facts_bytes, _ = struct.unpack_from("<8sIIIIQQ", content)
        offsets_at = 64 + 24 * records
        offsets = struct.unpack_from(f"<{files + 1}Q", content, offsets_at)
        paths = content[offsets_at + 8 * (files + 1) + facts_bytes:]
        root = path if path.is_dir() else path.parent
        samples = []
        for number in range(records):
            offset, length, in_file, label = struct.unpack_from("<QQII", content, 64 + 24 * number)
            name = os.fsdecode(paths[offsets[in_file]:offsets[in_file + 1]])
            with open(root / name, "rb") as data:
                data.seek(offset)
                samples.append((data.read(length), label, name))
        return samples

    def samples_by_conversion(self, path):
        """Bytes and label of each sample, opened as every command opens a dataset: with the index that was kept."""
        target = self.folder / "converted"
        self.run("dataset", "convert", path, target, "--to", "tar", "--order", "index")
        samples = []
        for shard in sorted(target.glob("*.tar")):
            with tarfile.open(shard) as archive:
                for member in archive:
                    content = archive.extractfile(member).read()
                    if member.name.endswith(".cls"):
                        samples[-1] = (samples[-1][0], int(content))
                    else:
                        samples.append((content, 0))
        shutil.rmtree(target)
        return samples


def webdataset_samples(files, image_key, label_key):
    import webdataset

    samples = []
    try:
        for sample in webdataset.WebDataset([str(file) for file in files], shardshuffle=False, empty_check=False):
            found = [key for key in (image_key or ";".join(DATA_KEYS)).split(";") if key in sample]
            label = next((sample[key] for key in (label_key or "cls").split(";") if key in sample), None)
            samples.append((sample["__key__"], [sample[key] for key in found], label))
    except ValueError as error:
        raise Refused(str(error)) from error
    return samples


class ShardCase:
    """One or two shards of a few samples, with what writers of shards do."""

    chooses_keys = True

    def __init__(self, draw, folder):
        self.draw = draw
        self.odd = draw.random() < 0.35  # may hold what a reader has to refuse
        self.image_key, self.label_key = "", ""
        if self.chooses_keys and draw.random() < 0.35:
            self.image_key = draw.choice(["jpg", "jpg;png", "png;jpg", "depth.png", "jpeg;jpg;png;webp", "rgb.jpg;jpg"])
        if self.chooses_keys and draw.random() < 0.35:
            self.label_key = draw.choice(["cls", "fine.cls", "fine.cls;cls", "coarse.cls;cls"])
        self.files = []
        for number in range(draw.choice([1, 1, 1, 2])):
            self.files.append(folder / f"shard-{number}.tar")
            self.write(self.files[-1])
        self.path = self.files[0] if len(self.files) == 1 else folder

    def key(self, number):
        parts = [as_path(self.draw.choice(WORDS)) for _ in range(self.draw.choice([0, 0, 0, 1, 2]))]
        parts = [part + self.draw.choice(["", "", ".v2"]) for part in parts]
        name = as_path(self.draw.choice(WORDS)) + (f"{number}" if not self.odd or self.draw.random() < 0.8 else "")
        return self.draw.choice(["", "", "./"]) + "/".join([*parts, name])

    def extension(self, name):
        return name.upper() if self.draw.random() < 0.1 else name

    def sample(self, number):
        draw = self.draw
        content = f"{draw.random()}".encode()
        members = []
        if draw.random() < 0.95:
            members.append((self.extension(draw.choice(IMAGES)), content))
        if draw.random() < 0.85:
            members.append((self.extension("cls"), draw.choice(["%d", "%d\n", " %d ", "+%d"]) % draw.randrange(1000)))
        for extra, chance in (("depth.png", 0.3), ("rgb.jpg", 0.2), ("coarse.cls", 0.3), ("fine.cls", 0.3), ("json", 0.4), ("txt", 0.2), ("jpg.txt", 0.1)):
            if draw.random() < chance:
                members.append((extra, b"%d" % draw.randrange(100) if extra.endswith("cls") else f"{extra} {draw.random()}".encode()))
        if self.odd and draw.random() < 0.15:
            members.append((draw.choice([*IMAGES, "cls", "CLS", "json"]), b"7"))
        draw.shuffle(members)
        key = self.key(number)
        return [(f"{key}.{extension}", content if isinstance(content, bytes) else content.encode()) for extension, content in members]

    def write(self, path):
        draw = self.draw
        samples = [self.sample(number) for number in range(draw.randrange(1, 12))]
        if self.odd and draw.random() < 0.5:
            samples.append([(name, b"again" if not name.lower().endswith("cls") else b"5") for name, _ in draw.choice(samples)])
        members = [member for sample in samples for member in sample]
        if self.odd and len(members) > 3 and draw.random() < 0.3:
            members.append(members.pop(draw.randrange(len(members) - 1)))
        with tarfile.open(path, "w", format=draw.choice([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])) as archive:
            for name, content in members:
                if draw.random() < 0.08:
                    self.add_noise(archive)
                facts = tarfile.TarInfo(name)
                facts.size = len(content)
                archive.addfile(facts, io.BytesIO(content))

    def add_noise(self, archive):
        kind = self.draw.randrange(5)
        facts = tarfile.TarInfo(["folder", "link.jpg", "__meta__/a.jpg", "README", "._x.jpg"][kind])
        if kind == 0:
            facts.type = tarfile.DIRTYPE
        if kind == 1:
            facts.type, facts.linkname = tarfile.SYMTYPE, "nowhere"
        facts.size = 3 if kind > 1 else 0
        archive.addfile(facts, io.BytesIO(b"abc"))

    def options(self):
        return [*(["--image-key", self.image_key] if self.image_key else []), *(["--label-key", self.label_key] if self.label_key else [])]

    def expected(self):
        groups = webdataset_samples(self.files, self.image_key, self.label_key)
        parts = collections.defaultdict(list)
        for key, data, label in groups:
            parts[key].append((bool(data), label is not None))
        self.may_be_stricter = any((True, False) in seen and (False, True) in seen for seen in parts.values())
        if not self.image_key and any(len(data) > 1 for _, data, _ in groups):
            self.may_be_stricter = True
        if not any(label is not None for _, _, label in groups):
            self.may_be_stricter = True  # no label of that name: an error where one was asked for, or another could be meant
        none = NO_LABEL if any(label is not None for _, data, label in groups if data) else 0
        samples = [(data[0], none if label is None else int(label)) for _, data, label in groups if data]
        if not samples:
            raise Refused("no sample has such data")
        return samples

    def ours(self, program):
        return [sample[:2] for sample in program.samples_of_index(self.path, *self.options())]


class ArrayCase:
    """Array files, or the rows of one; some are overwritten in place, or get labels, once the index is kept."""

    may_be_stricter = False

    def __init__(self, draw, folder):
        self.draw = draw
        self.folder = folder
        self.rows = draw.random() < 0.4
        self.change = draw.random() < 0.6
        self.shape = tuple(draw.randrange(1, 5) for _ in range(draw.randrange(1, 4)))
        self.files = []
        self.labels = None
        self.path = folder
        if self.rows:
            self.path = folder / as_path(draw.choice(["rows.npy", "my rows.npy", "x.y.npy", b"\xff.npy"]))
            self.files = [self.path]
        else:
            for number in range(draw.randrange(2, 9)):
                parts = [as_path(draw.choice(WORDS)) for _ in range(draw.choice([0, 1, 1, 2]))]
                self.files.append(folder.joinpath(*parts) / (as_path(draw.choice(WORDS)) + f"{number}.{draw.choice(['npy', 'v1.npy', 'NPY'])}"))
        self.fill()

    def fill(self):
        import numpy

        dtype = numpy.dtype(self.draw.choice(["<f4", "<f8", "|u1", "<i2", ">i4", "<u8"]))
        generator = numpy.random.default_rng(self.draw.randrange(1 << 30))
        for file in self.files:
            file.parent.mkdir(parents=True, exist_ok=True)
            array = generator.integers(0, 100, self.shape).astype(dtype)
            with open(file, "r+b" if file.exists() else "wb") as out:
                out.truncate()
                numpy.lib.format.write_array(out, array, version=self.draw.choice([(1, 0), (2, 0), (3, 0), None]))

    def add_labels(self):
        import numpy

        labels = numpy.array([self.draw.randrange(20) for _ in range(self.shape[0])], dtype=self.draw.choice(["<i8", "|u1", ">i2"]))
        numpy.save(self.path.with_name(self.path.name[:-4] + ".labels.npy"), labels)

    def ours(self, program):
        if not self.change:
            if self.rows and self.draw.random() < 0.5:
                self.add_labels()
            return [sample[:2] for sample in program.samples_of_index(self.path)]
        program.run("dataset", "index", self.path)
        for _ in range(self.draw.randrange(1, 3)):
            if self.rows and self.draw.random() < 0.5:
                self.add_labels()
            else:
                self.fill()
        import numpy

        return [(numpy.load(io.BytesIO(content)).tobytes(), label) for content, label in program.samples_by_conversion(self.path)]

    def expected(self):
        import numpy

        if self.rows:
            labels = self.path.with_name(self.path.name[:-4] + ".labels.npy")
            numbers = numpy.load(labels) if labels.exists() else numpy.zeros(self.shape[0], int)
            rows = numpy.load(self.path)
            return [(rows[place:place + 1].tobytes(), int(numbers[place])) for place in range(len(rows))]
        classes = sorted({os.fsencode(file.relative_to(self.folder).parts[0]) for file in self.files if file.parent != self.folder})
        samples = []
        for file in self.files:
            first, *rest = file.relative_to(self.folder).parts
            folder = os.fsencode(str(file.parent.relative_to(self.folder)) if rest else "")
            label = classes.index(os.fsencode(first)) if rest else len(classes)
            samples.append(((os.fsencode(first) if rest else b"", folder, os.fsencode(file.name)), numpy.load(file).tobytes(), label))
        return [sample[1:] for sample in sorted(samples)]


class TreeCase:
    """Class folders of images, which become more once the index is kept."""

    may_be_stricter = False

    def __init__(self, draw, folder):
        self.draw = draw
        self.path = folder
        self.change = draw.random() < 0.4
        for name in draw.sample(WORDS, draw.randrange(2, 7)):
            self.add_files(folder / as_path(name), draw.randrange(1, 5))
            if draw.random() < 0.95:
                (folder / as_path(name) / "sure.jpg").write_bytes(str(draw.random()).encode())
        if draw.random() < 0.2:
            self.add_files(folder, 2)

    def add_files(self, folder, count):
        for _ in range(count):
            draw = self.draw
            below = folder.joinpath(*[as_path(draw.choice(WORDS)) for _ in range(draw.choice([0, 0, 1, 2]))]) if folder != self.path else folder
            below.mkdir(parents=True, exist_ok=True)
            stem = draw.choice(["", "", "", "._"]) + as_path(draw.choice(WORDS)) + str(draw.randrange(100))
            (below / f"{stem}.{draw.choice(['jpg', 'JPEG', 'png', 'webp', 'v2.jpg', 'bmp', 'jpe', 'txt'])}").write_bytes(str(draw.random()).encode())

    def ours(self, program):
        if not self.change:
            view = program.samples_of_index(self.path)
            view = [(content, label) for content, label, name in view if "/" in name and not name.lower().endswith(".jpe")]
            if not view:
                raise Refused("no sample in a class")
            return view
        program.run("dataset", "index", self.path)
        self.add_files(self.path / as_path(self.draw.choice(WORDS)), 2)
        view = program.samples_by_conversion(self.path)
        outside = {file.read_bytes() for file in self.path.rglob("*") if file.is_file() and (file.parent == self.path or file.suffix.lower() == ".jpe")}
        return [sample for sample in view if sample[0] not in outside]

    def expected(self):
        from torchvision.datasets import ImageFolder

        try:
            samples = ImageFolder(str(self.path)).samples
        except FileNotFoundError as error:  # a class without a file that it reads
            raise LookupError(str(error)) from error
        kept = [(pathlib.Path(path), label) for path, label in samples if not os.path.basename(path).startswith(".") and not path.lower().endswith(".bmp")]
        if not kept:
            raise Refused("no sample in a class")
        return [(path.read_bytes(), label) for path, label in kept]


def outcome(case, program):
    ours, refusal, expected = None, "", None
    try:
        ours = case.ours(program)
    except Refused as error:
        refusal = str(error)
    try:
        expected = case.expected()
    except Refused:
        expected = None
    except LookupError:
        return "left out", ""
    if ours is None and expected is None:
        return "refused", ""
    if ours is None:
        return ("stricter", "") if case.may_be_stricter else ("DIFFERENT", f"we refuse: {refusal.strip()}")
    if expected is None:
        return "DIFFERENT", f"the other reader refuses, we have {ours}"
    if ours == expected:
        return "same", ""
    return "DIFFERENT", f"ours {ours}\n    theirs {expected}"


def run_cases(name, kind, count, seed, program, keep):
    totals = collections.Counter()
    samples_seen = 0
    for number in range(count):
        draw = random.Random(f"{name} {seed} {number}")
        with contextlib.ExitStack() as stack:
            folder = pathlib.Path(keep) / f"{name}-{number}" if keep else pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="readers-")))
            data = folder / "data"
            data.mkdir(parents=True)
            case = kind(draw, data)
            case_program = Program(program, folder)
            result, text = outcome(case, case_program)
            totals[result] += 1
            if text:
                print(f"{name} {number} (seed {seed}): {text}", flush=True)
            with contextlib.suppress(Refused, LookupError):
                samples_seen += len(case.expected())
    print(f"{name}: {count} cases, {samples_seen} samples: " + ", ".join(f"{totals[key]} {key}" for key in ("same", "refused", "stricter", "left out", "DIFFERENT")),
          flush=True)
    return totals["DIFFERENT"]


def has(module):
    try:
        __import__(module)
    except ImportError as error:
        print(f"{module} is not here, its cases are left out: {error}")
        return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shards", type=int, default=200)
    parser.add_argument("--arrays", type=int, default=60)
    parser.add_argument("--trees", type=int, default=60)
    parser.add_argument("--default-keys", action="store_true", help="never choose members of shards: for programs without --image-key")
    parser.add_argument("--keep", help="an empty folder for the datasets, which stay")
    options = parser.parse_args()
    program = os.path.abspath(options.program)
    ShardCase.chooses_keys = not options.default_keys
    different = 0
    for module, name, kind, count in (("webdataset", "shards", ShardCase, options.shards), ("numpy", "arrays", ArrayCase, options.arrays),
                                      ("torchvision", "trees", TreeCase, options.trees)):
        if count and has(module):
            different += run_cases(name, kind, count, options.seed, program, options.keep)
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
