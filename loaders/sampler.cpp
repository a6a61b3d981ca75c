#include "sampler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {
namespace {

constexpr std::string_view state_prefix = "sampler/3";
constexpr std::string_view no_digest = "-";

/// A whole number of all 64 bits, as a seed may be.
std::optional<std::uint64_t> parse_whole(std::string_view word) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size() ? std::optional(number) : std::nullopt;
}

}  // namespace

std::string SamplerState::serialise() const {
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {} {}", state_prefix, seed, epoch, position, samples, order_kind_name(order.kind),
                     order.shuffle_buffer, order.node, order.nodes, order.readers, batch_size, digest.empty() ? no_digest : std::string_view(digest));
}

void SamplerState::require_fit(std::string_view dataset_digest, std::uint64_t dataset_samples, std::uint32_t batch) const {
  if (samples != dataset_samples)
    throw UsageError(fmt::format("sampler: its state is of a dataset of {} samples, this one has {}", samples, dataset_samples));
  if (!digest.empty() && digest != dataset_digest) {
    throw UsageError(fmt::format("sampler: its state is of a dataset with the digest {}, this one has {}: its numbers would be other samples", digest,
                                 dataset_digest));
  }
  if (batch_size != 0 && position != 0 && batch_size != batch) {
    throw UsageError(
        fmt::format("sampler: its state was saved in the middle of an epoch of batches of {}, and these are of {}: the batches would not be those "
                    "that were left; go on with the same, or from an epoch's begin",
                    batch_size, batch));
  }
}

SamplerState SamplerState::parse(std::string_view text) {
  const auto fail = [&] {
    throw UsageError(fmt::format("sampler state: found '{}', expected '{} SEED EPOCH POSITION SAMPLES ORDER BUFFER NODE NODES READERS BATCH DIGEST'",
                                 text, state_prefix));
  };
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  if (words.size() != 12 || words[0] != state_prefix || words[11].empty()) fail();
  const auto number = [&](std::string_view word) {
    const auto whole = parse_whole(word);
    if (!whole) fail();
    return *whole;
  };
  const auto small_number = [](std::string_view word) { return static_cast<std::uint32_t>(parse_integer(word, 0, UINT32_MAX)); };
  SamplerState state{
      number(words[1]),
      number(words[2]),
      number(words[3]),
      number(words[4]),
      {parse_order_kind(std::string(words[5])), small_number(words[6]), small_number(words[7]), small_number(words[8]), small_number(words[9])},
      small_number(words[10]),
      words[11] == no_digest ? std::string() : std::string(words[11])};
  if (state.samples == 0 || state.position >= state.samples || state.order.node >= state.order.nodes || state.order.readers == 0) fail();
  return state;
}

Sampler::Sampler(const SamplerState& start, std::uint32_t batch_size, std::span<const IndexRecord> records)
    : m_state(start), m_batch_size(std::max(batch_size, 1U)), m_records(records) {
  if (start.samples == 0 || start.samples >= UINT32_MAX) throw UsageError("sampler: the dataset has no samples, or more than 4,294,967,294");
  if ((start.order.kind != OrderKind::random || !records.empty()) && start.samples != records.size()) {
    throw UsageError(fmt::format("sampler: its state is of a dataset of {} samples, this one has {}", start.samples, records.size()));
  }
  shuffle();
  if (start.position >= m_order.training.size()) {
    throw UsageError(fmt::format("sampler: its state stands at sample {} of an epoch of {}: it belongs to another dataset", start.position,
                                 m_order.training.size()));
  }
  if (start.position > 0 && !m_order.storage.empty()) {
    // The buffer held what had been asked for and not been drawn.
    std::vector<bool> drawn(start.samples);
    for (std::uint64_t i = 0; i < start.position; ++i) drawn[m_order.training[i]] = true;
    m_asked = std::min<std::uint64_t>(start.position + start.order.shuffle_buffer, m_order.storage.size());
    for (std::uint64_t i = 0; i < m_asked; ++i) {
      if (!drawn[m_order.storage[i]]) m_catching_up.push_back(m_order.storage[i]);
    }
  }
}

std::span<const SampleId> Sampler::next(std::uint64_t& epoch, bool& last) {
  prepare();
  const std::uint64_t size = m_order.training.size();
  m_batch_begin = m_state.position;
  m_batch_end = std::min<std::uint64_t>(m_batch_begin + m_batch_size, size);
  epoch = m_state.epoch;
  m_state.position = m_batch_end;
  last = m_batch_end == size;
  if (last) {
    m_state.position = 0;
    ++m_state.epoch;
  }
  return std::span<const SampleId>(m_order.training).subspan(m_batch_begin, m_batch_end - m_batch_begin);
}

std::span<const SampleId> Sampler::ahead() {
  if (m_order.storage.empty()) return std::span<const SampleId>(m_order.training).subspan(m_batch_begin, m_batch_end - m_batch_begin);
  const std::uint64_t asked = m_asked;
  m_asked = std::min<std::uint64_t>(m_batch_end + m_state.order.shuffle_buffer, m_order.storage.size());
  const auto more = std::span<const SampleId>(m_order.storage).subspan(asked, m_asked - asked);
  if (m_catching_up.empty()) return more;
  m_caught_up = std::exchange(m_catching_up, {});
  m_caught_up.insert(m_caught_up.end(), more.begin(), more.end());
  return m_caught_up;
}

void Sampler::shuffle() {
  make_epoch_order(m_state.order, m_state.seed, m_state.epoch, m_records, static_cast<std::uint32_t>(m_state.samples), m_order);
  if (m_order.training.empty()) {
    throw UsageError(
        fmt::format("sampler: node {} of {} has no shard: the dataset has fewer shards than nodes", m_state.order.node, m_state.order.nodes));
  }
  m_order_epoch = m_state.epoch;
  m_asked = 0;
}

}  // namespace dsanalyze
