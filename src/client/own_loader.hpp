#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "client.hpp"
#include "loader_ranks.hpp"
#include "loaders/pipeline.hpp"

namespace dsanalyze::client {

/// What dsa_loader_open() is asked for.
struct LoaderRequest {
  ProfileSettings settings;
  ImagePrep image_prep;
  CropRule crop = CropRule::random_resized;
  int resize = 0;  ///< of the centre rule, as ImagePrepOptions
  SampleForm form = SampleForm::prepared;
  std::filesystem::path index_file;
  int rank = 0;
  int world = 1;
  RanksWish ranks{};           ///< of a partition
  bool in_background = false;  ///< dsa_loader_open() does not wait until the dataset is open
};
/// Throws UsageError that names the key.
LoaderRequest loader_request_from_json(std::string_view text);

/// A loader of this process's own as programs have it through dsanalyze.h: this rank's part of each global mini-batch, epoch after epoch. Threads:
/// any.
class OwnLoader {
 public:
  /// Opens the dataset and begins to load. Throws Error, UsageError, Interrupted when stop is requested.
  OwnLoader(LoaderRequest request, Timing timing, const std::stop_token& stop);
  ~OwnLoader();
  OwnLoader(const OwnLoader&) = delete;
  OwnLoader& operator=(const OwnLoader&) = delete;

  void describe(dsa_terms& terms) const;
  /// Waits until the ranks of a partition have met.
  Answer ready(Deadline deadline);
  Answer next(dsa_batch& batch, Deadline deadline);
  Answer release(std::uint64_t token);
  /// The place before a batch, as SamplerState::serialise(). Throws UsageError where there is none.
  [[nodiscard]] std::string state(std::uint64_t epoch, std::uint64_t index) const;
  /// Goes on there instead. Batches that are held stay as they are. Throws UsageError for a state of another dataset, seed or order or, in mid-epoch,
  /// batch size.
  void seek(std::string_view state);
  /// What it has read and prepared since it was opened, and what its dataset is, as a JSON object.
  [[nodiscard]] std::string report() const;
  /// Ends all work. What batches that are held point to stays until they are released.
  void close();
  /// Closed, and no batch is held.
  [[nodiscard]] bool done() const;

 private:
  struct Held {
    std::shared_ptr<Loader> loader;
    ReleaseToken slot;
  };
  /// What its loaders have counted, one after another.
  struct Counted {
    std::uint64_t hits = 0, misses = 0, prepared = 0, failed = 0;
    Bytes read = 0;
    std::vector<SampleFailure> failures{};  ///< the first of each
  };

  [[nodiscard]] SamplerState place(std::uint64_t epoch, std::uint64_t index) const;
  void begin(const SamplerState& start);
  /// Begins to load where it was told to last, once the ranks have met.
  void begin_if_told();
  [[nodiscard]] Pipeline& pipeline() { return m_ranks ? m_ranks->pipeline() : *m_pipeline; }
  [[nodiscard]] Counted counted() const;
  void stop_loading();
  [[nodiscard]] nlohmann::ordered_json ranks_report() const;
  [[nodiscard]] Answer nothing_loads() const;
  [[nodiscard]] std::uint64_t global_batch() const;
  Answer failed(const Loader& loader, Status status) const;
  /// Gives the batch to the caller; back to its loader if this one has been closed meanwhile.
  Answer hold(const std::shared_ptr<Loader>& loader, const Batch& batch, dsa_batch& given);
  /// Describes the elements of batches of the loader's form of samples.
  template <typename Described>
  void describe_form(Described& described_as) const;

  const pid_t m_process;
  Timing m_timing;
  LoadInputs m_inputs;
  int m_rank;
  int m_world;
  std::string m_prep;
  std::vector<Finding> m_findings;
  std::unique_ptr<RankShare> m_share;    ///< of several ranks without a partition
  std::unique_ptr<Pipeline> m_pipeline;  ///< without a partition
  std::unique_ptr<LoaderRanks> m_ranks;  ///< of a partition
  std::optional<SamplerState> m_told;    ///< where a partition's loader begins with the next batch that is asked for
  Turn m_turn;                           ///< of those who take batches
  mutable std::mutex m_mutex;
  std::shared_ptr<Loader> m_loader;  ///< nothing once it is closed, or where it could not go on elsewhere
  bool m_closed = false;
  Counted m_before;  ///< by loaders that were replaced
  std::map<std::uint64_t, Held> m_held;
  std::uint64_t m_last_token = 0;
  std::uint64_t m_next_index = 0;  ///< of the next batch in its epoch
  std::uint64_t m_epoch = 0;       ///< of the last batch
};

}  // namespace dsanalyze::client
