#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "convert_output.hpp"
#include "loaders/dataset/readers/npy_header.hpp"
#include "loaders/dataset/sample_bytes.hpp"
#include "loaders/prep/prep.hpp"

namespace dsanalyze {
namespace {

ArrayDescription rows_of(const DatasetIndex& source, int side) {
  if (source.facts().array) return *source.facts().array;
  const auto pixels = static_cast<std::uint64_t>(side);
  return {"|u1", {pixels, pixels, 3}, pixels * pixels * 3};
}

std::string header_of(const ArrayDescription& row, std::uint64_t rows) {
  std::vector<std::uint64_t> shape{rows};
  shape.insert(shape.end(), row.shape.begin(), row.shape.end());
  return make_npy_header(row.dtype, shape);
}

/// Shorter side resized to `side`, the middle cut out; nothing is drawn.
std::unique_ptr<PrepFactory> middle_crop(int side) {
  ImagePrepOptions options;
  options.prep.crop_size = side;
  options.crop = CropRule::centre;
  options.dtype = DType::uint8;
  options.layout = Layout::nhwc;
  return make_image_prep(options);
}

/// Makes rows from samples, on one thread.
class RowMaker {
 public:
  RowMaker(const DatasetIndex& source, Bytes row_bytes, const PrepFactory& images)
      : m_source(source), m_row(row_bytes), m_prep(source.facts().array ? nullptr : images.make()) {}

  /// The cause when there is no row.
  std::string make(SampleId sample) {
    std::string cause = read_usable_sample(m_source, sample, m_prep ? m_encoded : m_row);
    if (!cause.empty() || !m_prep) return cause;
    PrepTask task;
    task.encoded = m_encoded;
    task.sample = sample;
    task.output = m_row;
    const Status status = m_prep->prepare(task);
    return status.ok() ? std::string() : fmt::format("it does not decode ({})", status_name(status.code));
  }
  [[nodiscard]] const std::vector<std::byte>& row() const { return m_row; }

 private:
  const DatasetIndex& m_source;
  std::vector<std::byte> m_encoded;
  std::vector<std::byte> m_row;
  std::unique_ptr<Prep> m_prep;
};

/// Moves the rows behind those that were left out down, so that none is without content. Returns the samples of the rows.
std::vector<SampleId> close_gaps(const ConvertRun& run, const OutputFile& file, std::uint64_t header_bytes, Bytes row_bytes,
                                 const std::vector<SampleId>& order) {
  std::vector<SampleId> kept;
  std::vector<std::byte> row(row_bytes);
  for (std::size_t place = 0; place < order.size(); ++place) {
    if (run.is_left_out(order[place])) continue;
    if (kept.size() < place) {
      file.read_at(header_bytes + place * row_bytes, row);
      file.write_at(header_bytes + kept.size() * row_bytes, row);
    }
    kept.push_back(order[place]);
  }
  return kept;
}

void write_labels(const DatasetIndex& source, const std::vector<SampleId>& samples, const std::filesystem::path& folder) {
  if (!has_labels(source)) return;
  const std::uint64_t rows = samples.size();
  std::string content = make_npy_header("<i8", std::span(&rows, 1));
  for (const SampleId sample : samples) {
    const std::int64_t label = source[sample].label;
    content.append(reinterpret_cast<const char*>(&label), sizeof label);
  }
  OutputFile(folder / "samples.labels.npy").append(content);
  write_label_names(source, folder / "samples.labels.txt");
}

}  // namespace

void convert_to_npy(ConvertRun& run, const std::filesystem::path& folder) {
  const DatasetIndex& source = run.source();
  const ArrayDescription row = rows_of(source, run.options().side);
  const std::vector<SampleId> order = convert_order(source, run.options().order.value_or(ConvertOrder::index), run.options().seed);
  const std::size_t header_bytes = header_of(row, order.size()).size();
  const auto images = middle_crop(run.options().side);
  const OutputFile file(folder / "samples.npy");
  run.for_each(order.size(), [&](std::size_t first, std::size_t last) {
    RowMaker maker(source, row.sample_bytes, *images);
    for (std::size_t place = first; place < last && !run.stop().stop_requested(); ++place) {
      if (const std::string cause = maker.make(order[place]); !cause.empty()) {
        run.leave_out(order[place], cause);
        continue;
      }
      file.write_at(header_bytes + place * row.sample_bytes, maker.row());
      run.count_written(row.sample_bytes);
    }
    run.report_progress();
  });
  const std::vector<SampleId> kept = close_gaps(run, file, header_bytes, row.sample_bytes, order);
  std::string header = header_of(row, kept.size());
  if (header.size() != header_bytes) throw Error("the header of samples.npy changed its length");  // lengths are multiples of 64, digits are few
  file.write_at(0, std::as_bytes(std::span(header)));
  file.set_size(header_bytes + kept.size() * row.sample_bytes);
  run.count_file();
  write_labels(source, kept, folder);
}

}  // namespace dsanalyze
