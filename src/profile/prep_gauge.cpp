#include "pilot.hpp"
#include "runs.hpp"

namespace dsanalyze {
namespace {

constexpr double without_limit = 1e6;  ///< seconds: whoever asks says how long

ProfileInputs prep_alone(ProfileInputs inputs) {
  inputs.settings.runs = {"prep"};
  inputs.settings.time_budget_seconds = without_limit;
  return inputs;
}

FetchWay way_of(const ProfileSettings& settings) { return {settings.io == IoEngine::automatic ? IoEngine::pread : settings.io, settings.read_mode}; }

}  // namespace

struct PrepGauge::State {
  State(const ProfileInputs& given, std::stop_token stop, Timing timing)
      : inputs(prep_alone(given)),
        plan(plan_profile(inputs)),
        context{inputs,
                plan,
                draw_subset(inputs, plan.most_subset_samples),
                0,
                null_events(),
                std::move(stop),
                timing,
                timing.clock->now(),
                {},
                true,
                way_of(inputs.settings),
                {}},
        warm(inputs, run_spec(context, CacheKind::minio, context.subset->bytes()), timing) {
    fill_cache(context, warm, without_limit);
  }

  ProfileInputs inputs;
  ProfilePlan plan;
  RunContext context;
  Pipeline warm;
};

PrepGauge::PrepGauge(const ProfileInputs& inputs, std::stop_token stop, Timing timing)
    : m_state(std::make_unique<State>(inputs, std::move(stop), timing)) {}
PrepGauge::~PrepGauge() = default;

double PrepGauge::samples_per_s(int cores, double seconds) {
  const auto point = measure_on_cores(m_state->context, m_state->warm, cores, seconds);
  return point ? point->samples_per_s : 0;
}

}  // namespace dsanalyze
