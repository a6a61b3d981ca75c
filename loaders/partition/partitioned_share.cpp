#include "partitioned_share.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "loaders/sampler.hpp"

namespace dsanalyze {
namespace {

constexpr double agree_look_seconds = 0.2;  ///< how often a rank that waits for the others looks whether it should stop

}  // namespace

struct PartitionedShare::State {
  /// What a rank says of itself before an epoch.
  struct Report {
    Bytes capacity = 0;
    Bytes free = 0;
    std::uint64_t enough = 0;
    std::uint64_t dealing = 0;  ///< it is in the first epoch, or no epoch has begun
    std::uint64_t epoch = 0;    ///< that it begins, with so many samples before its first batch
    std::uint64_t position = 0;
  };

  State(Parts given, const Options& chosen)
      : parts(std::move(given)),
        options(chosen),
        self(static_cast<std::uint32_t>(parts.ranks->rank())),
        alive(static_cast<std::uint32_t>(parts.ranks->world())) {}

  [[nodiscard]] bool is_partitioned() const { return options.mode != PartitionMode::none; }

  /// An epoch that goes on: who takes part in it.
  struct Running {
    std::uint64_t epoch = 0;
    AliveRanks ranks;
  };

  /// Ranks may be lost between any two of the agreements below: what depends on who is alive is settled after the last one.
  Status begin(std::uint64_t next, std::uint64_t position) {
    beginning = {next, position};
    const AliveRanks before = alive;
    if (Status status = together([this] { return exchange_reports(); }); !status.ok()) return status;
    if (Status status = require_one_place(); !status.ok()) return status;
    if (std::exchange(restarted, false)) settle_restart();
    const bool is_over = std::ranges::any_of(reports, [](const Report& report) { return report.enough != 0; });
    std::optional<PartitionDirectory> made;
    if (dealt && !is_over) {
      if (Status status = make(made); !status.ok()) return status;
    }
    note_lost(before, next);
    if (options.needs_all && !account.lost.empty()) return lack(account.lost);
    if (is_over) return {StatusCode::end, 0};
    start(next, std::move(made));
    return {};
  }

  /// Ranks that were stopped while an epoch began may have come to its directory, or not: where they differ, it is made once more. Where all were in
  /// the first epoch, this is one again, in what room is left.
  void settle_restart() {
    const auto is_dealing = [](const Report& report) { return report.dealing != 0; };
    if (!is_partitioned() || std::ranges::none_of(reports, is_dealing)) return;
    const bool all_deal = std::ranges::all_of(reports, is_dealing);
    directory.reset();
    locality.reset();
    dealt.reset();
    if (!all_deal) dealt.emplace(parts.index->records(), of_reports(&Report::free), self);
  }

  Status require_one_place() {
    for (std::uint32_t rank = 0; rank < alive.ranks(); ++rank) {
      const Report& report = reports[rank];
      if (!alive.alive(rank) || (report.epoch == beginning.epoch && report.position == beginning.position)) continue;
      const std::scoped_lock lock(mutex);
      reason = fmt::format(
          "rank {} begins epoch {} behind {} samples, and rank {} epoch {} behind {}: all ranks set the same epoch, load states of one moment, and "
          "leave a pass after as many batches",
          self, beginning.epoch, beginning.position, rank, report.epoch, report.position);
      return {StatusCode::io, 0};
    }
    return {};
  }

  Status lack(std::span<const Lost> lost) {
    const std::scoped_lock lock(mutex);
    reason = fmt::format("rank {} of {} was lost, and no training goes on without it: start all ranks again", lost.front().rank, alive.ranks());
    return {StatusCode::end, 0};
  }

  /// `made`: after the first epoch.
  void start(std::uint64_t next, std::optional<PartitionDirectory> made) {
    if (!running) account.begun = parts.timing.clock->now();
    running = Running{next, alive};
    alive_count = alive.count();
    if (made) {
      dealt.reset();
      directory = std::move(made);
      if (options.mode == PartitionMode::locality) locality.emplace(*directory, self, options.balance);
    } else if (is_partitioned() && !directory) {
      dealt.emplace(parts.index->records(), of_reports(&Report::free), self);
    }
    if (dealt) dealt->reset(alive);
    if (locality) locality->reset(alive);
  }

  template <typename Tell>
  Status together(const Tell& tell) {
    return tell_together(
        alive, [this] { return agree(); },
        [&] {
          const Status told = tell();
          return told.ok() ? told : explain(told, "telling the others of its cache");
        });
  }

  Status agree() {
    const Deadline last = patience();
    Status status{StatusCode::timeout, 0};
    while (status.code == StatusCode::timeout && parts.timing.clock->now() < last.at) {
      if (stopped) return {StatusCode::cancelled, 0};
      status = parts.ranks->agree(alive, {std::min(last.at, parts.timing.clock->after(agree_look_seconds).at)});
    }
    return status.ok() ? status : explain(status, "agreeing with the others on who goes on");
  }

  Status exchange_reports() {
    const CacheTotals totals = parts.cache->totals();
    const Report mine{totals.capacity,
                      totals.capacity - std::min(totals.bytes, totals.capacity),
                      running && options.enough && options.enough() ? std::uint64_t{1} : 0,
                      directory ? std::uint64_t{0} : 1,
                      beginning.epoch,
                      beginning.position};
    reports.assign(alive.ranks(), {});
    return parts.ranks->gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(reports)), patience());
  }

  [[nodiscard]] std::vector<Bytes> capacities() const { return of_reports(&Report::capacity); }
  [[nodiscard]] std::vector<Bytes> of_reports(Bytes Report::*field) const {
    std::vector<Bytes> values;
    for (const Report& report : reports) values.push_back(report.*field);
    return values;
  }

  [[nodiscard]] std::vector<std::byte> held_bitmap() const {
    std::vector<std::byte> bitmap(held_bitmap_bytes(parts.index->size()));
    for (SampleId sample = 0; sample < parts.index->size(); ++sample) {
      if (!parts.held->find(sample).empty()) bitmap[sample / 8] |= std::byte{1} << (sample % 8);
    }
    return bitmap;
  }

  /// The directory: who holds what, once what no cache held is adopted. What a rank that is lost meanwhile held, or was to adopt, is held by none:
  /// the others make the directory again, without it.
  Status make(std::optional<PartitionDirectory>& made) {
    for (bool is_whole = false; !is_whole;) {
      const std::vector<std::byte> bitmap = held_bitmap();
      std::vector<std::byte> bitmaps;
      const auto tell = [&]() -> Status {
        if (Status status = exchange_reports(); !status.ok()) return status;
        bitmaps.assign(bitmap.size() * alive.ranks(), {});
        return parts.ranks->gather(bitmap, bitmaps, patience());
      };
      if (Status status = together(tell); !status.ok()) return status;
      MadeDirectory all = make_directory({bitmaps, of_reports(&Report::free), capacities()}, parts.index->records());
      account.nowhere_samples = all.nowhere;
      account.nowhere_bytes = all.nowhere_bytes;
      const AliveRanks told = alive;
      if (std::ranges::any_of(all.adopted, [](const auto& of_rank) { return !of_rank.empty(); })) {
        if (Status status = adopt(all.adopted[self]); !status.ok()) return status;
        // No rank asks for what is not there yet.
        if (Status status = agree(); !status.ok()) return status;
      }
      is_whole = alive == told;
      if (is_whole) made.emplace(std::move(all.directory));
    }
    return {};
  }

  Status adopt(std::span<const SampleId> samples) {
    std::vector<SampleId> admitted;
    for (const SampleId sample : samples) {
      const CacheAccess access{sample, (*parts.index)[sample].length, 0, partition_priority};
      CacheLookup lookup;
      parts.cache->lookup({&access, 1}, {&lookup, 1});
      if (lookup.decision == CacheDecision::admit) admitted.push_back(sample);
    }
    std::vector<SampleId> stored;
    const auto take = [&](SampleId sample, std::span<const std::byte> bytes) {
      stored.push_back(sample);
      if (!parts.cache->store(sample, bytes).ok()) return;
      ++account.adopted_samples;
      account.adopted_bytes += bytes.size();
    };
    const Status status = engine->read_aside(admitted, take, patience());
    std::ranges::sort(stored);
    for (const SampleId sample : admitted) {
      if (!std::ranges::binary_search(stored, sample)) parts.cache->abandon(sample);
    }
    return status.ok() ? status : explain(status, "reading what no rank held");
  }

  std::span<const SampleId> mine(std::span<const SampleId> global) {
    if (dealt) return dealt->mine(global);
    if (!locality) return Assignment::slice(global, static_cast<int>(alive.place(self)), static_cast<int>(alive.count()));
    const auto part = locality->mine(global);
    ++balanced_batches;
    balance_sum += locality->balance_traffic();
    account.balance_traffic = balance_sum / static_cast<double>(balanced_batches);
    return part;
  }

  /// Ranks that were alive before, and are not now. `next`: the epoch that would have been the first.
  void note_lost(const AliveRanks& before, std::uint64_t next) {
    for (std::uint32_t rank = 0; rank < alive.ranks(); ++rank) {
      if (!before.alive(rank) || alive.alive(rank)) continue;
      account.lost.push_back(running ? Lost{rank, running->epoch, share_of(rank)} : Lost{rank, next, {}});
    }
  }

  void end(const AliveRanks& met) {
    if (!running) return;
    const AliveRanks before = std::exchange(alive, met);
    note_lost(before, running->epoch);
  }

  /// The draw of the epoch that ends, again, for another rank.
  std::vector<SampleId> share_of(std::uint32_t rank) {
    const AliveRanks& ranks = running->ranks;
    SamplerState start;
    start.seed = options.seed;
    start.epoch = running->epoch;
    start.samples = parts.index->size();
    Sampler sampler(start, options.rank_batch * ranks.count());
    if (dealt) dealt->reset(ranks);
    if (locality) locality->reset(ranks);
    std::vector<SampleId> share;
    std::uint64_t of_epoch = 0;
    for (bool last = false; !last;) {
      const auto global = sampler.next(of_epoch, last);
      const auto part = part_of(rank, ranks, global);
      share.insert(share.end(), part.begin(), part.end());
    }
    return share;
  }

  std::span<const SampleId> part_of(std::uint32_t rank, const AliveRanks& ranks, std::span<const SampleId> global) {
    if (dealt) {
      dealt->mine(global);
      return dealt->part(rank);
    }
    if (!locality) return Assignment::slice(global, static_cast<int>(ranks.place(rank)), static_cast<int>(ranks.count()));
    locality->mine(global);
    return locality->part(rank);
  }

  [[nodiscard]] Deadline patience() const { return parts.timing.clock->after(options.patience_seconds); }

  Status explain(Status status, std::string_view doing) {
    if (stopped) return {StatusCode::cancelled, 0};
    const std::string given_up = parts.ranks->given_up();
    const std::scoped_lock lock(mutex);
    if (!given_up.empty()) {
      reason = fmt::format("rank {} of {} cannot go on: {}", self, alive.ranks(), given_up);
      return status;
    }
    if (status.code == StatusCode::cancelled) {
      reason = fmt::format("rank {} of {} cannot go on: another rank set an epoch, loaded a state or left its pass, and this one did not", self,
                           alive.ranks());
      return {StatusCode::io, 0};
    }
    reason = fmt::format("rank {} of {} cannot go on: {} failed ({}); another rank has ended, or is more than {:g} s behind", self, alive.ranks(),
                         doing, status_name(status.code), options.patience_seconds);
    return status;
  }

  Parts parts;
  Options options;
  std::uint32_t self;
  PartitionedEngine* engine = nullptr;
  AliveRanks alive;  ///< as agreed on last
  struct Place {
    std::uint64_t epoch = 0;
    std::uint64_t position = 0;
  };
  Place beginning;
  std::optional<Running> running;             ///< the epoch that was started last
  std::atomic<std::uint32_t> alive_count{0};  ///< ranks of `running`, for any thread
  std::vector<Report> reports;                ///< by rank, of those alive when they were told; zeros of the others
  std::optional<DealtAssignment> dealt;       ///< in the first epoch
  std::optional<PartitionDirectory> directory;
  std::optional<LocalityAssignment> locality;
  std::uint64_t balanced_batches = 0;
  double balance_sum = 0;
  Account account;
  std::atomic<bool> stopped{false};
  bool restarted = false;
  mutable std::mutex mutex;
  std::string reason;
};

PartitionedShare::PartitionedShare(Parts parts, const Options& options) : m_state(std::make_unique<State>(std::move(parts), options)) {}
PartitionedShare::~PartitionedShare() = default;

void PartitionedShare::read_with(PartitionedEngine& engine) { m_state->engine = &engine; }
Status PartitionedShare::begin_epoch(std::uint64_t epoch, std::uint64_t position) {
  const Status status = m_state->begin(epoch, position);
  // What was drawn before is given all the same: who asks for more is told.
  if (m_state->options.needs_all && (status.code == StatusCode::io || status.code == StatusCode::timeout)) return {StatusCode::end, 0};
  return status;
}
void PartitionedShare::restart() {
  m_state->parts.ranks->restart();
  m_state->stopped = false;
  m_state->restarted = true;
  const std::scoped_lock lock(m_state->mutex);
  m_state->reason.clear();
}
std::uint32_t PartitionedShare::ranks() const { return m_state->alive_count; }
std::span<const SampleId> PartitionedShare::mine(std::span<const SampleId> global) { return m_state->mine(global); }
void PartitionedShare::stop() {
  m_state->stopped = true;
  // Where the ranks meet again once they have loaded, what they say then is not cancelled.
  if (m_state->options.needs_all) m_state->parts.ranks->stop();
}
std::string PartitionedShare::failure() const {
  const std::scoped_lock lock(m_state->mutex);
  return m_state->reason;
}

std::optional<std::uint32_t> PartitionedShare::ask(SampleId sample, std::uint32_t attempt) const {
  const State& state = *m_state;
  if (!state.directory || (state.locality && state.options.balance == BalanceFrom::storage)) return std::nullopt;
  return state.directory->next_to_ask(sample, state.self, state.alive, attempt);
}

bool PartitionedShare::keeps(SampleId sample) const { return !m_state->directory || m_state->directory->is_holder(m_state->self, sample); }

void PartitionedShare::ended(const AliveRanks& met) { m_state->end(met); }

const PartitionedShare::Account& PartitionedShare::account() const { return m_state->account; }

}  // namespace dsanalyze
