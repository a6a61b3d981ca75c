"""The doctor where files are hard to measure by: filesystems that are really mounted, users who may not, pages that stay; and disks of other kinds, by
the files in which the kernel describes them."""

import mmap
import os
import pathlib
import shlex
import unittest

from doctor_program import DoctorTest, filesystem_of, forbid_io_uring

ARRAY = "x.npy"


class DoctorOfPlaces(DoctorTest):
    def mounted(self, mount, before="true", first="true"):
        """A copy of the dataset where `mount` (with PLACE for the folder) mounts; its folder, and the words before a command that see it."""
        place = self.folder / "mounted"
        place.mkdir(exist_ok=True)
        copy = f"rm -rf '{place}/d' && mkdir '{place}/d' && cp '{self.dataset()}/{ARRAY}' '{place}/d/'"
        return place / "d", self.in_mount_namespace(first, before, mount.replace("PLACE", f"'{place}'"), copy)

    def on_disk(self, disk="sdx", filesystem="ext4", source="/dev/sdx", queue=()):
        """The dataset, and the words before a command that take its disk for `disk`."""
        data = self.dataset("data")
        number = os.stat(data).st_dev
        device = f"{os.major(number)}:{os.minor(number)}"
        queue = {"rotational": "0\n", "scheduler": "[none] mq-deadline bfq\n", "read_ahead_kb": "128\n"} | dict(queue)
        return data, self.with_files({
            "/sys/dev/block": {device: pathlib.Path(f"../../devices/virtual/block/{disk}")},
            "/sys/block": {f"{disk}/queue/{name}": text for name, text in queue.items()},
            "/proc/self/mountinfo": f"30 1 {device} / / rw,relatime - ext4 /dev/sda rw\n31 30 {device} / {data} rw,relatime - {filesystem} {source} rw\n",
        })

    def finds_on(self, data_and_prefix, code, status, says, *arguments, mends=None, **how):
        data, prefix = data_and_prefix
        return self.finds(code, status, says, data, *arguments, mends=mends, prefix=prefix, **how)

    def examine_on(self, data_and_prefix):
        data, prefix = data_and_prefix
        return self.examine(data, prefix=prefix)

    def lacks_on(self, data_and_prefix, code):
        self.assert_not_found(self.examine_on(data_and_prefix), code)

    def test_files_of_a_dataset_that_this_user_may_not_read_are_found(self):
        images = self.folder / "images of mine"
        for name in ("a/1.jpg", "a/2.jpg", "b/3.jpg"):
            (images / name).parent.mkdir(parents=True, exist_ok=True)
            (images / name).write_bytes(b"not looked into")
        other = self.as_other_user() if os.geteuid() == 0 else {}
        self.assert_not_found(self.examine(images, **other), "dataset-access")
        (images / "a/2.jpg").chmod(0)
        check = self.finds("dataset-access", "problem", ("1 of 3 files", "a/2.jpg'", "Permission denied"), images, mends="chmod -R a+rX", **other)
        self.assertIn(f"'{images}'", check["dataset-access"]["commands"][0]["command"])
        if other:
            self.assert_not_found(self.examine(images), "dataset-access")  # root may

    def test_a_dataset_in_memory_is_found_and_the_same_on_a_disk_is_not(self):
        self.finds_on(self.mounted("mount -t tmpfs none PLACE"), "filesystem", "problem", ("tmpfs", "memory"), mends="cp -r ")
        self.lacks_on(self.on_disk(), "filesystem")

    def test_a_dataset_in_an_images_layers_is_found(self):
        self.require_filesystem("overlay")
        memory = self.folder / "memory"
        memory.mkdir()
        checks = self.finds_on(self.mounted(*self.layers_in(memory), f"mount -t tmpfs none '{memory}'"), "filesystem", "warning",
                               ("overlay", "layers of an image"), mends=("cp -r ", "-v /DATA/ON/HOST", "mountPath"))
        self.assert_found(checks, "page-cache", "warning", "stayed although it was asked to be dropped", mends="cp -r ")

    def test_pages_of_an_images_layers_on_a_disk_are_dropped_also_before_they_are_written(self):
        self.require_filesystem("overlay")
        disk = self.folder_on_a_disk()
        if filesystem_of(disk) == "overlayfs":
            self.skipTest("temporary files lie in an image's layers, on which there can be no others")
        layers = self.mounted(*self.layers_in(disk))
        self.addCleanup((disk / "w" / "work").chmod, 0o700)  # which the kernel closed to all
        self.assertEqual(self.examine_on(layers)["page-cache"]["status"], "ok")

    def layers_in(self, folder):
        """What mounts layers that lie there, and makes their folders."""
        place = shlex.quote(str(folder))
        return (f"mount -t overlay overlay -o lowerdir={place}/l,upperdir={place}/u,workdir={place}/w PLACE", f"mkdir -p {place}/l {place}/u {place}/w")

    def require_filesystem(self, name):
        """After the kernel was asked for it, which loads its module."""
        self.in_mount_namespace(f"mount -t {name} none /mnt 2>/dev/null || true")
        if name not in pathlib.Path("/proc/filesystems").read_text().split():
            self.skipTest(f"this kernel has no {name}")

    def test_a_dataset_across_a_network_or_served_by_a_program_is_found(self):
        self.finds_on(self.on_disk(filesystem="nfs4", source="server:/export"), "filesystem", "warning", ("nfs4 (server:/export)", "network"), mends="cp -r ")
        self.finds_on(self.on_disk(filesystem="fuse.sshfs", source="host:"), "filesystem", "warning", "fuse.sshfs", mends="cp -r ")
        self.finds_on(self.on_disk(filesystem="squashfs", source="/dev/loop0"), "filesystem", "note", "compressed")

    def test_a_filesystem_that_refuses_direct_reads_is_found(self):
        memory = self.mounted("mount -t ramfs none PLACE")
        self.finds_on(memory, "direct-io", "note", "on ramfs refuses it")
        self.finds_on(memory, "direct-io", "problem", ("on ramfs refuses it", "--direct asks for it"), "--direct", mends="cp -r ")
        folder = self.folder_on_a_disk()
        try:
            os.close(os.open(self.dataset(folder=folder) / ARRAY, os.O_RDONLY | os.O_DIRECT))
        except OSError:
            return
        self.assertEqual(self.examine(folder / "arrays of mine")["direct-io"]["status"], "ok")

    def test_disks_of_other_kinds_are_told_apart(self):
        hard_disk = self.on_disk(queue={"rotational": "1\n", "scheduler": "none [bfq]\n"})
        checks = self.finds_on(hard_disk, "disk-type", "note", "sdx is a hard disk", mends="dsanalyze dataset convert ")
        self.assertEqual(checks["disk-scheduler"]["status"], "ok")
        self.finds_on(self.on_disk("zram0", source="/dev/zram0"), "disk-type", "problem", "zram0 is memory", mends="cp -r ")
        loop = self.on_disk("loop0", source="/dev/loop0", queue={"rotational": "1\n", "../loop/backing_file": "/srv/data.img\n"})
        checks = self.finds_on(loop, "disk-type", "problem", ("loop0 reads from the file /srv/data.img", "nothing proves"), mends="cp -r ")
        self.assertIn("unproved", checks["filesystem"]["found"])
        self.finds_on(self.on_disk("vda", source="/dev/vda"), "disk-type", "note", "vda is a virtual disk")
        data, prefix = self.on_disk()
        self.assertEqual(self.examine(data, prefix=prefix)["disk-type"]["status"], "ok")

    def test_a_scheduler_for_heads_and_a_small_read_ahead_are_found(self):
        in_order = ("--order", "sequential")
        slow = self.on_disk(queue={"scheduler": "none mq-deadline [bfq]\n", "read_ahead_kb": "16\n"})
        checks = self.finds_on(slow, "disk-scheduler", "warning", "bfq on sdx", *in_order, mends="/sys/block/sdx/queue/scheduler")
        self.assert_found(checks, "read-ahead", "warning", "16 KiB on sdx", "/sys/block/sdx/queue/read_ahead_kb")
        usual = self.examine(self.dataset("data"), *in_order, prefix=self.on_disk()[1])
        self.assertEqual((usual["disk-scheduler"]["status"], usual["read-ahead"]["status"]), ("ok", "ok"))

    def test_strict_access_times_are_found(self):
        self.finds_on(self.mounted("mount -t tmpfs -o strictatime none PLACE"), "access-time", "warning", "strict access times", mends="remount,noatime")
        self.lacks_on(self.mounted("mount -t tmpfs -o noatime none PLACE"), "access-time")

    def test_a_folder_for_results_that_is_small_read_only_anothers_or_not_named_is_found(self):
        place = self.folder / "results"
        place.mkdir()
        self.environment["XDG_STATE_HOME"] = str(place)
        mounted = lambda options: self.in_mount_namespace(f"mount -t tmpfs -o {options} none '{place}'")
        for options, says in (("size=1m", "1 MiB free for "), ("size=200m,ro", "cannot be written to")):
            with self.subTest(options):
                self.finds("state-space", "warning", says, prefix=mounted(options), mends="export XDG_STATE_HOME=")
        self.assert_not_found(self.examine(prefix=mounted("size=200m")), "state-space")
        with self.subTest("named by no variable"):
            for name in ("XDG_STATE_HOME", "HOME"):
                del self.environment[name]
            self.finds("state-space", "warning", "neither XDG_STATE_HOME nor HOME", mends="export XDG_STATE_HOME=")
        with self.subTest("another's"):
            self.environment["XDG_STATE_HOME"] = str(place)
            self.finds("state-space", "warning", "cannot be written to", mends="export XDG_STATE_HOME=", **self.as_other_user())

    def test_a_page_that_another_program_keeps_is_found(self):
        data = self.dataset(folder=self.folder_on_a_disk())
        self.assert_not_found(self.examine(data), "page-cache")
        with open(data / ARRAY, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages:
            self.assertEqual(pages[-1], 0)
            self.finds("page-cache", "warning", (ARRAY, "stayed although it was asked to be dropped"), data, mends="fuser -v ")

    def test_another_users_files_whose_pages_cannot_be_looked_at_are_found(self):
        folder = self.folder_on_a_disk()
        other = self.as_other_user()
        folder.chmod(0o755)
        data = self.dataset(folder=folder)
        self.finds("page-cache", "note", (ARRAY, "is another user's"), data, **other)
        os.chown(data / ARRAY, int(other["prefix"][1].rpartition("=")[2]), -1)
        self.assertEqual(self.examine(data, **other)["page-cache"]["status"], "ok")

    def test_a_security_profile_that_forbids_io_uring_is_found(self):
        data = self.dataset()
        self.assertIn("refused", self.examine(data, before=forbid_io_uring)["io-uring"]["found"])
        self.assertEqual(self.examine_both_ways(data, before=forbid_io_uring)["io-uring"]["status"], "note")
        self.assertEqual(self.examine_both_ways(data, "--io", "uring", before=forbid_io_uring)["io-uring"]["status"], "problem")
        self.assertNotIn("io-uring", self.examine(data, "--io", "pread", before=forbid_io_uring))


if __name__ == "__main__":
    unittest.main()
