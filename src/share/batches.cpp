#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "group.hpp"
#include "loaders/slot_pool.hpp"

namespace dsanalyze {

struct GroupBatches::State {
  struct Held {
    std::atomic<std::uint64_t> sequence{0};
    std::atomic<const std::byte*> memory{nullptr};  ///< nullptr: free
  };

  State(GroupMember& given, std::uint32_t given_accelerators)
      : member(given),
        accelerators(std::max(given_accelerators, 1U)),
        batches_per_epoch(given.terms().staging.batches_per_epoch),
        layout(given.terms().tensor),
        held(given.terms().staging.held) {}

  Batch described(const StagedBatch& staged, std::uint32_t slot) {
    if (!begun) {
      begun = true;
      first_epoch = staged.epoch;
    }
    const std::uint64_t steps_per_epoch = (batches_per_epoch + accelerators - 1) / accelerators;
    const std::uint64_t step = staged.index / accelerators;
    Batch batch;
    batch.sequence = (staged.epoch - first_epoch) * batches_per_epoch + staged.index;
    batch.step = (staged.epoch - first_epoch) * steps_per_epoch + step;
    batch.slice = static_cast<std::uint32_t>(staged.index % accelerators);
    batch.slices = static_cast<std::uint32_t>(std::min<std::uint64_t>(accelerators, batches_per_epoch - step * accelerators));
    batch.epoch = staged.epoch;
    batch.generation = staged.epoch;
    batch.count = staged.count;
    batch.failed = staged.failed;
    batch.last_of_epoch = staged.index + 1 == batches_per_epoch;
    batch.tensor = member.terms().tensor;
    batch.tensor.shape[0] = staged.count;
    batch.ids_offset = layout.ids_at;
    batch.labels_offset = layout.labels_at;
    batch.ready_at = staged.ready_at;
    batch.token = {slot, staged.sequence};
    return batch;
  }

  GroupMember& member;
  const std::uint32_t accelerators;
  const std::uint64_t batches_per_epoch;
  const SlotLayout layout;
  bool begun = false;  ///< of next() alone, as first_epoch
  std::uint64_t first_epoch = 0;
  std::atomic<bool> stopped{false};
  std::atomic<StatusCode> over{StatusCode::ok};
  std::mutex releasing;
  std::vector<Held> held;
};

GroupBatches::GroupBatches(GroupMember& member, std::uint32_t accelerators) : m_state(std::make_unique<State>(member, accelerators)) {}
GroupBatches::~GroupBatches() { stop(); }

Status GroupBatches::next(Batch& batch, Deadline deadline) {
  State& state = *m_state;
  if (state.stopped.load()) return {StatusCode::cancelled, 0};
  StagedBatch staged;
  Status status = state.member.lost() ? Status{StatusCode::io, 0} : state.member.job().take(staged, deadline);
  if (state.stopped.load() && !status.ok()) status = {StatusCode::cancelled, 0};
  if (status.code == StatusCode::io || status.code == StatusCode::cancelled) state.over.store(status.code);
  if (!status.ok()) return status;
  // There is a free one: the job gives no more than may be held.
  const auto free = std::ranges::find_if(state.held, [](const State::Held& held) { return held.memory.load(std::memory_order_acquire) == nullptr; });
  free->sequence.store(staged.sequence, std::memory_order_relaxed);
  free->memory.store(staged.bytes.data(), std::memory_order_release);
  batch = state.described(staged, static_cast<std::uint32_t>(free - state.held.begin()));
  return {};
}

void GroupBatches::release(ReleaseToken token) {
  State& state = *m_state;
  if (token.slot >= state.held.size() || state.member.lost()) return;
  const std::scoped_lock lock(state.releasing);
  State::Held& held = state.held[token.slot];
  if (held.memory.load() == nullptr || held.sequence.load() != token.generation) return;
  held.memory.store(nullptr);
  if (state.member.job().release(token.generation).code == StatusCode::cancelled) state.over.store(StatusCode::cancelled);
}

const std::byte* GroupBatches::memory(const Batch& batch) const { return m_state->held.at(batch.token.slot).memory.load(); }

void GroupBatches::stop() {
  State& state = *m_state;
  if (!state.stopped.exchange(true) && !state.member.lost()) state.member.job().leave();
}

std::string GroupBatches::failure() const {
  const State& state = *m_state;
  if (state.over.load() == StatusCode::io) return state.member.failure();
  if (state.over.load() == StatusCode::cancelled && !state.stopped.load()) {
    return "this job was put out of its group: its process wrote what makes no sense into the memory that it shares, or the host took it for gone";
  }
  return {};
}

}  // namespace dsanalyze
