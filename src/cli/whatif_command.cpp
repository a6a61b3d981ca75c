#include "whatif_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "data_files.hpp"
#include "dsanalyze/base/error.hpp"
#include "dsanalyze/base/files.hpp"
#include "dsanalyze/core/device.hpp"
#include "dsanalyze/core/workload.hpp"
#include "dsanalyze/models/whatif.hpp"
#include "saved_profiles.hpp"

namespace dsanalyze::cli {
namespace {

/// A storage without limit, as a factor that JSON can hold.
constexpr double no_limit_factor = 1e9;
constexpr double most_cores = 1e6;

/// Parses each part of a list; errors name the option.
template <typename Value, typename Parse>
std::vector<Value> parsed_list(const std::string& option, const std::string& text, Parse parse) {
  std::vector<Value> values;
  if (text.empty()) return values;
  try {
    for (const std::string& part : split_list(text)) values.push_back(parse(part));
  } catch (const Error& error) {
    throw UsageError(fmt::format("{}: {}", option, error.what()));
  }
  return values;
}

bool is_factor(const std::string& text) { return text.ends_with('x') || text.ends_with('X'); }

/// "2x" or "8".
WhatIfQuestion::CoreChange core_change(const std::string& text) {
  if (is_factor(text)) return {std::nullopt, parse_factor(text)};
  const double cores = parse_number(text);
  if (cores <= 0 || cores > most_cores) throw UsageError(fmt::format("found \"{}\", expected a number of cores above 0, at most 1,000,000", text));
  return {cores, std::nullopt};
}

double positive_factor(const std::string& text) {
  const double factor = parse_factor(text);
  if (factor <= 0) throw UsageError(fmt::format("found \"{}\", expected a factor above 0, for example 2x", text));
  return factor;
}

double accelerator_count(const std::string& text) {
  if (is_factor(text)) throw UsageError(fmt::format("found \"{}\", expected a number; for a factor ask --accelerator-speed {}", text, text));
  return static_cast<double>(parse_integer(text, 1, 1'000'000));
}

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

class WhatIfCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("PROFILE", m_profile);
    app.add_option("--rates", m_rates);
    app.add_option("--base", m_base);
    app.add_option("--cache-size", m_cache_sizes);
    app.add_option("--cores", m_cores);
    app.add_option("--accelerator-speed", m_accelerator_speeds);
    app.add_option("--accelerators", m_accelerators);
    app.add_option("--storage", m_storage);
    app.add_option("--find", m_find);
    app.add_flag("--all", m_all);
  }

  Outcome run(const CommandContext& context) override {
    std::string source;
    std::vector<Finding> findings;
    const RateModel model = read_model(context, source, findings);
    const auto answered = [&](WhatIfQuestion::Combine combine) {
      WhatIfQuestion question = read_question(model);
      question.combine = combine;
      WhatIfResult result = answer(model, question);
      result.source = source;
      result.findings.insert(result.findings.begin(), findings.begin(), findings.end());
      return result;
    };
    using enum WhatIfQuestion::Combine;
    Outcome outcome;
    // JSON always holds every combination; on the console they would bury the answer.
    if (context.options.json || context.options.output) outcome.json = to_json(answered(every_combination));
    if (!context.options.json) outcome.text = console_summary(answered(m_all ? every_combination : one_at_a_time), context.style);
    return outcome;
  }

 private:
  RateModel read_model(const CommandContext& context, std::string& source, std::vector<Finding>& findings) const {
    if (!m_rates.empty()) {
      if (!m_profile.empty()) throw UsageError(fmt::format("both a profile ({}) and --rates are given: give one", m_profile));
      source = "typed rates";
      return rate_model_from_text(m_rates, m_base);
    }
    if (!m_base.empty()) throw UsageError("--base describes the set-up behind typed rates (--rates); a profile knows its own");
    const std::filesystem::path path = m_profile.empty() ? last_profile_path() : std::filesystem::path(m_profile);
    source = path.string();
    if (m_profile.empty()) context.events.note("using the last profile, " + source);
    const ProfileResult profile = profile_from_json(read_file(path), source);
    if (!profile.trusted)
      findings.push_back({"profile-not-trusted", Finding::Severity::warning,
                          "The profile is not trusted (its findings say why), so neither are these answers. Profile again after mending that."});
    return rate_model(profile);
  }

  [[nodiscard]] WhatIfQuestion read_question(const RateModel& model) const {
    WhatIfQuestion question;
    question.cache_sizes = parsed_list<ByteAmount>("--cache-size", m_cache_sizes, parse_byte_amount);
    question.cores = parsed_list<WhatIfQuestion::CoreChange>("--cores", m_cores, core_change);
    question.accelerator_speeds = parsed_list<double>("--accelerator-speed", m_accelerator_speeds, positive_factor);
    question.accelerators = parsed_list<double>("--accelerators", m_accelerators, accelerator_count);
    question.storage =
        parsed_list<WhatIfQuestion::StorageChange>("--storage", m_storage, [&model](const std::string& text) { return storage_change(text, model); });
    question.find = parsed_list<std::string>("--find", m_find, [](const std::string& text) {
      return checked_choice("the value", text, {"cache", "cores", "accelerators", "storage"});
    });
    return question;
  }

  std::string m_profile;
  std::string m_rates;
  std::string m_base;
  std::string m_cache_sizes;
  std::string m_cores;
  std::string m_accelerator_speeds;
  std::string m_accelerators;
  std::string m_storage;
  std::string m_find;
  bool m_all = false;
};

}  // namespace

std::unique_ptr<Command> make_whatif_command() { return std::make_unique<WhatIfCommand>(); }

}  // namespace dsanalyze::cli
