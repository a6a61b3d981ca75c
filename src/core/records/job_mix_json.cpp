#include <fmt/format.h>

#include <limits>

#include "base/error.hpp"
#include "base/text/json_reader.hpp"
#include "base/text/text.hpp"
#include "job_mix.hpp"

namespace dsanalyze {
namespace {

constexpr double min_rate = 1e-3;
constexpr double max_rate = 1e9;
constexpr double min_ratio = 1e-6;
constexpr double max_ratio = 1e6;
constexpr double max_arrival_seconds = 1e9;
constexpr std::int64_t max_batch_size = 1 << 20;
constexpr std::int64_t max_samples = std::numeric_limits<std::uint32_t>::max() - 1;
constexpr std::size_t max_name = 60;  // characters

JobMix::Job read_job(JsonObject& object, std::size_t number) {
  JobMix::Job job;
  job.name = object.optional_text("name").value_or(fmt::format("job {}", number));
  if (job.name.empty() || job.name.size() > max_name || printable(job.name) != job.name)
    object.fail("name", fmt::format("found {} characters, expected 1 to {} printable ones", job.name.size(), max_name));
  job.samples_per_s = object.optional_number("samples_per_s", min_rate, max_rate);
  job.speed_ratio = object.optional_number("speed_ratio", min_ratio, max_ratio);
  if (job.samples_per_s.has_value() == job.speed_ratio.has_value())
    object.fail("", fmt::format("found {} of samples_per_s and speed_ratio, expected one: the job's own speed, or that over G",
                                job.speed_ratio ? "both" : "none"));
  job.arrival_seconds = object.optional_number("arrival_seconds", 0, max_arrival_seconds).value_or(0);
  job.subset = object.optional_text("subset").value_or("");
  job.batch_size = static_cast<std::uint32_t>(object.integer("batch_size", 1, max_batch_size));
  job.epochs = static_cast<std::uint32_t>(object.integer("epochs", 1, static_cast<std::int64_t>(max_mix_epochs)));
  return job;
}

}  // namespace

JobMix parse_job_mix(std::string_view text, const std::string& source) {
  JsonObject root = parse_json_object(text, source);
  JobMix mix;
  if (const auto samples = root.optional_integer("samples", 1, max_samples)) mix.samples = static_cast<std::uint32_t>(*samples);
  std::vector<JsonObject> jobs = root.objects("jobs");
  if (jobs.empty() || jobs.size() > max_mix_jobs) root.fail("jobs", fmt::format("found {} jobs, expected 1 to {}", jobs.size(), max_mix_jobs));
  std::uint64_t epochs = 0;
  for (JsonObject& job : jobs) {
    mix.jobs.push_back(read_job(job, mix.jobs.size()));
    epochs += mix.jobs.back().epochs;
  }
  root.finish();
  if (epochs > max_mix_epochs)
    root.fail("jobs", fmt::format("found {} epochs of all jobs together, expected at most {}: ask about fewer", epochs, max_mix_epochs));
  return mix;
}

std::string subset_error(const std::string& source, std::size_t job, const std::string& what) {
  return fmt::format("{}: /jobs/{}/{}", source, job, what);
}

}  // namespace dsanalyze
