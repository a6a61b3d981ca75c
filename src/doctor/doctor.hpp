#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/events.hpp"
#include "base/host/host.hpp"
#include "core/index.hpp"
#include "core/records/doctor_result.hpp"
#include "core/records/settings.hpp"
#include "gpu_state.hpp"
#include "loaders/fetch/fetch_engine.hpp"

namespace dsanalyze {

/// What the checks learn from the kernel by calls rather than from files. Tests answer in its place. Threads: one at a time.
class DoctorSystem {
 public:
  virtual ~DoctorSystem() = default;

  enum class Limit { open_files, locked_memory, processes };
  struct Limits {
    std::optional<std::uint64_t> soft, hard;  ///< nullopt: unlimited. Files, bytes, threads.
  };
  /// Throws Error when the system does not tell.
  virtual Limits limit(Limit which) = 0;
  /// The effective user is root: what needs it is written without sudo.
  virtual bool is_root() = 0;
  virtual IoSupport io_uring() = 0;

  /// What became of one try on a file: 0 and done; an errno; or, with neither, not done for an unknown reason.
  struct Attempt {
    bool done = false;
    int error = 0;
  };
  virtual Attempt read_access(const std::filesystem::path& file) = 0;
  /// Reads 4 KiB past the page cache into aligned memory.
  virtual Attempt direct_read(const std::filesystem::path& file) = 0;
  /// Reads the file's last page, asks for its pages to be dropped, and looks whether that one went. Other files are not touched. `error` also when
  /// the kernel does not tell what is resident (EACCES: the file is another user's).
  virtual Attempt drop_pages(const std::filesystem::path& file) = 0;
  /// "major:minor" of the filesystem that the path is on; empty when it cannot be told.
  virtual std::string device_number(const std::filesystem::path& path) = 0;
  struct Space {
    Bytes free = 0;
    bool writable = false;
  };
  /// For the caller, on the path's filesystem, or on that of the nearest folder above it that is there. Throws Error.
  virtual Space space(const std::filesystem::path& path) = 0;
  /// Whether a device node or file can be opened for reading and writing.
  virtual Attempt open_device(const std::filesystem::path& path) = 0;
  /// What is known of NVIDIA's GPUs; asked once, for as long as this lives.
  virtual const GpuStates& gpus() = 0;
  /// Keeps one core busy for so long.
  virtual void burn(double seconds) = 0;
  /// Of one look at the monotonic clock.
  virtual double clock_seconds() = 0;
};
/// The real one.
std::unique_ptr<DoctorSystem> doctor_system();

struct DoctorInputs {
  enum class Depth {
    quick,    ///< milliseconds: before a profile
    thorough  ///< a fifth of a second more, for what has to be watched
  };
  ProfileSettings settings;                   ///< as asked for; what is left open (workers, cores, cache size) is taken as a profile would take it
  std::shared_ptr<const DatasetIndex> index;  ///< null: no dataset, and then nothing is asked of the disk
  HostFacts host;
  std::filesystem::path state_directory;  ///< where profiles are saved; empty: not given
  Depth depth = Depth::thorough;
  std::filesystem::path root = "/";  ///< stands for "/" in tests: /proc, /sys, /dev and what a container leaves in the root
};

/// Looks at everything that the doctor knows to look at and that matters to these inputs. Changes nothing. What cannot be looked at is `unknown`,
/// with the reason; a check never throws.
DoctorResult examine(const DoctorInputs& inputs, DoctorSystem& system);

/// What a profile tells of it: warnings and problems as findings with "doctor-" before their code. Left out is what a profile of these settings finds
/// out and tells by itself.
std::vector<Finding> doctor_findings(const DoctorResult& result);

struct DoctorCheckDescription {
  std::string_view code, group, title, why;
};
/// All checks, in the order of the record. Views of constants.
std::vector<DoctorCheckDescription> doctor_checks();

}  // namespace dsanalyze
