// How many accesses a second the cache simulator decides on one core, by policy: samples of one size, a new random order each epoch. Making the
// orders is timed apart. Seconds are of the processor's time, of which the one thread takes all that it gets.
//
//   cache_simulator_bench [--samples N] [--epochs N] [--shares 0.35,0.65] [--policies minio,lru,...] [--json FILE]

#include <cmath>

#include "base/random.hpp"
#include "bench_main.hpp"
#include "bench_support.hpp"
#include "models/simulate/cache_simulator.hpp"

namespace dsanalyze::bench {
namespace {

constexpr Bytes sample_bytes = 110'000;
constexpr std::size_t block_accesses = 4096;

double cpu_seconds() {
  const CpuTime used = own_cpu();
  return used.user + used.kernel;
}

/// Orders that are made already, and when each epoch was begun to be asked for.
class MadeOrders final : public AccessSource {
 public:
  MadeOrders(std::uint32_t samples, std::uint32_t epochs) : m_orders(epochs, std::vector<std::uint32_t>(samples)), m_accesses(block_accesses) {
    for (std::uint32_t epoch = 0; epoch < epochs; ++epoch) random_permutation(mix(epoch), m_orders[epoch]);
  }
  void rewind() override {
    m_epoch = 0;
    m_at = 0;
    m_begun.clear();
  }
  bool next(AccessBlock& block) override {
    if (m_at == m_orders.front().size()) {
      ++m_epoch;
      m_at = 0;
    }
    if (m_at == 0) m_begun.push_back(cpu_seconds());
    if (m_epoch == m_orders.size()) return false;
    const std::size_t count = std::min(block_accesses, m_orders[m_epoch].size() - m_at);
    for (std::size_t i = 0; i < count; ++i) m_accesses[i] = {m_orders[m_epoch][m_at + i], sample_bytes, 0, 0};
    m_at += count;
    block = {std::span(m_accesses).first(count), {&m_epoch, 1}};
    return true;
  }
  [[nodiscard]] std::uint64_t key_count() const override { return m_orders.front().size(); }
  [[nodiscard]] std::uint32_t jobs() const override { return 1; }
  /// Millions of accesses a second, by epoch.
  [[nodiscard]] std::vector<double> rates() const {
    std::vector<double> rates;
    for (std::size_t i = 1; i < m_begun.size(); ++i)
      rates.push_back(static_cast<double>(m_orders.front().size()) / (m_begun[i] - m_begun[i - 1]) / 1e6);
    return rates;
  }

 private:
  std::vector<std::vector<std::uint32_t>> m_orders;
  std::vector<CacheAccess> m_accesses;
  std::vector<double> m_begun;
  std::uint32_t m_epoch = 0;
  std::size_t m_at = 0;
};

int run(const std::vector<std::string>& words) {
  const Arguments arguments(words, {"--samples", "--epochs", "--shares", "--policies", "--json"});
  const auto samples = static_cast<std::uint32_t>(arguments.number("--samples", 14'000'000));
  const auto epochs = static_cast<std::uint32_t>(arguments.number("--epochs", 6));
  if (epochs < 2 || samples == 0) throw UsageError("--epochs must be 2 or more, --samples 1 or more");
  const double begun = cpu_seconds();
  MadeOrders orders(samples, epochs);
  const double making = static_cast<double>(samples) * epochs / (cpu_seconds() - begun) / 1e6;
  fmt::print("{} samples, {} epochs; making a random order: {:.1f} M samples/s\n", samples, epochs, making);
  fmt::print("{:<20} {:>7} {:>12} {:>24} {:>10}\n", "policy", "cached", "first epoch", "later (M accesses/s)", "hits");

  std::string json = fmt::format(R"({{"samples": {}, "making_m_per_s": {})", samples, making);
  for (const std::string& name : split_list(arguments.text("--policies", "minio,lru,page-model:random,page-model:linux,belady,none"))) {
    for (const std::string& share : split_list(arguments.text("--shares", "0.35,0.65,1"))) {
      const auto held = static_cast<Bytes>(std::llround(parse_number(share) * samples));
      const CacheCase cache{parse_replay_policy(name), held * sample_bytes};
      const CaseCounts counts = replay(orders, {&cache, 1}).front();
      std::vector<double> rates = orders.rates();
      const double first = rates.front();
      rates.erase(rates.begin());
      fmt::print("{:<20} {:>7} {:>12.1f} {:>24} {:>9.1f}%\n", name, share, first, spread(rates, 1),
                 100 - 100 * counts.epochs.back().counts.miss_share());
      json += fmt::format(", {}", json_list(fmt::format("{} {}", name, share), rates));
    }
  }
  if (arguments.has("--json")) write_text(arguments.text("--json", ""), json + "}\n");
  return 0;
}

}  // namespace
}  // namespace dsanalyze::bench

int main(int argc, char** argv) { return dsanalyze::bench::run_program(argc, argv, dsanalyze::bench::run); }
