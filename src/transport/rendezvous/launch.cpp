#include "launch.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <system_error>

#include "base/error.hpp"
#include "base/text/enum_names.hpp"
#include "base/text/text.hpp"
#include "core/partition/peers.hpp"
#include "introduction.hpp"
#include "transport/mpi/abi.hpp"
#include "transport/wire/sodium.hpp"

namespace dsanalyze {
namespace {

struct LauncherVariables {
  Launcher launcher;
  const char* sign;  ///< it has launched this process only if this variable is there
  const char* rank;
  const char* world;
};

// Within a job of Slurm mpirun's own variables are the nearer ones. A batch script has Slurm's variables too, and is no step.
constexpr std::array<LauncherVariables, 4> launchers = {{
    {Launcher::open_mpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {Launcher::slurm, "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
    {Launcher::slurm, "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_NTASKS"},
    {Launcher::pmi, "PMI_RANK", "PMI_RANK", "PMI_SIZE"},
}};

std::optional<std::uint32_t> number_in(const Environment& environment, const char* name) {
  const auto text = environment(name);
  if (!text) return std::nullopt;
  const auto number = whole_number(*text, UINT32_MAX);
  if (!number) throw UsageError(fmt::format("the environment's {} is \"{}\", expected a whole number", name, printable(*text)));
  return static_cast<std::uint32_t>(*number);
}

Launch checked(const Launch& launch, std::string_view source) {
  if (launch.world < 1 || launch.world > most_ranks || launch.rank >= launch.world) {
    throw UsageError(fmt::format("{}: rank {} of {} cannot be; a job has 1 to {} ranks, and they are counted from 0", source, launch.rank,
                                 launch.world, most_ranks));
  }
  return launch;
}

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

Launch find_launch(std::optional<std::uint32_t> rank, std::optional<std::uint32_t> world, const Environment& environment) {
  if (rank.has_value() != world.has_value()) {
    throw UsageError(fmt::format("{} is given and {} is not; a rank is one of so many: --rank R --world N", rank ? "--rank" : "--world",
                                 rank ? "--world" : "--rank"));
  }
  for (const LauncherVariables& one : launchers) {
    if (!environment(one.sign)) continue;
    const auto its_rank = number_in(environment, one.rank);
    const auto its_world = number_in(environment, one.world);
    if (!its_rank || !its_world) continue;
    const Launch launch = checked({one.launcher, *its_rank, *its_world}, enum_name(one.launcher));
    if (rank && launch.world == 1) continue;  // a shell that srun started, say: its commands may be ranks of another job
    if (rank && (*rank != launch.rank || *world != launch.world)) {
      throw UsageError(fmt::format("--rank {} --world {} contradict {}, which says rank {} of {}; leave them out, or start without it", *rank, *world,
                                   enum_name(one.launcher), launch.rank, launch.world));
    }
    return launch;
  }
  return rank ? checked({Launcher::by_hand, *rank, *world}, "--rank and --world") : Launch{};
}

std::string how_to_meet(const Launch& launch, const Environment& environment) {
  constexpr std::string_view file_hint = "--rendezvous FILE, a new name on a file system that all ranks share";
  if (launch.launcher != Launcher::slurm) {
    return fmt::format(
        "rank {} of {} (started by {}) does not know where to meet the others; pass {}, or --rendezvous HOST:PORT, where rank 0 listens", launch.rank,
        launch.world, enum_name(launch.launcher), file_hint);
  }
  const auto job = environment("SLURM_JOB_ID");
  const auto step = environment("SLURM_STEP_ID");
  const auto nodes = environment("SLURM_STEP_NODELIST");
  return fmt::format(
      "srun started rank {} of {}, and MPI cannot be used to meet the others; pass {} (--rendezvous ~/.dsanalyze-{}-{}), or --rendezvous HOST:PORT "
      "--key-file FILE, "
      "HOST being the first of {}",
      launch.rank, launch.world, file_hint, printable(job.value_or("JOB")), printable(step.value_or("STEP")),
      printable(nodes.value_or("the step's machines")));
}

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
