#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.hpp"
#include "convert_output.hpp"
#include "loaders/dataset/readers/npy_header.hpp"
#include "loaders/dataset/sample_bytes.hpp"

namespace dsanalyze {
namespace {

void make_class_folder(const std::filesystem::path& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) throw_errno("cannot create the folder", folder.string(), failure.value());
}

}  // namespace

void convert_to_folder(ConvertRun& run, const std::filesystem::path& folder) {
  const DatasetIndex& source = run.source();
  const FolderNames folder_and_names = folder_names(source, run);
  const std::vector<std::string>& names = folder_and_names.samples;
  // Classes without samples too: a reader numbers the folders that it finds.
  for (const std::string& name : folder_and_names.classes) make_class_folder(folder / name);
  const std::string array_header = source.facts().array ? make_npy_header(source.facts().array->dtype, source.facts().array->shape) : "";
  run.for_each(source.size(), [&](std::size_t first, std::size_t last) {
    std::vector<std::byte> bytes;
    std::filesystem::path parent;
    for (std::size_t place = first; place < last; ++place) {
      const auto sample = static_cast<SampleId>(place);
      if (names[place].empty()) continue;
      if (const std::string cause = read_usable_sample(source, sample, bytes); !cause.empty()) {
        run.leave_out(sample, cause);
        continue;
      }
      const std::filesystem::path path = folder / names[place];
      if (path.parent_path() != parent) {
        parent = path.parent_path();
        make_class_folder(parent);
      }
      OutputFile file(path);
      file.append(array_header);
      file.append({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      run.count_written(bytes.size());
      run.count_file();
    }
    run.report_progress();
  });
}

}  // namespace dsanalyze
