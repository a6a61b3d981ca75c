#pragma once

#include <cstdint>
#include <memory>

#include "base/clock.hpp"
#include "base/system/files.hpp"
#include "core/cache_policy/cache_policy.hpp"
#include "core/device.hpp"
#include "core/partition/peers.hpp"
#include "loaders/cache/cache.hpp"

namespace dsanalyze {

/// The emulated devices of one server, in one segment that all its processes map.
struct ServerDevices {
  static constexpr std::uint32_t max_cores = 1024;
  static constexpr std::uint32_t max_accelerators = 256;
  StorageDeviceState storage;
  DeviceLane cores[max_cores];
  DeviceLane accelerators[max_accelerators];
};

struct CacheOptions {
  CacheKind kind = CacheKind::minio;
  Bytes capacity = 0;
  std::uint32_t samples = 0;            ///< keys are 0..samples-1
  Bytes dataset_bytes = 0;              ///< of all samples
  std::uint64_t largest_sample = 0;     ///< bytes
  std::uint32_t samples_in_flight = 0;  ///< hits that may be unreleased at once; caches that replace keep room for those that are evicted meanwhile
  float least_priority = 0;             ///< MinIO admits accesses of at least this priority (admission_threshold()); 0: whatever comes first
};

/// A process's view of the server it runs on: the raw cache and the emulated devices.
class ServerScope {
 public:
  virtual ~ServerScope() = default;
  virtual ServerDevices& devices() = 0;
  virtual RawCache& cache() = 0;
};

/// The parent that started the run holds what belongs to the server: cache decisions, the directory of what is where, the descriptors of all
/// segments. What it holds survives any process that filled it. Other processes attach over a socket; a process that dies costs what it had admitted
/// and not yet stored. Emulated devices are shared whatever the cache. Nothing has a name in the file system: nothing is left behind after any kind
/// of death. Threads: serve() starts one thread a client; cache() as RawCache says.
class ServerHolder final : public ServerScope {
 public:
  /// Throws Error when the memory that the cache needs is not there (needed, available, the fix).
  ServerHolder(const CacheOptions& options, Timing timing);
  ~ServerHolder() override;
  ServerHolder(const ServerHolder&) = delete;
  ServerHolder& operator=(const ServerHolder&) = delete;

  ServerDevices& devices() override;
  RawCache& cache() override;
  /// Serves one client until its end of the socket closes or it sends what makes no sense. One call at a time. Throws Error when no thread is
  /// available.
  void serve(FileDescriptor client);
  /// Clients being served now.
  [[nodiscard]] int clients() const;
  /// What the cache holds, for other servers; nothing where it is not MinIO. Lives as long as the holder.
  [[nodiscard]] const HeldSamples& held() const;

 private:
  struct State;
  std::unique_ptr<State> m_state;
};

/// Attaches to a holder in another process: to its emulated devices, and to its cache when that is MinIO; with any other the cache here holds nothing
/// (LRU and page models live in one process for now, page is the kernel's). A holder that dies or does not answer in time is not asked again: what
/// was found before stays readable, everything else is a bypass. Throws Error (holder gone, deadline, another version).
std::unique_ptr<ServerScope> attach_server(FileDescriptor holder, Timing timing);

}  // namespace dsanalyze
