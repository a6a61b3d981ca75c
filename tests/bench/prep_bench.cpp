// Times the prep of JPEG files that lie in memory, on one thread. The variants take turns, a pass over all files each, so that a change of the
// machine's speed meets them all; what counts are the ratios within a round.
//
//   prep_bench DIR [--seconds N] [--one-round] [--large]
//
// --one-round prints the seconds of one pass of the whole prep, and their number of files, for peers/prep_peers.py. --large adds the DCT scaling
// variants.

#include <algorithm>
#include <chrono>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <jpeglib.h>

#include "base/error.hpp"
#include "base/statistics.hpp"
#include "base/system/files.hpp"
#include "base/text/units.hpp"
#include "loaders/prep/jpeg_decoder.hpp"
#include "loaders/prep/prep.hpp"
#include "loaders/prep/random_resized_crop.hpp"
#include "loaders/prep/resize.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t slots_in_turn = 256;  ///< as a batch: more than the caches hold

struct Variant {
  std::string name;
  std::function<void(std::span<const std::byte> file, std::uint64_t generation, SampleId sample)> prepare;
  std::vector<double> images_per_second;
};

void require(Status status, std::string_view what) {
  if (!status.ok()) throw Error(fmt::format("{}: {}", what, status_name(status.code)));
}

std::vector<std::string> load_files(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file() && (entry.path().extension() == ".jpg" || entry.path().extension() == ".JPEG")) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> files;
  files.reserve(paths.size());
  for (const auto& path : paths) files.push_back(read_file(path));
  if (files.empty()) throw UsageError(fmt::format("{}: no .jpg or .JPEG files", directory.string()));
  return files;
}

class WholePrep {
 public:
  WholePrep() : m_prep(make_image_prep({})->make()), m_slot(slots_in_turn * sample_bytes + 4096) {
    const auto misaligned = reinterpret_cast<std::uintptr_t>(m_slot.data()) % 4096;
    m_first = m_slot.data() + (4096 - misaligned);
  }
  void operator()(std::span<const std::byte> file, std::uint64_t generation, SampleId sample) {
    std::byte* place = m_first + m_at++ % slots_in_turn * sample_bytes;
    require(m_prep->prepare({file, sample, generation, 0, {place, sample_bytes}}), "prep");
  }
  [[nodiscard]] std::vector<Nanoseconds> operator_times() const { return m_prep->operator_times(); }

 private:
  static constexpr std::size_t sample_bytes = std::size_t{224} * 224 * 3 * sizeof(float);
  std::unique_ptr<Prep> m_prep;
  std::vector<std::byte> m_slot;
  std::byte* m_first;
  std::size_t m_at = 0;
};

/// The parts called one after the other, without what makes a Prep of them; no normalise. The rows go nowhere.
class PlainLoop {
 public:
  enum class Scaling { none, automatic };
  explicit PlainLoop(Scaling scaling) : m_scaling(scaling) {}
  void operator()(std::span<const std::byte> file, std::uint64_t generation, SampleId sample) {
    constexpr int size = 224;
    require(m_decoder.open(file), "open");
    const ImageInfo& info = m_decoder.info();
    const Augmentation drawn = draw_augmentation(ImagePrep{}, 0, generation, sample, info.width, info.height);
    const int denominator = m_scaling == Scaling::none ? 1 : m_decoder.largest_denominator();
    const ScaledCrop crop = scale_crop(drawn.crop, info.width, info.height, size, denominator);
    require(m_decoder.begin(crop.pixels, crop.denominator), "begin");
    m_resizer.begin(crop.horizontal, crop.vertical, drawn.mirror);
    for (;;) {
      PixelRows rows;
      require(m_decoder.next_rows(rows), "rows");
      if (rows.count == 0) break;
      m_resizer.add_rows(rows);
    }
    for (int row = 0; row < size; row += Resizer::max_rows) m_sum += *m_resizer.result_rows(row, std::min(Resizer::max_rows, size - row));
  }

 private:
  Scaling m_scaling;
  JpegDecoder m_decoder;
  Resizer m_resizer{224};
  std::uint64_t m_sum = 0;
};

class FullDecode {
 public:
  void operator()(std::span<const std::byte> file, std::uint64_t, SampleId) {
    require(m_decoder.open(file), "open");
    require(m_decoder.begin({0, 0, m_decoder.info().width, m_decoder.info().height}, 1), "begin");
    PixelRows rows;
    do {
      require(m_decoder.next_rows(rows), "rows");
    } while (rows.count > 0);
  }

 private:
  JpegDecoder m_decoder;
};

class EntropyDecode {
 public:
  EntropyDecode() {
    m_jpeg.err = jpeg_std_error(&m_error);
    jpeg_create_decompress(&m_jpeg);
  }
  ~EntropyDecode() { jpeg_destroy_decompress(&m_jpeg); }
  EntropyDecode(const EntropyDecode&) = delete;
  EntropyDecode& operator=(const EntropyDecode&) = delete;
  void operator()(std::span<const std::byte> file, std::uint64_t, SampleId) {
    jpeg_mem_src(&m_jpeg, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_read_header(&m_jpeg, TRUE);
    jpeg_read_coefficients(&m_jpeg);
    jpeg_abort_decompress(&m_jpeg);
  }

 private:
  jpeg_decompress_struct m_jpeg{};
  jpeg_error_mgr m_error{};
};

double seconds_now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double time_pass(const Variant& variant, const std::vector<std::string>& files, std::uint64_t generation) {
  const double begin = seconds_now();
  for (std::size_t file = 0; file < files.size(); ++file) {
    variant.prepare(std::as_bytes(std::span(files[file])), generation, static_cast<SampleId>(file));
  }
  return seconds_now() - begin;
}

void print_results(const std::vector<Variant>& variants) {
  fmt::print("{:<34} {:>10}   {:>8}\n", "one thread", "images/s", "x whole prep, 95 % interval of the mean over rounds");
  const Variant& whole = variants.front();
  for (const Variant& variant : variants) {
    std::vector<double> ratios;
    for (std::size_t round = 0; round < variant.images_per_second.size(); ++round) {
      ratios.push_back(variant.images_per_second[round] / whole.images_per_second[round]);
    }
    const Estimate ratio = estimate_mean(ratios);
    fmt::print("{:<34} {:>10.0f}   {:>8.3f} [{:.3f}, {:.3f}]\n", variant.name, median(variant.images_per_second), median(ratios), ratio.ci95.low,
               ratio.ci95.high);
  }
}

struct Options {
  std::filesystem::path directory;
  double seconds = 20;
  bool one_round = false;
  bool large = false;
};

Options parse(int argument_count, char** arguments) {
  Options options;
  for (int at = 1; at < argument_count; ++at) {
    const std::string_view argument = arguments[at];
    if (argument == "--seconds" && at + 1 < argument_count) {
      options.seconds = parse_seconds(arguments[++at]);
    } else if (argument == "--one-round") {
      options.one_round = true;
    } else if (argument == "--large") {
      options.large = true;
    } else {
      options.directory = argument;
    }
  }
  if (options.directory.empty()) throw UsageError("usage: prep_bench DIR [--seconds N] [--one-round] [--large]");
  return options;
}

void run(const Options& options) {
  const std::vector<std::string> files = load_files(options.directory);
  WholePrep whole;
  PlainLoop plain(options.large ? PlainLoop::Scaling::none : PlainLoop::Scaling::automatic);
  EntropyDecode entropy;
  FullDecode full;
  std::vector<Variant> variants;
  variants.push_back({"whole prep, float32 NCHW", std::ref(whole), {}});
  variants.push_back({options.large ? "partial decode + resize, never scaled" : "partial decode + resize", std::ref(plain), {}});
  variants.push_back({"entropy decode of all", std::ref(entropy), {}});
  variants.push_back({"full decode", std::ref(full), {}});
  if (options.one_round) {
    time_pass(variants.front(), files, 0);
    fmt::print("{} {}\n", time_pass(variants.front(), files, 1), files.size());
    return;
  }
  for (const Variant& variant : variants) time_pass(variant, files, 0);
  const double end = seconds_now() + options.seconds;
  const std::vector<Nanoseconds> before = whole.operator_times();
  std::uint64_t generation = 1;
  for (; seconds_now() < end || generation < 4; ++generation) {
    for (std::size_t turn = 0; turn < variants.size(); ++turn) {
      Variant& variant = variants[(turn + generation) % variants.size()];
      variant.images_per_second.push_back(static_cast<double>(files.size()) / time_pass(variant, files, generation));
    }
  }
  print_results(variants);
  const std::vector<Nanoseconds> after = whole.operator_times();
  const auto names = make_image_prep({})->operator_names();
  const double prepared = static_cast<double>(files.size()) * static_cast<double>(generation - 1);
  for (std::size_t which = 0; which < names.size(); ++which) {
    fmt::print("{:<34} {:>10.1f} us a sample\n", names[which], to_seconds(after[which] - before[which]) / prepared * 1e6);
  }
}

}  // namespace
}  // namespace dsanalyze

int main(int argument_count, char** arguments) {
  try {
    dsanalyze::run(dsanalyze::parse(argument_count, arguments));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "prep_bench: {}\n", error.what());
    return 1;
  }
}
