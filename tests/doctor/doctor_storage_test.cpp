#include "made_up_machine.hpp"

#include <cerrno>

using namespace dsanalyze;
using testing::MadeUpMachine;
using testing::mends_by;
using enum DoctorStatus;
using enum DoctorCommand::Where;

TEST_CASE("a machine without faults has no finding, and without a dataset nothing is asked of a disk") {
  MadeUpMachine machine;
  for (const DoctorCheck& check : machine.examined().checks) CHECK_MESSAGE(check.status == ok, check.code, ": ", check.found);
  CHECK(doctor_findings(machine.examined()).empty());
  machine.inputs.index.reset();
  for (const DoctorCheck& check : machine.examined().checks) CHECK_MESSAGE((check.group != "storage" || check.code == "state-space"), check.code);
  CHECK(machine.examined().dataset.empty());
}

TEST_CASE("emulated storage needs no disk, so no disk is looked at") {
  MadeUpMachine machine;
  machine.inputs.settings.storage = Seam::emulated;
  for (const char* const code : {"filesystem", "disk-type", "direct-io", "page-cache", "open-files", "io-uring", "dataset-access"})
    CHECK_FALSE(machine.matters(code));
}

TEST_CASE("a dataset in memory is a problem; across a network, in an image or served by a program a warning; ext4 is fine") {
  MadeUpMachine machine;
  CHECK(machine.status("filesystem") == ok);
  CHECK(machine.matters("page-cache"));
  machine.mount_data("tmpfs", "tmpfs");
  CHECK(machine.status("filesystem") == problem);
  CHECK_FALSE(machine.matters("page-cache"));
  for (const char* const type : {"nfs4", "cifs", "fuse.sshfs", "9p", "overlay", "zfs"}) {
    machine.mount_data(type, "somewhere");
    CHECK_MESSAGE(machine.status("filesystem") == warning, type);
  }
  machine.mount_data("squashfs", "/dev/loop0");
  CHECK(machine.status("filesystem") == note);
  machine.mount_data("xfs", "/dev/sda1");
  CHECK(machine.status("filesystem") == ok);
}

TEST_CASE("in a container an image's layers are left by a volume") {
  MadeUpMachine machine;
  machine.mount_data("overlay", "overlay");
  CHECK(machine.check("filesystem").commands.front().command.starts_with("cp -r "));
  machine.write(".dockerenv", "");
  CHECK(machine.check("filesystem").commands.front().where == launch);
  CHECK(machine.check("filesystem").commands.front().command.starts_with("docker run -v /DATA/ON/HOST:"));
  machine.write("var/run/secrets/kubernetes.io/serviceaccount/token", "");
  CHECK(machine.check("filesystem").commands.front().command.find("mountPath: \"/") != std::string::npos);
}

TEST_CASE("what is mounted may be called anything: it is quoted for the shell, and shown without control characters") {
  MadeUpMachine machine;
  machine.mount_data("zfs", "pool/a\\040b;reboot");
  CHECK(mends_by(machine.check("filesystem"), here, "sudo zfs set primarycache=metadata 'pool/a b;reboot'"));
  machine.mount_data("nfs", "evil\\033[2J");
  CHECK(machine.check("filesystem").found.find("\\x1b[2J") != std::string::npos);
}

TEST_CASE("no mount of the folder is unknown, not fine") {
  MadeUpMachine machine;
  machine.write("proc/self/mountinfo", "");
  CHECK(machine.status("filesystem") == unknown);
}

TEST_CASE("hard disks and virtual disks are notes, a disk in memory a problem, no disk unknown") {
  MadeUpMachine machine;
  CHECK(machine.status("disk-type") == ok);
  machine.write("sys/block/nvme0n1/queue/rotational", "1\n");
  CHECK(machine.status("disk-type") == note);
  CHECK(machine.check("disk-type").found.find("nvme0n1p1 of nvme0n1 is a hard disk") != std::string::npos);
  CHECK(machine.check("disk-type").commands.front().command.ends_with(" SHARDS --to tar"));
  machine.write("sys/block/nvme0n1/device/model", "Amazon Elastic Block Store\n");
  CHECK(machine.check("disk-type").found.find("virtual disk") != std::string::npos);
  machine.link("sys/dev/block/252:0", "../../devices/virtual/block/zram0");
  machine.system.number = "252:0";
  CHECK(machine.status("disk-type") == problem);
  machine.system.number = "0:99";
  machine.mount_data("ext4", "nowhere");
  CHECK(machine.status("disk-type") == unknown);
}

TEST_CASE("a filesystem with a device number of its own is followed to the device that it names") {
  MadeUpMachine machine;
  machine.system.number = "0:42";
  machine.mount_data("btrfs", "/dev/nvme0n1p1");
  machine.link("sys/class/block/nvme0n1p1", "../../devices/pci0/nvme0n1/nvme0n1p1");
  CHECK(machine.check("disk-type").found.find("nvme0n1p1 of nvme0n1") != std::string::npos);
}

TEST_CASE("a scheduler for heads is a warning on a disk that has none") {
  MadeUpMachine machine;
  CHECK(machine.status("disk-scheduler") == ok);
  machine.write("sys/block/nvme0n1/queue/scheduler", "none [bfq]\n");
  CHECK(machine.status("disk-scheduler") == warning);
  CHECK(mends_by(machine.check("disk-scheduler"), here, "echo none | sudo tee /sys/block/nvme0n1/queue/scheduler"));
  machine.write(".dockerenv", "");
  CHECK(mends_by(machine.check("disk-scheduler"), host, "echo none | sudo tee /sys/block/nvme0n1/queue/scheduler"));
  machine.write("sys/block/nvme0n1/queue/rotational", "1\n");
  CHECK(machine.status("disk-scheduler") == ok);
  machine.remove("sys/block/nvme0n1/queue/scheduler");
  CHECK(machine.status("disk-scheduler") == unknown);
}

TEST_CASE("read-ahead matters for buffered reads in file order") {
  MadeUpMachine machine;
  machine.write("sys/block/nvme0n1/queue/read_ahead_kb", "16\n");
  CHECK_FALSE(machine.matters("read-ahead"));
  machine.inputs.settings.order = OrderKind::sequential;
  CHECK(machine.status("read-ahead") == warning);
  machine.write("sys/block/nvme0n1/queue/read_ahead_kb", "128\n");
  CHECK(machine.status("read-ahead") == ok);
  machine.inputs.settings.read_mode = ReadMode::direct;
  CHECK_FALSE(machine.matters("read-ahead"));
}

TEST_CASE("strict access times are a warning") {
  MadeUpMachine machine;
  CHECK(machine.status("access-time") == ok);
  machine.mount_data("ext4", "/dev/sda1", "rw,noatime");
  CHECK(machine.status("access-time") == ok);
  machine.mount_data("ext4", "/dev/sda1", "rw,nosuid");
  CHECK(machine.status("access-time") == warning);
}

TEST_CASE("no room, or no right, where profiles are saved is a warning") {
  MadeUpMachine machine;
  CHECK(machine.status("state-space") == ok);
  machine.system.free.free = Bytes{63} << 20;
  CHECK(machine.status("state-space") == warning);
  machine.system.free = {Bytes{1} << 40, false};
  CHECK(machine.status("state-space") == warning);
  machine.system.free = {Bytes{1} << 40, true};
  machine.inputs.state_directory.clear();
  CHECK(machine.status("state-space") == warning);
}

TEST_CASE("files that cannot be read are a problem, and the first is named with the reason") {
  MadeUpMachine machine;
  CHECK(machine.status("dataset-access") == ok);
  machine.system.access = {false, EACCES};
  CHECK(machine.status("dataset-access") == problem);
  CHECK(machine.check("dataset-access").found.find("a.jpg: Permission denied") != std::string::npos);
}

TEST_CASE("io_uring that is refused is a note, a problem where it was asked for, and no matter where threads were") {
  MadeUpMachine machine;
  CHECK(machine.status("io-uring") == ok);
  machine.system.uring = {false, "a security profile forbids it"};
  CHECK(machine.status("io-uring") == note);
  CHECK(machine.check("io-uring").commands.empty());
  CHECK(machine.check("io-uring").fix.ends_with('.'));
  machine.inputs.settings.io = IoEngine::uring;
  CHECK(machine.status("io-uring") == problem);
  machine.write(".dockerenv", "");
  CHECK(mends_by(machine.check("io-uring"), launch, "docker run --security-opt seccomp=unconfined IMAGE"));
  machine.write("proc/sys/kernel/io_uring_disabled", "2\n");
  CHECK(mends_by(machine.check("io-uring"), host, "sudo sysctl kernel.io_uring_disabled=0"));
  machine.inputs.settings.io = IoEngine::pread;
  CHECK_FALSE(machine.matters("io-uring"));
}

TEST_CASE("direct I/O that a filesystem refuses is a note, a problem with --direct; another failure is unknown") {
  MadeUpMachine machine;
  CHECK(machine.status("direct-io") == ok);
  machine.system.direct = {false, EINVAL};
  CHECK(machine.status("direct-io") == note);
  machine.inputs.settings.read_mode = ReadMode::direct;
  CHECK(machine.status("direct-io") == problem);
  CHECK(machine.check("direct-io").commands.front().command.ends_with(" /LOCAL/DISK"));
  machine.system.direct = {false, EIO};
  CHECK(machine.status("direct-io") == unknown);
  machine.inputs.settings.read_mode = ReadMode::buffered;
  machine.inputs.settings.cache = CacheKind::page;
  CHECK_FALSE(machine.matters("direct-io"));
}

TEST_CASE("a page that stays is a warning, another user's file a note, a failed try unknown") {
  MadeUpMachine machine;
  CHECK(machine.status("page-cache") == ok);
  machine.system.drop = {false, 0};
  CHECK(machine.status("page-cache") == warning);
  CHECK(machine.check("page-cache").commands.front().command.starts_with("fuser -v "));
  machine.mount_data("overlay", "overlay");
  CHECK(machine.check("page-cache").commands.front().command.starts_with("cp -r "));
  machine.system.drop = {false, EACCES};
  CHECK(machine.status("page-cache") == note);
  machine.system.drop = {false, EIO};
  CHECK(machine.status("page-cache") == unknown);
}
