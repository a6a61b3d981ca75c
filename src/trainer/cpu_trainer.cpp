#include "cpu_trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace dsanalyze {
namespace {

constexpr double look_again_seconds = 1;  ///< of threads that wait for work, should a wake be lost

TrainingRecord empty_record(const CpuTrainerOptions& options, const NetworkOptions& network) {
  TrainingRecord record;
  record.precision = precision_name(options.precision);
  record.inputs = network.inputs;
  record.hidden = network.hidden;
  record.classes = network.classes;
  record.parameters = network.parameters();
  record.learning_rate = network.learning_rate;
  record.momentum = network.momentum;
  return record;
}

/// One step at a time: submit() starts it when its last batch is there, each batch's thread works it off, the last of them to end makes the step and
/// reap() takes it. What threads share is handed over by the lanes' words, m_pending and m_ended.
template <typename Real>
class CpuTrainer final : public Trainer {
 public:
  CpuTrainer(const CpuTrainerOptions& options, Timing timing)
      : m_options(options),
        m_timing(timing),
        m_inputs(options.tensor),
        m_network(network_options(options)),
        m_history(empty_record(options, m_network.options())),
        m_lanes(options.accelerators) {
    m_batches.reserve(options.accelerators);
    m_total.clear(m_network.parameters().size());
    if (options.ranks != nullptr) m_of_ranks.resize(m_total.gradient.size() + 2);
    for (Lane& lane : m_lanes) {
      lane.worker = std::make_unique<GradientWorker<Real>>(m_inputs, m_network.options());
      lane.sum.clear(m_total.gradient.size());
    }
    try {
      for (Lane& lane : m_lanes) lane.thread = std::thread([this, &lane] { serve(lane); });
    } catch (...) {
      stop();
      throw;
    }
  }
  ~CpuTrainer() override { stop(); }
  CpuTrainer(const CpuTrainer&) = delete;
  CpuTrainer& operator=(const CpuTrainer&) = delete;

  Status submit(const Batch& batch) override {
    if (!wants_batch()) return {StatusCode::busy, 0};
    m_batches.push_back(batch);
    if (m_batches.size() == std::clamp<std::size_t>(batch.slices, 1, m_lanes.size())) start_step();
    return {};
  }

  std::size_t reap(std::span<BatchCompletion> completions, Deadline deadline) override {
    if (!m_under_way || completions.empty()) return 0;
    while (m_ended.load(std::memory_order_acquire) == 0) {
      if (m_timing.clock->now() >= deadline.at) return 0;
      m_timing.waiter->wait(m_ended, 0, deadline);
    }
    if (m_error) std::rethrow_exception(m_error);
    if (m_given == 0) m_history.add(m_batches.front().epoch, m_total.loss, m_total.samples);
    std::size_t count = 0;
    while (count < completions.size() && m_given < m_batches.size()) completions[count++] = completion_of(m_batches[m_given++]);
    if (m_given == m_batches.size()) {
      m_batches.clear();
      m_last_end = m_end;
      m_under_way = false;
    }
    return count;
  }

  [[nodiscard]] bool wants_batch() const override { return !m_under_way; }
  [[nodiscard]] std::optional<TrainingRecord> training() const override { return m_history.record(); }

 private:
  /// One accelerator.
  struct Lane {
    std::atomic<std::uint32_t> handed_over{0};  ///< counts batches, and the end
    Batch batch;
    GradientSum<Real> sum;
    std::exception_ptr error;
    std::unique_ptr<GradientWorker<Real>> worker;
    std::thread thread;
  };

  void hand_over(Lane& lane) {
    lane.handed_over.fetch_add(1, std::memory_order_release);
    m_timing.waiter->wake(lane.handed_over, 1);
  }

  void start_step() {
    m_begin = m_timing.clock->now();
    m_under_way = true;
    m_given = 0;
    m_ended.store(0, std::memory_order_relaxed);
    m_pending.store(static_cast<std::uint32_t>(m_batches.size()), std::memory_order_relaxed);
    for (std::size_t i = 0; i < m_batches.size(); ++i) {
      m_lanes[i].batch = m_batches[i];
      hand_over(m_lanes[i]);
    }
  }

  /// The body of a lane's thread.
  void serve(Lane& lane) {
    for (std::uint32_t seen = 0;; ++seen) {
      while (lane.handed_over.load(std::memory_order_acquire) == seen)
        m_timing.waiter->wait(lane.handed_over, seen, m_timing.clock->after(look_again_seconds));
      if (m_stop.load(std::memory_order_relaxed)) return;
      try {
        lane.sum.clear(lane.sum.gradient.size());
        lane.worker->add(m_network, lane.batch, m_options.memory(lane.batch), lane.sum);
      } catch (...) {
        lane.error = std::current_exception();
      }
      if (m_pending.fetch_sub(1, std::memory_order_acq_rel) == 1) end_step();
    }
  }

  /// By the last thread of the step, which sees what all of them wrote.
  void end_step() {
    try {
      m_total.clear(m_total.gradient.size());
      for (std::size_t i = 0; i < m_batches.size(); ++i) {
        if (m_lanes[i].error) std::rethrow_exception(m_lanes[i].error);
        m_total.add(m_lanes[i].sum);
      }
      if (m_options.ranks != nullptr) sum_over_ranks(*m_options.ranks);
      if (m_total.samples > 0) m_network.descend(m_total);
      if (m_options.look) show();
    } catch (...) {
      m_error = std::current_exception();
    }
    m_end = m_timing.clock->now();
    m_ended.store(1, std::memory_order_release);
    m_timing.waiter->wake(m_ended, 1);
  }

  void show() const {
    const auto& weights = std::as_const(m_network).parameters();
    m_options.look(std::vector<double>(m_total.gradient.begin(), m_total.gradient.end()), std::vector<double>(weights.begin(), weights.end()));
  }

  void sum_over_ranks(Collective& ranks) {
    const std::size_t parameters = m_total.gradient.size();
    std::ranges::copy(m_total.gradient, m_of_ranks.begin());
    m_of_ranks[parameters] = m_total.loss;
    m_of_ranks[parameters + 1] = static_cast<double>(m_total.samples);
    const Status status = ranks.sum(m_of_ranks, m_timing.clock->after(m_options.sum_seconds));
    if (!status.ok()) {
      const std::string reason = status.code == StatusCode::timeout ? fmt::format("another rank is slower than {:g} s a step", m_options.sum_seconds)
                                                                    : "another rank has ended";
      throw Error(
          fmt::format("rank {} of {}: summing the gradients of all ranks failed ({}): {}. Synchronous training cannot go on with a sum that lacks a "
                      "part; start all ranks again",
                      ranks.rank(), ranks.world(), status_name(status.code), reason));
    }
    std::transform(m_of_ranks.begin(), m_of_ranks.begin() + static_cast<std::ptrdiff_t>(parameters), m_total.gradient.begin(),
                   [](double value) { return static_cast<Real>(value); });
    m_total.loss = m_of_ranks[parameters];
    m_total.samples = static_cast<std::uint64_t>(m_of_ranks[parameters + 1]);
  }

  [[nodiscard]] BatchCompletion completion_of(const Batch& batch) const {
    const Nanoseconds stall = m_last_end == 0 ? 0 : std::max<Nanoseconds>(m_begin - m_last_end, 0);
    return {batch.token, batch.step, batch.epoch, batch.count, batch.last_of_epoch, batch.ready_at, m_begin, m_end, stall};
  }

  void stop() {
    m_stop.store(true, std::memory_order_relaxed);
    for (Lane& lane : m_lanes) hand_over(lane);
    for (Lane& lane : m_lanes)
      if (lane.thread.joinable()) lane.thread.join();
  }

  CpuTrainerOptions m_options;
  Timing m_timing;
  PooledInputs m_inputs;
  ReferenceNetwork<Real> m_network;
  LossHistory m_history;
  std::vector<Batch> m_batches;  ///< of the step that is gathered or running
  GradientSum<Real> m_total;
  std::vector<double> m_of_ranks;
  std::vector<Lane> m_lanes;
  std::atomic<bool> m_stop{false};
  std::atomic<std::uint32_t> m_pending{0}, m_ended{0};
  std::exception_ptr m_error;  ///< of the running step, which then never ends
  bool m_under_way = false;
  std::size_t m_given = 0;
  Nanoseconds m_begin = 0, m_end = 0, m_last_end = 0;
};

}  // namespace

NetworkOptions network_options(const CpuTrainerOptions& options) {
  NetworkOptions network;
  network.inputs = PooledInputs(options.tensor).size();
  network.classes = options.classes;
  network.seed = options.seed;
  network.learning_rate = options.learning_rate;
  network.momentum = options.momentum;
  return network;
}

Bytes cpu_trainer_memory(const CpuTrainerOptions& options) {
  const Bytes number = options.precision == Precision::float64 ? sizeof(double) : sizeof(float);
  const Bytes parameters = network_options(options).parameters();
  const Bytes copies = 3 + Bytes{options.accelerators};  // weights, velocity and the sum; a gradient a thread
  return copies * parameters * number + (options.ranks != nullptr ? parameters * sizeof(double) : 0);
}

std::unique_ptr<Trainer> make_cpu_trainer(const CpuTrainerOptions& options, Timing timing) {
  if (options.accelerators == 0 || options.classes == 0 || options.classes > most_classes || !options.memory) {
    throw UsageError(fmt::format("the reference network needs an accelerator, between 1 and {} classes and the batches' memory; found {} and {}",
                                 most_classes, options.accelerators, options.classes));
  }
  if (options.precision == Precision::float64) return std::make_unique<CpuTrainer<double>>(options, timing);
  return std::make_unique<CpuTrainer<float>>(options, timing);
}

void LossHistory::add(std::uint64_t epoch, double loss_sum, std::uint64_t samples) {
  const std::uint64_t step = m_record.steps++;
  if (samples == 0) return;
  if (step % m_every == 0) {
    auto& kept = m_record.by_step;
    if (kept.size() == TrainingRecord::most_steps) {
      m_every *= 2;
      std::erase_if(kept, [this](const TrainingRecord::StepLoss& each) { return each.step % m_every != 0; });
    }
    if (step % m_every == 0) kept.push_back({step, loss_sum / static_cast<double>(samples)});
  }
  auto& epochs = m_record.by_epoch;
  if (epochs.empty() || epochs.back().epoch != epoch) {
    if (epochs.size() == TrainingRecord::most_epochs) epochs.erase(epochs.begin() + 1);
    epochs.push_back({epoch, 0, 0});
    m_epoch_sum = 0;
  }
  m_epoch_sum += loss_sum;
  epochs.back().samples += samples;
  epochs.back().loss = m_epoch_sum / static_cast<double>(epochs.back().samples);
}

}  // namespace dsanalyze
