#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "trainer.hpp"

namespace dsanalyze {
namespace {

BatchCompletion completion_of(const Batch& batch) {
  return {batch.token, batch.step, batch.epoch, batch.count, batch.last_of_epoch, batch.ready_at, 0, 0, 0};
}

/// Completions that are due at their end, given out no earlier.
class Running {
 public:
  explicit Running(Timing timing) : m_timing(timing) {}
  void add(const BatchCompletion& completion) { m_batches.push_back(completion); }
  [[nodiscard]] std::size_t size() const { return m_batches.size(); }
  std::size_t reap(std::span<BatchCompletion> out, Deadline deadline) {
    if (m_batches.empty() || out.empty()) return 0;
    const auto first = std::ranges::min_element(m_batches, {}, &BatchCompletion::end);
    m_timing.waiter->sleep_until(std::min(first->end, deadline.at));
    const Nanoseconds now = m_timing.clock->now();
    std::size_t taken = 0;
    for (auto& batch : m_batches) {
      if (batch.end <= now && taken < out.size()) {
        out[taken++] = batch;
        batch.end = gone;
      }
    }
    std::erase_if(m_batches, [](const BatchCompletion& batch) { return batch.end == gone; });
    return taken;
  }

 private:
  static constexpr Nanoseconds gone = -1;
  Timing m_timing;
  std::vector<BatchCompletion> m_batches;
};

/// Time of `ready` that the accelerator, free since `free_since`, had to wait for. Nothing is waited for before the first step.
Nanoseconds stall_before(Nanoseconds free_since, Nanoseconds begin) { return free_since == 0 ? 0 : std::max<Nanoseconds>(begin - free_since, 0); }

class LockstepTrainer final : public Trainer {
 public:
  LockstepTrainer(const EmulatedTrainerOptions& options, std::span<DeviceLane> lanes, Timing timing)
      : m_options(options), m_lane(lanes.front()), m_timing(timing), m_running(timing) {
    m_gathered.reserve(options.accelerators);
  }
  Status submit(const Batch& batch) override {
    if (!wants_batch()) return {StatusCode::busy, 0};
    m_gathered.push_back(completion_of(batch));
    if (m_gathered.size() == std::min(batch.slices, m_options.accelerators)) start_step();
    return {};
  }
  std::size_t reap(std::span<BatchCompletion> completions, Deadline deadline) override { return m_running.reap(completions, deadline); }
  [[nodiscard]] bool wants_batch() const override { return m_running.size() == 0; }

 private:
  void start_step() {
    Nanoseconds ready = 0;
    std::uint32_t largest = 0;
    for (const auto& batch : m_gathered) {
      ready = std::max(ready, batch.ready);
      largest = std::max(largest, batch.samples);
    }
    const Nanoseconds step = to_nanoseconds(largest / m_options.samples_per_second);
    const Nanoseconds end = reserve(m_lane, ready, step, m_timing.clock->now());
    const Nanoseconds stall = stall_before(m_last_end, end - step);
    m_last_end = end;
    for (auto& batch : m_gathered) {
      batch.begin = end - step;
      batch.end = end;
      batch.stall = stall;
      m_running.add(batch);
    }
    m_gathered.clear();
  }

  EmulatedTrainerOptions m_options;
  DeviceLane& m_lane;  // lockstep: one step at a time, so one lane stands for the group
  Timing m_timing;
  std::vector<BatchCompletion> m_gathered;
  Running m_running;
  Nanoseconds m_last_end = 0;
};

class IndependentTrainer final : public Trainer {
 public:
  IndependentTrainer(const EmulatedTrainerOptions& options, std::span<DeviceLane> lanes, Timing timing)
      : m_options(options), m_lanes(lanes.first(options.accelerators)), m_timing(timing), m_running(timing), m_last_ends(options.accelerators) {}

  Status submit(const Batch& batch) override {
    if (!wants_batch()) return {StatusCode::busy, 0};
    const auto first = static_cast<std::size_t>(std::ranges::min_element(m_last_ends) - m_last_ends.begin());
    BatchCompletion running = completion_of(batch);
    const Nanoseconds step = to_nanoseconds(batch.count / m_options.samples_per_second);
    running.end = reserve(m_lanes[first], batch.ready_at, step, m_timing.clock->now());
    running.begin = running.end - step;
    running.stall = stall_before(m_last_ends[first], running.begin);
    m_last_ends[first] = running.end;
    m_running.add(running);
    return {};
  }
  std::size_t reap(std::span<BatchCompletion> completions, Deadline deadline) override { return m_running.reap(completions, deadline); }
  [[nodiscard]] bool wants_batch() const override { return m_running.size() < m_lanes.size(); }

 private:
  EmulatedTrainerOptions m_options;
  std::span<DeviceLane> m_lanes;
  Timing m_timing;
  Running m_running;
  std::vector<Nanoseconds> m_last_ends;
};

}  // namespace

std::unique_ptr<Trainer> make_emulated_trainer(const EmulatedTrainerOptions& options, std::span<DeviceLane> accelerators, Timing timing) {
  if (options.accelerators == 0 || options.accelerators > accelerators.size() || !(options.samples_per_second > 0)) {
    throw UsageError("emulated accelerators: their number must be between 1 and 256 and their rate more than 0 samples/s");
  }
  if (options.step == StepMode::lockstep) return std::make_unique<LockstepTrainer>(options, accelerators, timing);
  return std::make_unique<IndependentTrainer>(options, accelerators, timing);
}

namespace {

class NullTrainer final : public Trainer {
 public:
  Status submit(const Batch& batch) override {
    if (m_batch) return {StatusCode::busy, 0};
    // The recurrence of an accelerator that takes no time: a batch that was ready before an earlier one still ends after it.
    m_end = std::max(m_end, batch.ready_at);
    m_batch = {batch.token, batch.step, batch.epoch, batch.count, batch.last_of_epoch, batch.ready_at, m_end, m_end, 0};
    return {};
  }
  std::size_t reap(std::span<BatchCompletion> completions, Deadline /*deadline*/) override {
    if (!m_batch || completions.empty()) return 0;
    completions[0] = *m_batch;
    m_batch.reset();
    return 1;
  }
  [[nodiscard]] bool wants_batch() const override { return !m_batch; }

 private:
  std::optional<BatchCompletion> m_batch;
  Nanoseconds m_end = 0;
};

}  // namespace

std::unique_ptr<Trainer> make_null_trainer() { return std::make_unique<NullTrainer>(); }

}  // namespace dsanalyze
