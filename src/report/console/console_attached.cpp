#include "console_verdict.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/enum_names.hpp"
#include "base/text/text.hpp"
#include "base/text/units.hpp"
#include "console_table.hpp"
#include "core/records/rate_text.hpp"
#include "report/document/profile_text.hpp"

namespace dsanalyze::console {
namespace {

using namespace report;

std::string labelled(const std::string& label, const std::string& text, std::size_t width) {
  constexpr std::size_t label_width = 10;
  return paragraph(fmt::format("  {:<{}}", label, label_width), text, width);
}

std::string step_text(const WaitsRecord& waits) {
  std::string text = fmt::format("{} = {} compute + {} waiting for data", format_seconds(waits.step_seconds),
                                 format_seconds(waits.compute.seconds_per_step), format_seconds(waits.data.seconds_per_step));
  constexpr double least_fraction = 0.005;
  if (waits.ranks.fraction > least_fraction) text += fmt::format(" + {} waiting for ranks", format_seconds(waits.ranks.seconds_per_step));
  if (waits.outside.fraction > least_fraction) {
    text += fmt::format(" + {} outside the loop's steps", format_seconds(waits.outside.seconds_per_step));
    if (waits.validation.fraction > least_fraction) text += fmt::format(" ({} validation)", format_seconds(waits.validation.seconds_per_step));
  }
  return text + fmt::format(" (p99 wait {})", format_seconds(waits.data_p99_seconds));
}

std::string between_text(const BetweenEpochsRecord& between) {
  std::string text = fmt::format("{} each time, of which {} validation, {} waiting for workers and the first batch", format_seconds(between.seconds),
                                 format_seconds(between.validation_seconds), format_seconds(between.data_seconds));
  return text + fmt::format(", {} other ({} seen)", format_seconds(between.outside_seconds), between.epochs);
}

std::string ranks_table(const WaitsRecord& waits, std::size_t width) {
  if (waits.by_rank.empty()) return "";
  Table table({{"rank", Table::Align::left},
               {"waits for data", Table::Align::right},
               {"computes", Table::Align::right},
               {"waits for other ranks", Table::Align::right}},
              3);
  for (const RankWaitsRecord& rank : waits.by_rank)
    table.add({fmt::format("{}", rank.rank), format_seconds(rank.data.seconds_per_step), format_seconds(rank.compute.seconds_per_step),
               format_seconds(rank.ranks.seconds_per_step)});
  return "\n" + table.text(width);
}

std::string trust_text(const ProfileResult& result) {
  const std::string doubt = result.trusted ? "" : "not to be trusted, see the findings; ";
  const RunRecord* const prep = result.run("prep");
  if (prep == nullptr || !prep->storage_proof) return doubt + "prep was not measured";
  const Bytes read = prep->storage_bytes.value_or(0);
  // The proof is of the storage reads alone: a result that is doubtful for another reason is not called proved.
  const std::string proof = result.trusted                                   ? enum_name(*prep->storage_proof) + std::string(": ")
                            : *prep->storage_proof == StorageProof::unproved ? "storage reads could not be counted: "
                                                                             : "by the kernel's count, ";
  return doubt + proof + fmt::format("{} read from storage while prep was measured", read == 0 ? "nothing was" : format_bytes(read) + " were");
}

}  // namespace

std::string attached_summary(const ProfileResult& result, const ConsoleStyle& style) {
  const std::size_t width = layout_width(style);
  std::string text;
  for (const std::string& line : wrap(verdict(result), width)) text += paint(line, Ink::bold, style.colour) + "\n";
  if (result.waits) text += labelled("step", step_text(*result.waits), width);
  if (result.waits && result.waits->between_epochs) text += labelled("between", "epochs: " + between_text(*result.waits->between_epochs), width);
  if (result.waits) text += ranks_table(*result.waits, width);
  const auto rate = [&](const std::string& label, const RateRecord& record, const std::string& letter, const std::string& rest) {
    text += labelled(label, fmt::format("{} samples/s [{}]{}", format_rate(record.samples_per_s, record.ci95_samples_per_s), letter, rest), width);
  };
  if (result.prep)
    rate("prep", *result.prep, "P",
         fmt::format(", {} workers, {} usable cores", result.loader ? result.loader->workers : 0, format_number(result.host.cores)));
  if (result.ingestion) rate(trainer_name(result), *result.ingestion, "G", fmt::format(", batch {}", result.settings.batch_size));
  if (result.prep_by_workers.size() > 1) {
    std::vector<std::string> points;
    for (const WorkerPoint& point : result.prep_by_workers)
      points.push_back(fmt::format("{}: {}", point.workers, format_number(point.samples_per_s)));
    text += labelled("workers", fmt::format("P by num_workers: {}", fmt::join(points, "; ")), width);
  }
  if (const RunRecord* full = result.run("full")) {
    std::string reached = fmt::format("{} samples/s as found", format_rate(full->samples_per_s, full->ci95_samples_per_s));
    if (const RunRecord* cached = result.run("cached"))
      reached += fmt::format("; {} with its data in memory", format_rate(cached->samples_per_s, cached->ci95_samples_per_s));
    text += labelled("reached", reached, width);
  }
  text += labelled("do first", first_step(result), width);
  if (result.prep || !result.trusted) text += labelled("trust", trust_text(result), width);
  if (result.bottleneck)
    text += labelled("sure", fmt::format("{}: {}", result.bottleneck->confident ? "yes" : "no", result.bottleneck->reason), width);
  if (result.loader) text += labelled("loader", loader_text(*result.loader), width);
  return text + findings_section(result.findings, style);
}

}  // namespace dsanalyze::console
