// Samples from another rank's memory: two processes, each a rank, that find each other by a folder.
//   peer_bench serve FOLDER [--listen ADDRESS] [--objects N] [--bytes B] [--connections N] [--io-threads N]
//       holds the objects until the other rank has gone
//   peer_bench fetch FOLDER [--listen ADDRESS] [the same] [--depth N] [--batch N] [--seconds S] [--warm-up S] [--rate OBJECTS_PER_S]
//       asks for them in random order, N at once, and prints bytes/s, requests/s and latencies; with --rate so many a second, evenly
//       both: [--frames tag|checksum] what each frame carries (tag)
//   peer_bench sums [--objects N] [--bytes B] [--seconds S]
//       prints the bytes/s of each sum by one core, of objects that lie anywhere in memory and of one that lies in the processor's caches

#include <algorithm>
#include <atomic>
#include <fstream>
#include <numeric>

#include "base/random.hpp"
#include "base/system/shared_memory.hpp"
#include "bench_main.hpp"
#include "bench_support.hpp"
#include "transport/team/ranks.hpp"
#include "transport/wire/frame_sums.hpp"

namespace dsanalyze {
namespace {

using namespace bench;

class Objects final : public HeldSamples {
 public:
  Objects(std::uint32_t count, std::uint32_t bytes) : m_count(count), m_bytes(bytes), m_memory(std::size_t{count} * bytes) {
    RandomStream random(1);
    const std::span<std::byte> all = m_memory.bytes();
    for (std::size_t at = 0; at + sizeof(std::uint64_t) <= all.size(); at += sizeof(std::uint64_t)) {
      const std::uint64_t word = random.next();
      std::memcpy(all.data() + at, &word, sizeof word);
    }
  }
  [[nodiscard]] std::span<const std::byte> find(SampleId sample) const override {
    return sample < m_count ? m_memory.bytes().subspan(std::size_t{sample} * m_bytes, m_bytes) : std::span<const std::byte>{};
  }

 private:
  std::uint32_t m_count;
  std::uint32_t m_bytes;
  ZeroedMemory m_memory;
};

FrameCheck frame_check_of(const std::string& name) {
  if (name == "tag") return FrameCheck::tag;
  if (name == "checksum") return FrameCheck::checksum;
  throw UsageError("--frames: tag or checksum");
}

struct Setting {
  explicit Setting(const Arguments& arguments)
      : folder(arguments.positional.at(1)),
        listen(arguments.text("--listen", "127.0.0.1")),
        objects(static_cast<std::uint32_t>(arguments.number("--objects", 4000))),
        bytes(static_cast<std::uint32_t>(arguments.number("--bytes", 110000))) {
    facts.world = 2;
    facts.connections_per_peer = static_cast<std::uint32_t>(arguments.number("--connections", 2));
    facts.io_threads = static_cast<std::uint32_t>(arguments.number("--io-threads", 2));
    facts.places = static_cast<std::uint32_t>(arguments.number("--depth", 32));
    facts.largest_sample = bytes;
    facts.frame_check = frame_check_of(arguments.text("--frames", "tag"));
  }
  std::filesystem::path folder;
  std::string listen;
  std::uint32_t objects;
  std::uint32_t bytes;
  RankFacts facts;
};

std::unique_ptr<Ranks> join(Setting& setting, std::uint32_t rank) {
  setting.facts.rank = rank;
  Listener listener(setting.listen);
  write_file_atomically(setting.folder / std::to_string(rank), listener.address());
  std::vector<std::string> addresses(2, listener.address());
  const Deadline end = system_timing().clock->after(setting.facts.setup_seconds);
  const std::filesystem::path other = setting.folder / std::to_string(1 - rank);
  while (!std::filesystem::exists(other)) {
    if (system_timing().clock->now() > end.at) throw Error("the other rank has not come");
    system_timing().waiter->sleep_until(system_timing().clock->after(0.01).at);
  }
  addresses[1 - rank] = read_file(other);
  return join_ranks(std::move(listener), setting.facts, addresses, system_timing());
}

void meet(Ranks& ranks) {
  if (!ranks.collective().barrier(system_timing().clock->after(10)).ok()) throw Error("the ranks do not meet");
}

void serve(Setting setting) {
  const Objects objects(setting.objects, setting.bytes);
  const auto ranks = join(setting, 0);
  ranks->serve(&objects);
  meet(*ranks);
  const CpuTime before = own_cpu();
  while (ranks->alive().size() == 2) system_timing().waiter->sleep_until(system_timing().clock->after(0.02).at);
  const CpuTime cpu = own_cpu();
  const double gigabytes = static_cast<double>(ranks->counters().bytes_sent) / 1e9;
  fmt::print("served {} requests; CPU time a GB {:.3f} s in user, {:.3f} s in kernel mode\n", ranks->counters().requests_served,
             (cpu.user - before.user) / gigabytes, (cpu.kernel - before.kernel) / gigabytes);
  ranks->serve(nullptr);
}

/// Asks for objects in random order, again as they come.
class Fetcher {
 public:
  Fetcher(Ranks& ranks, const Setting& setting, const Arguments& arguments)
      : m_ranks(&ranks), m_setting(&setting), m_batch(static_cast<std::size_t>(arguments.number("--batch", 8))) {
    m_latencies.reserve(20'000'000);
    ranks.peers().deliver_to([this](std::span<const PeerCompletion> completions) { take(completions); });
  }
  void ask(std::size_t count) {
    std::vector<PeerRequest>& requests = m_requests;
    requests.clear();
    for (std::size_t i = 0; i < count; ++i) requests.push_back({0, static_cast<SampleId>(m_random.below(m_setting->objects)), m_setting->bytes, 0});
    if (!m_ranks->peers().submit(requests).ok()) ++m_refused;
  }
  void run(double seconds) {
    for (std::size_t asked = 0; asked < m_ranks->peers().capacity(); asked += m_batch) ask(std::min(m_batch, m_ranks->peers().capacity() - asked));
    system_timing().waiter->sleep_until(system_timing().clock->after(seconds).at);
  }
  /// So many a second, whether the ones before have come or not.
  void run_at(double rate, double seconds) {
    m_again = false;
    const Nanoseconds start = system_timing().clock->now();
    for (std::uint64_t number = 0; static_cast<double>(number) < rate * seconds; ++number) {
      system_timing().waiter->sleep_until(start + to_nanoseconds(static_cast<double>(number) / rate));
      ask(1);
    }
  }
  void clear() { m_clear = true; }
  void stop() { m_ranks->peers().deliver_to({}); }
  [[nodiscard]] const std::vector<float>& latencies() const { return m_latencies; }
  [[nodiscard]] std::uint64_t failed() const { return m_failed; }
  [[nodiscard]] std::uint64_t refused() const { return m_refused; }

 private:
  void take(std::span<const PeerCompletion> completions) {
    if (m_clear.exchange(false)) m_latencies.clear();
    m_buffers.clear();
    for (const PeerCompletion& completion : completions) {
      if (!completion.status.ok()) ++m_failed;
      if (completion.buffer != UINT32_MAX) m_buffers.push_back(completion.buffer);
      m_latencies.push_back(static_cast<float>(to_seconds(completion.took)));
    }
    m_ranks->peers().release(m_buffers);
    m_free += completions.size();
    for (; m_again && m_failed == 0 && m_free >= m_batch; m_free -= m_batch) ask(m_batch);
  }

  Ranks* m_ranks;
  const Setting* m_setting;
  std::size_t m_batch;
  std::size_t m_free = 0;
  bool m_again = true;
  RandomStream m_random{2};
  std::vector<PeerRequest> m_requests;
  std::vector<std::uint32_t> m_buffers;
  std::vector<float> m_latencies;
  std::atomic<bool> m_clear{false};
  std::uint64_t m_failed = 0;
  std::uint64_t m_refused = 0;
};

void fetch(Setting setting, const Arguments& arguments) {
  const auto ranks = join(setting, 1);
  meet(*ranks);
  Fetcher fetcher(*ranks, setting, arguments);
  const double seconds = arguments.number("--seconds", 3);
  const double rate = arguments.number("--rate", 0);
  Nanoseconds start = system_timing().clock->now();
  if (rate > 0) {
    fetcher.run_at(rate, seconds);
  } else {
    fetcher.run(arguments.number("--warm-up", 0.5));
    fetcher.clear();
    start = system_timing().clock->now();
    system_timing().waiter->sleep_until(system_timing().clock->after(seconds).at);
  }
  const double took = to_seconds(system_timing().clock->now() - start);
  fetcher.stop();
  std::vector<float> latencies = fetcher.latencies();
  if (fetcher.failed() > 0 || latencies.empty()) throw Error(fmt::format("{} requests failed, {} came", fetcher.failed(), latencies.size()));
  std::ranges::sort(latencies);
  const auto quantile = [&](double share) { return 1e6 * latencies[static_cast<std::size_t>(share * static_cast<double>(latencies.size() - 1))]; };
  const double per_second = static_cast<double>(latencies.size()) / took;
  const double gigabytes = static_cast<double>(ranks->peers().received()) / 1e9;
  fmt::print(
      "{:.0f} bytes/s, {:.0f} requests/s, latency p50 {:.0f} us, p99 {:.0f} us, largest {:.0f} us; {} refused; CPU time {:.2f} s in user, {:.2f} s "
      "in kernel mode\n",
      per_second * setting.bytes, per_second, quantile(0.5), quantile(0.99), quantile(1), fetcher.refused(), own_cpu().user / gigabytes,
      own_cpu().kernel / gigabytes);
}

/// Bytes/s of the sums of objects, in random order of `count`.
double rate_of_sums(transport::FrameSums sums, const Objects& objects, std::uint32_t count, double seconds) {
  RandomStream random(3);
  const std::array<std::byte, transport::bare_head_bytes> head{};
  Bytes summed = 0;
  [[maybe_unused]] volatile std::byte kept{};
  const Nanoseconds begun = system_timing().clock->now();
  Nanoseconds now = begun;
  for (; to_seconds(now - begun) < seconds; now = system_timing().clock->now()) {
    const std::span<const std::byte> object = objects.find(static_cast<SampleId>(random.below(count)));
    kept = sums.next(head, object).front();
    summed += object.size();
  }
  return static_cast<double>(summed) / to_seconds(now - begun);
}

void sums(const Arguments& arguments) {
  const auto count = static_cast<std::uint32_t>(arguments.number("--objects", 4000));
  const Objects objects(count, static_cast<std::uint32_t>(arguments.number("--bytes", 110000)));
  const double seconds = arguments.number("--seconds", 1);
  for (const auto& [name, sum] : {std::pair("checksum", transport::FrameSums()), std::pair("tag", transport::FrameSums(SecretKey(JobKey{})))}) {
    fmt::print("{}: {:.0f} bytes/s from memory, {:.0f} bytes/s from caches\n", name, rate_of_sums(sum, objects, count, seconds),
               rate_of_sums(sum, objects, 1, seconds));
  }
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(words, {"--listen", "--objects", "--bytes", "--connections", "--io-threads", "--depth", "--batch", "--seconds",
                                    "--warm-up", "--rate", "--frames"});
  const bool is_complete = arguments.positional.size() == 2;
  if (is_complete && arguments.positional[0] == "serve") {
    serve(Setting(arguments));
  } else if (is_complete && arguments.positional[0] == "fetch") {
    fetch(Setting(arguments), arguments);
  } else if (arguments.positional.size() == 1 && arguments.positional[0] == "sums") {
    sums(arguments);
  } else {
    fmt::print(stderr,
               "usage: peer_bench serve FOLDER | fetch FOLDER [--depth N] [--batch N] [--seconds S] [--warm-up S] [--rate R] | sums [--seconds S]\n"
               "       serve, fetch: [--listen ADDRESS] [--objects N] [--bytes B] [--connections N] [--io-threads N] [--frames tag|checksum]\n");
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace dsanalyze

int main(int argc, char** argv) { return dsanalyze::bench::run_program(argc, argv, dsanalyze::run); }
