#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "../base/texts.hpp"
#include "golden.hpp"
#include "report/document/profile_text.hpp"
#include "report/report.hpp"
#include "report_samples.hpp"

using namespace dsanalyze;
using namespace dsanalyze::test;
using testing::check_golden;
using testing::says;

namespace {

const HtmlAssets bare_page{"<title>{{title}}</title><p>{{subtitle}}</p>{{navigation}}{{sections}}{{record}}{{scripts}}", "", "", ""};

std::string page_about(const ReportInput& input) { return html_report(std::array{input}, bare_page); }

RateRecord rate_of_ranks(double value, double half, double bytes_per_s) {
  RateRecord record;
  record.samples_per_s = value;
  record.ci95_samples_per_s = {value - half, value + half};
  record.bytes_per_s = bytes_per_s;
  record.windows = 12;
  return record;
}

RankRecord rank_of_four(int number) {
  RankRecord rank;
  rank.rank = number;
  rank.host = "node-" + std::to_string(17 + number);
  rank.end = number == 2 ? JobEnd::lost : JobEnd::finished;
  rank.samples_per_s = 1520.5 + number;
  rank.ci95_samples_per_s = {rank.samples_per_s - 20, rank.samples_per_s + 20};
  rank.epoch_seconds = number == 2 ? 0 : 2.05;
  rank.stall_fraction = 0.3125;
  rank.samples = 9375;
  rank.cache_hits = 1563;
  rank.cache_misses = 7812;
  rank.peer_hits = 4687;
  rank.peer_bytes = 515'570'000;
  rank.storage_bytes = 343'750'000;
  rank.held_bytes = 343'750'000;
  rank.served_bytes = 515'570'000;
  return rank;
}

/// Four ranks with a partitioned cache, the third of which is lost. 12,500 samples of 110 kB.
ProfileResult of_ranks() {
  ProfileResult result;
  result.trusted = true;
  result.host.cpu_model = "Example CPU 2.0 GHz";
  result.host.cores = 8;
  result.host.memory_bytes = Bytes{16} << 30;
  result.dataset.path = "/data/train";
  result.dataset.samples = 12'500;
  result.dataset.bytes = result.dataset.subset_bytes = 1'375'000'000;
  result.ingestion = rate_of_ranks(2500, 10, 0);
  result.prep = rate_of_ranks(8200, 100, 0);
  result.cache = rate_of_ranks(252'000, 900, 27.7e9);
  result.storage = rate_of_ranks(2100, 40, 231e6);
  result.network = rate_of_ranks(1900, 35, 209e6);
  result.fetch = rate_of_ranks(2240, 40, 0);
  result.fetch->cache_fraction = 0.167;
  result.settings.accelerator = AcceleratorKind::emulated;
  result.settings.accelerators = 8;
  result.settings.accelerator_name = "emulated:312";
  result.settings.world = 4;
  result.settings.partition = PartitionMode::partitioned;
  result.bottleneck = BottleneckRecord{"io", "network", true, "F is lower than G, the next", "gpu"};
  for (int number = 0; number < 4; ++number) result.ranks.push_back(rank_of_four(number));
  result.partition = PartitionRecord{"partitioned", "peers", "server", 4, 3, 0, 0, 0, {{2, 1, std::vector<SampleId>(3125)}}};
  RunRecord full;
  full.name = "full";
  full.samples_per_s = 6088;
  full.epoch_seconds = 2.05;
  full.storage_bytes = 1'375'000'000;
  full.cache_hits = 6252;
  full.cache_misses = 31'248;
  result.runs = {full};
  return result;
}

std::size_t widest(const std::string& text) {
  std::size_t most = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    most = std::max(most, static_cast<std::size_t>(std::ranges::count_if(line, [](char byte) { return (byte & 0xC0) != 0x80; })));
  return most;
}

std::string part_of(const std::string& page, const std::string& from, const std::string& to) {
  return page.substr(page.find(from), page.find(to) - page.find(from));
}

}  // namespace

TEST_CASE("the console summary of ranks is as its golden file") { check_golden("profile_ranks", console_summary(of_ranks(), {})); }

TEST_CASE("what ranks had in common is one sentence: how the dataset was partitioned, what moved, and what no cache holds") {
  PartitionRecord partition = *of_ranks().partition;
  CHECK(report::partition_text(partition) ==
        "4 ranks, partitioned: a miss asks the rank that holds the sample, then storage; together they have room for all samples; 3 of them were "
        "there at "
        "the end");
  partition.nowhere_samples = 1;
  partition.nowhere_bytes = 110'000;
  partition.ranks_at_end = 4;
  partition.storage_scope = "shared";
  CHECK(says(report::partition_text(partition),
             "then storage; all read from one storage; no cache has room for 1 sample (107 KiB), which storage serves in every epoch"));
  partition.partition = "locality";
  partition.balance_traffic = 0.0345;
  CHECK(report::partition_text(partition).starts_with(
      "4 ranks, locality-aware: each trains what it holds of every batch, and 3.5 % of a batch moved to even the parts out; all read"));
  partition.balance_from = "storage";
  CHECK(says(report::partition_text(partition), "3.5 % of a batch came from storage to even the parts out"));
  partition = {"none", "peers", "server", 1, 1, 0, 0, 0, {}};
  CHECK(report::partition_text(partition) == "1 rank, each with a cache of its own");
}

TEST_CASE("each lost rank is named with what is not known to be trained, and of many the first") {
  PartitionRecord partition = *of_ranks().partition;
  CHECK(report::lost_texts(partition) ==
        std::vector<std::string>{"rank 2 was lost in epoch 1: its 3,125 samples of that epoch are not known to be trained"});
  partition.lost = {{0, 2, {}}, {1, 0, {7}}};
  CHECK(report::lost_texts(partition) ==
        std::vector<std::string>{"rank 0 was lost in epoch 2, and no sample of that epoch with it",
                                 "rank 1 was lost in epoch 0: its 1 sample of that epoch is not known to be trained"});
  partition.lost.resize(300, {3, 1, {1, 2}});
  const auto texts = report::lost_texts(partition);
  CHECK(texts.size() == 9);
  CHECK(texts.back() == "292 more were lost; the JSON record names them");
}

TEST_CASE("the configuration says how many ranks there are and how they part the dataset") {
  ProfileResult result = of_ranks();
  CHECK(says(report::setup_text(result), "accelerators 8 x emulated:312 a rank; 4 ranks, partitioned; cache minio, 25 % of the dataset in each"));
  result.settings.partition = PartitionMode::locality;
  result.settings.balance_from = BalanceFrom::storage;
  result.settings.storage_scope = StorageScope::shared;
  result.settings.network = Seam::emulated;
  result.settings.network_bytes_per_s = 5e9;
  CHECK(says(report::setup_text(result), "4 ranks, locality-aware, balanced from storage, one storage for all, emulated links of 5 GB/s"));
  result.settings.partition = PartitionMode::none;
  CHECK(says(report::setup_text(result), "4 ranks, each with a cache of its own"));
  result.settings.world = 1;
  CHECK_FALSE(says(report::setup_text(result), "rank"));
}

TEST_CASE("a verdict over an emulated network says so, and one whose bottleneck is the network compares N") {
  ProfileResult result = of_ranks();
  result.settings.accelerator = AcceleratorKind::cpu;
  CHECK_FALSE(console_summary(result, {}).starts_with("emulated"));
  CHECK(says(console_summary(result, {Colour::off, 120}), "others' caches can supply 1,900 ± 35 samples/s [N]"));
  result.settings.network = Seam::emulated;
  CHECK(console_summary(result, {}).starts_with("emulated"));
}

TEST_CASE("the console shows the first of many ranks, none where there is one server, and hostile host names harm nothing") {
  ProfileResult result = of_ranks();
  result.ranks.resize(300, result.ranks.front());
  result.ranks[1].host = std::string("evil\x1b[2J\r\n\xff") + std::string(1'000'000, 'x');
  const std::string text = console_summary(result, {});
  CHECK(says(text, "32 of 300 ranks; the JSON record has them all"));
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(says(text, "evil\\x1b[2J"));
  CHECK(text.size() < 40'000);
  CHECK(widest(console_summary(result, {Colour::off, 40})) <= 40);
  CHECK(widest(console_summary(result, {Colour::off, 120})) <= 120);
  result.ranks.clear();
  result.partition.reset();
  result.network.reset();
  result.settings = {};
  CHECK_FALSE(says(console_summary(result, {}), "rank"));
}

TEST_CASE("ranks have a section on the page: what they had in common, who was lost, each rank, its traffic and its epochs") {
  const std::string page = page_about(full_input("full.json"));
  const std::string section = part_of(page, "id=\"ranks\"", "id=\"training\"");
  for (const std::string part : {"3 ranks, locality-aware", "of a batch came from storage", "no cache has room for 7 samples",
                                 "Rank 2 was lost in epoch 1: its 4 samples", "node-b", "lost", "35-bb", "1.29 KiB", "14 (1.5 KiB)"})
    CHECK_MESSAGE(says(section, part), part);
  CHECK(says(page, "full, rank 1"));
  CHECK(says(page, "others&#39; caches can supply"));
  CHECK_FALSE(says(page_about({"least", least_profile(), {}, ""}), "Ranks on their servers"));

  ReportInput several = full_input("full.json");
  std::get<ProfileResult>(several.record).settings.jobs = 1;
  CHECK(says(page_about(several), "of one of the 3 servers, alone"));
}

TEST_CASE("a page of four thousand ranks with many epochs shows a part of them and says so") {
  ReportInput input = full_input("full.json");
  auto& profile = std::get<ProfileResult>(input.record);
  profile.ranks.resize(4096, profile.ranks[1]);
  for (RankRecord& rank : profile.ranks) rank.epochs.resize(5, profile.ranks[1].epochs[0]);
  const std::string page = page_about(input);
  CHECK(says(page, "each rank in the full run, 300 of 4,096 (the JSON record has them all)"));
  CHECK(says(page, "the epochs of each rank, 300 of 20,480 (the JSON record has them all)"));
}

TEST_CASE("host names that hold markup end no element, no cell of Markdown and no label of the metrics") {
  const std::string hostile = "\"'><img src=x onerror=alert(1)></script>|a|`b`\n# EOF\n\\\x1b[31m\xff";
  ReportInput input = full_input("full.json");
  auto& profile = std::get<ProfileResult>(input.record);
  profile.ranks[1].host = hostile;
  profile.ranks[1].epochs[0].digest = hostile;
  CHECK_FALSE(says(page_about(input), "<img"));
  const std::string markdown = markdown_report(std::array{input});
  CHECK_FALSE(says(markdown, "<img"));
  CHECK_FALSE(says(markdown, "|a|"));
  CHECK(markdown.find('\x1b') == std::string::npos);
  const std::string metrics = open_metrics(profile);
  CHECK(metrics.find("\n# EOF") == metrics.size() - std::string("\n# EOF\n").size());
  CHECK(metrics.find('\x1b') == std::string::npos);
  CHECK(says(metrics, R"(rank="1",host="\"'><img)"));
}

TEST_CASE("several results show whose ranks are whose") {
  const std::string page = html_report(std::array{full_input("a.json"), full_input("b.json")}, bare_page);
  const std::string section = part_of(page, "id=\"ranks\"", "id=\"training\"");
  CHECK(says(section, "a.json: 3 ranks"));
  CHECK(says(section, "b.json: 3 ranks"));
}
