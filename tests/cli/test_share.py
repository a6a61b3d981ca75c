"""Training jobs of one's own that share batches: the example clients in C and Python, what each gets, and what happens when anything goes wrong."""

import contextlib
import faulthandler
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

import test_schemas
from program import PROGRAM, ProgramTest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = pathlib.Path(os.environ.get("DSANALYZE_LIBRARY", "libdsanalyze.so.0"))
MINIMAL_C = os.environ.get("DSANALYZE_MINIMAL", "minimal")
MINIMAL_PY = ROOT / "tests" / "client" / "minimal.py"
JOB = ROOT / "tests" / "cli" / "share_job.py"
EMULATED = ["emulated:imagenet-1k,samples=600", "--storage", "emulated:200MB/s", "--prep", "emulated:20000", "--cores", "2", "--batch-size", "32"]


def digest_of(samples):
    """As the examples compute it, of all samples once."""
    return f"{sum(range(1, samples + 1)) * 0x9E3779B97F4A7C15 % 2**64:016x}"


class ShareTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.runtime = self.folder / "runtime"
        self.runtime.mkdir(mode=0o700)
        self.environment.update(XDG_RUNTIME_DIR=str(self.runtime), DSANALYZE_LIBRARY=str(LIBRARY), LD_LIBRARY_PATH=str(LIBRARY.parent),
                                PYTHONDONTWRITEBYTECODE="1")
        self.environment.pop("DSANALYZE_GROUP", None)
        self.started = []
        self.addCleanup(self.end_all)
        # A test that waits in vain for a line says where it waits.
        faulthandler.dump_traceback_later(150, exit=True)
        self.addCleanup(faulthandler.cancel_dump_traceback_later)

    def end_all(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # What it started may hold its pipes.
                process.communicate(timeout=10)

    def start(self, *words, **options):
        process = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment, **options)
        self.started.append(process)
        return process

    def share(self, *arguments, **options):
        """A coordinator, and the address that it prints first."""
        coordinator = self.start(PROGRAM, "share", *arguments, **options)
        line = coordinator.stdout.readline()
        self.assertTrue(line.startswith("export DSANALYZE_GROUP=unix:"), line + (coordinator.stderr.read() if not line else ""))
        self.environment["DSANALYZE_GROUP"] = line.strip().removeprefix("export DSANALYZE_GROUP=")
        return coordinator

    def script(self, text):
        file = self.folder / "job.sh"
        file.write_text(text)
        return ["sh", file]

    def record(self, *arguments, exit_code=0):
        """What a group leaves that starts its jobs itself."""
        file = self.folder / "share.json"
        run = self.run_program("share", *arguments[:arguments.index("--")], "-o", file, *arguments[arguments.index("--"):])
        self.assertEqual(run.returncode, exit_code, run.stderr)
        self.nothing_is_left()
        return json.loads(file.read_text()), run

    def nothing_is_left(self):
        self.assertEqual(list(self.runtime.iterdir()), [])


class Jobs(ShareTest):
    def test_a_job_in_c_and_one_in_python_get_every_sample_once_an_epoch(self):
        data = self.photographs(48)
        both = self.script(f'if [ "$DSANALYZE_JOB" = 0 ]; then exec {MINIMAL_C}; else exec {sys.executable} {MINIMAL_PY}; fi\n')
        for producers in ("jobs", "coordinator"):
            for cache in ("35%", "100%"):
                with self.subTest(producers=producers, cache=cache):
                    record, run = self.record(data, "--jobs", 2, "--epochs", 3, "--batch-size", 7, "--producers", producers, "--cache-size", cache, "--seed",
                                              11, "--", *both)
                    for epoch in range(3):
                        self.assertEqual(run.stdout.count(f"epoch {epoch}: 48 samples, digest {digest_of(48)}"), 2, run.stdout)
                    self.assertEqual(record["end"], "commands-ended")
                    self.assertEqual(record["samples_prepared"], 3 * 48)
                    self.assertEqual(record["samples_taken"], 2 * 3 * 48)
                    self.assertEqual(record["batches_taken"], 2 * 3 * 7)
                    self.assertEqual(record["batches_taken_over"], 0)
                    self.assertEqual([job["end"] for job in record["jobs"]], ["left", "left"])
                    self.assertEqual(record["terms"]["seed"], 11)
                    self.assertEqual(sum(job["samples_prepared"] for job in record["jobs"]), 3 * 48 if producers == "jobs" else 0)
                    if cache == "100%":
                        self.assertTrue(0 <= record["requested_bytes"] - record["dataset"]["bytes"] < 48 * 4096, record["requested_bytes"])
                    else:
                        self.assertGreater(record["requested_bytes"], 2 * record["dataset"]["bytes"])

    def test_all_jobs_read_the_same_bytes_whoever_prepared_them(self):
        data = self.photographs(30)
        seen = set()
        for producers in ("jobs", "coordinator"):
            record, _ = self.record(data, "--jobs", 3, "--epochs", 2, "--batch-size", 4, "--producers", producers, "--dtype", "uint8", "--", sys.executable,
                                    JOB, self.folder)
            self.assertEqual(record["terms"]["shape"], [4, 3, 224, 224])
            for job in range(3):
                seen.add((self.folder / f"job-{job}.json").read_text())
        self.assertEqual(len(seen), 1)
        samples = json.loads(seen.pop())
        self.assertEqual([len(set(epoch)) for epoch in samples], [30, 30])
        self.assertNotEqual(samples[0], samples[1])  # augmentation is of the epoch

    def test_the_record_follows_its_schema_and_the_memory_its_bound(self):
        record, _ = self.record(*EMULATED, "--jobs", 2, "--epochs", 2, "--", *self.script(f'[ "$DSANALYZE_JOB" = 0 ] && exec {MINIMAL_C}; exit 3\n'),
                                exit_code=1)
        if test_schemas.jsonschema is not None:
            self.assertEqual(test_schemas.Schemas.follows_its_schema(self, record), "share")
        self.assertEqual(record["commands"], [{"job": 0, "exit_status": 0, "signal": None, "attached": True, "batches_taken": 38},
                                              {"job": 1, "exit_status": 3, "signal": None, "attached": False, "batches_taken": 0}])
        self.assertEqual(len(record["jobs"]), 1)  # the first epoch did not wait for the one that came to nothing
        self.assertEqual(record["samples_taken"], 1200)
        memory = record["memory"]
        self.assertLessEqual(memory["staged_batches"], 2 * 2 + memory["prefetch_batches"])
        self.assertEqual(memory["bound_bytes"], memory["staged_batches"] * memory["slot_bytes"] + memory["constant_bytes"])
        self.assertLessEqual(memory["shared_bytes"], memory["bound_bytes"])

    def test_json_is_the_one_document_on_stdout(self):
        run = self.run_program("share", *EMULATED, "--jobs", 1, "--epochs", 1, "--json", "--", MINIMAL_C)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(json.loads(run.stdout)["samples_taken"], 600)
        self.assertIn(digest_of(600), run.stderr)  # what the commands print
        self.assertIn("export DSANALYZE_GROUP=unix:", run.stderr)

    def test_jobs_that_others_start_find_the_group_by_what_it_prints(self):
        script = self.script(f'eval "$({PROGRAM} share {" ".join(EMULATED)} --jobs 2 --epochs 2 -o {self.folder}/share.json &)"\n'
                             f"{MINIMAL_C} & first=$!\n{MINIMAL_C} && wait $first\n")
        jobs = self.start(*script)
        output, errors = jobs.communicate(timeout=60)
        self.assertEqual(jobs.returncode, 0, errors)
        self.assertEqual(output.count(digest_of(600)), 4)
        for event in ("is job 0", "is job 1", "epoch 0 opened", "epoch 1 ended", "left"):
            self.assertIn(event, errors)
        record = json.loads((self.folder / "share.json").read_text())
        self.assertEqual(record["end"], "finished")
        self.nothing_is_left()

    def test_a_group_without_epochs_ends_with_its_last_job(self):
        coordinator = self.share(*EMULATED, "--jobs", 1)
        job = self.start(sys.executable, JOB, self.folder, "--leave-after", 1)
        _, errors = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 0, errors)
        _, errors = coordinator.communicate(timeout=60)
        self.assertEqual(coordinator.returncode, 0, errors)
        self.assertIn("the last job left", errors)
        self.nothing_is_left()

    def test_a_group_ends_with_the_pipe_of_the_program_that_started_it_once_no_job_is_left(self):
        for job in (None, MINIMAL_C):
            reader, writer = os.pipe()
            coordinator = self.share(*EMULATED, "--jobs", 1, "--end-with-stdin", stdin=reader)
            os.close(reader)
            if job is not None:
                job = self.start(job)
                self.assertIn("epoch 0", "".join(iter_until(job.stdout, "epoch 0")))
            self.assertIsNone(coordinator.poll())
            os.close(writer)
            if job is not None:
                self.assertIn("epoch 3", "".join(iter_until(job.stdout, "epoch 3")))  # The group goes on while it has its job.
                self.assertIsNone(coordinator.poll())
                job.kill()
            self.assertEqual(coordinator.wait(timeout=60), 0)
            self.nothing_is_left()
        run = self.run_program("share", *EMULATED, "--jobs", 1, "--end-with-stdin", "--", "true")
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertIn("ends with its commands", run.stderr)

    def test_text_goes_to_stdout_where_that_is_no_pipe(self):
        with open(self.folder / "output", "w+", encoding="utf-8") as output:
            run = self.run_program("share", *EMULATED, "--jobs", 1, "--epochs", 1, "--", MINIMAL_C, stdout=output)
            self.assertEqual(run.returncode, 0, run.stderr)
            output.seek(0)
            self.assertIn("shared 1 epoch with 1 job", output.read())


class Failures(ShareTest):
    def test_a_job_that_is_killed_has_its_batches_made_by_others(self):
        record, run = self.record(*EMULATED, "--jobs", 3, "--epochs", 2, "--", sys.executable, JOB, self.folder, "--kill-job", 1, "--after", 5, exit_code=1)
        self.assertEqual([command["signal"] for command in record["commands"]], [None, signal.SIGKILL, None])
        self.assertEqual(sorted(job["end"] for job in record["jobs"]), ["died", "left", "left"])
        self.assertGreater(record["batches_taken_over"], 0)
        self.assertEqual((self.folder / "job-0.json").read_text(), (self.folder / "job-2.json").read_text())
        self.assertEqual([len(set(epoch)) for epoch in json.loads((self.folder / "job-0.json").read_text())], [600, 600])
        self.assertIn("died: what it had not made is made by others", run.stderr)
        self.assertIn("killed by signal 9", run.stderr)

    def test_a_coordinator_that_is_killed_ends_every_job_with_an_error_and_its_socket_is_replaced(self):
        place = self.folder / "group"
        coordinator = self.share(*EMULATED, "--jobs", 2, "--listen", f"unix:{place}")
        jobs = [self.start(MINIMAL_C), self.start(sys.executable, MINIMAL_PY)]
        for job in jobs:
            self.assertIn("epoch 0", "".join(iter_until(job.stdout, "epoch 0")))
        coordinator.kill()
        for job in jobs:
            _, errors = job.communicate(timeout=60)
            self.assertEqual(job.returncode, 1)
            self.assertIn("coordinator lost: the group's host is gone", errors)
        coordinator.communicate(timeout=60)
        self.assertTrue(place.is_socket())
        run = self.start(MINIMAL_C)
        self.assertIn("its host is gone; start it again", run.communicate(timeout=60)[1])
        again = self.share(*EMULATED, "--jobs", 1, "--epochs", 1, "--listen", f"unix:{place}")
        self.assertEqual(self.start(MINIMAL_C).wait(timeout=60), 0)
        self.assertEqual(again.wait(timeout=60), 0)
        self.assertFalse(place.exists())

    def test_an_address_in_use_is_refused_and_left_alone(self):
        place = self.folder / "group"
        first = self.share(*EMULATED, "--jobs", 1, "--epochs", 1, "--listen", f"unix:{place}")
        errors = self.fails(2, "share", *EMULATED, "--jobs", 1, "--listen", f"unix:{place}")
        self.assertIn("another process listens there; use another path", errors)
        self.assertEqual(self.start(MINIMAL_C).wait(timeout=60), 0)
        self.assertEqual(first.wait(timeout=60), 0)
        (self.folder / "notes.txt").write_text("mine")
        self.assertIn("there is a file, which is left alone", self.fails(2, "share", *EMULATED, "--jobs", 1, "--listen", f"unix:{self.folder}/notes.txt"))
        self.assertEqual((self.folder / "notes.txt").read_text(), "mine")

    def test_an_interrupted_group_ends_its_commands_and_leaves_its_record_and_nothing_else(self):
        for stop in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(stop=stop):
                mark = self.folder / f"started-{stop}"
                record = self.folder / "share.json"
                coordinator = self.start(PROGRAM, "share", *EMULATED, "--jobs", 2, "-o", record, "--",
                                         *self.script(f"trap 'echo told; exit 7' TERM\n[ $DSANALYZE_JOB = 0 ] && touch {mark}\nsleep 600 & wait\n"))
                until(mark.exists)
                coordinator.send_signal(stop)
                output, errors = coordinator.communicate(timeout=60)
                self.assertEqual(coordinator.returncode, 130, errors)
                self.assertIn("told", output)
                self.assertIn("interrupted", output)
                document = json.loads(record.read_text())
                self.assertEqual(document["end"], "interrupted")
                self.assertEqual(len(document["commands"]), 2)
                self.nothing_is_left()

    def test_one_that_is_interrupted_twice_ends_at_once_and_leaves_nothing_all_the_same(self):
        mark = self.folder / "started"
        place = self.folder / "group"
        for listen in ([], ["--listen", f"unix:{place}"]):
            with self.subTest(listen=listen):
                mark.unlink(missing_ok=True)
                coordinator = self.start(PROGRAM, "share", *EMULATED, "--jobs", 1, *listen, "--",
                                         *self.script(f"trap '' TERM\necho $$ >{mark}\nwhile :; do sleep 1; done\n"))
                until(lambda: mark.exists() and mark.read_text().endswith("\n"))
                coordinator.send_signal(signal.SIGTERM)
                self.assertIn("once more ends at once", "".join(iter_until(coordinator.stderr, "interrupted")))
                coordinator.send_signal(signal.SIGTERM)
                coordinator.communicate(timeout=60)
                self.assertEqual(coordinator.returncode, 130)
                self.nothing_is_left()
                self.assertFalse(place.exists())
                until(lambda: zombie(mark.read_text().strip()))

    def test_an_interrupted_group_of_others_tells_them(self):
        coordinator = self.share(*EMULATED, "--jobs", 1)
        job = self.start(MINIMAL_C)
        self.assertIn("epoch 0", "".join(iter_until(job.stdout, "epoch 0")))
        coordinator.send_signal(signal.SIGTERM)
        self.assertIn("coordinator lost", job.communicate(timeout=60)[1])
        _, errors = coordinator.communicate(timeout=60)
        self.assertEqual(coordinator.returncode, 130, errors)
        self.nothing_is_left()

    def test_commands_that_start_others_take_them_with_them(self):
        pids = self.folder / "pids"
        record, _ = self.record(*EMULATED, "--jobs", 1, "--", *self.script(f"sleep 600 &\necho $! >{pids}\n"), exit_code=1)
        self.assertEqual(record["commands"][0]["exit_status"], 0)
        until(lambda: not pathlib.Path(f"/proc/{pids.read_text().strip()}").exists() or zombie(pids.read_text().strip()))

    def test_what_makes_no_sense_is_refused(self):
        for arguments, words in [
            ([], "which dataset"),
            (EMULATED, "--jobs N"),
            ([*EMULATED, "--jobs", 0], "--jobs"),
            ([*EMULATED, "--jobs", 65], "--jobs"),
            ([*EMULATED, "--jobs", 2, "--listen", "tcp:80"], "unix:PATH"),
            ([*EMULATED, "--jobs", 2, "--listen", "unix:"], "unix:PATH"),
            ([*EMULATED, "--jobs", 2, "--listen", f"unix:{self.folder}/{'long' * 30}"], "shorter"),
            ([*EMULATED, "--jobs", 2, "--held", 33], "--held"),
            ([*EMULATED, "--jobs", 8, "--held", 3], "pass --held 2, or fewer --jobs"),
            ([*EMULATED, "--jobs", 2, "--producers", "everyone"], "--producers"),
            ([*EMULATED, "--jobs", 2, "--epochs", 0], "--epochs"),
            ([*EMULATED, "--jobs", 2, "--cache", "lru"], "--cache lru"),
            ([*EMULATED, "--jobs", 2, "--accelerator", "null"], "--accelerator"),
            ([*EMULATED, "--jobs", 2, "train.py"], "train.py"),
        ]:
            with self.subTest(arguments=arguments):
                self.assertIn(words, self.fails(2, "share", *arguments))
        for arguments, words in [(["--"], "a command has to follow"), (["--", "no-such-program"], "no-such-program")]:
            run = self.run_program("share", *EMULATED, "--jobs", 2, *arguments)
            self.assertEqual(run.returncode, 2, run.stderr)
            self.assertIn(words, run.stderr)
        self.nothing_is_left()


class Installed(ShareTest):
    def test_the_library_shows_its_calls_alone(self):
        if shutil.which("nm") is None:
            self.skipTest("nm is not installed")
        run = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True)
        symbols = {line.split()[-1].partition("@")[0] for line in run.stdout.splitlines() if line.split()[1] != "A"}
        header = (ROOT / "include" / "dsanalyze" / "dsanalyze.h").read_text()
        declared = {word for word in header.replace("(", " ( ").split() if word.startswith("dsa_") and f"{word}(" in header and f" {word}(" in header}
        self.assertTrue({"dsa_attach", "dsa_next", "dsa_release", "dsa_detach"} <= symbols)
        self.assertEqual({symbol for symbol in symbols if not symbol.startswith("dsa_")}, set())
        self.assertEqual(symbols - declared, set())

    def test_the_structs_of_the_python_program_are_those_of_the_header(self):
        code = "import ctypes, minimal; print(ctypes.sizeof(minimal.Terms), ctypes.sizeof(minimal.Batch), minimal.Batch.samples.offset)"
        run = subprocess.run([sys.executable, "-c", code], cwd=MINIMAL_PY.parent, capture_output=True, text=True, check=True, env=self.environment)
        self.assertEqual(run.stdout.split(), ["224", "200", "40"])

    def test_programs_build_with_pkg_config_against_what_is_installed(self):
        compiler = shutil.which("cc") or shutil.which("gcc")
        meson, build = os.environ.get("DSANALYZE_MESON"), os.environ.get("DSANALYZE_BUILD")
        if compiler is None or shutil.which("pkg-config") is None or shutil.which("g++") is None or not meson or not build:
            self.skipTest("a compiler, pkg-config or meson is not installed")
        place = self.folder / "installed"
        subprocess.run([meson, "install", "-C", build, "--no-rebuild", "--quiet", "--tags", "devel,runtime", "--destdir", place], check=True,
                       capture_output=True, env=dict(os.environ, DESTDIR=""))
        (description,) = place.rglob("dsanalyze.pc")
        environment = dict(self.environment, PKG_CONFIG_PATH=str(description.parent), PKG_CONFIG_SYSROOT_DIR=str(place))

        def flags(*which):
            return subprocess.run(["pkg-config", *which, "dsanalyze"], capture_output=True, text=True, check=True, env=environment).stdout.split()

        program, cpp = self.folder / "program", self.folder / "cpp"
        subprocess.run([compiler, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", ROOT / "tests" / "client" / "minimal.c", "-o", program,
                        *flags("--cflags", "--libs")], check=True)
        source = self.folder / "cpp.cpp"
        source.write_text("#include <dsanalyze/client.hpp>\n#include <cstdio>\nint main() {\n  dsanalyze::client::Client job;\n  unsigned long samples = 0;\n"
                          "  while (auto batch = job.next()) samples += batch->ids().size();\n  std::printf(\"%lu\\n\", samples);\n}\n")
        subprocess.run(["g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", source, "-o", cpp, *flags("--cflags", "--libs")], check=True)
        library = next(place.rglob("libdsanalyze.so.0")).parent
        self.environment["LD_LIBRARY_PATH"] = str(library)
        record, run = self.record(*EMULATED, "--jobs", 2, "--epochs", 1, "--", *self.script(f'[ $DSANALYZE_JOB = 0 ] && exec {program}\nexec {cpp}\n'))
        self.assertEqual(record["samples_taken"], 1200)
        self.assertIn(digest_of(600), run.stdout)
        self.assertIn("\n600\n", "\n" + run.stdout)

    def test_the_page_has_the_programs_as_they_are_tested(self):
        page = (ROOT / "docs" / "client.md").read_text()
        for program in ("minimal.c", "minimal.py"):
            self.assertIn((ROOT / "tests" / "client" / program).read_text(), page, program)


def iter_until(lines, words):
    for line in lines:
        yield line
        if line.startswith(words):
            return


def until(holds):
    """Waits; a test that waits in vain ends after a minute."""
    deadline = time.monotonic() + 60
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError("waited in vain")
        time.sleep(0.01)


def zombie(process):
    try:
        return ") Z " in pathlib.Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return True


if __name__ == "__main__":
    unittest.main()
