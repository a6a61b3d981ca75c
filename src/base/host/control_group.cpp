#include "control_group.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>

#include "base/error.hpp"
#include "base/system/files.hpp"
#include "cgroup_paths.hpp"

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view name_prefix = "dsanalyze-";

/// Control files take one write of the whole text.
int write_control(const fs::path& file, const std::string& text) {
  const FileDescriptor descriptor(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  if (!descriptor.valid()) return errno;
  return ::write(descriptor.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : errno;
}

/// Groups of processes that were killed: a group that holds a process cannot be removed.
void remove_left_over(const fs::path& parent) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent, ignored)) {
    if (entry.path().filename().string().starts_with(name_prefix)) ::rmdir(entry.path().c_str());
  }
}

}  // namespace

ControlGroup::ControlGroup(const Purpose& purpose, const fs::path& root) {
  auto own = own_control_group(purpose.controller, root);
  if (!own && purpose.controller_v2 != purpose.controller) own = own_control_group(purpose.controller_v2, root);
  if (!own) throw Error(fmt::format("{}: there is no {} control group; {}", purpose.cannot, purpose.controller, purpose.from_outside));
  m_version = own->version;
  m_parent = own->folder;
  remove_left_over(m_parent);
  m_group = m_parent / fmt::format("{}{}", name_prefix, ::getpid());
  if (::mkdir(m_group.c_str(), 0755) != 0) {
    throw Error(fmt::format("{}: making the control group {} failed ({}); {}", purpose.cannot, m_group.string(), describe_errno(errno),
                            purpose.from_outside));
  }
  const bool has_controller = fs::exists(m_group / (m_version == 1 ? purpose.file_v1 : purpose.file_v2));
  const int refused = has_controller ? write("cgroup.procs", std::to_string(::getpid())) : EACCES;
  if (refused != 0) {
    ::rmdir(m_group.c_str());
    throw Error(fmt::format("{}: {} ({}); {}", purpose.cannot,
                            has_controller ? std::string("the control group does not take this process")
                                           : fmt::format("control groups below the process's own have no {} controller", purpose.controller),
                            describe_errno(refused), purpose.from_outside));
  }
}

ControlGroup::~ControlGroup() {
  write_control(m_parent / "cgroup.procs", std::to_string(::getpid()));
  ::rmdir(m_group.c_str());
}

int ControlGroup::write(const std::string& file, const std::string& text) const { return write_control(m_group / file, text); }

}  // namespace dsanalyze
