#include "label_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "base/system/files.hpp"

namespace dsanalyze {
namespace {

constexpr std::int64_t most_labels = 1 << 20;
constexpr Bytes most_names_bytes = Bytes{64} << 20;

std::vector<std::string> lines_of(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return {};
  const std::string text = read_file(file, most_names_bytes);
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::size_t length = end > begin && text[end - 1] == '\r' ? end - begin - 1 : end - begin;
    lines.push_back(text.substr(begin, length));
    begin = end + 1;
  }
  return lines;
}

void count_through(std::span<const std::optional<std::int64_t>> numbers, LabelTable& table) {
  std::vector<std::int64_t> values;
  for (const auto& number : numbers) {
    if (number) values.push_back(*number);
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  for (const std::int64_t value : values) table.names.push_back(std::to_string(value));
  for (const auto& number : numbers) {
    const auto place = number ? std::lower_bound(values.begin(), values.end(), *number) : values.begin();
    table.labels.push_back(static_cast<std::uint32_t>(place - values.begin()));
  }
  table.findings.push_back({"labels-renumbered", Finding::Severity::warning,
                            fmt::format("labels lie between {} and {}: they are counted through from 0 to {} instead, in ascending order",
                                        values.front(), values.back(), values.size() - 1)});
}

}  // namespace

LabelTable make_label_table(std::span<const std::optional<std::int64_t>> numbers, const std::filesystem::path& names_file) {
  LabelTable table;
  table.labels.reserve(numbers.size());
  std::uint64_t without = 0;
  std::int64_t least = 0;
  std::int64_t most = 0;
  for (const auto& number : numbers) {
    without += number ? 0 : 1;
    least = std::min(least, number.value_or(0));
    most = std::max(most, number.value_or(0));
  }
  if (without == numbers.size()) {
    table.labels.assign(numbers.size(), 0);
    table.names.emplace_back(no_class_name);
    return table;
  }
  if (without > 0) {
    table.findings.push_back({"labels-missing", Finding::Severity::warning,
                              fmt::format("{} of {} samples have no label of their own: they count as label 0", without, numbers.size())});
  }
  if (least < 0 || most >= most_labels) {
    count_through(numbers, table);
    return table;
  }
  for (const auto& number : numbers) table.labels.push_back(static_cast<std::uint32_t>(number.value_or(0)));
  table.names = lines_of(names_file);
  const auto needed = static_cast<std::size_t>(most) + 1;
  if (table.names.size() < needed) {
    table.names.clear();
    for (std::size_t label = 0; label < needed; ++label) table.names.push_back(std::to_string(label));
  }
  return table;
}

}  // namespace dsanalyze
