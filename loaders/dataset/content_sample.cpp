#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include "base/error.hpp"
#include "base/random.hpp"
#include "dataset.hpp"
#include "sample_bytes.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint32_t most_drawn = 64;
constexpr std::uint64_t most_of_each = std::uint64_t{128} << 10;

std::vector<SampleId> draw_samples(std::uint32_t of, RandomStream& random) {
  std::vector<SampleId> all(std::min(of, most_drawn));
  std::iota(all.begin(), all.end(), SampleId{0});
  if (of <= most_drawn) return all;
  std::set<SampleId> drawn;
  while (drawn.size() < most_drawn) drawn.insert(static_cast<SampleId>(random.below(of)));
  return {drawn.begin(), drawn.end()};
}

class ContentHash {
 public:
  ContentHash() : m_state(XXH3_createState(), &XXH3_freeState) { XXH3_128bits_reset(m_state.get()); }
  void add(std::uint64_t number) { XXH3_128bits_update(m_state.get(), &number, sizeof number); }
  void add(const std::vector<std::byte>& bytes) { XXH3_128bits_update(m_state.get(), bytes.data(), bytes.size()); }
  [[nodiscard]] std::string text() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(m_state.get());
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

 private:
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> m_state;
};

}  // namespace

std::optional<ContentSample> sample_contents(const DatasetIndex& index, std::uint64_t seed, const std::stop_token& stop) {
  if (index.facts().format == "emulated" || index.size() == 0) return std::nullopt;
  const std::string& names = index.facts().digest;
  RandomStream random(mix(seed, XXH3_64bits(names.data(), names.size())));
  const std::vector<SampleId> drawn = draw_samples(index.size(), random);
  ContentSample contents{"", static_cast<std::uint32_t>(drawn.size()), 0};
  ContentHash hash;
  std::vector<std::byte> bytes;
  for (const SampleId sample : drawn) {
    if (stop.stop_requested()) throw Interrupted();
    const std::uint64_t length = index[sample].length;
    const std::uint64_t count = std::min(length, most_of_each);
    const SamplePart part{count < length ? random.below(length - count + 1) : 0, count};
    const std::string cause = read_sample_part(index, sample, part, bytes);
    hash.add(sample);
    hash.add(part.first);
    hash.add(cause.empty() ? count : UINT64_MAX);
    if (cause.empty()) {
      hash.add(bytes);
    } else if (contents.unreadable++ == 0) {
      contents.first_unreadable = fmt::format("{}: {}", sample_name(index, sample), cause);
    }
  }
  if (contents.unreadable == contents.samples) {
    throw Error(fmt::format("no sample of the dataset {} can be read: {}", index.facts().root, contents.first_unreadable));
  }
  contents.digest = hash.text();
  return contents;
}

}  // namespace dsanalyze
