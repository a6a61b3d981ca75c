#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dependent_sampler.hpp"
#include "draw_recorder.hpp"
#include "prepared_store.hpp"

namespace dsanalyze {

/// What a group of jobs that draw dependently has to prepare, and who gets what: the sampler, the store of prepared samples, and the version of each
/// sample. A pure function of the seed and of what was called, so that the recorded calls are replayed with the same result. Threads: one at a time.
class DependentGroup {
 public:
  struct Settings {
    std::uint32_t samples = 0;
    std::uint64_t seed = 1;
    std::uint32_t store_places = 0;
    StagingPolicy policy = StagingPolicy::refcnt;
  };
  explicit DependentGroup(const Settings& settings)
      : m_sampler(settings.samples, settings.seed), m_store(settings.store_places, settings.policy), m_generations(settings.samples) {}

  /// What a later group needs to go on: without jobs, which come again, and without prepared samples.
  struct State {
    std::uint64_t random = 0;                ///< of the draws
    std::vector<std::uint32_t> generations;  ///< by sample, of the next preparing
  };
  /// A group that goes on with the draws of an earlier one, and prepares no version again. Of `settings`, the seed is not used. Throws UsageError
  /// where the state is of another number of samples.
  DependentGroup(const Settings& settings, State state);
  [[nodiscard]] State state() const { return {m_sampler.random(), m_generations}; }

  [[nodiscard]] const RemainingSets& sets() const { return m_sampler.sets(); }

  /// From now on `recorder`, which lives until stop_recording() or as long as the group, is told what the jobs do; first, what each that is in an
  /// epoch still needs.
  void record_to(DrawRecorder& recorder);
  void stop_recording() { m_recorder = nullptr; }

  /// The job, which needs nothing, begins an epoch over the whole dataset, or over a part of it.
  void begin_epoch(std::uint32_t job);
  void begin_epoch(std::uint32_t job, std::span<const SampleId> samples);
  /// The job is gone.
  void end(std::uint32_t job);

  struct Work {
    SampleId sample = 0;
    JobSet jobs = 0;                     ///< that are given it
    std::uint32_t generation = 0;        ///< of the sample's preparing, by which it is augmented
    bool prepare = true;                 ///< false: it is in `place` of the store
    std::optional<std::uint32_t> place;  ///< of the store: where it is, or where it is to be kept when it has been prepared
  };
  /// One sample for each of these jobs, all of which still need some. Valid until the next call.
  std::span<const Work> draw(JobSet asking);

 private:
  DependentSampler m_sampler;
  PreparedStore m_store;
  std::vector<std::uint32_t> m_generations;  ///< by sample, of the next preparing
  std::vector<Work> m_work;
  DrawRecorder* m_recorder = nullptr;
  std::vector<DrawRecorder::Drawn> m_drawn;  ///< of the last round, for it
};

}  // namespace dsanalyze
