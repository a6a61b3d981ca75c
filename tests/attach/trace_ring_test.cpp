#include "attach/reads/trace_ring.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <span>
#include <utility>

#include "attach/tracer/ring.hpp"

using namespace dsanalyze;
using tracing::RecordKind;

namespace {

/// The memory of a process that is traced, as it would write it.
class TracedMemory {
 public:
  explicit TracedMemory(unsigned seals = F_SEAL_SHRINK, std::size_t bytes = tracing::ring_bytes)
      : m_file(::memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING)), m_bytes(bytes) {
    REQUIRE(::ftruncate(m_file.get(), static_cast<off_t>(bytes)) == 0);
    REQUIRE(::fcntl(m_file.get(), F_ADD_SEALS, seals) == 0);
    m_memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m_file.get(), 0);
    REQUIRE(m_memory != MAP_FAILED);
    std::memcpy(header().magic, tracing::ring_magic, sizeof header().magic);
    header().version = tracing::ring_version;
    header().slots = tracing::ring_slots;
  }
  TracedMemory(const TracedMemory&) = delete;
  TracedMemory& operator=(const TracedMemory&) = delete;
  ~TracedMemory() { ::munmap(m_memory, m_bytes); }

  [[nodiscard]] tracing::RingHeader& header() const { return *static_cast<tracing::RingHeader*>(m_memory); }
  [[nodiscard]] tracing::Slot& slot(std::uint64_t place) const {
    return reinterpret_cast<tracing::Slot*>(static_cast<char*>(m_memory) + tracing::ring_header_bytes)[place % tracing::ring_slots];
  }
  [[nodiscard]] const FileDescriptor& file() const { return m_file; }
  [[nodiscard]] std::span<char> bytes() const { return {static_cast<char*>(m_memory), m_bytes}; }

  std::uint64_t claim(std::uint32_t slots = 1) const { return std::exchange(header().head, header().head + slots); }
  void write(RecordKind kind, std::uint32_t amount) const { finish(claim(), kind, amount); }
  void finish(std::uint64_t place, RecordKind kind, std::uint32_t amount) const {
    slot(place) = {tracing::commit_word(place), 1, 5, 100, amount, static_cast<std::uint32_t>(kind)};
  }
  void write_file(const std::string& path) const {
    const auto length = static_cast<std::uint32_t>(path.size());
    const std::uint64_t place = claim(tracing::path_slots(length));
    for (std::size_t i = 0; i < path.size(); ++i) reinterpret_cast<char*>(&slot(place + 2 + i / 32))[i % 32] = path[i];
    finish(place, RecordKind::open, length);
  }

 private:
  FileDescriptor m_file;
  std::size_t m_bytes;
  void* m_memory = nullptr;
};

struct Taken {
  int records = 0;
  Bytes bytes = 0;
  std::string path;
};

Taken taken(TraceRing& ring, Nanoseconds now = 10, bool ended = false) {
  Taken all;
  for (RingRecord record; ring.next(record, now, ended); ++all.records) {
    all.bytes += record.bytes;
    if (record.kind == AccessKind::open) all.path = record.file.path;
  }
  return all;
}

}  // namespace

TEST_CASE("what a process writes is taken in its order, around the ring's end too") {
  const TracedMemory memory;
  auto ring = TraceRing::open(memory.file());
  REQUIRE(ring);
  for (int round = 0; round < 5; ++round) {
    const std::string path(1000 + round, static_cast<char>('a' + round));
    for (std::uint32_t i = 0; i < tracing::ring_slots / 3; ++i) memory.write(RecordKind::read, 7);
    memory.write_file(path);
    const Taken all = taken(*ring);
    CHECK(all.records == tracing::ring_slots / 3 + 1);
    CHECK(all.bytes == Bytes{7} * (tracing::ring_slots / 3));
    CHECK(all.path == path);
    CHECK(memory.header().tail == memory.header().head);
  }
  CHECK(ring->lost_records() == 0);
}

TEST_CASE("a record that a living process has begun is waited for, and lost once the process has ended") {
  const TracedMemory memory;
  auto ring = TraceRing::open(memory.file());
  REQUIRE(ring);
  const std::uint64_t begun = memory.claim();
  memory.write(RecordKind::read, 9);
  CHECK(taken(*ring).records == 0);
  memory.finish(begun, RecordKind::read, 4);
  CHECK(taken(*ring).bytes == 13);
  memory.claim(5);
  memory.write(RecordKind::read, 1);
  CHECK(taken(*ring).records == 0);
  CHECK(taken(*ring, 10, true).bytes == 1);
  CHECK(ring->lost_records() == 1);
}

TEST_CASE("a thread that was stopped in the middle of a record holds up the others' for a second only") {
  const TracedMemory memory;
  auto ring = TraceRing::open(memory.file());
  REQUIRE(ring);
  const std::uint64_t begun = memory.claim();
  memory.write(RecordKind::read, 9);
  CHECK(taken(*ring, nanoseconds_per_second).records == 0);
  CHECK(taken(*ring, 3 * nanoseconds_per_second).bytes == 9);
  memory.finish(begun, RecordKind::read, 4);
  CHECK(taken(*ring, 3 * nanoseconds_per_second).records == 0);
  CHECK(ring->lost_records() == 1);
}

TEST_CASE("memory that is no ring, or could be taken away, is not used") {
  const TracedMemory unsealed(F_SEAL_GROW);
  CHECK_FALSE(TraceRing::open(unsealed.file()));
  const TracedMemory small(F_SEAL_SHRINK, 8192);
  CHECK_FALSE(TraceRing::open(small.file()));
  const TracedMemory other;
  other.header().version = 99;
  CHECK_FALSE(TraceRing::open(other.file()));
  CHECK_FALSE(TraceRing::open(FileDescriptor(::open("/dev/null", O_RDWR | O_CLOEXEC))));
}

TEST_CASE("a head beyond the ring ends the taking, and is a loss") {
  const TracedMemory memory;
  auto ring = TraceRing::open(memory.file());
  REQUIRE(ring);
  memory.header().head = tracing::ring_slots + 1;
  CHECK(taken(*ring).records == 0);
  CHECK(ring->lost_records() == 1);
}

TEST_CASE("garbage in any word ends in records that are whole, or in losses") {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const TracedMemory memory;
    auto ring = TraceRing::open(memory.file());
    REQUIRE(ring);
    for (int i = 0; i < 50; ++i) {
      memory.write(RecordKind::read, 7);
      memory.write_file("/a/path/of/some/length/that/takes/two");
    }
    for (int i = 0; i < 20; ++i) memory.bytes()[tracing::ring_header_bytes + random() % 8192] = static_cast<char>(random());
    for (int i = 0; i < 3; ++i) {
      for (RingRecord record; ring->next(record, 10, i == 2);) CHECK(record.file.path.size() <= tracing::most_path_bytes);
    }
    CHECK(memory.header().tail == memory.header().head);
  }
}
