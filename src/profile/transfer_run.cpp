#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/system/shared_memory.hpp"
#include "run_support.hpp"
#include "runs.hpp"
#include "training.hpp"

namespace dsanalyze {
namespace {

constexpr double copying_seconds = 0.02;  ///< about, of a window; by the GPU's clock, whose events tell half a microsecond
constexpr double shortest_window = 0.002;
constexpr double least_copies = 4;  ///< of a window on each stream, unless one is a window's time: what starting the first one takes does not show
constexpr std::size_t most_estimates = 40;
constexpr std::size_t least_estimates = 5;
constexpr double never_too_long = 0.1;  ///< of one point of the curve
constexpr double longest_window = 30;   ///< of a GPU that answers no more

/// Memory of this process that copies read.
struct Source {
  explicit Source(Bytes bytes) : memory(bytes) {
    std::ranges::fill(memory.bytes(), std::byte{1});  // memory that was never written is one page of zeros
  }
  ZeroedMemory memory;
  std::unique_ptr<GpuPinned> pinned;
};

/// One stream that copies, with a mark for its end.
struct Path {
  std::shared_ptr<Gpu> gpu;
  std::unique_ptr<GpuMemory> to;
  std::unique_ptr<GpuMark> mark;
  std::unique_ptr<GpuStream> stream;  // last: it ends before what it copies goes

  Path(std::shared_ptr<Gpu> given, Bytes bytes)
      : gpu(std::move(given)), to(gpu->allocate(bytes)), mark(gpu->make_mark()), stream(gpu->make_stream()) {}
};

/// Of a window, where one round takes `one` seconds.
double least_rounds(double one) { return std::clamp(copying_seconds / one, 1.0, least_copies); }

/// Whether an estimate takes no longer than `seconds`, or hardly any time.
bool fits(double one, double seconds) { return one * least_rounds(one) * least_estimates <= std::max(seconds, never_too_long); }

/// What is copied again and again, and how long that takes by the clocks of the GPUs.
class Rounds {
 public:
  explicit Rounds(Timing timing) : m_timing(timing) {}
  virtual ~Rounds() = default;

  /// Seconds of so many rounds, of the GPU that takes longest.
  double seconds(std::size_t rounds) {
    // All begin together, as far as streams of several GPUs can.
    for (Path& path : m_paths) path.mark->set(*path.stream);
    for (Path& path : m_paths)
      for (Path& other : m_paths)
        if (&other != &path) path.stream->wait_for(*other.mark);
    if (m_begun.empty())
      for (Path& path : m_paths) m_begun.push_back(path.gpu->make_mark());
    for (std::size_t i = 0; i < m_paths.size(); ++i) m_begun[i]->set(*m_paths[i].stream);
    for (std::size_t round = 0; round < rounds; ++round) copy();
    for (Path& path : m_paths) path.mark->set(*path.stream);
    double longest = 0;
    for (std::size_t i = 0; i < m_paths.size(); ++i) {
      require_reached(*m_paths[i].mark, longest_window, m_timing, "its copies");
      longest = std::max(longest, m_paths[i].mark->seconds_since(*m_begun[i]));
    }
    return longest;
  }

  /// Rounds a second: of windows of about copying_seconds, or shorter ones where the time is, until `seconds_for_it` are over, and at least of
  /// least_estimates.
  Estimate estimate(double seconds_for_it, const std::stop_token& stop) {
    const Nanoseconds end = m_timing.clock->after(seconds_for_it).at;
    seconds(1);  // the first copy maps what it touches
    const double one = seconds(2) / 2;
    if (one <= 0) return {};
    const double window = std::clamp(seconds_for_it / least_estimates, shortest_window, copying_seconds);
    const auto rounds = static_cast<std::size_t>(std::clamp(window / one, least_rounds(one), 10'000.0));
    std::vector<double> rates;
    while (rates.size() < most_estimates && (rates.size() < least_estimates || m_timing.clock->now() < end)) {
      if (stop.stop_requested()) throw Interrupted();
      rates.push_back(static_cast<double>(rounds) / seconds(rounds));
    }
    return estimate_mean(rates);
  }

 protected:
  /// Gives one round to the streams.
  virtual void copy() = 0;

  Timing m_timing;
  std::vector<Path> m_paths;

 private:
  std::vector<std::unique_ptr<GpuMark>> m_begun;
};

/// Copies of one size to one GPU.
class PlainRounds final : public Rounds {
 public:
  PlainRounds(const std::shared_ptr<Gpu>& gpu, Bytes bytes, int streams, bool pinned, Timing timing) : Rounds(timing), m_bytes(bytes) {
    for (int i = 0; i < streams; ++i) {
      Source& source = m_sources.emplace_back(bytes);
      if (pinned) source.pinned = gpu->pin(source.memory.bytes());
      m_paths.emplace_back(gpu, bytes);
    }
  }
  // The streams end before their sources go.
  ~PlainRounds() override { m_paths.clear(); }

 private:
  void copy() override {
    for (std::size_t i = 0; i < m_paths.size(); ++i)
      m_paths[i].stream->copy_in(m_paths[i].to->address(), m_sources[i].memory.bytes().data(), m_bytes);
  }

  Bytes m_bytes;
  std::vector<Source> m_sources;
};

/// A global batch to all devices.
class BatchRounds final : public Rounds {
 public:
  BatchRounds(const RunContext& context, MeshFeed feed)
      : Rounds(context.timing),
        m_feed(feed),
        m_tensor(prepared_tensor(context.inputs, context.inputs.settings.batch_size)),
        m_layout(batch_layout(context.inputs)) {
    const Bytes batch = m_tensor.sample_bytes() * static_cast<Bytes>(m_tensor.shape[0]);
    for (const auto& slice : m_layout.slices) {
      Source& source = m_sources.emplace_back(batch);
      source.pinned = context.inputs.gpus[slice.front().device]->pin(source.memory.bytes());
      for (const DevicePart& part : slice) m_paths.emplace_back(context.inputs.gpus[part.device], part_bytes(part, m_tensor));
    }
    if (m_feed == MeshFeed::broadcast) m_all = std::make_unique<Path>(context.inputs.gpus[m_layout.slices.front().front().device], batch);
  }
  ~BatchRounds() override {
    m_paths.clear();
    m_all.reset();
  }

 private:
  void copy() override {
    std::size_t at = 0;
    for (std::size_t slice = 0; slice < m_layout.slices.size(); ++slice) {
      const std::byte* const samples = m_sources[slice].memory.bytes().data();
      if (m_feed == MeshFeed::broadcast) {
        for (Path& path : m_paths) m_all->stream->wait_for(*path.mark);  // all that still reads what was there before
        m_all->stream->copy_in(m_all->to->address(), samples, m_all->to->size());
        m_all->mark->set(*m_all->stream);
      }
      for (const DevicePart& part : m_layout.slices[slice]) {
        Path& path = m_paths[at++];
        if (m_feed == MeshFeed::direct) {
          copy_part(*path.stream, path.to->address(), samples, part, m_tensor);
          continue;
        }
        path.stream->wait_for(*m_all->mark);
        path.stream->copy_across(path.to->address(), m_all->to->address(), path.to->size());
        path.mark->set(*path.stream);
      }
    }
  }

  MeshFeed m_feed;
  TensorShape m_tensor;
  BatchLayout m_layout;
  std::vector<Source> m_sources;
  std::unique_ptr<Path> m_all;  ///< device 0's whole slice, to be handed on
};

double global_batch(const ProfileSettings& settings) { return static_cast<double>(settings.batch_size) * settings.accelerators; }

Estimate times(Estimate estimate, double factor) {
  estimate.value *= factor;
  estimate.ci95.low = std::max(estimate.ci95.low * factor, 0.0);
  estimate.ci95.high *= factor;
  return estimate;
}

}  // namespace

std::vector<TransferPoint> measure_transfer_curve(RunContext& context, double seconds) {
  const Bytes batch_bytes = prepared_tensor(context.inputs, 1).sample_bytes() * static_cast<Bytes>(context.inputs.settings.batch_size);
  std::vector<Bytes> sizes{Bytes{64} << 10, Bytes{1} << 20, Bytes{16} << 20};
  if (std::ranges::find(sizes, batch_bytes) == sizes.end()) sizes.push_back(batch_bytes);
  std::ranges::sort(sizes);
  const double share = seconds / static_cast<double>(sizes.size() * 4);
  std::vector<TransferPoint> points;
  for (const int streams : {1, 2})
    for (const bool pinned : {true, false}) {
      double shorter = 0;  // bytes/s of the copies before
      for (const Bytes bytes : sizes) {
        const double copied = static_cast<double>(bytes) * streams;
        if (shorter > 0 && !fits(copied / shorter, share)) break;
        PlainRounds rounds(context.inputs.gpus.front(), bytes, streams, pinned, context.timing);
        if (!fits(rounds.seconds(1), share)) break;
        const Estimate rate = times(rounds.estimate(share, context.stop), copied);
        if (rate.value > 0) points.push_back({static_cast<double>(bytes), streams, pinned, rate.value, rate.ci95});
        shorter = rate.value;
      }
    }
  return points;
}

std::vector<FeedPoint> measure_feeds(RunContext& context, double seconds) {
  std::vector<FeedPoint> points;
  for (const MeshFeed feed : {MeshFeed::direct, MeshFeed::broadcast}) {
    const Estimate rate = times(BatchRounds(context, feed).estimate(seconds / 2, context.stop), global_batch(context.inputs.settings));
    if (rate.value > 0) points.push_back({feed, rate.value, rate.ci95});
  }
  return points;
}

double rough_transfer_rate(const RunContext& context) {
  BatchRounds rounds(context, MeshFeed::direct);
  rounds.seconds(1);
  return 2 * global_batch(context.inputs.settings) / rounds.seconds(2);
}

RateRecord measure_transfer(RunContext& context, double seconds) {
  const ProfileSettings& settings = context.inputs.settings;
  const auto sample_bytes = prepared_tensor(context.inputs, 1).sample_bytes();
  WindowedRate rate;
  rate.estimate = times(BatchRounds(context, MeshFeed::direct).estimate(seconds, context.stop), global_batch(settings));
  rate.kept = rate.estimate.windows;
  const std::size_t devices = context.inputs.gpus.size();
  RateRecord record =
      record_rate(context, "transfer", rate, static_cast<double>(sample_bytes),
                  fmt::format("copies of {} of {} from pinned memory to {}", settings.mesh.empty() ? "batches" : "each device's part of batches",
                              format_bytes(sample_bytes * static_cast<Bytes>(settings.batch_size)),
                              devices == 1 ? "the GPU" : fmt::format("{} devices at once", devices)));
  note_rate(context, "transfers can supply [H]", record);
  return record;
}

}  // namespace dsanalyze
