#include <algorithm>
#include <numeric>

#include "base/random.hpp"
#include "pilot.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint64_t subset_key = 0x5b;

/// Neighbours in the dataset, from the begin of a file drawn at random on: orders that read neighbours one after another need them.
std::vector<SampleId> neighbours(const DatasetIndex& index, std::uint64_t samples, std::uint64_t seed) {
  auto first = static_cast<SampleId>(RandomStream(mix(seed, subset_key)).below(index.size() - samples + 1));
  while (first > 0 && index[first].file == index[first - 1].file) --first;
  std::vector<SampleId> chosen(samples);
  std::iota(chosen.begin(), chosen.end(), first);
  return chosen;
}

}  // namespace

std::shared_ptr<const DatasetIndex> draw_subset(const ProfileInputs& inputs, std::uint64_t samples) {
  const DatasetIndex& index = *inputs.index;
  if (samples >= index.size()) return inputs.index;
  if (inputs.settings.order != OrderKind::random) return subset_index(index, neighbours(index, samples, inputs.settings.seed));
  std::vector<SampleId> order(index.size());
  random_permutation(mix(inputs.settings.seed, subset_key), order);
  order.resize(samples);
  std::ranges::sort(order);
  return subset_index(index, order);
}

}  // namespace dsanalyze
