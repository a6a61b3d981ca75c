#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "base/clock.hpp"
#include "base/counters.hpp"
#include "base/error.hpp"
#include "base/text/text.hpp"
#include "base/text/units.hpp"
#include "prep.hpp"

namespace dsanalyze {
namespace {

struct EmulatedCores {
  Nanoseconds service;
  std::span<DeviceLane> lanes;
  Timing timing;
};

class EmulatedPrep : public Prep {
 public:
  explicit EmulatedPrep(const EmulatedCores& cores) : m_cores(cores) {}

  Status prepare(const PrepTask& task) override {
    const Nanoseconds end = reserve_earliest(m_cores.lanes, task.ready, m_cores.service, m_cores.timing.clock->now());
    m_cores.timing.waiter->sleep_until(end);
    m_counter.add(1, task.encoded.size(), m_cores.service);
    if (!task.spent.empty()) task.spent.front() += m_cores.service;
    return {};
  }
  [[nodiscard]] std::vector<Nanoseconds> operator_times() const override { return {m_counter.totals().busy}; }

 private:
  EmulatedCores m_cores;
  StageCounter m_counter;
};

class EmulatedPrepFactory : public PrepFactory {
 public:
  EmulatedPrepFactory(const TensorShape& tensor_like, const EmulatedCores& cores) : m_tensor(tensor_like), m_cores(cores) {}
  [[nodiscard]] std::unique_ptr<Prep> make() const override { return std::make_unique<EmulatedPrep>(m_cores); }
  [[nodiscard]] TensorShape tensor(std::int64_t count) const override {
    TensorShape shape = m_tensor;
    shape.shape[0] = count;
    return shape;
  }
  [[nodiscard]] std::vector<std::string_view> operator_names() const override { return {"emulated"}; }

 private:
  TensorShape m_tensor;
  EmulatedCores m_cores;
};

}  // namespace

std::unique_ptr<PrepFactory> make_emulated_prep(const TensorShape& tensor_like, double seconds_per_sample, std::span<DeviceLane> cores,
                                                Timing timing) {
  return std::make_unique<EmulatedPrepFactory>(tensor_like, EmulatedCores{to_nanoseconds(seconds_per_sample), cores, timing});
}

namespace {

class NullPrep : public Prep {
 public:
  Status prepare(const PrepTask&) override { return {}; }
  [[nodiscard]] std::vector<Nanoseconds> operator_times() const override { return {}; }
};

class NullPrepFactory : public PrepFactory {
 public:
  explicit NullPrepFactory(const TensorShape& tensor_like) : m_tensor(tensor_like) {}
  [[nodiscard]] std::unique_ptr<Prep> make() const override { return std::make_unique<NullPrep>(); }
  [[nodiscard]] TensorShape tensor(std::int64_t count) const override {
    TensorShape shape = m_tensor;
    shape.shape[0] = count;
    return shape;
  }
  [[nodiscard]] std::vector<std::string_view> operator_names() const override { return {}; }

 private:
  TensorShape m_tensor;
};

}  // namespace

std::unique_ptr<PrepFactory> make_null_prep(const TensorShape& tensor_like) { return std::make_unique<NullPrepFactory>(tensor_like); }

namespace {

class SlowedPrep final : public Prep {
 public:
  SlowedPrep(std::unique_ptr<Prep> prep, double share) : m_prep(std::move(prep)), m_share(share) {}

  Status prepare(const PrepTask& task) override {
    const Nanoseconds begin = thread_cpu_time();
    Status status = m_prep->prepare(task);
    const Nanoseconds end = thread_cpu_time();
    const Nanoseconds until = end + to_nanoseconds(to_seconds(end - begin) * m_share);
    while (thread_cpu_time() < until) continue;
    return status;
  }
  [[nodiscard]] std::vector<Nanoseconds> operator_times() const override { return m_prep->operator_times(); }

 private:
  std::unique_ptr<Prep> m_prep;
  double m_share;
};

class SlowedPrepFactory final : public PrepFactory {
 public:
  SlowedPrepFactory(std::unique_ptr<PrepFactory> factory, double share) : m_factory(std::move(factory)), m_share(share) {}
  [[nodiscard]] std::unique_ptr<Prep> make() const override { return std::make_unique<SlowedPrep>(m_factory->make(), m_share); }
  [[nodiscard]] TensorShape tensor(std::int64_t count) const override { return m_factory->tensor(count); }
  [[nodiscard]] std::vector<std::string_view> operator_names() const override { return m_factory->operator_names(); }

 private:
  std::unique_ptr<PrepFactory> m_factory;
  double m_share;
};

}  // namespace

double slow_prep_share() {
  const char* const given = std::getenv(slow_prep_variable);
  if (given == nullptr || *given == '\0') return 0;
  double share = 0;
  try {
    share = parse_share(given);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", slow_prep_variable, error.what()));
  }
  if (!(share >= 0 && share <= 1)) throw UsageError(fmt::format("{}: found {}, expected a share from 0 to 1", slow_prep_variable, printable(given)));
  return share;
}

std::unique_ptr<PrepFactory> make_slowed_prep(std::unique_ptr<PrepFactory> prep, double share) {
  return std::make_unique<SlowedPrepFactory>(std::move(prep), share);
}

}  // namespace dsanalyze
