#include "training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <utility>

#include "base/statistics.hpp"
#include "base/text/text.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t drain_windows = 10;

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

/// Of a part of one rank's drain. Batches come in clumps of as many as there are workers, so a window holds whole clumps; the first clump waited for
/// the workers to start.
void add_stretches(const DrainedMessage& drained, std::size_t begin, std::size_t end, std::vector<Stretch>& stretches) {
  const auto clump = static_cast<std::size_t>(std::max(drained.workers, 1));
  const std::size_t batches = end - begin;
  if (batches < 2 * clump) return;
  const std::size_t clumps = (batches - clump) / clump;
  const std::size_t window = std::max<std::size_t>(clumps / drain_windows, 1) * clump;
  for (std::size_t from = begin + clump - 1; from + window < end; from += window) {
    double samples = 0;
    for (std::size_t i = from + 1; i <= from + window; ++i) samples += drained.samples[i];
    const double seconds = to_seconds(drained.delivered[from + window] - drained.delivered[from]);
    if (seconds > 0) stretches.push_back({samples, seconds});
  }
}

/// The end of a pass without its last batches, if it is long enough: no batch is prepared for after them, and those that lie ready come all at once.
std::size_t without_last(const DrainedMessage& drained, std::size_t begin, std::size_t end) {
  const auto clump = static_cast<std::size_t>(std::max(drained.workers, 1));
  constexpr std::size_t long_enough = 6;
  return end - begin >= long_enough * clump ? end - clump : end;
}

/// A stream that ends begins again, with new workers: what waits for these is left out, unless each pass is too short for anything else.
std::vector<Stretch> stretches_of(const DrainedMessage& drained) {
  std::vector<Stretch> stretches;
  std::size_t begin = 0;
  for (const std::size_t restart : drained.restarts) {
    if (restart <= begin || restart >= drained.delivered.size()) continue;
    add_stretches(drained, begin, without_last(drained, begin, restart), stretches);
    begin = restart;
  }
  add_stretches(drained, begin, drained.delivered.size(), stretches);
  if (stretches.empty()) add_stretches(drained, 0, drained.delivered.size(), stretches);
  return stretches;
}

constexpr std::array lists_of_steps{&StepWindow::wait,  &StepWindow::compute,       &StepWindow::outside, &StepWindow::validation,
                                    &StepWindow::ranks, &StepWindow::outside_ranks, &StepWindow::samples};

std::vector<double> steps_of(const StepWindow& window) {
  std::vector<double> steps;
  for (std::size_t i = 0; i < window.samples.size(); ++i) steps.push_back(window.wait[i] + window.compute[i] + window.outside[i]);
  return steps;
}

}  // namespace

std::string text_of(const SeenMessage& seen) {
  const auto times = [](std::uint64_t count, const char* one, const char* several) {
    return fmt::format("{} {}", count, count == 1 ? one : several);
  };
  std::string text = "no batch of a DataLoader";
  if (seen.batches > 0) {
    text = times(seen.batches, "batch of a DataLoader", "batches of a DataLoader");
    std::string place = seen.file.empty() ? "" : fmt::format("{}:{}", seen.file, seen.line);
    if (!seen.dataset_class.empty()) place += (place.empty() ? "" : ", ") + seen.dataset_class;
    if (!place.empty()) text += fmt::format(" ({})", printable(place));
    text += fmt::format(", {} of them with gradients enabled", seen.with_gradients);
  }
  if (seen.backward > 0) text += ", " + times(seen.backward, "backward pass", "backward passes");
  return text + ", and " +
         (seen.optimizer_steps > 0 ? times(seen.optimizer_steps, "step of a torch.optim optimizer", "steps of a torch.optim optimizer")
                                   : "no step of a torch.optim optimizer");
}

std::string watch_text() {
  return "With another loader, with JAX or TensorFlow, or with an update of its own, a training is followed where the script says `for batch in "
         "dsanalyze.watch(loader)`, after `import dsanalyze`; without an optimizer of torch.optim, each pass through that loop is a training step";
}

std::string unrecognised_text(const std::string& seen) {
  return fmt::format("no training step was recognised ({}): a PyTorch DataLoader whose batches lead to steps of a torch.optim optimizer. {}", seen,
                     watch_text());
}

std::string text_of(const RankCount& ranks) {
  return fmt::format("{} ranks, and {} of them {} of this command in which dsanalyze's hook works", ranks.world, ranks.here,
                     ranks.here == 1 ? "is a process" : "are processes");
}

RankCount AttachedTraining::rank_count() const {
  RankCount count;
  for (const auto& [rank, hello] : ranks) count.world = std::max(count.world, hello.world);
  int local = 0;
  for (const auto& [rank, hello] : ranks) {
    if (hello.world != count.world) continue;
    ++count.here;
    count.known |= hello.distributed;
    local = std::max(local, hello.local_world.value_or(0));
  }
  count.known |= local > 0 && local < count.world && count.here >= local;
  return count;
}

bool AttachedTraining::fetched_in_thread() const { return std::ranges::find(notes, "loader-in-thread", &NoteMessage::code) != notes.end(); }

bool AttachedTraining::stream_goes_on() const { return std::ranges::find(notes, "stream-goes-on", &NoteMessage::code) != notes.end(); }

bool AttachedTraining::measured() const {
  return std::ranges::any_of(phases, [](const auto& phase) { return !stretches_of(phase.second).empty(); });
}

void append(StepWindow& window, const StepWindow& later) {
  for (const auto list : lists_of_steps) (window.*list).insert((window.*list).end(), (later.*list).begin(), (later.*list).end());
  window.between += later.begin - window.end;
  window.end = later.end;
  window.sampling_seconds += later.sampling_seconds;
  window.optimizer_steps += later.optimizer_steps;
  window.skipped += later.skipped;
}

double step_seconds(const StepWindow& window) { return to_seconds(window.end - window.begin - window.between); }

double median_step_seconds(const StepWindow& window) { return median(steps_of(window)); }

double mean_step_seconds(const StepWindow& window) {
  return step_seconds(window) / static_cast<double>(std::max<std::size_t>(window.samples.size(), 1));
}

double first_wait(const PhaseMeasurement& phase, int rank) {
  const auto found = phase.first_waits.find(rank);
  if (found == phase.first_waits.end() || found->second.empty() || phase.pass_steps.value_or(0) == 0) return 0;
  return sum(found->second) / static_cast<double>(found->second.size() * *phase.pass_steps);
}

std::vector<Stretch> stretches_of(const PhaseMeasurement& phase) {
  std::vector<Stretch> stretches;
  std::size_t windows = SIZE_MAX;
  for (const auto& [rank, list] : phase.by_rank) windows = std::min(windows, list.size());
  for (std::size_t i = 0; i < windows && !phase.by_rank.empty(); ++i) {
    // Of a step: ranks whose windows differ in length, at an epoch's end for one, still train in step.
    double samples = 0;
    double seconds = 0;
    double longest = 0;
    for (const auto& [rank, list] : phase.by_rank) {
      if (list[i].samples.empty()) continue;
      const auto steps = static_cast<double>(list[i].samples.size());
      longest = std::max(longest, steps);
      samples += sum(list[i].samples) / steps;
      const double validated = phase.whole_run ? 0 : sum(list[i].validation);
      seconds = std::max(seconds, (step_seconds(list[i]) - validated) / steps + first_wait(phase, rank));
    }
    if (seconds > 0) stretches.push_back({samples * longest, seconds * longest});
  }
  return stretches;
}

std::optional<double> waiting_fraction(const PhaseMeasurement& phase) {
  std::optional<double> most;
  for (const auto& [rank, windows] : phase.by_rank) {
    double waited = 0;
    double seconds = 0;
    for (const StepWindow& window : windows) {
      if (window.is_counted()) continue;
      const double first = first_wait(phase, rank) * static_cast<double>(window.samples.size());
      waited += sum(window.wait) + first;
      seconds += step_seconds(window) + first;
    }
    if (seconds > 0) most = std::max(most.value_or(0), waited / seconds);
  }
  return most;
}

std::vector<Stretch> stretches_of(const DrainMeasurement& drain) {
  std::vector<Stretch> slowest;
  bool first = true;
  for (const auto& [rank, drained] : drain.by_rank) {
    const std::vector<Stretch> of_rank = stretches_of(drained);
    if (std::exchange(first, false)) {
      slowest = of_rank;
      continue;
    }
    slowest.resize(std::min(slowest.size(), of_rank.size()));
    for (std::size_t i = 0; i < slowest.size(); ++i)
      if (of_rank[i].rate() < slowest[i].rate()) slowest[i] = of_rank[i];
  }
  for (Stretch& each : slowest) each.amount *= static_cast<double>(drain.by_rank.size());
  return slowest;
}

std::vector<Stretch> stretches_of(const std::vector<const DrainMeasurement*>& drains) {
  std::vector<Stretch> all;
  for (const DrainMeasurement* drain : drains) {
    const std::vector<Stretch> more = stretches_of(*drain);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

std::vector<const DrainMeasurement*> AttachedTraining::drains_of(int workers) const {
  std::vector<const DrainMeasurement*> found;
  for (const std::vector<DrainMeasurement>* const list : {&drains, &further_drains})
    for (const DrainMeasurement& drain : *list)
      if (drain.workers == workers) found.push_back(&drain);
  return found;
}

}  // namespace dsanalyze
