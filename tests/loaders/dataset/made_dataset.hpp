#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/index.hpp"
#include "core/workload.hpp"
#include "dataset_folder.hpp"
#include "loaders/dataset/dataset.hpp"

namespace dsanalyze::testing {

/// An index over files that exist in a folder, in the order of adding; content and length as given.
class FileDataset {
 public:
  void add(const std::string& name, const std::string& content, std::uint32_t label = 0) {
    m_folder.add(name, content);
    m_builder.add_sample({0, content.size(), m_builder.add_file(name), label});
  }
  /// One file that holds several samples, one after another.
  void add_shard(const std::string& name, const std::vector<std::string>& samples) {
    std::string content;
    const std::uint32_t file = m_builder.add_file(name);
    for (const std::string& sample : samples) {
      m_builder.add_sample({content.size(), sample.size(), file, 0});
      content += sample;
    }
    m_folder.add(name, content);
  }
  /// A sample whose file is not there, or shorter than the index says.
  void add_record(const std::string& name, std::uint64_t offset, std::uint64_t length) {
    m_builder.add_sample({offset, length, m_builder.add_file(name), 0});
  }
  std::shared_ptr<const DatasetIndex> index() {
    DatasetIndex::Facts facts;
    facts.root = m_folder.root().string();
    facts.format = "folder";
    return std::move(m_builder).build(facts);
  }
  [[nodiscard]] const DatasetFolder& folder() const { return m_folder; }

 private:
  DatasetFolder m_folder;
  DatasetIndexBuilder m_builder;
};

/// `samples` emulated samples of `mean_bytes`, all alike when `deviation` is 0.
inline std::shared_ptr<const DatasetIndex> emulated_dataset(std::uint64_t samples, Bytes mean_bytes, double deviation = 0) {
  DatasetSpec spec;
  spec.name = "test";
  spec.samples = samples;
  spec.mean_sample_bytes = mean_bytes;
  spec.sample_bytes_deviation = deviation;
  return make_emulated_index(spec, samples, 1, 1);
}

}  // namespace dsanalyze::testing
