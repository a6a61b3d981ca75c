#include "data_files.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.hpp"
#include "base/system/files.hpp"
#include "cli/commands/command.hpp"

namespace dsanalyze::cli {
namespace {

namespace fs = std::filesystem;

bool holds_configs(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_directory(folder / "workloads", ignored);
}

fs::path executable_folder() { return own_program().parent_path(); }

ConfigFile read(const fs::path& file) { return {file.stem().string(), file.string(), read_file(file, Bytes{1} << 20)}; }

// Where libdsanalyze may lie.

constexpr const char* library_name = "libdsanalyze.so.0";
constexpr const char* library_variable = "DSANALYZE_LIBRARY";
constexpr const char* search_variable = "LD_LIBRARY_PATH";

/// The dynamic loader looks there without being told to.
bool is_searched(const fs::path& folder) {
  constexpr std::array<std::string_view, 4> always{"/lib", "/usr/lib", "/lib64", "/usr/lib64"};
  return std::ranges::any_of(always, [&](std::string_view each) { return folder == each || folder.parent_path() == each; });
}

bool names(std::string_view folders, std::string_view folder) {
  for (std::size_t begin = 0; begin <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    if (folders.substr(begin, end - begin) == folder) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

fs::path config_directory() {
  if (const char* given = std::getenv("DSANALYZE_DATA_DIR"); given != nullptr && *given != '\0') {
    for (const fs::path& folder : {fs::path(given), fs::path(given) / "configs"})
      if (holds_configs(folder)) return folder;
    throw UsageError(fmt::format("DSANALYZE_DATA_DIR is \"{}\", but there is no folder workloads or configs/workloads in it", given));
  }
  fs::path beside = executable_folder().parent_path() / "share" / "dsanalyze" / "configs";  // installed, wherever that was moved to
  if (holds_configs(beside)) return beside;
  constexpr int levels = 4;
  fs::path above = executable_folder();
  for (int level = 0; level <= levels && !above.empty(); ++level) {
    if (holds_configs(above / "configs")) return above / "configs";
    if (above == above.parent_path()) break;
    above = above.parent_path();
  }
  fs::path installed = fs::path(DSANALYZE_INSTALLED_DATA_DIR) / "configs";
  if (holds_configs(installed)) return installed;
  throw Error(
      fmt::format("the program's data (configs/workloads, ...) was not found: neither above {} nor in {}; set DSANALYZE_DATA_DIR to the folder "
                  "that holds it",
                  executable_folder().string(), installed.string()));
}

namespace {

/// A file beside the configurations, of which `what` names the kind.
fs::path python_file(const fs::path& name, const char* what) {
  const fs::path data = config_directory().parent_path();
  for (const fs::path& folder : {data / "python" / "dsanalyze", data}) {  // the second in a wheel, where all lies in the package's folder
    std::error_code ignored;
    if (fs::exists(folder / name, ignored)) return fs::absolute(folder / name);
  }
  throw Error(
      fmt::format("the program's {} was not found in {}/python/dsanalyze; set DSANALYZE_DATA_DIR to the folder that holds configs/ and python/", what,
                  data.string()));
}

/// A file that is built in `folder` of the build's tree and installed beside the libraries; empty where it is in neither place.
fs::path beside_libraries(const char* folder, const char* name) {
  const fs::path program = executable_folder();
  const fs::path installed = program.parent_path();
  for (const fs::path& place :
       {program / folder / name, installed / DSANALYZE_LIBRARY_FOLDER / "dsanalyze" / name, installed / "lib/dsanalyze" / name}) {
    std::error_code ignored;
    if (fs::exists(place, ignored)) return fs::absolute(place);
  }
  return {};
}

}  // namespace

fs::path hook_directory() { return python_file(fs::path("_attach") / "site" / "sitecustomize.py", "hook for Python").parent_path(); }

fs::path pytorch_rate_script() { return python_file("_pytorch_rate.py", "script for PyTorch"); }

fs::path tracer_library() { return beside_libraries("src/attach/tracer", "libdsanalyze-trace.so"); }

fs::path gpu_kernels() {
  fs::path kernels = beside_libraries("src/cuda", "dsanalyze-cuda.fatbin");
  if (kernels.empty())
    throw UsageError(
        "--accelerator cuda: this program was built without the CUDA Toolkit (nvcc), so it has nothing to run on a GPU; pass --accelerator "
        "emulated:RATE, or "
        "build it with -Dcuda=enabled");
  return kernels;
}

std::vector<ConfigFile> config_files(ConfigKind kind) {
  const fs::path folder = config_directory() / enum_name(kind);
  std::vector<ConfigFile> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".json") files.push_back(read(entry.path()));
  if (error) throw Error(fmt::format("cannot list {}: {}", folder.string(), error.message()));
  std::ranges::sort(files, {}, &ConfigFile::name);
  return files;
}

ConfigFile config_file(ConfigKind kind, const std::string& name_or_path) {
  if (name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".json")) return read(name_or_path);
  std::vector<std::string> names;
  for (ConfigFile& file : config_files(kind)) {
    if (file.name == name_or_path) return std::move(file);
    names.push_back(file.name);
  }
  throw UsageError(fmt::format("\"{}\" is not among the known {}{}; known are {}", name_or_path, enum_name(kind), did_you_mean(name_or_path, names),
                               fmt::join(names, ", ")));
}

std::filesystem::path own_program() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored);
}

std::vector<fs::path> client_library_places(const fs::path& program) {
  const fs::path folder = program.parent_path();
  return {folder / "src/client" / library_name, folder.parent_path() / DSANALYZE_LIBRARY_FOLDER / library_name,
          folder.parent_path() / "lib" / library_name};
}

std::optional<fs::path> find_client_library(std::span<const fs::path> places) {
  const auto found = std::ranges::find_if(places, [](const fs::path& place) {
    std::error_code ignored;
    return fs::exists(place, ignored);
  });
  return found == places.end() ? std::nullopt : std::optional(*found);
}

std::vector<std::string> library_environment(const fs::path& library,
                                             const std::function<std::optional<std::string>(const std::string& name)>& environment) {
  std::vector<std::string> added;
  if (environment(library_variable).value_or("").empty()) added.push_back(std::string(library_variable) + "=" + library.string());
  const std::string folder = library.parent_path().string();
  const std::string folders = environment(search_variable).value_or("");
  // A colon cannot be written in a list of folders.
  if (is_searched(folder) || names(folders, folder) || folder.find(':') != std::string::npos) return added;
  added.push_back(std::string(search_variable) + "=" + (folders.empty() ? folder : folders + ":" + folder));
  return added;
}

namespace {

constexpr std::size_t longest_place = 64;  // what the kernel takes of a socket's path is short

/// The user's alone, as it should be.
bool is_private(const char* folder) {
  struct stat facts {};
  return ::stat(folder, &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == ::geteuid() && (facts.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

std::string made_in(const std::string& place) {
  std::string name = place + "/dsanalyze-XXXXXX";
  return ::mkdtemp(name.data()) == nullptr ? std::string() : name;
}

}  // namespace

PrivateFolder::PrivateFolder() {
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && runtime[0] == '/' && std::char_traits<char>::length(runtime) <= longest_place && is_private(runtime)) {
    m_path = made_in(runtime);
  }
  if (m_path.empty()) m_path = made_in("/tmp");
  if (m_path.empty()) throw_errno("cannot make a private folder in", "/tmp", errno);
  m_named.emplace(m_path);
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(m_path, ignored);
}

}  // namespace dsanalyze::cli
