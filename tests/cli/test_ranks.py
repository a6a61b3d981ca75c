"""Ranks of one job on several servers: processes that meet at a file, at a port or through mpirun, with emulated storage that counts its own bytes."""

import fcntl
import json
import os
import pathlib
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
import unittest

import program
import sample_digests

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "net"))
import networks  # noqa: E402

SAMPLES, BATCH, EPOCHS = 600, 10, 3
EMULATED = ["--storage", "emulated:500MB/s", "--prep", "emulated:4000", "--cores", "2", "--accelerator", "emulated:4000", "--batch-size", BATCH, "--subset", "100%",
            "--runs", "full", "--time-budget", "60s", "--quiet"]


def without(option, setting=EMULATED):
    """A setting that leaves an option to the test: each is given once."""
    if option not in setting:
        return setting
    at = setting.index(option)
    return setting[:at] + setting[at + 2:]


def numbers_in(text):
    return [int(number) for number in text.split(",") if number]


class Ranks(program.ProgramTest):
    def start(self, world, *arguments, rendezvous=None, dataset=f"emulated:imagenet-1k,samples={SAMPLES}", setting=EMULATED, each=None,
              timeout="20s"):
        """A process a rank; its output is collected by finish(). `timeout`: of silent ranks, longer than a busy machine keeps a process waiting."""
        meeting = rendezvous or self.folder / "meeting"
        processes = []
        for rank in range(world):
            own = each(rank) if each else []
            own = own if "--peer-timeout" in own else ["--peer-timeout", timeout, *own]
            command = [program.PROGRAM, "profile", dataset, *setting, "--json", "--world", world, "--rank", rank, "--rendezvous", meeting, *arguments, *own]
            process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment)
            self.addCleanup(self.end, process)
            processes.append(process)
        return processes

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def finish(self, processes):
        """Exit code, stdout and stderr of each."""
        return [(process.returncode, out, err) for process in processes for out, err in [process.communicate(timeout=100)]]

    def result_of(self, processes, teller=0):
        """The one result, which one rank tells and the others do not."""
        ended = self.finish(processes)
        for rank, (code, out, err) in enumerate(ended):
            if rank == teller:
                self.assertEqual(code, 0, err)
            else:
                self.assertEqual(out, "", f"rank {rank} told something, too")
        return json.loads(ended[teller][1])

    def full(self, result):
        return next(run for run in result["runs"] if run["name"] == "full")

    def check_once_an_epoch(self, result, samples=SAMPLES):
        whole = sample_digests.of(range(samples))
        for epoch in self.full(result)["epochs"]:
            self.assertEqual(epoch["samples"], samples)
            self.assertEqual(epoch["digest"], whole)

    def check_times(self, result):
        """Epochs of all ranks follow one another from when the last rank came to the first until the last one ended the last."""
        ends = [[0] + [epoch["end_seconds"] for epoch in rank["epochs"]] for rank in result["ranks"]]
        for which, epoch in enumerate(self.full(result)["epochs"][1:], 1):
            self.assertAlmostEqual(epoch["seconds"], max(each[which + 1] for each in ends) - max(each[which] for each in ends), places=6)
        for rank, each in zip(result["ranks"], ends):
            for which, epoch in enumerate(rank["epochs"][1:], 1):
                self.assertAlmostEqual(epoch["seconds"], each[which + 1] - each[which], places=6)

    def test_caches_that_together_hold_the_dataset_read_it_once(self):
        for mode in ("partitioned", "locality"):
            for world in (2, 3, 4):
                with self.subTest(mode=mode, world=world):
                    result = self.result_of(self.start(world, "--partition", mode, "--cache-size", f"{120 / world}%", "--epochs", EPOCHS))
                    self.check_once_an_epoch(result)
                    self.check_times(result)
                    epochs = self.full(result)["epochs"]
                    self.assertEqual([epoch["requested_bytes"] for epoch in epochs], [result["dataset"]["bytes"], 0, 0])
                    self.assertEqual(result["partition"]["nowhere_samples"], 0)
                    self.assertEqual(len(result["ranks"]), world)
                    share = sum(epoch["peer_hits"] for epoch in epochs[1:]) / (SAMPLES * (EPOCHS - 1))
                    regular = 1 - 1 / world
                    if mode == "partitioned":
                        self.assertGreater(share, regular * 0.5)
                    else:
                        self.assertLess(share, regular * 0.7)
                        self.assertGreater(result["partition"]["balance_traffic"], 0)
                    self.assertGreater(result["rates"]["N"]["samples_per_s"], 0)

    def test_what_no_cache_holds_is_read_each_epoch_and_nothing_else(self):
        for mode in ("partitioned", "locality"):
            with self.subTest(mode=mode):
                result = self.result_of(self.start(2, "--partition", mode, "--cache-size", "30%", "--epochs", EPOCHS))
                self.check_once_an_epoch(result)
                nowhere = result["partition"]["nowhere_bytes"]
                self.assertGreater(nowhere, 0.3 * result["dataset"]["bytes"])
                self.assertEqual([epoch["requested_bytes"] for epoch in self.full(result)["epochs"][1:]], [nowhere, nowhere])

    def test_memory_to_spare_holds_replicas(self):
        result = self.result_of(self.start(2, "--partition", "partitioned", "--cache-size", "100%", "--epochs", 8))
        self.check_once_an_epoch(result)
        epochs = self.full(result)["epochs"]
        self.assertEqual([epoch["requested_bytes"] for epoch in epochs[1:]], [0] * 7)
        self.assertLess(epochs[-1]["peer_hits"], epochs[1]["peer_hits"] / 4)

    def test_without_a_partition_each_server_reads_what_it_lacks(self):
        result = self.result_of(self.start(2, "--cache-size", "60%", "--epochs", EPOCHS))
        self.check_once_an_epoch(result)
        self.assertGreater(self.full(result)["epochs"][1]["requested_bytes"], 0)
        self.assertNotIn("N", result["rates"])

    def test_real_files_come_right_from_another_rank(self):
        data = self.photographs(48)
        setting = ["--accelerator", "null", "--batch-size", "4", "--subset", "100%", "--runs", "full", "--time-budget", "60s", "--quiet"]
        result = self.result_of(self.start(2, "--partition", "partitioned", "--cache-size", "80%", "--epochs", 2, dataset=data, setting=setting))
        self.check_once_an_epoch(result, 48)
        self.assertEqual(self.full(result)["samples_failed"], 0)
        self.assertEqual(self.full(result)["epochs"][1]["requested_bytes"], 0)

    @staticmethod
    def cached_by(process):
        """Bytes of shared memory that the process has: its cache, mostly."""
        try:
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        except OSError:
            return 0
        found = [line.split()[1] for line in status.splitlines() if line.startswith("RssShmem:")]
        return int(found[0]) * 1024 if found else 0

    def wait_until_cached(self, process, size=20e6):
        """Until it trains, and holds what others may ask for."""
        deadline = time.monotonic() + 60
        while self.cached_by(process) < size:
            self.assertIsNone(process.poll(), "it ended before it held so much")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def lose_one(self, mode, victim, epochs=40, setting=EMULATED, when=20e6):
        """Kills it when it holds so many bytes, and answers which epoch that was."""
        processes = self.start(3, "--partition", mode, "--cache-size", "50%", "--epochs", epochs, setting=setting)
        self.wait_until_cached(processes[victim], when)
        processes[victim].kill()
        survivors = [process for rank, process in enumerate(processes) if rank != victim]
        result = self.result_of(survivors)
        self.assertEqual([rank["rank"] for rank in result["ranks"]], [rank for rank in range(3) if rank != victim])
        (lost,) = result["partition"]["lost"]
        self.assertEqual(lost["rank"], victim)
        whole = sample_digests.of(range(SAMPLES))
        trained = {epoch["epoch"]: epoch["digest"] for epoch in self.full(result)["epochs"]}
        self.assertEqual(len(trained), epochs)
        self.assertEqual(sample_digests.add(trained[lost["epoch"]], sample_digests.of(numbers_in(lost["untrained"]))), whole)
        for epoch in range(lost["epoch"] + 1, epochs):
            self.assertEqual(trained[epoch], whole)
        self.assertIn("rank-lost", [finding["code"] for finding in result["findings"]])
        return lost["epoch"]

    def test_a_rank_that_is_killed_costs_its_share_of_one_epoch(self):
        for mode, victim in (("partitioned", 2), ("locality", 1), ("partitioned", 0)):
            with self.subTest(mode=mode, victim=victim):
                self.lose_one(mode, victim)

    def test_a_rank_that_is_killed_in_the_last_epoch_is_named_too(self):
        slow = [*EMULATED]
        slow[slow.index("--accelerator") + 1] = "emulated:60"
        # Of 68 MB it reads a third in the first epoch; more comes with the second, copies of what others hold.
        self.assertEqual(self.lose_one("partitioned", 2, epochs=2, setting=slow, when=26e6), 1)

    def test_a_result_that_may_be_written_is_not_reported_by_another_rank(self):
        processes = self.start(3, "--partition", "partitioned", "--cache-size", "50%", "--epochs", 2)
        # Nothing reads: rank 0 has the result, and cannot write all of it.
        fcntl.fcntl(processes[0].stdout, fcntl.F_SETPIPE_SZ, 4096)
        select.select([processes[0].stdout], [], [], 60)
        self.assertEqual([process.poll() for process in processes], [None, None, None])
        processes[0].kill()
        for code, out, err in self.finish(processes[1:]):
            self.assertEqual(code, 1, err)
            self.assertIn("rank 0 of 3 was lost while it reported the result", err)
            self.assertEqual(json.loads(out)["schema"], "dsanalyze.error/1")

    def test_ranks_that_do_not_agree_are_told_in_what(self):
        # The option, what rank 0 is given and how it is named, the same of rank 1.
        cases = (("--seed", 0, "0", 8, "8"), ("--batch-size", 8, "8", 9, "9"), ("--accelerator", "emulated:40", "emulated 40", "null", "null"),
                 ("--runs", "full", "full", "prep,full", "prep,full"), ("--time-budget", "30s", "30", "60s", "60"),
                 ("--network", "real", "real", "emulated:1Gbit/s", "emulated 125000000"), ("--subset", "100%", "100 %", "90%", "90 %"),
                 ("--cache", "minio", "minio", "lru", "lru"), ("--peer-timeout", "1s", "1 s", "20s", "20 s"))
        differing = []
        for what, zeros, named, ones, named_too in cases:
            mode = "none" if what == "--cache" else "partitioned"
            processes = self.start(2, "--partition", mode, rendezvous=self.folder / what, setting=without(what),
                                   each=lambda rank, what=what, values=(zeros, ones): [what, values[rank]])
            differing.append((f"{what} differs between ranks: rank 0 has {named}, rank 1 has {named_too};", processes))
        for message, processes in differing:
            with self.subTest(message=message):
                for code, out, err in self.finish(processes):
                    self.assertEqual(code, 2, err)
                    self.assertIn(message, err)

    def test_what_a_server_has_may_differ_between_ranks(self):
        result = self.result_of(self.start(2, "--partition", "partitioned", "--epochs", EPOCHS, setting=without("--cores"),
                                           each=lambda rank: ["--cache-size", f"{40 + 20 * rank}%", "--cores", 1 + rank, "--io-depth", 4 + rank]))
        self.check_once_an_epoch(result)
        held = [rank["held_bytes"] for rank in result["ranks"]]
        self.assertGreater(held[1], 1.2 * held[0])

    def test_datasets_that_differ_in_their_contents_alone_are_told_apart(self):
        data = self.photographs(20)
        other = self.folder / "other"
        shutil.copytree(data, other)
        changed = sorted(path for path in other.rglob("*.jpg"))[7]
        content = bytearray(changed.read_bytes())
        content[-3] ^= 1
        changed.write_bytes(content)
        setting = ["--accelerator", "null", "--batch-size", "4", "--subset", "100%", "--runs", "full", "--time-budget", "60s", "--quiet"]
        for code, out, err in self.finish(self.start_at([data, other], setting)):
            self.assertEqual(code, 2, err)
            self.assertIn("content_sample_digest differs between ranks: rank 0 has ", err)
        changed.unlink()
        for code, out, err in self.finish(self.start_at([data, other], setting)):
            self.assertEqual(code, 2, err)
            self.assertIn("samples differs between ranks: rank 0 has 20, rank 1 has 19;", err)

    def start_at(self, places, setting):
        """A rank for each place where the dataset lies."""
        return [process for rank, place in enumerate(places)
                for process in self.start_one(rank, len(places), [program.PROGRAM, "profile", place, *setting])]

    def start_one(self, rank, world, command, limits=None):
        words = [*command, "--json", "--world", world, "--rank", rank, "--rendezvous", self.folder / "meeting"]
        limit = limits and (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limits))
        process = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment, preexec_fn=limit)
        self.addCleanup(self.end, process)
        return [process]

    def test_too_few_open_files_are_named_before_anything_is_waited_for_and_a_low_limit_is_raised(self):
        command = [program.PROGRAM, "profile", f"emulated:imagenet-1k,samples={SAMPLES}", *EMULATED]
        ((code, out, err),) = self.finish(self.start_one(3, 600, command, limits=(256, 512)))
        self.assertEqual(code, 2, err)
        self.assertRegex(err, r"rank 3 of 600 needs 1,?2\d\d open files \(2 for each other rank, and its own\), and the hard limit allows this process 512;.*ulimit -n 1,?[45]\d\d")
        processes = [process for rank in (0, 1) for process in self.start_one(rank, 2, command, limits=(48, 4096))]
        self.wait_for_limit(processes[1], 300)
        self.check_once_an_epoch(self.result_of(processes))

    def wait_for_limit(self, process, least):
        deadline = time.monotonic() + 60
        while resource.prlimit(process.pid, resource.RLIMIT_NOFILE)[0] < least:
            self.assertIsNone(process.poll(), "it ended before it raised its limit")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_at_a_port_with_a_key(self):
        key = self.folder / "key"
        key.write_bytes(os.urandom(32))
        key.chmod(0o600)
        other = self.folder / "other"
        other.write_bytes(os.urandom(32))
        other.chmod(0o600)
        place = "127.0.0.1:17631"
        result = self.result_of(self.start(2, "--partition", "locality", "--cache-size", "60%", "--epochs", 2, "--key-file", key, rendezvous=place))
        self.check_once_an_epoch(result)
        key.chmod(0o644)
        for code, out, err in self.finish(self.start(2, "--key-file", key, rendezvous=place)):
            self.assertEqual(code, 2, err)
            self.assertIn("chmod 600", err)

    def start_in_networks(self, places, world, *arguments):
        """A rank in each namespace, found by the address that it has there."""
        key = self.folder / "key"
        key.write_bytes(os.urandom(32))
        key.chmod(0o600)
        place = f"{places.addresses()[0]}:17632"
        processes = []
        for rank in range(world):
            command = [program.PROGRAM, "profile", f"emulated:imagenet-1k,samples={SAMPLES}", *EMULATED, "--json", "--world", world, "--rank", rank, "--rendezvous", place,
                       "--listen", places.addresses()[rank], "--key-file", key, *arguments]
            process = places.start(rank, list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment)
            self.addCleanup(self.end, process)
            processes.append(process)
        return processes

    def networks(self, count):
        """As many namespaces; where they cannot be made the test says why. One that could and does not is a failure: nothing here falls back by itself."""
        why_not = networks.why_not()
        if why_not:
            self.skipTest(f"no network namespaces: {why_not}; the same is tried over loopback")
        return networks.Networks(count)

    def test_ranks_on_networks_of_their_own_hold_the_dataset_together(self):
        for mode in ("partitioned", "locality"):
            with self.subTest(mode=mode), self.networks(3) as places:
                result = self.result_of(self.start_in_networks(places, 3, "--partition", mode, "--cache-size", "40%", "--epochs", EPOCHS))
                self.check_once_an_epoch(result)
                self.assertEqual([epoch["requested_bytes"] for epoch in self.full(result)["epochs"]], [result["dataset"]["bytes"], 0, 0])

    def test_a_rank_whose_link_is_cut_is_gone_on_without_and_ends_itself(self):
        with self.networks(3) as places:
            epochs = 40
            processes = self.start_in_networks(places, 3, "--partition", "partitioned", "--cache-size", "50%", "--epochs", epochs)
            self.wait_until_cached(processes[2])
            places.cut(2)
            result = self.result_of(processes[:2])
            self.assertEqual([rank["rank"] for rank in result["ranks"]], [0, 1])
            self.assertEqual(self.full(result)["epochs"][-1]["digest"], sample_digests.of(range(SAMPLES)))
            ((code, out, err),) = self.finish(processes[2:])
            self.assertEqual((code, json.loads(out)["schema"]), (1, "dsanalyze.error/1"), err)

    def test_a_rank_that_was_stopped_finds_itself_given_up(self):
        processes = self.start(3, "--partition", "partitioned", "--cache-size", "50%", "--epochs", 60, timeout="1s")
        self.wait_until_cached(processes[1])
        processes[1].send_signal(signal.SIGSTOP)
        result = self.result_of([processes[0], processes[2]])
        self.assertEqual([rank["rank"] for rank in result["ranks"]], [0, 2])
        processes[1].send_signal(signal.SIGCONT)
        ((code, out, err),) = self.finish(processes[1:2])
        self.assertEqual((code, json.loads(out)["schema"]), (1, "dsanalyze.error/1"), err)

    def test_what_cannot_be_is_refused_with_the_reason(self):
        dataset = "emulated:imagenet-1k,samples=100"
        for arguments, words in ((["--partition", "thirds"], "none, partitioned, locality"), (["--rank", "0"], "--world"), (["--world", "2"], "--rank"),
                                 (["--rank", "2", "--world", "2"], "rank"), (["--rank", "0", "--world", "2"], "--rendezvous"),
                                 (["--rank", "0", "--world", "2", "--listen", "127.0.0.1"], "--key-file"), (["--listen", "127.0.0.1"], "--listen"),
                                 (["--peer-timeout", "5s"], "--peer-timeout"), (["--rank", "0", "--world", "2", "--peer-timeout", "0"], "expected a time from 100 ms to 10 min"),
                                 (["--rank", "0", "--world", "2", "--peer-timeout", "soon", "--dry-run"], "expected a time from 100 ms to 10 min"),
                                 (["--partition", "locality", "--cache", "lru"], "minio"), (["--partition", "locality", "--jobs", "2"], "one server"),
                                 (["--network", "emulated:fast", "--partition", "locality"], "--network"),
                                 (["--rank", "0", "--world", "2", "--rendezvous", "192.0.2.1:9999"], "--key-file")):
            with self.subTest(arguments=arguments):
                self.assertIn(words, self.fails(2, "profile", dataset, *EMULATED, *arguments))

    def test_one_rank_alone_may_part_the_dataset_with_itself(self):
        result = self.json_of("profile", f"emulated:imagenet-1k,samples={SAMPLES}", *EMULATED, "--partition", "partitioned", "--cache-size", "100%")
        self.check_once_an_epoch(result)
        self.assertEqual(self.full(result)["epochs"][1]["requested_bytes"], 0)

    def test_of_ranks_with_one_output_only_the_first_leaves_a_document_of_what_went_wrong(self):
        command = [program.PROGRAM, "profile", "emulated:imagenet-1k,samples=60", *map(str, EMULATED), "--partition", "halves", "--json"]
        for rank in (0, 1):
            environment = dict(self.environment, OMPI_COMM_WORLD_RANK=str(rank), OMPI_COMM_WORLD_SIZE="2")
            run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
            self.assertEqual(run.returncode, 2)
            self.assertIn("halves", run.stderr)
            if rank == 0:
                self.assertEqual(json.loads(run.stdout)["schema"], "dsanalyze.error/1")
            else:
                self.assertEqual(run.stdout, "")

    @unittest.skipUnless(shutil.which("mpirun"), "mpirun is not installed")
    def test_mpirun_starts_the_ranks(self):
        environment = dict(self.environment, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        for mode in ("partitioned", "locality"):
            with self.subTest(mode=mode):
                command = ["mpirun", "-n", "4", "--oversubscribe", "--bind-to", "none", program.PROGRAM, "profile", f"emulated:imagenet-1k,samples={SAMPLES}", *EMULATED,
                           "--partition", mode, "--cache-size", "30%", "--json"]
                run = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, timeout=120, check=False)
                if "mpi module" in run.stderr.lower():
                    self.skipTest("this build has no module for MPI")
                self.assertEqual(run.returncode, 0, run.stderr)
                self.check_once_an_epoch(json.loads(run.stdout))


if __name__ == "__main__":
    unittest.main()
