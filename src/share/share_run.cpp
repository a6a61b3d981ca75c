#include "share_run.hpp"

#include "base/error.hpp"
#include "base/text/enum_names.hpp"

namespace dsanalyze {
namespace {

ShareJobRecord record_of(const GroupJobAccount& job) {
  const StagingCounts& counts = job.counts;
  return {job.place,
          job.process,
          job.first_epoch,
          job.end,
          counts.batches_taken,
          counts.samples_taken,
          counts.batches_made,
          counts.samples_made,
          counts.batches_taken_over,
          counts.requested_bytes};
}

}  // namespace

void ShareRun::save_state(const std::filesystem::path& /*path*/) { throw Error("only a dependent group can be saved and resumed"); }

Pipeline::Spec share_pipeline(const LoadInputs& inputs, FetchWay way, Bytes cache_bytes) {
  const ProfileSettings& settings = inputs.settings;
  Pipeline::Spec pipeline;
  pipeline.index = inputs.index;
  pipeline.cache = holds_samples(settings.cache) ? settings.cache : CacheKind::none;
  pipeline.cache_bytes = cache_bytes;
  pipeline.page_cache = settings.cache == CacheKind::page ? PageCacheUse::keep : PageCacheUse::drop;
  pipeline.workers = settings.workers;
  pipeline.way = way;
  return pipeline;
}

ShareResult share_result_of(const DatasetIndex& index, const std::string& path, const GroupTerms& terms, const std::vector<GroupJobAccount>& jobs) {
  ShareResult result;
  result.dataset.path = path;
  result.dataset.format = index.facts().format;
  result.dataset.samples = index.size();
  result.dataset.bytes = index.bytes();
  result.dataset.digest = index.facts().digest;
  const StagingFacts& staging = terms.staging;
  result.terms.jobs = staging.jobs;
  result.terms.batch_size = staging.batch_size;
  result.terms.batches_per_epoch = staging.batches_per_epoch;
  result.terms.samples = terms.samples;
  result.terms.epochs = staging.epochs;
  result.terms.held = staging.held;
  result.terms.seed = terms.seed;
  result.terms.prep = terms.prep;
  result.terms.shape.assign(terms.tensor.shape.begin(), terms.tensor.shape.begin() + terms.tensor.dimensions);
  result.terms.dtype = enum_name(terms.tensor.dtype);
  for (const GroupJobAccount& job : jobs) {
    result.jobs.push_back(record_of(job));
    result.samples_prepared += job.counts.samples_made;
    result.batches_taken += job.counts.batches_taken;
    result.samples_taken += job.counts.samples_taken;
    result.batches_taken_over += job.counts.batches_taken_over;
    result.requested_bytes += job.counts.requested_bytes;
  }
  return result;
}

}  // namespace dsanalyze
