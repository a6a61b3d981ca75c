#include <fmt/format.h>

#include <algorithm>

#include "dsanalyze/base/error.hpp"
#include "dsanalyze/base/files.hpp"
#include "dsanalyze/base/text.hpp"
#include "dsanalyze/gate/gate.hpp"
#include "identity.hpp"
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
  const std::vector<GateRun> held = fs::is_directory(store, error) ? read_gate_runs({store}) : std::vector<GateRun>{};
  const std::span<const GateRun> reference = replace == Replace::no && !held.empty() ? std::span<const GateRun>(held) : results;
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
    if (same == held.end()) write_file_atomically(place, read_file(run.source));
  }
  // Last, so that there is a whole baseline at any moment.
  if (replace == Replace::yes)
    for (const GateRun& run : held)
      if (std::ranges::find(accepted, fs::path(run.source), &AcceptedResult::path) == accepted.end()) fs::remove(run.source);
  return accepted;
}

}  // namespace dsanalyze
