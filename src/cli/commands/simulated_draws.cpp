#include "simulated_draws.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/error.hpp"
#include "base/host/host.hpp"
#include "base/text/enum_names.hpp"
#include "base/text/text.hpp"

namespace dsanalyze::cli {
namespace {

constexpr std::size_t max_stores = 1000;

std::vector<StagingPolicy> policies_of(const TypedOptions& typed) {
  if (!typed.given("--policy")) return {StagingPolicy::refcnt, StagingPolicy::lru};
  std::vector<StagingPolicy> policies;
  for (const std::string& text : split_list(typed.text("--policy"))) {
    const auto policy = enum_named<StagingPolicy>(text);
    if (!policy) throw UsageError(fmt::format("--policy: found \"{}\", expected refcnt or lru: the trace is of a store of prepared samples", text));
    policies.push_back(*policy);
  }
  return policies;
}

std::vector<std::uint32_t> places_of(const DrawTraceHeader& header, const TypedOptions& typed) {
  if (!typed.given("--cache-size")) return {header.store_places};
  std::vector<std::uint32_t> places;
  for (const std::string& text : split_list(typed.text("--cache-size"))) {
    const ByteAmount amount = parsed("--cache-size", text, [](const std::string& size) { return parse_byte_amount(size); });
    const double samples = header.samples;
    const double room = amount.kind == ByteAmount::Kind::fraction ? amount.fraction * samples
                                                                  : static_cast<double>(amount.bytes) / static_cast<double>(header.place_bytes);
    places.push_back(static_cast<std::uint32_t>(std::min(room, samples)));
  }
  return places;
}

SimulatedDraws::Store store_of(const DrawReplay::Case& store, const DrawReplay::Counts& counts, std::uint32_t samples, const SimulatedDraws& draws) {
  const auto prepared = static_cast<double>(counts.prepared);
  const auto over = [prepared](std::uint64_t count) { return count == 0 ? 0 : prepared / static_cast<double>(count); };
  return {
      enum_name(store.policy),     store.places, static_cast<double>(store.places) / samples, counts.prepared, counts.from_store, over(draws.drawn),
      over(draws.drawn_by_fastest)};
}

}  // namespace

SimulatedStores::SimulatedStores(const DrawTraceHeader& header, const TypedOptions& typed) {
  for (const std::uint32_t places : places_of(header, typed))
    for (const StagingPolicy policy : policies_of(typed)) m_cases.push_back({places, policy});
  if (m_cases.size() > max_stores)
    throw UsageError(fmt::format("--policy and --cache-size: found {} stores, expected at most {}", m_cases.size(), max_stores));
}

SimulateResult SimulatedStores::result(const std::string& path, const DrawTraceHeader& header, const DrawReplay& replay) const {
  SimulateResult result;
  result.tool = this_tool();
  result.source = path;
  result.samples = header.samples;
  result.dataset_bytes = header.place_bytes * header.samples;
  result.digest = header.digest;
  const auto& drawn_by = replay.drawn_by();
  result.jobs = std::max(1U, static_cast<std::uint32_t>(std::ranges::count_if(drawn_by, [](std::uint64_t drawn) { return drawn > 0; })));
  result.accesses = replay.drawn();
  SimulatedDraws draws;
  draws.rounds = replay.rounds();
  draws.drawn = replay.drawn();
  draws.drawn_by_fastest = *std::ranges::max_element(drawn_by);
  draws.place_bytes = header.place_bytes;
  draws.recorded = store_of({header.store_places, header.policy}, replay.recorded(), header.samples, draws);
  for (std::size_t i = 0; i < m_cases.size(); ++i) draws.stores.push_back(store_of(m_cases[i], replay.counts()[i], header.samples, draws));
  result.draws = std::move(draws);
  return result;
}

void require_draw_memory(const std::string& what, std::uint32_t samples, std::span<const DrawReplay::Case> cases) {
  constexpr double bytes_a_sample = 16;
  constexpr double bytes_a_place = 160;  // an entry of a hash table, of a list, and a free number
  double needed = bytes_a_sample * samples;
  for (const DrawReplay::Case& store : cases) needed += bytes_a_place * store.places;
  const Bytes available = read_host_facts().memory_usable;
  if (needed <= static_cast<double>(available)) return;
  throw Error(fmt::format("{}: to replay draws of {} samples takes {} of memory, but {} are available", what, samples,
                          format_bytes(static_cast<Bytes>(needed)), format_bytes(available)));
}

}  // namespace dsanalyze::cli
