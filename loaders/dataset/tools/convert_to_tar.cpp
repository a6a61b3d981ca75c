#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "convert_output.hpp"
#include "loaders/dataset/readers/npy_header.hpp"
#include "loaders/dataset/readers/tar_header.hpp"
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

namespace {

constexpr std::size_t most_name = 100;
constexpr std::size_t most_prefix = 155;
constexpr std::uint64_t most_octal_bytes = (std::uint64_t{1} << 33) - 1;  // eleven octal digits

struct SplitName {
  std::string_view prefix;
  std::string_view name;
  bool fits = false;
};

/// As ustar keeps long paths: up to 155 bytes before a slash, up to 100 behind it.
SplitName split(std::string_view name) {
  if (name.size() <= most_name) return {{}, name, true};
  const std::size_t slash = name.find('/', name.size() - std::min(name.size(), most_name + 1));
  if (slash == std::string_view::npos || slash == 0 || slash > most_prefix || slash + 1 == name.size()) return {};
  return {name.substr(0, slash), name.substr(slash + 1), true};
}

void append_block(std::string& out, const SplitName& name, std::uint64_t bytes, char kind) {
  std::array<char, tar_block_bytes> block{};
  const auto put = [&](std::size_t offset, std::string_view text) {
    std::copy(text.begin(), text.end(), block.begin() + static_cast<std::ptrdiff_t>(offset));
  };
  put(0, name.name);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, fmt::format("{:011o}", std::min(bytes, most_octal_bytes)));
  put(136, "00000000000");
  put(148, "        ");
  block[156] = kind;
  put(257, "ustar");
  put(263, "00");
  put(345, name.prefix);
  unsigned sum = 0;
  for (const char byte : block) sum += static_cast<unsigned char>(byte);
  put(148, fmt::format("{:06o}", sum));
  block[154] = '\0';
  out.append(block.data(), block.size());
}

/// "LENGTH KEY=VALUE\n", where the length counts its own digits.
std::string pax_record(std::string_view key, std::string_view value) {
  const std::size_t rest = key.size() + value.size() + 3;
  std::size_t length = rest + 1;
  while (std::to_string(length).size() + rest != length) ++length;
  return fmt::format("{} {}={}\n", length, key, value);
}

std::string pax_records(std::string_view name, std::uint64_t bytes) {
  std::string records;
  if (!split(name).fits) records += pax_record("path", name);
  if (bytes > most_octal_bytes) records += pax_record("size", std::to_string(bytes));
  return records;
}

}  // namespace

void append_tar_header(std::string& out, std::string_view name, std::uint64_t bytes) {
  const std::string records = pax_records(name, bytes);
  if (!records.empty()) {
    append_block(out, {{}, "PaxHeaders/next", true}, records.size(), 'x');
    out.append(records);
    out.append(tar_padding(records.size()), '\0');
  }
  SplitName place = split(name);
  if (!place.fits) place = {{}, name.substr(name.size() - most_name), true};
  append_block(out, place, bytes, '0');
}

std::size_t tar_padding(std::uint64_t bytes) { return static_cast<std::size_t>((tar_block_bytes - bytes % tar_block_bytes) % tar_block_bytes); }

void append_tar_member(std::string& out, std::string_view name, std::span<const std::byte> data) {
  append_tar_header(out, name, data.size());
  out.append(reinterpret_cast<const char*>(data.data()), data.size());
  out.append(tar_padding(data.size()), '\0');
}

void append_tar_end(std::string& out) { out.append(2 * tar_block_bytes, '\0'); }

Bytes tar_member_bytes(std::string_view name, std::uint64_t bytes) {
  const std::size_t records = pax_records(name, bytes).size();
  const Bytes pax = records == 0 ? 0 : tar_block_bytes + records + tar_padding(records);
  return pax + tar_block_bytes + bytes + tar_padding(bytes);
}

}  // namespace dsanalyze
