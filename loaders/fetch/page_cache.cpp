#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/system/files.hpp"
#include "kernel_reads.hpp"
#include "storage_meter.hpp"

namespace dsanalyze {
namespace {

FileDescriptor open_indexed(const DatasetIndex& index, std::uint32_t file) {
  const std::filesystem::path path = std::filesystem::path(index.facts().root) / index.file_path(file);
  return FileDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

/// The kernel answers mincore only for files one owns or may write (else it says "all resident").
bool may_ask_mincore(const struct stat& info, int descriptor) {
  return info.st_uid == geteuid() || geteuid() == 0 || faccessat(descriptor, "", W_OK, AT_EMPTY_PATH | AT_EACCESS) == 0;
}

Bytes resident_by_mincore(int descriptor, std::size_t size) {
  void* map = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (map == MAP_FAILED) return 0;
  std::vector<unsigned char> pages((size + page_bytes - 1) / page_bytes);
  Bytes resident = 0;
  if (mincore(map, size, pages.data()) == 0) {
    resident = static_cast<Bytes>(std::ranges::count_if(pages, [](unsigned char page) { return (page & 1U) != 0; })) * page_bytes;
  }
  munmap(map, size);
  return std::min<Bytes>(resident, size);
}

/// One byte of the first, middle and last page, read only if that needs no wait. A refusal makes the kernel begin to read the page nonetheless (one
/// page alone with RANDOM), so what is looked at would not stay cold: wait for those pages, which cannot be dropped earlier, and drop them.
Bytes resident_by_nowait(int descriptor, std::size_t size) {
  posix_fadvise(descriptor, 0, 0, POSIX_FADV_RANDOM);
  char byte = 0;
  const iovec vector{&byte, 1};
  std::vector<off_t> absent;
  for (const std::size_t offset : {std::size_t{0}, size / 2, size - 1}) {
    if (preadv2(descriptor, &vector, 1, static_cast<off_t>(offset), RWF_NOWAIT) != 1) absent.push_back(static_cast<off_t>(offset));
  }
  for (const off_t offset : absent) {
    constexpr auto page = static_cast<off_t>(page_bytes);
    if (pread(descriptor, &byte, 1, offset) == 1) posix_fadvise(descriptor, offset / page * page, page, POSIX_FADV_DONTNEED);
  }
  return size * static_cast<Bytes>(3 - absent.size()) / 3;
}

}  // namespace

Residency page_cache_residency(const DatasetIndex& index, std::uint32_t most_files) {
  Residency residency;
  const std::uint32_t files = index.file_count();
  const std::uint32_t looks = std::min(files, most_files);
  for (std::uint32_t i = 0; i < looks; ++i) {
    const auto file = static_cast<std::uint32_t>(std::uint64_t{i} * files / looks);
    const FileDescriptor descriptor = open_indexed(index, file);
    struct stat info {};
    if (!descriptor.valid() || fstat(descriptor.get(), &info) != 0 || info.st_size <= 0) continue;
    const auto size = static_cast<std::size_t>(info.st_size);
    residency.looked_at += size;
    residency.resident +=
        may_ask_mincore(info, descriptor.get()) ? resident_by_mincore(descriptor.get(), size) : resident_by_nowait(descriptor.get(), size);
  }
  return residency;
}

std::uint32_t drop_from_page_cache(const DatasetIndex& index, const std::stop_token& stop) {
  std::uint32_t unopened = 0;
  for (std::uint32_t file = 0; file < index.file_count() && !stop.stop_requested(); ++file) {
    const FileDescriptor descriptor = open_indexed(index, file);
    if (!descriptor.valid()) {
      ++unopened;
      continue;
    }
    // DONTNEED skips dirty pages. They need not be safe on the disk, only clean: syncing flushes the device's cache for every file.
    if (sync_file_range(descriptor.get(), 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER) != 0) {
      fdatasync(descriptor.get());
    }
    posix_fadvise(descriptor.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
  return unopened;
}

}  // namespace dsanalyze
