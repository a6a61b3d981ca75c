#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "../core/sample_results.hpp"
#include "../loaders/prep/jpeg_images.hpp"
#include "../loaders/prep/png_images.hpp"
#include "../loaders/prep/webp_images.hpp"
#include "base/error.hpp"
#include "base/system/files.hpp"
#include "core/dependent/dependent_group.hpp"
#include "core/index.hpp"
#include "core/trace/access_trace.hpp"
#include "core/trace/draw_trace.hpp"
#include "loaders/dataset/dataset.hpp"

// Writes the corpora of images, indexes, traces and records below a folder.

namespace dsanalyze {
namespace {

void write(const std::filesystem::path& file, std::span<const std::byte> bytes) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

void write_jpegs(const std::filesystem::path& folder) {
  using test::Inks;
  using test::Scans;
  for (const Inks inks : {Inks::grey, Inks::rgb, Inks::ycc, Inks::cmyk, Inks::ycck}) {
    for (const Scans scans : {Scans::baseline, Scans::progressive}) {
      test::ImageKind kind{40, 24, inks, scans, 2, scans == Scans::baseline ? 2 : 1, 60, inks == Inks::ycc ? 2 : 0};
      write(folder / (std::to_string(static_cast<int>(inks)) + std::to_string(static_cast<int>(scans)) + ".jpg"), test::encode_picture(kind));
    }
  }
  const auto whole = test::encode_picture({40, 24});
  write(folder / "half.jpg", std::span(whole).first(whole.size() / 2));
  write(folder / "absurd.jpg", test::with_dimensions(whole, 65'535, 65'535));
}

void write_pngs(const std::filesystem::path& folder) {
  int number = 0;
  for (const test::PngKind& kind : test::all_png_kinds(13, 9)) write(folder / (std::to_string(number++) + ".png"), test::encode_png(kind));
  const auto whole = test::encode_png({13, 9});
  write(folder / "half.png", std::span(whole).first(whole.size() / 2));
  write(folder / "absurd.png", test::with_png_dimensions(whole, 65'535, 65'535));
}

void write_webps(const std::filesystem::path& folder) {
  int number = 0;
  for (const test::WebpKind& kind : test::all_webp_kinds(24, 17)) write(folder / (std::to_string(number++) + ".webp"), test::encode_webp(kind));
  const auto whole = test::encode_webp({24, 17});
  write(folder / "half.webp", std::span(whole).first(whole.size() / 2));
  write(folder / "absurd.webp", test::with_webp_dimensions(whole, 16'383, 16'383));
  write(folder / "animated.webp", test::animated_webp());
}

void write_index(const std::filesystem::path& file, DatasetIndexBuilder builder, const DatasetIndex::Facts& facts) {
  const std::string bytes = make_index_bytes(*std::move(builder).build(facts));
  write(file, std::as_bytes(std::span(bytes)));
}

void write_indexes(const std::filesystem::path& folder) {
  DatasetIndex::Facts facts;
  facts.root = "/data";
  facts.format = "folder";
  facts.skipped = {"notes.txt"};
  facts.skipped_count = 1;
  facts.folders = {{"", 1}, {"cat", 2}};
  DatasetIndexBuilder images;
  images.add_label("cat");
  images.add_label("dog");
  for (std::uint32_t i = 0; i < 3; ++i) images.add_sample({0, 100 + i, images.add_file("cat/" + std::to_string(i) + ".jpg"), i % 2});
  write_index(folder / "folder.dsidx", std::move(images), facts);

  facts = {};
  facts.root = "/data";
  facts.source = "/data/train-{0..1}.tar";
  facts.format = "tar";
  facts.files = {{"train-0.tar", 10'240, 3}, {"train-1.tar", 10'240, 4}};
  facts.findings = {{"tar-torn", Finding::Severity::warning, "train-1.tar is cut off at byte 4000, within the data of 3.jpg"}};
  DatasetIndexBuilder shards;
  for (const char* name : {"train-0.tar", "train-1.tar"}) {
    const std::uint32_t file = shards.add_file(name);
    for (std::uint64_t i = 0; i < 3; ++i) shards.add_sample({512 + 1024 * i, 500, file, i < 2 ? 0 : IndexRecord::no_label});
  }
  write_index(folder / "tar.dsidx", std::move(shards), facts);

  facts = {};
  facts.root = "/data";
  facts.format = "npy";
  facts.array = ArrayDescription{"<f4", {2, 3}, 24};
  DatasetIndexBuilder rows;
  const std::uint32_t file = rows.add_file("x.npy");
  for (std::uint64_t i = 0; i < 4; ++i) rows.add_sample({128 + 24 * i, 24, file, 0});
  write_index(folder / "npy.dsidx", std::move(rows), facts);
}

/// One trace of one job, one of two jobs that pass from epoch to epoch apart, an empty one, a torn one.
void write_traces(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  const auto write_trace = [&folder](const char* name, std::uint32_t jobs, std::uint32_t accesses) {
    AccessTraceWriter writer(folder / name, {8, 800, "d", jobs, {ReplayPolicy::lru, 300, 0}, {0.001, 1e-8}});
    for (std::uint32_t i = 0; i < accesses; ++i) {
      const CacheAccess access{i * 3 % 8, 100, i % jobs, 0};
      const CacheDecision decision = i < 8 ? CacheDecision::admit : CacheDecision::hit;
      writer.record({&access, 1}, {&decision, 1}, (i + access.job) / 8);
    }
    writer.finish();
  };
  write_trace("one", 1, 24);
  write_trace("two", 2, 32);
  write_trace("empty", 1, 0);
  const std::string whole = read_file(folder / "one");
  write(folder / "torn", std::as_bytes(std::span(whole)).first(whole.size() - 30));
}

/// Two jobs that draw from a small dataset, one of which ends, and an empty one.
void write_draws(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  DrawTraceWriter(folder / "empty", {8, "d", 1, StagingPolicy::lru, 0, 100}).finish();
  DrawTraceWriter writer(folder / "two", {8, "d", 1, StagingPolicy::refcnt, 2, 100});
  DependentGroup group({8, 1, 2, StagingPolicy::refcnt});
  group.record_to(writer);
  group.begin_epoch(0);
  group.begin_epoch(1, std::vector<SampleId>{0, 1, 5, 6});
  for (int round = 0; round < 6; ++round) group.draw(round < 4 && round % 2 == 0 ? 3 : 1);
  group.end(1);
  group.draw(1);
  writer.finish();
}

void write_records(const std::filesystem::path& folder) {
  const auto write_text = [&folder](const char* name, const std::string& text) { write(folder / name, std::as_bytes(std::span(text))); };
  write_text("full-profile-record", to_json(test::full_profile()));
  write_text("whatif-record", to_json(test::full_whatif()));
  write_text("simulate-record", to_json(test::full_simulation()));
  write_text("doctor-record", to_json(test::full_examination()));
  write_text("gate-record", to_json(test::full_gate()));
}

}  // namespace
}  // namespace dsanalyze

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: make_fuzz_corpus FOLDER\n");
    return 2;
  }
  const std::filesystem::path folder = arguments[1];
  dsanalyze::write_jpegs(folder / "jpeg");
  dsanalyze::write_pngs(folder / "png");
  dsanalyze::write_webps(folder / "webp");
  dsanalyze::write_indexes(folder / "index");
  dsanalyze::write_traces(folder / "trace");
  dsanalyze::write_draws(folder / "draws");
  dsanalyze::write_records(folder / "json");
  return 0;
}
