#include "search_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "cli/commands/command.hpp"
#include "cli/process/data_files.hpp"
#include "core/device.hpp"
#include "core/records/price_list.hpp"
#include "core/workload.hpp"
#include "option_kinds.hpp"

namespace dsanalyze::cli {
namespace {

/// Of the 30 s that a search may take; the rest is for the closed form and for a simulation that is still running.
constexpr double most_simulation_seconds = 25;

/// The profile's "emulated:v100" or "v100" where the list has it.
std::optional<std::string> listed_accelerator(const std::string& name, const PriceList& prices) {
  const std::size_t colon = name.find(':');
  const std::string kind = colon == std::string::npos ? name : name.substr(colon + 1);
  return prices.accelerators.contains(kind) ? std::optional(kind) : std::nullopt;
}

void refuse_other_lists(const WhatIfQuestion& asked) {
  const auto refuse = [](bool given, const char* option) {
    if (given)
      throw UsageError(
          fmt::format("{} does not go with --search: the price list says what there is to buy; --cores, --cache-size, --accelerators and --servers "
                      "narrow the search",
                      option));
  };
  refuse(!asked.accelerator_speeds.empty(), "--accelerator-speed");
  refuse(!asked.transfers.empty(), "--transfer");
  refuse(!asked.prep_places.empty(), "--prep");
  refuse(!asked.storage.empty(), "--storage");
  refuse(!asked.orders.empty(), "--order");
  refuse(!asked.batch_sizes.empty(), "--batch-size");
  refuse(!asked.request_sizes.empty(), "--request-size");
  refuse(!asked.concurrencies.empty(), "--io-depth");
  refuse(!asked.jobs.empty(), "--jobs");
  refuse(!asked.shares.empty(), "--share");
  refuse(!asked.partitions.empty(), "--partition");
  refuse(!asked.balances.empty(), "--balance-from");
  refuse(!asked.scopes.empty(), "--storage-scope");
  refuse(!asked.networks.empty(), "--network");
}

void narrow(SearchQuestion& question, const WhatIfQuestion& asked, const RateModel& model) {
  for (const auto& change : asked.cores) {
    if (!change.cores && !model.cores) continue;  // the search says that the number of cores is missing
    question.cores.push_back(change.cores ? *change.cores : *change.factor * *model.cores);
  }
  for (const ByteAmount& amount : asked.cache_sizes) {
    const bool in_bytes = amount.kind == ByteAmount::Kind::bytes;
    if (in_bytes && !model.dataset_bytes) continue;
    question.cache_fractions.push_back(std::min(1.0, in_bytes ? amount.share_of(*model.dataset_bytes) : amount.fraction));
  }
  for (const std::uint32_t servers : asked.servers) question.servers.push_back(static_cast<int>(servers));
  for (const double count : asked.accelerators) question.accelerators.push_back(static_cast<int>(count));
}

}  // namespace

SearchQuestion::Target parse_search_target(const std::string& text) {
  SearchQuestion::Target target{text, std::nullopt, std::nullopt};
  std::string rate = text;
  if (rate.ends_with("/s")) {
    rate.resize(rate.size() - 2);
    const std::string unit = "samples";
    if (rate.ends_with(unit)) rate.resize(rate.size() - unit.size());
  } else if (!text.empty() && std::isdigit(static_cast<unsigned char>(text.back())) == 0 && !text.ends_with('k') && !text.ends_with('M')) {
    rate.clear();
  }
  try {
    if (rate.empty())
      target.epoch_seconds = parse_seconds(text);
    else
      target.samples_per_s = parse_number(rate);
  } catch (const Error&) {
    throw UsageError(fmt::format("--target {}: expected an epoch's time or a rate in samples/s, for example 10min or 5000/s", text));
  }
  if (!(target.epoch_seconds.value_or(1) > 0 && target.samples_per_s.value_or(1) > 0))
    throw UsageError(fmt::format("--target {}: expected a time or a rate above 0, for example 10min or 5000/s", text));
  return target;
}

bool SearchOptions::asked() const {
  if (m_typed.given("--search")) return true;
  for (const char* option : {"--prices", "--target", "--measured-accelerator"})
    if (m_typed.given(option)) throw UsageError(fmt::format("{} belongs to --search: add it", option));
  return false;
}

SearchResult SearchOptions::search(const RateModel& model, const WhatIfQuestion& asked_lists, const ProfileResult* profile,
                                   const CommandContext& context) const {
  if (!m_typed.given("--prices"))
    throw UsageError("--search needs prices: add --prices NAME or --prices FILE.json (known ones: dsanalyze list prices)");
  refuse_other_lists(asked_lists);
  const ConfigFile file = config_file(ConfigKind::prices, m_typed.text("--prices"));
  SearchQuestion question;
  question.prices = parse_price_list(file.text, file.source);
  question.prices_path = file.source;
  question.today = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
  if (m_typed.given("--target")) question.target = parse_search_target(m_typed.text("--target"));
  if (m_typed.given("--measured-accelerator"))
    question.measured_accelerator = m_typed.text("--measured-accelerator");
  else if (profile != nullptr)
    question.measured_accelerator = listed_accelerator(profile->settings.accelerator_name, question.prices);
  narrow(question, asked_lists, model);

  const Clock& clock = *system_timing().clock;
  const Deadline deadline = clock.after(most_simulation_seconds);
  SearchHooks hooks;
  hooks.simulate = [&, simulate =
                           epoch_simulation(model, question.prices, profile != nullptr ? profile->distributions : ProfileResult::Distributions{})](
                       const SearchPoint& point) { return clock.now() < deadline.at ? simulate(point) : std::nullopt; };
  hooks.progress = [&](const Progress& progress) {
    if (context.stop.stop_requested()) throw Interrupted();
    context.events.progress(progress);
  };
  return search_setups(model, question, hooks);
}

namespace {

/// A storage without limit, as a factor that JSON can hold.
constexpr double no_limit_factor = 1e9;

/// The grammar of profile's --storage, and factors.
WhatIfQuestion::StorageChange storage_change(const std::string& text, const std::optional<double>& sample_bytes) {
  static const std::string emulated = "emulated:";
  if (text == "real") return {std::nullopt, 1.0};
  if (text == "null") return {std::nullopt, no_limit_factor};
  if (is_factor(text)) return {std::nullopt, positive_factor(text)};
  const std::string device = text.starts_with(emulated) ? text.substr(emulated.size()) : text;
  if (device.find('/') != std::string::npos && !device.empty() && device.front() >= '0' && device.front() <= '9')
    return {parse_bytes_per_second(device), std::nullopt};
  if (!text.starts_with(emulated)) {
    const std::vector<std::string> words{"real", "null"};
    throw UsageError(
        fmt::format("found \"{}\"{}, expected a factor (2x), a rate (530MB/s), emulated:NAME, real or null", text, did_you_mean(text, words)));
  }
  if (!sample_bytes)
    throw UsageError(fmt::format("{}: what a device brings needs the size of a sample: add --base dataset=146GiB,samples=1281167", text));
  const ConfigFile file = config_file(ConfigKind::storage, device);
  const StorageSpec spec = parse_storage(file.text, file.source);
  const StorageDeviceSpec recurrence{spec.bandwidth_bytes_per_s.value, to_nanoseconds(spec.request_latency_seconds.value),
                                     static_cast<std::uint32_t>(spec.queue_depth)};
  return {storage_device_rate(recurrence, *sample_bytes, spec.queue_depth), std::nullopt};
}

}  // namespace

std::vector<WhatIfQuestion::StorageChange> storage_changes(const TypedOptions& typed, const std::optional<double>& sample_bytes) {
  std::vector<WhatIfQuestion::StorageChange> changes;
  typed.set(changes, "--storage", [&sample_bytes](const std::string& list) {
    std::vector<WhatIfQuestion::StorageChange> listed;
    for (const std::string& text : split_list(list)) listed.push_back(storage_change(text, sample_bytes));
    return listed;
  });
  return changes;
}

WhatIfQuestion whatif_question(const TypedOptions& typed, const RateModel& model) {
  WhatIfQuestion question;
  typed.put(question);
  std::optional<double> sample_bytes;
  if (model.dataset_bytes && model.dataset_samples)
    sample_bytes = static_cast<double>(*model.dataset_bytes) / static_cast<double>(*model.dataset_samples);
  question.storage = storage_changes(typed, sample_bytes);
  return question;
}

}  // namespace dsanalyze::cli
