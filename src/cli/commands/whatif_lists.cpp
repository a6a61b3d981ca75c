#include "whatif_lists.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "cli/options/option_table.hpp"
#include "cli/options/option_values.hpp"
#include "cli/options/parsed_list.hpp"
#include "cli/process/data_files.hpp"
#include "command.hpp"
#include "core/device.hpp"
#include "core/workload.hpp"
#include "models/whatif/servers.hpp"

namespace dsanalyze::cli {
namespace {

/// A storage without limit, as a factor that JSON can hold.
constexpr double no_limit_factor = 1e9;
constexpr double most_cores = 1e6;

constexpr std::string_view share_modes = "none|coordinated|unified-producer";
constexpr std::string_view findable = "cache|cores|accelerators|storage";

/// Empty where the option was not given.
template <typename Value, typename Parse>
std::vector<Value> given_list(const std::string& option, const std::string& text, Parse parse) {
  return text.empty() ? std::vector<Value>() : parsed_list<Value>(option, text, parse);
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

WhatIfQuestion::CacheChange cache_change(const std::string& text) {
  static const std::string cost_aware = ":cost-aware";
  if (text == "minio" + cost_aware) return {CacheKind::minio, Admission::cost_aware};
  return {parse_cache_kind(text), Admission::first};
}

double positive_bytes(const std::string& text) {
  const Bytes bytes = parse_bytes(text);
  if (bytes == 0) throw UsageError("found 0 bytes, expected the size of a read, for example 1MiB");
  return static_cast<double>(bytes);
}

double positive_count(const std::string& text) { return static_cast<double>(parse_integer(text, 1, 1'000'000'000)); }
double reads_under_way(const std::string& text) { return static_cast<double>(parse_integer(text, 1, 4096)); }
std::uint32_t number_of_jobs(const std::string& text) { return static_cast<std::uint32_t>(parse_integer(text, 1, 1024)); }
std::uint32_t number_of_servers(const std::string& text) { return static_cast<std::uint32_t>(parse_integer(text, 1, most_servers)); }

JobSharing job_sharing(const std::string& text) { return parse_job_sharing(checked_choice("the value", text, words_of(share_modes))); }
PartitionMode partition_mode(const std::string& text) { return parse_partition_mode(checked_choice("the value", text, words_of(partition_modes))); }
BalanceFrom balance_from(const std::string& text) { return parse_balance_from(checked_choice("the value", text, words_of(balance_sources))); }
StorageScope storage_scope(const std::string& text) { return parse_storage_scope(checked_choice("the value", text, words_of(storage_scopes))); }

/// profile's grammar: "emulated:40Gbit/s"; "40Gbit/s" too.
double network_rate(const std::string& text) {
  static const std::string emulated = "emulated:";
  return parse_bytes_per_second(text.starts_with(emulated) ? text.substr(emulated.size()) : text);
}

std::string question_name(const std::string& text) { return checked_choice("the value", text, words_of(findable)); }

}  // namespace

void WhatIfLists::declare(CLI::App& app) {
  app.add_option("--cache-size", m_cache_sizes);
  app.add_option("--cache", m_caches)->type_name("LIST minio|minio:cost-aware|lru|page");
  app.add_option("--cores", m_cores);
  app.add_option("--accelerator-speed", m_accelerator_speeds);
  app.add_option("--accelerators", m_accelerators);
  app.add_option("--batch-size", m_batch_sizes);
  app.add_option("--storage", m_storage)->type_name("LIST real|null|emulated:@storage");
  app.add_option("--request-size", m_request_sizes);
  app.add_option("--io-depth", m_concurrencies);
  app.add_option("--jobs", m_jobs);
  app.add_option("--share", m_shares)->type_name(fmt::format("LIST {}", share_modes));
  app.add_option("--servers", m_servers);
  app.add_option("--partition", m_partitions)->type_name(fmt::format("LIST {}", partition_modes));
  app.add_option("--balance-from", m_balances)->type_name(fmt::format("LIST {}", balance_sources));
  app.add_option("--storage-scope", m_scopes)->type_name(fmt::format("LIST {}", storage_scopes));
  app.add_option("--network", m_networks);
  app.add_option("--find", m_find)->type_name(fmt::format("LIST {}", findable));
}

WhatIfQuestion WhatIfLists::question(const RateModel& model) const {
  WhatIfQuestion question;
  question.cache_sizes = given_list<ByteAmount>("--cache-size", m_cache_sizes, parse_byte_amount);
  question.caches = given_list<WhatIfQuestion::CacheChange>("--cache", m_caches, cache_change);
  question.cores = given_list<WhatIfQuestion::CoreChange>("--cores", m_cores, core_change);
  question.accelerator_speeds = given_list<double>("--accelerator-speed", m_accelerator_speeds, positive_factor);
  question.accelerators = given_list<double>("--accelerators", m_accelerators, accelerator_count);
  question.batch_sizes = given_list<double>("--batch-size", m_batch_sizes, positive_count);
  question.storage =
      given_list<WhatIfQuestion::StorageChange>("--storage", m_storage, [&model](const std::string& text) { return storage_change(text, model); });
  question.request_sizes = given_list<double>("--request-size", m_request_sizes, positive_bytes);
  question.concurrencies = given_list<double>("--io-depth", m_concurrencies, reads_under_way);
  question.jobs = given_list<std::uint32_t>("--jobs", m_jobs, number_of_jobs);
  question.shares = given_list<JobSharing>("--share", m_shares, job_sharing);
  question.servers = given_list<std::uint32_t>("--servers", m_servers, number_of_servers);
  question.partitions = given_list<PartitionMode>("--partition", m_partitions, partition_mode);
  question.balances = given_list<BalanceFrom>("--balance-from", m_balances, balance_from);
  question.scopes = given_list<StorageScope>("--storage-scope", m_scopes, storage_scope);
  question.networks = given_list<double>("--network", m_networks, network_rate);
  question.find = given_list<std::string>("--find", m_find, question_name);
  return question;
}

}  // namespace dsanalyze::cli
