#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loaders/dataset/dataset.hpp"

namespace dsanalyze {

/// Which extensions of a tar shard's members are data and labels.
class MemberKeys {
 public:
  /// Throws UsageError that names the option for what is no list of extensions, and for an extension that would be data and label.
  explicit MemberKeys(const SampleKeys& given = {});

  /// The place of an extension (lower-case) in its list, the preferred one first; nothing when it is not in it.
  [[nodiscard]] std::optional<std::size_t> data_rank(std::string_view extension) const;
  [[nodiscard]] std::optional<std::size_t> label_rank(std::string_view extension) const;
  /// Whether the user chose the data: then the first of the list that a sample has is used, as WebDataset does; else a sample may have one only.
  [[nodiscard]] bool data_is_chosen() const { return !m_given.image.empty(); }
  [[nodiscard]] bool label_is_chosen() const { return !m_given.label.empty() && m_given.wants_labels(); }
  /// As they were given, in lower case.
  [[nodiscard]] const SampleKeys& given() const { return m_given; }
  /// "jpg, jpeg or png"
  [[nodiscard]] std::string data_text() const;
  [[nodiscard]] std::string label_text() const;

 private:
  SampleKeys m_given;
  std::vector<std::string> m_data;
  std::vector<std::string> m_label;
};

/// The extension as keys are compared: in lower case.
std::string lower_extension(std::string_view extension);

}  // namespace dsanalyze
