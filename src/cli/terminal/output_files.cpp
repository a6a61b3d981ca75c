#include "output_files.hpp"

#include <fmt/format.h>

#include <system_error>

#include "base/error.hpp"
#include "base/system/files.hpp"
#include "base/text/text.hpp"

namespace dsanalyze::cli {
namespace {

namespace fs = std::filesystem;

bool is_special(const fs::path& path) {
  std::error_code hidden;  // what cannot be looked at is no special file
  const fs::file_status status = fs::status(path, hidden);
  return fs::exists(status) && !fs::is_regular_file(status);
}

/// What is written under that name: past links, in the folder as it is really called.
fs::path written_file(const fs::path& path) {
  std::error_code failed;
  const fs::path canonical = fs::weakly_canonical(path, failed);
  return failed ? fs::absolute(path, failed).lexically_normal() : canonical;
}

bool are_same_folder(const fs::path& a, const fs::path& b) {
  std::error_code hidden;
  return fs::equivalent(a, b, hidden);
}

bool are_same(const fs::path& a, const fs::path& b) {
  if (is_special(a) || is_special(b)) return false;
  std::error_code hidden;
  return written_file(a) == written_file(b) || fs::equivalent(a, b, hidden);
}

bool is_input(const fs::path& file, const fs::path& input) {
  std::error_code hidden;
  if (!fs::is_directory(input, hidden)) return are_same(file, input);
  if (is_special(file)) return false;
  if (file.extension() == ".json" && are_same_folder(fs::absolute(file, hidden).parent_path(), input)) return true;
  const fs::path written = written_file(file);
  return written.extension() == ".json" && are_same_folder(written.parent_path(), input);
}

}  // namespace

void check_outputs(std::span<const OutputFile> files, std::span<const fs::path> inputs) {
  for (const OutputFile& file : files)
    for (const fs::path& input : inputs)
      if (!file.path.empty() && !input.empty() && is_input(file.path, input))
        throw UsageError(
            fmt::format("{} names {}, which this command reads ({}): the output would replace it or be read as a result. Give it a file of its own.",
                        file.option, printable(file.path.native()), printable(input.native())));
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (files[i].path.empty()) continue;
    for (std::size_t j = 0; j < i; ++j) {
      if (files[j].path.empty() || !are_same(files[i].path, files[j].path)) continue;
      throw UsageError(fmt::format("{} and {} name the same file, {}: the one would replace the other. Give each a file of its own.", files[j].option,
                                   files[i].option, printable(files[i].path.native())));
    }
  }
  for (const OutputFile& file : files)
    if (!file.path.empty()) require_writable(file.path);
}

}  // namespace dsanalyze::cli
