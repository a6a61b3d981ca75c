#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "dsanalyze/base/files.hpp"
#include "dsanalyze/loaders/storage_meter.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint32_t most_tried = 8;
constexpr std::size_t most_tried_bytes = std::size_t{64} << 10;

/// Bytes read from the file's beginning, cold as far as the kernel lets go of its pages.
Bytes read_cold(const std::filesystem::path& path, std::vector<std::byte>& buffer) {
  const FileDescriptor file = open_file(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (!file.valid()) return 0;
  fdatasync(file.get());  // dirty pages are not dropped
  posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  posix_fadvise(file.get(), 0, 0, POSIX_FADV_RANDOM);
  Bytes done = 0;
  while (done < buffer.size()) {
    const ssize_t got = pread(file.get(), buffer.data() + done, buffer.size() - done, static_cast<off_t>(done));
    if (got <= 0) break;
    done += static_cast<Bytes>(got);
  }
  posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  return done;
}

}  // namespace

MeterTrial try_meter(const StorageMeter& meter, const DatasetIndex& index, const std::stop_token& stop) {
  MeterTrial trial;
  const auto before = meter.process_bytes();
  std::vector<std::byte> buffer(most_tried_bytes);
  const std::uint32_t files = std::min(index.file_count(), most_tried);
  for (std::uint32_t i = 0; i < files && !stop.stop_requested(); ++i) {
    const auto file = static_cast<std::uint32_t>(std::uint64_t{i} * index.file_count() / files);
    trial.read += read_cold(std::filesystem::path(index.facts().root) / index.file_path(file), buffer);
  }
  const auto after = meter.process_bytes();
  if (before && after) trial.counted = *after - *before;
  return trial;
}

}  // namespace dsanalyze
