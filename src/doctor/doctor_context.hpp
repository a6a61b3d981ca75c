#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/host/host.hpp"
#include "base/process/processes.hpp"
#include "core/records/result.hpp"
#include "doctor.hpp"

namespace dsanalyze {

enum class Container { none, docker, podman, kubernetes, other };
/// "docker"; empty for none.
std::string container_name(Container container);
Container find_container(const std::filesystem::path& root);

/// What one check came to; the table of checks has its code, title and why.
struct DoctorAnswer {
  DoctorStatus status = DoctorStatus::ok;
  std::string found;
  std::string fix;
  std::vector<DoctorCommand> commands;
};
DoctorAnswer fine(std::string found);
DoctorAnswer not_known(std::string reason);

/// A small file of the kernel: its text without the blanks at its end, or why there is none.
struct KernelText {
  std::optional<std::string> text;
  std::string reason;  ///< "/sys/...: Permission denied"
};

/// Where the dataset lies.
struct DatasetPlace {
  std::string path;                      ///< its folder
  std::string filesystem;                ///< "ext4"; empty when it cannot be told
  std::string source;                    ///< what is mounted there
  std::string mount_point;               ///< of that
  std::string mount_options;             ///< "rw,relatime"
  std::string device;                    ///< block device as the kernel calls it, "vda1"; empty for none
  std::string disk;                      ///< that has the queue: "vda" of "vda1"; empty for none
  std::vector<std::string> disks_below;  ///< of a device that others make up (device mapper, md)
  std::string memory_behind;             ///< as memory_behind_disk() of that disk
  std::filesystem::path file;            ///< one of its files that has bytes; empty for none
};

/// What the checks see. One examination, one thread.
class DoctorContext {
 public:
  DoctorContext(const DoctorInputs& given_inputs, DoctorSystem& given_system);

  const DoctorInputs& inputs;
  DoctorSystem& system;
  const Container container;

  /// `path` is absolute on the machine ("/proc/swaps").
  [[nodiscard]] KernelText read(const std::string& path) const;
  [[nodiscard]] std::filesystem::path place(const std::string& path) const { return inputs.root / path.substr(1); }
  /// The names in a folder, sorted; empty when it is not there.
  [[nodiscard]] std::vector<std::string> names_in(const std::string& folder) const;
  /// As the machine calls a file below the root.
  [[nodiscard]] std::string name_of(const std::filesystem::path& below_root) const;

  [[nodiscard]] bool in_container() const { return container != Container::none; }
  [[nodiscard]] bool reads_files() const { return inputs.index && inputs.settings.storage == Seam::real; }
  [[nodiscard]] bool prepares() const { return inputs.settings.prep == Seam::real; }
  /// A cache of the loader's own, in memory.
  [[nodiscard]] bool holds_cache() const;
  /// Cores that prep will use, and its workers.
  [[nodiscard]] int cores() const;
  [[nodiscard]] int workers() const;
  [[nodiscard]] const DatasetPlace& dataset() const { return m_dataset; }

  /// "echo TEXT | sudo tee FILE", where the file is the machine's own: in a container, on its host.
  [[nodiscard]] DoctorCommand write_file(const std::string& text, const std::string& file) const;
  /// "sudo COMMAND", the same.
  [[nodiscard]] DoctorCommand as_root(const std::string& command) const;
  /// For what starts the container: an option of docker run (podman takes the same), or a line of a Kubernetes manifest. Empty outside of one.
  [[nodiscard]] std::vector<DoctorCommand> launch(const std::string& docker_options, const std::string& kubernetes) const;

 private:
  DatasetPlace m_dataset;
};

/// "cp -r DATASET /LOCAL/DISK", a place of the user's choice.
DoctorCommand copy_of(const DatasetPlace& place);
DatasetPlace find_dataset(const DoctorInputs& inputs, DoctorSystem& system);

template <typename... More>
std::vector<DoctorCommand> commands_of(std::vector<DoctorCommand> first, More... more) {
  (first.insert(first.end(), more), ...);
  return first;
}

// The checks; nullopt where one does not matter to what was asked.
using DoctorLook = std::optional<DoctorAnswer> (*)(const DoctorContext&);
std::optional<DoctorAnswer> look_at_cpu_quota(const DoctorContext& context);
std::optional<DoctorAnswer> look_at_cpu_affinity(const DoctorContext& context);
std::optional<DoctorAnswer> look_at_workers(const DoctorContext& context);
std::optional<DoctorAnswer> look_at_frequency(const DoctorContext& context);
std::optional<DoctorAnswer> look_at_steal(const DoctorContext& context);
std::optional<DoctorAnswer> look_at_other_processes(const DoctorContext& context);
std::optional<DoctorAnswer> look_at_memory_limit(const DoctorContext& context);
std::optional<DoctorAnswer> look_at_memory_for_cache(const DoctorContext& context);
std::optional<DoctorAnswer> look_at_swap(const DoctorContext& context);
std::optional<DoctorAnswer> look_at_huge_pages(const DoctorContext& context);
std::optional<DoctorAnswer> look_at_numa(const DoctorContext& context);
std::optional<DoctorAnswer> look_at_open_files(const DoctorContext& context);
std::optional<DoctorAnswer> look_at_locked_memory(const DoctorContext& context);
std::optional<DoctorAnswer> look_at_threads(const DoctorContext& context);
std::optional<DoctorAnswer> look_at_dataset_access(const DoctorContext& context);
std::optional<DoctorAnswer> look_at_filesystem(const DoctorContext& context);
std::optional<DoctorAnswer> look_at_disk_type(const DoctorContext& context);
std::optional<DoctorAnswer> look_at_disk_scheduler(const DoctorContext& context);
std::optional<DoctorAnswer> look_at_read_ahead(const DoctorContext& context);
std::optional<DoctorAnswer> look_at_access_time(const DoctorContext& context);
std::optional<DoctorAnswer> look_at_state_space(const DoctorContext& context);
std::optional<DoctorAnswer> look_at_io_uring(const DoctorContext& context);
std::optional<DoctorAnswer> look_at_direct_io(const DoctorContext& context);
std::optional<DoctorAnswer> look_at_page_cache(const DoctorContext& context);
std::optional<DoctorAnswer> look_at_gpu(const DoctorContext& context);
std::optional<DoctorAnswer> look_at_gpu_link(const DoctorContext& context);
std::optional<DoctorAnswer> look_at_gpu_clocks(const DoctorContext& context);
std::optional<DoctorAnswer> look_at_gpu_memory(const DoctorContext& context);
std::optional<DoctorAnswer> look_at_gpu_sharing(const DoctorContext& context);
std::optional<DoctorAnswer> look_at_gpu_place(const DoctorContext& context);
std::optional<DoctorAnswer> look_at_clock(const DoctorContext& context);

/// What others took between the two samples, with the processes that took the most.
BackgroundLoad background_load(const CpuSample& before, const CpuSample& after, const HostFacts& host, const ProcessWatch& processes);

/// "stress-ng (PID 1234) 28 %, cc1plus (PID 99) 3 %"; where no process explains it, who else it may be.
std::string load_text(const BackgroundLoad& load);

}  // namespace dsanalyze
