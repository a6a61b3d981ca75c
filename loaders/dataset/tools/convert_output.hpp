#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/system/files.hpp"
#include "base/text/units.hpp"
#include "core/index.hpp"
#include "dataset_convert.hpp"

namespace dsanalyze {

/// A folder that is filled under a hidden name beside its own and gets that when it is whole; without commit() it is removed. Two at a time for the
/// same place are refused; what a killed one left is removed.
class OutputFolder {
 public:
  /// Throws Error naming path and cause: the parent is missing or refuses, the place is taken (not an empty folder, or a mount point), another
  /// conversion writes there, the disk has less than `needed` bytes left.
  OutputFolder(const std::filesystem::path& destination, Bytes needed);
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  ~OutputFolder();

  /// Where to write.
  [[nodiscard]] const std::filesystem::path& path() const { return m_temporary; }
  /// What is written becomes the destination: written through to the disk, then renamed.
  void commit();

 private:
  std::filesystem::path m_destination;
  std::filesystem::path m_temporary;
  FileDescriptor m_lock;
  bool m_is_committed = false;
};

/// A new file that is written from begin to end, or at places. Throws Error naming it and the cause, for a full disk what to do.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  void append(std::string_view bytes);
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) const;
  void read_at(std::uint64_t offset, std::span<std::byte> bytes) const;
  void set_size(std::uint64_t bytes) const;

 private:
  [[noreturn]] void fail(int error) const;

  std::filesystem::path m_path;
  FileDescriptor m_descriptor;
  std::uint64_t m_written = 0;
};

/// One running conversion: what it works from, what it counts. Threads: any.
class ConvertRun {
 public:
  ConvertRun(const DatasetIndex& source, const ConvertOptions& options, EventSink& events, const std::stop_token& stop);

  [[nodiscard]] const DatasetIndex& source() const { return m_source; }
  [[nodiscard]] const ConvertOptions& options() const { return m_options; }
  [[nodiscard]] const std::stop_token& stop() const { return m_stop; }

  /// Notes that a sample is left out; throws Error that names it when none may be.
  void leave_out(SampleId sample, const std::string& cause);
  [[nodiscard]] bool is_left_out(SampleId sample) const;
  void count_written(Bytes bytes);
  void count_file() { ++m_files; }
  void report_progress();
  void tell(const Finding& finding) { m_events.finding(finding); }
  /// Covers places 0 ... count - 1 on several threads, in pieces or one by one.
  void for_each(std::size_t count, const std::function<void(std::size_t first, std::size_t last)>& body) const;
  void for_each_single(std::size_t count, const std::function<void(std::size_t place)>& body) const;
  [[nodiscard]] ConvertReport finish();

 private:
  const DatasetIndex& m_source;
  const ConvertOptions& m_options;
  EventSink& m_events;
  const std::stop_token& m_stop;
  const Clock& m_clock = *system_timing().clock;
  Nanoseconds m_begin = m_clock.now();
  std::atomic<std::uint64_t> m_samples{0};
  std::atomic<Bytes> m_bytes{0};
  std::atomic<std::uint64_t> m_files{0};
  mutable std::mutex m_mutex;
  std::map<SampleId, std::string> m_left_out;  ///< with the cause
};

/// The ids of the samples in the order in which they are written.
std::vector<SampleId> convert_order(const DatasetIndex& index, ConvertOrder order, std::uint64_t seed);

/// Writes the names of labels, one a line.
void write_label_names(const DatasetIndex& index, const std::filesystem::path& file);

// One a format; each fills the folder. `folder` is there and empty.
void convert_to_folder(ConvertRun& run, const std::filesystem::path& folder);
void convert_to_tar(ConvertRun& run, const std::filesystem::path& folder);
void convert_to_npy(ConvertRun& run, const std::filesystem::path& folder);

/// Whether samples carry labels: more than the one that stands for none.
bool has_labels(const DatasetIndex& index);

/// The folder of each label, so that a reader of the folders (number_labels()) gives every label the number that it has.
struct ClassFolders {
  std::vector<std::string> names;  ///< by label; "" is the root; empty where samples carry no labels
  bool are_numbered = false;       ///< names alone would not keep the numbers: they come behind the label's number
};
/// `sample_names` are the samples' own, by id; empty ones are left out. Throws Error where classes without
/// samples would take far more folders than there are samples.
ClassFolders class_folders(const DatasetIndex& index, const std::vector<std::string>& sample_names);

/// A relative path that stays below where it begins and is not hidden: "." and empty parts are dropped, a part's leading dot becomes "_". Empty when
/// it is absolute or climbs up.
std::string clean_path(std::string_view path);

/// What is written to a folder.
struct FolderNames {
  std::vector<std::string> samples;  ///< label's folder, then the sample's own path; empty for those that are left out
  std::vector<std::string> classes;  ///< the labels' folders, those without samples too
};
/// Throws Error where two samples had one name.
FolderNames folder_names(const DatasetIndex& index, ConvertRun& run);
/// What each sample is called in tar shards: KEY.EXTENSION, where no two keys are the same.
std::vector<std::string> member_names(const DatasetIndex& index, ConvertRun& run);

}  // namespace dsanalyze
