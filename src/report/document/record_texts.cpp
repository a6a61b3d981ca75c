#include "record_texts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text/text.hpp"
#include "base/text/units.hpp"
#include "core/records/rate_text.hpp"

namespace dsanalyze::report {

std::string change_text(const WhatIfChange& change) {
  std::vector<std::string> parts;
  if (change.cache_fraction) {
    parts.push_back("cache " + format_share(*change.cache_fraction));
    if (change.cache_bytes) parts.back() += " (" + format_bytes(*change.cache_bytes) + ")";
  }
  if (!change.cache.empty()) parts.push_back("cache kind " + change.cache);
  if (change.workers) parts.push_back(fmt::format("num_workers={}", *change.workers));
  if (change.cores) parts.push_back(format_number(*change.cores) + (*change.cores == 1 ? " core" : " cores"));
  if (change.cores_factor) parts.push_back(fmt::format("{}x cores", format_number(*change.cores_factor)));
  if (change.prep_place)
    parts.emplace_back(*change.prep_place == PrepPlace::split ? "prep split between GPU and cores"
                       : *change.prep_place == PrepPlace::gpu ? "prep on the GPU"
                                                              : "prep on the cores");
  if (change.transfer_factor) parts.push_back(fmt::format("{}x copies to the GPU", format_number(*change.transfer_factor)));
  if (change.accelerator_speed) parts.push_back(fmt::format("{}x accelerator speed", format_number(*change.accelerator_speed)));
  if (change.accelerators) parts.push_back(format_number(*change.accelerators) + (*change.accelerators == 1 ? " accelerator" : " accelerators"));
  if (change.storage_bytes_per_s) parts.push_back("storage " + format_bytes_per_second(*change.storage_bytes_per_s));
  if (change.storage_factor)
    parts.push_back(*change.storage_factor >= 1e9 ? "storage without limit" : fmt::format("{}x storage", format_number(*change.storage_factor)));
  if (!change.order.empty()) parts.push_back(change.order == "shards" ? "packed into shards" : "read in " + change.order + " order");
  if (change.request_bytes) parts.push_back("reads of " + format_bytes(static_cast<Bytes>(*change.request_bytes)));
  if (change.fetch_concurrency) parts.push_back(format_number(*change.fetch_concurrency) + " reads in flight");
  if (change.batch_size) parts.push_back("batches of " + format_number(*change.batch_size));
  if (change.jobs) parts.push_back(fmt::format("{} jobs, {}", *change.jobs, change.share == "none" ? "each for itself" : change.share));
  if (change.servers) {
    parts.push_back(fmt::format("{} servers", *change.servers));
    if (change.partition != "none") parts.push_back(partition_text(change));
    if (change.storage_scope == "shared") parts.emplace_back("shared storage");
    if (change.network_bytes_per_s) parts.push_back(format_bytes_per_second(*change.network_bytes_per_s) + " network");
  }
  return parts.empty() ? "unchanged" : fmt::format("{}", fmt::join(parts, ", "));
}

std::string partition_text(const WhatIfChange& change) {
  return change.partition + (change.balance_from == "storage" ? ", balanced from storage" : "");
}

std::string resource_words(const std::string& bottleneck) { return bottleneck == "gpu" ? "accelerators" : bottleneck == "cpu" ? "prep" : "fetch"; }

std::string resource_letter(const std::string& bottleneck) { return bottleneck == "gpu" ? "[G]" : bottleneck == "cpu" ? "[P]" : "[F]"; }

bool is_transfer(const WhatIfAnswer& answer) { return answer.detail == "transfer"; }

std::string reservation_marks(const WhatIfAnswer& answer) {
  return std::string(answer.too_close ? " ?" : "") + (answer.far_extrapolated() ? " ~" : "");
}

std::string price_list_text(const SearchResult& search) {
  std::string list = fmt::format("{} of {}", search.prices, search.prices_date);
  if (!search.prices_age_days || *search.prices_age_days < 0) return list;
  constexpr int days_of_a_year = 365;
  if (*search.prices_age_days < days_of_a_year) return fmt::format("{}, {} days old", list, *search.prices_age_days);
  return fmt::format("{}, {:.1f} years old", list, *search.prices_age_days / 365.25);
}

std::string attained_text(const WhatIfResult& result) {
  if (!result.attained) return "";
  return fmt::format(
      "the full run reached {} samples/s{}", format_rate(result.attained->samples_per_s, result.attained->ci95_samples_per_s),
      result.interference > 0 ? fmt::format("; interference took {} of its epoch, which no rate knows of", format_share(result.interference)) : "");
}

std::string far_extrapolated_text() {
  return fmt::format("a resource of it is more than {} times what was measured: an estimate, never certain", format_number(most_extrapolation));
}

std::string binding_words(const WhatIfAnswer& answer) { return is_transfer(answer) ? "copies to the GPU" : resource_words(answer.bottleneck); }

std::string binding_letter(const WhatIfAnswer& answer) { return is_transfer(answer) ? "[H]" : resource_letter(answer.bottleneck); }

std::string binding_text(const WhatIfAnswer& answer) { return binding_words(answer) + " " + binding_letter(answer) + reservation_marks(answer); }

std::string question_text(const std::string& question) {
  if (question == "cache") return "smallest cache without a fetch stall";
  if (question == "cores") return "fewest cores with which prep is not the bottleneck";
  if (question == "workers") return "fewest workers with which steps do not wait for prep";
  if (question == "accelerators") return "most accelerators that the data can feed";
  return "slowest storage without a fetch stall";
}

std::string value_text(double value, const std::string& unit) {
  if (unit == "of the dataset") return format_share(std::ceil(value * 1000 * (1 - 1e-12)) / 1000) + " " + unit;
  if (unit == "bytes/s") return format_bytes_per_second(value);
  return format_number(value) + " " + unit;
}

std::string doctor_counts(const DoctorResult& result) {
  const auto counted = [&](DoctorStatus status, const char* one, const char* many) {
    const std::size_t count = result.count(status);
    return count == 0 ? std::string() : fmt::format("{} {}, ", count, count == 1 ? one : many);
  };
  return counted(DoctorStatus::problem, "problem", "problems") + counted(DoctorStatus::warning, "warning", "warnings") +
         counted(DoctorStatus::note, "note", "notes") + counted(DoctorStatus::unknown, "not known", "not known") +
         fmt::format("{} fine", result.count(DoctorStatus::ok));
}

std::string_view place_of(DoctorCommand::Where where) {
  switch (where) {
    case DoctorCommand::Where::host:
      return "on host";
    case DoctorCommand::Where::launch:
      return "at start";
    case DoctorCommand::Where::here:
      break;
  }
  return "here";
}

std::string machine_line(const DoctorResult& result) {
  const std::string container = result.container.empty() ? "" : fmt::format("; in a container ({})", result.container);
  return fmt::format("{}, {} of {} cores usable, {} usable memory, Linux {}{}", printable(result.cpu_model), format_number(result.cores_usable),
                     result.cores_online, format_bytes(result.memory_usable_bytes), printable(result.kernel), container);
}

std::string dataset_line(const SimulateResult& result) {
  std::string text = fmt::format("{} samples, {}", format_number(static_cast<double>(result.samples)), format_bytes(result.dataset_bytes));
  if (result.orders) {
    text += fmt::format("; {} order", result.orders->order);
    if (result.orders->shuffle_buffer > 1) text += fmt::format(" through a shuffle buffer of {}", result.orders->shuffle_buffer);
  }
  if (result.jobs > 1) text += fmt::format("; {} jobs", result.jobs);
  if (result.jobs > 1 && result.orders) text += fmt::format(", each {} of an epoch after the one before", format_share(result.orders->stagger));
  return text + fmt::format("; {} accesses", format_number(static_cast<double>(result.accesses)));
}

std::string draws_line(const SimulateResult& result) {
  const SimulatedDraws& draws = *result.draws;
  return fmt::format("{} samples of {} prepared; {} drawn in {} rounds; recorded with {} and room for {}",
                     format_number(static_cast<double>(result.samples)), format_bytes(draws.place_bytes),
                     format_number(static_cast<double>(draws.drawn)), format_number(static_cast<double>(draws.rounds)), draws.recorded.policy,
                     format_number(draws.recorded.places));
}

std::string draws_notes() {
  return "samples: room of the store; from store: samples that jobs drew and that had been prepared before; preps: preparings over the samples "
         "drawn; "
         "fastest: preparings over the samples that the fastest job drew";
}

double share_of(const CacheCase& cache, Bytes dataset_bytes) {
  return static_cast<double>(cache.capacity) / static_cast<double>(std::max<Bytes>(dataset_bytes, 1));
}

std::string begun(std::string text) {
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'z') text.front() = static_cast<char>(text.front() - 'a' + 'A');
  return text;
}

void add_advice(const std::vector<AdviceRecord>& advice, Section& section) {
  if (advice.empty()) return;
  List list;
  for (const AdviceRecord& one : advice) list.items.push_back(one.text);
  section.blocks.emplace_back(std::move(list));
  // All advice of one result rests on the same rates.
  if (!advice.front().evidence.empty())
    section.blocks.emplace_back(Paragraph{fmt::format("This rests on: {}.", fmt::join(advice.front().evidence, "; ")), Paragraph::Tone::muted});
  Table steps{"the steps in a loader of your own", {{"what", Align::left}, {"loader", Align::left}, {"step", Align::left}}};
  for (const AdviceRecord& one : advice)
    for (const LoaderStep& step : one.steps) steps.add({one.code, step.loader, step.text});
  if (!steps.rows.empty()) section.blocks.emplace_back(Figure{"", "", {}, std::move(steps)});
}

std::string severity_word(Finding::Severity severity) {
  constexpr std::array words{"note", "warning", "error"};
  return words.at(static_cast<std::size_t>(severity));
}

Section findings_of(const std::vector<Finding>& findings) {
  Section section{"findings", "Findings"};
  Table table{"what to bear in mind, the most severe first", {{"severity", Align::left}, {"finding", Align::left}, {"code", Align::left}}};
  for (const auto severity : {Finding::Severity::error, Finding::Severity::warning, Finding::Severity::info})
    for (const Finding& finding : findings)
      if (finding.severity == severity) table.add({severity_word(severity), finding.message, finding.code});
  if (!table.rows.empty()) section.blocks.emplace_back(Figure{"", "", {}, std::move(table)});
  return section;
}

}  // namespace dsanalyze::report
