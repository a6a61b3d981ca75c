#include "saved_inputs.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/error.hpp"
#include "base/host/host.hpp"
#include "cli/process/data_files.hpp"
#include "cli/process/job_process.hpp"
#include "core/workload.hpp"
#include "loaders/dataset/dataset.hpp"

namespace dsanalyze::cli {
namespace {

void require_same_dataset(const ProfileResult& profile, const DatasetIndex& index, const std::stop_token& stop) {
  const auto require_same = [&profile](const char* name, const std::string& now, const std::string& then) {
    if (now == then) return;
    throw UsageError(
        fmt::format("the dataset {} is not the one that was profiled any more "
                    "({} {}, in the profile {}): profile again",
                    profile.settings.dataset, name, now, then));
  };
  if (!profile.dataset.digest.empty()) require_same("digest", index.facts().digest, profile.dataset.digest);
  if (!profile.dataset.content_sample_digest) return;
  // Drawn by the profile's own seed: another one would draw other samples.
  if (const auto contents = sample_contents(index, profile.settings.seed, stop))
    require_same("digest of a sample of the contents", contents->digest, *profile.dataset.content_sample_digest);
}

}  // namespace

std::shared_ptr<const DatasetIndex> open_emulated_dataset(const ProfileSettings& settings) {
  static const std::string prefix = "emulated:";
  const std::string& text = settings.dataset;
  if (!text.starts_with(prefix)) return nullptr;
  for (const auto& [option, key] : {std::pair("--image-key", &settings.image_key), std::pair("--label-key", &settings.label_key)}) {
    if (!key->empty())
      throw UsageError(fmt::format("{}: it chooses among the members of tar shards, and an emulated dataset has none; leave the option out", option));
  }
  std::string name;
  std::uint64_t samples = 0;
  for (const std::string& part : split_list(text.substr(prefix.size()))) {
    if (name.empty()) {
      name = part;
    } else if (part.starts_with("samples=")) {
      samples = static_cast<std::uint64_t>(parse_integer(part.substr(8), 1, 4'000'000'000));
    } else {
      throw UsageError(
          fmt::format("dataset {}: found \"{}\", expected "
                      "emulated:NAME or emulated:NAME,samples=N",
                      text, part));
    }
  }
  const ConfigFile file = config_file(ConfigKind::dataset, name);
  return make_emulated_index(parse_dataset_spec(file.text, file.source), samples, settings.scale, settings.seed);
}

ProfileInputs inputs_of(const ProfileResult& profile, const CommandContext& context) {
  ProfileInputs inputs;
  inputs.settings = profile.settings;
  if (!profile.settings.workload.empty()) {
    const ConfigFile file = config_file(ConfigKind::workload, profile.settings.workload);
    inputs.image_prep = parse_workload(file.text, file.source).image_prep;
  }
  inputs.host = read_host_facts();
  inputs.start_job = start_job_process;
  inputs.index = open_emulated_dataset(profile.settings);
  if (!inputs.index) {
    OpenOptions options;
    options.keys = {profile.settings.image_key, profile.settings.label_key};
    options.seed = profile.settings.seed;
    inputs.index = open_dataset(profile.settings.dataset, options, context.events, context.stop);
  }
  require_same_dataset(profile, *inputs.index, context.stop);
  return inputs;
}

}  // namespace dsanalyze::cli
