#include <fmt/format.h>

#include <filesystem>

#include "bench_main.hpp"
#include "bench_support.hpp"
#include "loaders/dataset/dataset.hpp"

// How long an index file takes to open: as many samples, files and names as ImageNet-1k and ImageNet-22k have. Usage: index_bench [FOLDER]

namespace dsanalyze {
namespace {

constexpr int openings = 5;

void measure(std::uint32_t samples, const std::filesystem::path& file) {
  DatasetIndexBuilder builder;
  for (std::uint32_t i = 0; i < samples; ++i) {
    const std::uint32_t folder = i / 1300;
    builder.add_sample({0, 100'000 + i % 5000, builder.add_file(fmt::format("n{:08}/n{:08}_{}.JPEG", folder, folder, i)), 0});
  }
  DatasetIndex::Facts facts;
  facts.root = "/data";
  facts.format = "folder";
  write_index_file(*std::move(builder).build(facts), file);
  std::vector<double> seconds;
  for (int i = 0; i < openings; ++i) {
    const Nanoseconds begun = system_timing().clock->now();
    if (read_index_file(file)->size() != samples) throw Error("the index lost samples");
    seconds.push_back(to_seconds(system_timing().clock->now() - begun));
  }
  fmt::print("{} samples, {} MB: opened in {} s\n", samples, std::filesystem::file_size(file) / 1'000'000, bench::spread(seconds, 3));
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace dsanalyze

int main(int argc, char** argv) {
  return dsanalyze::bench::run_program(argc, argv, [](const std::vector<std::string>& words) {
    const std::filesystem::path folder = words.empty() ? "/var/tmp" : words[0];
    for (const std::uint32_t samples : {1'281'167U, 14'197'122U}) dsanalyze::measure(samples, folder / "index_bench.dsidx");
    return 0;
  });
}
