#include "loss_history.hpp"

namespace dsanalyze {

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
