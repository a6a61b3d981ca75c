#include <algorithm>
#include <optional>

#include "trainer.hpp"

namespace dsanalyze {
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
