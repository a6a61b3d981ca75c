#include <elf.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>

#include "access_tracer.hpp"
#include "base/error.hpp"

namespace dsanalyze {
namespace {

#if defined(__x86_64__)
constexpr unsigned own_machine = EM_X86_64;
#elif defined(__aarch64__)
constexpr unsigned own_machine = EM_AARCH64;
#else
constexpr unsigned own_machine = EM_NONE;
#endif

/// Nothing where the program looks like one that loads libraries as this one does.
std::string of_program(const std::filesystem::path& program) {
  std::ifstream file(program, std::ios::binary);
  Elf64_Ehdr header{};
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  if (!file) return "";
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != own_machine) return "of another architecture";
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part{};
    file.seekg(static_cast<std::streamoff>(header.e_phoff + i * std::uint64_t{header.e_phentsize}));
    file.read(reinterpret_cast<char*>(&part), sizeof part);
    if (!file) return "";
    if (part.p_type == PT_INTERP) return "";
  }
  return "statically linked";
}

}  // namespace

std::string reason_untraced(int pid, const std::filesystem::path& proc) {
  const std::filesystem::path folder = proc / std::to_string(pid);
  struct stat facts {};
  if (::stat((folder / "exe").c_str(), &facts) == 0 && (facts.st_mode & (S_ISUID | S_ISGID)) != 0) return "setuid";
  if (std::string reason = of_program(folder / "exe"); !reason.empty()) return reason;
  if (::stat(folder.c_str(), &facts) == 0 && facts.st_uid != ::geteuid()) return "of another user";
  std::ifstream maps(folder / "maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("libasan") != std::string::npos || line.find("libtsan") != std::string::npos) return "built with a sanitizer";
  try {
    const std::string environment = read_file(folder / "environ", Bytes{16} << 20);
    if (environment.find("DSANALYZE_TRACE=") == std::string::npos) return "started with an environment of its own";
  } catch (const Error&) {
    return "";
  }
  return "";
}

}  // namespace dsanalyze
