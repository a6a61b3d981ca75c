#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <stop_token>
#include <thread>

#include "base/clock.hpp"
#include "own_loader.hpp"

namespace dsanalyze::client {

/// Of a wait for what ends by itself: an opening, which looks now and then whether it is given up.
constexpr Deadline no_deadline{std::numeric_limits<Nanoseconds>::max()};

/// A loader whose dataset is opened by a thread of this object's own: listing a large folder takes long, and the program may give it up meanwhile.
/// Threads: any.
class OpeningLoader {
 public:
  OpeningLoader(LoaderRequest request, Timing timing);
  /// An opening that goes on is given up, and waited for.
  ~OpeningLoader();
  OpeningLoader(const OpeningLoader&) = delete;
  OpeningLoader& operator=(const OpeningLoader&) = delete;

  /// The loader; nullptr if it is not open by then. Throws what opening threw.
  OwnLoader* opened(Deadline deadline);
  /// Gives the opening up, or closes the loader.
  void close();
  /// Closed, and no batch is held.
  [[nodiscard]] bool done() const;

 private:
  enum class Stage : std::uint32_t { opening, opened, failed };

  void open(LoaderRequest request, const std::stop_token& stop);
  [[nodiscard]] Stage stage() const { return static_cast<Stage>(m_stage.load(std::memory_order_acquire)); }
  /// The stage by then.
  Stage await(Deadline deadline);

  const pid_t m_process;
  Timing m_timing;
  std::atomic<std::uint32_t> m_stage{static_cast<std::uint32_t>(Stage::opening)};
  std::unique_ptr<OwnLoader> m_loader;  ///< written before m_stage says so, as m_error is
  std::exception_ptr m_error;
  std::unique_ptr<std::jthread> m_thread;
};

}  // namespace dsanalyze::client
