// Prepares corrupt JPEG, PNG and WebP images, cut off anywhere or with bytes flipped, one good one in ten between them, and shows that memory stays
// as it is. Ends with 1 if it has grown by a mebibyte or more after the warm-up, or if a good image was refused.
//
//   decode_memory_bench [CORRUPT_DECODES]        100000 if not given
//
// The C library's allocator keeps what a flipped header made an image library take and give back, in ever other places; with
// GLIBC_TUNABLES=glibc.malloc.mmap_threshold=131072 it gives it back to the system, and what is left is ours.

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <malloc.h>

#include "../loaders/prep/jpeg_images.hpp"
#include "../loaders/prep/png_images.hpp"
#include "../loaders/prep/webp_images.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "base/system/files.hpp"
#include "bench_main.hpp"
#include "loaders/prep/prep.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint64_t seed = 1;
constexpr int good_one_in = 10;
constexpr std::int64_t most_growth_kib = 1024;

/// "VmRSS" or "VmHWM" of this process, KiB.
std::int64_t memory_kib(std::string_view name) {
  const std::string status = read_file("/proc/self/status");
  const std::size_t at = status.find(std::string(name) + ":");
  if (at == std::string::npos) throw Error(fmt::format("/proc/self/status: no {}", name));
  const std::size_t digits = status.find_first_of("0123456789", at);
  std::int64_t value = 0;
  std::from_chars(status.data() + digits, status.data() + status.size(), value);
  return value;
}

/// Allocated and not given back. What is resident beyond it, the allocator keeps for later.
std::size_t used_bytes() {
  const struct mallinfo2 facts = mallinfo2();
  return facts.uordblks + facts.hblkhd;
}

std::vector<std::vector<std::byte>> make_images() {
  std::vector<std::vector<std::byte>> images;
  for (const test::Scans scans : {test::Scans::baseline, test::Scans::progressive}) {
    for (const test::Inks inks : {test::Inks::ycc, test::Inks::grey, test::Inks::ycck}) {
      images.push_back(test::encode_picture({.width = 320, .height = 240, .inks = inks, .scans = scans}));
    }
  }
  for (const test::PngKind& kind : test::all_png_kinds(320, 240)) images.push_back(test::encode_png(kind));
  for (const test::WebpKind& kind : test::all_webp_kinds(320, 240)) images.push_back(test::encode_webp(kind));
  return images;
}

class CorruptDecodes {
 public:
  CorruptDecodes() : m_images(make_images()), m_prep(m_factory->make()), m_output(m_factory->tensor(1).sample_bytes()), m_random(seed) {
    std::size_t longest = 0;
    for (const auto& image : m_images) longest = std::max(longest, image.size());
    m_bad.reserve(longest);
  }

  void run(std::int64_t corrupt) {
    for (std::int64_t round = 0; round < corrupt; ++round) {
      const std::vector<std::byte>& image = m_images[m_random.below(m_images.size())];
      if (round % good_one_in == 0 && !prepare(image).ok()) throw Error("a good image was refused");
      spoil(image);
      ++m_statuses[static_cast<std::size_t>(prepare(m_bad).code)];
    }
  }
  [[nodiscard]] std::uint64_t count(StatusCode code) const { return m_statuses[static_cast<std::size_t>(code)]; }

 private:
  Status prepare(std::span<const std::byte> file) { return m_prep->prepare({file, m_sample++, 0, 0, m_output}); }

  /// Makes m_bad of the image: cut off, or with up to eight bytes flipped.
  void spoil(std::span<const std::byte> image) {
    const bool cut = m_random.below(2) == 0;
    m_bad.assign(image.begin(), image.begin() + static_cast<std::ptrdiff_t>(cut ? m_random.below(image.size()) : image.size()));
    for (std::uint64_t flips = cut ? 0 : 1 + m_random.below(8); flips > 0; --flips) {
      // Half of them where the headers are.
      const std::uint64_t end = m_random.below(2) == 0 ? std::min<std::uint64_t>(64, m_bad.size()) : m_bad.size();
      m_bad[m_random.below(end)] ^= static_cast<std::byte>(1 + m_random.below(255));
    }
  }

  std::vector<std::vector<std::byte>> m_images;
  std::unique_ptr<PrepFactory> m_factory = make_image_prep({});
  std::unique_ptr<Prep> m_prep;
  std::vector<std::byte> m_output;
  RandomStream m_random;
  std::vector<std::byte> m_bad;
  SampleId m_sample = 0;
  std::array<std::uint64_t, 16> m_statuses{};
};

int run(std::int64_t decodes) {
  CorruptDecodes corrupt;
  corrupt.run(decodes / 10);
  const std::int64_t before = memory_kib("VmRSS");
  const std::size_t used_before = used_bytes();
  corrupt.run(decodes);
  const std::int64_t growth = memory_kib("VmRSS") - before;
  const auto used_growth = static_cast<std::int64_t>(used_bytes()) - static_cast<std::int64_t>(used_before);
  fmt::print("{} corrupt decodes after {} to warm up; {} corrupt, {} unsupported, {} ok all the same\n", decodes, decodes / 10,
             corrupt.count(StatusCode::corrupt), corrupt.count(StatusCode::unsupported), corrupt.count(StatusCode::ok));
  fmt::print("resident before {} KiB, growth {} KiB, peak {} KiB; allocated and not given back: growth {} KiB\n", before, growth, memory_kib("VmHWM"),
             used_growth / 1024);
  return growth < most_growth_kib ? 0 : 1;
}

}  // namespace
}  // namespace dsanalyze

int main(int argc, char** argv) {
  return dsanalyze::bench::run_program(
      argc, argv, [](const std::vector<std::string>& words) { return dsanalyze::run(words.empty() ? 100'000 : std::stoll(words[0])); });
}
