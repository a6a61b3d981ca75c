#include "dsanalyze/profile/group_job_process.hpp"

#include "dsanalyze/base/error.hpp"
#include "dsanalyze/share/group_job.hpp"
#include "job_channel.hpp"
#include "job_messages.hpp"
#include "job_record.hpp"

namespace dsanalyze {
namespace {

constexpr double told_within_seconds = 10;
constexpr double entered_within_seconds = 3600;  ///< a job of a search waits for an epoch's end

class GroupJobProcess {
 public:
  GroupJobProcess(FileDescriptor line, JobChannel& channel, Timing timing)
      : m_channel(channel), m_timing(timing), m_job({std::move(line), {}, timing, {}}, read_host_facts()) {
    static_cast<LoadInputs&>(m_inputs) = m_job.inputs();
  }

  void run() {
    const Status entered = m_job.enter(m_timing.clock->after(entered_within_seconds));
    if (entered.code == StatusCode::end) return tell(job_messages::ended());
    if (!entered.ok()) throw Error("the job was not let into its group: " + m_job.member().failure());
    const ProfileSettings& settings = m_inputs.settings;
    JobBatches batches(m_job, settings.batch_copy, m_job.terms().tensor.sample_bytes() * m_job.terms().staging.batch_size, m_timing);
    const std::uint32_t first = m_job.member().place() * static_cast<std::uint32_t>(settings.accelerators);
    const auto trainer = make_trainer(m_inputs, m_job.server().devices(), first, batches, m_timing);
    const TrainingLog log = train(
        batches, *trainer, [&](const TrainingLog& so_far) { return stopped_at_epoch(so_far, *trainer); }, {}, m_timing);
    JobRecord record = record_job(m_inputs, log, batches, *trainer, {m_job.loader(), m_job.storage_bytes(), m_job.requested_bytes()});
    if (m_stopped) record.end = "stopped";
    tell(job_messages::record(record));
  }

 private:
  void tell(const std::string& line) {
    if (!m_channel.send(line, m_timing, m_timing.clock->after(told_within_seconds)).ok()) throw Error("the profile that started this job is gone");
  }
  /// Tells of each epoch's end; of a search, asks whether to go on.
  bool stopped_at_epoch(const TrainingLog& log, const Trainer& trainer) {
    for (; m_looked_at < log.completions.size(); ++m_looked_at) {
      const BatchCompletion& completion = log.completions[m_looked_at];
      if (!completion.last_of_epoch) continue;
      tell(job_messages::epoch(completion.epoch, trainer.training()));
      if (m_inputs.settings.trials == 0) continue;
      std::string answer;
      const Status status = m_channel.receive(answer, m_timing, m_timing.clock->after(entered_within_seconds));
      if (!status.ok()) throw Error("the profile that started this job is gone");
      m_stopped = answer == job_messages::stop;
    }
    return m_stopped;
  }

  JobChannel& m_channel;
  Timing m_timing;
  GroupJob m_job;
  ProfileInputs m_inputs;
  std::size_t m_looked_at = 0;
  bool m_stopped = false;
};

}  // namespace

bool run_group_job_process(FileDescriptor line, FileDescriptor report, Timing timing) {
  JobChannel channel(std::move(report));
  try {
    GroupJobProcess(std::move(line), channel, timing).run();
    return true;
  } catch (const std::exception& error) {
    static_cast<void>(channel.send(job_messages::failed(error.what()), timing, timing.clock->after(1)).ok());
    return false;
  }
}

}  // namespace dsanalyze
