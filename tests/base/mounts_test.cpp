#include "base/host/mounts.hpp"

#include <doctest/doctest.h>

#include "temporary_folder.hpp"

using namespace dsanalyze;
using testing::TemporaryFolder;

TEST_CASE("the innermost mount holds a path, and of several on one point the last") {
  const TemporaryFolder folder;
  folder.write("proc/self/mountinfo",
               "24 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n"
               "25 24 8:2 /sub /data rw - xfs /dev/sda2 rw\n"
               "26 24 0:40 / /data rw,noatime - tmpfs tmpfs rw\n"
               "not a mount\n"
               "27 24 0:41 / /with\\040blank ro - nfs4 server:/a\\040b rw\n");
  CHECK(read_mounts(folder.path()).size() == 4);
  CHECK(mount_of("/data/x", folder.path())->filesystem == "tmpfs");
  CHECK(mount_of("/data/x", folder.path())->options == "rw,noatime");
  CHECK(mount_of("/database", folder.path())->filesystem == "ext4");
  CHECK(mount_of("/", folder.path())->filesystem_options == "rw,errors=remount-ro");
  CHECK(mount_of("/with blank", folder.path())->source == "server:/a b");
}

TEST_CASE("no table of mounts is no mount") {
  const TemporaryFolder folder;
  CHECK_FALSE(mount_of("/x", folder.path()).has_value());
}

TEST_CASE("only three octal digits are an escape") {
  CHECK(without_octal_escapes("a\\040b\\") == "a b\\");
  CHECK(without_octal_escapes("\\9990\\04") == "\\9990\\04");
}
