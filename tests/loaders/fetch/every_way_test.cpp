#include <doctest/doctest.h>
#include <fcntl.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <vector>

#include "../dataset/every_format.hpp"
#include "../loader_rig.hpp"
#include "core/storage_cost.hpp"

// Never a lost sample: every format x order x cache x engine.

namespace dsanalyze {
namespace {

using namespace testing;

enum class Engine { threads, threads_direct, uring, uring_direct, emulated, null };
constexpr std::array reading_engines{Engine::threads, Engine::threads_direct, Engine::uring, Engine::uring_direct, Engine::emulated};

const char* engine_name(Engine engine) {
  constexpr std::array names{"threads", "threads, direct", "io_uring", "io_uring, direct", "emulated", "null"};
  return names[static_cast<std::size_t>(engine)];
}

struct Cache {
  CacheKind kind = CacheKind::none;
  Admission admission = Admission::first;
};
constexpr std::array every_cache{Cache{CacheKind::none},
                                 Cache{CacheKind::minio},
                                 Cache{CacheKind::minio, Admission::cost_aware},
                                 Cache{CacheKind::lru},
                                 Cache{CacheKind::page_model_random},
                                 Cache{CacheKind::page_model_linux}};

bool is_page_model(const Cache& cache) { return cache.kind == CacheKind::page_model_random || cache.kind == CacheKind::page_model_linux; }

std::vector<OrderSpec> orders_of(const DatasetIndex& index) {
  std::vector<OrderSpec> orders{{}, {OrderKind::sequential, 0}, {OrderKind::sequential, 7}};
  if (index.facts().format == "tar") orders.insert(orders.end(), {{OrderKind::shards, 0}, {OrderKind::shards, 7}, {OrderKind::shards, 7, 0, 1, 2}});
  return orders;
}

/// Some filesystems have no direct I/O.
bool has_direct_io(const DatasetIndex& index) {
  const FileDescriptor file(::open((index.facts().root + "/" + std::string(index.file_path(0))).c_str(), O_RDONLY | O_DIRECT));
  return file.valid();
}

/// Why the engine is not available here; "" when it is.
std::string refusal(Engine engine, const DatasetIndex& index) {
  const bool is_uring = engine == Engine::uring || engine == Engine::uring_direct;
  if (is_uring && !uring_support().usable) return "io_uring: " + uring_support().reason;
  const bool is_direct = engine == Engine::threads_direct || engine == Engine::uring_direct;
  if (is_direct && !has_direct_io(index)) return "direct I/O: not on this filesystem";
  return {};
}

class Way {
 public:
  Way(std::shared_ptr<const DatasetIndex> index, Engine engine, const Cache& cache, std::unique_ptr<PrepFactory> prep)
      : m_index(std::move(index)),
        m_cost({0.008, 1 / 150e6}),
        m_server(cache_options(cache), system_timing()),
        m_engine(make_engine(engine)),
        m_prep(std::move(prep)) {}

  std::unique_ptr<Loader> loader(LoaderOptions options) {
    options.start.samples = m_index->size();
    options.storage_cost = m_cost;
    options.error_budget = 1;
    return std::make_unique<Loader>(Loader::Parts{m_index, m_engine.get(), &m_server.cache(), m_prep.get(), {}, system_timing()}, options);
  }
  [[nodiscard]] bool all_given_back() const { return m_engine->free_places() == m_engine->capacity(); }

 private:
  [[nodiscard]] CacheOptions cache_options(const Cache& cache) const {
    const Bytes capacity = holds_samples(cache.kind) ? m_index->bytes() / 3 : 0;
    CacheOptions options{cache.kind, capacity, m_index->size(), m_index->bytes(), largest_sample(*m_index), 4096};
    if (cache.admission == Admission::cost_aware) options.least_priority = admission_threshold(m_index->records(), m_cost, capacity);
    return options;
  }
  std::unique_ptr<FetchEngine> make_engine(Engine engine) {
    FetchOptions options = Rig::fetch(64);
    options.largest_made_up = largest_sample(*m_index);
    if (engine == Engine::threads_direct || engine == Engine::uring_direct) options.read_mode = ReadMode::direct;
    if (engine == Engine::null) return make_null_engine(options, system_timing());
    if (engine == Engine::uring || engine == Engine::uring_direct) return make_uring_engine(m_index, options, system_timing());
    if (engine != Engine::emulated) return make_thread_engine(m_index, options, system_timing());
    auto inner = m_index->facts().format == "emulated" ? nullptr : make_thread_engine(m_index, options, system_timing());
    return make_emulated_engine(std::move(inner), options, {1e12, 0, 32}, m_server.devices().storage, system_timing());
  }

  std::shared_ptr<const DatasetIndex> m_index;
  StorageCost m_cost;
  ServerHolder m_server;
  std::unique_ptr<FetchEngine> m_engine;
  std::unique_ptr<PrepFactory> m_prep;
};

/// What an epoch delivered, whatever its order.
struct Delivered {
  std::vector<SampleId> ids;  ///< sorted
  std::uint64_t content = 0;  ///< of all samples' ids and bytes
  bool operator==(const Delivered&) const = default;
};

std::vector<Delivered> run(Loader& loader, std::uint64_t& failed) {
  std::vector<Delivered> epochs;
  Batch batch;
  Status status;
  while ((status = loader.next(batch, system_timing().clock->after(20))).ok()) {
    if (epochs.size() <= batch.epoch) epochs.resize(batch.epoch + 1);
    Delivered& epoch = epochs[batch.epoch];
    const auto* ids = reinterpret_cast<const SampleId*>(loader.memory(batch) + batch.ids_offset);
    const std::size_t bytes = batch.tensor.sample_bytes();
    for (std::uint32_t i = 0; i < batch.count; ++i) {
      epoch.ids.push_back(ids[i]);
      epoch.content += XXH3_64bits_withSeed(loader.memory(batch) + batch.samples_offset + i * bytes, bytes, ids[i]);
    }
    failed += batch.failed;
    loader.release(batch.token);
  }
  CHECK(status.code == StatusCode::end);
  for (Delivered& epoch : epochs) std::ranges::sort(epoch.ids);
  return epochs;
}

std::string digest_of(const std::vector<SampleId>& ids) {
  SampleSetDigest digest;
  for (const SampleId id : ids) digest.add(id);
  return digest.text();
}

std::vector<SampleId> good_ids(const DatasetIndex& index, const std::map<SampleId, std::string>& bad) {
  std::vector<SampleId> ids;
  for (SampleId id = 0; id < index.size(); ++id) {
    if (!bad.contains(id)) ids.push_back(id);
  }
  return ids;
}

constexpr std::uint64_t epochs_run = 3;

LoaderOptions options_of(const OrderSpec& order) {
  LoaderOptions options = loader_options(7, epochs_run);
  options.start.order = order;
  return options;
}

void check_failures(const Loader& loader, const DatasetIndex& index, const std::map<SampleId, std::string>& bad) {
  CHECK(loader.failed_samples() == epochs_run * bad.size());
  std::set<std::pair<std::string, std::string>> named;
  for (const SampleFailure& failure : loader.failures()) named.emplace(failure.path, failure.cause);
  std::set<std::pair<std::string, std::string>> expected;
  for (const auto& [id, cause] : bad) expected.emplace(sample_name(index, id), cause);
  CHECK(named == expected);
  std::uint64_t counted = 0;
  for (const FailureCount& count : loader.failure_counts()) counted += count.count;
  CHECK(counted == epochs_run * bad.size());
}

/// One way of an epoch: the good samples, each once, and the bad ones by name. `content` is that of the first way, and of every other.
void check_way(Way& way, const DatasetIndex& index, const std::map<SampleId, std::string>& bad, const OrderSpec& order,
               std::vector<Delivered>& content) {
  auto loader = way.loader(options_of(order));
  std::uint64_t failed = 0;
  const std::vector<Delivered> delivered = run(*loader, failed);
  REQUIRE(delivered.size() == epochs_run);
  const std::vector<SampleId> good = good_ids(index, bad);
  for (const Delivered& epoch : delivered) CHECK(epoch.ids == good);
  if (content.empty()) content = delivered;
  CHECK(delivered == content);
  CHECK(failed == epochs_run * bad.size());
  check_failures(*loader, index, bad);
  const auto epochs = loader->epochs();
  REQUIRE(epochs.size() == epochs_run);
  for (const EpochTotals& epoch : epochs) CHECK(epoch.digest == digest_of(good));
  loader.reset();
  CHECK(way.all_given_back());
}

template <typename Dataset>
void check_every_way() {
  const Dataset data;
  const DatasetIndex& index = *data.index();
  REQUIRE(index.size() == every_format_samples + 3);
  REQUIRE(data.bad().size() == 3);
  std::vector<Delivered> content;
  for (const Engine engine : reading_engines) {
    CAPTURE(engine_name(engine));
    if (const std::string why = refusal(engine, index); !why.empty()) {
      MESSAGE("left out: ", why);
      continue;
    }
    for (const Cache& cache : every_cache) {
      if (is_page_model(cache) && engine != Engine::emulated) continue;
      CAPTURE(cache_kind_name(cache.kind));
      CAPTURE(cache.admission == Admission::cost_aware);
      for (const OrderSpec& order : orders_of(index)) {
        CAPTURE(order_kind_name(order.kind));
        CAPTURE(order.shuffle_buffer);
        CAPTURE(order.readers);
        Way way(data.index(), engine, cache, data.prep());
        check_way(way, index, data.bad(), order, content);
      }
    }
  }
}

TEST_CASE("of a folder of images each good sample comes exactly once an epoch, and the bad ones are named, in every way") {
  check_every_way<ImageFolder>();
}

TEST_CASE("of tar shards each good sample comes exactly once an epoch, and the bad ones are named, in every way") { check_every_way<TarShards>(); }

TEST_CASE("of an array each good row comes exactly once an epoch, and the bad ones are named, in every way") { check_every_way<NpyRows>(); }

TEST_CASE("of arrays in files each good one comes exactly once an epoch, and the bad ones are named, in every way") { check_every_way<NpyFiles>(); }

TEST_CASE("of an emulated dataset each sample comes exactly once an epoch, in every way") {
  const auto index = emulated_dataset(60, 500, 0.5);
  for (const Engine engine : {Engine::null, Engine::emulated}) {
    for (const Cache& cache : every_cache) {
      for (const OrderSpec& order : orders_of(*index)) {
        CAPTURE(engine_name(engine));
        CAPTURE(cache_kind_name(cache.kind));
        CAPTURE(order_kind_name(order.kind));
        CAPTURE(order.shuffle_buffer);
        Way way(index, engine, cache, no_prep());
        auto loader = way.loader(options_of(order));
        std::uint64_t failed = 0;
        for (const Delivered& epoch : run(*loader, failed)) CHECK(epoch.ids == good_ids(*index, {}));
        CHECK(failed == 0);
        REQUIRE(loader->epochs().size() == epochs_run);
        for (const EpochTotals& epoch : loader->epochs()) CHECK(epoch.digest == digest_of(good_ids(*index, {})));
      }
    }
  }
}

template <typename Dataset>
void check_substitutes() {
  const Dataset data;
  const DatasetIndex& index = *data.index();
  for (const Engine engine : reading_engines) {
    CAPTURE(engine_name(engine));
    if (!refusal(engine, index).empty()) continue;
    for (const OrderSpec& order : orders_of(index)) {
      CAPTURE(order_kind_name(order.kind));
      CAPTURE(order.shuffle_buffer);
      Way way(data.index(), engine, {CacheKind::minio}, data.prep());
      LoaderOptions options = options_of(order);
      options.on_error = OnError::substitute;
      auto loader = way.loader(options);
      std::uint64_t failed = 0;
      const std::vector<Delivered> delivered = run(*loader, failed);
      REQUIRE(delivered.size() == epochs_run);
      CHECK(failed == epochs_run * 3);
      check_failures(*loader, index, data.bad());
      const auto totals = loader->epochs();
      REQUIRE(totals.size() == epochs_run);
      for (std::size_t epoch = 0; epoch < epochs_run; ++epoch) {
        std::vector<SampleId> ids = delivered[epoch].ids;
        CHECK(ids.size() == index.size());
        CHECK(totals[epoch].digest == digest_of(ids));
        ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
        CHECK(ids == good_ids(index, data.bad()));
      }
    }
  }
}

TEST_CASE("with substitutes every batch is whole, every good sample comes, and no bad one, in every format, order and engine") {
  check_substitutes<ImageFolder>();
  check_substitutes<TarShards>();
  check_substitutes<NpyRows>();
  check_substitutes<NpyFiles>();
}

TEST_CASE("of tar shards, read by io_uring, a loader that goes on from any batch delivers the rest bit for bit") {
  const TarShards data;
  if (const std::string why = refusal(Engine::uring, *data.index()); !why.empty()) {
    MESSAGE("left out: ", why);
    return;
  }
  for (const OrderSpec& order : {OrderSpec{OrderKind::shards, 9}, OrderSpec{OrderKind::shards, 5, 0, 1, 2}}) {
    CAPTURE(order.readers);
    Way way(data.index(), Engine::uring, {CacheKind::none}, data.prep());
    LoaderOptions options = options_of(order);
    options.epochs = 2;
    auto whole = way.loader(options);
    const Seen all = consume(*whole);
    whole.reset();
    REQUIRE(all.samples.size() == 8);
    for (std::uint64_t stop = 0; stop < all.samples.size(); ++stop) {
      CAPTURE(stop);
      auto begun = way.loader(options);
      consume(*begun, stop);
      LoaderOptions resumed = options;
      resumed.epochs = 0;
      resumed.start = SamplerState::parse(begun->state().serialise());
      begun.reset();
      auto loader = way.loader(resumed);
      const Seen rest = consume(*loader, all.samples.size() - stop);
      CHECK(std::ranges::equal(rest.samples, std::span(all.samples).subspan(stop)));
      std::vector<SampleId> ids;
      for (const auto& epoch : rest.epochs) ids.insert(ids.end(), epoch.begin(), epoch.end());
      std::vector<SampleId> expected;
      for (const auto& epoch : all.epochs) expected.insert(expected.end(), epoch.begin(), epoch.end());
      CHECK(std::ranges::equal(ids, std::span(expected).last(ids.size())));
      CHECK(rest.failed <= all.failed);
    }
  }
}

}  // namespace
}  // namespace dsanalyze
