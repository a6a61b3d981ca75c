#include "profile/profiler.hpp"

#include <optional>

#include "base/error.hpp"
#include "job_channel.hpp"
#include "job_record.hpp"
#include "share/group_job.hpp"
#include "trial_run.hpp"

namespace dsanalyze {
namespace {

constexpr double told_within_seconds = 10;
constexpr double entered_within_seconds = 3600;  ///< a job of a search waits for an epoch's end
constexpr double look_for_end_seconds = 0.05;    ///< whether the profile has said that the time is over

class GroupJobProcess {
 public:
  GroupJobProcess(FileDescriptor line, JobChannel& channel, Timing timing)
      : m_channel(channel), m_timing(timing), m_job({std::move(line), {}, timing, {}}, read_host_facts()) {
    static_cast<LoadInputs&>(m_inputs) = m_job.inputs();
  }

  void run() {
    const job_messages::Start start = job_messages::parse_start(answer());
    m_inputs.settings.accelerator_rate *= start.speed;
    const ProfileSettings& settings = m_inputs.settings;
    const Status entered = m_job.enter(m_timing.clock->after(entered_within_seconds));
    if (entered.code == StatusCode::end) return tell(job_messages::ended());
    if (!entered.ok()) throw Error("the job was not let into its group: " + m_job.member().failure());
    JobBatches batches(m_job, settings.batch_copy, m_job.terms().tensor.sample_bytes() * m_job.terms().staging.batch_size, m_timing);
    const auto first = static_cast<std::uint32_t>(start.job * settings.accelerators);
    const TrialRun plan{
        .make = [&](std::optional<int> trial) { return make_trainer(m_inputs, m_job.server().devices(), first, batches, m_timing, trial); },
        .first_trial = start.trial,
        .epoch_ended = [this](const TrialEpoch& end) { return decision(end); },
        .enough = [this](const TrainingLog&) { return time_is_over(); },
    };
    const TrialRunResult run = run_trials(plan, batches, {}, m_timing);
    if (const std::string failure = m_job.failure(); !failure.empty()) throw Error(failure);  // the host put it out
    batches.stop();
    JobRecord record = record_job(m_inputs, run.log, batches, *run.trainer, {m_job.loader(), m_job.storage_bytes(), m_job.requested_bytes()});
    record.trial = run.trial;
    tell(job_messages::record(record));
  }

 private:
  void tell(const std::string& line) {
    if (!m_channel.send(line, m_timing, m_timing.clock->after(told_within_seconds)).ok()) throw Error("the profile that started this job is gone");
  }
  std::string answer() {
    std::string line;
    const Status status = m_channel.receive(line, m_timing, m_timing.clock->after(entered_within_seconds));
    if (!status.ok()) throw Error("the profile that started this job is gone");
    return line;
  }
  /// Tells of an epoch's end; in a search, asks what now.
  TrialSearch::Decision decision(const TrialEpoch& end) {
    tell(job_messages::epoch(end));
    if (m_inputs.settings.trials == 0) return {};
    const std::string line = answer();
    if (line == job_messages::stop) return {TrialSearch::Decision::Kind::stop, 0};
    const auto trial = job_messages::parse_trial(line);
    return trial ? TrialSearch::Decision{TrialSearch::Decision::Kind::next, *trial} : TrialSearch::Decision{};
  }

  /// In a search the profile says so when it is asked what now.
  bool time_is_over() {
    const Nanoseconds now = m_timing.clock->now();
    if (m_inputs.settings.trials > 0 || now < m_look_again || m_over) return m_over;
    m_look_again = now + to_nanoseconds(look_for_end_seconds);
    std::string line;
    m_over = m_channel.receive(line, m_timing, Deadline{0}).ok() && line == job_messages::stop;
    return m_over;
  }

  JobChannel& m_channel;
  Timing m_timing;
  Nanoseconds m_look_again = 0;
  bool m_over = false;
  GroupJob m_job;
  ProfileInputs m_inputs;
};

}  // namespace

GroupJobEnd run_group_job_process(FileDescriptor line, FileDescriptor report, Timing timing) {
  JobChannel channel(std::move(report));
  try {
    GroupJobProcess(std::move(line), channel, timing).run();
    return {true, {}};
  } catch (const std::exception& error) {
    const bool told = channel.send(job_messages::failed(error.what()), timing, timing.clock->after(1)).ok();
    return {false, told ? std::string() : error.what()};
  }
}

}  // namespace dsanalyze
