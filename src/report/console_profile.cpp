#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "console_table.hpp"
#include "console_verdict.hpp"
#include "dsanalyze/core/rate_text.hpp"
#include "dsanalyze/report/report.hpp"

namespace dsanalyze {
namespace {

using console::Ink;
using console::paint;
using console::paragraph;
using console::Table;

constexpr std::size_t label_width = 10;

std::string labelled(const std::string& label, const std::string& text, std::size_t width) {
  return paragraph(fmt::format("  {:<{}}", label, label_width), text, width);
}

/// "37 ± 2 %"
std::string share_with_interval(const StallRecord& stall) {
  const double half = (stall.ci95_fraction.high - stall.ci95_fraction.low) / 2;
  if (!(half > 0)) return format_share(stall.fraction);
  std::string share = format_share(stall.fraction);
  const std::string half_text = format_share(half);
  share.resize(share.size() - std::string(" %").size());
  return share + " ± " + half_text;
}

/// The epoch in characters, 40 where there is room: compute, then prep, then fetch.
std::string epoch_bar(const ProfileResult::Stalls& stalls, std::size_t width) {
  const double cells = std::min(40.0, static_cast<double>(width - label_width) - 4);
  const auto upto = [cells](double share) { return static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * cells)); };
  const std::size_t compute = upto(stalls.compute.fraction);
  const std::size_t prep = std::max(upto(stalls.compute.fraction + stalls.prep.fraction), compute);
  return "[" + std::string(compute, '#') + std::string(prep - compute, '=') + std::string(static_cast<std::size_t>(cells) - prep, '.') + "]";
}

std::string epoch_split(const ProfileResult::Stalls& stalls, std::size_t width) {
  const auto row = [width](char mark, const std::string& name, const StallRecord& stall) {
    return paragraph(fmt::format("  {:<{}}{} {:<8} ", "", label_width, mark, name),
                     share_with_interval(stall) + (stall.seconds_per_epoch > 0 ? ", " + format_seconds(stall.seconds_per_epoch) : ""), width);
  };
  return fmt::format("  {:<{}}{}\n", "epoch", label_width, epoch_bar(stalls, width)) + row('#', "compute", stalls.compute) +
         row('=', "prep", stalls.prep) + row('.', "fetch", stalls.fetch);
}

std::string seam_text(Seam seam, const std::string& emulated) { return seam == Seam::real ? "real" : seam == Seam::null ? "null" : emulated; }

std::string setup_text(const ProfileResult& result) {
  const ProfileSettings& settings = result.settings;
  std::vector<std::string> parts;
  const std::string storage =
      settings.storage_name.empty() ? "emulated " + format_bytes_per_second(settings.storage_bytes_per_s) : settings.storage_name;
  parts.push_back("storage " + seam_text(settings.storage, storage));
  parts.push_back("prep " + seam_text(settings.prep, fmt::format("emulated {} samples/s a core", format_number(settings.prep_rate_per_core))));
  switch (settings.accelerator) {
    case AcceleratorKind::none:
      parts.emplace_back("no accelerator");
      break;
    case AcceleratorKind::null:
      parts.emplace_back("null accelerator");
      break;
    case AcceleratorKind::emulated:
      parts.push_back(fmt::format("accelerators {} x {}", settings.accelerators, settings.accelerator_name));
      break;
  }
  std::string cache = "cache " + cache_kind_name(settings.cache);
  if (result.fetch && result.fetch->cache_fraction) cache += ", " + format_share(*result.fetch->cache_fraction) + " of the dataset";
  if (settings.admission == Admission::cost_aware) cache += ", cost-aware admission";
  parts.push_back(cache);
  if (settings.storage == Seam::real && settings.io != IoEngine::automatic)
    parts.push_back(fmt::format("reads by {}, {}", settings.io == IoEngine::uring ? "io_uring" : "threads",
                                settings.read_mode == ReadMode::direct ? "direct" : "buffered"));
  if (settings.scale != 1) parts.push_back(fmt::format("scale 1:{}", format_number(settings.scale)));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string dataset_text(const DatasetRecord& dataset) {
  std::string text = fmt::format("{}: {} samples, {}{}", dataset.path, format_number(static_cast<double>(dataset.samples)),
                                 format_bytes(dataset.bytes), dataset.sizes_sampled ? " (estimated from a sample of the files)" : "");
  if (dataset.subset_samples > 0 && dataset.subset_samples < dataset.samples)
    text += fmt::format("; the runs used a random subset of {} samples, {}", format_number(static_cast<double>(dataset.subset_samples)),
                        format_bytes(dataset.subset_bytes));
  return text;
}

std::string host_text(const HostRecord& host) {
  std::vector<std::string> parts;
  if (!host.cpu_model.empty()) parts.push_back(host.cpu_model);
  parts.push_back(fmt::format("{} usable cores", format_number(host.cores)));
  parts.push_back(format_bytes(host.memory_bytes) + " usable memory");
  if (!host.storage_device.empty())
    parts.push_back(fmt::format("{}{}", host.storage_device, host.storage_filesystem.empty() ? "" : " (" + host.storage_filesystem + ")"));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string rate_note(const RateRecord& rate) {
  std::vector<std::string> notes;
  if (rate.bytes_per_s > 0) notes.push_back(format_bytes_per_second(rate.bytes_per_s));
  if (rate.cache_fraction) notes.push_back(format_share(*rate.cache_fraction) + " cached");
  if (rate.windows == 1) notes.emplace_back("one window: interval not known");
  if (rate.void_windows > 0) notes.push_back(fmt::format("{} of {} windows void", rate.void_windows, rate.windows + rate.void_windows));
  return fmt::format("{}", fmt::join(notes, ", "));
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
  add("the accelerators want", result.ingestion, "[G]");
  add("prep can deliver", result.prep, "[P]");
  add("the cache can deliver", result.cache, "[C]");
  add("storage can deliver", result.storage, "[S]");
  add("fetch (cache and storage)", result.fetch, "[F]");
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
  std::vector<Table::Column> columns{{"storage, MB/s, by request and number under way", Table::Align::left}};
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
  return "\n" + table.text(width);
}

std::string order_text(const OrderRecord& order) {
  if (order.kind == "random") return "random: every sample anywhere in the epoch";
  return fmt::format(
      "{}, shuffle buffer {} samples{}: samples move {} as far as in a random order, {} stay beside their neighbour, rank correlation "
      "with the files {:.2f}, a batch draws on {} of the files that a random one does",
      order.kind, order.shuffle_buffer, order.readers > 1 ? fmt::format(", {} readers", order.readers) : "", format_share(order.mean_displacement),
      format_share(order.neighbours), order.rank_correlation, format_share(order.batch_files));
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
  return "\n" + table.text(width);
}

/// The figure's own name and formula, and that it is not theirs to vouch for.
std::string utilisation_text(const AcceleratorUtilisation& au, const std::string& run) {
  return fmt::format("{} % by MLPerf Storage's formula (no MLPerf result): {} of {} in the {} run, {} emulated accelerators", format_number(au.value),
                     format_seconds(au.compute_seconds), format_seconds(au.total_seconds), run, au.accelerators);
}

std::string observed_text(const ProfileResult::Observed& observed) {
  return fmt::format("your own job reaches {} samples/s; {} of what this machine could feed with dsanalyze's own loader is unused",
                     format_number(observed.samples_per_s), format_share(observed.unused_fraction));
}

}  // namespace

std::string console_summary(const ProfileResult& result, const ConsoleStyle& style) {
  const std::size_t width = console::layout_width(style);
  const std::string first_step = console::first_step(result);
  std::string text;
  for (const std::string& line : console::wrap(console::verdict(result), width)) text += paint(line, Ink::bold, style.colour) + "\n";
  text += "\n";
  if (result.stalls) text += epoch_split(*result.stalls, width);
  text += labelled("do first", first_step, width);
  text += labelled("sure", console::confidence(result), width);
  if (const RunRecord* full = result.run("full"); full != nullptr && full->mlperf_storage_au)
    text += labelled("AU", utilisation_text(*full->mlperf_storage_au, full->name), width);
  if (result.observed) text += labelled("observed", observed_text(*result.observed), width);

  text += rates_section(result, width);
  text += storage_curve(result.storage_by_request, width);
  text += runs_section(result.runs, width);

  text += "\n";
  text += labelled("dataset", dataset_text(result.dataset), width);
  text += labelled("set-up", setup_text(result), width);
  if (result.order && result.order->kind != "random") text += labelled("order", order_text(*result.order), width);
  text += labelled("machine", host_text(result.host), width);

  std::string others;
  for (const AdviceRecord& one : result.advice)
    if (one.text != first_step) others += paragraph("  - ", one.text, width);
  if (!others.empty()) text += "\nother ways\n" + others;
  return text + console::findings_section(result.findings, style);
}

}  // namespace dsanalyze
