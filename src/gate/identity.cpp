#include "runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/text/json_reader.hpp"
#include "base/text/text.hpp"
#include "metrics.hpp"

namespace dsanalyze::gate {
namespace {

const std::vector<std::string> groups = {"dataset", "host", "settings"};

/// "6.1" of "6.1.0-18-amd64": fixes within a series leave speed as it is, mostly.
std::string kernel_series(const std::string& kernel) {
  const auto first = kernel.find('.');
  if (first == std::string::npos) return kernel;
  return kernel.substr(0, kernel.find_first_not_of("0123456789", first + 1));
}

constexpr const char* memory_field = "host.memory_total";
constexpr const char* contents_field = "dataset.content_sample_digest";
constexpr const char* command_field = "command";

std::string memory_text(Bytes bytes) { return fmt::format("{:.4g} GiB", static_cast<double>(bytes) / (Bytes{1} << 30)); }

/// What a kernel reserves differs by some megabytes from boot to boot.
bool is_same_memory(const std::string& one, const std::string& other) {
  constexpr double tolerance = 0.02;
  const double first = std::strtod(one.c_str(), nullptr);
  const double second = std::strtod(other.c_str(), nullptr);
  return std::fabs(first - second) <= tolerance * std::max(first, second);
}

std::string group_of(const std::string& field) { return field.substr(0, field.find('.')); }

bool is_ignored(const std::string& field, const GateOptions& options) {
  if (options.normalize == Normalize::by_calibration && is_covered_by_normalizing(field)) return true;
  return std::ranges::any_of(options.ignore, [&field](const std::string& name) { return name == field || name == group_of(field); });
}

std::string value_of(const Identity& identity, const std::string& field) {
  const auto at = identity.find(field);
  return at == identity.end() ? "not there" : at->second;
}

/// Which samples of a dataset a result's content digest is over follows from the index and the seed, so digests of other draws say nothing about one
/// another; nor does a result without one, as older results and those of emulated datasets are.
class ContentSamples {
 public:
  /// The first run of the same draw if it found other contents, else nullptr. Keeps the run, which must stay.
  const GateRun* contradicted_by(const GateRun& run) {
    const DatasetRecord& dataset = run.profile.dataset;
    if (!dataset.content_sample_digest) return nullptr;
    const GateRun* first = m_first.try_emplace({dataset.digest, run.profile.settings.seed}, &run).first->second;
    return first->profile.dataset.content_sample_digest == dataset.content_sample_digest ? nullptr : first;
  }

 private:
  std::map<std::pair<std::string, std::uint64_t>, const GateRun*> m_first;
};

std::set<std::string> differing(const Identity& one, const Identity& other) {
  std::set<std::string> fields;
  for (const auto& [field, value] : one)
    if (const std::string found = value_of(other, field); found != value && !(field == memory_field && is_same_memory(value, found)))
      fields.insert(field);
  for (const auto& [field, value] : other)
    if (!one.contains(field)) fields.insert(field);
  return fields;
}

}  // namespace

Identity identity_of(const ProfileResult& profile) {
  const HostRecord& host = profile.host;
  Identity identity = {{"host.cpu_model", host.cpu_model},
                       {"host.cores", fmt::format("{}", host.cores)},
                       {"host.cores_physical", fmt::format("{}", host.cores_physical)},
                       {memory_field, memory_text(host.memory_total_bytes)},
                       {"host.kernel", kernel_series(host.kernel)},
                       {"host.storage_device", host.storage_device},
                       {"host.storage_filesystem", host.storage_filesystem},
                       {"host.accelerator", host.accelerator},
                       {"dataset.digest", profile.dataset.digest},
                       {"dataset.format", profile.dataset.format},
                       {"dataset.samples", fmt::format("{}", profile.dataset.samples)}};
  if (!profile.command.empty()) identity[command_field] = fmt::format("{}", fmt::join(profile.command, " "));
  // From the record's own form, so that a setting which is added later is a field at once.
  ProfileResult bare;
  bare.settings = profile.settings;
  const auto settings = nlohmann::json::parse(to_json(bare)).at("settings");
  const std::vector<std::string> free = free_settings();
  for (const auto& [key, value] : settings.items())
    if (std::ranges::find(free, key) == free.end()) identity["settings." + key] = value.is_string() ? value.get<std::string>() : value.dump();
  return identity;
}

void require_known_fields(const Identity& identity, const std::vector<std::string>& ignore) {
  std::vector<std::string> known = groups;
  known.emplace_back(contents_field);
  known.emplace_back(command_field);
  for (const auto& [field, value] : identity)
    if (field != command_field) known.push_back(field);
  for (const std::string& name : ignore) {
    if (std::ranges::find(known, name) != known.end()) continue;
    throw UsageError(fmt::format("--ignore: there is no field \"{}\"{}; fields are {}", name, did_you_mean(name, known), fmt::join(known, ", ")));
  }
}

std::vector<GateDifference> require_comparable(std::span<const GateRun> baseline, std::span<const GateRun> current, const GateOptions& options) {
  const GateRun& first = baseline.front();
  const Identity reference = identity_of(first.profile);
  require_known_fields(reference, options.ignore);
  std::vector<GateDifference> passed;
  std::string refused;
  std::set<std::string> seen;
  const auto differ = [&](const GateDifference& difference, const GateRun& one, const GateRun& other) {
    if (!seen.insert(difference.field).second) return;
    if (is_ignored(difference.field, options)) {
      passed.push_back(difference);
    } else {
      refused += fmt::format("\n  {}: {} in {}, {} in {}", difference.field, printable(difference.baseline), printable(one.source),
                             printable(difference.current), printable(other.source));
    }
  };
  ContentSamples contents;
  const auto hold = [&](const GateRun& run) {
    const Identity identity = identity_of(run.profile);
    for (const std::string& field : differing(reference, identity))
      differ({field, value_of(reference, field), value_of(identity, field)}, first, run);
    if (const GateRun* earlier = contents.contradicted_by(run))
      differ({contents_field, *earlier->profile.dataset.content_sample_digest, *run.profile.dataset.content_sample_digest}, *earlier, run);
  };
  for (const GateRun& run : baseline) hold(run);
  for (const GateRun& run : current) hold(run);
  if (!refused.empty())
    throw UsageError(
        fmt::format("the results cannot be compared, as they differ in{}\nCompare results of one machine, dataset and settings; where a difference "
                    "does not matter or is what you compare, --ignore FIELD",
                    refused));
  return passed;
}

void find_chosen_differently(std::span<const GateRun> baseline, std::span<const GateRun> current, std::vector<Finding>& findings) {
  const ProfileSettings& first = baseline.front().profile.settings;
  const auto differs = [&first](const GateRun& run) {
    return run.profile.settings.io != first.io || run.profile.settings.read_mode != first.read_mode;
  };
  if (std::ranges::none_of(baseline, differs) && std::ranges::none_of(current, differs)) return;
  findings.push_back(
      {"reads-chosen-differently", Finding::Severity::warning,
       "the runs read storage in different ways (threads or io_uring, buffered or direct), which `profile` chooses by measuring: S, full and "
       "fetch-stall scatter more. Fix the way with --io pread or --io uring, and --direct."});
}

}  // namespace dsanalyze::gate
