#include "launch.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdlib>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "core/partition/peers.hpp"
#include "introduction.hpp"

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

std::string_view launcher_name(Launcher launcher) {
  switch (launcher) {
    case Launcher::none:
      return "none";
    case Launcher::by_hand:
      return "by hand";
    case Launcher::open_mpi:
      return "mpirun (Open MPI)";
    case Launcher::slurm:
      return "srun (Slurm)";
    case Launcher::pmi:
      return "mpiexec (PMI)";
  }
  return "none";
}

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
    const Launch launch = checked({one.launcher, *its_rank, *its_world}, launcher_name(one.launcher));
    if (rank && launch.world == 1) continue;  // a shell that srun started, say: its commands may be ranks of another job
    if (rank && (*rank != launch.rank || *world != launch.world)) {
      throw UsageError(fmt::format("--rank {} --world {} contradict {}, which says rank {} of {}; leave them out, or start without it", *rank, *world,
                                   launcher_name(one.launcher), launch.rank, launch.world));
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
        launch.world, launcher_name(launch.launcher), file_hint);
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

}  // namespace dsanalyze
