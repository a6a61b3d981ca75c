#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/system/files.hpp"
#include "core/workload.hpp"
#include "dsanalyze/dsanalyze.h"
#include "loaders/dataset/dataset.hpp"
#include "share/group_run.hpp"

namespace dsanalyze::testing {

constexpr std::uint32_t rig_samples = 28;
constexpr std::uint32_t rig_batch_size = 4;

struct RigGroup {
  int jobs = 1;
  std::uint64_t epochs = 2;
  Producers producers = Producers::jobs;
  std::uint32_t held = 2;
};

inline GroupRun::Spec rig_spec(const RigGroup& group, const std::filesystem::path& socket) {
  DatasetSpec dataset;
  dataset.name = "shared";
  dataset.samples = rig_samples;
  dataset.mean_sample_bytes = 1000;
  dataset.labels = 3;
  GroupRun::Spec spec;
  ProfileSettings& settings = spec.inputs.settings;
  settings.dataset = "emulated:shared";
  settings.jobs = group.jobs;
  settings.share = JobSharing::coordinated;
  settings.producers = group.producers;
  settings.batch_size = rig_batch_size;
  settings.storage = Seam::null;
  settings.prep = Seam::emulated;
  settings.prep_rate_per_core = 1e6;
  settings.cache = CacheKind::none;
  settings.io = IoEngine::pread;
  settings.cores = 1;
  settings.workers = 1;
  settings.runs = {"full"};
  settings.seed = 7;
  spec.inputs.index = make_emulated_index(dataset, 0, 1, 1);
  spec.inputs.host = read_host_facts();
  spec.epochs = group.epochs;
  spec.held = group.held;
  spec.socket = socket;
  return spec;
}

inline dsa_client* attach_with(const dsa_options& options) {
  dsa_client* client = nullptr;
  const dsa_status status = dsa_attach(&options, &client);
  REQUIRE_MESSAGE(status == DSA_OK, std::string(dsa_last_error()));
  return client;
}

/// A group in this process, with a socket in a folder of its own.
class Rig {
 public:
  explicit Rig(const RigGroup& group)
      : m_folder(made_folder()), m_run(rig_spec(group, m_folder / "group"), system_timing(), {}), m_address(m_run.address()) {}
  ~Rig() {
    std::error_code ignored;
    std::filesystem::remove_all(m_folder, ignored);
  }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  static std::filesystem::path made_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "dsa-client-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    return name;
  }
  [[nodiscard]] GroupRun& run() { return m_run; }
  [[nodiscard]] const char* address() const { return m_address.c_str(); }
  [[nodiscard]] dsa_options options() const {
    dsa_options options = DSA_OPTIONS_INIT;
    options.address = m_address.c_str();
    return options;
  }
  [[nodiscard]] dsa_client* attach() const { return attach_with(options()); }

 private:
  std::filesystem::path m_folder;
  GroupRun m_run;
  std::string m_address;
};

/// A coordinator in a process of its own, that can be killed.
class CoordinatorProcess {
 public:
  explicit CoordinatorProcess(const RigGroup& group) : m_folder(Rig::made_folder()), m_address("unix:" + (m_folder / "group").string()) {
    m_process = ::fork();
    REQUIRE(m_process >= 0);
    if (m_process != 0) return;
    const GroupRun run(rig_spec(group, m_folder / "group"), system_timing(), {});
    while (true) ::pause();
  }
  ~CoordinatorProcess() {
    kill();
    std::filesystem::remove_all(m_folder);
  }
  CoordinatorProcess(const CoordinatorProcess&) = delete;
  CoordinatorProcess& operator=(const CoordinatorProcess&) = delete;
  void kill() {
    if (m_process <= 0) return;
    ::kill(m_process, SIGKILL);
    ::waitpid(m_process, nullptr, 0);
    m_process = 0;
  }
  [[nodiscard]] dsa_client* attach() const { return attach_with(options()); }
  /// As soon as it serves.
  [[nodiscard]] dsa_options options() const {
    const Deadline deadline = system_timing().clock->after(60);
    while (system_timing().clock->now() < deadline.at) {
      try {
        connect_group(m_address, system_timing());
        break;
      } catch (const NoGroupError&) {
        ::usleep(1000);
      }
    }
    dsa_options options = DSA_OPTIONS_INIT;
    options.address = m_address.c_str();
    return options;
  }
  [[nodiscard]] std::string process() const { return std::to_string(m_process); }

 private:
  std::filesystem::path m_folder;
  std::string m_address;
  pid_t m_process = 0;
};

/// What `body` returns in a child; of one that a signal ends, its negative number.
template <typename Body>
int in_child(const Body& body) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(body());
  int how = 0;
  REQUIRE(::waitpid(child, &how, 0) == child);
  return WIFEXITED(how) ? WEXITSTATUS(how) : -WTERMSIG(how);
}

/// The next batch; a test that waits in vain ends after a minute.
inline dsa_status next_batch(dsa_client* client, dsa_batch& batch) { return dsa_next(client, &batch, 60'000); }

struct Taken {
  std::uint64_t epoch = 0;
  std::vector<std::uint32_t> ids;
  std::uint64_t batches = 0;
};

/// All that there is, by epoch. `ended`: how.
inline std::vector<Taken> take_all(dsa_client* client, dsa_status& ended) {
  std::vector<Taken> epochs;
  dsa_batch batch = DSA_BATCH_INIT;
  while ((ended = next_batch(client, batch)) == DSA_OK) {
    if (epochs.empty() || epochs.back().epoch != batch.epoch) epochs.push_back({batch.epoch, {}, 0});
    epochs.back().ids.insert(epochs.back().ids.end(), batch.ids, batch.ids + batch.count);
    ++epochs.back().batches;
    if (dsa_release(client, batch.token) != DSA_OK) break;
  }
  return epochs;
}

}  // namespace dsanalyze::testing
