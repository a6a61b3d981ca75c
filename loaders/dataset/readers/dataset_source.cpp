#include "dataset_source.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <optional>
#include <system_error>

#include "base/error.hpp"

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

fs::path canonical_path(const fs::path& path) {
  std::error_code failure;
  fs::path whole = fs::canonical(path, failure);
  if (failure) throw_errno("cannot open the dataset", path.string(), failure.value());
  return whole;
}

/// The folder that the range's files have in common: what stands before its first brace, up to a slash.
DatasetSource range_source(const fs::path& given) {
  const std::string pattern = fs::absolute(given).lexically_normal().string();
  std::size_t slash = pattern.rfind('/', pattern.find('{'));
  if (slash == std::string::npos) slash = 0;
  const fs::path folder = pattern.substr(0, slash + 1);
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored))
    throw Error(fmt::format("there is no dataset at {}: no such folder as {}", given.string(), folder.string()));
  DatasetSource source;
  source.root = canonical_path(folder);
  source.name = absolute_name(given);
  source.files = expand_braces(pattern.substr(slash + 1));
  NamedCount missing;
  for (const std::string& file : source.files) {
    if (!fs::is_regular_file(source.root / file, ignored)) missing.add(file);
  }
  if (missing.count > 0) {
    throw Error(fmt::format("of the {} files that {} stands for, {} are missing: {}; correct the range or bring them back", source.files.size(),
                            given.string(), missing.count, missing.text()));
  }
  return source;
}

}  // namespace

DatasetSource find_source(const fs::path& given) {
  struct stat facts {};
  if (stat(given.c_str(), &facts) != 0) {
    const int error = errno;
    if ((error == ENOENT || error == ENOTDIR) && has_brace_range(given.string())) return range_source(given);
    if (error == ENOENT || error == ENOTDIR) throw Error("there is no dataset at " + given.string() + ": no such folder or file; check the path");
    throw_errno("cannot open the dataset", given.string(), error);
  }
  DatasetSource source;
  source.root = canonical_path(given);
  if (S_ISDIR(facts.st_mode)) return source;
  if (!S_ISREG(facts.st_mode)) throw Error("the dataset " + given.string() + " is neither a folder nor a file");
  source.name = source.root.string();
  source.files = {source.root.filename().string()};
  source.root = source.root.parent_path();
  return source;
}

std::string absolute_name(const fs::path& given) {
  std::error_code failure;
  fs::path place = fs::weakly_canonical(fs::absolute(given), failure);
  if (failure) place = fs::absolute(given).lexically_normal();
  return (place.has_filename() ? place : place.parent_path()).string();
}

namespace {

struct NumberRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::size_t width = 0;
};

std::optional<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<NumberRange> number_range_of(std::string_view inner) {
  const std::size_t dots = inner.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  const std::string_view first = inner.substr(0, dots);
  const std::string_view last = inner.substr(dots + 2);
  const auto from = number_of(first);
  const auto to = number_of(last);
  if (!from || !to) return std::nullopt;
  const bool is_padded = (first.size() > 1 && first.front() == '0') || (last.size() > 1 && last.front() == '0');
  return NumberRange{*from, *to, is_padded ? std::max(first.size(), last.size()) : 0};
}

struct Braces {
  std::size_t open = std::string_view::npos;
  std::size_t close = std::string_view::npos;
};

/// The first pair that holds a range or a list; others are letters of a name like any.
Braces first_range(std::string_view text) {
  for (std::size_t open = text.find('{'); open != std::string_view::npos; open = text.find('{', open + 1)) {
    const std::size_t close = text.find('}', open);
    if (close == std::string_view::npos) return {};
    const std::string_view inner = text.substr(open + 1, close - open - 1);
    if (number_range_of(inner) || inner.find(',') != std::string_view::npos) return {open, close};
  }
  return {};
}

std::vector<std::string> members_of(std::string_view inner, std::size_t most) {
  std::vector<std::string> members;
  if (const auto range = number_range_of(inner)) {
    const std::uint64_t steps = range->first < range->last ? range->last - range->first : range->first - range->last;
    if (steps >= most) throw Error(fmt::format("the range {{{}}} stands for more than {} files", inner, most));
    for (std::uint64_t step = 0; step <= steps; ++step) {
      const std::uint64_t number = range->first <= range->last ? range->first + step : range->first - step;
      members.push_back(fmt::format("{:0{}}", number, range->width));
    }
    return members;
  }
  for (std::size_t begin = 0; begin <= inner.size();) {
    const std::size_t end = std::min(inner.find(',', begin), inner.size());
    members.emplace_back(inner.substr(begin, end - begin));
    begin = end + 1;
  }
  return members;
}

}  // namespace

bool has_brace_range(std::string_view text) { return first_range(text).open != std::string_view::npos; }

std::vector<std::string> expand_braces(std::string_view text, std::size_t most) {
  const std::string_view whole = text;
  std::vector<std::string> done{""};
  for (;;) {
    const Braces braces = first_range(text);
    const std::string_view before = text.substr(0, braces.open);
    for (std::string& one : done) one.append(before);
    if (braces.open == std::string_view::npos) return done;
    const std::vector<std::string> members = members_of(text.substr(braces.open + 1, braces.close - braces.open - 1), most);
    if (members.size() > most / done.size()) throw Error(fmt::format("{} stands for more than {} files", whole, most));
    std::vector<std::string> longer;
    longer.reserve(done.size() * members.size());
    for (const std::string& one : done) {
      for (const std::string& member : members) longer.push_back(one + member);
    }
    done = std::move(longer);
    text.remove_prefix(braces.close + 1);
  }
}

}  // namespace dsanalyze
