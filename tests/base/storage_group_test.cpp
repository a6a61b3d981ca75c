#include "base/host/control_group.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <optional>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/system/files.hpp"
#include "child_process.hpp"
#include "temporary_folder.hpp"

using namespace dsanalyze;
using testing::in_child;
using testing::TemporaryFolder;

namespace {

std::string refusal(const std::filesystem::path& path, const std::filesystem::path& root) {
  try {
    const StorageGroup group(path, 1e6, root);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("what lies on no disk cannot be limited, and neither can anything without the right to make a group") {
  const TemporaryFolder folder;
  folder.write("file", "x");
  CHECK(refusal(folder.path() / "file", folder.path()).find("lies on no disk") != std::string::npos);
  CHECK(refusal(folder.path() / "none", folder.path()).find("none") != std::string::npos);
}

TEST_CASE("the disk of a partition is the one that it is part of") {
  const TemporaryFolder folder;
  folder.write("file", "x");
  std::string number;
  try {
    number = disk_number_of(folder.path() / "file");
  } catch (const Error&) {
    MESSAGE("skipped: temporary files lie on no disk");
    return;
  }
  CHECK(std::filesystem::exists("/sys/dev/block/" + number + "/queue"));
}

TEST_CASE("reads in a limited group take the time that the limit gives them") {
  const TemporaryFolder folder;
  constexpr std::size_t file_bytes = std::size_t{8} << 20;
  folder.write("file", std::string(file_bytes, 'x'));
  const std::string path = (folder.path() / "file").string();
  constexpr int not_permitted = 77;
  const int status = in_child([&] {
    std::optional<StorageGroup> group;
    try {
      group.emplace(path, 16e6);
    } catch (const Error&) {
      return not_permitted;
    }
    const FileDescriptor file(::open(path.c_str(), O_RDONLY));
    ::fsync(file.get());
    ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
    std::vector<char> buffer(file_bytes);
    const Nanoseconds begun = system_timing().clock->now();
    if (::pread(file.get(), buffer.data(), buffer.size(), 0) <= 0) return 2;
    const double seconds = to_seconds(system_timing().clock->now() - begun);
    // Half a second by the limit; some hundredths without. Never sooner, whatever else the machine does.
    return seconds > 0.25 ? 0 : 3;
  });
  if (status == not_permitted) {
    MESSAGE("skipped: this process may not limit reads");
    return;
  }
  CHECK(status == 0);
}
