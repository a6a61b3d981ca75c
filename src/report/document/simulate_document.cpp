#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "record_documents.hpp"
#include "record_texts.hpp"

namespace dsanalyze::report {
namespace {

/// Of an epoch after the first, in which the cache fills; of the first where there is no other.
double miss_share(const CaseCounts& counts) {
  if (const auto later = later_epochs(counts)) return later->miss_share();
  return counts.epochs.empty() ? 0 : counts.epochs.front().counts.miss_share();
}

bool has_cache(const CaseCounts& counts) { return counts.cache.policy != ReplayPolicy::none; }
bool is_buildable(const CaseCounts& counts) { return has_cache(counts) && counts.cache.policy != ReplayPolicy::belady; }

std::string cached_text(const CaseCounts& counts, const SimulateResult& result) {
  return has_cache(counts) ? format_share(share_of(counts.cache, result.dataset_bytes)) : "-";
}

/// The case that misses least, of those that `counts_in`; nullptr for none.
const CaseCounts* least_missing(const SimulateResult& result, bool (*counts_in)(const CaseCounts&)) {
  const CaseCounts* least = nullptr;
  for (const CaseCounts& counts : result.cases)
    if (counts_in(counts) && (least == nullptr || miss_share(counts) < miss_share(*least))) least = &counts;
  return least;
}

std::string headline(const SimulateResult& result) {
  const CaseCounts* best = least_missing(result, is_buildable);
  if (best == nullptr) return "What caches make of one order of accesses";
  return fmt::format("Least is missed by {} with {} of the dataset in the cache: {} of the accesses{}", replay_policy_name(best->cache.policy),
                     cached_text(*best, result), format_share(miss_share(*best)), later_epochs(*best) ? " of an epoch after the first" : "");
}

Section verdict_section(const SimulateResult& result) {
  Section section{"verdict", headline(result)};
  Terms terms;
  if (!result.description.empty()) terms.terms.push_back({result.name, result.description});
  terms.terms.push_back({"The accesses", dataset_line(result)});
  if (const CaseCounts* optimum = least_missing(result, [](const CaseCounts& counts) { return counts.cache.policy == ReplayPolicy::belady; }))
    terms.terms.push_back(
        {"The least that is possible", fmt::format("Belady's optimum, which knows the future, misses {} with {} of the dataset in the cache.",
                                                   format_share(miss_share(*optimum)), cached_text(*optimum, result))});
  if (result.recorded)
    terms.terms.push_back({"What was recorded", fmt::format("{}, {} of the dataset: {} missed.", replay_policy_name(result.recorded->cache.policy),
                                                            cached_text(*result.recorded, result), format_share(miss_share(*result.recorded)))});
  section.blocks.emplace_back(std::move(terms));
  return section;
}

/// Share missed by the cache's size, a line for each policy; bars where there is one size.
Chart misses_chart(const SimulateResult& result) {
  Chart chart;
  chart.name = "misses";
  chart.y_label = "% of the accesses missed";
  std::map<std::string, std::map<double, double>> by_policy;
  std::map<double, int> sizes;
  for (const CaseCounts& counts : result.cases) {
    if (!has_cache(counts)) continue;
    const double size = 100 * share_of(counts.cache, result.dataset_bytes);
    ++sizes[size];
    by_policy[replay_policy_name(counts.cache.policy)][size] = 100 * miss_share(counts);
  }
  if (sizes.size() > 1) {
    chart.title = "share missed by the size of the cache, a line for each policy";
    chart.x_label = "% of the dataset in the cache";
    for (const auto& [policy, misses] : by_policy) {
      Chart::Series series{policy, "", {}, policy == "belady" ? Chart::Series::Line::dashed : Chart::Series::Line::solid};
      for (const auto& [size, missed] : misses) series.points.push_back({size, missed});
      chart.series.push_back(std::move(series));
    }
  } else {
    chart.title = "share missed by each policy";
    chart.kind = Chart::Kind::bars;
    Chart::Series series{"missed", "result", {}};
    for (const auto& [policy, misses] : by_policy) {
      series.points.push_back({static_cast<double>(chart.categories.size()), misses.begin()->second});
      chart.categories.push_back(policy);
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

void add_counts(const std::string& name, const CaseCounts& counts, const SimulateResult& result, Table& table) {
  std::vector<std::string> cells{name, cached_text(counts, result), format_bytes(counts.cache.capacity),
                                 counts.epochs.empty() ? "-" : format_share(counts.epochs.front().counts.miss_share())};
  if (const auto later = later_epochs(counts)) {
    const std::uint64_t epochs = later_epoch_count(counts);
    cells.insert(cells.end(), {format_number(static_cast<double>(later->hits) / static_cast<double>(epochs)), format_share(later->miss_share()),
                               format_bytes(later->bytes_missed / epochs),
                               fmt::format("{:.2f}x", read_amplification(later->bytes_missed, epochs, result.dataset_bytes))});
  }
  cells.resize(8, "-");
  table.add(cells);
}

Section misses_section(const SimulateResult& result) {
  Section section{"misses", "What each cache misses"};
  Table table{
      "hits and misses by policy and size",
      {{"policy", Align::left}, {"of the dataset"}, {"size"}, {"missed, first epoch"}, {"hits"}, {"missed"}, {"read"}, {"read over dataset"}}};
  if (result.recorded) add_counts("(recorded)", *result.recorded, result, table);
  for (const CaseCounts& counts : result.cases) add_counts(replay_policy_name(counts.cache.policy), counts, result, table);
  std::vector<Chart> charts;
  if (std::ranges::any_of(result.cases, has_cache)) charts.push_back(misses_chart(result));
  section.blocks.emplace_back(
      Figure{"",
             fmt::format("Hits, missed and read are of an epoch after the first{}. What is missed is read from storage; read over dataset is 1 for a "
                         "job that finds nothing in the cache.",
                         result.jobs > 1 ? ", all jobs together" : ""),
             std::move(charts), std::move(table)});
  return section;
}

Section times_section(const SimulateResult& result) {
  Section section{"times", "How long an epoch takes"};
  Table table{"by policy and size, with the pipeline behind the cache",
              {{"policy", Align::left},
               {"of the dataset"},
               {"samples/s"},
               {"epoch"},
               {"first batch after"},
               {"99 % of waits under"},
               {"waiting for prep"},
               {"waiting for fetch"},
               {"bottleneck", Align::left}}};
  for (std::size_t at = 0; at < result.cases.size() && at < result.times.size(); ++at) {
    if (!result.times[at]) continue;
    const PipelineTimes& times = *result.times[at];
    table.add({replay_policy_name(result.cases[at].cache.policy), cached_text(result.cases[at], result), format_number(times.samples_per_s),
               format_seconds(times.epoch_seconds), format_seconds(times.first_batch_seconds), format_seconds(times.stall_p99_seconds),
               format_share(times.prep_stall), format_share(times.fetch_stall),
               resource_words(times.bottleneck) + " " + resource_letter(times.bottleneck) + (times.too_close ? " ?" : "")});
  }
  if (!table.rows.empty())
    section.blocks.emplace_back(
        Figure{"", "By the epoch simulator. Shares are of an epoch that the accelerators wait; ? another part is as near.", {}, std::move(table)});
  return section;
}

Section epochs_section(const SimulateResult& result) {
  Section section{"epochs", "Epoch by epoch"};
  Table table{"each epoch, all jobs together",
              {{"policy", Align::left}, {"of the dataset"}, {"epoch"}, {"accesses"}, {"hits"}, {"missed"}, {"read"}}};
  for (const CaseCounts& counts : result.cases)
    for (const EpochCounts& epoch : counts.epochs)
      table.add({replay_policy_name(counts.cache.policy), cached_text(counts, result), fmt::format("{}", epoch.epoch),
                 format_number(static_cast<double>(epoch.counts.accesses)), format_number(static_cast<double>(epoch.counts.hits)),
                 format_share(epoch.counts.miss_share()), format_bytes(epoch.counts.bytes_missed)});
  if (!table.rows.empty()) section.blocks.emplace_back(Figure{"", "", {}, std::move(table), Folding::folded});
  return section;
}

Section draws_section(const SimulateResult& result) {
  const SimulatedDraws& draws = *result.draws;
  Section section{"draws", "What a store of prepared samples saves"};
  Table table{"each store", {{"store", Align::left}, {"samples"}, {"of the dataset"}, {"prepared"}, {"from store"}, {"preps"}, {"fastest"}}};
  const auto add = [&table](const std::string& name, const SimulatedDraws::Store& store) {
    table.add({name, format_number(store.places), format_share(store.fraction), format_number(static_cast<double>(store.prepared)),
               format_number(static_cast<double>(store.from_store)), fmt::format("{:.3f}", store.prepared_per_sample),
               fmt::format("{:.3f}", store.prepared_per_fastest)});
  };
  add("recorded: " + draws.recorded.policy, draws.recorded);
  for (const SimulatedDraws::Store& store : draws.stores) add(store.policy, store);
  section.blocks.emplace_back(Figure{"", fmt::format("{}. {}.", draws_line(result), draws_notes()), {}, std::move(table)});
  return section;
}

}  // namespace

Document simulate_document(const SimulateResult& result) {
  Document document;
  if (result.draws) {
    document.subtitle = "replayed draws: " + result.source;
    document.sections = {draws_section(result), findings_of(result.findings)};
    std::erase_if(document.sections, [](const Section& section) { return section.blocks.empty(); });
    return document;
  }
  document.subtitle = (result.orders ? "simulated: " : "replayed: ") + result.source;
  document.sections = {verdict_section(result), misses_section(result), times_section(result), epochs_section(result), findings_of(result.findings)};
  std::erase_if(document.sections, [](const Section& section) { return section.blocks.empty(); });
  return document;
}

}  // namespace dsanalyze::report
