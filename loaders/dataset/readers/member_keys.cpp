#include "member_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/error.hpp"
#include "base/text/text.hpp"

namespace dsanalyze {
namespace {

constexpr std::string_view default_data = "jpg;jpeg;jpe;png;webp;npy";
constexpr std::string_view default_label = "cls";

std::vector<std::string> split_keys(std::string_view option, std::string_view list) {
  std::vector<std::string> found;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(';', begin), list.size());
    found.push_back(lower_extension(list.substr(begin, end - begin)));
    begin = end + 1;
    const std::string& extension = found.back();
    if (extension.empty() || extension.front() == '.' || extension.find_first_of("/,\n") != std::string::npos) {
      throw UsageError(fmt::format("{}: found \"{}\", expected extensions without their first dot, separated by ';', for example \"jpg;png\"", option,
                                   printable(std::string(list))));
    }
  }
  return found;
}

bool names_a_label(const std::string& extension) { return extension == "cls" || extension.ends_with(".cls"); }

/// Throws UsageError for an extension that is given for data and is, or is called as, a label's.
void require_apart(const std::vector<std::string>& data, const std::vector<std::string>& label, const SampleKeys& given) {
  for (const std::string& extension : data) {
    if (std::find(label.begin(), label.end(), extension) != label.end()) {
      throw UsageError(fmt::format("{} the extension {}: a member is a sample's data or its label; give each its own",
                                   given.image.empty()   ? "--label-key names, as --image-key does where it is not given,"
                                   : given.label.empty() ? "--image-key names, as --label-key does where it is not given,"
                                                         : "--image-key and --label-key both name",
                                   printable(extension)));
    }
    if (names_a_label(extension)) {
      throw UsageError(
          fmt::format("--image-key: found \"{}\", which is a label's extension; expected that of the samples' data, for example \"jpg;png\"",
                      printable(extension)));
    }
  }
}

std::optional<std::size_t> rank_in(const std::vector<std::string>& list, std::string_view extension) {
  const auto place = std::find(list.begin(), list.end(), extension);
  return place == list.end() ? std::nullopt : std::optional(static_cast<std::size_t>(place - list.begin()));
}

std::string alternatives_text(const std::vector<std::string>& list) {
  std::string text;
  for (std::size_t place = 0; place < list.size(); ++place) text += (place == 0 ? "" : place + 1 == list.size() ? " or " : ", ") + list[place];
  return text;
}

}  // namespace

std::string lower_extension(std::string_view extension) {
  std::string lower(extension);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

MemberKeys::MemberKeys(const SampleKeys& given)
    : m_given{lower_extension(given.image), lower_extension(given.label)},
      m_data(split_keys("--image-key", given.image.empty() ? default_data : std::string_view(given.image))),
      m_label(m_given.wants_labels() ? split_keys("--label-key", given.label.empty() ? default_label : std::string_view(given.label))
                                     : std::vector<std::string>()) {
  require_apart(m_data, m_label, m_given);
}

std::optional<std::size_t> MemberKeys::data_rank(std::string_view extension) const { return rank_in(m_data, extension); }
std::optional<std::size_t> MemberKeys::label_rank(std::string_view extension) const { return rank_in(m_label, extension); }
std::string MemberKeys::data_text() const { return alternatives_text(m_data); }
std::string MemberKeys::label_text() const { return alternatives_text(m_label); }

}  // namespace dsanalyze
