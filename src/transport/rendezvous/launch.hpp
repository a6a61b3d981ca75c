#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous.hpp"

namespace dsanalyze {

/// Who started this process as one of several ranks.
enum class Launcher : std::uint8_t {
  none,      ///< no launcher: it is the only rank
  by_hand,   ///< --rank and --world say so, and nothing else
  open_mpi,  ///< mpirun of Open MPI
  slurm,     ///< srun
  pmi        ///< mpiexec of MPICH and others that speak PMI
};
constexpr std::array<const char*, 5> names_of(Launcher /*type*/) { return {"none", "by hand", "mpirun (Open MPI)", "srun (Slurm)", "mpiexec (PMI)"}; }

struct Launch {
  Launcher launcher = Launcher::none;
  std::uint32_t rank = 0;
  std::uint32_t world = 1;
};

/// A variable's value; nullopt where there is none.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
/// This process's. Threads: any, while none changes the environment.
Environment process_environment();

/// Rank and world: of the options where they are given (both or neither), else of the environment (Open MPI's variables, then Slurm's of a job step,
/// then PMI's). A launcher of a single rank (a shell that srun started) contradicts no option. Throws UsageError where both speak and differ
/// otherwise, and for values that are no numbers or no possible rank.
Launch find_launch(std::optional<std::uint32_t> rank, std::optional<std::uint32_t> world, const Environment& environment);

/// Where the module that speaks MPI may lie: DSANALYZE_MPI_MODULE alone if set; else beside the program as the build leaves it, and where it is
/// installed, seen from the program's own path and as configured.
std::vector<std::filesystem::path> mpi_module_places(const Environment& environment, const std::filesystem::path& program);

/// MPI, loaded while the ranks meet and by those that were launched through it; the program does not link it. One a process. Threads: the one that
/// loads it.
class MpiModule {
 public:
  /// Loads the first of `places` that is there. Throws UsageError when none is, or it does not load: what to install, and --rendezvous, which needs
  /// no MPI.
  explicit MpiModule(std::span<const std::filesystem::path> places);
  MpiModule(const MpiModule&) = delete;
  MpiModule& operator=(const MpiModule&) = delete;
  ~MpiModule();

  /// Starts MPI and exchanges the addresses and, where none was given, the key that rank 0 makes: the only communication through MPI. Throws as
  /// meet() does. No deadline: a rank that does not come is mpirun's to end.
  /// Throws UsageError where srun was not told to help this MPI (--mpi): MPI would end the process then.
  Roster meet(const Meeting& meeting, const Launch& launch, const Environment& environment);
  /// Ends MPI. Only when every rank is alive and does the same: it waits for all. Without it mpirun takes the process's end for a failure.
  void finish() noexcept;

 private:
  struct Library;
  std::unique_ptr<Library> m_library;
};

/// What to do where no MPI module helps and no --rendezvous was given, for Slurm with what it says of the step's first machine. A whole message.
std::string how_to_meet(const Launch& launch, const Environment& environment);

/// The address of this machine at which a rank listens, for one command line on all machines: `listen` is an address or a host's name as it is, a
/// network
/// ("10.0.0.0/24", "fd00::/64"), of which this machine's address is taken, or an interface's name ("eth0"), of which its first address is. Throws
/// UsageError when there is none or, in a network, more than one.
std::string listening_host(std::string_view listen);

}  // namespace dsanalyze
