#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/system/files.hpp"
#include "base/text/text.hpp"
#include "gate.hpp"
#include "identity.hpp"
#include "read_runs.hpp"
#include "sessions.hpp"

namespace dsanalyze {
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
