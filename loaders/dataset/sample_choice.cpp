#include "sample_choice.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "dsanalyze/base/error.hpp"
#include "dsanalyze/base/files.hpp"
#include "format_names.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t skipped_names = 5;
constexpr std::size_t extensions_probed = 8;
constexpr std::size_t files_probed = 3;
constexpr std::size_t probed_bytes = 512;  // a tar's magic lies at 257

using Place = SampleChoice::Place;

template <typename Visit>
void for_each_file(const std::vector<ListedFolder>& listing, const Visit& visit) {
  for (std::uint32_t folder = 0; folder < listing.size(); ++folder) {
    for (std::uint32_t name = 0; name < listing[folder].names.size(); ++name) visit(Place{folder, name}, listing[folder].name(name));
  }
}

void note_skipped(SampleChoice& choice, std::string relative_path) {
  ++choice.skipped_count;
  if (choice.skipped.size() < skipped_names) choice.skipped.push_back(std::move(relative_path));
}

template <typename IsSample>
SampleChoice choose(const std::vector<ListedFolder>& listing, const IsSample& is_sample) {
  SampleChoice choice;
  for_each_file(listing, [&](Place place, std::string_view name) {
    if (is_sample(name)) {
      choice.samples.push_back(place);
    } else {
      note_skipped(choice, listing[place.folder].relative_path(place.name));
    }
  });
  for (const ListedFolder& folder : listing) {
    for (const std::string& name : folder.not_files) note_skipped(choice, folder.path.empty() ? name : folder.path + "/" + name);
  }
  return choice;
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
  for_each_file(listing, [&](Place place, std::string_view name) {
    if (const UnreadFormat* format = unread_format_of_name(name)) count.add(format, listing[place.folder].relative_path(place.name));
  });
  return count.most_frequent();
}

/// A few files of each of the most frequent extensions.
std::map<std::string, std::vector<std::string>> files_to_probe(const std::vector<ListedFolder>& listing) {
  std::map<std::string, std::uint64_t> frequency;
  for_each_file(listing, [&](Place, std::string_view name) { ++frequency[extension_of(name)]; });
  std::vector<std::pair<std::uint64_t, std::string>> by_frequency;
  by_frequency.reserve(frequency.size());
  for (const auto& [extension, files] : frequency) by_frequency.emplace_back(files, extension);
  std::sort(by_frequency.rbegin(), by_frequency.rend());
  by_frequency.resize(std::min(by_frequency.size(), extensions_probed));

  std::map<std::string, std::vector<std::string>> probes;
  for (const auto& [files, extension] : by_frequency) probes[extension];
  for_each_file(listing, [&](Place place, std::string_view name) {
    const auto probe = probes.find(extension_of(name));
    if (probe != probes.end() && probe->second.size() < files_probed) probe->second.push_back(listing[place.folder].relative_path(place.name));
  });
  return probes;
}

[[noreturn]] void throw_other_format(const std::filesystem::path& root, const Recognised& found) {
  throw Error(fmt::format("{} holds no JPEG files but {} of another format ({}). {}", root.string(), found.files == 1 ? "a file" : "files",
                          found.example, not_yet(*found.format, found.example)));
}

[[noreturn]] void throw_nothing_known(const std::filesystem::path& root, const std::vector<ListedFolder>& listing) {
  std::uint64_t files = 0;
  std::vector<std::string> examples;
  for_each_file(listing, [&](Place place, std::string_view) {
    ++files;
    if (examples.size() < 3) examples.push_back(listing[place.folder].relative_path(place.name));
  });
  if (files == 0) {
    throw Error(
        fmt::format("the dataset {} is empty: there are no files in its {} folder{} (hidden ones are not counted); give a folder of JPEG files",
                    root.string(), listing.size(), listing.size() == 1 ? "" : "s"));
  }
  throw Error(fmt::format(
      "{} holds {} file{} but none that is known as a sample, for example {}; give a folder of JPEG files (.jpg, .jpeg), in class folders or not",
      root.string(), files, files == 1 ? "" : "s", fmt::join(examples, ", ")));
}

}  // namespace

std::string first_bytes(const std::filesystem::path& file, std::size_t most) {
  const FileDescriptor descriptor(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor.valid()) return {};
  std::string bytes(most, '\0');
  const ssize_t got = pread(descriptor.get(), bytes.data(), bytes.size(), 0);
  bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return bytes;
}

SampleChoice choose_samples(const std::filesystem::path& root, const std::vector<ListedFolder>& listing) {
  SampleChoice choice = choose(listing, [](std::string_view name) { return is_jpeg_name(name); });
  if (!choice.samples.empty()) return choice;
  if (const auto found = format_by_name(listing)) throw_other_format(root, *found);

  FormatCount others;
  std::set<std::string> jpeg_extensions;
  for (const auto& [extension, files] : files_to_probe(listing)) {
    for (const std::string& file : files) {
      const std::string bytes = first_bytes(root / file, probed_bytes);
      if (is_jpeg_bytes(bytes)) jpeg_extensions.insert(extension);
      if (const UnreadFormat* format = unread_format_of_bytes(bytes)) others.add(format, file);
    }
  }
  if (!jpeg_extensions.empty()) return choose(listing, [&](std::string_view name) { return jpeg_extensions.contains(extension_of(name)); });
  if (const auto found = others.most_frequent()) throw_other_format(root, *found);
  throw_nothing_known(root, listing);
}

}  // namespace dsanalyze
