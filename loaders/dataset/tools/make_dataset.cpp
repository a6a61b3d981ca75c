#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <limits>
#include <system_error>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/system/files.hpp"
#include "base/text/json_reader.hpp"
#include "dataset_make.hpp"
#include "loaders/dataset/readers/parallel_ranges.hpp"
#include "photograph_files.hpp"
#include "sample_files.hpp"
#include "sample_recipe.hpp"

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t usual_samples = 2000;
constexpr std::size_t samples_made_at_a_time = 8;

void make_folder(const fs::path& folder) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) throw_errno("cannot create the folder", folder.string(), failure.value());
}

std::string comment_of(const PhotographFile& file) {
  if (file.author.empty()) return "cut from " + file.path.filename().string();
  return fmt::format("cut from {} by {}, {}", file.path.filename().string(), file.author, file.licence);
}

// The README, which marks the folder as a dataset of a certain make.

constexpr std::string_view marker_begin = "<!-- dsanalyze-dataset 1 ";

std::string_view licence_link(std::string_view licence) {
  if (licence == "CC-BY-4.0") return "https://creativecommons.org/licenses/by/4.0/";
  if (licence == "CC-BY-SA-4.0") return "https://creativecommons.org/licenses/by-sa/4.0/";
  if (licence == "CC0-1.0") return "https://creativecommons.org/publicdomain/zero/1.0/";
  return "";
}

std::string command_line(const MakeOptions& options) {
  std::string command = fmt::format("dsanalyze dataset make FOLDER --preset {} --seed {}", options.preset, options.seed);
  if (options.samples > 0) command += fmt::format(" --samples {}", options.samples);
  if (options.bytes > 0) command += fmt::format(" --bytes {}B", options.bytes);
  return command;
}

std::string photograph_rows(const Photographs& photographs) {
  std::string rows = "| photograph | author | licence |\n| --- | --- | --- |\n";
  for (const PhotographFile& file : photographs.files) {
    rows += fmt::format("| {} | {} | [{}]({}) |\n", file.path.filename().string(), file.author, file.licence, licence_link(file.licence));
  }
  return rows;
}

std::string origin_of_package(const Photographs& photographs) {
  return fmt::format(
      "Every sample is a crop of one of these photographs, scaled and encoded anew; its JPEG comment names the photograph and its author.\n"
      "They come from the Debian package {}{}; authors and licences as its copyright file gives them.\n\n{}\n"
      "Samples from photographs under CC-BY-4.0 may be passed on with the author's name, the licence and the note that they were changed.\n"
      "Samples from photographs under CC-BY-SA-4.0 are adapted material: anyone who passes them on does so under CC-BY-SA-4.0 too, and likewise for\n"
      "the dataset as a whole. CC0-1.0 asks for nothing.\n",
      photographs.package, photographs.package_version.empty() ? "" : " (version " + photographs.package_version + ")", photograph_rows(photographs));
}

std::string origin_of_user(const Photographs& photographs) {
  std::string text =
      "Every sample is a crop of one of these photographs, scaled and encoded anew. They were given by who made the dataset: their authors' terms "
      "hold\n"
      "for the samples too.\n\n";
  for (const PhotographFile& file : photographs.files) text += fmt::format("- {}\n", file.path.filename().string());
  return text;
}

/// The README's first line: tells a folder that we made from one that we must not touch, and what its samples are a function of.
std::string readme_marker(const std::string& preset, std::uint64_t seed, const std::string& photographs_digest) {
  return fmt::format("{}preset={} seed={} photographs={} -->", marker_begin, preset, seed, photographs_digest);
}

/// Photographs with authors and licences, what was done to them, and the command that made the dataset.
std::string readme_text(const MakeOptions& options, const Photographs& photographs) {
  return fmt::format(
      "{}\n# JPEG samples like those of {}\n\n{}\nMade by:\n\n```\n{}\n```\n\nThe same command makes the same samples, and goes on where it was "
      "stopped.\n",
      readme_marker(options.preset, options.seed, photographs.digest), options.preset,
      photographs.package.empty() ? origin_of_user(photographs) : origin_of_package(photographs), command_line(options));
}

enum class FolderState { fresh, ours };

/// Whether samples may go into `folder`: it is empty (or not there), or holds samples of the same preset, seed and photographs.
/// Throws Error that says what else is there.
FolderState check_folder(const fs::path& folder, const std::string& marker) {
  std::error_code failure;
  const fs::file_status status = fs::status(folder, failure);
  if (!fs::exists(status)) return FolderState::fresh;
  if (!fs::is_directory(status)) throw Error(folder.string() + " is not a folder; choose another place for the dataset");
  const fs::path readme = folder / "README.md";
  if (fs::is_regular_file(readme, failure)) {
    const std::string text = read_file(readme);
    const std::string first_line = text.substr(0, text.find('\n'));
    if (first_line == marker) return FolderState::ours;
    if (first_line.starts_with(marker_begin)) {
      throw Error(fmt::format("{} holds a dataset made otherwise ({}), and this one would be ({}); choose another folder or remove that one",
                              folder.string(), first_line.substr(marker_begin.size()), marker.substr(marker_begin.size())));
    }
  }
  fs::directory_iterator entries(folder, failure);
  if (failure) throw_errno("cannot list the folder", folder.string(), failure.value());
  for (const auto& entry : entries) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.') || name == "lost+found") continue;  // what a new filesystem holds
    throw Error(fmt::format("{} holds other files already (for example {}); choose an empty or a new folder for the dataset", folder.string(), name));
  }
  return FolderState::fresh;
}

/// Makes samples by their numbers, on several threads, and keeps the totals.
class SampleMaker {
 public:
  SampleMaker(const fs::path& folder, const MakeOptions& options, const MakePreset& preset, const Photographs& photographs, const WriteSample& write,
              EventSink& events, const std::stop_token& stop)
      : m_folder(folder), m_options(options), m_preset(preset), m_photographs(photographs), m_write(write), m_events(events), m_stop(stop) {}

  /// Makes those of [first, last) that are not there yet.
  void make(std::uint64_t first, std::uint64_t last, std::uint64_t expected_samples) {
    parallel_ranges(last - first, samples_made_at_a_time, m_options.threads, m_stop, [&](std::size_t begin, std::size_t end) {
      make_piece(first + begin, first + end);
      report_progress(expected_samples);
    });
  }
  [[nodiscard]] Bytes bytes() const { return m_bytes; }
  [[nodiscard]] std::uint64_t already_there() const { return m_already_there; }

 private:
  void make_piece(std::uint64_t first, std::uint64_t last) {
    JpegEncoder encoder;
    RgbImage image;
    fs::path class_folder;
    for (std::uint64_t number = first; number < last && !m_stop.stop_requested(); ++number) {
      const fs::path path = m_folder / sample_path(number);
      if (const auto there = whole_sample_bytes(path)) {
        count(*there);
        ++m_already_there;
        continue;
      }
      if (path.parent_path() != class_folder) {
        class_folder = path.parent_path();
        make_folder(class_folder);
      }
      const SampleRecipe recipe = make_recipe(m_preset, m_options.seed, number, m_photographs.images);
      cut_out(m_photographs.images[recipe.photograph], recipe, image);
      const auto encoded = encode_near(encoder, image, recipe, comment_of(m_photographs.files[recipe.photograph]));
      if (const int error = m_write(path, encoded)) throw_unwritten(path, error);
      count(encoded.size());
    }
  }
  void count(Bytes bytes) {
    m_bytes += bytes;
    ++m_samples;
  }
  [[noreturn]] void throw_unwritten(const fs::path& path, int error) const {
    const std::string made = fmt::format("{} samples ({}) are in the folder and whole", m_samples.load(), format_bytes(m_bytes));
    const std::string fix = error == ENOSPC || error == EDQUOT ? "free some space there (or ask for fewer with --samples or --bytes)" : "fix that";
    throw Error(fmt::format("cannot write {}: {}. {}; {} and give the same command again: it goes on where it stopped", path.string(),
                            describe_errno(error), made, fix));
  }
  void report_progress(std::uint64_t expected_samples) {
    const std::uint64_t done = m_samples;
    const std::uint64_t made = done - std::min<std::uint64_t>(m_already_there, done);
    const double elapsed = to_seconds(m_clock.now() - m_begin);
    const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(expected_samples));
    const std::uint64_t left = expected_samples - std::min(done, expected_samples);
    const double eta = made > 0 ? elapsed / static_cast<double>(made) * static_cast<double>(left) : -1;
    m_events.progress({fmt::format("making samples: {} of {}, {}", done, expected_samples, format_bytes(m_bytes)), share, eta,
                       elapsed > 0 ? static_cast<double>(made) / elapsed : -1});
  }

  const fs::path& m_folder;
  const MakeOptions& m_options;
  const MakePreset& m_preset;
  const Photographs& m_photographs;
  const WriteSample& m_write;
  EventSink& m_events;
  const std::stop_token& m_stop;
  const Clock& m_clock = *system_timing().clock;
  Nanoseconds m_begin = m_clock.now();
  std::atomic<std::uint64_t> m_samples{0};
  std::atomic<std::uint64_t> m_already_there{0};
  std::atomic<Bytes> m_bytes{0};
};

/// How many samples to make next when bytes are the goal: by the mean up to now, at first half of what is expected, for
/// other photographs give other sizes. 0 when the goal is near
/// enough. Depends on the samples' sizes alone, so the same command ends at the same sample whatever the threads did.
std::uint64_t next_round(Bytes goal, Bytes bytes, std::uint64_t samples, const MakePreset& preset) {
  const double mean = samples > 0 ? static_cast<double>(bytes) / static_cast<double>(samples) : static_cast<double>(preset.expected_bytes);
  const double left = (static_cast<double>(goal) - static_cast<double>(bytes)) / mean;
  if (samples == 0) return static_cast<std::uint64_t>(std::max(1.0, std::floor(left / 2)));
  return left < 0.5 ? 0 : static_cast<std::uint64_t>(std::llround(left));
}

void check_free_space(const fs::path& folder, double needed_bytes) {
  std::error_code failure;
  const fs::space_info space = fs::space(folder, failure);
  if (failure || static_cast<double>(space.available) >= needed_bytes) return;
  throw Error(fmt::format(
      "the dataset needs about {}, and the filesystem of {} has {} free; free some space, ask for fewer with --samples or --bytes, or choose "
      "a folder elsewhere",
      format_bytes(static_cast<Bytes>(needed_bytes)), folder.string(), format_bytes(space.available)));
}

}  // namespace

MakeReport make_dataset_with(const fs::path& folder, const MakeOptions& options, const WriteSample& write, EventSink& events,
                             const std::stop_token& stop) {
  const MakePreset& preset = find_make_preset(options.preset);
  constexpr std::uint64_t no_limit = std::numeric_limits<std::uint32_t>::max();
  const std::uint64_t most_samples = options.samples > 0 ? options.samples : options.bytes > 0 ? no_limit : usual_samples;
  if (most_samples > no_limit) throw UsageError(fmt::format("a dataset has at most {} samples, not {}", no_limit, most_samples));
  const auto expected_by_bytes =
      static_cast<std::uint64_t>(std::ceil(static_cast<double>(options.bytes) / static_cast<double>(preset.expected_bytes)));
  const std::uint64_t expected = options.bytes > 0 ? std::min(most_samples, expected_by_bytes) : most_samples;

  const Nanoseconds begin = system_timing().clock->now();
  events.progress({"decoding the photographs", -1, -1});
  const Photographs photographs = load_photographs(options, std::max(preset.most_side, preset.usual_long_side), stop);
  const FolderState state = check_folder(folder, readme_marker(options.preset, options.seed, photographs.digest));
  make_folder(folder);
  if (state == FolderState::fresh) {
    check_free_space(folder, static_cast<double>(expected) * static_cast<double>(preset.expected_bytes));
  } else {
    remove_left_over_files(folder);
  }
  write_file_atomically(folder / "README.md", readme_text(options, photographs));

  SampleMaker maker(folder, options, preset, photographs, write, events, stop);
  std::uint64_t samples = 0;
  while (samples < most_samples) {
    const std::uint64_t wanted = options.bytes > 0 ? next_round(options.bytes, maker.bytes(), samples, preset) : most_samples;
    if (wanted == 0) break;
    const std::uint64_t round = std::min(wanted, most_samples - samples);
    maker.make(samples, samples + round, std::max(expected, samples + round));
    samples += round;
  }

  MakeReport report;
  report.samples = samples;
  report.already_there = maker.already_there();
  report.bytes = maker.bytes();
  report.mean_bytes = static_cast<double>(report.bytes) / static_cast<double>(samples);
  report.seconds = to_seconds(system_timing().clock->now() - begin);
  return report;
}

MakeReport make_dataset(const fs::path& folder, const MakeOptions& options, EventSink& events, const std::stop_token& stop) {
  return make_dataset_with(folder, options, write_sample, events, stop);
}

const std::vector<MakePreset>& all_make_presets() {
  static const std::vector<MakePreset> presets{
      {.name = "imagenet-1k",
       .usual_long_side = 500,
       .usual_short_side = 375,
       .usual_share = 0.7,
       .least_side = 300,
       .most_side = 640,
       .mean_bytes = 170e3,
       .expected_bytes = 120'000},
      {.name = "openimages",
       .usual_long_side = 1024,
       .usual_short_side = 768,
       .usual_share = 0.85,
       .least_side = 680,
       .most_side = 1024,
       .mean_bytes = 300e3,
       .expected_bytes = 300'000},
  };
  return presets;
}

const MakePreset& find_make_preset(const std::string& name) {
  const auto& presets = all_make_presets();
  const auto found = std::find_if(presets.begin(), presets.end(), [&](const MakePreset& preset) { return preset.name == name; });
  if (found != presets.end()) return *found;
  std::string message = "there is no preset '" + name + "'";
  if (const auto nearest = nearest_name(name, make_presets())) message += "; did you mean '" + *nearest + "'?";
  message += " Presets:";
  for (const std::string& known : make_presets()) message += " " + known;
  throw UsageError(message);
}

std::vector<std::string> make_presets() {
  std::vector<std::string> names;
  for (const MakePreset& preset : all_make_presets()) names.emplace_back(preset.name);
  return names;
}

}  // namespace dsanalyze
