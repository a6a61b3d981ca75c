#include "gpu_trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "base/error.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t steps_ahead = 2;
constexpr double longest_wait = 30;  // of a GPU beyond what its work takes

/// One device: what it holds of its GPU.
class Lane {
 public:
  /// `lanes`: that the GPU stands for.
  Lane(std::shared_ptr<Gpu> gpu, std::size_t lanes, const DevicePart& part, Bytes part_bytes)
      : m_gpu(std::move(gpu)), m_part(part), m_copies(m_gpu->make_stream()), m_steps(m_gpu->make_stream()) {
    m_touched = m_gpu->allocate(bytes_to_touch(m_gpu->info()) / lanes);
    if (part_bytes > 0)
      for (auto& buffer : m_buffers) buffer = m_gpu->allocate(part_bytes);
    for (Marks& marks : m_marks) marks = {m_gpu->make_mark(), m_gpu->make_mark(), m_gpu->make_mark()};
    m_origin = m_gpu->make_mark();
  }

  /// Puts its clock beside the program's.
  Nanoseconds start(Timing timing) {
    m_origin->set(*m_steps);
    require_reached(*m_origin, longest_wait, timing, "an empty step");
    return timing.clock->now();
  }
  /// The samples that are not at `address` already.
  void complete(std::uint64_t step, const std::byte* samples, const Batch& batch, std::uint64_t address) {
    const std::size_t bytes = batch.tensor.sample_bytes();
    const std::size_t there = bytes * batch.on_gpu;
    if (batch.on_gpu < batch.count) m_copies->copy_in(address + there, samples + there, bytes * (batch.count - batch.on_gpu));
    marks(step).copied->set(*m_copies);
  }
  void take(std::uint64_t step, const std::byte* samples, const TensorShape& tensor) {
    GpuMemory& buffer = *m_buffers[step % steps_ahead];
    if (part_bytes(m_part, tensor) > buffer.size()) throw Error("a batch is larger than the GPU's memory for it");
    copy_part(*m_copies, buffer.address(), samples, m_part, tensor);
    marks(step).copied->set(*m_copies);
  }
  void wait_for_copy(const Lane& other, std::uint64_t step_of_other) { m_steps->wait_for(*other.marks(step_of_other).copied); }
  void run(std::uint64_t step, double seconds) {
    marks(step).begun->set(*m_steps);
    m_steps->occupy(seconds, *m_touched);
    marks(step).done->set(*m_steps);
  }
  [[nodiscard]] const GpuMark& done_mark(std::uint64_t step) const { return *marks(step).done; }
  [[nodiscard]] double seconds_of(std::uint64_t step) const { return marks(step).done->seconds_since(*marks(step).begun); }
  /// From the end of the step before, or from the start, to the end of this one.
  [[nodiscard]] double seconds_from_last(std::uint64_t step) const {
    return marks(step).done->seconds_since(step == 0 ? *m_origin : *marks(step - 1).done);
  }
  [[nodiscard]] Gpu& gpu() const { return *m_gpu; }

 private:
  struct Marks {
    std::unique_ptr<GpuMark> copied, begun, done;
  };
  // One step more than are ahead: the end of the step before is still known when a step ends.
  [[nodiscard]] const Marks& marks(std::uint64_t step) const { return m_marks[step % m_marks.size()]; }

  std::shared_ptr<Gpu> m_gpu;
  DevicePart m_part;
  std::unique_ptr<GpuMemory> m_touched;
  std::array<std::unique_ptr<GpuMemory>, steps_ahead> m_buffers;
  std::array<Marks, steps_ahead + 1> m_marks;
  std::unique_ptr<GpuMark> m_origin;
  std::unique_ptr<GpuStream> m_copies, m_steps;  // last: they end before what their work uses
};

/// A batch on the devices of its slice.
struct Part {
  std::size_t slice = 0;
  std::uint64_t number = 0;  ///< counts what the slice was given
  Batch batch;
};

/// What its devices do together, from its first batch on.
struct Step {
  std::vector<Part> parts;
  bool started = false;
  Nanoseconds overdue = 0;  ///< of a step that was started: when its GPU no longer answers
};

class GpuTrainer final : public Trainer {
 public:
  GpuTrainer(const GpuTrainerOptions& options, std::span<const std::shared_ptr<Gpu>> gpus, Timing timing) : m_options(options), m_timing(timing) {
    for (const auto& devices : options.layout.slices) {
      Slice& slice = m_slices.emplace_back();
      for (const DevicePart& part : devices)
        slice.lanes.emplace_back(gpus[part.device], std::ranges::count(gpus, gpus[part.device]), part,
                                 options.memory && !options.gpu_memory ? part_bytes(part, options.tensor) : 0);
      for (Lane& lane : slice.lanes) slice.last_ends.push_back(lane.start(timing));
    }
  }

  Status submit(const Batch& batch) override {
    const std::optional<std::size_t> chosen = slice_for_next();
    if (!chosen) return {StatusCode::busy, 0};
    Slice& slice = m_slices[*chosen];
    if (m_steps.empty() || m_steps.back().started) m_steps.emplace_back();
    Step& step = m_steps.back();
    copy(slice, batch);
    step.parts.push_back({*chosen, slice.taken++, batch});
    if (step.parts.size() == slices_of(batch)) start(step);
    return {};
  }

  std::size_t reap(std::span<BatchCompletion> completions, Deadline deadline) override {
    std::size_t count = 0;
    while (count < completions.size()) {
      const auto ended = std::ranges::find_if(m_steps, [&](const Step& step) { return is_done(step); });
      if (ended != m_steps.end() && ended->parts.size() <= completions.size() - count) {
        for (const Part& part : ended->parts) completions[count++] = completed(part);
        m_steps.erase(ended);
        continue;
      }
      if (count > 0) break;
      const auto next = std::ranges::find_if(m_steps, &Step::started);
      if (next == m_steps.end()) break;
      if (wait_until_done(*next, deadline)) continue;
      if (m_timing.clock->now() >= next->overdue)
        throw Error(fmt::format("the GPU did not end a step within {:.0f} s of its time: does another program hold it? (nvidia-smi)", longest_wait));
      break;
    }
    return count;
  }

  [[nodiscard]] bool wants_batch() const override { return slice_for_next().has_value(); }

 private:
  struct Slice {
    std::deque<Lane> lanes;
    std::vector<Nanoseconds> last_ends;  ///< of each lane, by the program's clock
    std::uint64_t taken = 0, trained = 0;
  };

  [[nodiscard]] bool lockstep() const { return m_options.step == StepMode::lockstep; }
  [[nodiscard]] std::size_t slices_of(const Batch& batch) const {
    return lockstep() ? std::min<std::size_t>(std::max(batch.slices, 1U), m_slices.size()) : 1;
  }
  /// Where the next batch goes; nullopt: all are as far ahead as they can be.
  [[nodiscard]] std::optional<std::size_t> slice_for_next() const {
    if (lockstep()) {
      if (!m_steps.empty() && !m_steps.back().started) return m_steps.back().parts.size();
      return m_steps.size() < steps_ahead ? std::optional<std::size_t>(0) : std::nullopt;
    }
    const auto under_way = [](const Slice& slice) { return slice.taken - slice.trained; };
    const auto least = std::ranges::min_element(m_slices, {}, under_way);
    return under_way(*least) < steps_ahead ? std::optional<std::size_t>(least - m_slices.begin()) : std::nullopt;
  }

  [[nodiscard]] bool copies(const Batch& batch) const { return m_options.memory && batch.count > 0; }
  void copy(Slice& slice, const Batch& batch) {
    if (!copies(batch)) return;
    const std::byte* const memory = m_options.memory(batch);
    if (m_options.gpu_memory && batch.on_gpu == batch.count)
      return slice.lanes.front().complete(slice.taken, memory, batch, m_options.gpu_memory(batch));
    if (auto& pinned = m_pinned[memory]; !pinned) pinned = slice.lanes.front().gpu().pin({memory, m_options.slot_bytes});
    if (m_options.gpu_memory) return slice.lanes.front().complete(slice.taken, memory + batch.samples_offset, batch, m_options.gpu_memory(batch));
    for (Lane& lane : slice.lanes) lane.take(slice.taken, memory + batch.samples_offset, batch.tensor);
  }
  void start(Step& step) {
    std::uint32_t largest = 0;
    for (const Part& part : step.parts) largest = std::max(largest, part.batch.count);
    for (const Part& part : step.parts) {
      for (Lane& lane : m_slices[part.slice].lanes) {
        for (const Part& other : step.parts)
          if (copies(other.batch))
            for (const Lane& copied : m_slices[other.slice].lanes) lane.wait_for_copy(copied, other.number);
        lane.run(part.number, largest / m_options.samples_per_second);
      }
    }
    step.started = true;
    // It may stand behind others that take as long.
    step.overdue = m_timing.clock->after(longest_wait + (steps_ahead + 1) * largest / m_options.samples_per_second).at;
  }
  [[nodiscard]] bool is_done(const Step& step) const {
    return step.started && std::ranges::all_of(step.parts, [&](const Part& part) {
             return std::ranges::all_of(m_slices[part.slice].lanes, [&](const Lane& lane) { return lane.done_mark(part.number).reached(); });
           });
  }
  [[nodiscard]] bool wait_until_done(const Step& step, Deadline deadline) const {
    return std::ranges::all_of(step.parts, [&](const Part& part) {
      return std::ranges::all_of(m_slices[part.slice].lanes,
                                 [&](const Lane& lane) { return wait_until_reached(lane.done_mark(part.number), deadline, m_timing); });
    });
  }
  /// By the device that ended last.
  BatchCompletion completed(const Part& part) {
    Slice& slice = m_slices[part.slice];
    const Nanoseconds now = m_timing.clock->now();
    const bool first = slice.trained++ == 0;
    const Batch& batch = part.batch;
    BatchCompletion completion{batch.token, batch.step, batch.epoch, batch.count, batch.last_of_epoch, batch.ready_at, 0, 0, 0};
    for (std::size_t i = 0; i < slice.lanes.size(); ++i) {
      const Lane& lane = slice.lanes[i];
      const Nanoseconds last = slice.last_ends[i];
      const Nanoseconds end = std::min(last + to_nanoseconds(lane.seconds_from_last(part.number)), now);
      slice.last_ends[i] = end;
      if (i > 0 && end <= completion.end) continue;
      completion.end = end;
      completion.begin = std::max(end - to_nanoseconds(lane.seconds_of(part.number)), last);
      completion.stall = first ? 0 : completion.begin - last;
    }
    return completion;
  }

  GpuTrainerOptions m_options;
  Timing m_timing;
  std::map<const std::byte*, std::unique_ptr<GpuPinned>> m_pinned;  // outlives the lanes, whose streams still read it
  std::deque<Slice> m_slices;
  std::deque<Step> m_steps;
};

}  // namespace

void copy_part(GpuStream& stream, std::uint64_t to, const std::byte* samples, const DevicePart& part, const TensorShape& tensor) {
  for (const StridedBytes& runs : strides_of(part, tensor)) {
    stream.copy_in(to, samples + runs.offset, GpuRows{runs.bytes, runs.stride, runs.count});
    to += runs.bytes * runs.count;
  }
}

std::unique_ptr<Trainer> make_gpu_trainer(const GpuTrainerOptions& options, std::span<const std::shared_ptr<Gpu>> gpus, Timing timing) {
  if (options.layout.slices.empty() || options.layout.devices() > gpus.size() || !(options.samples_per_second > 0))
    throw UsageError("GPUs: there must be one for each device, and a rate of more than 0 samples/s");
  return std::make_unique<GpuTrainer>(options, gpus, timing);
}

}  // namespace dsanalyze
