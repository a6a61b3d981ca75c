#include <fmt/format.h>

#include <algorithm>

#include "core/records/rate_text.hpp"
#include "profile_document.hpp"
#include "profile_text.hpp"
#include "record_texts.hpp"

namespace dsanalyze::report {
namespace {

constexpr std::size_t most_rank_rows = 300;

std::size_t all_ranks(ProfileViews views) {
  std::size_t ranks = 0;
  for (const ProfileView& view : views) ranks += view.profile->ranks.size();
  return ranks;
}

/// A row of the table for each rank, evenly chosen where there are too many for a page.
template <typename Cells>
void add_rank_rows(ProfileViews views, Table& table, Cells cells_of) {
  std::size_t shown = 0;
  for (const ProfileView& view : views)
    for (const std::size_t at : spread(view.profile->ranks.size(), std::max<std::size_t>(most_rank_rows / views.size(), 4))) {
      add_row(views, view, table, cells_of(view.profile->ranks[at]));
      ++shown;
    }
  say_shown(table, shown, all_ranks(views));
}

Table ranks_table(ProfileViews views) {
  Table table{"each rank in the full run", with_label(views, {{"rank"},
                                                              {"host", Align::left},
                                                              {"samples/s"},
                                                              {"an epoch"},
                                                              {"stalled"},
                                                              {"longest wait"},
                                                              {"first batch"},
                                                              {"samples"},
                                                              {"failed"},
                                                              {"own cache"},
                                                              {"others' caches"},
                                                              {"storage"},
                                                              {"end", Align::left}})};
  add_rank_rows(views, table, [](const RankRecord& rank) -> std::vector<std::string> {
    return {fmt::format("{}", rank.rank),
            host_name_text(rank),
            format_rate(rank.samples_per_s, rank.ci95_samples_per_s),
            seconds_text(rank.epoch_seconds),
            format_share(rank.stall_fraction),
            seconds_text(rank.longest_stall_seconds),
            seconds_text(rank.first_batch_seconds),
            count_text(rank.samples),
            count_text(rank.samples_failed),
            count_text(rank.cache_hits),
            count_text(rank.peer_hits),
            count_text(samples_from_storage(rank)),
            enum_name(rank.end)};
  });
  return table;
}

Table traffic_table(ProfileViews views) {
  Table table{"what each rank had, got and gave", with_label(views, {{"rank"},
                                                                     {"holds"},
                                                                     {"of these adopted"},
                                                                     {"from others"},
                                                                     {"redirected"},
                                                                     {"to others"},
                                                                     {"asked of storage"},
                                                                     {"from storage"},
                                                                     {"memory at most"},
                                                                     {"strangers refused"}})};
  add_rank_rows(views, table, [](const RankRecord& rank) -> std::vector<std::string> {
    return {fmt::format("{}", rank.rank),
            fmt::format("{} ({})", count_text(rank.held_samples), format_bytes(rank.held_bytes)),
            fmt::format("{} ({})", count_text(rank.adopted_samples), format_bytes(rank.adopted_bytes)),
            format_bytes(rank.peer_bytes),
            count_text(rank.redirected_requests),
            fmt::format("{} ({})", count_text(rank.served_samples), format_bytes(rank.served_bytes)),
            format_bytes(rank.requested_bytes),
            bytes_text(rank.storage_bytes),
            format_bytes(rank.peak_memory_bytes),
            count_text(rank.refused_connections)};
  });
  return table;
}

Table rank_epochs_table(ProfileViews views) {
  Table table{"the epochs of each rank", with_label(views, {{"rank"},
                                                            {"epoch"},
                                                            {"took"},
                                                            {"samples"},
                                                            {"own cache"},
                                                            {"others' caches"},
                                                            {"from others"},
                                                            {"asked of storage"},
                                                            {"from storage"},
                                                            {"digest of the samples", Align::left}})};
  std::size_t all = 0, shown = 0;
  for (const ProfileView& view : views) {
    const auto& ranks = view.profile->ranks;
    for (const RankRecord& rank : ranks) all += rank.epochs.size();
    for (const std::size_t which : spread(ranks.size(), std::max<std::size_t>(most_rank_rows / 4 / views.size(), 1))) {
      const RankRecord& rank = ranks[which];
      for (const std::size_t at : spread(rank.epochs.size(), std::max<std::size_t>(most_rank_rows / all_ranks(views), 4))) {
        const RankEpochRecord& epoch = rank.epochs[at];
        ++shown;
        add_row(views, view, table,
                {fmt::format("{}", rank.rank), count_text(epoch.epoch), format_seconds(epoch.seconds), count_text(epoch.samples),
                 count_text(epoch.cache_hits), count_text(epoch.peer_hits), format_bytes(epoch.peer_bytes), format_bytes(epoch.requested_bytes),
                 bytes_text(epoch.storage_bytes), epoch.digest});
      }
    }
  }
  say_shown(table, shown, all);
  return table;
}

}  // namespace

Section ranks_section(ProfileViews views) {
  Section section{"ranks", "Ranks on their servers"};
  for (const ProfileView& view : views) {
    if (!view.profile->partition) continue;
    section.blocks.emplace_back(Paragraph{(views.size() > 1 ? view.label + ": " : "") + partition_text(*view.profile->partition) + "."});
    List lost;
    for (const std::string& text : lost_texts(*view.profile->partition)) lost.items.push_back(begun(text) + ".");
    if (!lost.items.empty()) section.blocks.emplace_back(std::move(lost));
  }
  Table ranks = ranks_table(views);
  if (ranks.rows.empty()) return section;
  section.blocks.emplace_back(
      Figure{"",
             "Each rank trains a part of every batch. The run full above is that of all together. Where its samples came from: "
             "its own cache, other ranks' caches, storage.",
             {},
             std::move(ranks)});
  section.blocks.emplace_back(
      Figure{"What each rank had, got and gave",
             "Adopted: read into the cache after the first epoch, because no rank held it. Redirected: requests that the rank "
             "asked first did not serve.",
             {},
             traffic_table(views)});
  Table epochs = rank_epochs_table(views);
  if (!epochs.rows.empty())
    section.blocks.emplace_back(
        Figure{"Epochs of each rank", "Digests are of the rank's own samples, in whatever order.", {}, std::move(epochs), Folding::folded});
  return section;
}

}  // namespace dsanalyze::report
