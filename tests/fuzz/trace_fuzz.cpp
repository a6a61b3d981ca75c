#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/trace/access_trace.hpp"
#include "fuzz.hpp"

namespace dsanalyze::fuzz {
namespace {

constexpr std::size_t trailer_bytes = 24;
constexpr std::size_t record_bytes = 16;
constexpr std::size_t header_bytes = 128;
const std::string name = "input.trace";

FileDescriptor file_of(std::span<const std::byte> bytes) {
  FileDescriptor file(::memfd_create("trace", MFD_CLOEXEC));
  require(file.valid() && ::write(file.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "memory for the input");
  return file;
}

/// With the end that belongs to the bytes before it, so that a mutation anywhere is not refused for that alone.
std::vector<std::byte> with_right_end(std::span<const std::byte> bytes) {
  std::vector<std::byte> mended(bytes.begin(), bytes.end());
  if (mended.size() < header_bytes + trailer_bytes) return mended;
  const std::uint64_t records = (mended.size() - header_bytes - trailer_bytes) / record_bytes;
  const std::size_t end = header_bytes + records * record_bytes;
  mended.resize(end + trailer_bytes);
  const std::uint64_t checksum = XXH3_64bits(mended.data(), end);
  std::memcpy(mended.data() + end, "dsatrend", 8);
  std::memcpy(mended.data() + end + 8, &records, 8);
  std::memcpy(mended.data() + end + 16, &checksum, 8);
  return mended;
}

/// What a pass gives; nothing when the trace is refused.
struct Pass {
  bool whole = false;
  std::uint64_t accesses = 0;
  Bytes bytes = 0;
  bool operator==(const Pass&) const = default;
};

Pass pass_over(AccessTraceReader& reader) {
  Pass pass;
  std::vector<std::uint32_t> epochs(reader.jobs());
  const bool whole = accepts([&] {
    AccessBlock block;
    while (reader.next(block)) {
      require(!block.accesses.empty() && block.epoch_of_job.size() == reader.jobs(), "a block has accesses, and each job an epoch");
      require(reader.decisions().size() == block.accesses.size(), "each access has its decision");
      for (const CacheAccess& access : block.accesses) {
        require(access.key < reader.key_count() && access.job < reader.jobs(), "an access is of a sample and a job that there are");
        require(block.epoch_of_job[access.job] >= epochs[access.job], "a job's epochs rise");
        epochs[access.job] = block.epoch_of_job[access.job];
        pass.bytes += access.bytes;
      }
      pass.accesses += block.accesses.size();
    }
  });
  pass.whole = whole;
  return pass;
}

bool read_trace(std::span<const std::byte> bytes) {
  bool whole = false;
  const bool opened = accepts([&] {
    AccessTraceReader reader(file_of(bytes), name);
    const Pass first = pass_over(reader);
    reader.rewind();
    require(pass_over(reader) == first, "a second pass gives what the first gave");
    require(!first.whole || first.accesses == reader.accesses(), "a whole pass gives every access");
    whole = first.whole;
    if (whole) {
      AccessTraceReader again(file_of(bytes), name);
      const CaseCounts counts = recorded_counts(again);
      std::uint64_t accesses = 0;
      for (const EpochCounts& epoch : counts.epochs) accesses += epoch.counts.accesses;
      require(accesses == first.accesses, "what is counted is what is there");
    }
  });
  return opened && whole;
}

}  // namespace
}  // namespace dsanalyze::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dsanalyze::fuzz;
  const auto bytes = bytes_of(data, size);
  const bool good = read_trace(bytes);
  const bool mended_good = read_trace(with_right_end(bytes));
  require(mended_good || !good, "a right end makes nothing worse");
  return 0;
}
