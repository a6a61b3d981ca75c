#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "base/error.hpp"
#include "base/random.hpp"
#include "profile/run_support.hpp"
#include "rank_runs.hpp"

namespace dsanalyze {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

/// Texts of all ranks, each as long as it is: of those that are alive.
std::vector<std::string> gather_texts(const RunContext& context, AliveRanks& alive, const std::string& mine) {
  RankTeam& team = *context.inputs.team;
  const auto deadline = [&] { return context.timing.clock->after(rank_patience(context)); };
  const auto agree = [&] { return agree_or_stop(context, alive); };
  std::vector<std::uint64_t> sizes(team.world());
  std::vector<std::byte> all;
  const auto tell = [&]() -> Status {
    const std::uint64_t size = mine.size();
    Status status = team.collective().gather(std::as_bytes(std::span(&size, 1)), std::as_writable_bytes(std::span(sizes)), deadline());
    if (!status.ok()) return status;
    const std::uint64_t longest = *std::ranges::max_element(sizes);
    std::vector<std::byte> padded(longest);
    std::memcpy(padded.data(), mine.data(), mine.size());
    all.assign(longest * team.world(), {});
    return team.collective().gather(padded, all, deadline());
  };
  const Status status = tell_together(alive, agree, tell);
  if (!status.ok()) throw not_all_came(team, "the telling of what each did", status);
  std::vector<std::string> texts(team.world());
  const std::size_t longest = all.size() / team.world();
  for (std::uint32_t rank = 0; rank < team.world(); ++rank) {
    if (alive.alive(rank)) texts[rank].assign(reinterpret_cast<const char*>(all.data()) + rank * longest, sizes[rank]);
  }
  return texts;
}

/// When the last of the ranks began an epoch, and when the last one ended it. A rank trains on while others are behind it, so that the longest of
/// their own times for an epoch is more than all need for it.
struct EpochSpan {
  double begin = 0;
  double end = 0;

  void add(const RankEpochRecord& part) {
    begin = std::max(begin, part.end_seconds - part.seconds);
    end = std::max(end, part.end_seconds);
  }
};

/// An epoch of all ranks: from when the last of them has ended the one before until the last has ended it; its digest is that of all samples.
void add_rank_epochs(RunRecord& run, const std::vector<RankRecord>& ranks) {
  std::map<std::uint64_t, EpochRecord> epochs;
  std::map<std::uint64_t, EpochSpan> spans;
  std::map<std::uint64_t, SampleSetDigest> digests;
  for (const RankRecord& rank : ranks) {
    for (const RankEpochRecord& part : rank.epochs) {
      const bool is_first = !epochs.contains(part.epoch);
      EpochRecord& epoch = epochs[part.epoch];
      epoch.epoch = part.epoch;
      spans[part.epoch].add(part);
      epoch.samples += part.samples;
      epoch.cache_hits = epoch.cache_hits.value_or(0) + part.cache_hits;
      epoch.cache_misses = epoch.cache_misses.value_or(0) + part.samples - std::min(part.samples, part.cache_hits);
      epoch.peer_hits += part.peer_hits;
      epoch.peer_bytes += part.peer_bytes;
      epoch.requested_bytes = epoch.requested_bytes.value_or(0) + part.requested_bytes;
      const auto so_far = is_first ? std::optional<Bytes>(0) : epoch.storage_bytes;
      epoch.storage_bytes = so_far && part.storage_bytes ? std::optional<Bytes>(*so_far + *part.storage_bytes) : std::nullopt;
      digests[part.epoch].add(SampleSetDigest::parse(part.digest));
    }
  }
  run.epochs.clear();
  for (auto& [number, epoch] : epochs) {
    epoch.digest = digests[number].text();
    epoch.seconds = spans[number].end - spans[number].begin;
    run.epochs.push_back(epoch);
  }
}

}  // namespace

RankRecord record_rank(const RunContext& context, const Measured& measured, Pipeline& pipeline, const Loader& loader,
                       const PartitionedShare::Account& account, const TrainingLog& log) {
  const RunRecord& run = measured.record;
  RankTeam& team = *context.inputs.team;
  RankRecord record;
  record.rank = static_cast<int>(team.rank());
  record.host = host_name();
  record.end = JobEnd::finished;
  record.samples_per_s = measured.rate.samples_per_s;
  record.ci95_samples_per_s = measured.rate.ci95_samples_per_s;
  record.epoch_seconds = run.epoch_seconds / std::max(1, context.inputs.settings.world);
  record.seconds = run.seconds;
  record.samples = run.samples;
  record.samples_failed = run.samples_failed;
  record.cache_hits = run.cache_hits;
  record.cache_misses = run.cache_misses;
  const LoaderTotals totals = loader.totals();
  record.peer_hits = totals.peer_hits;
  record.peer_bytes = totals.peer_bytes;
  if (context.inputs.settings.partition != PartitionMode::none) record.redirected_requests = pipeline.partitioned_engine().redirected();
  const RankCounters counters = team.ranks().counters();
  record.served_samples = counters.requests_served;
  record.served_bytes = counters.bytes_sent;
  record.refused_connections = counters.strangers();
  record.requested_bytes = run.requested_bytes;
  record.storage_bytes = run.storage_bytes;
  const CacheTotals held = pipeline.cache().totals();
  record.held_samples = held.items;
  record.held_bytes = held.bytes;
  record.adopted_samples = account.adopted_samples;
  record.adopted_bytes = account.adopted_bytes;
  record.first_batch_seconds = run.first_batch_seconds;
  record.stall_fraction = log.steady_stall_fraction(context.inputs.settings.accelerators);
  record.longest_stall_seconds = to_seconds(log.longest_steady_stall());
  record.peak_memory_bytes = peak_resident_memory();
  const auto ends = log.epoch_ends();
  double end = 0;
  for (const EpochRecord& epoch : run.epochs) {
    if (const auto found = ends.find(epoch.epoch); found != ends.end()) end = to_seconds(found->second - account.begun);
    record.epochs.push_back({epoch.epoch, epoch.seconds, end, epoch.samples, epoch.digest, epoch.cache_hits.value_or(0), epoch.peer_hits,
                             epoch.peer_bytes, epoch.requested_bytes.value_or(0), epoch.storage_bytes});
  }
  return record;
}

std::vector<RankRecord> gather_records(const RunContext& context, AliveRanks& alive, const RankRecord& mine) {
  std::vector<RankRecord> records;
  const std::vector<std::string> texts = gather_texts(context, alive, to_json(mine));
  for (std::uint32_t rank = 0; rank < texts.size(); ++rank) {
    if (alive.alive(rank)) records.push_back(rank_from_json(texts[rank], fmt::format("the record of rank {}", rank)));
  }
  return records;
}

void sum_up_ranks(RunContext& context, RanksMeasured& measured, const Measured& own) {
  RunRecord& run = measured.all.record = own.record;
  WindowedRate rate;
  run.samples = run.samples_failed = run.cache_hits = run.cache_misses = 0;
  run.requested_bytes = 0;
  run.storage_bytes = Bytes{0};
  for (const RankRecord& rank : measured.ranks) {
    // Ranks of one job speed up and slow down together: their intervals add up.
    rate.estimate.value += rank.samples_per_s;
    rate.estimate.ci95.low += rank.ci95_samples_per_s.low;
    rate.estimate.ci95.high += rank.ci95_samples_per_s.high;
    run.seconds = std::max(run.seconds, rank.seconds);
    run.samples += rank.samples;
    run.samples_failed += rank.samples_failed;
    run.cache_hits += rank.cache_hits;
    run.cache_misses += rank.cache_misses;
    run.requested_bytes += rank.requested_bytes;
    run.storage_bytes = run.storage_bytes && rank.storage_bytes ? std::optional<Bytes>(*run.storage_bytes + *rank.storage_bytes) : std::nullopt;
    run.first_batch_seconds = std::max(run.first_batch_seconds, rank.first_batch_seconds);
  }
  rate.kept = own.rate.windows;
  add_rank_epochs(run, measured.ranks);
  measured.all.rate = record_rate(context, "full", rate, mean_sample_bytes(context),
                                  fmt::format("{} ranks together, cold start, everything on, first epoch apart", measured.ranks.size()));
  take_rate(context, measured.all);
}

namespace {

/// Samples that others hold and this rank does not, in random order.
class AskedOfOthers {
 public:
  AskedOfOthers(const DatasetIndex& index, const PartitionRules& rules, const HeldSamples& held, std::uint64_t seed) : m_random(seed) {
    for (SampleId sample = 0; sample < index.size(); ++sample) {
      if (rules.ask(sample, 0) && held.find(sample).empty()) m_samples.push_back(sample);
    }
  }
  [[nodiscard]] bool empty() const { return m_samples.empty(); }
  SampleId draw() { return m_samples[m_random.next() % m_samples.size()]; }

 private:
  std::vector<SampleId> m_samples;
  RandomStream m_random;
};

}  // namespace

std::optional<RateRecord> measure_network(RunContext& context, Pipeline& pipeline, const PartitionRules& rules, const HeldSamples& held,
                                          double seconds) {
  const DatasetIndex& index = *context.subset;
  AskedOfOthers others(index, rules, held, context.inputs.settings.seed + context.inputs.team->rank());
  if (others.empty()) return std::nullopt;
  FetchEngine& engine = pipeline.engine();
  const Nanoseconds begun = context.timing.clock->now();
  const Deadline end = context.timing.clock->after(seconds);
  std::vector<ProgressPoint> progress{{begun, 0}};
  std::uint64_t samples = 0;
  Bytes bytes = 0;
  std::size_t under_way = 0;
  std::array<FetchCompletion, FetchEngine::largest_group> completions;
  bool asking = true;
  while (asking || under_way > 0) {
    asking = context.timing.clock->now() < end.at && !context.stop.stop_requested();
    while (asking && engine.free_places() > 0) {
      const SampleId sample = others.draw();
      const FetchRequest request{sample, sample, index[sample].extent()};
      if (!engine.submit({&request, 1}).ok()) break;
      ++under_way;
    }
    const std::size_t count = engine.reap(completions, context.timing.clock->after(1));
    for (const FetchCompletion& completion : std::span(completions).first(count)) {
      if (completion.status.ok() && completion.source == FetchSource::peer) {
        ++samples;
        bytes += completion.bytes.size();
      }
      if (completion.buffer.id != FetchBuffer::none) engine.release({&completion.buffer, 1});
    }
    under_way -= count;
    if (count == 0 && !asking) break;  // a read that hangs is not waited for
    progress.push_back({context.timing.clock->now(), samples});
  }
  if (samples == 0) return std::nullopt;
  const WindowedRate rate = windowed_rate(progress, {}, begun, progress.back().at, context.inputs.host, JudgeCpu::no);
  return record_rate(context, "network", rate, static_cast<double>(bytes) / static_cast<double>(samples),
                     "samples that other ranks hold, in random order, while all ranks ask one another");
}

}  // namespace dsanalyze
