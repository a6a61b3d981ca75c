#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/system/files.hpp"
#include "storage_meter.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t most_tried = 8;
constexpr std::size_t most_tried_bytes = std::size_t{64} << 10;

/// Whether the file's first page lies in memory; nothing where the filesystem does not tell.
std::optional<bool> begins_in_memory(int file) {
  char byte = 0;
  const iovec vector{&byte, 1};
  const ssize_t got = preadv2(file, &vector, 1, 0, RWF_NOWAIT);
  if (got < 0 && errno != EAGAIN) return std::nullopt;
  return got == 1;
}

/// Reads the file's beginning, cold as far as the kernel lets go of its pages.
void read_cold(const std::filesystem::path& path, std::vector<std::byte>& buffer, MeterTrial& trial) {
  const FileDescriptor file = open_file(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (!file.valid()) return;
  fdatasync(file.get());  // dirty pages are not dropped
  posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  posix_fadvise(file.get(), 0, 0, POSIX_FADV_RANDOM);
  ++trial.files;
  const auto before = begins_in_memory(file.get());
  Bytes done = 0;
  while (done < buffer.size()) {
    const ssize_t got = pread(file.get(), buffer.data() + done, buffer.size() - done, static_cast<off_t>(done));
    if (got <= 0) break;
    done += static_cast<Bytes>(got);
  }
  if (before == false && begins_in_memory(file.get()) == true) ++trial.files_seen;
  posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  trial.read += done;
}

}  // namespace

MeterTrial try_meter(const StorageMeter& meter, const DatasetIndex& index, std::span<const std::uint32_t> files, const std::stop_token& stop) {
  MeterTrial trial;
  const auto before = meter.process_bytes();
  std::vector<std::byte> buffer(most_tried_bytes);
  const std::size_t tried = std::min(files.size(), most_tried);
  for (std::size_t i = 0; i < tried && !stop.stop_requested(); ++i) {
    read_cold(std::filesystem::path(index.facts().root) / index.file_path(files[i * files.size() / tried]), buffer, trial);
  }
  const auto after = meter.process_bytes();
  if (before && after) trial.counted = *after - *before;
  return trial;
}

}  // namespace dsanalyze
