#include "whatif_lists.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "cli/options/option_kinds.hpp"
#include "cli/process/data_files.hpp"
#include "command.hpp"
#include "core/device.hpp"
#include "core/workload.hpp"

namespace dsanalyze::cli {
namespace {

/// A storage without limit, as a factor that JSON can hold.
constexpr double no_limit_factor = 1e9;

double mean_sample_bytes(const RateModel& model, const std::string& text) {
  if (!model.dataset_bytes || !model.dataset_samples)
    throw UsageError(fmt::format("{}: what a device brings needs the size of a sample: add --base dataset=146GiB,samples=1281167", text));
  return static_cast<double>(*model.dataset_bytes) / static_cast<double>(*model.dataset_samples);
}

/// The grammar of profile's --storage, and factors.
WhatIfQuestion::StorageChange storage_change(const std::string& text, const RateModel& model) {
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
  const ConfigFile file = config_file(ConfigKind::storage, device);
  const StorageSpec spec = parse_storage(file.text, file.source);
  const StorageDeviceSpec recurrence{spec.bandwidth_bytes_per_s.value, to_nanoseconds(spec.request_latency_seconds.value),
                                     static_cast<std::uint32_t>(spec.queue_depth)};
  return {storage_device_rate(recurrence, mean_sample_bytes(model, text), spec.queue_depth), std::nullopt};
}

}  // namespace

WhatIfQuestion whatif_question(const TypedOptions& typed, const RateModel& model) {
  WhatIfQuestion question;
  typed.put(question);
  typed.set(question.storage, "--storage", [&model](const std::string& list) {
    std::vector<WhatIfQuestion::StorageChange> changes;
    for (const std::string& text : split_list(list)) changes.push_back(storage_change(text, model));
    return changes;
  });
  return question;
}

}  // namespace dsanalyze::cli
