#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dsanalyze {

/// How many there are of something, and what the first few are called: enough for a message about a million of them.
struct NamedCount {
  static constexpr std::size_t most_names = 5;
  std::uint64_t count = 0;
  std::vector<std::string> names;

  void add(std::string name) {
    ++count;
    if (names.size() < most_names) names.push_back(std::move(name));
  }
  /// Adds what another thread counted; call it in the order in which names are to be chosen.
  void add(const NamedCount& other) {
    count += other.count;
    for (std::size_t place = 0; place < other.names.size() && names.size() < most_names; ++place) names.push_back(other.names[place]);
  }
  /// "a, b, c" and, where there are more, ", ...".
  [[nodiscard]] std::string text() const {
    std::string result;
    for (const std::string& name : names) result += (result.empty() ? "" : ", ") + name;
    return count > names.size() ? result + ", ..." : result;
  }
};

}  // namespace dsanalyze
