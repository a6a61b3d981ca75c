"""Runs the doctor in a process that is really in the condition it is to find: limits, another user, cgroups, and namespaces in which files of
/proc, /sys and /dev are others. What a machine does not permit is tried out by itself, so that a test is skipped for the missing right alone and a
condition that could not be made true is a failure. Nothing is left behind: namespaces end with their process, groups and folders with their test."""

import ctypes
import functools
import json
import mmap
import os
import pathlib
import shlex
import shutil
import struct
import subprocess
import tempfile

from program import PROGRAM, ProgramTest

OTHER_USER = 61234  # has no name and no other processes
UNSHARE = (["unshare", "-m"], ["unshare", "-m", "-U", "-r"])
IO_URING_SETUP = 425  # on every architecture
EPERM = 1
MEMORY_FILESYSTEMS = {"tmpfs", "ramfs"}


@functools.cache
def namespace_words():
    """What gives a command mounts of its own; empty where this user may not have them."""
    for words in UNSHARE if shutil.which("unshare") else ():
        if subprocess.run([*words, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False).returncode == 0:
            return words
    return []


def forbid_io_uring():
    """A filter of system calls, as a container's security profile is: io_uring_setup is refused, all else allowed."""
    load, jump_if_equal, answer = 0x20, 0x15, 0x06
    program = b"".join(struct.pack("HBBI", *line) for line in
                       [(load, 0, 0, 0), (jump_if_equal, 0, 1, IO_URING_SETUP), (answer, 0, 0, 0x00050000 | EPERM), (answer, 0, 0, 0x7FFF0000)])
    instructions = ctypes.create_string_buffer(program)
    libc = ctypes.CDLL(None, use_errno=True)
    description = ctypes.create_string_buffer(struct.pack("HxxxxxxP" if struct.calcsize("P") == 8 else "HxxP", 4, ctypes.addressof(instructions)))
    no_new_privileges, seccomp, filter_mode = 38, 22, 2
    if libc.prctl(no_new_privileges, 1, 0, 0, 0) != 0 or libc.prctl(seccomp, filter_mode, description, 0, 0) != 0:
        os._exit(77)


def end(process):
    """One whose test failed before its answer was read."""
    if process.returncode is None:
        process.kill()
        process.communicate()


def filesystem_of(folder):
    return subprocess.run(["stat", "-f", "-c", "%T", str(folder)], capture_output=True, text=True, check=True).stdout.strip()


def lies_in_memory(folder):
    """Files there, or the layers below them, are never dropped from memory."""
    if filesystem_of(folder) in MEMORY_FILESYSTEMS:
        return True
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(4096))
        file.flush()
        os.fdatasync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        with mmap.mmap(file.fileno(), 0) as pages:
            address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
            resident = ctypes.c_ubyte()
            ctypes.CDLL(None).mincore(ctypes.c_void_p(address), ctypes.c_size_t(1), ctypes.byref(resident))
            return resident.value & 1 == 1


class DoctorTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(os.umask, os.umask(0o022))
        self.environment.pop("CUDA_VISIBLE_DEVICES", None)

    def start(self, *arguments, before=None, prefix=(), program=PROGRAM):
        process = subprocess.Popen([*prefix, program, "doctor", *map(str, arguments), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=self.environment, preexec_fn=before)
        self.addCleanup(end, process)
        return process

    def checks_of(self, process, strict=False):
        """Check by code, of an examination that was started; its exit code is the one that its findings ask for."""
        stdout, stderr = process.communicate(timeout=60)
        self.assertTrue(stdout, stderr)
        document = json.loads(stdout)
        self.assertEqual(document["schema"], "dsanalyze.doctor/2", stderr)
        self.container = document["host"]["container"]
        serious = document["counts"]["warning"] + document["counts"]["problem"]
        self.assertEqual(process.returncode, 1 if strict and serious else 0, stderr)
        return {check["code"]: check for check in document["checks"]}

    def examine(self, *arguments, **how):
        return self.checks_of(self.start(*arguments, **how))

    def examine_both_ways(self, *arguments, **how):
        """Examines with and without --strict at once, and answers with the latter."""
        usual, strict = self.start(*arguments, **how), self.start(*arguments, "--strict", **how)
        checks = self.checks_of(usual)
        self.checks_of(strict, strict=True)
        return checks

    def assert_found(self, checks, code, status, says, mends=None):
        """`says` are words of what was found. `mends` is a part of one of the commands, or parts one of which is (a
        container's are others); without it there is no command, and the words alone say what to do."""
        check = checks[code]
        self.assertEqual(check["status"], status, check)
        for words in (says,) if isinstance(says, str) else says:
            self.assertIn(words, check["found"])
        self.assertTrue(check["fix"] and check["why"], check)
        commands = [command["command"] for command in check["commands"]]
        beyond_a_manifest = self.container == "kubernetes" and not commands
        parts = (mends,) if isinstance(mends, str) else mends or ()
        self.assertTrue(any(part in command for part in parts for command in commands) or beyond_a_manifest if parts else not commands, check)

    def assert_not_found(self, checks, code):
        """Neither a warning nor a problem; a check that does not matter then is not there."""
        self.assertNotIn(checks.get(code, {}).get("status"), ("warning", "problem"), checks.get(code))

    def finds(self, code, status, says, *arguments, mends=None, **how):
        """The doctor finds it, says that, and only --strict makes it a failure."""
        checks = self.examine_both_ways(*arguments, **how)
        self.assert_found(checks, code, status, says, mends)
        return checks

    def dataset(self, name="arrays of mine", folder=None):
        """A small array: no photographs are needed to be read."""
        folder = (folder or self.folder) / name
        folder.mkdir(parents=True, exist_ok=True)
        header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (64, 256), }".ljust(117) + b"\n"
        (folder / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(64 * 256))
        return folder

    def folder_on_a_disk(self):
        """Whose files the page cache holds copies of, where temporary files lie in memory too."""
        for place in (tempfile.gettempdir(), "/var/tmp", pathlib.Path(shutil.which(PROGRAM)).parent):
            if os.access(place, os.W_OK) and not lies_in_memory(place):
                folder = pathlib.Path(tempfile.mkdtemp(prefix="dsanalyze-test-", dir=place))
                self.addCleanup(shutil.rmtree, folder)
                return folder
        return self.skipTest("every folder for temporary files lies in memory")

    def as_other_user(self, namespace=()):
        """The words before a command that run it, in that namespace, as one who is not root and owns nothing; and a copy of the program that such a one
        can reach."""
        if os.geteuid() != 0 or shutil.which("setpriv") is None or "-U" in namespace:
            self.skipTest("only root can be another user (by setpriv)")
        self.folder.chmod(0o755)
        program = shutil.copy(shutil.which(PROGRAM), self.folder / "dsanalyze")
        return {"prefix": [*namespace, "setpriv", f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups"], "program": program}

    def in_mount_namespace(self, *script):
        """The words before a command that run it where the mounts of `script` are."""
        if not namespace_words():
            self.skipTest("this user may not mount in a namespace of its own (unshare -m)")
        prefix = [*namespace_words(), "sh", "-c", " && ".join(script) + ' && exec "$@"', "sh"]
        tried = subprocess.run([*prefix, "true"], capture_output=True, text=True, check=False)
        self.assertEqual(tried.returncode, 0, f"{script}: {tried.stderr}")
        return prefix

    def with_files(self, files, *script):
        """The words before a command that sees `files` in the place of the machine's: a text instead of a file; names, with texts or where a link leads,
        instead of a folder. What is below /proc/self is the command's own. `script` comes before."""
        drawn = pathlib.Path(tempfile.mkdtemp(prefix="drawn-", dir=self.folder))
        drawn.chmod(0o755)
        mounts = []
        for number, (place, content) in enumerate(files.items()):
            source = drawn / str(number)
            if isinstance(content, dict):
                source.mkdir()
                for name, text in content.items():
                    (source / name).parent.mkdir(parents=True, exist_ok=True)
                    if isinstance(text, pathlib.Path):
                        (source / name).symlink_to(text)
                    else:
                        (source / name).write_text(text)
            else:
                source.write_text(content)
            target = shlex.quote(place).replace("/proc/self/", '/proc/"$$"/')
            mounts.append(f"mount --bind {shlex.quote(str(source))} {target}")
        return self.in_mount_namespace(*script, *mounts)

    def control_group(self, controller, files):
        """What puts a process into a real group of these limits, {version: {file: text}}, and the group's folder."""
        places = [(1, f"/sys/fs/cgroup/{controller}"), (1, f"/sys/fs/cgroup/{controller},cpuacct"), (2, "/sys/fs/cgroup")]
        for version, folder in ((version, pathlib.Path(place)) for version, place in places):
            members = folder / "cgroup.procs"
            shared_out = folder / "cgroup.subtree_control"
            if not members.is_file() or not os.access(members, os.W_OK) or (version == 2 and controller not in shared_out.read_text().split()):
                continue
            group = folder / f"dsanalyze-test-{os.getpid()}-{self.id().rsplit('.', 1)[1]}-{len(list(folder.iterdir()))}"
            group.mkdir()
            self.addCleanup(group.rmdir)
            for name, text in files[version].items():
                (group / name).write_text(text)
            return lambda: (group / "cgroup.procs").write_text(str(os.getpid())), group
        return self.skipTest(f"this user may not make a cgroup that limits {controller}")
