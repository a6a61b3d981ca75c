#include "dsanalyze/loaders/slowed_prep.hpp"

#include <utility>

#include "dsanalyze/base/thread_time.hpp"

namespace dsanalyze {
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

std::unique_ptr<PrepFactory> make_slowed_prep(std::unique_ptr<PrepFactory> prep, double share) {
  return std::make_unique<SlowedPrepFactory>(std::move(prep), share);
}

}  // namespace dsanalyze
