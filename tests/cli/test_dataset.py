import signal
import subprocess
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

    def test_an_index_is_written_where_asked_and_used(self):
        data = self.make()
        file = self.folder / "data.dsidx"
        self.assertEqual(self.json_of("dataset", "index", data, "--index", file)["index_file"], str(file))
        self.assertGreater(file.stat().st_size, 0)
        self.assertEqual(self.json_of("dataset", "info", data, "--index", file)["samples"], 12)

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
