#include "own_loader.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <utility>

#include "base/error.hpp"
#include "base/text/json_reader.hpp"
#include "core/depths.hpp"
#include "core/partition/assignment.hpp"
#include "described_batch.hpp"
#include "loaders/dataset/dataset.hpp"
#include "loaders/sample_room.hpp"
#include "loaders/slot_pool.hpp"
#include "share/load_plan.hpp"

namespace dsanalyze::client {
namespace {

constexpr int most_held = 64;
constexpr int most_ranks_of_loader = 65'536;
constexpr double least_seconds_of_ranks = 0.1;
constexpr double most_peer_seconds = 3600;
constexpr double most_seconds_of_ranks = 86'400;
constexpr double seconds_for_sizes = 1e9;  // a training wants all samples, however long it takes to ask for their sizes

static_assert(sizeof(dsa_sample) == sizeof(PreparedSample) && offsetof(dsa_sample, width) == offsetof(PreparedSample, width) &&
              offsetof(dsa_sample, bytes) == offsetof(PreparedSample, bytes) && offsetof(dsa_sample, height) == offsetof(PreparedSample, height));

/// The parts of a job whose ranks ask one another for nothing: consecutive ones, whose sizes differ by at most one.
class PlainShare final : public RankShare {
 public:
  PlainShare(int rank, int world) : m_rank(rank), m_world(world) {}
  Status begin_epoch(std::uint64_t /*epoch*/, std::uint64_t /*position*/) override { return {}; }
  [[nodiscard]] std::uint32_t ranks() const override { return static_cast<std::uint32_t>(m_world); }
  std::span<const SampleId> mine(std::span<const SampleId> global) override { return Assignment::slice(global, m_rank, m_world); }
  void stop() override {}
  [[nodiscard]] std::string failure() const override { return {}; }

 private:
  int m_rank;
  int m_world;
};

/// Keeps what opening a dataset finds.
class FindingList final : public EventSink {
 public:
  void progress(const Progress& /*progress*/) override {}
  void note(const std::string& /*line*/) override {}
  void finding(const Finding& finding) override {
    const std::scoped_lock lock(m_mutex);
    m_findings.push_back(finding);
  }
  std::vector<Finding> take() { return std::move(m_findings); }

 private:
  std::mutex m_mutex;
  std::vector<Finding> m_findings;
};

std::shared_ptr<const DatasetIndex> open_whole(const LoaderRequest& request, EventSink& events, const std::stop_token& stop) {
  OpenOptions options;
  options.keys = {request.settings.image_key, request.settings.label_key};
  options.stat_budget_seconds = seconds_for_sizes;
  if (!request.index_file.empty()) options.index_file = request.index_file;
  return open_dataset(request.settings.dataset, options, events, stop);
}

RanksWish ranks_wish_from_json(JsonObject& root) {
  RanksWish wish;
  if (const auto place = root.optional_text("rendezvous")) wish.rendezvous = *place;
  if (const auto listen = root.optional_text("listen")) wish.listen = *listen;
  if (const auto file = root.optional_text("key_file")) wish.key = read_key_file(*file);
  if (const auto digits = root.optional_text("key")) {
    wish.key = key_from_hex(*digits);
    if (!wish.key) throw UsageError("options: key: expected 64 hexadecimal digits");
  }
  const auto seconds = [&root](const char* key, double most, double& value) {
    value = root.optional_number(key, least_seconds_of_ranks, most).value_or(value);
  };
  seconds("meeting_timeout", most_seconds_of_ranks, wish.meeting_seconds);
  seconds("peer_timeout", most_peer_seconds, wish.peer_seconds);
  seconds("epoch_timeout", most_seconds_of_ranks, wish.epoch_seconds);
  return wish;
}

ByteAmount cache_size_from(const std::string& text) {
  try {
    return parse_byte_amount(text);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("options: cache_size: {}", error.what()));
  }
}

void require_partition(const LoaderRequest& request) {
  const ProfileSettings& settings = request.settings;
  if (settings.partition == PartitionMode::none) return;
  if (settings.cache != CacheKind::minio || !request.settings.cache_size)
    throw UsageError(
        "options: settings: partition: ranks hold the dataset together in caches of this loader's own: pass cache_size, and cache \"minio\"");
  if (request.world > static_cast<int>(most_ranks))
    throw UsageError(fmt::format("options: world: found {}, and {} ranks at most hold a dataset together", request.world, most_ranks));
  if (request.world > 1 && request.ranks.rendezvous.empty())
    throw UsageError(
        "options: rendezvous: found none, and the ranks of a partition have to meet: HOST:PORT where rank 0 listens, or a file that all share");
}

}  // namespace

LoaderRequest loader_request_from_json(std::string_view text) {
  JsonObject root = parse_json_object(text, "options");
  LoaderRequest request;
  request.settings = settings_from_json(root.raw("settings").dump(), "options: settings");
  if (root.has("prep")) request.image_prep = image_prep_from_json(root.raw("prep").dump(), "options: prep");
  if (root.has("samples")) request.form = root.named<SampleForm>("samples");
  if (root.has("crop")) request.crop = root.named<CropRule>("crop");
  if (const auto resize = root.optional_integer("resize", 1, 65'535)) request.resize = static_cast<int>(*resize);
  if (const auto cache_size = root.optional_text("cache_size")) request.settings.cache_size = cache_size_from(*cache_size);
  if (const auto file = root.optional_text("index")) request.index_file = *file;
  if (const auto world = root.optional_integer("world", 1, most_ranks_of_loader)) request.world = static_cast<int>(*world);
  if (const auto rank = root.optional_integer("rank", 0, request.world - 1)) request.rank = static_cast<int>(*rank);
  if (root.has("background")) request.in_background = root.boolean("background");
  request.ranks = ranks_wish_from_json(root);
  // Of a profile, the run that loads all; as many consumers as batches may be held, each with a batch of its own.
  request.settings.step = StepMode::independent;
  request.settings.runs = {"full"};
  request.settings.accelerators = static_cast<int>(root.optional_integer("held", 1, most_held).value_or(1));
  root.finish();
  ProfileSettings& settings = request.settings;
  if (settings.dataset.empty()) throw UsageError("options: settings: dataset: found none, expected the path of a dataset");
  if (settings.storage != Seam::real || settings.prep != Seam::real || settings.jobs > 1 || settings.world > 1)
    throw UsageError("options: settings: a loader of a program's own emulates nothing, and is one job's on one server");
  if (request.form != SampleForm::prepared && settings.dtype != DType::uint8)
    throw UsageError(fmt::format("options: settings: dtype: samples that are {} are bytes: expected \"uint8\"", enum_name(request.form)));
  if (request.world > 1 && order_spec(settings).kind == OrderKind::shards)
    throw UsageError("options: settings: order: several ranks take their parts of one order; of shards, give each rank a dataset of its own");
  require_partition(request);
  if (request.world == 1) settings.partition = PartitionMode::none;  // there is no other rank to ask
  return request;
}

OwnLoader::OwnLoader(LoaderRequest request, Timing timing, const std::stop_token& stop)
    : m_process(::getpid()), m_timing(timing), m_rank(request.rank), m_world(request.world) {
  ProfileSettings& settings = request.settings;
  m_inputs.host = read_host_facts();
  if (settings.cores == 0) settings.cores = m_inputs.host.worker_count();
  if (settings.workers == 0) settings.workers = settings.cores;
  if (settings.order == OrderKind::random) settings.shuffle_buffer = 0;
  if (m_world > 1 && settings.shuffle_buffer > 1) settings.shuffle_buffer = 1;  // there is none among ranks
  const bool caches = settings.cache == CacheKind::minio || settings.cache == CacheKind::lru;
  if (caches && !settings.cache_size) settings.cache = CacheKind::page;  // no size was given: the kernel's page cache holds what it can
  const PartitionMode partition = std::exchange(settings.partition, PartitionMode::none);  // which a profile has of servers alone
  settings.validate();
  settings.partition = partition;
  request.image_prep.validate();
  FindingList findings;
  m_inputs.index = open_whole(request, findings, stop);
  m_findings = findings.take();
  if (request.form != SampleForm::prepared && m_inputs.index->facts().array)
    throw UsageError("options: samples: the dataset is of arrays, which come as they are; leave \"samples\" out");
  m_inputs.settings = settings;
  m_inputs.image_prep = request.image_prep;
  m_inputs.crop = request.crop;
  m_inputs.resize = request.resize;
  m_inputs.form = request.form;
  m_prep = prep_text(m_inputs);
  if (m_world > 1 && partition == PartitionMode::none) m_share = std::make_unique<PlainShare>(m_rank, m_world);
  Pipeline::Spec spec;
  spec.index = m_inputs.index;
  spec.cache = settings.cache == CacheKind::page ? CacheKind::none : settings.cache;
  spec.page_cache = settings.cache == CacheKind::page || settings.cache == CacheKind::none ? PageCacheUse::keep : PageCacheUse::drop;
  if (settings.cache_size) spec.cache_bytes = std::min(settings.cache_size->of(m_inputs.index->bytes()), m_inputs.index->bytes());
  spec.workers = settings.workers;
  spec.way = {settings.io == IoEngine::uring ? IoEngine::uring : IoEngine::pread, settings.read_mode};
  spec.share = m_share.get();
  spec.slot_pages = SlotPages::as_written;
  spec.prefetch_batches = prefetch_batches(settings, static_cast<double>(prepared_tensor(m_inputs, 1).sample_bytes()) * settings.batch_size);
  const SignalsBlocked blocked;
  if (partition == PartitionMode::none) {
    m_pipeline = std::make_unique<Pipeline>(m_inputs, spec, timing);
    begin(place(0, 0));
    return;
  }
  m_told = place(0, 0);
  m_ranks = std::make_unique<LoaderRanks>(
      LoaderRanks::Parts{m_inputs, spec, static_cast<std::uint32_t>(m_rank), static_cast<std::uint32_t>(m_world), request.ranks, timing});
}

OwnLoader::~OwnLoader() {
  if (m_process == ::getpid()) {
    close();
    return;
  }
  // A child that was forked has a copy, and none of its threads: what they hold cannot be waited for.
  for (auto& [token, held] : m_held) static_cast<void>(new (std::nothrow) std::shared_ptr<Loader>(std::move(held.loader)));
  static_cast<void>(new (std::nothrow) std::shared_ptr<Loader>(std::move(m_loader)));
  static_cast<void>(m_pipeline.release());
  static_cast<void>(m_ranks.release());
  static_cast<void>(m_share.release());
}

std::uint64_t OwnLoader::global_batch() const {
  return static_cast<std::uint64_t>(m_inputs.settings.batch_size) * static_cast<std::uint64_t>(m_world);
}

SamplerState OwnLoader::place(std::uint64_t epoch, std::uint64_t index) const {
  const std::uint64_t batches = (m_inputs.index->size() + global_batch() - 1) / global_batch();
  constexpr std::uint64_t most_epochs = std::uint64_t{1} << 62;
  if (epoch >= most_epochs || index > batches)
    throw UsageError(fmt::format("there is no batch {} of epoch {}: an epoch has {}, from 0", index, epoch, batches));
  SamplerState state{m_inputs.settings.seed, epoch, index * global_batch(), m_inputs.index->size(), order_spec(m_inputs.settings)};
  if (index == batches) ++state.epoch, state.position = 0;
  return state;
}

void OwnLoader::begin(const SamplerState& start) {
  const SignalsBlocked blocked;
  m_loader = pipeline().make_loader({.start = start});
  m_epoch = start.epoch;
  m_next_index = start.position / global_batch();
}

void OwnLoader::describe(dsa_terms& terms) const {
  const ProfileSettings& settings = m_inputs.settings;
  terms.place = static_cast<std::uint32_t>(m_rank);
  terms.jobs = static_cast<std::uint32_t>(m_world);
  terms.batch_size = static_cast<std::uint32_t>(settings.batch_size);
  terms.held = static_cast<std::uint32_t>(settings.accelerators);
  terms.samples = m_inputs.index->size();
  terms.batches_per_epoch = (terms.samples + global_batch() - 1) / global_batch();
  terms.seed = settings.seed;
  const TensorShape tensor = slot_tensor(m_inputs, settings.batch_size);
  terms.slot_bytes = SlotLayout(tensor).bytes;
  describe_tensor(tensor, terms);
  describe_form(terms);
  terms.dataset_digest = m_inputs.index->facts().digest.c_str();
  terms.prep = m_prep.c_str();
}

template <typename Described>
void OwnLoader::describe_form(Described& described_as) const {
  if (m_inputs.form == SampleForm::prepared) return;
  described_as.dtype = {DSA_SAMPLE, 8 * sizeof(dsa_sample), 1};
  described_as.ndim = 1;
  described_as.strides[0] = 1;
}

Answer OwnLoader::ready(Deadline deadline) { return m_ranks ? m_ranks->ready(deadline) : Answer{}; }

void OwnLoader::begin_if_told() {
  const std::scoped_lock lock(m_mutex);
  if (m_closed || !m_told) return;
  const SamplerState start = *m_told;
  m_told.reset();
  begin(start);
}

Answer OwnLoader::next(dsa_batch& batch, Deadline deadline) {
  const auto late = [] { return Answer{DSA_TIMEOUT, "no batch yet: its samples are being read or prepared; ask again"}; };
  if (!m_turn.take(deadline, m_timing)) return late();
  Answer answer;
  try {
    if (answer = ready(deadline); answer.status != DSA_OK) {
      m_turn.give(m_timing);
      return answer;
    }
    begin_if_told();
    std::shared_ptr<Loader> loader;
    bool busy = false;
    {
      const std::scoped_lock lock(m_mutex);
      loader = m_loader;
      busy = m_held.size() >= static_cast<std::size_t>(m_inputs.settings.accelerators);
    }
    if (loader == nullptr) {
      answer = nothing_loads();
    } else if (busy) {
      answer = {DSA_BUSY, fmt::format("{} batches are held, as many as may be: release one first", m_inputs.settings.accelerators)};
    } else {
      Batch taken;
      const Status status = loader->next(taken, deadline);
      answer = status.ok() ? hold(loader, taken, batch) : status.code == StatusCode::timeout ? late() : failed(*loader, status);
    }
  } catch (...) {
    m_turn.give(m_timing);
    throw;
  }
  m_turn.give(m_timing);
  return answer;
}

Answer OwnLoader::nothing_loads() const {
  const std::scoped_lock lock(m_mutex);
  if (m_closed) return {DSA_END, "the loader is closed"};
  return {DSA_FAILED, "the loader could not go on where it was told to (dsa_loader_seek() said why); tell it again"};
}

Answer OwnLoader::failed(const Loader& loader, Status status) const {
  switch (status.code) {
    case StatusCode::end:
      if (m_ranks && !m_ranks->failure().empty()) return {DSA_FAILED, m_ranks->failure()};
      [[fallthrough]];
    case StatusCode::cancelled:
      return {DSA_END, "the loader is closed, or goes on elsewhere"};
    case StatusCode::busy:
      return {DSA_BUSY, "as many batches as may be held are not released"};
    default:
      return {loader.out_of_memory() ? DSA_NO_MEMORY : DSA_FAILED, loader.failure()};
  }
}

Answer OwnLoader::hold(const std::shared_ptr<Loader>& loader, const Batch& batch, dsa_batch& given) {
  const std::scoped_lock lock(m_mutex);
  if (m_closed) {  // the memory may go with the last batch that is held
    loader->release(batch.token);
    return {DSA_END, "the loader is closed"};
  }
  if (batch.epoch != m_epoch) m_next_index = 0;
  m_epoch = batch.epoch;
  describe_batch(batch, loader->memory(batch), given);
  describe_form(given);
  given.index = m_next_index++;
  given.token = ++m_last_token;
  m_held[given.token] = {loader, batch.token};
  return {};
}

Answer OwnLoader::release(std::uint64_t token) {
  Held held;
  {
    const std::scoped_lock lock(m_mutex);
    const auto found = m_held.find(token);
    if (found == m_held.end())
      return {DSA_INVALID, "dsa_loader_release: no batch with this token is held: it was released already, or never given out"};
    held = std::move(found->second);
    m_held.erase(found);
  }
  held.loader->release(held.slot);
  return {};
}

std::string OwnLoader::state(std::uint64_t epoch, std::uint64_t index) const {
  SamplerState state = place(epoch, index);
  state.batch_size = static_cast<std::uint32_t>(m_inputs.settings.batch_size);
  state.digest = m_inputs.index->facts().digest;
  return state.serialise();
}

void OwnLoader::seek(std::string_view text) {
  const SamplerState wanted = SamplerState::parse(text);
  wanted.require_fit(m_inputs.index->facts().digest, m_inputs.index->size(), static_cast<std::uint32_t>(m_inputs.settings.batch_size));
  if (wanted.order != order_spec(m_inputs.settings))
    throw UsageError("the state is of another order of samples than this loader's (order, shuffle_buffer)");
  if (wanted.seed != m_inputs.settings.seed)
    throw UsageError(
        fmt::format("the state is of seed {}, and this loader has seed {}: its crops would be others", wanted.seed, m_inputs.settings.seed));
  {
    const std::scoped_lock lock(m_mutex);
    if (m_closed) throw UsageError("the loader is closed");
  }
  stop_loading();  // a next() that waits in another thread ends, and gives its turn
  while (!m_turn.take(m_timing.clock->after(1), m_timing)) {
  }
  try {
    const std::scoped_lock lock(m_mutex);
    m_before = counted();
    const bool was_loading = std::exchange(m_loader, nullptr) != nullptr;
    if (!m_closed && m_ranks) {
      if (was_loading) m_ranks->restart();
      m_told = wanted;
    } else if (!m_closed) {
      begin(wanted);
    }
  } catch (...) {
    m_turn.give(m_timing);
    throw;
  }
  m_turn.give(m_timing);
}

void OwnLoader::stop_loading() {
  std::shared_ptr<Loader> loader;
  {
    const std::scoped_lock lock(m_mutex);
    loader = m_loader;
  }
  if (loader != nullptr) loader->stop();
}

OwnLoader::Counted OwnLoader::counted() const {
  Counted all = m_before;
  if (m_loader == nullptr) return all;
  const LoaderTotals totals = m_loader->totals();
  all.hits += totals.hits;
  all.misses += totals.misses;
  all.prepared += totals.prep.samples;
  all.read += totals.fetch.bytes;
  all.failed += m_loader->failed_samples();
  for (SampleFailure& failure : m_loader->failures()) {
    const auto is_same = [&failure](const SampleFailure& other) { return other.path == failure.path; };
    if (std::ranges::none_of(all.failures, is_same)) all.failures.push_back(std::move(failure));
  }
  return all;
}

nlohmann::ordered_json OwnLoader::ranks_report() const {
  const auto counters = m_ranks ? m_ranks->counters() : std::nullopt;
  if (!counters) return nullptr;
  return {{"bytes_from_others", counters->bytes_received}, {"bytes_to_others", counters->bytes_sent}, {"connections_reopened", counters->reopened}};
}

std::string OwnLoader::report() const {
  const std::scoped_lock lock(m_mutex);
  const Counted all = counted();
  nlohmann::ordered_json findings = nlohmann::ordered_json::array();
  for (const Finding& finding : m_findings) findings.push_back({{"code", finding.code}, {"message", finding.message}});
  nlohmann::ordered_json failures = nlohmann::ordered_json::array();
  for (const SampleFailure& failure : all.failures) failures.push_back({{"path", failure.path}, {"cause", failure.cause}});
  const DatasetIndex& index = *m_inputs.index;
  nlohmann::ordered_json array;
  if (const auto& description = index.facts().array) array = {{"dtype", description->dtype}, {"shape", description->shape}};
  const nlohmann::ordered_json report{{"samples", index.size()},
                                      {"bytes", index.bytes()},
                                      {"format", index.facts().format},
                                      {"array", array},
                                      {"digest", index.facts().digest},
                                      {"classes", index.labels()},
                                      {"workers", m_inputs.settings.workers},
                                      {"cache_hits", all.hits},
                                      {"cache_misses", all.misses},
                                      {"bytes_read", all.read},
                                      {"prepared", all.prepared},
                                      {"failed", all.failed},
                                      {"failures", failures},
                                      {"findings", findings},
                                      {"ranks", ranks_report()}};
  return report.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void OwnLoader::close() {
  {
    const std::scoped_lock lock(m_mutex);
    m_closed = true;
  }
  stop_loading();
  {
    const std::scoped_lock lock(m_mutex);
    m_before = counted();
    m_loader = nullptr;
  }
  if (m_ranks) m_ranks->leave();
}

bool OwnLoader::done() const {
  const std::scoped_lock lock(m_mutex);
  return m_closed && m_held.empty();
}

}  // namespace dsanalyze::client
