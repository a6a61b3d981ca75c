#include "dsanalyze/profile/group_job_process.hpp"

#include <algorithm>
#include <optional>
#include <utility>

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
    if (m_inputs.settings.trials > 0) obey(answer());
    const Status entered = m_job.enter(m_timing.clock->after(entered_within_seconds));
    if (entered.code == StatusCode::end) return tell(job_messages::ended());
    if (!entered.ok()) throw Error("the job was not let into its group: " + m_job.member().failure());
    const ProfileSettings& settings = m_inputs.settings;
    JobBatches batches(m_job, settings.batch_copy, m_job.terms().tensor.sample_bytes() * m_job.terms().staging.batch_size, m_timing);
    const std::uint32_t first = m_job.member().place() * static_cast<std::uint32_t>(settings.accelerators);
    TrainingLog log;
    std::unique_ptr<Trainer> trainer;
    do {
      trainer = make_trainer(m_inputs, m_job.server().devices(), first, batches, m_timing, std::exchange(m_next_trial, std::nullopt));
      m_looked_at = 0;
      log.append(feed(
          batches, *trainer, [&](const TrainingLog& so_far) { return ended_at_epoch(so_far, *trainer); }, {}, m_timing));
    } while (m_next_trial);
    batches.stop();
    JobRecord record = record_job(m_inputs, log, batches, *trainer, {m_job.loader(), m_job.storage_bytes(), m_job.requested_bytes()});
    if (m_stopped) record.end = "stopped";
    record.trial = m_trial;
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
  void obey(const std::string& line) {
    m_stopped = line == job_messages::stop;
    m_next_trial = job_messages::parse_trial(line);
    if (m_next_trial) m_trial = m_next_trial;
  }
  /// Tells of each epoch's end; of a search, asks what now. True where this trial ends.
  bool ended_at_epoch(const TrainingLog& log, const Trainer& trainer) {
    for (; m_looked_at < log.completions.size(); ++m_looked_at) {
      const BatchCompletion& completion = log.completions[m_looked_at];
      if (!completion.last_of_epoch) continue;
      const double seconds = to_seconds(completion.end - std::max(m_epoch_begun, log.begun));
      m_epoch_begun = completion.end;
      tell(job_messages::epoch({completion.epoch, seconds, m_inputs.index->size() / seconds, last_loss(trainer.training())}));
      if (m_inputs.settings.trials > 0) obey(answer());
    }
    return m_stopped || m_next_trial.has_value();
  }
  static std::optional<double> last_loss(const std::optional<TrainingRecord>& training) {
    if (!training || training->by_epoch.empty()) return std::nullopt;
    return training->by_epoch.back().loss;
  }

  JobChannel& m_channel;
  Timing m_timing;
  GroupJob m_job;
  ProfileInputs m_inputs;
  std::size_t m_looked_at = 0;
  Nanoseconds m_epoch_begun = 0;
  std::optional<int> m_trial, m_next_trial;
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
