// What it costs a rank to part a global mini-batch: Algorithm 1 alone, the whole locality-aware assignment, and dealing in the first epoch. Evenly
// partitioned samples, new batches each time; milliseconds a global batch, median and quartiles. And making the directory after the first epoch,
// once.
//
//   partition_bench [--ranks 4,16,256,4096] [--local-batch N] [--samples N] [--rounds N] [--json FILE]

#include <cmath>

#include "base/random.hpp"
#include "bench_main.hpp"
#include "bench_support.hpp"
#include "core/partition/assignment.hpp"

namespace dsanalyze::bench {
namespace {

const Timing bench_timing = system_timing();

template <typename Work>
double milliseconds(const Work& work) {
  const Nanoseconds begun = bench_timing.clock->now();
  work();
  return static_cast<double>(bench_timing.clock->now() - begun) / 1e6;
}

std::vector<IndexRecord> records_of_sizes(std::size_t samples) {
  RandomStream random(1);
  std::vector<IndexRecord> records(samples);
  for (IndexRecord& record : records) record.length = static_cast<std::uint64_t>(92e3 * std::exp(0.6 * random.normal()));
  return records;
}

struct Times {
  std::vector<double> balance, locality, deal;
  double traffic = 0;
};

Times time_batches(std::uint32_t ranks, std::size_t batch_size, std::span<const IndexRecord> records, int rounds) {
  std::vector<RankNumber> primaries(records.size());
  for (std::size_t i = 0; i < primaries.size(); ++i) primaries[i] = static_cast<RankNumber>(mix(i) % ranks);
  const PartitionDirectory directory(primaries, ranks);
  LocalityAssignment locality(directory, 0);
  DealtAssignment dealt(records, std::vector<Bytes>(ranks, UINT32_MAX), 0);
  Balancer balancer;
  std::vector<SampleId> order(records.size());
  Times times;
  for (int round = 0; round < rounds; ++round) {
    random_permutation(mix(ranks, static_cast<std::uint64_t>(round)), order);
    const auto batch = std::span<const SampleId>(order).first(batch_size);
    std::vector<std::int32_t> imbalances(ranks, -static_cast<std::int32_t>(batch_size / ranks));
    for (const SampleId sample : batch) ++imbalances[directory.primary(sample)];
    times.balance.push_back(milliseconds([&] { balancer.balance(imbalances); }));
    times.locality.push_back(milliseconds([&] { locality.mine(batch); }));
    times.deal.push_back(milliseconds([&] { dealt.mine(batch); }));
    times.traffic += locality.balance_traffic() / rounds;
  }
  return times;
}

double make_once(std::uint32_t ranks, std::span<const IndexRecord> records) {
  const std::size_t row = held_bitmap_bytes(records.size());
  std::vector<std::byte> bitmaps(ranks * row);
  std::vector<Bytes> free(ranks);
  for (std::size_t sample = 0; sample < records.size(); ++sample) {
    const std::size_t rank = mix(sample) % ranks;
    if (sample % 100 == 0) {
      free[rank] += records[sample].length;
    } else {
      bitmaps[rank * row + sample / 8] |= std::byte(1U << (sample % 8));
    }
  }
  const std::vector<Bytes> capacities(ranks, UINT32_MAX * Bytes{1024});
  return milliseconds([&] { make_directory({bitmaps, free, capacities}, records); });
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(words, {"--ranks", "--local-batch", "--samples", "--rounds", "--json"});
  const auto samples = static_cast<std::size_t>(arguments.number("--samples", 1'281'167));
  const auto local_batch = static_cast<std::uint32_t>(arguments.number("--local-batch", 64));
  const auto rounds = static_cast<int>(arguments.number("--rounds", 21));
  if (rounds < 1 || local_batch < 1) throw UsageError("--rounds and --local-batch must be 1 or more");
  const std::vector<IndexRecord> records = records_of_sizes(samples);
  fmt::print("{} samples, {} a rank's batch, {} batches each; milliseconds a global batch\n", samples, local_batch, rounds);
  fmt::print("{:>6} {:>24} {:>24} {:>24} {:>9} {:>16}\n", "ranks", "Algorithm 1", "locality", "dealing", "moved", "directory (ms)");
  std::string json = fmt::format(R"({{"samples": {}, "local_batch": {})", samples, local_batch);
  for (const std::string& word : split_list(arguments.text("--ranks", "4,16,256,4096"))) {
    const auto ranks = static_cast<std::uint32_t>(parse_integer(word, 1, most_ranks));
    const std::size_t batch = std::size_t{ranks} * local_batch;
    if (batch > samples) throw UsageError(fmt::format("--samples: a global batch of {} ranks has {}", ranks, batch));
    const Times times = time_batches(ranks, batch, records, rounds);
    const double making = make_once(ranks, records);
    fmt::print("{:>6} {:>24} {:>24} {:>24} {:>8.2f}% {:>16.0f}\n", ranks, spread(times.balance, 4), spread(times.locality, 4), spread(times.deal, 4),
               100 * times.traffic, making);
    json += fmt::format(R"(, "{}": {{{}, {}, {}, "directory": {}}})", ranks, json_list("balance", times.balance),
                        json_list("locality", times.locality), json_list("deal", times.deal), making);
  }
  if (arguments.has("--json")) write_text(arguments.text("--json", ""), json + "}\n");
  return 0;
}

}  // namespace
}  // namespace dsanalyze::bench

int main(int argc, char** argv) { return dsanalyze::bench::run_program(argc, argv, dsanalyze::bench::run); }
