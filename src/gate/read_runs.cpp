#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/system/files.hpp"
#include "base/text/text.hpp"
#include "gate.hpp"
#include "runs.hpp"

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

constexpr Bytes largest_record = Bytes{256} << 20;

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = mix(text.size());
  for (std::size_t at = 0; at < text.size(); at += 8) {
    std::uint64_t word = 0;
    for (const char letter : text.substr(at, 8)) word = word << 8 | static_cast<unsigned char>(letter);
    hash = mix(hash, word);
  }
  return std::max<std::uint64_t>(hash, 1);
}

GateRun read_run(const fs::path& file) {
  std::string text;
  try {
    text = read_file(file, largest_record);
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
  ProfileResult profile = profile_from_json(text, printable(file.string()));
  const std::uint64_t content = hash_of(text);
  return {file.string(), std::move(profile), content, std::move(text)};
}

/// The records of a folder. A pipe among them would be waited for without end.
std::vector<fs::path> regular_records_in(const fs::path& folder) {
  std::vector<fs::path> files = gate::records_in(folder);
  for (const fs::path& file : files) {
    std::error_code hidden;  // what cannot be looked at is no regular file
    if (!fs::is_regular_file(file, hidden))
      throw UsageError(
          fmt::format("{} is no regular file, and every *.json of a folder is read as a result: take it away, or name the results one by one",
                      printable(file.string())));
  }
  return files;
}

}  // namespace

std::vector<fs::path> gate::records_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with('.') && entry.path().extension() == ".json") files.push_back(entry.path());
  }
  if (error) throw UsageError(fmt::format("cannot read the folder {}: {}", printable(folder.string()), error.message()));
  std::ranges::sort(files);
  return files;
}

std::vector<GateRun> read_gate_runs(const std::vector<fs::path>& places) {
  std::vector<GateRun> runs;
  for (const fs::path& place : places) {
    std::error_code error;
    const std::vector<fs::path> files = fs::is_directory(place, error) ? regular_records_in(place) : std::vector{place};
    for (const fs::path& file : files) {
      GateRun run = read_run(file);
      const auto same = std::ranges::find(runs, run.content, &GateRun::content);
      if (same != runs.end())
        throw UsageError(
            fmt::format("{} and {} are the same result: a repetition must be a run of its own", printable(same->source), printable(run.source)));
      runs.push_back(std::move(run));
    }
  }
  return runs;
}

namespace {

namespace fs = std::filesystem;

/// "20261120T210533Z-5f0c9c1d.json": sorts by when it began; what it holds makes it its own.
std::string name_of(const GateRun& run) {
  std::string when = gate::utc_seconds(run.profile.started_utc) ? run.profile.started_utc : "00000000T000000Z";
  std::erase_if(when, [](char letter) { return letter == '-' || letter == ':'; });
  return fmt::format("{}-{:016x}.json", when, run.content);
}

void require_trusted(std::span<const GateRun> results) {
  for (const GateRun& run : results)
    if (!run.profile.trusted)
      throw UsageError(
          fmt::format("{} is not trusted, so nothing should be measured by it: measure again, or --allow-untrusted to accept it nevertheless; its "
                      "findings say why",
                      printable(run.source)));
}

}  // namespace

std::vector<AcceptedResult> accept_baselines(const fs::path& store, std::span<const GateRun> results, const GateOptions& options, Replace replace) {
  if (results.empty()) throw UsageError("what to accept is missing: name results of `dsanalyze profile ... -o FILE`");
  if (options.untrusted == Untrusted::refuse) require_trusted(results);
  std::error_code error;
  if (fs::exists(store, error) && !fs::is_directory(store, error))
    throw UsageError(fmt::format("--baseline: {} is no folder, and a store of baselines is one", printable(store.string())));
  const bool is_there = fs::is_directory(store, error);
  // What is replaced may be broken: it is only listed.
  const std::vector<fs::path> replaced = is_there && replace == Replace::yes ? gate::records_in(store) : std::vector<fs::path>{};
  const std::vector<GateRun> held = is_there && replace == Replace::no ? read_gate_runs({store}) : std::vector<GateRun>{};
  const std::span<const GateRun> reference = held.empty() ? results : std::span<const GateRun>(held);
  try {
    gate::require_comparable(reference, results, options);
  } catch (const UsageError& found) {
    throw UsageError(fmt::format("not accepted into {}: {}; to begin a new baseline, --replace", printable(store.string()), found.what()));
  }

  fs::create_directories(store, error);
  if (error) throw Error(fmt::format("cannot make the folder {}: {}", printable(store.string()), error.message()));
  std::vector<AcceptedResult> accepted;
  for (const GateRun& run : results) {
    const auto same = std::ranges::find(held, run.content, &GateRun::content);
    const fs::path place = same != held.end() ? fs::path(same->source) : store / name_of(run);
    accepted.push_back({place, same != held.end()});
    if (same == held.end()) write_file_atomically(place, run.text);
  }
  // Last, so that there is a whole baseline at any moment.
  for (const fs::path& file : replaced) {
    if (std::ranges::find(accepted, file, &AcceptedResult::path) != accepted.end()) continue;
    if (!fs::remove(file, error) && error) throw Error(fmt::format("cannot remove {}: {}", printable(file.string()), error.message()));
  }
  return accepted;
}

}  // namespace dsanalyze
