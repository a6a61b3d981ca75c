"""Watches a profile of coordinated jobs from outside, strikes its processes, and looks for what is left behind."""

import json
import mmap
import os
import pathlib
import shutil
import signal
import stat
import struct
import subprocess
import tempfile
import time
import uuid

PAGE_NAME = "staging control page"
PAGE_MARK = 0x64504147
TAKING_AT, RELEASED_AT = 64, 128  # loaders/staging/memory.hpp, ControlPage
MARK_VARIABLE = "DSANALYZE_TEST_RUN"  # in the environment of all that a watch starts, so that what is left of it is found


def processes_with(mark):
    """Every process that was started in a run, whatever became of its parent."""
    found = []
    for each in pathlib.Path("/proc").iterdir():
        if not each.name.isdigit():
            continue
        try:
            if f"{MARK_VARIABLE}={mark}".encode() in (each / "environ").read_bytes().split(b"\0") and state_of(int(each.name)) not in ("Z", None):
                found.append(int(each.name))
        except OSError:
            continue
    return found


def state_of(process):
    """R, S, T, Z ...; None when there is no such process."""
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return None


def strike(process, number):
    """False when it had gone."""
    try:
        os.kill(process, number)
        return True
    except ProcessLookupError:
        return False


class ControlPage:
    """The page on which a job says how far it is, read only."""

    def __init__(self, process):
        self.memory = None
        for line in pathlib.Path(f"/proc/{process}/maps").read_text().splitlines():
            fields = line.split(None, 5)
            if len(fields) == 6 and PAGE_NAME in fields[5] and "w" in fields[1]:
                self._open(process, int(fields[4]))

    def _open(self, process, inode):
        folder = pathlib.Path(f"/proc/{process}/fd")
        for each in folder.iterdir():
            if os.stat(each).st_ino == inode and PAGE_NAME in os.readlink(each):
                descriptor = os.open(each, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    memory = mmap.mmap(descriptor, 4096, prot=mmap.PROT_READ)
                finally:
                    os.close(descriptor)
                if struct.unpack_from("<I", memory, 0)[0] == PAGE_MARK:
                    self.memory = memory
                return

    @property
    def released(self):
        return struct.unpack_from("<Q", self.memory, RELEASED_AT)[0]


class Places:
    """Folders of its own for all that a program may leave somewhere."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dsanalyze-faults-"))
        self.mark = uuid.uuid4().hex
        self.environment = dict(os.environ, XDG_STATE_HOME=str(self.folder / "state"), XDG_CACHE_HOME=str(self.folder / "cache"),
                                XDG_RUNTIME_DIR=str(self.folder / "run"), TMPDIR=str(self.folder / "tmp"), HOME=str(self.folder / "home"))
        self.environment[MARK_VARIABLE] = self.mark
        self.environment.pop("DSANALYZE_DATA_DIR", None)
        for name in ("run", "tmp", "home"):
            (self.folder / name).mkdir()

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def left_behind(self, shared_before, seconds=10):
        """What is still there, in words, after some time: processes, files, names in /dev/shm. Results that were kept are no such thing."""
        deadline = time.monotonic() + seconds
        while processes_with(self.mark) and time.monotonic() < deadline:
            time.sleep(0.02)
        left = [f"process {each}" for each in processes_with(self.mark)]
        for each in self.folder.rglob("*"):
            kept = each.is_relative_to(self.folder / "state" / "dsanalyze" / "profiles") and each.suffix == ".json"
            if not kept and not stat.S_ISDIR(each.lstat().st_mode):
                left.append(f"file {each}")
        return left + [f"/dev/shm/{each}" for each in sorted(shared_names() - shared_before)]


def shared_names():
    try:
        return set(os.listdir("/dev/shm"))
    except OSError:
        return set()


class Watched:
    """A profile of coordinated jobs while it runs."""

    def __init__(self, program, places, arguments, jobs):
        self.jobs = jobs
        self.shared_before = shared_names()
        self.places = places
        self.output = tempfile.TemporaryFile("w+")  # no pipe: no process reads while it is watched
        self.errors = tempfile.TemporaryFile("w+")
        self.profile = subprocess.Popen([program, "profile", *map(str, arguments), "--json", "--quiet"], stdout=self.output, stderr=self.errors,
                                        env=places.environment)
        self.pages = {}
        self.positions = {}  # of each job's process: (when, released), each time that it moved

    def children(self):
        try:
            return [int(each) for each in pathlib.Path(f"/proc/{self.profile.pid}/task/{self.profile.pid}/children").read_text().split()]
        except OSError:
            return []

    def look(self):
        """Notes how far each job is. The processes of jobs that run, those that have entered their group or not."""
        now = time.monotonic()
        running = []
        for child in self.children():
            running.append(child)
            if child not in self.pages:
                self._find(child)
                continue
            released = self.pages[child].released
            seen = self.positions[child]
            if not seen or seen[-1][1] != released:
                seen.append((now, released))
        return running

    def _find(self, child):
        try:
            page = ControlPage(child)
        except OSError:
            return
        if page.memory is not None:
            self.pages[child] = page
            self.positions[child] = []

    def position(self, child):
        seen = self.positions.get(child)
        return seen[-1][1] if seen else 0

    def wait_for_jobs(self, seconds=60):
        """The processes of all jobs; fewer when the profile ended."""
        deadline = time.monotonic() + seconds
        running = []
        while len(running) < self.jobs and self.profile.poll() is None and time.monotonic() < deadline:
            running = self.look()
            time.sleep(0.002)
        return running

    def wait_for_batches(self, batches, seconds=60):
        """Until every job has released so many; False when they did not."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.profile.poll() is None:
            running = self.look()
            if len(running) == self.jobs and all(self.position(each) >= batches for each in running):
                return True
            time.sleep(0.002)
        return False

    def finish(self, seconds=120):
        """Exit code, what it printed, what it said of errors."""
        deadline = time.monotonic() + seconds
        while self.profile.poll() is None and time.monotonic() < deadline:
            self.look()
            time.sleep(0.001)
        if self.profile.poll() is None:
            self.profile.kill()
        self.profile.wait()
        texts = []
        for file in (self.output, self.errors):
            file.seek(0)
            texts.append(file.read())
        return self.profile.returncode, *texts

    def close(self):
        for each in [*self.children(), self.profile.pid]:
            if self.profile.poll() is None or each != self.profile.pid:
                strike(each, signal.SIGKILL)
        self.profile.wait()
        self.output.close()
        self.errors.close()
        for page in self.pages.values():
            page.memory.close()


def limited_groups():
    """A function that makes a group of so many bytes, for each version of cgroups that is available here."""
    def maker(parent, name):
        def make(limit):
            folder = pathlib.Path(tempfile.mkdtemp(prefix="dsanalyze-faults-", dir=parent))
            try:
                (folder / name).write_text(str(limit))
            except OSError:
                folder.rmdir()
                raise
            return folder
        return make
    for version, parent, sign, name in ((1, "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.limit_in_bytes"),
                                        (2, "/sys/fs/cgroup", "cgroup.controllers", "memory.max")):
        if not (pathlib.Path(parent) / sign).exists():
            print(f"version {version} of cgroups: skipped, {parent}/{sign} is not there")
            continue
        make = maker(parent, name)
        try:
            make(1 << 30).rmdir()
            yield version, make
        except OSError as error:
            print(f"version {version} of cgroups: skipped: {error}")


def run_within(program, places, folder, arguments):
    """The exit code and what it said, the most memory that it took, and how often the kernel killed something for want of it."""
    command = ["sh", "-c", f'echo $$ > "{folder}/cgroup.procs" && exec "$@"', "sh", program, "profile", *map(str, arguments), "--json", "--quiet"]
    run = subprocess.run(command, env=places.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300, check=False)
    events = (folder / "memory.oom_control") if (folder / "memory.oom_control").exists() else folder / "memory.events"
    killed = [line.split()[1] for line in events.read_text().splitlines() if line.startswith("oom_kill ")]
    return run.returncode, run.stdout, run.stderr, int(killed[0]) if killed else 0


def within_limit(program, places, make, megabytes, command):
    """"ran", "refused", or what is wrong: it was killed, ended without a reason, or began without the memory for it."""
    folder = make(megabytes << 20)
    try:
        code, out, err, killed = run_within(program, places, folder, command)
        if killed:
            return f"the kernel killed {killed} for want of memory: exit code {code}: {err[-400:]}"
        if code == 0:
            ends = {job["end"] for job in json.loads(out)["jobs"]}
            return "ran" if ends == {"finished"} else f"its jobs ended as {ends}"
        return "refused" if code == 2 and "need" in err and "available" in err else f"exit code {code}: {err[-400:]}"
    finally:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                folder.rmdir()
                break
            except OSError:  # processes that have just ended are still in it
                time.sleep(0.02)
