#include "sample_choice.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/system/files.hpp"
#include "loaders/dataset/readers/dataset_reader.hpp"
#include "loaders/dataset/readers/format_names.hpp"
#include "loaders/dataset/readers/parallel_ranges.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t extensions_probed = 8;
constexpr std::size_t files_probed = 3;
constexpr std::size_t probed_bytes = 512;  // a tar's magic lies at 257
constexpr double nearly_all = 0.9;

template <typename Visit>
void for_each_file(const std::vector<ListedFolder>& listing, const Visit& visit) {
  for (std::uint32_t folder = 0; folder < listing.size(); ++folder) {
    for (std::uint32_t name = 0; name < listing[folder].names.size(); ++name) visit(SampleChoice::Place{folder, name}, listing[folder].name(name));
  }
}

template <typename IsSample>
SampleChoice choose(const DatasetReader& reader, const std::vector<ListedFolder>& listing, const IsSample& is_sample) {
  SampleChoice choice;
  choice.reader = &reader;
  for_each_file(listing, [&](SampleChoice::Place place, std::string_view name) {
    if (is_sample(name)) {
      choice.samples.push_back(place);
    } else if (!is_labels_name(name)) {
      choice.skipped.add(listing[place.folder].relative_path(place.name));
    }
  });
  for (const ListedFolder& folder : listing) {
    for (const std::string& name : folder.not_files) choice.skipped.add(folder.path.empty() ? name : folder.path + "/" + name);
  }
  return choice;
}

/// How many files each reader knows.
class ReaderCount {
 public:
  void add(const DatasetReader* reader) {
    if (reader != nullptr) ++m_files[static_cast<std::size_t>(reader - dataset_readers().data())];
  }
  [[nodiscard]] std::uint64_t all() const { return std::accumulate(m_files.begin(), m_files.end(), std::uint64_t{0}); }
  [[nodiscard]] const DatasetReader* most_frequent() const {
    const auto place = std::max_element(m_files.begin(), m_files.end());
    return *place == 0 ? nullptr : &dataset_readers()[static_cast<std::size_t>(place - m_files.begin())];
  }
  [[nodiscard]] std::uint64_t files_of(const DatasetReader& reader) const {
    return m_files[static_cast<std::size_t>(&reader - dataset_readers().data())];
  }
  /// "12 image files, 3 tar shards", without `left_out`.
  [[nodiscard]] std::string text(const DatasetReader* left_out = nullptr) const {
    std::vector<std::string> parts;
    for (const DatasetReader& reader : dataset_readers()) {
      if (files_of(reader) > 0 && &reader != left_out) parts.push_back(fmt::format("{} {}", files_of(reader), reader.files));
    }
    return fmt::format("{}", fmt::join(parts, ", "));
  }

 private:
  std::vector<std::uint64_t> m_files = std::vector<std::uint64_t>(dataset_readers().size(), 0);
};

const DatasetReader* reader_of_name(std::string_view name) {
  const auto readers = dataset_readers();
  const auto found = std::find_if(readers.begin(), readers.end(), [&](const DatasetReader& reader) { return reader.is_its_name(name); });
  return found == readers.end() ? nullptr : &*found;
}

const DatasetReader* reader_of_bytes(std::string_view bytes) {
  const auto readers = dataset_readers();
  const auto found = std::find_if(readers.begin(), readers.end(), [&](const DatasetReader& reader) { return reader.is_its_bytes(bytes); });
  return found == readers.end() ? nullptr : &*found;
}

[[noreturn]] void throw_mixture(const std::filesystem::path& root, const ReaderCount& count) {
  throw Error(fmt::format(
      "{} holds a mixture: {}; name what the dataset is: a sub-folder, a range of shards such as '{}/train-{{000000..000146}}.tar', or one .npy file",
      root.string(), count.text(), root.string()));
}

struct Recognised {
  const UnreadFormat* format = nullptr;
  std::uint64_t files = 0;
  std::string example;
};

/// The format that most files have; of two as frequent the one met last, so that train.rec is named and not its train.idx.
class FormatCount {
 public:
  void add(const UnreadFormat* format, const std::string& example) {
    auto place = std::find_if(m_seen.begin(), m_seen.end(), [&](const Recognised& one) { return one.format == format; });
    if (place == m_seen.end()) place = m_seen.insert(m_seen.end(), {format, 0, example});
    ++place->files;
  }
  [[nodiscard]] std::optional<Recognised> most_frequent() const {
    const auto place = std::max_element(m_seen.begin(), m_seen.end(), [](const Recognised& a, const Recognised& b) { return a.files <= b.files; });
    return place == m_seen.end() ? std::nullopt : std::optional(*place);
  }

 private:
  std::vector<Recognised> m_seen;
};

std::optional<Recognised> format_by_name(const std::vector<ListedFolder>& listing) {
  FormatCount count;
  for_each_file(listing, [&](SampleChoice::Place place, std::string_view name) {
    if (const UnreadFormat* format = unread_format_of_name(name)) count.add(format, listing[place.folder].relative_path(place.name));
  });
  return count.most_frequent();
}

/// A few files of each of the most frequent extensions.
std::map<std::string, std::vector<std::string>> files_to_probe(const std::vector<ListedFolder>& listing) {
  std::map<std::string, std::uint64_t> frequency;
  for_each_file(listing, [&](SampleChoice::Place, std::string_view name) { ++frequency[extension_of(name)]; });
  std::vector<std::pair<std::uint64_t, std::string>> by_frequency;
  by_frequency.reserve(frequency.size());
  for (const auto& [extension, files] : frequency) by_frequency.emplace_back(files, extension);
  std::sort(by_frequency.rbegin(), by_frequency.rend());
  by_frequency.resize(std::min(by_frequency.size(), extensions_probed));

  std::map<std::string, std::vector<std::string>> probes;
  for (const auto& [files, extension] : by_frequency) probes[extension];
  for_each_file(listing, [&](SampleChoice::Place place, std::string_view name) {
    const auto probe = probes.find(extension_of(name));
    if (probe != probes.end() && probe->second.size() < files_probed) probe->second.push_back(listing[place.folder].relative_path(place.name));
  });
  return probes;
}

[[noreturn]] void throw_other_format(const std::filesystem::path& root, const Recognised& found) {
  throw Error(fmt::format("{} holds no images or arrays but {} of another format ({}). {}", root.string(), found.files == 1 ? "a file" : "files",
                          found.example, not_yet(*found.format, found.example)));
}

[[noreturn]] void throw_nothing_known(const std::filesystem::path& root, const std::vector<ListedFolder>& listing) {
  std::uint64_t files = 0;
  std::vector<std::string> examples;
  for_each_file(listing, [&](SampleChoice::Place place, std::string_view) {
    ++files;
    if (examples.size() < 3) examples.push_back(listing[place.folder].relative_path(place.name));
  });
  if (files == 0) {
    throw Error(
        fmt::format("the dataset {} is empty: there are no files in its {} folder{} (hidden ones are not counted); give a folder of images, .tar "
                    "shards or .npy arrays",
                    root.string(), listing.size(), listing.size() == 1 ? "" : "s"));
  }
  throw Error(
      fmt::format("{} holds {} file{} but none that is known as a sample, for example {}; give a folder of images (.jpg, .png, .webp; in class "
                  "folders or not), .tar shards or .npy arrays",
                  root.string(), files, files == 1 ? "" : "s", fmt::join(examples, ", ")));
}

}  // namespace

std::string first_bytes(const std::filesystem::path& file, std::size_t most, std::uint64_t offset) {
  const FileDescriptor descriptor = open_file(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (!descriptor.valid()) return {};
  std::string bytes(most, '\0');
  const ssize_t got = pread(descriptor.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
  bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return bytes;
}

bool is_labels_name(std::string_view file_name) {
  return file_name == "labels.txt" || has_extension(file_name, ".labels.npy") || has_extension(file_name, ".labels.txt");
}

SampleChoice choose_samples(const std::filesystem::path& root, const std::vector<ListedFolder>& listing) {
  ReaderCount names;
  for_each_file(listing, [&](SampleChoice::Place, std::string_view name) { names.add(reader_of_name(name)); });
  if (const DatasetReader* reader = names.most_frequent()) {
    if (static_cast<double>(names.files_of(*reader)) < nearly_all * static_cast<double>(names.all())) throw_mixture(root, names);
    SampleChoice choice = choose(*reader, listing, reader->is_its_name);
    if (const std::string others = names.text(reader); !others.empty()) {
      choice.findings.push_back(
          {"kinds-left-out", Finding::Severity::warning,
           fmt::format("{} is read as a dataset of {} {}; left out: {}", root.string(), names.files_of(*reader), reader->files, others)});
    }
    return choice;
  }
  if (const auto found = format_by_name(listing)) throw_other_format(root, *found);

  FormatCount others;
  ReaderCount probed;
  std::map<std::string, const DatasetReader*> reader_of_extension;
  for (const auto& [extension, files] : files_to_probe(listing)) {
    for (const std::string& file : files) {
      const std::string bytes = first_bytes(root / file, probed_bytes);
      if (const DatasetReader* reader = reader_of_bytes(bytes)) {
        reader_of_extension[extension] = reader;
        probed.add(reader);
      }
      if (const UnreadFormat* format = unread_format_of_bytes(bytes)) others.add(format, file);
    }
  }
  if (const DatasetReader* reader = probed.most_frequent()) {
    return choose(*reader, listing, [&](std::string_view name) {
      const auto known = reader_of_extension.find(extension_of(name));
      return known != reader_of_extension.end() && known->second == reader;
    });
  }
  if (const auto found = others.most_frequent()) throw_other_format(root, *found);
  throw_nothing_known(root, listing);
}

SampleChoice choose_files(const DatasetSource& source, const std::vector<ListedFolder>& listing) {
  const std::string& first = source.files.front();
  const std::string bytes = first_bytes(source.root / first, probed_bytes);
  const DatasetReader* reader = reader_of_name(first);
  if (reader == nullptr) reader = reader_of_bytes(bytes);
  if (reader == nullptr) {
    const UnreadFormat* format = unread_format_of_name(first);
    if (format == nullptr) format = unread_format_of_bytes(bytes);
    if (format != nullptr) throw Error("the dataset " + source.name + " is not a folder. " + not_yet(*format, source.name));
    throw Error("the dataset " + source.name + " is not a folder, and no file that is known; give a folder of images, .tar shards or an .npy array");
  }
  if (reader->format == "folder" && source.files.size() == 1)
    throw Error("the dataset " + source.name + " is one image file; give the folder that holds the files");
  return choose(*reader, listing, [](std::string_view) { return true; });
}

namespace {

constexpr Bytes not_asked = std::numeric_limits<Bytes>::max();
constexpr Bytes no_file = not_asked - 1;
constexpr std::size_t measured_first = 1000;
constexpr std::size_t smallest_round = 64;
constexpr std::size_t largest_round = 1 << 16;
constexpr double round_seconds = 0.1;

/// So many more that a round takes about a tenth of a second: the budget is looked at that often.
std::size_t next_round(std::size_t done, double elapsed_seconds) {
  if (done == 0) return smallest_round;
  if (done < measured_first) return std::min(measured_first - done, done);
  const double fitting = elapsed_seconds > 0 ? static_cast<double>(done) * round_seconds / elapsed_seconds : static_cast<double>(largest_round);
  return static_cast<std::size_t>(std::clamp(fitting, static_cast<double>(smallest_round), static_cast<double>(largest_round)));
}

}  // namespace

SampleSizes ask_sizes(std::uint32_t count, const AskSize& ask, const SizeLimits& limits, const Clock& clock, const std::stop_token& stop) {
  std::vector<std::uint32_t> order(count);
  random_permutation(mix(limits.seed, 0x73697a65), order);
  std::vector<Bytes> size_of(count, not_asked);
  const std::size_t subset = std::min<std::size_t>(count, std::max<std::uint32_t>(limits.sampled_samples, 1));

  const Nanoseconds begin = clock.now();
  std::size_t done = 0;
  double elapsed = 0;
  while (done < count) {
    const double whole_seconds = done > 0 ? elapsed * static_cast<double>(count) / static_cast<double>(done) : 0;
    const bool pace_is_known = done >= measured_first || elapsed > limits.budget_seconds / 10;
    if (pace_is_known && whole_seconds > limits.budget_seconds && done >= subset) break;
    if (done > 0 && elapsed >= limits.budget_seconds) break;
    const std::size_t round = std::min<std::size_t>(next_round(done, elapsed), count - done);
    parallel_ranges(round, 16, limits.threads, stop, [&](std::size_t first, std::size_t last) {
      for (std::size_t place = done + first; place < done + last; ++place) size_of[order[place]] = ask(order[place]).value_or(no_file);
    });
    done += round;
    elapsed = to_seconds(clock.now() - begin);
  }

  SampleSizes result;
  result.sampled = done < count;
  if (result.sampled) {
    for (std::size_t place = subset; place < done; ++place) size_of[order[place]] = not_asked;
  }
  for (std::uint32_t file = 0; file < count; ++file) {
    if (size_of[file] >= no_file) continue;
    result.files.push_back(file);
    result.bytes.push_back(size_of[file]);
  }
  return result;
}

}  // namespace dsanalyze
