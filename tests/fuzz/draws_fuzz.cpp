#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/dependent/draw_replay.hpp"
#include "core/trace/draw_trace.hpp"
#include "fuzz.hpp"

namespace dsanalyze::fuzz {
namespace {

constexpr std::size_t trailer_bytes = 24;
constexpr std::size_t record_bytes = 16;
constexpr std::size_t header_bytes = 112;
constexpr std::uint32_t most_samples = 1 << 16;  ///< larger datasets are refused for their memory, by the program
const std::string name = "input.draws";

FileDescriptor file_of(std::span<const std::byte> bytes) {
  FileDescriptor file(::memfd_create("draws", MFD_CLOEXEC));
  require(file.valid() && ::write(file.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "memory for the input");
  return file;
}

/// With the end that belongs to the bytes before it, so that a mutation anywhere is not refused for that alone.
std::vector<std::byte> with_right_end(std::span<const std::byte> bytes) {
  std::vector<std::byte> fixed(bytes.begin(), bytes.end());
  if (fixed.size() < header_bytes + trailer_bytes) return fixed;
  const std::uint64_t records = (fixed.size() - header_bytes - trailer_bytes) / record_bytes;
  const std::size_t end = header_bytes + records * record_bytes;
  fixed.resize(end + trailer_bytes);
  const std::uint64_t checksum = XXH3_64bits(fixed.data(), end);
  std::memcpy(fixed.data() + end, "dsatrend", 8);
  std::memcpy(fixed.data() + end + 8, &records, 8);
  std::memcpy(fixed.data() + end + 16, &checksum, 8);
  return fixed;
}

bool read_draws(std::span<const std::byte> bytes) {
  return accepts([&] {
    DrawTraceReader reader(file_of(bytes), name);
    const DrawTraceHeader header = reader.header();
    require(header.samples > 0 && header.store_places <= header.samples && header.place_bytes > 0, "a header is of a group that can be");
    if (header.samples > most_samples) return;
    const std::vector<DrawReplay::Case> stores{{0, StagingPolicy::refcnt}, {7, StagingPolicy::lru}, {header.samples, StagingPolicy::refcnt}};
    DrawReplay replay(header.samples, stores);
    reader.replay(replay);
    std::uint64_t drawn = 0;
    for (const std::uint64_t each : replay.drawn_by()) drawn += each;
    require(drawn == replay.drawn(), "each sample is drawn by a job");
    require(replay.counts()[0].from_store == 0, "a store without room gives nothing");
    for (const DrawReplay::Counts& counts : replay.counts())
      require(counts.prepared + counts.from_store <= drawn, "what is drawn is prepared, for one job or several, or comes from the store");
  });
}

}  // namespace
}  // namespace dsanalyze::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dsanalyze::fuzz;
  const auto bytes = bytes_of(data, size);
  const bool good = read_draws(bytes);
  const bool fixed_good = read_draws(with_right_end(bytes));
  require(fixed_good || !good, "a right end makes nothing worse");
  return 0;
}
