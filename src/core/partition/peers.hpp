#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/text/units.hpp"
#include "core/batch.hpp"

namespace dsanalyze {

// Samples' bytes between the ranks of one job: what loaders and the transport have in common.

/// The most ranks of one job.
constexpr std::uint32_t most_ranks = 4096;

/// What a rank holds for the others. Threads: any, at once.
class HeldSamples {
 public:
  virtual ~HeldSamples() = default;
  /// The sample's bytes, which stay where they are as long as this lives; empty when it is not held (or is no sample's number).
  [[nodiscard]] virtual std::span<const std::byte> find(SampleId sample) const = 0;
};

struct PeerRequest {
  std::uint64_t tag = 0;  ///< comes back in the completion
  SampleId sample = 0;
  std::uint32_t bytes = 0;  ///< of the sample, as the index has it
  std::uint32_t rank = 0;   ///< that is asked
};

struct PeerCompletion {
  std::uint64_t tag = 0;
  SampleId sample = 0;
  std::uint32_t rank = 0;
  Status status;
  std::span<const std::byte> bytes;   ///< all of the sample's when status is ok; valid until the buffer is released
  std::uint32_t buffer = UINT32_MAX;  ///< to be released; UINT32_MAX: none
  Nanoseconds done_at = 0;
  Nanoseconds took = 0;  ///< since submit()
};

/// Samples that other ranks hold. submit() takes all requests and returns at once, or refuses them all (busy) when fewer places are free; each
/// request ends in exactly one completion, soon: a rank that does not answer within the source's deadline is taken for dead, and stays it.
/// Completions are given to the sink by a thread of the source, in groups; the sink must not wait. A place is taken from submit() until the
/// completion's buffer is released (at once, when it has none).
/// Errors: not_found (the rank does not hold it), corrupt (length or checksum are not the sample's), timeout, io (the rank is dead), cancelled.
/// Threads: any, at once. Allocation: none in the steady state.
class PeerSource {
 public:
  using Sink = std::function<void(std::span<const PeerCompletion>)>;
  virtual ~PeerSource() = default;
  /// To be set before the first request; an empty one ends the deliveries (returns when none is in flight any more).
  virtual void deliver_to(Sink sink) = 0;
  virtual Status submit(std::span<const PeerRequest> requests) = 0;
  virtual void release(std::span<const std::uint32_t> buffers) = 0;
  /// Requests submitted so far complete soon, as cancelled where no answer has come.
  virtual void cancel() = 0;
  [[nodiscard]] virtual std::size_t capacity() const = 0;
  [[nodiscard]] virtual std::size_t free_places() const = 0;
  /// Whether this rank has not found that one dead. One that was is never asked again, whatever it says.
  [[nodiscard]] virtual bool alive(std::uint32_t rank) const = 0;
  /// Bytes of samples that came from others so far. Monotonic.
  [[nodiscard]] virtual Bytes received() const = 0;
};

}  // namespace dsanalyze
