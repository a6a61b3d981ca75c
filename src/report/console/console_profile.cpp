#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "base/text/enum_names.hpp"
#include "base/text/text.hpp"
#include "base/text/units.hpp"
#include "console_table.hpp"
#include "console_verdict.hpp"
#include "core/records/rate_text.hpp"
#include "report/document/profile_text.hpp"
#include "report/report.hpp"

namespace dsanalyze {
namespace {

using console::Ink;
using console::paint;
using console::Table;
using namespace report;

constexpr std::size_t label_width = 10;
constexpr std::size_t most_trials_shown = 32;
constexpr std::size_t most_ranks_shown = 32;

std::string labelled(const std::string& label, const std::string& text, std::size_t width) {
  return paragraph(fmt::format("  {:<{}}", label, label_width), text, width);
}

/// The epoch in characters, 40 where there is room: compute, then prep, then fetch, then interference.
std::string epoch_bar(const ProfileResult::Stalls& stalls, std::size_t width) {
  const double cells = std::min(40.0, static_cast<double>(width - label_width) - 4);
  const auto upto = [cells](double share) { return static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * cells)); };
  const std::size_t compute = upto(stalls.compute.fraction);
  const std::size_t prep = std::max(upto(stalls.compute.fraction + stalls.prep.fraction), compute);
  const auto all = static_cast<std::size_t>(cells);
  const std::size_t rest = stalls.interference ? std::min(upto(stalls.interference->fraction), all - prep) : 0;
  return "[" + std::string(compute, '#') + std::string(prep - compute, '=') + std::string(all - prep - rest, '.') + std::string(rest, '~') + "]";
}

std::string epoch_split(const ProfileResult::Stalls& stalls, std::size_t width) {
  const auto row = [width](char mark, const std::string& name, const StallRecord& stall) {
    return paragraph(fmt::format("  {:<{}}{} {:<8} ", "", label_width, mark, name),
                     share_with_interval(stall) + (stall.seconds_per_epoch > 0 ? ", " + format_seconds(stall.seconds_per_epoch) : ""), width);
  };
  return fmt::format("  {:<{}}{}\n", "epoch", label_width, epoch_bar(stalls, width)) + row('#', "compute", stalls.compute) +
         row('=', "prep", stalls.prep) + row('.', "fetch", stalls.fetch) +
         (stalls.interference ? row('~', "interference", *stalls.interference) : "");
}

std::string rates_section(const ProfileResult& result, std::size_t width) {
  Table table(
      {{"rates, with 95 % intervals", Table::Align::left}, {"samples/s", Table::Align::left}, {"", Table::Align::left}, {"", Table::Align::left}}, 3);
  bool any = false;
  const auto add = [&](const std::string& words, const std::optional<RateRecord>& rate, const std::string& letter) {
    if (!rate) return;
    any = true;
    table.add({words, format_rate(rate->samples_per_s, rate->ci95_samples_per_s), letter, rate_note(*rate)});
  };
  add("the accelerators can consume", result.ingestion, "[G]");
  add("transfers can supply", result.transfer, "[H]");
  add("prep can supply", result.prep, "[P]");
  add("the cache can supply", result.cache, "[C]");
  add("storage can supply", result.storage, "[S]");
  add("others' caches can supply", result.network, "[N]");
  add(result.network ? "fetch (caches and storage)" : "fetch (cache and storage)", result.fetch, "[F]");
  if (!any) return "";
  std::string text = "\n" + table.text(width);
  if (result.prep_by_cores.size() > 1) {
    std::vector<std::string> points;
    for (const CorePoint& point : result.prep_by_cores) points.push_back(fmt::format("{}: {}", point.cores, format_number(point.samples_per_s)));
    text += paragraph("  prep by cores  ", fmt::format("{}", fmt::join(points, "; ")), width);
  }
  return text;
}

/// MB/s, a row a request size, a column a concurrency.
std::string storage_curve(const std::vector<StoragePoint>& points, std::size_t width) {
  std::vector<double> sizes;
  std::vector<int> concurrencies;
  for (const StoragePoint& point : points) {
    sizes.push_back(point.request_bytes);
    concurrencies.push_back(point.concurrency);
  }
  const auto sort_out = [](auto& values) {
    std::ranges::sort(values);
    values.erase(std::unique(values.begin(), values.end()), values.end());
  };
  sort_out(sizes);
  sort_out(concurrencies);
  if (sizes.size() < 2 && concurrencies.size() < 2) return "";
  std::vector<Table::Column> columns{{"request", Table::Align::left}};
  for (const int concurrency : concurrencies) columns.push_back({fmt::format("{}", concurrency), Table::Align::right});
  Table table(columns, 0);
  for (const double size : sizes) {
    std::vector<std::string> cells{format_bytes(static_cast<Bytes>(size))};
    for (const int concurrency : concurrencies) {
      const auto point = std::ranges::find_if(points, [&](const StoragePoint& p) { return p.request_bytes == size && p.concurrency == concurrency; });
      cells.push_back(point == points.end() ? "-" : format_number(point->bytes_per_s / 1e6));
    }
    table.add(std::move(cells));
  }
  return "\n" + paragraph("  ", "storage, MB/s, by size of a request and number in flight", width) + table.text(width);
}

/// How well it is known which runs read from storage: "storage proved: fetch, prep; unproved: cached".
std::string proofs_line(const std::vector<RunRecord>& runs, std::size_t width) {
  std::vector<std::string> grades;
  for (std::size_t grade = 0; grade < enum_names<StorageProof>.size(); ++grade) {
    std::vector<std::string> names;
    for (const RunRecord& run : runs) {
      if (run.storage_proof && static_cast<std::size_t>(*run.storage_proof) == grade) names.push_back(run.name);
    }
    if (!names.empty()) grades.push_back(fmt::format("{}: {}", enum_names<StorageProof>[grade], fmt::join(names, ", ")));
  }
  return grades.empty() ? "" : paragraph("  ", fmt::format("what came from storage is {}", fmt::join(grades, "; ")), width);
}

std::string runs_section(const std::vector<RunRecord>& runs, std::size_t width) {
  if (runs.empty()) return "";
  const bool failures = std::ranges::any_of(runs, [](const RunRecord& run) { return run.samples_failed > 0; });
  std::vector<Table::Column> columns{{"runs", Table::Align::left},          {"samples/s", Table::Align::right},  {"epoch", Table::Align::right},
                                     {"from storage", Table::Align::right}, {"cache hits", Table::Align::right}, {"misses", Table::Align::right}};
  if (failures) columns.push_back({"failed", Table::Align::right});
  Table table(columns, 0);
  for (const RunRecord& run : runs) {
    std::vector<std::string> cells{run.name,
                                   format_number(run.samples_per_s),
                                   run.epoch_seconds > 0 ? format_seconds(run.epoch_seconds) : "-",
                                   run.storage_bytes ? format_bytes(*run.storage_bytes) : "not known",
                                   format_number(static_cast<double>(run.cache_hits)),
                                   format_number(static_cast<double>(run.cache_misses))};
    if (failures) cells.push_back(format_number(static_cast<double>(run.samples_failed)));
    table.add(std::move(cells));
  }
  return "\n" + table.text(width) + proofs_line(runs, width);
}

/// Each goes at its own speed and ends by itself; the coordinator prepares for all.
std::string dependent_jobs_section(const std::vector<JobRecord>& jobs, std::size_t width) {
  Table table({{"jobs", Table::Align::left},
               {"speed", Table::Align::right},
               {"samples/s", Table::Align::right},
               {"epoch", Table::Align::right},
               {"stalled", Table::Align::right},
               {"samples", Table::Align::right},
               {"took", Table::Align::right},
               {"end", Table::Align::left}},
              7);
  for (const JobRecord& job : jobs)
    table.add({fmt::format("{}", job.job), format_number(job.speed.value_or(1)), format_number(job.samples_per_s),
               job.epoch_seconds > 0 ? format_seconds(job.epoch_seconds) : "-", format_share(job.stall_fraction),
               format_number(static_cast<double>(job.samples)), format_seconds(job.seconds), job_end_text(job)});
  return "\n" + table.text(width);
}

std::string jobs_section(const ProfileResult& result, std::size_t width) {
  if (result.jobs.empty()) return "";
  if (result.sharing && result.sharing->dependent) return dependent_jobs_section(result.jobs, width);
  Table table({{"jobs", Table::Align::left},
               {"samples/s", Table::Align::right},
               {"epoch", Table::Align::right},
               {"stalled", Table::Align::right},
               {"samples", Table::Align::right},
               {"prepared", Table::Align::right},
               {"end", Table::Align::left}},
              6);
  for (const JobRecord& job : result.jobs)
    table.add({fmt::format("{}", job.job), format_number(job.samples_per_s), job.epoch_seconds > 0 ? format_seconds(job.epoch_seconds) : "-",
               format_share(job.stall_fraction), format_number(static_cast<double>(job.samples)),
               format_number(static_cast<double>(job.samples_prepared)), job_end_text(job)});
  return "\n" + table.text(width);
}

std::string ranks_section(const std::vector<RankRecord>& ranks, std::size_t width) {
  if (ranks.empty()) return "";
  Table table({{"ranks", Table::Align::left},
               {"host", Table::Align::left},
               {"samples/s", Table::Align::right},
               {"epoch", Table::Align::right},
               {"stalled", Table::Align::right},
               {"samples", Table::Align::right},
               {"end", Table::Align::left}},
              1);
  Table fetched({{"fetched", Table::Align::left},
                 {"own cache", Table::Align::right},
                 {"others", Table::Align::right},
                 {"storage", Table::Align::right},
                 {"from others", Table::Align::right},
                 {"from storage", Table::Align::right},
                 {"to others", Table::Align::right}},
                0);
  for (const RankRecord& rank : std::span(ranks).first(std::min(ranks.size(), most_ranks_shown))) {
    table.add({fmt::format("{}", rank.rank), host_name_text(rank), format_number(rank.samples_per_s),
               rank.epoch_seconds > 0 ? format_seconds(rank.epoch_seconds) : "-", format_share(rank.stall_fraction),
               format_number(static_cast<double>(rank.samples)), enum_name(rank.end)});
    fetched.add({fmt::format("{}", rank.rank), format_number(static_cast<double>(rank.cache_hits)),
                 format_number(static_cast<double>(rank.peer_hits)), format_number(static_cast<double>(samples_from_storage(rank))),
                 format_bytes(rank.peer_bytes), rank.storage_bytes ? format_bytes(*rank.storage_bytes) : "not known",
                 format_bytes(rank.served_bytes)});
  }
  std::string text = "\n" + table.text(width) + "\n" + fetched.text(width);
  if (ranks.size() > most_ranks_shown)
    text += paragraph("  ", fmt::format("{} of {} ranks; the JSON record has them all", most_ranks_shown, ranks.size()), width);
  return text;
}

std::string trials_section(const std::vector<SearchTrialRecord>& trials, std::size_t width) {
  if (trials.empty()) return "";
  Table table({{"trials", Table::Align::left},
               {"job", Table::Align::right},
               {"epochs", Table::Align::right},
               {"took", Table::Align::right},
               {"judged by", Table::Align::left},
               {"found", Table::Align::right},
               {"end", Table::Align::left}},
              6);
  for (const SearchTrialRecord& trial : std::span(trials).first(std::min(trials.size(), most_trials_shown)))
    table.add({fmt::format("{}", trial.trial), fmt::format("{}", trial.job), format_number(static_cast<double>(trial.epochs)),
               format_seconds(trial.seconds), judged_by_text(trial), format_number(trial.value), enum_name(trial.end)});
  std::string text = "\n" + table.text(width);
  if (trials.size() > most_trials_shown)
    text += paragraph("  ", fmt::format("{} of {} trials; the JSON record has them all", most_trials_shown, trials.size()), width);
  return text;
}

}  // namespace

std::string console_summary(const ProfileResult& result, const ConsoleStyle& style) {
  if (!result.command.empty()) return console::attached_summary(result, style);
  const std::size_t width = console::layout_width(style);
  const std::string first_step = console::first_step(result);
  std::string text;
  for (const std::string& line : wrap(console::verdict(result), width)) text += paint(line, Ink::bold, style.colour) + "\n";
  text += "\n";
  if (result.stalls) text += epoch_split(*result.stalls, width);
  if (result.stalls && result.stalls->interference && result.attained) text += labelled("lost", interference_text(*result.attained), width);
  text += labelled("do first", first_step, width);
  text += labelled("sure", console::confidence(result), width);
  if (const RunRecord* full = result.run("full"); full != nullptr && full->mlperf_storage_au)
    text += labelled("AU", utilisation_text(*full->mlperf_storage_au, full->name), width);
  if (const RunRecord* full = result.run("full"); full != nullptr && !learned_text(*full).empty())
    text += labelled("learned", learned_text(*full), width);
  if (result.sharing) text += labelled("jobs", sharing_text(*result.sharing), width);
  if (result.partition) {
    text += labelled("ranks", partition_text(*result.partition), width);
    for (const std::string& lost : lost_texts(*result.partition)) text += labelled("lost", lost, width);
  }
  if (result.observed) text += labelled("observed", observed_text(*result.observed), width);

  text += rates_section(result, width);
  text += storage_curve(result.storage_by_request, width);
  text += runs_section(result.runs, width);
  text += jobs_section(result, width);
  text += ranks_section(result.ranks, width);
  text += trials_section(result.trials, width);

  text += "\n";
  text += labelled("dataset", dataset_text(result.dataset), width);
  text += labelled("settings", setup_text(result), width);
  if (result.order && result.order->kind != "random") text += labelled("order", order_text(*result.order), width);
  text += labelled("machine", host_text(result.host), width);

  std::string others;
  for (const AdviceRecord& one : result.advice)
    if (one.text != first_step) others += paragraph("  - ", one.text, width);
  if (!others.empty()) text += "\nother ways\n" + others;
  return text + console::findings_section(result.findings, style);
}

}  // namespace dsanalyze

namespace dsanalyze::console {
namespace {

using namespace report;

std::string labelled(const std::string& label, const std::string& text, std::size_t width) {
  constexpr std::size_t label_width = 10;
  return paragraph(fmt::format("  {:<{}}", label, label_width), text, width);
}

std::string step_text(const WaitsRecord& waits) {
  constexpr double least_fraction = 0.005;
  const bool among_ranks = waits.ranks.fraction > least_fraction;
  std::string text = fmt::format("{} = {} compute + {} waiting{}", format_seconds(waits.step_seconds), format_seconds(waits.compute.seconds_per_step),
                                 format_seconds(waits.data.seconds_per_step), among_ranks ? " for data" : "");
  if (among_ranks) text += fmt::format(" + {} waiting for ranks", format_seconds(waits.ranks.seconds_per_step));
  if (waits.outside.fraction > least_fraction) {
    text += fmt::format(" + {} outside the loop's steps", format_seconds(waits.outside.seconds_per_step));
    if (waits.validation.fraction > least_fraction) text += fmt::format(" ({} validation)", format_seconds(waits.validation.seconds_per_step));
  }
  text += fmt::format(" (p99 wait {})", format_seconds(waits.data_p99_seconds));
  if (!waits.delaying_rank) return text;
  const double without = step_without(waits.by_rank, *waits.delaying_rank);
  if (without <= 0 || without >= waits.step_seconds) return text;
  // Loaders of ranks that wait for another have time to prepare ahead, which they would lose.
  const bool known = std::ranges::all_of(
      waits.by_rank, [&waits](const RankWaitsRecord& each) { return each.rank == *waits.delaying_rank || each.supply_seconds_per_step.has_value(); });
  return text +
         fmt::format("; without this delay {} {} ({:.1f}x)", known ? "about" : "at best", format_seconds(without), waits.step_seconds / without);
}

/// "reads 112 KB a sample in 1.1 requests from 12,000 files".
std::string reads_text(const ReadsRecord& reads) {
  std::string text;
  if (reads.requests > 0)
    text = fmt::format("{} a sample in {} {} from {} {}", format_bytes(static_cast<Bytes>(reads.bytes_per_sample)),
                       format_number(reads.requests_per_sample), reads.requests_per_sample == 1 ? "request" : "requests",
                       format_number(static_cast<double>(reads.files)), reads.files == 1 ? "file" : "files");
  if (reads.mapped_files > 0)
    text += fmt::format("{}{} {} of {} {} memory-mapped", text.empty() ? "" : "; ", format_number(static_cast<double>(reads.mapped_files)),
                        reads.mapped_files == 1 ? "file" : "files", format_bytes(reads.mapped_bytes), reads.mapped_files == 1 ? "is" : "are");
  if (reads.network_bytes && reads.seconds > 0)
    text += fmt::format("{}receives {} over the network", text.empty() ? "" : "; ",
                        format_bytes_per_second(static_cast<double>(*reads.network_bytes) / reads.seconds));
  return text;
}

std::string between_text(const BetweenEpochsRecord& between) {
  std::string text = fmt::format("{} each time, of which {} validation, {} workers that end and start", format_seconds(between.seconds),
                                 format_seconds(between.validation_seconds), format_seconds(between.data_seconds));
  if (between.sampler_seconds) text += fmt::format(", {} choosing samples (the sampler)", format_seconds(*between.sampler_seconds));
  return text + fmt::format(", {} other ({} seen)", format_seconds(std::max(between.outside_seconds - between.sampler_seconds.value_or(0), 0.0)),
                            between.epochs);
}

/// "0 to 3 ms" of the ranks but one.
std::string range_text(const std::vector<RankWaitsRecord>& ranks, int but, WaitRecord RankWaitsRecord::*part) {
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  for (const RankWaitsRecord& each : ranks) {
    if (each.rank == but) continue;
    least = std::min(least, (each.*part).seconds_per_step);
    most = std::max(most, (each.*part).seconds_per_step);
  }
  const std::string low = format_seconds(least);
  const std::string high = format_seconds(most);
  return low == high ? low : low + " to " + high;
}

std::string ranks_table(const WaitsRecord& waits, std::size_t width) {
  if (waits.by_rank.empty()) return "";
  Table table({{"rank", Table::Align::left},
               {"waits for data", Table::Align::right},
               {"computes", Table::Align::right},
               {"outside", Table::Align::right},
               {"waits for other ranks", Table::Align::right}},
              3);
  constexpr std::size_t few = 4;
  const bool summed = waits.delaying_rank && waits.by_rank.size() > few;
  for (const RankWaitsRecord& rank : waits.by_rank) {
    if (summed && rank.rank != *waits.delaying_rank) continue;
    table.add({fmt::format("{}", rank.rank), format_seconds(rank.data.seconds_per_step), format_seconds(rank.compute.seconds_per_step),
               format_seconds(rank.outside.seconds_per_step), format_seconds(rank.ranks.seconds_per_step)});
  }
  if (summed) {
    const auto range = [&](WaitRecord RankWaitsRecord::*part) { return range_text(waits.by_rank, *waits.delaying_rank, part); };
    table.add({"others", range(&RankWaitsRecord::data), range(&RankWaitsRecord::compute), range(&RankWaitsRecord::outside),
               range(&RankWaitsRecord::ranks)});
  }
  return "\n" + table.text(width);
}

/// "pil_loader 61 %, RandomResizedCrop 19 % of worker CPU time".
std::string hot_text(const std::vector<StageRecord>& hot) {
  constexpr std::size_t most_shown = 4;
  std::vector<std::string> parts;
  for (const StageRecord& stage : hot)
    if (parts.size() < most_shown) parts.push_back(fmt::format("{} {:.0f} %", printable(stage.name), 100 * stage.fraction));
  return fmt::format("{} of worker CPU time", fmt::join(parts, ", "));
}

/// "train.py:41 num_workers=10 (now 4): 3,880 ± 160 samples/s (2.3x)", what is next, and how to try it.
std::string fix_lines(const ProfileResult& result, std::size_t width) {
  const FixRecord& fix = *result.fix;
  const std::string place =
      result.loader && !result.loader->file.empty()
          ? fmt::format("{}:{} ", printable(result.loader->file.substr(result.loader->file.rfind('/') + 1)), result.loader->line)
          : "";
  return labelled(result.trusted ? "fix" : "perhaps",
                  fmt::format("{}num_workers={} (now {}): {} samples/s ({:.1f}x)", place, fix.workers, result.loader ? result.loader->workers : 0,
                              format_rate(fix.samples_per_s, fix.ci95_samples_per_s), fix.speedup),
                  width) +
         labelled("", fmt::format("next: {}{}", fix.next, fix.too_close ? " (inconclusive, intervals overlap)" : ""), width) +
         labelled("check", fmt::format("{} (about {})", fix.check, format_seconds(fix.check_seconds)), width);
}

/// "1,608,000 as found; 106,775,000 [P]; 1,734,000 [G]".
std::string tokens_text(const ProfileResult& result, std::uint64_t tokens) {
  std::vector<std::string> rates;
  const auto add = [&](double samples_per_s, const char* of) {
    rates.push_back(fmt::format("{}{}", format_number(samples_per_s * static_cast<double>(tokens)), of));
  };
  if (const RunRecord* full = result.run("full")) add(full->samples_per_s, " as found");
  if (result.prep) add(result.prep->samples_per_s, " [P]");
  if (result.ingestion) add(result.ingestion->samples_per_s, " [G]");
  return fmt::format("{}", fmt::join(rates, "; "));
}

/// Of the advice that the lines above do not give, the first.
std::string further_advice(const ProfileResult& result, std::size_t width) {
  constexpr std::size_t most_shown = 3;
  std::string text;
  std::size_t shown = 0;
  for (const AdviceRecord& advice : result.advice) {
    if (shown == most_shown || (result.waits && result.waits->delaying_rank)) break;
    if (!result.fix && advice.text == first_step(result)) continue;
    text += labelled(shown == 0 ? "also" : "", advice.text, width);
    ++shown;
  }
  return text;
}

/// Whether S is below what the training could take: ", not limiting".
std::string limiting_text(const ProfileResult& result) {
  if (result.bottleneck && result.bottleneck->detail == "storage") return ", limiting";
  const double needed = std::min(result.prep ? known_interval(*result.prep).high : std::numeric_limits<double>::infinity(),
                                 result.ingestion ? known_interval(*result.ingestion).high : std::numeric_limits<double>::infinity());
  if (known_interval(*result.storage).low > needed) return ", not limiting";
  return ", not limiting while the data lies in memory";
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

/// The time a sample, by differences of rates.
std::string time_text(const ProfileResult::Stalls& stalls) {
  std::string text = report::share_with_interval(stalls.compute) + " compute";
  if (stalls.contention) text += ", " + report::share_with_interval(*stalls.contention) + " contention with the loader's workers";
  return text +
         fmt::format(", {} waiting for prep, {} for storage", report::share_with_interval(stalls.prep), report::share_with_interval(stalls.fetch));
}

}  // namespace

std::string attached_summary(const ProfileResult& result, const ConsoleStyle& style) {
  const std::size_t width = layout_width(style);
  std::string text;
  for (const std::string& line : wrap(verdict(result), width)) text += paint(line, Ink::bold, style.colour) + "\n";
  if (result.waits) text += labelled("step", step_text(*result.waits), width);
  if (result.waits && result.waits->between_epochs) text += labelled("between", "epochs: " + between_text(*result.waits->between_epochs), width);
  if (result.reads && (result.reads->files > 0 || result.reads->network_bytes)) text += labelled("reads", reads_text(*result.reads), width);
  if (result.waits) text += ranks_table(*result.waits, width);
  const auto rate = [&](const std::string& label, const RateRecord& record, const std::string& letter, const std::string& rest) {
    text += labelled(label, fmt::format("{} samples/s [{}]{}", format_rate(record.samples_per_s, record.ci95_samples_per_s), letter, rest), width);
  };
  if (result.prep)
    rate("prep", *result.prep, "P",
         fmt::format(", {}, {} usable cores", result.loader ? report::workers_text(*result.loader) : "0 workers", format_number(result.host.cores)));
  const std::string batch = batch_text(result);
  if (result.ingestion) rate(trainer_name(result), *result.ingestion, "G", batch.empty() ? "" : ", " + batch);
  if (result.storage) rate("storage", *result.storage, "S", limiting_text(result));
  if (result.predicted_steady) text += labelled("steady", steady_text(*result.predicted_steady), width);
  if (result.prep_by_workers.size() > 1) {
    std::vector<std::string> points;
    for (const WorkerPoint& point : result.prep_by_workers)
      points.push_back(fmt::format("{}: {}", point.workers, format_number(point.samples_per_s)));
    text += labelled("workers", fmt::format("P by num_workers: {}", fmt::join(points, "; ")), width);
  }
  if (!result.hot.empty()) text += labelled("hot", hot_text(result.hot), width);
  if (const RunRecord* full = result.run("full")) {
    std::string reached = fmt::format("{} samples/s as found", format_rate(full->samples_per_s, full->ci95_samples_per_s));
    if (const RunRecord* cached = result.run("cached"))
      reached += fmt::format("; {} with its data in memory", format_rate(cached->samples_per_s, cached->ci95_samples_per_s));
    text += labelled("reached", reached, width);
  }
  if (result.stalls) text += labelled("time", time_text(*result.stalls), width);
  if (result.loader && result.loader->tokens_per_sample) text += labelled("tokens/s", tokens_text(result, *result.loader->tokens_per_sample), width);
  const bool by_sampler = result.bottleneck && result.bottleneck->detail == "sampler";
  if (result.fix && !by_sampler && !(result.waits && result.waits->delaying_rank))
    text += fix_lines(result, width);
  else
    text += labelled("do first", first_step(result), width);
  text += further_advice(result, width);
  if (result.prep || !result.trusted) text += labelled("trust", trust_text(result), width);
  if (result.bottleneck) text += labelled("sure", confidence(result), width);
  if (result.loader) text += labelled("loader", loader_text(*result.loader), width);
  return text + findings_section(result.findings, style);
}

}  // namespace dsanalyze::console
