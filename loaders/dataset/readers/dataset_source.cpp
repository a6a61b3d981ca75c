#include "dataset_source.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>

#include "base/error.hpp"
#include "brace_range.hpp"
#include "named_count.hpp"

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

}  // namespace dsanalyze
