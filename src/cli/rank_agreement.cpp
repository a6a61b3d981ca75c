#include "rank_agreement.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <nlohmann/json.hpp>

#include "dsanalyze/base/text.hpp"
#include "dsanalyze/share/load_plan.hpp"

namespace dsanalyze::cli {
namespace {

constexpr std::size_t most_value = 160;  // characters: all values together have to fit into an introduction

using enum AmongRanks;
constexpr std::array options = {
    RankOption{"--seed", same, {"seed"}},
    RankOption{"--workload", same, {"workload"}},
    RankOption{"--preset", same, {"preset"}},
    RankOption{"--accelerator", same, {"accelerator", "accelerator_samples_per_s", "accelerator_precision"}},
    RankOption{"--accelerators", same, {"accelerators"}},
    RankOption{"--batch-size", same, {"batch_size"}},
    RankOption{"--step", same, {"step"}},
    RankOption{"--observed", same, {"observed_samples_per_s"}},
    RankOption{"--cache", same, {"cache"}},
    RankOption{"--admit", same, {"admit"}},
    RankOption{"--storage", same, {"storage", "storage_bytes_per_s", "storage_latency_seconds", "storage_queue_depth"}},
    RankOption{"--prep", same, {"prep", "prep_samples_per_s_per_core"}},
    RankOption{"--scale", same, {"scale"}},
    RankOption{"--dtype", same, {"dtype"}},
    RankOption{"--layout", same, {"layout"}},
    RankOption{"--order", same, {"order"}},
    RankOption{"--shuffle-buffer", same, {"shuffle_buffer_samples"}},
    RankOption{"--readers", same, {"readers"}},
    RankOption{"--jobs", same, {"jobs"}},
    RankOption{"--share", same, {"share"}},
    RankOption{"--producers", same, {"producers"}},
    RankOption{"--batch-copy", same, {"batch_copy"}},
    RankOption{"--trials", same, {"trials"}},
    RankOption{"--stop-at", same, {"stop_at_epochs"}},
    RankOption{"--world", same, {"world"}},
    RankOption{"--partition", same, {"partition"}},
    RankOption{"--balance-from", same, {"balance_from"}},
    RankOption{"--storage-scope", same, {"storage_scope"}},
    RankOption{"--network", same, {"network", "network_bytes_per_s"}},
    RankOption{"--runs", same, {"runs"}},
    RankOption{"--epochs", same, {"epochs"}},
    RankOption{"--time-budget", same, {"time_budget_seconds"}},
    RankOption{"--subset", same, {"subset"}},
    RankOption{"--on-error", same, {"on_error"}},
    RankOption{"--error-budget", same, {"error_budget_fraction"}},

    // What a server has: servers differ in memory, cores and disks.
    RankOption{"--cache-size", own, {"cache_size"}},
    RankOption{"--memory-limit", own, {"memory_limit"}},
    RankOption{"--workers", own, {"workers"}},
    RankOption{"--cores", own, {"cores"}},
    RankOption{"--io", own, {"io"}},
    RankOption{"--io-depth", own, {"fetch_concurrency"}},
    RankOption{"--direct", own, {"read_mode"}},
    RankOption{"--max-storage-rate", own, {"max_storage_bytes_per_s"}},
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

std::string text_of(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) {
    std::string list;
    for (const nlohmann::json& item : value) list += (list.empty() ? "" : ",") + text_of(item);
    return list;
  }
  if (value.is_object() && value.contains("fraction")) return format_share(value.at("fraction").get<double>());
  if (value.is_object() && value.contains("bytes")) return fmt::format("{} bytes", value.at("bytes").get<Bytes>());
  return value.is_null() ? "" : value.dump();
}

/// What the option says, in the words of a result; what it leaves open is left out.
std::string value_of(const RankOption& option, const nlohmann::json& settings) {
  std::string text;
  for (const std::string_view name : option.settings) {
    if (name.empty()) continue;
    const nlohmann::json& setting = settings.at(name);
    const bool is_zero = setting.is_number() && setting.get<double>() == 0;
    const std::string word = is_zero ? "" : text_of(setting);
    if (!word.empty()) text += (text.empty() ? "" : " ") + word;
  }
  return text.empty() ? "nothing" : text;
}

/// One line, whatever names of files have in them.
std::string short_line(std::string_view text) {
  const std::string line = printable(text);
  if (line.size() <= most_value) return line;
  return fmt::format("{}... ({:016x})", line.substr(0, most_value - 24), XXH3_64bits(text.data(), text.size()));
}

std::string contents_text(const std::optional<ContentSample>& contents) {
  if (!contents) return "nothing";
  if (contents->unreadable == 0) return contents->digest;
  return fmt::format("{} ({} of {} unreadable: {})", contents->digest, contents->unreadable, contents->samples, contents->first_unreadable);
}

}  // namespace

std::span<const RankOption> rank_options() { return options; }

std::vector<AgreedValue> agreed_values(const ProfileInputs& inputs) {
  const auto settings = nlohmann::json::parse(to_json(inputs.settings));
  std::vector<AgreedValue> values;
  for (const RankOption& option : options) {
    if (option.rule == same) values.push_back({std::string(option.name), short_line(value_of(option, settings))});
  }
  values.push_back({"prep", short_line(prep_text(inputs))});
  values.push_back({"samples", std::to_string(inputs.index->size())});
  values.push_back({"index_digest", short_line(inputs.index->facts().digest)});
  values.push_back({"content_sample_digest", short_line(contents_text(inputs.contents))});
  return values;
}

}  // namespace dsanalyze::cli
