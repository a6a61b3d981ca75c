#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "base/statistics.hpp"
#include "base/text/enum_names.hpp"
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

/// P of the script's own workers.
void Conductor::say_prep() const {
  const DrainMeasurement& drain = m_training.drains.front();
  const Estimate prep = estimate_of_ratio(stretches_of(drain));
  if (prep.windows == 0) return;
  std::string note = fmt::format("prep: {:.1f} samples/s", prep.value);
  if (!m_training.loader || m_training.loader->style != LoaderRecord::Style::watched)
    note += fmt::format(" with {} worker{}", drain.workers, drain.workers == 1 ? "" : "s");
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
