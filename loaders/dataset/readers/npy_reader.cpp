#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/host/host.hpp"
#include "base/text/units.hpp"
#include "dataset_reader.hpp"
#include "dataset_source.hpp"
#include "file_window.hpp"
#include "format_names.hpp"
#include "label_table.hpp"
#include "loaders/dataset/index_dependencies.hpp"
#include "npy_header.hpp"
#include "parallel_ranges.hpp"

// NumPy arrays. One .npy file that the user named, or the samples.npy that `dataset convert` makes: each row is a sample. Several .npy files, or a
// folder of them: each file is a sample, class folders give labels.

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view rows_file = "samples.npy";
constexpr std::size_t piece_files = 64;

NpyHeader read_header(FileWindow& window) {
  const std::size_t bytes = npy_header_bytes(window.at(0, npy_preamble_bytes));
  NpyHeader header = parse_npy_header(window.at(0, bytes));
  if (header.fortran_order && header.shape.size() > 1) {
    throw Error(
        "it is stored in Fortran order (columns first), so a sample's bytes do not lie together; save it with "
        "numpy.save(file, numpy.ascontiguousarray(array))");
  }
  return header;
}

/// Rows that are there or begun; those that the file's end cuts off are named in a finding, and the first of them fails when it is read.
std::uint64_t rows_of(const NpyHeader& header, std::uint64_t row_bytes, std::uint64_t file_bytes, const std::string& file,
                      DatasetIndex::Facts& facts) {
  const std::uint64_t rows = header.shape.front();
  const std::uint64_t whole = (file_bytes - header.header_bytes) / row_bytes;
  if (whole >= rows) return rows;
  facts.findings.push_back({"npy-torn", Finding::Severity::warning,
                            fmt::format("{} ends after {} of its {} rows: they are used, and the next one will fail", file, whole, rows)});
  return whole + 1;
}

std::int64_t integer_at(const char* place, std::size_t bytes, bool is_big, bool is_signed) {
  const auto byte_at = [&](std::size_t from_highest) { return static_cast<unsigned char>(place[is_big ? from_highest : bytes - 1 - from_highest]); };
  std::uint64_t value = is_signed && byte_at(0) >= 0x80 ? ~std::uint64_t{0} : 0;
  for (std::size_t byte = 0; byte < bytes; ++byte) value = value << 8 | byte_at(byte);
  return static_cast<std::int64_t>(value);
}

/// The labels in a labels file: one whole number a row. Reads no more of the file than the rows need.
std::vector<SampleLabel> read_labels(FileWindow& window, std::uint64_t rows, NamedCount& invalid) {
  const NpyHeader header = parse_npy_header(window.at(0, npy_header_bytes(window.at(0, npy_preamble_bytes))));
  const char kind = header.dtype.size() == 3 ? header.dtype[1] : '\0';
  if ((kind != 'i' && kind != 'u') || header.shape.size() != 1 || header.item_bytes > 8)
    throw Error(fmt::format("it holds items of type '{}' in {} dimensions, and labels are whole numbers in one", header.dtype, header.shape.size()));
  const std::uint64_t whole = (window.size() - header.header_bytes) / header.item_bytes;
  if (const std::uint64_t held = std::min(header.shape.front(), whole); held < rows || whole < header.shape.front())
    throw Error(fmt::format("it holds fewer labels ({} of the {} that its header names) than the array has rows ({}), or is cut off", held,
                            header.shape.front(), rows));
  std::vector<SampleLabel> labels;
  labels.reserve(rows);
  for (std::uint64_t row = 0; row < rows; ++row) {
    const std::span<const std::byte> item = window.at(header.header_bytes + row * header.item_bytes, header.item_bytes);
    if (item.size() < header.item_bytes) throw Error("it became shorter while it was read");
    const std::int64_t number = integer_at(reinterpret_cast<const char*>(item.data()), header.item_bytes, header.dtype.front() == '>', kind == 'i');
    const bool is_beyond_signed = kind == 'u' && number < 0;
    labels.push_back(SampleLabel::of(is_beyond_signed ? std::nullopt : std::optional(number)));
    if (labels.back().kind == SampleLabel::Kind::invalid)
      invalid.add(is_beyond_signed ? fmt::format("row {} ({})", row, static_cast<std::uint64_t>(number)) : fmt::format("row {} ({})", row, number));
  }
  return labels;
}

/// A row takes an entry of the index and, while it is made, its label: a header may claim more of them than memory holds.
void require_memory(std::uint64_t rows) {
  constexpr Bytes bytes_a_row = sizeof(IndexRecord) + sizeof(SampleLabel) + 2 * sizeof(std::uint32_t);
  constexpr std::uint64_t rows_not_asked_about = 1 << 20;
  if (rows <= rows_not_asked_about) return;
  const Bytes usable = read_host_facts().memory_usable;
  if (rows > usable / bytes_a_row)
    throw Error(fmt::format("its {} rows need {} of memory for their index, and {} are available; split it", rows,
                            format_bytes(static_cast<Bytes>(rows * bytes_a_row)), format_bytes(usable)));
}

LabelTable labels_of_rows(const DatasetFiles& files, const std::string& file, std::uint64_t rows, DatasetIndex::Facts& facts) {
  if (!files.keys.wants_labels()) return no_labels(rows);
  const fs::path& root = files.root;
  const std::string stem = file.substr(0, file.size() - std::string_view(".npy").size());
  const std::string numbers_file = is_npy_name(file) ? stem + ".labels.npy" : "";
  const std::string names_file = stem + ".labels.txt";
  std::vector<SampleLabel> carried(rows);
  NamedCount invalid;
  std::error_code ignored;
  depend_on(facts, names_file);
  if (!numbers_file.empty() && depend_on(facts, numbers_file) && fs::is_regular_file(root / numbers_file, ignored)) {
    try {
      FileWindow window(root / numbers_file);
      carried = read_labels(window, rows, invalid);
    } catch (const Error& error) {
      throw Error(fmt::format("cannot use the labels {}: {}", (root / numbers_file).string(), error.what()));
    }
  }
  if (invalid.count > 0) {
    facts.findings.push_back({"npy-labels-invalid", Finding::Severity::warning,
                              fmt::format("{} of {} labels in {} are no number from 0 to 2147483647, and their samples fail: {}; {}", invalid.count,
                                          rows, numbers_file, invalid.text(), way_without_labels)});
  }
  return make_label_table(carried, root / names_file);
}

std::shared_ptr<const DatasetIndex> read_rows(const DatasetFiles& files, const std::string& file) {
  DatasetIndex::Facts facts = start_facts(files);
  FileWindow window(files.root / file);
  facts.files.push_back(facts_of(file, window));
  std::uint64_t rows = 0;
  std::uint64_t header_bytes = 0;
  try {
    const NpyHeader header = read_header(window);
    if (header.shape.empty()) throw Error("it is a single number without rows");
    if (header.data_bytes == 0) throw Error("it has no items");
    const std::vector<std::uint64_t> row_shape(header.shape.begin() + 1, header.shape.end());
    facts.array = ArrayDescription{header.dtype, row_shape, header.data_bytes / header.shape.front()};
    header_bytes = header.header_bytes;
    rows = rows_of(header, facts.array->sample_bytes, window.size(), file, facts);
    if (rows >= UINT32_MAX) throw Error("it has more than 4,294,967,294 rows; split it");
    require_memory(rows);
  } catch (const Error& error) {
    throw Error(fmt::format("cannot use the array {}: {}", (files.root / file).string(), error.what()));
  }
  const LabelTable labels = labels_of_rows(files, file, rows, facts);
  facts.findings.insert(facts.findings.end(), labels.findings.begin(), labels.findings.end());
  DatasetIndexBuilder builder;
  const std::uint32_t number = builder.add_file(file);
  for (const std::string& name : labels.names) builder.add_label(name);
  for (std::uint64_t row = 0; row < rows; ++row) {
    builder.add_sample({header_bytes + row * facts.array->sample_bytes, facts.array->sample_bytes, number, labels.labels[row]});
  }
  return std::move(builder).build(std::move(facts));
}

/// What a file of a folder says of itself.
struct ArrayFile {
  std::optional<ArrayDescription> array;
  std::uint64_t data = 0;                          ///< where its items begin; the file's end when it is no array, so that reading it fails
  std::string cause;                               ///< why it is no array
  std::optional<DatasetIndex::Facts::File> facts;  ///< nothing when it cannot be opened
};

ArrayFile look_at(const fs::path& root, const std::string& path) {
  ArrayFile found;
  try {
    FileWindow window(root / path);
    found.data = window.size();
    found.facts = facts_of(path, window);
    const NpyHeader header = read_header(window);
    found.array = ArrayDescription{header.dtype, header.shape, header.data_bytes};
    found.data = header.header_bytes;
  } catch (const Error& error) {
    found.cause = error.what();
  }
  return found;
}

std::vector<ArrayFile> look_at_files(const DatasetFiles& files, const ReaderContext& context) {
  const auto& samples = files.choice.samples;
  std::vector<ArrayFile> found(samples.size());
  std::atomic<std::size_t> done{0};
  parallel_ranges(samples.size(), piece_files, context.options.threads, context.stop, [&](std::size_t first, std::size_t last) {
    for (std::size_t sample = first; sample < last; ++sample) {
      found[sample] = look_at(files.root, files.listing[samples[sample].folder].relative_path(samples[sample].name));
    }
    const std::size_t now = done += last - first;
    context.events.progress(
        {fmt::format("reading the headers of {} arrays", samples.size()), static_cast<double>(now) / static_cast<double>(samples.size()), -1});
  });
  return found;
}

std::string array_text(const ArrayDescription& array) { return fmt::format("{} of {}", fmt::join(array.shape, "x"), array.dtype); }

std::shared_ptr<const DatasetIndex> read_files(const DatasetFiles& files, const ReaderContext& context) {
  std::vector<ArrayFile> found = look_at_files(files, context);
  const auto path_of = [&](std::size_t sample) {
    const SampleChoice::Place place = files.choice.samples[sample];
    return files.listing[place.folder].relative_path(place.name);
  };
  const auto first = std::find_if(found.begin(), found.end(), [](const ArrayFile& file) { return file.array.has_value(); });
  if (first == found.end()) throw Error(fmt::format("cannot use the array {}: {}", (files.root / path_of(0)).string(), found.front().cause));

  DatasetIndex::Facts facts = start_facts(files);
  facts.array = first->array;
  const FolderLabels labels = labels_of_folders(files);
  facts.findings.insert(facts.findings.end(), labels.findings.begin(), labels.findings.end());
  DatasetIndexBuilder builder;
  for (const std::string& name : labels.names) builder.add_label(name);
  NamedCount unreadable;
  for (std::size_t sample = 0; sample < found.size(); ++sample) {
    const std::string path = path_of(sample);
    if (found[sample].facts) {
      facts.files.push_back(*std::move(found[sample].facts));
    } else {
      depend_on(facts, path);
    }
    if (!found[sample].array) unreadable.add(fmt::format("{} ({})", path, found[sample].cause));
    if (found[sample].array && found[sample].array != first->array) {
      throw Error(fmt::format(
          "the arrays of {} differ: {} is {}, and {} is {}. Each file is a sample, and all samples must be alike; to use the rows of "
          "one large array as samples, name its file",
          facts.root, path_of(static_cast<std::size_t>(first - found.begin())), array_text(*first->array), path, array_text(*found[sample].array)));
    }
    builder.add_sample(
        {found[sample].data, facts.array->sample_bytes, builder.add_file(path), labels.of_folder[files.choice.samples[sample].folder]});
  }
  if (unreadable.count > 0) {
    facts.findings.push_back({"npy-unreadable", Finding::Severity::warning,
                              fmt::format("{} files are no arrays and will fail when they are read: {}", unreadable.count, unreadable.text())});
  }
  if (found.size() == 1) {
    facts.findings.push_back({"npy-single-file", Finding::Severity::warning,
                              fmt::format("{} holds one array, which is one sample; to use its rows as samples, name the file: {}", facts.root,
                                          (files.root / path_of(0)).string())});
  }
  return std::move(builder).build(std::move(facts));
}

}  // namespace

std::shared_ptr<const DatasetIndex> read_npy_arrays(const DatasetFiles& files, const ReaderContext& context) {
  if (files.choice.samples.size() > 1) return read_files(files, context);
  const SampleChoice::Place only = files.choice.samples.front();
  const std::string path = files.listing[only.folder].relative_path(only.name);
  const bool was_named = !files.source.empty();
  return was_named || path == rows_file ? read_rows(files, path) : read_files(files, context);
}

}  // namespace dsanalyze
