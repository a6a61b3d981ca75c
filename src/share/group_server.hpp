#pragma once

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "group.hpp"
#include "loaders/pipeline.hpp"

namespace dsanalyze {

/// What a server does for a group of jobs, whatever they are: it has the raw cache and the devices, is the host, and prepares for all of them with
/// Producers::coordinator. Threads: one.
class GroupServer {
 public:
  struct Spec {
    LoadInputs inputs;             ///< resolved; JobSharing::coordinated, and the index of what an epoch is
    Pipeline::Spec pipeline;       ///< of the process that prepares; its server is made here
    std::uint64_t epochs = 0;      ///< 0: until all jobs have left
    std::uint32_t held = 0;        ///< batches that a job may hold at once; 0: one an accelerator
    std::filesystem::path socket;  ///< where jobs find it; empty: they are given a line by host().connect()
  };
  /// `events`: as GroupHost's; may be empty. Throws as GroupHost, UsageError for more held batches than slots bear, and Error without the memory that
  /// it takes.
  GroupServer(Spec spec, Timing timing, std::function<void(const GroupEvent&)> events);
  GroupServer(const GroupServer&) = delete;
  GroupServer& operator=(const GroupServer&) = delete;

  [[nodiscard]] const Spec& spec() const { return m_spec; }
  [[nodiscard]] const GroupTerms& terms() const { return m_terms; }
  [[nodiscard]] GroupHost& host() { return m_host; }
  [[nodiscard]] const GroupHost& host() const { return m_host; }
  /// Begins to prepare, where it is this server that does.
  void start();
  /// Throws Error when it cannot prepare any more; looks at what is shared.
  void look();
  /// Prepares no more.
  void stop();

  /// What it prepared for all; nothing where jobs do.
  struct Prepared {
    std::uint64_t samples = 0;
    std::uint64_t cache_hits = 0;
    std::uint64_t cache_misses = 0;
    Bytes requested_bytes = 0;
    std::optional<Bytes> storage_bytes;  ///< as Pipeline::storage_bytes(), since start()
    std::vector<EpochTotals> epochs{};
  };
  [[nodiscard]] std::optional<Prepared> prepared() const;
  /// Events so far.
  struct Counts {
    std::uint64_t late = 0;
    std::uint64_t refused = 0;
    std::uint64_t departures = 0;  ///< jobs that died or were put out
  };
  [[nodiscard]] Counts counts() const { return {m_late.load(), m_refused.load(), m_departures.load()}; }
  /// Of all segments, the most that look() ever saw, or that there is now.
  [[nodiscard]] Bytes most_shared_bytes() const { return std::max(m_most_shared, m_host.state().shared_bytes); }

 private:
  void saw(const GroupEvent& event);

  const Spec m_spec;
  const std::function<void(const GroupEvent&)> m_events;
  std::atomic<std::uint64_t> m_late{0};
  std::atomic<std::uint64_t> m_refused{0};
  std::atomic<std::uint64_t> m_departures{0};
  Bytes m_most_shared = 0;
  std::shared_ptr<ServerHolder> m_server;
  const GroupTerms m_terms;
  GroupHost m_host;
  std::optional<Pipeline> m_pipeline;
  std::optional<Bytes> m_stored_before;
  std::unique_ptr<Loader> m_loader;
};

}  // namespace dsanalyze
