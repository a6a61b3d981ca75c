"""A frozen corpus: what WebDataset, NumPy and torchvision's ImageFolder make of small odd datasets is written down here, and is what the program reads.

`tests/bench/readers_differential.py` compares with those readers themselves, over many seeded datasets.
"""

import io
import os
import struct
import tarfile
import unittest

from program import ProgramTest


def npy(dtype, shape, data):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


# Members as they lie (a member's content is its name, but for labels), options, and WebDataset's samples: name of the data member, label (0 where no sample has one).
SHARDS = [
    ("other extensions that end alike", ["x.depth.png", "x.coarse.cls=7", "x.jpg", "x.cls=3", "x.fine.cls=9"], [], [("x.jpg", 3)]),
    ("the same, chosen", ["x.depth.png", "x.coarse.cls=7", "x.jpg", "x.cls=3"], ["--image-key", "depth.png", "--label-key", "coarse.cls"], [("x.depth.png", 7)]),
    ("alternatives", ["a.png", "a.jpg", "a.cls=2", "b.png", "b.cls=1"], ["--image-key", "jpg;png"], [("a.jpg", 2), ("b.png", 1)]),
    ("labels that are none, left out", ["a.jpg", "a.cls=cat", "b.jpg", "b.cls=1", "c.jpg", "d.jpg", "d.cls=-1"], ["--skip-bad"], [("b.jpg", 1)]),
    ("capital letters", ["a.JPG", "a.CLS=5", "B.Png", "B.cls=6"], [], [("a.JPG", 5), ("B.Png", 6)]),
    ("dots in folders", ["v1.0/a.jpg", "v1.0/a.cls=1", "v1.1/a.jpg", "v1.1/a.cls=2"], [], [("v1.0/a.jpg", 1), ("v1.1/a.jpg", 2)]),
    ("any order within a sample", ["a.cls=4", "a.json", "a.jpg", "b.jpg", "b.cls=+2"], [], [("a.jpg", 4), ("b.jpg", 2)]),
    ("a key that comes again whole", ["a.jpg", "a.cls=1", "b.jpg", "b.cls=2", "a.jpg", "a.cls=3"], [], [("a.jpg", 1), ("b.jpg", 2), ("a.jpg", 3)]),
    ("members about the shard", ["__meta__/x.jpg", "._a.jpg", "README", "a.jpg", "a.cls=2", "__b__.jpg", "__b__.cls=1"], [], [("a.jpg", 2), ("__b__.jpg", 1)]),
    ("names that are no UTF-8", [os.fsdecode(b"\xff/\xfe.jpg"), os.fsdecode(b"\xff/\xfe.cls") + "=8", "猫.webp", "猫.cls=0"], [],
     [(os.fsdecode(b"\xff/\xfe.jpg"), 8), ("猫.webp", 0)]),
]

# What a reader has to refuse, and what the message names.
REFUSED = [
    ("one extension twice", ["a.jpg", "a.cls=1", "a.jpg", "a.cls=2"], [], ["a.jpg", "at offset"]),
    ("one extension twice, in other letters", ["a.jpg", "a.JPG"], [], ["a.jpg and a.JPG"]),
    ("two that could be the sample", ["a.jpg", "a.png"], [], ["a.jpg and a.png", "--image-key"]),
    ("a sample torn apart", ["a.jpg", "b.jpg", "b.cls=1", "a.cls=2"], [], ["'a'", "side by side"]),
    ("a label of another extension alone", ["a.jpg", "a.fine.cls=1"], [], ["fine.cls", "--label-key"]),
    ("data of another extension alone", ["a.rgb.jpg", "a.cls=1"], [], ["rgb.jpg", "--image-key"]),
]


class Readers(ProgramTest):
    def shard(self, members):
        path = self.folder / "x.tar"
        with tarfile.open(path, "w") as archive:
            for member in members:
                name, _, content = member.partition("=")
                facts = tarfile.TarInfo(name)
                content = os.fsencode(content or name)
                facts.size = len(content)
                archive.addfile(facts, io.BytesIO(content))
        return path

    def samples(self, path, *options):
        """Bytes and label of each sample in index order, as a conversion writes them."""
        target = self.folder / "converted"
        self.succeeds("dataset", "convert", path, target, "--to", "tar", "--order", "index", *options)
        samples = []
        with tarfile.open(target / "shard-000000.tar") as archive:
            for member in archive:
                content = archive.extractfile(member).read()
                if member.name.endswith(".cls"):
                    samples[-1][1] = int(content)
                else:
                    samples.append([content, 0])
        for file in target.iterdir():
            file.unlink()
        target.rmdir()
        return [tuple(sample) for sample in samples]

    def test_shards_are_read_as_webdataset_reads_them(self):
        for what, members, options, expected in SHARDS:
            with self.subTest(what):
                self.assertEqual(self.samples(self.shard(members), *options), [(os.fsencode(name), label) for name, label in expected])

    def test_what_no_reader_could_take_apart_is_refused_by_name(self):
        for what, members, options, named in REFUSED:
            with self.subTest(what):
                error = self.run_program("dataset", "info", self.shard(members), *options)
                self.assertEqual(error.returncode, 1)
                for text in named:
                    self.assertIn(text, error.stderr)

    def test_folders_have_the_labels_and_order_of_imagefolder(self):
        data = self.folder / "data"
        files = ["a/z.jpg", "a/x/1.jpg", "a/x-y/1.PNG", "a/x/y/1.webp", "a-b/1.jpg", "c c/1.jpg", os.fsdecode(b"\xfe/1.jpg"), "\u732b/1.jpg"]
        for name in [*files, "b/only.bmp"]:
            (data / name).parent.mkdir(parents=True, exist_ok=True)
            (data / name).write_bytes(os.fsencode(name))
        order = [("a/z.jpg", 0), ("a/x/1.jpg", 0), ("a/x-y/1.PNG", 0), ("a/x/y/1.webp", 0), ("a-b/1.jpg", 1), ("c c/1.jpg", 3), ("\u732b/1.jpg", 4),
                 (os.fsdecode(b"\xfe/1.jpg"), 5)]
        self.assertEqual(self.samples(data), [(os.fsencode(name), label) for name, label in order])
        (data / "beside.jpg").write_bytes(b"beside")
        self.assertEqual(self.samples(data)[0], (b"beside", 6))  # which ImageFolder leaves out: the classes keep their numbers

    def test_arrays_that_changed_behind_a_kept_index_are_read_as_they_are(self):
        data = self.folder / "data"
        data.mkdir()
        for number in range(3):
            (data / f"{number}.npy").write_bytes(npy("<f4", (4,), bytes(16)))
        self.succeeds("dataset", "index", data)
        for number in range(3):
            with open(data / f"{number}.npy", "r+b") as file:
                file.write(npy("<f8", (2,), bytes([number]) * 16))
        self.assertEqual(self.json_of("dataset", "info", data)["array"], {"dtype": "<f8", "shape": [2]})
        self.assertEqual(self.samples(data), [(npy("<f8", (2,), bytes([number]) * 16), 0) for number in range(3)])

    def test_labels_that_were_added_behind_a_kept_index_are_read(self):
        rows = self.folder / "rows.npy"
        rows.write_bytes(npy("|u1", (3, 2), b"aabbcc"))
        self.succeeds("dataset", "index", rows)
        (self.folder / "rows.labels.npy").write_bytes(npy("<i2", (3,), struct.pack("<3h", 2, 0, 1)))
        self.assertEqual([label for _, label in self.samples(rows)], [2, 0, 1])
        part = f"{self.folder}/x-{{0..0}}.tar"
        self.shard(["a.jpg", "a.cls=1"]).rename(self.folder / "x-0.tar")
        self.succeeds("dataset", "index", part)
        self.assertEqual(self.json_of("dataset", "info", part)["labels"], 2)
        (self.folder / "labels.txt").write_text("ant\nbee\ncat\n")
        self.assertEqual(self.json_of("dataset", "info", part)["labels"], 3)


if __name__ == "__main__":
    unittest.main()
