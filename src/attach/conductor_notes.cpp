#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "base/statistics.hpp"
#include "base/text/enum_names.hpp"
#include "base/text/units.hpp"
#include "conductor.hpp"

/// What is said while the phases go on: the answers that come before the verdict.

namespace dsanalyze {

/// As the training was found; empty where that is not known.
std::string Conductor::waiting_text() const {
  const auto full = m_training.phases.find(AttachPhase::full);
  if (full == m_training.phases.end() || m_training.fetched_in_thread()) return "";
  const auto waiting = waiting_fraction(full->second);
  return waiting ? fmt::format("as found, each step waits {:.2g} % of its time for a batch", 100 * *waiting) : "";
}

/// The first phase may take a quarter of the budget; what it has measured by then is an answer.
void Conductor::say_waiting_so_far() {
  if (m_stage != Stage::full || m_said_waiting) return;
  const PhaseMeasurement& full = measurement();
  for (const auto& [rank, windows] : full.by_rank)
    if (windows.size() < least_windows) return;
  m_said_waiting = true;
  if (const std::string waiting = waiting_text(); !waiting.empty()) m_events.note("so far: " + waiting);
}

void Conductor::say_phase() const {
  const auto measured = m_training.phases.find(phase());
  if (measured == m_training.phases.end()) return;
  const Estimate rate = estimate_of_ratio(stretches_of(measured->second));
  std::string note = fmt::format("{}: {:.1f} samples/s in {} window{}", enum_name(phase()), rate.value, rate.windows, rate.windows == 1 ? "" : "s");
  // The first answer comes a minute or two before the verdict.
  if (const std::string waiting = m_stage == Stage::full ? waiting_text() : ""; !waiting.empty()) note += "; " + waiting;
  m_events.note(note);
}

/// What each of the phases adds to the time a sample of the one that waits for less: the first verdict.
void Conductor::say_time() const {
  const std::array<std::pair<AttachPhase, const char*>, 4> parts{{{AttachPhase::synthetic, "compute"},
                                                                  {AttachPhase::busy, "contention with the loader's workers"},
                                                                  {AttachPhase::cached, "waiting for prep"},
                                                                  {AttachPhase::full, "for storage"}}};
  const auto seconds_of = [this](AttachPhase phase) -> std::optional<double> {
    const auto found = m_training.phases.find(phase);
    const double rate = found == m_training.phases.end() ? 0 : estimate_of_ratio(stretches_of(found->second)).value;
    return rate > 0 ? std::optional(1 / rate) : std::nullopt;
  };
  const auto whole = seconds_of(AttachPhase::full);
  if (!whole || !seconds_of(AttachPhase::cached) || !seconds_of(AttachPhase::synthetic)) return;
  std::string text = "so far, of the time a sample:";
  double before = 0;
  for (const auto& [phase, name] : parts) {
    const auto seconds = seconds_of(phase);
    if (!seconds) continue;
    text += fmt::format("{} {:.0f} % {}", before > 0 ? "," : "", 100 * std::clamp(*seconds - before, 0.0, *whole) / *whole, name);
    before = std::max(before, *seconds);
  }
  m_events.note(text);
}

/// G and P of the script's own workers. Without workers the loader and the training take turns, so that neither is the slower one.
void Conductor::say_prep() const {
  const DrainMeasurement& drain = m_training.drains.front();
  const Estimate prep = estimate_of_ratio(stretches_of(drain));
  const auto synthetic = m_training.phases.find(AttachPhase::synthetic);
  if (prep.windows == 0 || synthetic == m_training.phases.end()) return;
  constexpr Bytes few_bytes = Bytes{1} << 20;
  // Whether that is what the stream had read before is known in the end.
  if (m_training.loader && m_training.loader->style == LoaderRecord::Style::iterable && drain.before && drain.after && drain.before->storage_bytes &&
      drain.after->storage_bytes && *drain.after->storage_bytes > *drain.before->storage_bytes + few_bytes)
    return m_events.note("prep: the stream read data from storage when it was begun again, so its rate is not told yet");
  const Estimate demand = estimate_of_ratio(stretches_of(synthetic->second));
  const bool watched = m_training.loader && m_training.loader->style == LoaderRecord::Style::watched;
  std::string note = fmt::format("prep: {:.1f} samples/s", prep.value);
  if (!watched) note += fmt::format(" with {} worker{}", drain.workers, drain.workers == 1 ? "" : "s");
  if ((drain.workers > 0 || watched) && demand.windows > 0) {
    const char* const compared = prep.ci95.high < demand.ci95.low   ? "slower than"
                                 : prep.ci95.low > demand.ci95.high ? "faster than"
                                                                    : "about as fast as";
    note += fmt::format("; the loader alone is {} the training with batches at hand ({} samples/s)", compared, format_number(demand.value));
  }
  m_events.note(note);
}

/// Of the time between two checkpoints of the phase full.
void Conductor::take_spent(Member& member) {
  const CheckpointMessage& at = *member.at;
  const std::optional<Nanoseconds> since = std::exchange(member.full_since, m_now);
  if (!since || !member.hello) return;
  BesideSteps& beside = m_training.beside_steps[member.hello->rank];
  beside.seconds += to_seconds(m_now - *since);
  if (at.window) beside.samples += std::accumulate(at.window->samples.begin(), at.window->samples.end(), 0.0);
  for (const SpentTime& spent : at.spent) {
    const auto known = std::ranges::find_if(
        beside.places, [&spent](const SpentTime& each) { return each.what == spent.what && each.file == spent.file && each.line == spent.line; });
    if (known == beside.places.end()) {
      beside.places.push_back(spent);
      continue;
    }
    known->count += spent.count;
    known->seconds += spent.seconds;
    known->waited_seconds += spent.waited_seconds;
  }
}

}  // namespace dsanalyze
