#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "core/device.hpp"
#include "core/index.hpp"
#include "core/records/settings.hpp"

namespace dsanalyze {

struct FetchRequest {
  std::uint64_t tag = 0;  ///< comes back in the completion
  SampleId sample = 0;
  Extent extent;
};

/// Memory that the engine lends with a completion; give it back with release().
struct FetchBuffer {
  static constexpr std::uint32_t none = UINT32_MAX;
  std::uint32_t id = none;
};

enum class FetchSource : std::uint8_t { storage, peer };

struct FetchCompletion {
  std::uint64_t tag = 0;
  SampleId sample = 0;
  Status status;
  std::span<const std::byte> bytes;  ///< all bytes of the extent when status is ok; valid until the buffer is released
  FetchBuffer buffer;
  Nanoseconds done_at = 0;
  Nanoseconds took = 0;  ///< since the engine took the request up: storage's time at the engine's concurrency
  FetchSource source = FetchSource::storage;
};

/// Where samples' bytes come from. One engine serves all worker threads of a process.
///
/// submit() takes all requests and returns at once, or refuses them all (busy) when fewer than requests.size() places are free; each request ends
/// in exactly one completion, with all bytes of its extent or the reason why not. A place is taken from submit() until its buffer is released, so
/// memory is bounded by capacity() buffers. reap() waits for at least one completion or the deadline.
/// Threads: any, at once. Allocation: none in the steady state (a buffer grows to the largest sample it has held).
/// Errors: not_found, corrupt (shorter: the file ends inside the extent; longer: the extent was the whole file when the index was made, and the file
/// has grown), io (errno in detail), cancelled (see cancel()). An extent without bytes is ok and empty: whether such a sample is one is the caller's
/// to say.
class FetchEngine {
 public:
  virtual ~FetchEngine() = default;
  /// The most requests of one submit(); more are refused (busy) however many places are free.
  static constexpr std::size_t largest_group = 64;
  virtual Status submit(std::span<const FetchRequest> requests) = 0;
  virtual std::size_t reap(std::span<FetchCompletion> completions, Deadline deadline) = 0;
  virtual void release(std::span<const FetchBuffer> buffers) = 0;
  /// Requests submitted so far complete soon, as cancelled where reading has not begun. Later ones are not touched.
  virtual void cancel() = 0;
  [[nodiscard]] virtual std::size_t capacity() const = 0;
  [[nodiscard]] virtual std::size_t free_places() const = 0;
  /// Bytes asked of storage (direct I/O: rounded up to blocks). What reached the device is StorageMeter's to say. Monotonic.
  [[nodiscard]] virtual Bytes requested() const = 0;
};

enum class PageCacheUse {
  keep,  ///< leave what was read in the kernel's page cache (--cache page)
  drop   ///< drop a file's pages once it is read: the loader's own cache is the only one
};
constexpr std::array<const char*, 2> names_of(PageCacheUse /*type*/) { return {"keep", "drop"}; }

/// What the kernel should read beyond what was asked for, of files that hold many samples.
enum class ReadAhead {
  off,        ///< samples are asked for in random order: nothing, or a device delivers more than anyone uses
  sequential  ///< samples are asked for in file order: far ahead
};

struct FetchOptions {
  int concurrency = 16;       ///< requests in flight
  int rings = 1;              ///< io_uring: threads, each with a ring and its share of `concurrency`
  std::size_t capacity = 64;  ///< places: in flight or lent
  ReadMode read_mode = ReadMode::buffered;
  PageCacheUse page_cache = PageCacheUse::drop;
  ReadAhead read_ahead = ReadAhead::off;
  std::uint64_t largest_made_up = std::uint64_t{1} << 20;  ///< bytes; of samples that an engine makes up
  double max_bytes_per_second = 0;                         ///< 0: no limit; otherwise requests are spaced to spare a shared filer
};

/// Reads real files with a pool of `concurrency` threads. Files that hold many samples stay open (at most 64, and a quarter of RLIMIT_NOFILE).
std::unique_ptr<FetchEngine> make_thread_engine(std::shared_ptr<const DatasetIndex> index, const FetchOptions& options, Timing timing);

struct IoSupport {
  bool usable = false;
  std::string reason;  ///< why not, for a person; empty when usable
};
/// Whether this process may use io_uring as make_uring_engine() does: containers and administrators forbid it, old kernels lack parts of it.
/// Tries it out once; later calls repeat the answer. Threads: any.
IoSupport uring_support();
/// Reads real files by io_uring, `rings` threads with `concurrency` requests in flight between them. Files of one sample are opened, read and closed
/// by one chain, many chains by one system call; files that hold many samples stay open, as with threads. The rings' threads wait in the kernel, for
/// storage as a reading thread would, not through `timing`. Throws Error with uring_support()'s reason where io_uring cannot be used.
std::unique_ptr<FetchEngine> make_uring_engine(std::shared_ptr<const DatasetIndex> index, const FetchOptions& options, Timing timing);

/// An emulated disk. Completions come when the shared device says so. With `inner`, the real bytes are read by it and delayed; without, bytes are
/// made up (an emulated dataset). `device` is the server's, shared by all its processes; `spec` the same for all.
std::unique_ptr<FetchEngine> make_emulated_engine(std::unique_ptr<FetchEngine> inner, const FetchOptions& options, const StorageDeviceSpec& spec,
                                                  StorageDeviceState& device, Timing timing);

/// Synthetic bytes at once: what the loader itself costs.
std::unique_ptr<FetchEngine> make_null_engine(const FetchOptions& options, Timing timing);

}  // namespace dsanalyze
