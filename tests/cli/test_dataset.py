import io
import os
import shutil
import signal
import struct
import subprocess
import tarfile
import time
import unittest

import program
from program import ProgramTest


class Dataset(ProgramTest):
    def make(self, *options):
        run = self.run_program("dataset", "make", self.folder / "data", "--samples", "12", *options)
        if "apt install" in run.stderr or "package" in run.stderr:
            self.skipTest("the photographs' package is not installed")
        self.assertEqual(run.returncode, 0, run.stderr)
        return self.folder / "data"

    def test_what_make_makes_is_described_and_verified(self):
        data = self.make()
        info = self.json_of("dataset", "info", data)
        self.assertEqual((info["schema"], info["command"], info["samples"]), ("dsanalyze.dataset/1", "info", 12))
        verified = self.json_of("dataset", "verify", data)
        self.assertEqual((verified["failed"], verified["samples"]), (0, 12))
        self.assertEqual(verified["digest"], info["digest"])
        self.assertIn("all 12 samples decode", self.succeeds("dataset", "verify", data).stdout)

    def test_samples_that_do_not_decode_are_named_and_exit_1(self):
        data = self.make()
        broken = sorted(data.rglob("*.jpg"))[0]
        broken.write_bytes(broken.read_bytes()[:200])
        run = self.run_program("dataset", "verify", data)
        self.assertEqual(run.returncode, 1)
        self.assertIn(broken.name, run.stdout)
        self.assertIn("1 of 12", run.stdout)

    def test_samples_that_libjpeg_patches_are_named_and_exit_0(self):
        data = self.make()
        self.assertEqual(self.json_of("dataset", "verify", data)["patched"], 0)
        damaged = sorted(data.rglob("*.jpg"))[2]
        content = damaged.read_bytes()
        half = len(content) // 2
        flipped = bytes(byte ^ 0xFF for byte in content[half:half + 64])
        damaged.write_bytes(content[:half] + flipped + content[half + 64:])
        run = self.succeeds("dataset", "verify", data)
        self.assertIn("all 12 samples decode", run.stdout)
        self.assertIn("1 of 12 samples decode only because libjpeg patched damaged data:\n", run.stdout)
        self.assertIn(f"  {damaged.relative_to(data)}: Corrupt JPEG data: ", run.stdout)
        self.assertIn("warning: libjpeg patched damaged image data in 1 of 12 samples", run.stderr)
        record = self.json_of("dataset", "verify", data)
        self.assertEqual((record["failed"], record["patched"]), (0, 1))
        self.assertEqual([sample["path"] for sample in record["patched_samples"]], [str(damaged.relative_to(data))])
        self.assertIn(("samples-patched", "warning"), [(finding["code"], finding["severity"]) for finding in record["findings"]])

    def test_an_index_is_written_where_asked_and_used(self):
        data = self.make()
        file = self.folder / "data.dsidx"
        self.assertEqual(self.json_of("dataset", "index", data, "--index", file)["index_file"], str(file))
        self.assertGreater(file.stat().st_size, 0)
        self.assertEqual(self.json_of("dataset", "info", data, "--index", file)["samples"], 12)

    def test_files_that_are_no_samples_are_counted_where_there_are_some(self):
        data = self.make()

        def told():
            return [finding["message"] for finding in self.json_of("dataset", "info", data)["findings"] if finding["code"] == "files-skipped"]

        self.assertEqual(told(), ["Left out, as they are no samples: 1 file (README.md)."])
        (data / "README.md").unlink()
        self.assertEqual(told(), [])
        (data / "notes.txt").write_text("of the photographs")
        (data / "more.txt").write_text("of the photographs")
        self.assertEqual(told(), ["Left out, as they are no samples: 2 files (more.txt, notes.txt)."])

    def test_the_seed_makes_the_dataset(self):
        first = self.json_of("dataset", "info", self.make("--seed", "1"))["digest"]
        (self.folder / "data").rename(self.folder / "first")
        self.assertNotEqual(self.json_of("dataset", "info", self.make("--seed", "2"))["digest"], first)

    def test_mistakes_are_named(self):
        self.assertIn("folder is missing", self.fails(2, "dataset", "info"))
        self.assertIn("expected one of make", self.fails(2, "dataset"))
        self.assertIn('did you mean "imagenet-1k"?', self.fails(2, "dataset", "make", self.folder / "x", "--preset", "imagenet1k"))
        self.assertIn("--samples", self.fails(2, "dataset", "make", self.folder / "x", "--samples", "0"))
        self.assertIn("--bytes", self.fails(2, "dataset", "make", self.folder / "x", "--bytes", "-1"))
        self.assertIn("nowhere", self.fails(1, "dataset", "info", self.folder / "nowhere"))

    LONG_NAMES = ["short.jpg", "a" * 96 + ".jpg", "b" * 110 + ".jpg", "d" * 90 + "/" + "c" * 90 + ".jpg", "e/" * 200 + "f" * 150 + ".jpg",
                  "gr\u00fc\u00dfe/\u732b.jpg"]

    def opens_as_written(self, path, label=3):
        """The tar's keys are samples, under their full names: converted to a folder, each file is there with its bytes."""
        info = self.json_of("dataset", "info", path)
        self.assertEqual((info["format"], info["samples"], info["files"]), ("tar", len(self.LONG_NAMES), 1))
        self.assertEqual([finding for finding in info["findings"] if finding["severity"] != "info"], [])
        target = self.folder / (path.name + ".folder")
        self.succeeds("dataset", "convert", path, target, "--to", "folder")
        for name in self.LONG_NAMES:
            self.assertEqual((target / str(label) / name).read_bytes(), name.encode())

    def test_tar_files_of_python_open_in_all_its_formats(self):
        for tar_format in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
            path = self.folder / f"python-{tar_format}.tar"
            written = 0
            with tarfile.open(path, "w", format=tar_format) as archive:
                for name in self.LONG_NAMES:
                    for member, content in ((name, name.encode()), (name.removesuffix(".jpg") + ".cls", b"3\n")):
                        facts = tarfile.TarInfo(member)
                        facts.size = len(content)
                        facts.mtime = 1.5 if tar_format == tarfile.PAX_FORMAT else 1
                        try:
                            archive.addfile(facts, io.BytesIO(content))
                            written += 1
                        except ValueError:
                            self.assertEqual(tar_format, tarfile.USTAR_FORMAT)  # which has no room for the longest
            if tar_format != tarfile.USTAR_FORMAT:
                self.assertEqual(written, 2 * len(self.LONG_NAMES))
                self.opens_as_written(path)
            else:
                self.assertEqual(self.json_of("dataset", "info", path)["samples"], written // 2)

    def test_tar_files_of_gnu_tar_open_in_all_its_formats(self):
        if shutil.which("tar") is None or "GNU" not in subprocess.run(["tar", "--version"], capture_output=True, text=True, check=False).stdout:
            self.skipTest("GNU tar is not installed")
        tree = self.folder / "tree"
        for name in self.LONG_NAMES:
            file = tree / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(name.encode())
            file.with_suffix(".cls").write_text("3\n")
        for tar_format in ("gnu", "oldgnu", "pax", "posix"):
            path = self.folder / f"{tar_format}.tar"
            subprocess.run(["tar", "--format", tar_format, "--sort=name", "-cf", path, "-C", tree, "."], check=True, timeout=60,
                           env=dict(os.environ, LC_ALL="C.UTF-8"))
            self.opens_as_written(path)
        v7 = self.folder / "v7.tar"
        subprocess.run(["tar", "--format", "v7", "-cf", v7, "-C", tree, "short.cls", "short.jpg"], check=True, timeout=60)
        self.assertEqual(self.json_of("dataset", "info", v7)["samples"], 1)

    def test_tar_files_of_ours_open_in_python_and_gnu_tar(self):
        data = self.folder / "data"
        for name in self.LONG_NAMES:
            (data / name).parent.mkdir(parents=True, exist_ok=True)
            (data / name).write_bytes(name.encode())
        self.succeeds("dataset", "convert", data, self.folder / "shards", "--to", "tar")
        path = self.folder / "shards" / "shard-000000.tar"
        with tarfile.open(path) as archive:
            contents = {facts.name: archive.extractfile(facts).read() for facts in archive.getmembers()}
        for name in self.LONG_NAMES:
            self.assertEqual(contents[name], name.encode())
            self.assertIn(name.removesuffix(".jpg") + ".cls", contents)
        if shutil.which("tar") is not None:
            listed = subprocess.run(["tar", "-tf", path, "--quoting-style=literal"], capture_output=True, text=True, check=True, timeout=60,
                                    env=dict(os.environ, LC_ALL="C.UTF-8"))
            self.assertEqual((set(listed.stdout.splitlines()), listed.stderr), (set(contents), ""))

    def test_round_trips_keep_files_names_labels_and_content(self):
        data = self.make()
        (data / "README.md").unlink()
        before = {file.relative_to(data): file.read_bytes() for file in data.rglob("*") if file.is_file()}
        content = self.json_of("dataset", "verify", data)["content_digest"]
        converted = self.json_of("dataset", "convert", data, self.folder / "shards", "--to", "tar", "--shard-size", "500KB")
        self.assertEqual((converted["command"], converted["to"], converted["samples"], converted["failed"]), ("convert", "tar", 12, 0))
        self.assertGreater(converted["files"], 1)
        verified = self.json_of("dataset", "verify", self.folder / "shards")
        self.assertEqual((verified["content_digest"], verified["damaged_files"]), (content, 0))
        self.succeeds("dataset", "convert", self.folder / "shards", self.folder / "back", "--to", "folder")
        after = {file.relative_to(self.folder / "back"): file.read_bytes() for file in (self.folder / "back").rglob("*") if file.is_file()}
        self.assertEqual(after, before)
        part = f"{self.folder}/shards/shard-{{000000..000001}}.tar"
        self.assertEqual(self.json_of("dataset", "info", part)["files"], 2)
        self.assertEqual(self.json_of("dataset", "index", part)["format"], "tar")
        rows = self.json_of("dataset", "convert", self.folder / "shards", self.folder / "rows", "--to", "npy", "--side", "48")
        self.assertEqual(rows["bytes"], 12 * 48 * 48 * 3)
        array = self.json_of("dataset", "info", self.folder / "rows")
        self.assertEqual(array["array"], {"dtype": "|u1", "shape": [48, 48, 3]})
        self.assertEqual(array["labels"], verified["labels"])

    def test_an_array_is_described_and_verified_and_a_torn_one_is_named(self):
        header = "{'descr': '<f4', 'fortran_order': False, 'shape': (5, 2), }".ljust(117) + "\n"
        file = self.folder / "x.npy"
        file.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + bytes(40))
        self.assertEqual(self.json_of("dataset", "info", file)["array"], {"dtype": "<f4", "shape": [2]})
        self.assertIn("all 5 samples are whole", self.succeeds("dataset", "verify", file).stdout)
        file.write_bytes(file.read_bytes()[:-9])
        run = self.run_program("dataset", "verify", file)
        self.assertEqual(run.returncode, 1)
        self.assertIn("x.npy: row 3", run.stdout)

    def test_a_torn_tar_is_said_when_it_is_opened_and_named_when_it_is_verified(self):
        data = self.make()
        self.succeeds("dataset", "convert", data, self.folder / "shards", "--to", "tar")
        path = self.folder / "shards" / "shard-000000.tar"
        path.write_bytes(path.read_bytes()[:-5000])
        self.assertIn("shard-000000.tar is cut off at byte", self.succeeds("dataset", "info", path).stderr)
        run = self.run_program("dataset", "verify", path)
        self.assertEqual(run.returncode, 1)
        self.assertIn("1 of 12 samples", run.stdout)
        self.assertIn("1 of 1 files are damaged", run.stdout)
        self.assertIn("cannot convert shard-000000.tar: ", self.fails(1, "dataset", "convert", path, self.folder / "out", "--to", "folder"))
        self.assertFalse((self.folder / "out").exists())
        left = self.json_of("dataset", "convert", path, self.folder / "out", "--to", "folder", "--skip-bad")
        self.assertEqual((left["samples"], left["failed"], len(left["failures"])), (11, 1, 1))

    def test_zeros_that_hide_samples_and_labels_that_are_none_are_named_when_they_are_verified(self):
        data = self.make()
        self.succeeds("dataset", "convert", data, self.folder / "shards", "--to", "tar", "--order", "index")
        path = self.folder / "shards" / "shard-000000.tar"
        whole = path.read_bytes()
        with tarfile.open(path) as archive:
            members = archive.getmembers()
        middle = members[6].offset
        path.write_bytes(whole[:middle] + bytes(1 << 16) + whole[middle:])
        self.assertIn(f"ends at offset {middle} with zeros", self.succeeds("dataset", "info", path).stderr)
        run = self.run_program("dataset", "verify", path)
        self.assertEqual(run.returncode, 1)
        self.assertIn("1 of 1 files are damaged", run.stdout)
        label = members[1].offset_data
        path.write_bytes(whole[:label] + b"x" + whole[label + 1:])
        run = self.run_program("dataset", "verify", path)
        self.assertEqual(run.returncode, 1)
        self.assertIn("1 of 12 samples cannot be used", run.stdout)
        self.assertIn("its label is missing", run.stdout)
        self.assertIn("cannot convert shard-000000.tar: ", self.fails(1, "dataset", "convert", path, self.folder / "out", "--to", "folder"))
        left = self.json_of("dataset", "convert", path, self.folder / "out", "--to", "folder", "--skip-bad")
        self.assertEqual((left["samples"], left["failed"]), (11, 1))

    def test_a_file_that_claims_more_than_memory_holds_is_named_by_each_command(self):
        data = self.make()
        hole = sorted(data.rglob("*.jpg"))[3]
        name = str(hole.relative_to(data))
        with open(hole, "r+b") as file:
            file.truncate(1 << 40)
        self.assertEqual(self.json_of("dataset", "index", data)["samples"], 12)
        verify = self.run_program("dataset", "verify", data)
        self.assertEqual(verify.returncode, 1)
        self.assertIn(f"{name}: it has 1 TiB", verify.stdout)
        self.assertIn("1 of 12", verify.stdout)
        for target in ("npy", "tar"):
            run = self.run_program("dataset", "convert", data, self.folder / "out", "--to", target)
            self.assertEqual(run.returncode, 1)
            self.assertIn(name, run.stderr)
        profile = self.run_program("profile", data, "--time-budget", "5s")
        self.assertNotEqual(profile.returncode, 0)
        self.assertIn(name, profile.stderr)

    def test_keys_choose_the_members_of_shards(self):
        path = self.folder / "x.tar"
        with tarfile.open(path, "w") as archive:
            for member, content in (("a.depth.png", b"depth"), ("a.jpg", b"image"), ("a.cls", b"3"), ("a.fine.cls", b"9")):
                facts = tarfile.TarInfo(member)
                facts.size = len(content)
                archive.addfile(facts, io.BytesIO(content))
        self.assertEqual(self.json_of("dataset", "info", path)["bytes"], 5)
        self.succeeds("dataset", "convert", path, self.folder / "fine", "--to", "folder", "--label-key", "fine.cls", "--image-key", "depth.png")
        self.assertEqual((self.folder / "fine" / "9" / "a.depth.png").read_bytes(), b"depth")
        index = self.folder / "fine.dsidx"
        self.succeeds("dataset", "index", path, "--label-key", "fine.cls", "--index", index)
        self.assertIn('--label-key "fine.cls"', self.fails(1, "dataset", "info", path, "--index", index))
        self.succeeds("dataset", "info", path, "--index", index, "--label-key", "fine.cls")
        self.assertIn("--image-key", self.fails(2, "dataset", "info", path, "--image-key", ".jpg"))
        for option in ("--image-key", "--label-key"):
            for command in (("dataset", "info", path), ("dataset", "convert", path, self.folder / "out", "--to", "tar"), ("profile", path)):
                self.assertIn(f"{option}: its value is empty", self.fails(2, *command, option, ""))
        self.assertIn("a label's extension", self.fails(2, "dataset", "info", path, "--image-key", "cls", "--label-key", "fine.cls"))
        self.assertIn("--image-key names, as --label-key does where it is not given, the extension cls", self.fails(2, "dataset", "info", path, "--image-key", "cls"))
        self.assertIn("members of tar shards", self.fails(2, "dataset", "info", self.folder / "fine", "--image-key", "jpg"))
        self.assertIn("no member of", self.fails(1, "dataset", "info", path, "--label-key", "coarse.cls"))
        for data in (path, self.folder / "fine"):
            self.assertEqual(self.json_of("dataset", "info", data, "--label-key", "none", *(["--image-key", "jpg"] if data == path else []))["labels"], 1)

    def test_mistakes_in_a_conversion_are_named(self):
        data, out = self.make(), self.folder / "out"
        self.assertIn("destination is missing", self.fails(2, "dataset", "convert", data))
        self.assertIn("--to is missing", self.fails(2, "dataset", "convert", data, out))
        self.assertIn('did you mean "folder"?', self.fails(2, "dataset", "convert", data, out, "--to", "foldr"))
        self.assertIn("--side", self.fails(2, "dataset", "convert", data, out, "--to", "npy", "--side", "0"))
        self.assertIn("--side is for --to npy", self.fails(2, "dataset", "convert", data, out, "--to", "tar", "--side", "9"))
        self.assertIn("--shard-size", self.fails(2, "dataset", "convert", data, out, "--to", "tar", "--shard-size", "0"))
        self.assertIn("already", self.fails(2, "dataset", "convert", data, out, "--to", "folder"))
        self.assertIn("lies inside", self.fails(1, "dataset", "convert", data, data / "out", "--to", "tar"))
        self.assertFalse(out.exists())

    def test_an_interrupted_conversion_leaves_nothing(self):
        data, out = self.folder / "data", self.folder / "out"
        data.mkdir()
        for number in range(20000):
            (data / f"{number}.jpg").write_bytes(b"x")
        with subprocess.Popen([program.PROGRAM, "dataset", "convert", str(data), str(out), "--to", "tar", "--shard-size", "2KB"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment) as process:
            deadline = time.monotonic() + 30
            while process.poll() is None and time.monotonic() < deadline and not list(self.folder.glob(".out.converting/shard-*")):
                time.sleep(0.002)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
        if process.returncode == 0:
            self.skipTest("the conversion had ended before it could be interrupted")
        self.assertEqual(process.returncode, 130)
        self.assertEqual({entry.name for entry in self.folder.iterdir()} - {"cache", "state"}, {"data"})

    def test_an_interrupt_ends_with_130_and_leaves_only_whole_files(self):
        data = self.folder / "data"
        with subprocess.Popen([program.PROGRAM, "dataset", "make", str(data), "--samples", "200000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, env=self.environment) as process:
            deadline = time.monotonic() + 30
            while process.poll() is None and time.monotonic() < deadline and not list(data.rglob("*.jpg")):
                time.sleep(0.05)
            if process.poll() is not None:
                self.skipTest("the photographs' package is not installed")
            process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(stdout, "")
        self.assertIn("interrupted", stderr)
        self.assertTrue(all(file.read_bytes().endswith(b"\xff\xd9") for file in data.rglob("*.jpg")))


if __name__ == "__main__":
    unittest.main()
