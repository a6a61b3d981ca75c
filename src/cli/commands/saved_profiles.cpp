#include "saved_profiles.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/system/files.hpp"

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

}  // namespace dsanalyze::cli
