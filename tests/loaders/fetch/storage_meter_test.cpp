#include "loaders/fetch/storage_meter.hpp"

#include <doctest/doctest.h>

#include <numeric>

#include "../../base/texts.hpp"
#include "fetch_engines.hpp"

namespace dsanalyze {
namespace {

using testing::TemporaryFolder;

/// A synthetic /proc and /sys.
class FakeSystem : public TemporaryFolder {
 public:
  explicit FakeSystem(const std::string& mount_line) {
    write("proc/self/mountinfo", "20 1 254:0 / / rw - ext4 /dev/vda rw\n" + mount_line + "\n");
    write("proc/self/io", "rchar: 5\nwchar: 6\nsyscr: 7\nsyscw: 8\nread_bytes: 4096\nwrite_bytes: 0\n");
  }
};

TEST_CASE("on a disk the process's own counter is used, with the block layer's beside it") {
  const FakeSystem system("30 20 254:16 / /data rw - xfs /dev/vdb rw");
  std::filesystem::create_directories(system.path() / "sys/dev/block");
  std::filesystem::create_directory_symlink("../../devices/vdb", system.path() / "sys/dev/block/254:16");
  system.write("sys/devices/vdb/stat", "10 0 2000 5 0 0 0 0 0 0 0");
  const StorageMeter meter("/data/images", system.path());
  CHECK(meter.filesystem() == "xfs");
  CHECK(meter.device() == "vdb");
  CHECK(meter.can_tell());
  CHECK(meter.process_bytes() == 4096);
  CHECK(meter.device_bytes() == 2000 * 512);
}

/// A synthetic ext4 on the disk 7:0, which is called `disk`.
class FakeDisk : public FakeSystem {
 public:
  explicit FakeDisk(const std::string& disk) : FakeSystem("30 20 7:0 / /data rw - ext4 /dev/" + disk + " rw") { link("sys/dev/block/7:0", disk); }
  void link(const std::filesystem::path& at, const std::string& disk) const {
    std::filesystem::create_directories((path() / at).parent_path());
    std::filesystem::create_directories(path() / "sys/block" / disk);
    std::filesystem::create_directory_symlink(path() / "sys/block" / disk, path() / at);
  }
  [[nodiscard]] StorageMeter meter() const { return StorageMeter("/data/images", path()); }
};

TEST_CASE("a disk that memory or a file is behind proves nothing, and says what is behind it") {
  CHECK(FakeDisk("sda").meter().can_tell());
  const FakeDisk loop("loop0");
  loop.write("sys/block/loop0/loop/backing_file", "/srv/data.img\n");
  CHECK_FALSE(loop.meter().can_tell());
  CHECK_FALSE(loop.meter().process_bytes().has_value());
  CHECK(testing::says(loop.meter().method(), "loop0 reads from the file /srv/data.img"));
  CHECK_FALSE(FakeDisk("zram0").meter().can_tell());
  CHECK_FALSE(FakeDisk("ram1").meter().can_tell());
}

TEST_CASE("a partition of a loop device, and a device on one, prove nothing either") {
  const FakeDisk partition("loop0/loop0p1");
  partition.write("sys/block/loop0/loop0p1/partition", "1");
  partition.write("sys/block/loop0/loop/backing_file", "/srv/data.img\n");
  CHECK(testing::says(partition.meter().memory_behind(), "loop0 reads from the file"));
  const FakeDisk mapped("dm-0");
  mapped.link("sys/block/dm-0/slaves/loop3", "loop3");
  CHECK(mapped.meter().can_tell());
  mapped.write("sys/block/loop3/loop/backing_file", "/srv/data.img\n");
  CHECK(testing::says(mapped.meter().memory_behind(), "dm-0 lies on loop3: loop3 reads from the file"));
}

TEST_CASE("on NFS the mount's server counter is used") {
  const FakeSystem system("30 20 0:50 / /mnt/my\\040data rw - nfs4 filer:/export rw");
  system.write("proc/self/mountstats",
               "device /dev/vda mounted on / with fstype ext4\n"
               "device filer:/export mounted on /mnt/my data with fstype nfs4 statvers=1.1\n"
               "\tbytes:\t1 2 3 4 987654 6 7 8\n");
  const StorageMeter meter("/mnt/my data/images", system.path());
  CHECK(meter.can_tell());
  CHECK(meter.process_bytes() == 987654);
  CHECK(meter.device() == "filer:/export");
}

TEST_CASE("where the filesystem counts nothing, the meter says why instead of guessing") {
  const FakeSystem system("30 20 0:51 / /mnt/s3 rw - fuse.s3fs s3fs rw");
  const StorageMeter meter("/mnt/s3/images", system.path());
  CHECK_FALSE(meter.can_tell());
  CHECK_FALSE(meter.process_bytes().has_value());
  CHECK(testing::says(meter.method(), "fuse.s3fs"));
  const FakeSystem nfs("30 20 0:50 / /mnt/x rw - nfs filer:/x rw");
  CHECK_FALSE(StorageMeter("/mnt/x", nfs.path()).can_tell());
}

TEST_CASE("a counter that stands still while files are read cold is not believed, one that counts them is") {
  testing::FileDataset data;
  for (int file = 0; file < 20; ++file) data.add(std::to_string(file), testing::content_of(20'000, static_cast<std::size_t>(file)));
  const auto index = data.index();
  const FakeSystem gpfs("30 20 0:52 / /data rw - otherfs fs1 rw");
  const StorageMeter still("/data/images", gpfs.path());
  std::vector<std::uint32_t> files(index->file_count());
  std::iota(files.begin(), files.end(), 0U);
  const MeterTrial trial = try_meter(still, *index, files, {});
  CHECK(trial.read == 8 * 20'000);
  CHECK(trial.counted == 0);
  CHECK_FALSE(trial.moved());
  const StorageMeter real(index->facts().root);
  drop_from_page_cache(*index, {});
  if (page_cache_residency(*index, 20).fraction() > 0.5 || !real.can_tell()) return;  // files in memory are not read from storage
  MeterTrial seen = try_meter(real, *index, files, {});
  // On a busy machine the kernel may keep pages that were just written for a moment.
  for (int again = 0; again < 5 && !seen.pages_tell(); ++again) seen = try_meter(real, *index, files, {});
  CHECK(seen.moved());
  CHECK(seen.pages_tell());
}

TEST_CASE("a client's counters of Lustre and Ceph are read, and are of all its processes") {
  const FakeSystem lustre("30 20 0:53 / /lus rw - lustre 10.0.0.1@tcp:/lus rw");
  CHECK_FALSE(StorageMeter("/lus/x", lustre.path()).can_tell());
  lustre.write("proc/fs/lustre/osc/lus-OST0000/stats", "snapshot_time 1 secs.nsecs\nread_bytes 12 samples [bytes] 4096 1048576 5000000\n");
  lustre.write("proc/fs/lustre/osc/lus-OST0001/stats", "write_bytes 1 samples [bytes] 1 1 1\nread_bytes 3 samples [bytes] 4096 4096 12288 99\n");
  const StorageMeter osc("/lus/x", lustre.path());
  CHECK(osc.scope() == StorageMeter::Scope::client);
  CHECK(osc.process_bytes() == 5'012'288);
  const FakeSystem ceph("30 20 0:54 / /cephfs rw - ceph 10.0.0.2:/ rw");
  CHECK_FALSE(StorageMeter("/cephfs", ceph.path()).can_tell());
  ceph.write("sys/kernel/debug/ceph/abc.client123/metrics/size",
             "item          total       avg_sz(bytes)   min_sz(bytes)   max_sz(bytes)  total_sz(bytes)\n-----\n"
             "read          3           8192            4096            16384           24576\nwrite         1           5               5           "
             "    5               5\n");
  const StorageMeter client("/cephfs", ceph.path());
  CHECK(client.scope() == StorageMeter::Scope::client);
  CHECK(client.process_bytes() == 24576);
  CHECK(StorageMeter::scope_on("xfs") == StorageMeter::Scope::process);
  CHECK(StorageMeter::scope_on("beegfs") == StorageMeter::Scope::none);
}

TEST_CASE("a name that only begins like a mount point is not below it") {
  const FakeSystem system("30 20 0:51 / /mnt/s3 rw - fuse.s3fs s3fs rw");
  CHECK(StorageMeter("/mnt/s3-local/images", system.path()).filesystem() == "ext4");
}

}  // namespace
}  // namespace dsanalyze
