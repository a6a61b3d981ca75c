#include "trace_ring.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "attach/tracer/ring.hpp"

namespace dsanalyze {
namespace {

using tracing::FileSlot;
using tracing::RecordKind;
using tracing::RingHeader;
using tracing::Slot;

static_assert(static_cast<int>(RecordKind::open) == static_cast<int>(AccessKind::open) + 1);
static_assert(static_cast<int>(RecordKind::last) == static_cast<int>(AccessKind::mapped) + 1);

constexpr Nanoseconds patience_for_a_record = nanoseconds_per_second;

RingHeader& header_of(void* memory) { return *static_cast<RingHeader*>(memory); }

template <class T>
T shared_value(const T& value) {
  return __atomic_load_n(&value, __ATOMIC_ACQUIRE);
}

const std::byte* slot_bytes(const void* memory, std::uint64_t place) {
  return static_cast<const std::byte*>(memory) + tracing::ring_header_bytes + place % tracing::ring_slots * sizeof(Slot);
}

template <class T>
T copied(const void* memory, std::uint64_t place) {
  T copy;
  std::memcpy(&copy, slot_bytes(memory, place), sizeof copy);
  return copy;
}

}  // namespace

std::optional<TraceRing> TraceRing::open(const FileDescriptor& memory) {
  struct stat facts {};
  if (::fstat(memory.get(), &facts) != 0 || facts.st_size != static_cast<off_t>(tracing::ring_bytes)) return std::nullopt;
  const int seals = ::fcntl(memory.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return std::nullopt;
  void* const mapping = ::mmap(nullptr, tracing::ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (mapping == MAP_FAILED) return std::nullopt;
  TraceRing ring(mapping);
  const RingHeader& header = header_of(mapping);
  if (std::memcmp(header.magic, tracing::ring_magic, sizeof header.magic) != 0 || header.version != tracing::ring_version ||
      header.slots != tracing::ring_slots)
    return std::nullopt;
  return ring;
}

TraceRing::TraceRing(TraceRing&& other) noexcept
    : m_memory(std::exchange(other.m_memory, nullptr)),
      m_tail(other.m_tail),
      m_waits_since(other.m_waits_since),
      m_unfinished(other.m_unfinished),
      m_skipping(other.m_skipping),
      m_broken(other.m_broken) {}

TraceRing::~TraceRing() {
  if (m_memory != nullptr) ::munmap(m_memory, tracing::ring_bytes);
}

void TraceRing::pass(std::uint64_t slots) {
  m_tail += slots;
  __atomic_store_n(&header_of(m_memory).tail, m_tail, __ATOMIC_RELEASE);
}

/// Beyond a slot in which no finished record begins. True where it was passed.
bool TraceRing::skip(Nanoseconds now, bool ended) {
  if (!ended && !m_skipping) {
    if (!m_waits_since) m_waits_since = now;
    if (now - *m_waits_since < patience_for_a_record) return false;
  }
  if (!m_skipping) ++m_unfinished;
  m_skipping = true;  // the slots behind it may be the rest of the same record
  pass(1);
  return true;
}

bool TraceRing::next(RingRecord& record, Nanoseconds now, bool ended) {
  while (!m_broken) {
    const std::uint64_t ready = shared_value(header_of(m_memory).head) - m_tail;
    if (ready == 0) break;
    if (ready > tracing::ring_slots) {
      m_broken = true;
      ++m_unfinished;
      break;
    }
    const auto* const commit = reinterpret_cast<const std::uint32_t*>(slot_bytes(m_memory, m_tail));
    if (shared_value(*commit) != tracing::commit_word(m_tail)) {
      if (!skip(now, ended)) return false;
      continue;
    }
    m_waits_since.reset();
    const auto slot = copied<Slot>(m_memory, m_tail);
    const std::uint32_t kind = slot.details & ((1U << tracing::kind_bits) - 1);
    const bool has_path = kind == static_cast<std::uint32_t>(RecordKind::open) || kind == static_cast<std::uint32_t>(RecordKind::inherited);
    const std::uint64_t slots = has_path && slot.amount <= tracing::most_path_bytes ? tracing::path_slots(slot.amount) : 1;
    if (kind == 0 || kind > static_cast<std::uint32_t>(RecordKind::last) || slot.open == 0 || slots > ready || (has_path && slots == 1) ||
        slot.time > static_cast<std::uint64_t>(now + nanoseconds_per_second)) {
      if (!skip(now, true)) return false;
      continue;
    }
    m_skipping = false;
    record = {};
    record.kind = static_cast<AccessKind>(kind - 1);
    record.opening = slot.open;
    record.end = static_cast<Nanoseconds>(slot.time);
    record.nanoseconds =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(std::uint64_t{slot.details >> tracing::kind_bits} * tracing::duration_unit, UINT32_MAX));
    if (has_path) {
      const auto file = copied<FileSlot>(m_memory, m_tail + 1);
      record.file.bytes = slot.offset;
      record.file.device = file.device;
      record.file.inode = file.inode;
      record.file.path.resize(slot.amount);
      for (std::uint32_t at = 0; at < slot.amount; at += sizeof(Slot))
        std::memcpy(record.file.path.data() + at, slot_bytes(m_memory, m_tail + 2 + at / sizeof(Slot)),
                    std::min<std::size_t>(sizeof(Slot), slot.amount - at));
    } else {
      record.offset = slot.offset;
      record.bytes = record.kind == AccessKind::mapped ? Bytes{slot.amount} * tracing::mapped_page : slot.amount;
    }
    pass(slots);
    return true;
  }
  return false;
}

std::uint64_t TraceRing::lost_records() const { return shared_value(header_of(m_memory).lost_records) + m_unfinished; }
Bytes TraceRing::lost_bytes() const { return shared_value(header_of(m_memory).lost_bytes); }
Bytes TraceRing::network_bytes() const { return shared_value(header_of(m_memory).network_bytes); }
Bytes TraceRing::other_bytes() const { return shared_value(header_of(m_memory).other_bytes); }

}  // namespace dsanalyze
