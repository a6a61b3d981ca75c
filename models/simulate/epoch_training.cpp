#include "epoch_training.hpp"

#include <algorithm>

#include "core/depths.hpp"

namespace dsanalyze::simulation {

void TrainingLoop::run(LoaderStage& loader, Nanoseconds now, std::vector<TrainedBatch>& started) {
  while (m_doing != Doing::nothing_more) {
    if (m_doing == Doing::awaits_end) {
      if (now < m_goes_on_at) return;
      loader.release_slots(m_accelerators.reap(now), now);
      m_doing = Doing::looks;
    } else if (!ask(loader, now, started)) {
      return;
    }
  }
}

bool TrainingLoop::ask(LoaderStage& loader, Nanoseconds now, std::vector<TrainedBatch>& started) {
  const bool waited = m_doing == Doing::awaits_batch;
  m_doing = Doing::looks;
  if (m_more && m_accelerators.wants_batch()) {
    TrainedBatch batch;
    if (loader.take(batch)) {
      m_accelerators.submit(batch, started);
      if (m_accelerators.wants_batch()) return true;
    } else if (loader.ended()) {
      m_more = false;
    } else if (!waited || now < m_goes_on_at) {
      if (!waited) m_goes_on_at = now + to_nanoseconds(look_up_seconds);
      m_doing = Doing::awaits_batch;
      return false;
    }
  }
  begin_reaping(now);
  return true;
}

void TrainingLoop::begin_reaping(Nanoseconds now) {
  if (m_accelerators.runs()) {
    m_goes_on_at = std::min(m_accelerators.first_end(), now + to_nanoseconds(look_up_seconds));
    m_doing = Doing::awaits_end;
  } else if (!m_more) {
    m_goes_on_at = never;
    m_doing = Doing::nothing_more;
  }
}

}  // namespace dsanalyze::simulation
