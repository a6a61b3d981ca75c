#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <system_error>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "launch.hpp"
#include "transport/mpi/abi.hpp"
#include "transport/wire/sodium.hpp"

namespace dsanalyze {
namespace {

constexpr const char* module_name = "dsanalyze-mpi.so";
constexpr std::string_view without_mpi = "or pass --rendezvous FILE or HOST:PORT, which needs no MPI";

}  // namespace

struct MpiModule::Library {
  void* handle = nullptr;
  decltype(&dsanalyze_mpi_exchange) exchange = nullptr;
  decltype(&dsanalyze_mpi_finish) finish = nullptr;
  std::string_view name;
  bool started = false;
};

std::vector<std::filesystem::path> mpi_module_places(const Environment& environment, const std::filesystem::path& program) {
  if (const auto named = environment("DSANALYZE_MPI_MODULE")) return {*named};
  const std::filesystem::path folder = program.parent_path();
  return {
      folder / "src/transport/mpi" / module_name,                                   // the build's tree
      folder.parent_path() / DSANALYZE_LIBRARY_FOLDER / "dsanalyze" / module_name,  // installed, wherever that was moved to
      std::filesystem::path(DSANALYZE_PREFIX) / DSANALYZE_LIBRARY_FOLDER / "dsanalyze" / module_name,
  };
}

MpiModule::MpiModule(std::span<const std::filesystem::path> places) : m_library(std::make_unique<Library>()) {
  std::string looked;
  for (const std::filesystem::path& place : places) {
    std::error_code ignored;
    looked += fmt::format("{}{}", looked.empty() ? "" : ", ", printable(place.native()));
    if (!std::filesystem::exists(place, ignored)) continue;
    // MPI loads parts of itself that look for its symbols among all that is loaded.
    m_library->handle = ::dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (m_library->handle == nullptr) {
      throw UsageError(fmt::format("the module for MPI does not load: {}; install the MPI that it was built with (Debian: libopenmpi3), {}",
                                   printable(::dlerror()), without_mpi));
    }
    const auto symbol = [&](const char* name) { return ::dlsym(m_library->handle, name); };
    const auto abi = reinterpret_cast<decltype(&dsanalyze_mpi_abi)>(symbol("dsanalyze_mpi_abi"));
    const auto name = reinterpret_cast<decltype(&dsanalyze_mpi_name)>(symbol("dsanalyze_mpi_name"));
    m_library->exchange = reinterpret_cast<decltype(&dsanalyze_mpi_exchange)>(symbol("dsanalyze_mpi_exchange"));
    m_library->finish = reinterpret_cast<decltype(&dsanalyze_mpi_finish)>(symbol("dsanalyze_mpi_finish"));
    if (abi == nullptr || name == nullptr || m_library->exchange == nullptr || m_library->finish == nullptr || abi() != DSANALYZE_MPI_ABI) {
      throw UsageError(fmt::format("{} is no module for MPI of this version of dsanalyze; install program and module together, {}",
                                   printable(place.native()), without_mpi));
    }
    m_library->name = name();
    return;
  }
  throw UsageError(
      fmt::format("there is no module for MPI (looked for: {}); build dsanalyze with MPI (Debian: libopenmpi-dev), {}", looked, without_mpi));
}

// The library stays loaded: MPI may have left threads and exit handlers that run its code.
MpiModule::~MpiModule() = default;

Roster MpiModule::meet(const Meeting& meeting, const Launch& launch, const Environment& environment) {
  // An MPI that does not find its launcher ends the process itself, with a page about how Slurm is built.
  const bool open_mpi = m_library->name == "Open MPI";
  if (launch.launcher == Launcher::slurm && !environment(open_mpi ? "PMIX_RANK" : "PMI_RANK")) {
    throw UsageError(fmt::format("{}; with MPI ({}): srun --mpi={}", how_to_meet(launch, environment), m_library->name, open_mpi ? "pmix" : "pmi2"));
  }
  std::vector<std::byte> mine = exchanged_record(meeting);
  const WipedAtEnd wiped_mine(mine);
  std::vector<std::byte> all(std::size_t{meeting.world} * exchanged_bytes);
  const WipedAtEnd wiped_all(all);
  std::array<char, 512> error{};
  int rank = -1;
  int world = static_cast<int>(meeting.world);
  const int outcome = m_library->exchange(mine.data(), mine.size(), all.data(), &rank, &world, error.data(), error.size());
  if (outcome != 0)
    throw Error(fmt::format("the ranks did not meet through MPI: {}; see what mpirun says, {}", printable(error.data()), without_mpi));
  m_library->started = true;
  if (rank != static_cast<int>(meeting.rank))
    throw Error(fmt::format("MPI says that this is rank {}, its launcher's environment {}", rank, meeting.rank));
  return roster_of_exchange(all, meeting);
}

void MpiModule::finish() noexcept {
  if (!m_library->started) return;
  m_library->started = false;
  std::array<char, 512> error{};
  m_library->finish(error.data(), error.size());  // the ranks' work is done: what MPI still finds is mpirun's to say
}

}  // namespace dsanalyze
