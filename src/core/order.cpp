#include "order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/text/enum_names.hpp"

namespace dsanalyze {
namespace {

// Keys that keep the streams apart; the augmentation has the same seed.
constexpr std::uint64_t order_key = 0x6f72646572;
constexpr std::uint64_t buffer_key = 0x627566666572;

/// A run of samples of one file: shards lie in the index one after another.
struct Shard {
  std::uint32_t first = 0;
  std::uint32_t end = 0;
};

std::vector<Shard> shards_of(std::span<const IndexRecord> records) {
  std::vector<Shard> shards;
  for (std::uint32_t i = 0; i < records.size(); ++i) {
    if (i == 0 || records[i].file != records[i - 1].file) shards.push_back({i, i});
    shards.back().end = i + 1;
  }
  return shards;
}

/// The node's readers take turns, a sample each, until all of their shards are read.
void read_shards(const OrderSpec& spec, std::uint64_t seed, std::uint64_t epoch, std::span<const IndexRecord> records, std::vector<SampleId>& out) {
  const std::vector<Shard> shards = shards_of(records);
  std::vector<std::uint32_t> shuffled(shards.size());
  random_permutation(mix(seed, epoch, order_key), shuffled);

  struct Reader {
    std::vector<Shard> shards;
    std::size_t shard = 0;
  };
  std::vector<Reader> readers(std::max(spec.readers, 1U));
  std::size_t dealt = 0;
  for (std::size_t i = spec.node; i < shuffled.size(); i += std::max(spec.nodes, 1U)) {
    readers[dealt++ % readers.size()].shards.push_back(shards[shuffled[i]]);
  }
  out.clear();
  for (bool any = true; any;) {
    any = false;
    for (Reader& reader : readers) {
      if (reader.shard == reader.shards.size()) continue;
      Shard& shard = reader.shards[reader.shard];
      out.push_back(shard.first++);
      if (shard.first == shard.end) ++reader.shard;
      any = true;
    }
  }
}

/// A buffer is filled from the front; each draw takes a random one of it, and the next sample its place.
void shuffle_through_buffer(std::uint64_t key, std::uint32_t buffer, std::span<const SampleId> in, std::vector<SampleId>& out) {
  RandomStream random(key);
  const std::size_t filled = std::min<std::size_t>(buffer, in.size());
  std::vector<SampleId> held(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(filled));
  out.clear();
  out.reserve(in.size());
  for (const SampleId next : in.subspan(filled)) {
    SampleId& drawn = held[random.below(held.size())];
    out.push_back(drawn);
    drawn = next;
  }
  for (; !held.empty(); held.pop_back()) {
    SampleId& drawn = held[random.below(held.size())];
    out.push_back(drawn);
    drawn = held.back();
  }
}

/// Distinct files among the samples of each batch, averaged over the batches.
double files_a_batch(std::span<const SampleId> training, std::span<const IndexRecord> records, std::uint32_t batch_size) {
  std::vector<std::uint32_t> files;
  double total = 0;
  std::size_t batches = 0;
  for (std::size_t at = 0; at < training.size(); at += batch_size, ++batches) {
    files.clear();
    for (const SampleId id : training.subspan(at, std::min<std::size_t>(batch_size, training.size() - at))) files.push_back(records[id].file);
    std::ranges::sort(files);
    total += static_cast<double>(std::unique(files.begin(), files.end()) - files.begin());
  }
  return batches > 0 ? total / static_cast<double>(batches) : 0;
}

}  // namespace

OrderKind parse_order_kind(const std::string& text) {
  if (const std::optional<OrderKind> kind = enum_named<OrderKind>(text)) return *kind;
  throw UsageError(fmt::format("found '{}', expected random, sequential or shards", text));
}

std::string order_kind_name(OrderKind kind) { return enum_name(kind); }

void make_epoch_order(const OrderSpec& spec, std::uint64_t seed, std::uint64_t epoch, std::span<const IndexRecord> records, std::uint32_t samples,
                      EpochOrder& order) {
  order.storage.clear();
  if (spec.kind == OrderKind::random) {
    order.training.resize(samples);
    random_permutation(mix(seed, epoch, order_key), order.training);
    return;
  }
  std::vector<SampleId>& read = spec.buffers() ? order.storage : order.training;
  if (spec.kind == OrderKind::shards) {
    read_shards(spec, seed, epoch, records, read);
  } else {
    read.resize(samples);
    std::iota(read.begin(), read.end(), 0U);
  }
  if (spec.buffers()) shuffle_through_buffer(mix(seed, epoch, buffer_key), spec.shuffle_buffer, order.storage, order.training);
}

ShuffleQuality shuffle_quality(std::span<const SampleId> training, std::span<const IndexRecord> records, std::uint32_t batch_size) {
  ShuffleQuality quality;
  const std::size_t count = training.size();
  if (count < 2) return quality;
  // Ranks among the samples of the epoch: with several nodes they are not all of the dataset.
  constexpr std::uint32_t absent = UINT32_MAX;
  std::vector<std::uint32_t> rank_of(*std::ranges::max_element(training) + std::size_t{1}, absent);
  for (const SampleId id : training) rank_of[id] = 0;
  std::uint32_t rank = 0;
  for (std::uint32_t& at : rank_of) {
    if (at != absent) at = rank++;
  }
  const auto n = static_cast<double>(count);
  double moved = 0;
  double squares = 0;
  std::size_t successors = 0;
  for (std::size_t at = 0; at < count; ++at) {
    const double distance = static_cast<double>(at) - rank_of[training[at]];
    moved += std::abs(distance);
    squares += distance * distance;
    if (at > 0 && rank_of[training[at]] == rank_of[training[at - 1]] + 1) ++successors;
  }
  quality.mean_displacement = moved / n / ((n * n - 1) / (3 * n));  // a uniform permutation's mean |i - j|
  quality.rank_correlation = 1 - 6 * squares / (n * (n * n - 1));
  quality.neighbours = static_cast<double>(successors) / (n - 1);
  if (!records.empty() && batch_size > 0) {
    std::vector<SampleId> uniform(training.begin(), training.end());
    RandomStream random(order_key);
    for (std::size_t left = count; left > 1; --left) std::swap(uniform[left - 1], uniform[random.below(left)]);
    quality.batch_files = files_a_batch(training, records, batch_size) / files_a_batch(uniform, records, batch_size);
  }
  return quality;
}

}  // namespace dsanalyze
