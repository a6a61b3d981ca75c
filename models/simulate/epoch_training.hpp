#pragma once

#include <vector>

#include "epoch_loader.hpp"
#include "epoch_stages.hpp"

namespace dsanalyze::simulation {

/// The loop of src/profile/training.cpp: one thread that asks the loader for batches, hands them to the accelerators, and gives slots back. It does
/// one thing at a time: while it waits for a batch, it gives nothing back, at most for a quarter of a second.
class TrainingLoop {
 public:
  explicit TrainingLoop(const SimulatedAccelerators& accelerators) : m_accelerators(accelerators) {}
  /// Goes as far as it can without time passing. Batches that started are appended to `started`.
  void run(LoaderStage& loader, Nanoseconds now, std::vector<TrainedBatch>& started);
  /// When it goes on if no batch comes before.
  [[nodiscard]] Nanoseconds next_event() const { return m_goes_on_at; }
  [[nodiscard]] bool done() const { return m_doing == Doing::nothing_more; }
  [[nodiscard]] const AcceleratorStage& accelerators() const { return m_accelerators; }

 private:
  enum class Doing { looks, awaits_batch, awaits_end, nothing_more };

  /// False when it has to wait.
  bool ask(LoaderStage& loader, Nanoseconds now, std::vector<TrainedBatch>& started);
  void begin_reaping(Nanoseconds now);

  AcceleratorStage m_accelerators;
  Doing m_doing = Doing::looks;
  bool m_more = true;
  Nanoseconds m_goes_on_at = never;
};

}  // namespace dsanalyze::simulation
