#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dsanalyze/core/jobs_record.hpp"

namespace dsanalyze::job_messages {

// What the process of a coordinated job tells the profile that started it, a line of JSON each, and what that answers.

/// An epoch's end, with the mean loss of it where a network learns.
std::string epoch(std::uint64_t epoch, const std::optional<TrainingRecord>& training);
/// All that the job did; the last line.
std::string record(const JobRecord& record);
/// The group had ended before the job came in; the last line.
std::string ended();
/// What went wrong; the last line.
std::string failed(std::string_view what);

struct Message {
  enum class Kind : std::uint8_t { epoch, record, ended, failed };
  Kind kind = Kind::failed;
  std::uint64_t epoch = 0;
  std::optional<double> loss;
  JobRecord record;
  std::string what;
};
/// Throws UsageError for what is none of these.
Message parse(const std::string& line);

// Answers to `epoch`, in a search.
constexpr std::string_view go = "go";
constexpr std::string_view stop = "stop";

}  // namespace dsanalyze::job_messages
