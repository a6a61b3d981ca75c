#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "base/random.hpp"
#include "convert_output.hpp"
#include "dataset_convert.hpp"
#include "loaders/dataset/dataset.hpp"
#include "loaders/dataset/readers/dataset_source.hpp"
#include "loaders/dataset/readers/parallel_ranges.hpp"
#include "loaders/dataset/readers/tar_header.hpp"
#include "loaders/dataset/sample_bytes.hpp"
#include "sample_files.hpp"

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

/// As the user named it: the shard where it is one, not its folder.
std::string source_name(const DatasetIndex& source) { return source.facts().source.empty() ? source.facts().root : source.facts().source; }

void require_other_place(const DatasetIndex& source, const fs::path& destination) {
  if (!source.facts().source.empty()) return;  // files that were named: their folder may hold other things too
  const std::string place = absolute_name(destination);
  const std::string& root = source.facts().root;
  if (place == root || place.starts_with(root + "/"))
    throw Error(fmt::format("the destination {} lies inside the dataset {}, which would then hold both; name a place outside of it", place, root));
}

/// Bytes of the samples that can be converted: one that no memory holds fails by its name, not for want of room.
Bytes convertible_bytes(const DatasetIndex& source) {
  const Bytes max = max_sample_bytes();
  Bytes bytes = 0;
  for (const IndexRecord& record : source.records()) bytes += record.length <= max ? record.length : 0;
  return bytes;
}

/// What the result takes on disk, about.
Bytes needed_bytes(const DatasetIndex& source, const ConvertOptions& options) {
  const Bytes samples = source.size();
  switch (options.format) {
    case ConvertFormat::folder:
      return convertible_bytes(source);
    case ConvertFormat::tar:
      return convertible_bytes(source) + samples * 4 * tar_block_bytes;
    case ConvertFormat::npy:
      break;
  }
  const auto side = static_cast<Bytes>(options.side);
  return source.facts().array ? convertible_bytes(source) : samples * side * side * 3;
}

}  // namespace

ConvertRun::ConvertRun(const DatasetIndex& source, const ConvertOptions& options, EventSink& events, const std::stop_token& stop)
    : m_source(source), m_options(options), m_events(events), m_stop(stop) {}

void ConvertRun::leave_out(SampleId sample, const std::string& cause) {
  if (m_options.bad == BadSamples::fail) {
    throw Error(fmt::format("cannot convert {}: {}. Nothing was written; fix or remove that sample, or leave all such samples out (--skip-bad)",
                            sample_name(m_source, sample), cause));
  }
  const std::scoped_lock lock(m_mutex);
  m_left_out.emplace(sample, cause);
}

bool ConvertRun::is_left_out(SampleId sample) const {
  const std::scoped_lock lock(m_mutex);
  return m_left_out.contains(sample);
}

void ConvertRun::count_written(Bytes bytes) {
  ++m_samples;
  m_bytes += bytes;
}

void ConvertRun::report_progress() {
  const double share = static_cast<double>(m_samples) / static_cast<double>(m_source.size());
  const double elapsed = to_seconds(m_clock.now() - m_begin);
  m_events.progress({fmt::format("converting {} samples", m_source.size()), share, share > 0 ? elapsed * (1 - share) / share : -1,
                     elapsed > 0 ? static_cast<double>(m_samples) / elapsed : -1});
}

void ConvertRun::for_each(std::size_t count, const std::function<void(std::size_t, std::size_t)>& body) const {
  parallel_ranges(count, piece_samples, m_options.threads, m_stop, body);
}

void ConvertRun::for_each_single(std::size_t count, const std::function<void(std::size_t)>& body) const {
  parallel_ranges(count, 1, m_options.threads, m_stop, [&](std::size_t first, std::size_t last) {
    for (std::size_t place = first; place < last; ++place) body(place);
  });
}

ConvertReport ConvertRun::finish() {
  ConvertReport report;
  report.samples = m_samples;
  report.bytes = m_bytes;
  report.files = m_files;
  report.failed = m_left_out.size();
  for (const auto& [sample, cause] : m_left_out) {
    if (report.failures.size() == failures_named) break;
    report.failures.push_back({sample_name(m_source, sample), cause});
  }
  report.seconds = to_seconds(m_clock.now() - m_begin);
  return report;
}

std::vector<SampleId> convert_order(const DatasetIndex& index, ConvertOrder order, std::uint64_t seed) {
  constexpr std::uint64_t purpose = 0x636f6e76;
  std::vector<SampleId> samples(index.size());
  if (order == ConvertOrder::random) {
    random_permutation(mix(seed, purpose), samples);
  } else {
    for (std::size_t place = 0; place < samples.size(); ++place) samples[place] = static_cast<SampleId>(place);
  }
  return samples;
}

void write_label_names(const DatasetIndex& index, const fs::path& file) {
  std::string content;
  for (std::string name : index.labels()) {
    std::replace(name.begin(), name.end(), '\n', '_');
    content += name + "\n";
  }
  OutputFile(file).append(content);
}

ConvertReport convert_dataset(const DatasetIndex& source, const fs::path& destination, const ConvertOptions& options, EventSink& events,
                              const std::stop_token& stop) {
  if (source.facts().format == "emulated")
    throw UsageError("the dataset " + source_name(source) + " is emulated: it has no bytes that could be converted");
  if (source.facts().format == "folder" && options.format == ConvertFormat::folder)
    throw UsageError("the dataset " + source_name(source) + " is a folder of images already");
  if (source.facts().sizes_sampled)
    throw Error("the index of " + source_name(source) + " holds a part of the dataset only; make it anew with `dsanalyze dataset index`");
  require_other_place(source, destination);
  OutputFolder output(destination, needed_bytes(source, options));
  ConvertRun run(source, options, events, stop);
  switch (options.format) {
    case ConvertFormat::folder:
      convert_to_folder(run, output.path());
      break;
    case ConvertFormat::tar:
      convert_to_tar(run, output.path());
      break;
    case ConvertFormat::npy:
      convert_to_npy(run, output.path());
      break;
  }
  ConvertReport report = run.finish();
  if (report.samples == 0)
    throw Error(fmt::format("none of the {} samples of {} can be converted, for example {}: {}", source.size(), source_name(source),
                            report.failures.front().path, report.failures.front().cause));
  output.commit();
  return report;
}

}  // namespace dsanalyze
