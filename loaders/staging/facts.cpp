#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "memory.hpp"
#include "staging.hpp"

namespace dsanalyze {
namespace {

constexpr std::array<std::string_view, staging_steps> step_names{
    "enter",           "announce",        "look",        "wait-for-batch", "report",   "release", "wake-producers", "leave",      "choose",
    "wait-for-room",   "claim",           "publish",     "wake-jobs",      "retract",  "restore", "survey",         "close-slab", "uncount",
    "broadcast-retry", "announce-change", "write-epoch", "open-epoch",     "end-group"};
constexpr Bytes staged_slot_alignment = 4096;

}  // namespace

std::string_view staging_step_name(StagingStep step) { return step_names.at(static_cast<std::size_t>(step)); }

std::uint32_t StagingFacts::slots() const { return producers == Producers::coordinator ? 2 * jobs + prefetch : 2 + prefetch / jobs; }

std::uint32_t StagingFacts::window() const { return producers == Producers::coordinator ? slots() : slots() * jobs; }

Bytes StagingFacts::constant_bytes() const {
  const Bytes slabs = producers == Producers::coordinator ? 1 : jobs;
  return sizeof(staging::Board) + jobs * sizeof(staging::ControlPage) + slabs * sizeof(staging::SlabHead);
}

void StagingFacts::validate() const {
  const auto within = [](std::string_view what, std::uint64_t value, std::uint64_t least, std::uint64_t most) {
    if (value < least || value > most) throw UsageError(fmt::format("a staging area: {} is {}, expected {} to {}", what, value, least, most));
  };
  within("the number of jobs", jobs, 1, staging_most_jobs);
  within("prefetch", prefetch, 0, staging_most_slots);
  within("slots of a producer", slots(), 1, staging_most_slots);
  within("batches that a job may hold", held, 1, std::min(staging_most_held, slots()));
  within("batches per epoch", batches_per_epoch, 1, UINT32_MAX);
  within("the first epoch", first_epoch, 0, std::uint64_t{1} << 28U);
  within("the first batch", first_batch, 0, batches_per_epoch - 1);
  within("the number of epochs", epochs, 0, std::uint64_t{1} << 28U);
  within("the batch size", batch_size, 1, UINT32_MAX);
  within("the wait before looking again, in ns", static_cast<std::uint64_t>(look_again), 1000, 1'000'000'000);
  if (slot_bytes == 0 || slot_bytes % staged_slot_alignment != 0) {
    throw UsageError(fmt::format("a staging area: a slot is {} bytes, expected a multiple of {}", slot_bytes, staged_slot_alignment));
  }
}

Nanoseconds staging_deadline(Nanoseconds iteration, Nanoseconds floor) {
  constexpr Nanoseconds longest = 60 * nanoseconds_per_second;
  return std::clamp(std::min(iteration, longest) * 10, std::min(floor, longest), longest);
}

}  // namespace dsanalyze
