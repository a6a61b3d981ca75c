#include "attached_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "attached_reads.hpp"
#include "base/error.hpp"
#include "core/trace/access_trace.hpp"

namespace dsanalyze {
namespace {

constexpr Bytes block_bytes = Bytes{256} << 10;
constexpr Bytes whole_file_bytes = Bytes{1} << 20;  ///< up to here a file is one item, however it is read
constexpr double nearly_whole = 0.9;

/// What one reading of the data touched, item by item.
class Items {
 public:
  explicit Items(const LaunchedTraining& launched) : m_trace(*launched.accesses) {
    const AccessTrace& trace = m_trace;
    const FullAccesses counted(launched);
    for (const FileAccess& access : trace.accesses)
      if (reads_bytes(access.kind) && counted.holds(access)) m_requests.push_back(&access);
    std::map<std::pair<std::uint32_t, std::uint32_t>, Bytes> read_of_opening;
    for (const FileAccess* const access : m_requests) read_of_opening[{access->process, access->opening}] += access->bytes;
    std::map<std::uint32_t, Bytes> most_read;  // of a file by one opening
    for (const FileAccess* const access : m_requests) {
      Bytes& most = most_read[access->file];
      most = std::max(most, read_of_opening.at({access->process, access->opening}));
    }
    for (const auto& [file, most] : most_read) {
      const Bytes size = trace.files[file].bytes;
      m_in_blocks[file] = size > whole_file_bytes && static_cast<double>(most) < nearly_whole * static_cast<double>(size);
    }
    for (const FileAccess* const access : m_requests) add(*access);
  }

  [[nodiscard]] const std::vector<CacheAccess>& accesses() const { return m_accesses; }
  [[nodiscard]] Nanoseconds time_of(std::size_t access) const { return m_times[access]; }
  [[nodiscard]] std::uint64_t count() const { return m_numbers.size(); }
  [[nodiscard]] Bytes bytes() const { return m_bytes; }

 private:
  void add(const FileAccess& access) {
    const TracedFile& file = m_trace.files[access.file];
    if (!m_in_blocks.at(access.file)) return touch(access, 0, std::max<Bytes>(file.bytes, 1));
    const std::uint64_t last = (access.offset + access.bytes - 1) / block_bytes;
    for (std::uint64_t block = access.offset / block_bytes; block <= last; ++block) {
      const Bytes begin = block * block_bytes;
      touch(access, block, file.bytes > begin ? std::min(block_bytes, file.bytes - begin) : block_bytes);
    }
  }

  /// Requests of one opening that go on in the same item are one access.
  void touch(const FileAccess& access, std::uint64_t block, Bytes bytes) {
    const TracedFile& file = m_trace.files[access.file];
    const auto [item, is_new] = m_numbers.try_emplace({file.device, file.inode, block}, m_numbers.size(), bytes);
    if (is_new) m_bytes += bytes;
    const std::uint64_t number = item->second.first;
    const auto [last, first] = m_last_of_opening.try_emplace({access.process, access.opening}, number);
    if (!first && last->second == number) return;
    last->second = number;
    m_accesses.push_back({number, item->second.second, 0, 0});
    m_times.push_back(access.end);
  }

  const AccessTrace& m_trace;
  std::vector<const FileAccess*> m_requests;
  std::map<std::uint32_t, bool> m_in_blocks;  ///< by file
  std::map<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>, std::pair<std::uint64_t, Bytes>> m_numbers;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> m_last_of_opening;
  std::vector<CacheAccess> m_accesses;
  std::vector<Nanoseconds> m_times;  ///< of each
  Bytes m_bytes = 0;
};

/// The epoch of each access. Where ends of epochs were seen, they divide the accesses. Else an epoch is over when an item comes again after as many
/// accesses as half of the items: a sample whose file is opened twice begins none.
std::vector<std::uint64_t> epochs_of(const Items& items, const std::vector<Nanoseconds>& ends) {
  struct Last {
    std::uint64_t epoch = UINT64_MAX, access = 0;
  };
  std::vector<Last> last(items.count());
  std::vector<std::uint64_t> epochs;
  std::uint64_t epoch = 0;
  for (const CacheAccess& access : items.accesses()) {
    const std::uint64_t number = epochs.size();
    if (!ends.empty())
      epoch = static_cast<std::uint64_t>(std::ranges::lower_bound(ends, items.time_of(number)) - ends.begin());
    else if (last[access.key].epoch == epoch && 2 * (number - last[access.key].access) >= items.count() && items.count() > 1)
      ++epoch;
    last[access.key] = {epoch, number};
    epochs.push_back(epoch);
  }
  return epochs;
}

void write_epochs(const Items& items, const std::vector<Nanoseconds>& ends, AccessTraceWriter& writer) {
  constexpr CacheDecision nothing_kept = CacheDecision::bypass;
  const std::vector<std::uint64_t> epochs = epochs_of(items, ends);
  for (std::size_t at = 0; at < epochs.size(); ++at) writer.record({&items.accesses()[at], 1}, {&nothing_kept, 1}, epochs[at] - epochs.front());
}

/// Of the first rank, in the run full; in order.
std::vector<Nanoseconds> ends_of_epochs(const AttachedTraining& training) {
  std::vector<Nanoseconds> ends;
  const auto full = training.phases.find(AttachPhase::full);
  if (full == training.phases.end() || full->second.gaps.empty()) return ends;
  for (const EpochGap& gap : full->second.gaps.begin()->second) ends.push_back(gap.begin);
  std::ranges::sort(ends);
  return ends;
}

}  // namespace

void write_item_trace(const LaunchedTraining& launched, const std::filesystem::path& path, ProfileResult& result) {
  const auto not_written = [&](const std::string& reason) {
    result.findings.push_back({"trace-not-written", Finding::Severity::warning, fmt::format("no access trace was written: {}", reason)});
  };
  if (!launched.accesses) return not_written("what a training reads cannot be traced on this architecture");
  const Items items(launched);
  if (items.accesses().empty()) return not_written("the run full read no file by calls that the tracer saw");
  try {
    AccessTraceWriter writer(path, {items.count(), items.bytes(), "", 1, {ReplayPolicy::none, 0, 0}, {}});
    write_epochs(items, ends_of_epochs(launched.training), writer);
    writer.finish();
  } catch (const Error& error) {
    not_written(error.what());
  }
}

}  // namespace dsanalyze
