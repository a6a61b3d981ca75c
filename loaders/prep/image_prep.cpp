#include <algorithm>
#include <array>
#include <cassert>

#include <fmt/format.h>

#include "any_image_decoder.hpp"
#include "base/counters.hpp"
#include "normalise.hpp"
#include "prep.hpp"
#include "random_resized_crop.hpp"
#include "resize.hpp"

namespace dsanalyze {
namespace {

enum Operator : std::size_t { decode_operator, resize_operator, normalise_operator, operator_count };
constexpr std::array<std::string_view, operator_count> names{"decode", "resize", "normalise"};

/// Splits the time of one sample among the operators.
class OperatorStopwatch {
 public:
  explicit OperatorStopwatch(const Clock& clock) : m_clock(clock), m_last(clock.now()) {}
  /// The time since the last lap was spent in `which`.
  void lap(Operator which) {
    const Nanoseconds now = m_clock.now();
    m_spent[which] += now - m_last;
    m_last = now;
  }
  [[nodiscard]] Nanoseconds spent(Operator which) const { return m_spent[which]; }

 private:
  const Clock& m_clock;
  Nanoseconds m_last;
  std::array<Nanoseconds, operator_count> m_spent{};
};

class ImagePrepWorker : public Prep {
 public:
  explicit ImagePrepWorker(const ImagePrepOptions& options)
      : m_options(options),
        m_output_bytes(TensorShape::images(options.dtype, options.layout, 1, 3, options.prep.crop_size, options.prep.crop_size).sample_bytes()),
        m_resizer(options.prep.crop_size),
        m_normaliser(options.prep, options.dtype, options.layout) {}

  Status prepare(const PrepTask& task) override {
    assert(task.output.size() == m_output_bytes);
    OperatorStopwatch stopwatch(*m_clock);
    const Status status = run(task, stopwatch);
    for (const Operator which : {decode_operator, resize_operator, normalise_operator}) {
      const std::size_t bytes = which == decode_operator ? task.encoded.size() : m_output_bytes;
      m_counters[which].add(status.ok() ? 1 : 0, status.ok() ? bytes : 0, stopwatch.spent(which));
      if (!task.spent.empty()) task.spent[which] += stopwatch.spent(which);
    }
    if (!status.ok()) m_counters[decode_operator].add_failure();
    return status;
  }

  [[nodiscard]] std::vector<Nanoseconds> operator_times() const override {
    std::vector<Nanoseconds> times;
    times.reserve(operator_count);
    for (const StageCounter& counter : m_counters) times.push_back(counter.totals().busy);
    return times;
  }

 private:
  Status run(const PrepTask& task, OperatorStopwatch& stopwatch) {
    const Status decoded = decode_and_narrow(task, stopwatch);
    if (!decoded.ok()) return decoded;
    for (int row = 0; row < m_options.prep.crop_size; row += Resizer::max_rows) {
      const int rows = std::min(Resizer::max_rows, m_options.prep.crop_size - row);
      const std::uint8_t* pixels = m_resizer.result_rows(row, rows);
      stopwatch.lap(resize_operator);
      m_normaliser.write({pixels, m_resizer.row_bytes(), row, rows}, task.output);
      stopwatch.lap(normalise_operator);
    }
    return {};
  }

  struct SampleCrop {
    ScaledCrop scaled;
    Mirror mirror = Mirror::none;
  };

  [[nodiscard]] SampleCrop choose_crop(const PrepTask& task) const {
    const ImageInfo& info = m_decoder.info();
    const int size = m_options.prep.crop_size;
    const int resize = m_options.resize == 0 ? size : m_options.resize;
    const int denominator = m_decoder.largest_denominator();
    if (m_options.crop == CropRule::centre) return {scale_centre(info.width, info.height, {size, resize}, denominator), Mirror::none};
    const Augmentation drawn = draw_augmentation(m_options.prep, m_options.seed, task.generation, task.sample, info.width, info.height);
    return {scale_crop(drawn.crop, info.width, info.height, size, denominator), drawn.mirror};
  }

  Status decode_and_narrow(const PrepTask& task, OperatorStopwatch& stopwatch) {
    Status status = m_decoder.open(task.encoded);
    if (!status.ok()) return status;
    const SampleCrop crop = choose_crop(task);
    status = m_decoder.begin(crop.scaled.pixels, crop.scaled.denominator);
    if (!status.ok()) return status;
    stopwatch.lap(decode_operator);
    m_resizer.begin(crop.scaled.horizontal, crop.scaled.vertical, crop.mirror);
    stopwatch.lap(resize_operator);
    for (;;) {
      PixelRows rows;
      status = m_decoder.next_rows(rows);
      stopwatch.lap(decode_operator);
      if (!status.ok() || rows.count == 0) return status;
      m_resizer.add_rows(rows);
      stopwatch.lap(resize_operator);
    }
  }

  ImagePrepOptions m_options;
  std::size_t m_output_bytes;
  const Clock* m_clock = system_timing().clock;
  AnyImageDecoder m_decoder;
  Resizer m_resizer;
  Normaliser m_normaliser;
  std::array<StageCounter, operator_count> m_counters;
};

class ImagePrepFactory : public PrepFactory {
 public:
  explicit ImagePrepFactory(const ImagePrepOptions& options) : m_options(options) {
    options.prep.validate();
    if (options.resize != 0 && options.resize < options.prep.crop_size)
      throw UsageError(fmt::format("resize: found {}, expected the crop's {} or more", options.resize, options.prep.crop_size));
  }
  [[nodiscard]] std::unique_ptr<Prep> make() const override { return std::make_unique<ImagePrepWorker>(m_options); }
  [[nodiscard]] TensorShape tensor(std::int64_t count) const override {
    return TensorShape::images(m_options.dtype, m_options.layout, count, 3, m_options.prep.crop_size, m_options.prep.crop_size);
  }
  [[nodiscard]] std::vector<std::string_view> operator_names() const override { return {names.begin(), names.end()}; }

 private:
  ImagePrepOptions m_options;
};

}  // namespace

std::unique_ptr<PrepFactory> make_image_prep(const ImagePrepOptions& options) { return std::make_unique<ImagePrepFactory>(options); }

}  // namespace dsanalyze
