// What sharing batches costs beside making and reading them.
//   staging_bench control [--jobs N] [--seconds S] [--rounds R] [--producers jobs|coordinator]
//       CPU time of all that takes part, a batch: every job takes and releases every batch, no job writes or reads a byte of it
//   staging_bench memory [--megabytes M] [--readers N] [--rounds R]
//       writing into slots beside writing into private memory, and readers that read one slot in place together beside as many that read private
//       memory each, in turn

#include <fcntl.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>

#include "bench_main.hpp"
#include "bench_support.hpp"
#include "loaders/staging/staging.hpp"

namespace dsanalyze {
namespace {

using namespace bench;

FileDescriptor copied(int descriptor) { return FileDescriptor(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0)); }

/// A coordinator and its jobs, which are threads here but have their own mappings, as processes do.
class Group {
 public:
  explicit Group(const StagingFacts& facts)
      : m_coordinator(
            facts, [](std::uint32_t) { return true; }, system_timing()) {
    for (std::uint32_t i = 0; i < facts.jobs; ++i) {
      m_jobs.push_back(std::make_unique<StagingJob>(
          copied(m_coordinator.board()), [] { return true; }, system_timing()));
      StagingJob& job = *m_jobs.back();
      job.join(m_coordinator.admit(copied(job.page()), facts.producers == Producers::jobs ? copied(job.slab()) : FileDescriptor()));
    }
    for (std::uint32_t to = 0; to < facts.jobs; ++to) {
      for (std::uint32_t of = 0; of < facts.jobs; ++of) {
        const int slab = m_coordinator.slab(of);
        if (to != of) m_jobs[to]->attach(of, copied(m_coordinator.page(of)), slab < 0 ? FileDescriptor() : copied(slab));
      }
      if (facts.producers == Producers::coordinator) {
        m_jobs[to]->attach(staging_most_jobs, FileDescriptor(), copied(m_coordinator.slab(staging_most_jobs)));
      }
    }
  }
  [[nodiscard]] std::vector<std::unique_ptr<StagingJob>>& jobs() { return m_jobs; }
  StagingCoordinator& coordinator() { return m_coordinator; }

 private:
  StagingCoordinator m_coordinator;
  std::vector<std::unique_ptr<StagingJob>> m_jobs;
};

/// CPU seconds and batches of one round.
std::pair<double, std::uint64_t> share_empty_batches(const StagingFacts& facts, double seconds) {
  Group group(facts);
  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> batches{0};
  const auto soon = [] { return system_timing().clock->after(0.1); };
  const auto make = [&](StagingProducer& producer) {
    StagingClaim claim;
    while (!over) {
      if (producer.claim(claim, soon()).ok()) producer.publish(claim, {1, 0, 0});
    }
  };
  const CpuTime before = own_cpu();
  {
    std::vector<std::jthread> threads;
    if (facts.producers == Producers::coordinator) threads.emplace_back([&] { make(group.coordinator().producer()); });
    for (const auto& member : group.jobs()) {
      threads.emplace_back([&, &job = *member] {
        StagedBatch batch;
        while (!over) {
          if (job.take(batch, soon()).ok() && job.release(batch.sequence).ok() && &job == group.jobs().front().get()) ++batches;
        }
      });
      if (facts.producers == Producers::jobs) threads.emplace_back([&, &job = *member] { make(job); });
    }
    const Deadline end = system_timing().clock->after(seconds);
    while (system_timing().clock->now() < end.at) {
      group.coordinator().survey();
      system_timing().waiter->sleep_until(system_timing().clock->after(to_seconds(facts.look_again)).at);
    }
    over = true;
  }
  const CpuTime after = own_cpu();
  return {after.user + after.kernel - before.user - before.kernel, batches.load()};
}

void control(const Arguments& arguments) {
  StagingFacts facts;
  facts.jobs = static_cast<std::uint32_t>(arguments.number("--jobs", 8));
  facts.prefetch = facts.jobs;
  facts.batches_per_epoch = 1000;
  if (arguments.text("--producers", "jobs") == "coordinator") facts.producers = Producers::coordinator;
  std::vector<double> micros;
  for (int round = 0; round < static_cast<int>(arguments.number("--rounds", 5)); ++round) {
    const auto [cpu, batches] = share_empty_batches(facts, arguments.number("--seconds", 2));
    micros.push_back(1e6 * cpu / static_cast<double>(std::max<std::uint64_t>(batches, 1)));
  }
  fmt::print("{} jobs: {} us of CPU time a batch, all of them together\n", facts.jobs, spread(micros, 1));
}

double timed(const std::function<void()>& body) {
  const Nanoseconds start = system_timing().clock->now();
  body();
  return to_seconds(system_timing().clock->now() - start);
}

std::uint64_t sum_of(std::span<const std::byte> bytes) {
  const auto* const words = reinterpret_cast<const std::uint64_t*>(bytes.data());
  return std::accumulate(words, words + bytes.size() / sizeof(std::uint64_t), std::uint64_t{0});
}

/// Seconds in which all readers read what each is given.
double read_together(const std::vector<std::span<const std::byte>>& each, std::atomic<std::uint64_t>& sum) {
  return timed([&] {
    std::vector<std::jthread> readers;
    for (const auto bytes : each) readers.emplace_back([&sum, bytes] { sum += sum_of(bytes); });
  });
}

void memory(const Arguments& arguments) {
  StagingFacts facts;
  facts.slot_bytes = static_cast<Bytes>(arguments.number("--megabytes", 38)) << 20U;
  facts.batches_per_epoch = UINT32_MAX;
  const auto readers = static_cast<std::size_t>(arguments.number("--readers", 8));
  Group group(facts);
  StagingJob& job = *group.jobs().front();
  group.coordinator().survey();
  // As many private buffers as there are slots, used in rotation as they are; and one a reader.
  std::vector<std::vector<std::uint64_t>> own(std::max<std::size_t>(readers, facts.slots()));
  for (auto& buffer : own) buffer.assign(facts.slot_bytes / sizeof(std::uint64_t), 1);
  std::vector<std::span<const std::byte>> private_buffers;
  for (std::size_t i = 0; i < readers; ++i) private_buffers.push_back(std::as_bytes(std::span(own[i])));
  const auto write = [](std::span<std::byte> bytes, int value) { std::memset(bytes.data(), value, bytes.size()); };
  std::atomic<std::uint64_t> sum{0};
  const int rounds = static_cast<int>(arguments.number("--rounds", 31));
  std::vector<double> writing, reading;
  const auto share_one = [&](const auto& use_slot, const auto& use_batch) {
    StagingClaim claim;
    StagedBatch batch;
    if (!job.claim(claim, system_timing().clock->after(10)).ok()) throw Error("no slot");
    use_slot(claim);
    job.publish(claim, {1, 0, 0});
    if (!job.take(batch, system_timing().clock->after(10)).ok()) throw Error("no batch");
    use_batch(batch.bytes);
    static_cast<void>(job.release(batch.sequence).ok());
  };
  // A private buffer a slot, used when that is: what of them the processor's caches hold is the same for both. Who is first takes turns.
  for (int round = 0; round < rounds; ++round) {
    share_one(
        [&](const StagingClaim& claim) {
          double slot_seconds = 0;
          if (round % 2 == 0) slot_seconds = timed([&] { write(claim.bytes, round); });
          const double own_seconds = timed([&] { write(std::as_writable_bytes(std::span(own[claim.slot])), round); });
          if (round % 2 != 0) slot_seconds = timed([&] { write(claim.bytes, round); });
          writing.push_back(own_seconds / slot_seconds);
        },
        [](std::span<const std::byte> /*bytes*/) {});
  }
  for (int round = 0; round < rounds; ++round) {
    const double own_read = read_together(private_buffers, sum);
    share_one([](const StagingClaim& /*claim*/) {},
              [&](std::span<const std::byte> bytes) {
                reading.push_back(own_read / read_together(std::vector<std::span<const std::byte>>(readers, bytes), sum));
              });
  }
  fmt::print("slots beside private memory: writing {} x, {} readers in place {} x (checksum {})\n", spread(writing, 3), readers, spread(reading, 3),
             sum.load() % 10);
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(words, {"--jobs", "--seconds", "--rounds", "--producers", "--megabytes", "--readers"});
  if (arguments.positional == std::vector<std::string>{"control"}) {
    control(arguments);
  } else if (arguments.positional == std::vector<std::string>{"memory"}) {
    memory(arguments);
  } else {
    fmt::print(
        stderr,
        "usage: staging_bench control [--jobs N] [--seconds S] [--rounds R] [--producers jobs|coordinator] | memory [--megabytes M] [--readers N] "
        "[--rounds R]\n");
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace dsanalyze

int main(int argc, char** argv) { return dsanalyze::bench::run_program(argc, argv, dsanalyze::run); }
