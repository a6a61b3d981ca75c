#include "rank_agreement.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <nlohmann/json.hpp>

#include "base/text/text.hpp"
#include "share/load_plan.hpp"

namespace dsanalyze::cli {
namespace {

constexpr std::size_t most_value = 160;  // characters: all values together have to fit into an introduction

constexpr std::array options_of_ranks = {
    RankOption{"--seed", AmongRanks::same, {"seed"}},
    RankOption{"--workload", AmongRanks::same, {"workload"}},
    RankOption{"--image-key", AmongRanks::same, {"image_key"}},
    RankOption{"--label-key", AmongRanks::same, {"label_key"}},
    RankOption{"--preset", AmongRanks::same, {"preset"}},
    RankOption{"--accelerator", AmongRanks::same, {"accelerator", "accelerator_samples_per_s", "accelerator_precision"}},
    RankOption{"--accelerators", AmongRanks::same, {"accelerators"}},
    RankOption{"--batch-size", AmongRanks::same, {"batch_size"}},
    RankOption{"--step", AmongRanks::same, {"step"}},
    RankOption{"--observed", AmongRanks::same, {"observed_samples_per_s"}},
    RankOption{"--cache", AmongRanks::same, {"cache"}},
    RankOption{"--admit", AmongRanks::same, {"admit"}},
    RankOption{"--storage", AmongRanks::same, {"storage", "storage_bytes_per_s", "storage_latency_seconds", "storage_queue_depth"}},
    RankOption{"--prep", AmongRanks::same, {"prep", "prep_samples_per_s_per_core"}},
    RankOption{"--scale", AmongRanks::same, {"scale"}},
    RankOption{"--dtype", AmongRanks::same, {"dtype"}},
    RankOption{"--layout", AmongRanks::same, {"layout"}},
    RankOption{"--order", AmongRanks::same, {"order"}},
    RankOption{"--shuffle-buffer", AmongRanks::same, {"shuffle_buffer_samples"}},
    RankOption{"--readers", AmongRanks::same, {"readers"}},
    RankOption{"--jobs", AmongRanks::same, {"jobs"}},
    RankOption{"--share", AmongRanks::same, {"share"}},
    RankOption{"--producers", AmongRanks::same, {"producers"}},
    RankOption{"--batch-copy", AmongRanks::same, {"batch_copy"}},
    RankOption{"--trials", AmongRanks::same, {"trials"}, ZeroMeans::nothing},
    RankOption{"--stop-at", AmongRanks::same, {"stop_at_epochs"}},
    RankOption{"--world", AmongRanks::same, {"world"}},
    RankOption{"--partition", AmongRanks::same, {"partition"}},
    RankOption{"--balance-from", AmongRanks::same, {"balance_from"}},
    RankOption{"--storage-scope", AmongRanks::same, {"storage_scope"}},
    RankOption{"--network", AmongRanks::same, {"network", "network_bytes_per_s"}},
    RankOption{"--runs", AmongRanks::same, {"runs"}},
    RankOption{"--epochs", AmongRanks::same, {"epochs"}},
    RankOption{"--time-budget", AmongRanks::same, {"time_budget_seconds"}},
    RankOption{"--subset", AmongRanks::same, {"subset"}},
    RankOption{"--on-error", AmongRanks::same, {"on_error"}},
    RankOption{"--error-budget", AmongRanks::same, {"error_budget_fraction"}},

    // What a server has: servers differ in memory, cores and disks.
    RankOption{"--cache-size", AmongRanks::own, {"cache_size"}},
    RankOption{"--memory-limit", AmongRanks::own, {"memory_limit"}},
    RankOption{"--workers", AmongRanks::own, {"workers"}},
    RankOption{"--cores", AmongRanks::own, {"cores"}},
    RankOption{"--io", AmongRanks::own, {"io"}},
    RankOption{"--io-depth", AmongRanks::own, {"fetch_concurrency"}},
    RankOption{"--direct", AmongRanks::own, {"read_mode"}},
    RankOption{"--max-storage-rate", AmongRanks::own, {"max_storage_bytes_per_s"}},
    // Where this process finds the others and the dataset; the key is proved and the dataset's digests are compared.
    RankOption{"--rank"},
    RankOption{"--rendezvous"},
    RankOption{"--listen"},
    RankOption{"--key-file"},
    RankOption{"--index"},
    // What this process writes, and how it ends.
    RankOption{"--trace"},
    RankOption{"--trace-events"},
    RankOption{"--metrics"},
    RankOption{"--html"},
    RankOption{"--dry-run"},
    RankOption{"--require-trusted"},
    RankOption{"--output"},
    RankOption{"--json"},
    RankOption{"--quiet"},
    RankOption{"--verbose"},
    RankOption{"--color"},
    RankOption{"--help"},
};

std::string setting_text(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) {
    std::string list;
    for (const nlohmann::json& item : value) list += (list.empty() ? "" : ",") + setting_text(item);
    return list;
  }
  if (value.is_object() && value.contains("fraction")) return format_share(value.at("fraction").get<double>());
  if (value.is_object() && value.contains("bytes")) return fmt::format("{} bytes", value.at("bytes").get<Bytes>());
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  return value.is_null() ? "" : value.dump();
}

/// What the option says, in the words of a result; what it leaves open is left out.
std::string option_text(const RankOption& option, const nlohmann::json& settings) {
  std::string text;
  for (const std::string_view name : option.settings) {
    if (!settings.contains(name)) continue;
    const nlohmann::json& setting = settings.at(name);
    const bool is_zero = setting.is_number() && setting.get<double>() == 0;
    // What comes after the first setting belongs to some of its values only: to "emulated" and not to "real".
    const bool says_nothing = is_zero && (name != option.settings.front() || option.zero == ZeroMeans::nothing);
    const std::string word = says_nothing ? "" : setting_text(setting);
    if (!word.empty()) text += (text.empty() ? "" : " ") + word;
  }
  return text.empty() ? "nothing" : text;
}

/// One line, whatever names of files have in them.
std::string short_line(std::string_view text) {
  std::string line = printable(text);
  if (line.size() <= most_value) return line;
  return fmt::format("{}... ({:016x})", line.substr(0, most_value - 24), XXH3_64bits(text.data(), text.size()));
}

std::string sampled_contents_text(const std::optional<ContentSample>& contents) {
  if (!contents) return "nothing";
  if (contents->unreadable == 0) return contents->digest;
  return fmt::format("{} ({} of {} unreadable: {})", contents->digest, contents->unreadable, contents->samples, contents->first_unreadable);
}

}  // namespace

std::span<const RankOption> rank_options() { return options_of_ranks; }

std::vector<AgreedValue> agreed_values(const ProfileInputs& inputs) {
  const auto settings = nlohmann::json::parse(to_json(inputs.settings));
  std::vector<AgreedValue> values;
  for (const RankOption& option : options_of_ranks) {
    if (option.rule == AmongRanks::same) values.push_back({std::string(option.name), short_line(option_text(option, settings))});
  }
  values.push_back({"prep", short_line(prep_text(inputs))});
  values.push_back({"samples", std::to_string(inputs.index->size())});
  values.push_back({"index_digest", short_line(inputs.index->facts().digest)});
  values.push_back({"content_sample_digest", short_line(sampled_contents_text(inputs.contents))});
  return values;
}

}  // namespace dsanalyze::cli
