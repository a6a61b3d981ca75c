#pragma once

#include <memory>
#include <optional>

#include "base/host/host.hpp"
#include "core/depths.hpp"
#include "core/records/settings.hpp"
#include "core/workload.hpp"
#include "loader.hpp"
#include "loaders/fetch/fetch_engine.hpp"
#include "loaders/fetch/storage_meter.hpp"
#include "loaders/partition/partition.hpp"
#include "loaders/prep/prep.hpp"
#include "loaders/server/server_scope.hpp"

namespace dsanalyze {

/// What loading needs, looked up and opened by the caller.
struct LoadInputs {
  ProfileSettings settings;                   ///< resolved and validated
  std::shared_ptr<const DatasetIndex> index;  ///< of the dataset, or of a random sample of a large one
  ImagePrep image_prep;                       ///< of the workload
  CropRule crop = CropRule::random_resized;   ///< with `resize`: as ImagePrepOptions
  int resize = 0;
  SampleForm form = SampleForm::prepared;  ///< of real prep of images
  HostFacts host;
  std::shared_ptr<Gpu> gpu{};  ///< where prep_place is not the CPU
};

enum class PrepUse { as_set, none };

/// How files are read.
struct FetchWay {
  IoEngine engine = IoEngine::pread;  ///< never automatic: it is chosen before
  ReadMode mode = ReadMode::buffered;
};

/// A server with its cache, storage and prep, ready to run loaders over one (sub)set of samples. Loaders made from it share the cache.
class Pipeline {
 public:
  struct Spec {
    std::shared_ptr<const DatasetIndex> index;
    CacheKind cache = CacheKind::none;
    Bytes cache_bytes = 0;
    PageCacheUse page_cache = PageCacheUse::drop;
    int workers = 1;
    std::vector<int> worker_cpus;
    FetchWay way;
    SlotPages slot_pages = SlotPages::before_use;
    StorageCost storage_cost;  ///< with least_priority: of cost-aware admission
    float least_priority = 0;
    std::shared_ptr<ServerScope> server{};  ///< whose cache and devices are used, with others; empty: this pipeline's own server
    PeerSource* peers = nullptr;            ///< other ranks' caches, asked as `rules` say, before storage; with least_priority partition_priority
    const PartitionRules* rules = nullptr;  ///< with `peers`
    RankShare* share = nullptr;             ///< what this rank takes of each global mini-batch; empty: all of it
    std::optional<int> prefetch_batches{};  ///< empty: as the settings say
  };
  Pipeline(const LoadInputs& inputs, const Spec& spec, Timing timing);
  /// A server as pipelines of these inputs make it, for `users` of them at once.
  static std::shared_ptr<ServerHolder> make_server(const LoadInputs& inputs, const Spec& spec, int users, Timing timing);

  /// How one loader uses the pipeline.
  struct Use {
    PrepUse prep = PrepUse::as_set;
    std::uint64_t first_epoch = 0;
    std::optional<SamplerState> start = std::nullopt;  ///< instead of the settings' stream from first_epoch on
    std::uint64_t epochs = 0;                          ///< 0: until stopped
    std::optional<int> cores = std::nullopt;           ///< prep on so many cores, one worker each, instead of the spec's workers
    AccessRecorder* recorder = nullptr;                ///< told what the cache is asked
    SpanRecorder* spans = nullptr;                     ///< told what each thread does
    StagingProducer* staging = nullptr;                ///< a group's, whose batches are made instead of this loader's own
    std::uint32_t staging_slots = 0;                   ///< of that producer
    std::optional<double> gpu_share = std::nullopt;    ///< of each batch, instead of the settings'
    ClaimedSamples* claimed = nullptr;                 ///< what its batches have; empty: their parts of the epochs' orders
  };
  /// One loader at a time.
  std::unique_ptr<Loader> make_loader(const Use& use);
  [[nodiscard]] ServerScope& server() { return *m_server; }
  [[nodiscard]] RawCache& cache() { return m_partitioned_cache ? *m_partitioned_cache : m_server->cache(); }
  [[nodiscard]] FetchEngine& engine() { return *m_engine; }
  [[nodiscard]] const FetchEngine& engine() const { return *m_engine; }
  /// With peers.
  [[nodiscard]] PartitionedEngine& partitioned_engine() { return *m_partitioned; }
  [[nodiscard]] const DatasetIndex& index() const { return *m_spec.index; }
  [[nodiscard]] const PrepFactory& prep() const { return *m_prep; }
  [[nodiscard]] int prefetch_batches() const { return m_prefetch; }
  /// Bytes that reached storage so far: the meter's figure for real storage, the device's own for an emulated one.
  [[nodiscard]] std::function<std::optional<Bytes>()> storage_bytes() const;

 private:
  const LoadInputs& m_inputs;
  Spec m_spec;
  Timing m_timing;
  int m_prefetch;
  StorageMeter m_meter;
  std::shared_ptr<ServerScope> m_server;
  std::unique_ptr<PrepFactory> m_prep;
  std::unique_ptr<PrepFactory> m_no_prep;
  std::unique_ptr<RawCache> m_partitioned_cache;  ///< with peers
  PartitionedEngine* m_partitioned = nullptr;     ///< with peers: m_engine
  std::unique_ptr<FetchEngine> m_engine;
};

/// So many samples as real prep writes them.
TensorShape prepared_tensor(const LoadInputs& inputs, std::int64_t count);
/// So many samples as slots hold them: of real prep, or of none that writes anything.
TensorShape slot_tensor(const LoadInputs& inputs, std::int64_t count);

/// All devices are emulated or null, so the run only waits.
bool only_waits(const ProfileSettings& settings);

}  // namespace dsanalyze
