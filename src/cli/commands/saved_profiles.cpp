#include "saved_profiles.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/host/host.hpp"
#include "base/system/files.hpp"
#include "cli/process/data_files.hpp"
#include "cli/process/job_process.hpp"
#include "core/workload.hpp"
#include "loaders/dataset/dataset.hpp"

namespace dsanalyze::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "profile-";
constexpr std::size_t timestamp_length = std::string_view("YYYYmmdd-HHMMSS").size();

fs::path profiles_folder() { return user_state_directory() / "profiles"; }

/// (timestamp, n) of a profile's file name, which order as the profiles were made; n is 0 without a number.
std::optional<std::pair<std::string, int>> age(const fs::path& file) {
  const std::string stem = file.stem().string();
  if (file.extension() != ".json" || !stem.starts_with(prefix) || stem.size() < prefix.size() + timestamp_length) return std::nullopt;
  const std::string timestamp = stem.substr(prefix.size(), timestamp_length);
  if (timestamp.find_first_not_of("0123456789-") != std::string::npos) return std::nullopt;
  std::string_view rest = std::string_view(stem).substr(prefix.size() + timestamp_length);
  int number = 0;
  if (!rest.empty()) {
    if (!rest.starts_with('-')) return std::nullopt;
    rest.remove_prefix(1);
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (error != std::errc() || end != rest.data() + rest.size()) return std::nullopt;
  }
  return std::pair{timestamp, number};
}

}  // namespace

fs::path new_profile_path(std::time_t now) {
  std::error_code error;
  fs::create_directories(profiles_folder(), error);
  if (error)
    throw Error(fmt::format("cannot make {} to save the profile in: {}; give a place with -o FILE", profiles_folder().string(), error.message()));
  std::tm local{};
  ::localtime_r(&now, &local);
  std::string timestamp(timestamp_length + 1, '\0');
  timestamp.resize(std::strftime(timestamp.data(), timestamp.size(), "%Y%m%d-%H%M%S", &local));
  for (int number = 0;; ++number) {
    fs::path path = profiles_folder() / fmt::format("{}{}{}.json", prefix, timestamp, number == 0 ? "" : fmt::format("-{}", number + 1));
    if (!fs::exists(path)) return path;
  }
}

fs::path last_profile_path() {
  std::optional<std::pair<std::string, int>> newest;
  fs::path path;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(profiles_folder(), error)) {
    const auto its_age = age(entry.path());
    if (!its_age || (newest && *its_age <= *newest)) continue;
    newest = its_age;
    path = entry.path();
  }
  if (!newest)
    throw UsageError(
        fmt::format("there is no profile yet in {}: make one with \"dsanalyze profile DATASET\", name a file, or type rates, for example "
                    "--rates G=9800,P=10200,C=252000,S=4700",
                    profiles_folder().string()));
  return path;
}

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
