#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/system/files.hpp"
#include "core/records/jobs_record.hpp"
#include "trial_search.hpp"

namespace dsanalyze {

/// One end of the talk between a profile and the process of one of its jobs: lines of text, both ways. Threads: one.
class JobChannel {
 public:
  JobChannel() = default;
  explicit JobChannel(FileDescriptor socket) : m_socket(std::move(socket)) {}
  /// Two connected ends; throws Error when the system has none.
  static std::pair<JobChannel, JobChannel> pair();

  [[nodiscard]] int descriptor() const { return m_socket.get(); }
  /// Text without line ends. io when the other end is gone, timeout past the deadline.
  Status send(const std::string& line, Timing timing, Deadline deadline);
  /// The next line. timeout; end when the other end is closed; corrupt for a line of more than 16 MiB.
  Status receive(std::string& line, Timing timing, Deadline deadline);

 private:
  FileDescriptor m_socket;
  std::string m_read;
};

}  // namespace dsanalyze

namespace dsanalyze::job_messages {

// What the profile that started the process of a job tells it first, what that tells it, a line of JSON each, and what the profile answers.

/// The first line to each job.
struct Start {
  int job = 0;               ///< its number
  double speed = 1;          ///< of its accelerators, as a factor of the settings' rate
  std::optional<int> trial;  ///< that it begins with, in a search
};
std::string start(const Start& start);
/// Throws UsageError for what is none.
Start parse_start(const std::string& line);

std::string epoch(const TrialEpoch& end);
/// All that the job did; the last line.
std::string record(const JobRecord& record);
/// The group had ended before the job came in; the last line.
std::string ended();
/// What went wrong; the last line.
std::string failed(std::string_view what);

struct Message {
  enum class Kind : std::uint8_t { epoch, record, ended, failed };
  Kind kind = Kind::failed;
  TrialEpoch epoch;
  JobRecord record;
  std::string what;
};
/// Throws UsageError for what is none of these.
Message parse(const std::string& line);

// Answers to `epoch`, in a search.
constexpr std::string_view go = "go";
constexpr std::string_view stop = "stop";  ///< to jobs of no search, too, whenever their time is over
std::string trial(int number);
std::optional<int> parse_trial(std::string_view line);

}  // namespace dsanalyze::job_messages
