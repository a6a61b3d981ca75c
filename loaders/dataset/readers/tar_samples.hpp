#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "file_window.hpp"
#include "member_keys.hpp"
#include "tar_shard.hpp"

namespace dsanalyze {

/// One file of a shard.
struct TarMember {
  std::string_view name;
  std::uint64_t header = 0;  ///< where its header begins
  std::uint64_t data = 0;
  std::uint64_t bytes = 0;
};

/// What follows a sample's last member: another key or the archive's end, the file's end, or damage.
enum class FollowedBy : std::uint8_t { members, file_end, damage };

/// Makes samples of a shard's members, which are given in file order, as WebDataset groups them: members side by side with one key are a sample.
/// Throws Error naming the shard and members for what cannot be one. Threads: one.
class TarSampleMaker {
 public:
  /// `name` is the shard's in messages; all must outlive this.
  TarSampleMaker(FileWindow& window, const std::string& name, const MemberKeys& keys, TarShard& shard)
      : m_window(window), m_name(name), m_keys(keys), m_shard(shard) {}

  /// Reads labels and array headers, not data.
  void take(const TarMember& member);
  /// Whether the sample whose members came last lacks a member that others of the shard have: "the last key, 000012, has no cls member", else "".
  [[nodiscard]] std::string missing_of_last() const;
  /// No more members come.
  void finish(FollowedBy next);

 private:
  /// A member that was chosen as the sample, and the place of its extension among the keys.
  struct ChosenData {
    TarSample value;
    std::size_t rank = 0;
    std::string name;
  };
  struct Sample {
    std::string key;
    std::uint64_t begin = 0;
    std::unordered_map<std::string, std::string> members;  ///< names by extension
    std::optional<ChosenData> data;
    std::optional<SampleLabel> label;  ///< of the member that was chosen
    std::size_t label_rank = 0;        ///< the place of its extension among the keys
  };
  /// A key that was met: whether it had data, a label.
  struct Met {
    std::uint64_t begin = 0;
    bool has_data = false;
    bool has_label = false;
  };

  void take_label(const TarMember& member, std::size_t rank);
  void take_data(const TarMember& member, const std::string& extension, std::size_t rank);
  void take_array(TarSample& sample, bool is_torn, std::string_view name);
  void tear(TarSample& sample) const;
  void tear_array(TarSample& sample) const;
  [[nodiscard]] bool is_torn(const TarMember& member) const;

  FileWindow& m_window;
  const std::string& m_name;
  const MemberKeys& m_keys;
  TarShard& m_shard;
  Sample m_sample;
  std::unordered_map<std::string, Met> m_met;
};

}  // namespace dsanalyze
