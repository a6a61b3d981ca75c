#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "convert_names.hpp"
#include "convert_run.hpp"
#include "loaders/dataset/readers/npy_header.hpp"
#include "loaders/dataset/sample_bytes.hpp"
#include "tar_writer.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t write_bytes = std::size_t{4} << 20;

struct Shard {
  std::size_t first = 0;  ///< of the order's places
  std::size_t last = 0;
};

std::string label_member(const std::string& name) { return name.substr(0, name.rfind('.')) + ".cls"; }

/// Makes shards' bytes from samples.
class ShardWriter {
 public:
  ShardWriter(ConvertRun& run, const std::filesystem::path& folder)
      : m_run(run),
        m_folder(folder),
        m_names(member_names(run.source(), run)),
        m_order(convert_order(run.source(), run.options().order.value_or(ConvertOrder::random), run.options().seed)),
        m_has_labels(has_labels(run.source())) {
    const auto& array = run.source().facts().array;
    if (array) m_array_header = make_npy_header(array->dtype, array->shape);
  }

  /// Cut by the sizes in the index, so that shards are the same whatever is left out and whichever thread writes which.
  [[nodiscard]] std::vector<Shard> cut() const {
    std::vector<Shard> shards;
    Bytes bytes = 0;
    for (std::size_t place = 0; place < m_order.size(); ++place) {
      const SampleId sample = m_order[place];
      const Bytes data = m_array_header.size() + m_run.source()[sample].length;
      const Bytes label = m_has_labels ? 2 * Bytes{tar_member_bytes("", 0)} : 0;
      const Bytes needed = tar_member_bytes(m_names[sample], data) + label;
      if (shards.empty() || (bytes > 0 && bytes + needed > m_run.options().shard_bytes)) {
        shards.push_back({place, place});
        bytes = 0;
      }
      shards.back().last = place + 1;
      bytes += needed;
    }
    return shards;
  }

  void write(std::size_t number, const Shard& shard) const {
    OutputFile file(m_folder / fmt::format("shard-{:06}.tar", number));
    std::string out;
    std::vector<std::byte> bytes;
    for (std::size_t place = shard.first; place < shard.last && !m_run.stop().stop_requested(); ++place) {
      add(out, m_order[place], bytes);
      if (out.size() >= write_bytes) {
        file.append(out);
        out.clear();
        m_run.report_progress();
      }
    }
    append_tar_end(out);
    file.append(out);
    m_run.count_file();
    m_run.report_progress();
  }

 private:
  void add(std::string& out, SampleId sample, std::vector<std::byte>& bytes) const {
    const std::string& name = m_names[sample];
    if (name.empty()) return;
    if (const std::string cause = read_usable_sample(m_run.source(), sample, bytes); !cause.empty()) {
      m_run.leave_out(sample, cause);
      return;
    }
    append_tar_header(out, name, m_array_header.size() + bytes.size());
    out.append(m_array_header);
    out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    out.append(tar_padding(m_array_header.size() + bytes.size()), '\0');
    if (m_has_labels) {
      const std::string label = fmt::format("{}", m_run.source()[sample].label);
      append_tar_member(out, label_member(name), std::as_bytes(std::span(label)));
    }
    m_run.count_written(bytes.size());
  }

  ConvertRun& m_run;
  const std::filesystem::path& m_folder;
  std::vector<std::string> m_names;
  std::vector<SampleId> m_order;
  bool m_has_labels;
  std::string m_array_header;
};

}  // namespace

void convert_to_tar(ConvertRun& run, const std::filesystem::path& folder) {
  const ShardWriter writer(run, folder);
  const std::vector<Shard> shards = writer.cut();
  run.for_each_single(shards.size(), [&](std::size_t shard) { writer.write(shard, shards[shard]); });
  if (has_labels(run.source())) write_label_names(run.source(), folder / "labels.txt");
}

}  // namespace dsanalyze
