#include "dsanalyze/loaders/sampler.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dsanalyze/base/error.hpp"
#include "dsanalyze/base/random.hpp"
#include "dsanalyze/base/units.hpp"

namespace dsanalyze {
namespace {

constexpr std::string_view state_prefix = "sampler/1";
constexpr std::uint64_t order_key = 0x6f72646572;  // "order": keeps the order apart from the augmentation, which has the same seed

}  // namespace

std::string SamplerState::serialise() const { return fmt::format("{} {} {} {} {}", state_prefix, seed, epoch, position, samples); }

SamplerState SamplerState::parse(std::string_view text) {
  const auto fail = [&] {
    throw UsageError(fmt::format("sampler state: found '{}', expected '{} SEED EPOCH POSITION SAMPLES'", text, state_prefix));
  };
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  if (words.size() != 5 || words[0] != state_prefix) fail();
  const auto number = [](std::string_view word) { return static_cast<std::uint64_t>(parse_integer(word, 0, INT64_MAX)); };
  const SamplerState state{number(words[1]), number(words[2]), number(words[3]), number(words[4])};
  if (state.samples == 0 || state.position >= state.samples) fail();
  return state;
}

Sampler::Sampler(const SamplerState& start, std::uint32_t batch_size)
    : m_state(start), m_batch_size(std::max(batch_size, 1U)), m_order(start.samples) {
  if (start.samples == 0) throw UsageError("sampler: the dataset has no samples");
}

std::span<const SampleId> Sampler::next(std::uint64_t& epoch, bool& last) {
  prepare();
  const std::uint64_t count = std::min<std::uint64_t>(m_batch_size, m_state.samples - m_state.position);
  const auto batch = std::span<const SampleId>(m_order).subspan(m_state.position, count);
  epoch = m_state.epoch;
  m_state.position += count;
  last = m_state.position == m_state.samples;
  if (last) {
    m_state.position = 0;
    ++m_state.epoch;
  }
  return batch;
}

void Sampler::shuffle() {
  random_permutation(mix(m_state.seed, m_state.epoch, order_key), m_order);
  m_order_epoch = m_state.epoch;
}

std::span<const SampleId> Assignment::slice(std::span<const SampleId> global, int rank, int world) {
  const auto size = global.size();
  const auto w = static_cast<std::size_t>(world);
  const auto r = static_cast<std::size_t>(rank);
  const std::size_t begin = size / w * r + std::min(r, size % w);
  return global.subspan(begin, size / w + (r < size % w ? 1 : 0));
}

}  // namespace dsanalyze
