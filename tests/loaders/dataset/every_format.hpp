#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "../prep/jpeg_images.hpp"
#include "../prep/png_images.hpp"
#include "../prep/webp_images.hpp"
#include "core/index.hpp"
#include "dataset_folder.hpp"
#include "loaders/dataset/dataset.hpp"
#include "loaders/dataset/readers/npy_header.hpp"
#include "loaders/dataset/tools/tar_writer.hpp"
#include "loaders/prep/prep.hpp"
#include "made_dataset.hpp"

namespace dsanalyze::testing {

constexpr int every_format_samples = 24;  ///< good ones, of each format

/// A small dataset of real files, opened as users open one, of which some samples went bad afterwards.
class RealDataset {
 public:
  RealDataset() = default;
  RealDataset(const RealDataset&) = delete;
  RealDataset& operator=(const RealDataset&) = delete;
  RealDataset(RealDataset&&) = delete;
  RealDataset& operator=(RealDataset&&) = delete;
  virtual ~RealDataset() = default;

  [[nodiscard]] const std::shared_ptr<const DatasetIndex>& index() const { return m_index; }
  /// What each bad sample's failure says, by its id.
  [[nodiscard]] const std::map<SampleId, std::string>& bad() const { return m_bad; }
  [[nodiscard]] std::unique_ptr<PrepFactory> prep() const {
    if (m_index->facts().array) return make_array_prep(*m_index->facts().array);
    ImagePrepOptions options;
    options.prep.crop_size = 8;
    options.dtype = DType::uint8;
    options.seed = 5;
    return make_image_prep(options);
  }

 protected:
  void open(const std::string& path) { m_index = open_dataset(m_folder.root() / path, {}, null_events(), std::stop_token()); }
  void write(const std::string& name, std::span<const std::byte> content) const { m_folder.add(name, text_of(content)); }
  void write(const std::string& name, const std::string& content) const { m_folder.add(name, content); }
  void remove(const std::string& name) const { std::filesystem::remove(m_folder.root() / name); }
  void truncate(const std::string& name, std::uintmax_t bytes) const { std::filesystem::resize_file(m_folder.root() / name, bytes); }
  /// Names what every sample's failure says of which `is_bad` tells.
  void expect_bad(const std::function<bool(SampleId)>& is_bad, const std::string& cause) {
    for (SampleId id = 0; id < m_index->size(); ++id) {
      if (is_bad(id)) m_bad[id] = cause;
    }
  }
  [[nodiscard]] std::string_view file_of(SampleId id) const { return m_index->file_path((*m_index)[id].file); }

 private:
  DatasetFolder m_folder;
  std::shared_ptr<const DatasetIndex> m_index;
  std::map<SampleId, std::string> m_bad;
};

/// JPEG, PNG and WebP in rotation.
inline std::vector<std::byte> some_image(int number) {
  const int width = 12 + number;
  if (number % 3 == 0) return test::encode_picture({width, 10});
  if (number % 3 == 1) return test::encode_png({width, 10});
  return test::encode_webp({width, 10});
}
inline std::vector<std::byte> cut_off_image() {
  std::vector<std::byte> image = some_image(0);
  image.resize(300);
  return image;
}
inline std::string image_extension(int number) { return number % 3 == 0 ? ".jpg" : number % 3 == 1 ? ".png" : ".webp"; }

class ImageFolder : public RealDataset {
 public:
  ImageFolder() {
    for (int i = 0; i < every_format_samples; ++i)
      write("class-" + std::to_string(i % 2) + "/" + std::to_string(i) + image_extension(i), some_image(i));
    write("class-0/bad-corrupt.jpg", cut_off_image());
    write("class-0/bad-vanished.png", some_image(1));
    write("class-1/bad-empty.webp", std::string());
    open(".");
    remove("class-0/bad-vanished.png");
    const auto named = [this](std::string_view part) {
      return [this, part](SampleId id) { return file_of(id).find(part) != std::string_view::npos; };
    };
    expect_bad(named("corrupt"), "not a whole image (truncated, damaged, or not an image)");
    expect_bad(named("vanished"), "the file is gone");
    expect_bad(named("empty"), "the sample is empty");
  }
};

/// Shards of different sizes; the last one vanishes, and one is cut off within its last sample.
class TarShards : public RealDataset {
 public:
  TarShards() {
    int number = 0;
    for (int shard = 0; shard < 4; ++shard) {
      std::string tar;
      for (int i = 0; i < 3 + 2 * shard; ++i, ++number) add(tar, std::to_string(number) + image_extension(number), some_image(number));
      if (shard == 0) add(tar, "bad-corrupt.jpg", cut_off_image());
      if (shard == 1) add(tar, "bad-empty.png", {});
      append_tar_end(tar);
      write("train-" + std::to_string(shard) + ".tar", tar);
    }
    std::string last;
    add(last, "lost.jpg", some_image(0));
    append_tar_end(last);
    write("vanished.tar", last);
    open(".");
    const auto named = [this](std::string_view part) {
      return [this, part](SampleId id) { return sample_name(*index(), id).find(part) != std::string::npos; };
    };
    expect_bad(named("corrupt"), "not a whole image (truncated, damaged, or not an image)");
    expect_bad(named("empty"), "the sample is empty");
    expect_bad(named("vanished"), "the file is gone");
    remove("vanished.tar");
  }

 private:
  static void add(std::string& tar, const std::string& name, std::span<const std::byte> data) { append_tar_member(tar, name, data); }
};

inline std::string npy_of(std::uint64_t rows, std::uint8_t first) {
  constexpr std::uint64_t columns = 25;
  const std::vector<std::uint64_t> shape = rows == 0 ? std::vector<std::uint64_t>{columns} : std::vector<std::uint64_t>{rows, columns};
  std::string content = make_npy_header("|u1", shape);
  for (std::uint64_t i = 0; i < std::max<std::uint64_t>(rows, 1) * columns; ++i) content.push_back(static_cast<char>(first + i * 7));
  return content;
}

/// One array, whose file is cut off after it was indexed: within a row, so that one row is short and two are not there.
class NpyRows : public RealDataset {
 public:
  NpyRows() {
    const std::string content = npy_of(every_format_samples + 3, 1);
    write("x.npy", content);
    open("x.npy");
    truncate("x.npy", content.size() - 60);
    expect_bad([](SampleId id) { return id >= every_format_samples; },
               "the file ends before the sample does: cut off, or changed since it was indexed");
  }
};

/// An array a file.
class NpyFiles : public RealDataset {
 public:
  NpyFiles() {
    for (int i = 0; i < every_format_samples; ++i) write(std::to_string(i) + ".npy", npy_of(0, static_cast<std::uint8_t>(3 * i)));
    for (const char* name : {"bad-short.npy", "bad-vanished.npy", "bad-empty.npy"}) write(name, npy_of(0, 0));
    open(".");
    truncate("bad-short.npy", 130);
    truncate("bad-empty.npy", 0);
    remove("bad-vanished.npy");
    const auto named = [this](std::string_view part) {
      return [this, part](SampleId id) { return file_of(id).find(part) != std::string_view::npos; };
    };
    expect_bad(named("vanished"), "the file is gone");
    expect_bad(named("short"), "the file ends before the sample does: cut off, or changed since it was indexed");
    expect_bad(named("empty"), "the file ends before the sample does: cut off, or changed since it was indexed");
  }
};

}  // namespace dsanalyze::testing
