// What sharing batches costs beside making and reading them.
//   staging_bench control [--jobs N] [--seconds S] [--rounds R] [--producers jobs|coordinator]
//       CPU time of all that takes part, a batch: every job takes and releases every batch, nobody writes or reads a byte of it
//   staging_bench memory [--megabytes M] [--rounds R]
//       writing into a slot beside writing into private memory, and reading a slot in place beside reading private memory, in turn

#include <fcntl.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>

#include "bench_main.hpp"
#include "bench_support.hpp"
#include "dsanalyze/loaders/staging.hpp"

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
      job.join(m_coordinator.admit(copied(job.page()), facts.producers == StagingProducers::jobs ? copied(job.slab()) : FileDescriptor()));
    }
    for (std::uint32_t to = 0; to < facts.jobs; ++to) {
      for (std::uint32_t of = 0; of < facts.jobs; ++of) {
        const int slab = m_coordinator.slab(of);
        if (to != of) m_jobs[to]->attach(of, copied(m_coordinator.page(of)), slab < 0 ? FileDescriptor() : copied(slab));
      }
      if (facts.producers == StagingProducers::coordinator) {
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
    if (facts.producers == StagingProducers::coordinator) threads.emplace_back([&] { make(group.coordinator().producer()); });
    for (const auto& member : group.jobs()) {
      threads.emplace_back([&, &job = *member] {
        StagedBatch batch;
        while (!over) {
          if (job.take(batch, soon()).ok() && job.release(batch.sequence).ok() && &job == group.jobs().front().get()) ++batches;
        }
      });
      if (facts.producers == StagingProducers::jobs) threads.emplace_back([&, &job = *member] { make(job); });
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
  if (arguments.text("--producers", "jobs") == "coordinator") facts.producers = StagingProducers::coordinator;
  std::vector<double> micros;
  for (int round = 0; round < static_cast<int>(arguments.number("--rounds", 5)); ++round) {
    const auto [cpu, batches] = share_empty_batches(facts, arguments.number("--seconds", 2));
    micros.push_back(1e6 * cpu / static_cast<double>(std::max<std::uint64_t>(batches, 1)));
  }
  fmt::print("{} jobs: {} us of CPU time a batch, all of them together\n", facts.jobs, spread(micros, 1));
}

void memory(const Arguments& arguments) {
  StagingFacts facts;
  facts.slot_bytes = static_cast<Bytes>(arguments.number("--megabytes", 38)) << 20U;
  facts.batches_per_epoch = UINT32_MAX;
  Group group(facts);
  StagingJob& job = *group.jobs().front();
  group.coordinator().survey();
  std::vector<std::uint64_t> own(facts.slot_bytes / sizeof(std::uint64_t), 1);
  const std::span private_memory = std::as_writable_bytes(std::span(own));
  const auto timed = [](const auto& body) {
    const Nanoseconds start = system_timing().clock->now();
    body();
    return to_seconds(system_timing().clock->now() - start);
  };
  const auto write = [](std::span<std::byte> bytes, int value) { std::memset(bytes.data(), value, bytes.size()); };
  std::uint64_t sum = 0;
  const auto read = [&](std::span<const std::byte> bytes) {
    const auto* const words = reinterpret_cast<const std::uint64_t*>(bytes.data());
    sum += std::accumulate(words, words + bytes.size() / sizeof(std::uint64_t), std::uint64_t{0});
  };
  std::vector<double> writing, reading;
  for (int round = 0; round < static_cast<int>(arguments.number("--rounds", 31)); ++round) {
    StagingClaim claim;
    StagedBatch batch;
    const double own_write = timed([&] { write(private_memory, round); });
    if (!job.claim(claim, system_timing().clock->after(10)).ok()) throw Error("no slot");
    writing.push_back(own_write / timed([&] { write(claim.bytes, round); }));
    job.publish(claim, {1, 0, 0});
    const double own_read = timed([&] { read(private_memory); });
    if (!job.take(batch, system_timing().clock->after(10)).ok()) throw Error("no batch");
    reading.push_back(own_read / timed([&] { read(batch.bytes); }));
    static_cast<void>(job.release(batch.sequence).ok());
  }
  fmt::print("slots beside private memory: writing {} x, reading in place {} x (checksum {})\n", spread(writing, 3), spread(reading, 3), sum % 10);
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(words, {"--jobs", "--seconds", "--rounds", "--producers", "--megabytes"});
  if (arguments.positional == std::vector<std::string>{"control"}) {
    control(arguments);
  } else if (arguments.positional == std::vector<std::string>{"memory"}) {
    memory(arguments);
  } else {
    fmt::print(stderr,
               "usage: staging_bench control [--jobs N] [--seconds S] [--rounds R] [--producers jobs|coordinator] | memory [--megabytes M] "
               "[--rounds R]\n");
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace dsanalyze

int main(int argc, char** argv) { return dsanalyze::bench::run_program(argc, argv, dsanalyze::run); }
