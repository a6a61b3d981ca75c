#include <fmt/format.h>

#include <algorithm>

#include "console_table.hpp"
#include "core/records/simulate_result.hpp"
#include "report/document/record_texts.hpp"
#include "report/report.hpp"

namespace dsanalyze {
namespace {

using report::dataset_line;
using report::share_of;

/// "caches: 35 % = 51.1 GiB, 50 % = 73 GiB".
std::string caches_line(const SimulateResult& result) {
  std::vector<Bytes> sizes;
  std::string text;
  for (const CaseCounts& counts : result.cases) {
    const CacheCase& cache = counts.cache;
    if (cache.policy == ReplayPolicy::none || std::ranges::find(sizes, cache.capacity) != sizes.end()) continue;
    sizes.push_back(cache.capacity);
    text +=
        fmt::format("{}{} = {}", text.empty() ? "caches: " : ", ", format_share(share_of(cache, result.dataset_bytes)), format_bytes(cache.capacity));
  }
  if (result.recorded) text += fmt::format("; recorded with {}", replay_policy_name(result.recorded->cache.policy));
  return text;
}

void add_row(console::Table& table, const std::string& name, const CaseCounts& counts, Bytes dataset_bytes) {
  std::vector<std::string> cells = {name, counts.cache.policy == ReplayPolicy::none ? "" : format_share(share_of(counts.cache, dataset_bytes)),
                                    counts.epochs.empty() ? "" : format_share(counts.epochs.front().counts.miss_share())};
  const auto later = later_epochs(counts);
  if (later) {
    const std::uint64_t epochs = later_epoch_count(counts);
    cells.push_back(format_number(static_cast<double>(later->hits) / static_cast<double>(epochs)));
    cells.push_back(format_share(later->miss_share()));
    cells.push_back(format_bytes(later->bytes_missed / epochs));
    cells.push_back(fmt::format("{:.2f}x", read_amplification(later->bytes_missed, epochs, dataset_bytes)));
  }
  cells.resize(7);
  table.add(std::move(cells));
}

std::string times_table(const SimulateResult& result, std::size_t width) {
  using enum console::Table::Align;
  console::Table table(
      {{"policy", left}, {"cache", right}, {"samples/s", right}, {"epoch", right}, {"p99 wait", right}, {"stalls", right}, {"bottleneck", left}}, 0);
  for (std::size_t i = 0; i < result.cases.size() && i < result.times.size(); ++i) {
    if (!result.times[i]) continue;
    const PipelineTimes& times = *result.times[i];
    const CacheCase& cache = result.cases[i].cache;
    const std::string letter = times.bottleneck == "gpu" ? "G" : times.bottleneck == "cpu" ? "P" : "F";
    table.add({replay_policy_name(cache.policy), cache.policy == ReplayPolicy::none ? "" : format_share(share_of(cache, result.dataset_bytes)),
               format_number(times.samples_per_s), format_seconds(times.epoch_seconds), format_seconds(times.stall_p99_seconds),
               format_share(times.prep_stall + times.fetch_stall), letter + (times.too_close ? " ?" : "")});
  }
  return table.text(width) + "\n" +
         paragraph("  ",
                   "stalls: share of an epoch that the accelerators wait for prep and fetch; p99 wait: for a batch, by one of them; bottleneck: "
                   "accelerators [G], "
                   "prep [P] or fetch [F], ? when another is as near",
                   width);
}

std::string draws_summary(const SimulateResult& result, std::size_t width) {
  const SimulatedDraws& draws = *result.draws;
  std::string text = paragraph("", "trace of draws " + result.source, width);
  text += paragraph("", report::draws_line(result), width) + "\n";
  using enum console::Table::Align;
  console::Table table(
      {{"store", left}, {"samples", right}, {"of dataset", right}, {"prepared", right}, {"from store", right}, {"preps", right}, {"fastest", right}},
      0);
  const auto add = [&table](const std::string& name, const SimulatedDraws::Store& store) {
    table.add({name, format_number(store.places), format_share(store.fraction), format_number(static_cast<double>(store.prepared)),
               format_number(static_cast<double>(store.from_store)), fmt::format("{:.3f}", store.prepared_per_sample),
               fmt::format("{:.3f}", store.prepared_per_fastest)});
  };
  add("(recorded)", draws.recorded);
  for (const SimulatedDraws::Store& store : draws.stores) add(store.policy, store);
  return text + table.text(width) + "\n" + paragraph("  ", report::draws_notes(), width);
}

}  // namespace

std::string console_summary(const SimulateResult& result, const ConsoleStyle& style) {
  const std::size_t width = console::layout_width(style);
  if (result.draws) return draws_summary(result, width) + console::findings_section(result.findings, style);
  std::string text = paragraph("", result.name.empty() ? "trace " + result.source : result.name + ": " + result.description, width);
  text += paragraph("", dataset_line(result), width);
  text += paragraph("", caches_line(result), width) + "\n";
  using enum console::Table::Align;
  console::Table table(
      {{"policy", left}, {"cache", right}, {"first", right}, {"hits", right}, {"missed", right}, {"read", right}, {"of dataset", right}}, 0);
  if (result.recorded) add_row(table, "(recorded)", *result.recorded, result.dataset_bytes);
  for (const CaseCounts& counts : result.cases) add_row(table, replay_policy_name(counts.cache.policy), counts, result.dataset_bytes);
  text += table.text(width);
  text +=
      "\n" + paragraph("  ",
                       fmt::format("first: share missed in the first epoch; hits, missed, read: an epoch after it{}; of dataset: what such an epoch "
                                   "reads, over the dataset",
                                   result.jobs > 1 ? ", all jobs together" : ""),
                       width);
  if (!result.times.empty()) text += "\n" + times_table(result, width);
  return text + console::findings_section(result.findings, style);
}

}  // namespace dsanalyze
