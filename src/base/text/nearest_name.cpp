#include <algorithm>
#include <cctype>
#include <string>

#include "json_reader.hpp"

namespace dsanalyze {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return out;
}

/// Insertions, deletions, changes and swaps of neighbours between two words (optimal string alignment distance of Damerau and Levenshtein).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view word, const std::vector<std::string>& known) {
  // Two letters of a long word are a slip, of a short one another word.
  const std::size_t farthest = std::max(std::min<std::size_t>(2, word.size() / 2), word.size() / 3);
  std::optional<std::string> nearest;
  std::size_t nearest_distance = farthest + 1;
  for (const std::string& name : known) {
    const std::size_t distance = edit_distance(lower(word), lower(name));
    if (distance < nearest_distance) {
      nearest = name;
      nearest_distance = distance;
    }
  }
  return nearest;
}

}  // namespace dsanalyze
