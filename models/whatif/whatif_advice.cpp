#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/records/rate_text.hpp"
#include "whatif_parts.hpp"

namespace dsanalyze::whatif {
namespace {

/// A change that brings less than this is not worth an advice.
constexpr double least_gain = 0.05;

/// "the accelerators [G]".
std::string named(Resource resource, const Evaluation& evaluation) {
  if (resource == Resource::gpu) return evaluation.by_transfer ? "copies to the GPU [H]" : "the accelerators [G]";
  return resource == Resource::cpu ? "prep [P]" : "fetch [F]";
}

std::string binding_words(Resource resource, const Evaluation& evaluation) {
  if (resource == Resource::gpu)
    return evaluation.by_transfer ? "copies to the GPU are the bottleneck [H]" : "the accelerators are the bottleneck [G]";
  return resource == Resource::cpu ? "prep is the bottleneck [P]" : "fetch is the bottleneck [F]";
}

/// What is the bottleneck, or which two where their intervals overlap.
std::string binding_words(const Evaluation& evaluation) {
  if (!inconclusive(evaluation)) return binding_words(evaluation.rule.resource, evaluation);
  return fmt::format("{} or {} is the bottleneck (inconclusive: their intervals overlap)", named(evaluation.rule.resource, evaluation),
                     named(evaluation.rule.next, evaluation));
}

/// From the rate now to that of a changed configuration, and what is the bottleneck there.
std::string gain(const Evaluation& base, const Evaluation& after) {
  return fmt::format("{} to {} samples/s ({:.2f}x); then {}", format_rate(base.rule.samples_per_s, base.ci95),
                     format_rate(after.rule.samples_per_s, after.ci95), after.rule.samples_per_s / base.rule.samples_per_s, binding_words(after));
}

/// What the answer to the changed configuration warns of, sentences after the first.
std::string warnings(const Asked& asked) {
  std::string text;
  for (const Finding& finding : asked.findings)
    if (finding.severity != Finding::Severity::info) text += " " + finding.message;
  return text;
}

/// "3.2x the cores" for typed rates, "9 more cores" where their number is known; empty where no number of them helps.
std::string more_cores(const RateModel& model, double target) {
  const auto needed = cores_for(target, model);
  if (!needed) return "";
  if (!needed->cores) return fmt::format("{:.2f}x the cores", needed->factor);
  const double more = *needed->cores - *model.cores;
  return more == 1 ? "1 more core" : format_number(more) + " more cores";
}

/// What to do after the binding resource was lifted: more of the same buys nothing, and what would.
std::string next_step(const RateModel& model, const Evaluation& base, const Evaluation& after, Resource then, const std::string& same) {
  std::string text = ": " + same + (inconclusive(after) ? " little" : " nothing");
  if (then == Resource::cpu && base.ingestion && base.ingestion->value > base.prep.value) {
    const std::string cores = more_cores(model, base.ingestion->value);
    if (!cores.empty()) text += fmt::format(", {} would", cores);
  }
  if (then == Resource::io) text += ", a larger cache or faster storage would";
  return text;
}

AdviceRecord advice(const std::string& code, std::string text, std::vector<std::string> evidence) {
  return {code, std::move(text), std::move(evidence), loader_steps(code)};
}

/// Two decimals, rounded up, so that what is read is enough.
double factor_at_least(double factor) { return std::ceil(factor * 100 * (1 - 1e-12)) / 100; }

void advise_cache(const RateModel& model, const Evaluation& base, std::vector<AdviceRecord>& list) {
  const Resource then = lower_of_prep_and_ingestion(base);
  const auto fraction = cache_fraction_for(model, rate_of(then, base).value);
  if (!fraction) return;
  WhatIfQuestion question;
  question.cache_sizes = {{ByteAmount::Kind::fraction, 0, fraction_at_least(*fraction)}};
  const Asked asked = ask(model, question);
  const auto& bytes = asked.variant.change.cache_bytes;
  list.push_back(
      advice("add-cache",
             fmt::format("Cache {} of the dataset{} instead of {}: {}{}.{}", share_at_least(*fraction),
                         bytes ? fmt::format(" ({})", format_bytes(*bytes)) : "", format_share(model.cache_fraction), gain(base, asked.evaluation),
                         next_step(model, base, asked.evaluation, then, "more memory buys"), warnings(asked)),
             rates_as_evidence(base)));
}

void advise_storage(const RateModel& model, const Evaluation& base, std::vector<AdviceRecord>& list) {
  const Resource then = lower_of_prep_and_ingestion(base);
  const auto storage = storage_rate_for(rate_of(then, base).value, model);
  if (!storage) return;
  const double factor = factor_at_least(*storage / model.rates.storage);
  WhatIfQuestion question;
  question.storage = {{std::nullopt, factor}};
  const Asked asked = ask(model, question);
  const std::string bytes = model.storage_bytes_per_s ? fmt::format(" ({})", format_bytes_per_second(factor * *model.storage_bytes_per_s)) : "";
  list.push_back(advice("faster-storage",
                        fmt::format("Storage {:.2f}x as fast{}: {}{}.{}", factor, bytes, gain(base, asked.evaluation),
                                    next_step(model, base, asked.evaluation, then, "faster storage buys"), warnings(asked)),
                        rates_as_evidence(base)));
}

void advise_about_fetch(const RateModel& model, const Evaluation& base, std::vector<AdviceRecord>& list) {
  advise_cache(model, base, list);
  advise_storage(model, base, list);
  if (auto packed = pack_into_shards_advice(model, base)) list.push_back(std::move(*packed));
}

void advise_about_prep(const RateModel& model, const Evaluation& base, std::vector<AdviceRecord>& list) {
  const Resource then = lower_of_fetch_and_ingestion(base);
  const auto needed = cores_for(rate_of(then, base).value, model);
  if (!needed) {
    const WhatIfFound found = find("cores", model, base);
    const bool certain = !cores_may_reach(rate_of(then, base).value, model);
    list.push_back(advice(
        "prep-does-not-scale",
        fmt::format("{}: {}.", certain ? "More cores alone do not help" : "Measure P longer, or on more cores, before you buy cores", found.then),
        rates_as_evidence(base)));
    return;
  }
  WhatIfQuestion question;
  question.cores = {{needed->cores, factor_at_least(needed->factor)}};
  const Asked asked = ask(model, question);
  const std::string how = needed->cores ? fmt::format("Give prep {} instead of {}", cores_text(*needed->cores), format_number(*model.cores))
                                        : fmt::format("Give prep {:.2f}x the cores", *question.cores[0].factor);
  list.push_back(advice("add-cores",
                        fmt::format("{}: {}{}.{}", how, gain(base, asked.evaluation),
                                    next_step(model, base, asked.evaluation, then, "more cores buy"), warnings(asked)),
                        rates_as_evidence(base)));
}

/// Copies to the GPU are the bottleneck: fewer bytes a sample.
void advise_about_transfer(const RateModel& model, const Evaluation& base, std::vector<AdviceRecord>& list) {
  constexpr double floats_over_bytes = 4;
  if (!model.transfers_floats) {
    list.push_back(advice("nothing-to-gain",
                          fmt::format("Samples are copied as bytes already, and {}: a faster link to the GPU alone brings more.",
                                      binding_sentence(Resource::gpu, base)),
                          rates_as_evidence(base)));
    return;
  }
  WhatIfQuestion question;
  question.transfers = {floats_over_bytes};
  const Asked asked = ask(model, question);
  list.push_back(advice("smaller-transfers",
                        fmt::format("Copy samples to the GPU as uint8 and make floats of them there, a quarter of the bytes: {}.{}",
                                    gain(base, asked.evaluation), warnings(asked)),
                        rates_as_evidence(base)));
}

/// The accelerators that surely ingest all that the data side brings, where those are fewer than there are.
void advise_about_accelerators(const RateModel& model, const Evaluation& base, std::vector<AdviceRecord>& list) {
  if (!model.accelerators || *model.accelerators < 2 || base.by_transfer) return;
  const double each = base.ingestion->value / *model.accelerators;
  const double each_at_least = base.ingestion->ci95.low / *model.accelerators;
  if (!(each_at_least > 0)) return;
  const double enough = std::max(std::ceil(base.ci95.high / each_at_least * (1 - 1e-12)), 1.0);
  if (enough >= *model.accelerators) return;
  list.push_back(
      advice("fewer-accelerators",
             fmt::format("As long as that stays so, {} of the {} accelerators do the same work: they want {}, and {}.", format_number(enough),
                         format_number(*model.accelerators), rate_with_letter(with_error(enough * each, model.ingestion_error), 'G'),
                         binding_sentence(base.rule.resource, base)),
             rates_as_evidence(base)));
}

}  // namespace

std::optional<AdviceRecord> more_workers_advice(const RateModel& model, const Evaluation& base) {
  if (!model.observed) return std::nullopt;
  if (!(base.ci95.low > *model.observed * (1 + least_gain))) return std::nullopt;
  return advice("more-workers",
                fmt::format("Before anything is bought: your own loader reaches {} samples/s where this machine feeds {} ({:.2f}x), so give it more "
                            "workers and let them run further ahead; then {}.",
                            format_number(*model.observed), format_rate(base.rule.samples_per_s, base.ci95),
                            base.rule.samples_per_s / *model.observed, binding_words(base.rule.resource, base)),
                rates_as_evidence(base));
}

std::optional<AdviceRecord> pack_into_shards_advice(const RateModel& model, const Evaluation& base) {
  if (!model.storage_curve || !model.request_bytes || !model.fetch_concurrency) return std::nullopt;
  const double piece = model.storage_curve->largest_request();
  if (!(piece > *model.request_bytes)) return std::nullopt;
  const auto now = model.storage_curve->at(*model.request_bytes, *model.fetch_concurrency);
  const auto packed = model.storage_curve->at(piece, *model.fetch_concurrency);
  if (!now || !packed || packed->extrapolated) return std::nullopt;

  Variant packed_samples{as_measured(model), {}};
  packed_samples.setup.storage *= packed->bytes_per_s / now->bytes_per_s;
  packed_samples.change.request_bytes = piece;
  const Evaluation after = evaluate(model, packed_samples);
  if (!(after.rule.samples_per_s > base.rule.samples_per_s * (1 + least_gain)) || after.ci95.low <= base.ci95.high) return std::nullopt;
  std::vector<std::string> evidence = rates_as_evidence(base);
  evidence.push_back(fmt::format("storage gives {} in reads of {} and {} in reads of {}", format_bytes_per_second(now->bytes_per_s),
                                 format_bytes(static_cast<Bytes>(std::llround(*model.request_bytes))), format_bytes_per_second(packed->bytes_per_s),
                                 format_bytes(static_cast<Bytes>(std::llround(piece)))));
  return advice("pack-into-shards",
                fmt::format("Pack the samples into shards that are read in pieces of {}: {}.", format_bytes(static_cast<Bytes>(std::llround(piece))),
                            gain(base, after)),
                std::move(evidence));
}

std::optional<AdviceRecord> share_prep_advice(const RateModel& model, std::uint32_t jobs) {
  if (jobs < 2 || !model.rates.ingestion) return std::nullopt;
  Setup setup = as_measured(model);
  setup.jobs = jobs;
  setup.sharing = JobSharing::none;
  const Evaluation base = bounds(model, setup);
  setup.sharing = JobSharing::coordinated;
  const Evaluation after = bounds(model, setup);
  if (!(after.rule.samples_per_s > base.rule.samples_per_s * (1 + least_gain)) || after.ci95.low <= base.ci95.high) return std::nullopt;
  return advice(
      "share-prep",
      fmt::format("Let the {} jobs share one sweep of fetch and prep (coordinated prep) instead of one each: together {}.", jobs, gain(base, after)),
      rates_as_evidence(base));
}

std::vector<AdviceRecord> advise(const RateModel& model, const Evaluation& base) {
  std::vector<AdviceRecord> list;
  if (auto workers = more_workers_advice(model, base)) list.push_back(std::move(*workers));
  if (!base.ingestion) {
    list.push_back(
        advice("measure-accelerator",
               fmt::format("Find out what the accelerators can consume [G]: whether anything is to be gained depends on it; {} on the data side.",
                           binding_sentence(base.rule.resource, base)),
               rates_as_evidence(base)));
    return list;
  }
  if (base.too_close) {
    list.push_back(advice(
        "too-close",
        fmt::format(
            "{}, so that the intervals narrow: it is inconclusive whether {} or {}, as the intervals overlap; to lift one of them alone buys little.",
            model.typed ? "Type rates of longer measurements" : "Profile longer (--time-budget)", binding_sentence(base.rule.resource, base),
            binding_sentence(base.rule.next, base)),
        rates_as_evidence(base)));
    return list;
  }
  switch (base.rule.resource) {
    case Resource::io:
      advise_about_fetch(model, base, list);
      break;
    case Resource::cpu:
      advise_about_prep(model, base, list);
      break;
    case Resource::gpu:
      if (base.by_transfer) {
        advise_about_transfer(model, base, list);
        return list;
      }
      list.push_back(advice("nothing-to-gain",
                            fmt::format("Nothing to gain on the data side: {}; more cache, cores or faster storage buy nothing.",
                                        binding_sentence(Resource::gpu, base)),
                            rates_as_evidence(base)));
      return list;
  }
  advise_about_accelerators(model, base, list);
  return list;
}

namespace {

struct Steps {
  std::string_view code;
  const char* pytorch;
  const char* dali;
  const char* webdataset;  ///< nullptr: nothing
};

constexpr std::array<Steps, 11> table{{
    {"add-cache",
     "copy a fixed part of the files to /dev/shm once and let the Dataset open those there: a part that is never replaced has as many hits an epoch "
     "as "
     "it holds, the page cache fewer; persistent_workers=True keeps what workers hold between epochs",
     "copy a fixed part to /dev/shm and list both places in fn.readers.file(files=[...]); or hold decoded images in GPU memory: "
     "fn.decoders.image(device='mixed', cache_type='threshold', cache_size=MIB) with skip_cached_images=True and stick_to_shard=True in the "
     "reader",
     "copy a fixed part of the shards to /dev/shm and give both places in urls; wds.WebDataset(urls, cache_dir=DIR, cache_size=BYTES) does it by "
     "itself "
     "when all shards fit"},
    {"smaller-transfers",
     "return uint8 from the Dataset (torchvision: leave ToTensor and Normalize out, keep v2.ToImage), pin_memory=True, "
     "images.to(device, non_blocking=True), then images.float().sub_(MEAN).div_(DEVIATION) on the GPU; for convolutions "
     "memory_format=torch.channels_last",
     "decode on the GPU (fn.decoders.image(device='mixed')), so that encoded bytes are copied, and normalise there (fn.crop_mirror_normalize)",
     "decode(\"rgb8\") and the same normalisation on the GPU"},
    {"faster-storage",
     "copy the dataset to a local disk before training (rsync -a) and give the Dataset that root; meanwhile more num_workers and prefetch_factor "
     "keep "
     "more reads in flight",
     "fn.readers.file(file_root=LOCAL) after the same copy; on a network filesystem dont_use_mmap=True, and prefetch_queue_depth=2 or more in the "
     "reader",
     "wds.WebDataset(urls, cache_dir=LOCAL) copies each shard to the local disk when it is first read"},
    {"add-cores",
     "DataLoader(num_workers=N): N is for each training process, so divide the cores by the processes; persistent_workers=True, prefetch_factor=4, "
     "pin_memory=True",
     "@pipeline_def(num_threads=N) is for each GPU's pipeline; where cores are short, fn.decoders.image(device='mixed', hw_decoder_load=0.65) "
     "decodes "
     "on the GPU",
     "wds.WebLoader(dataset, num_workers=N, batch_size=None), batching in the workers with .batched(B); it needs at least as many shards as workers "
     "(dsanalyze dataset convert --shard-size makes smaller ones)"},
    {"more-workers",
     "raise DataLoader(num_workers=N) until the processes' workers together are as many as the cores (os.sched_getaffinity); 0, the default, "
     "prepares in "
     "the training process itself; persistent_workers=True, prefetch_factor=4, pin_memory=True",
     "raise num_threads of the pipeline, and its prefetch_queue_depth above the default 2 where batches come unevenly; give PyTorch the batches by "
     "DALIGenericIterator, without a DataLoader around it",
     "raise wds.WebLoader(num_workers=N), at most as many as shards for each process; decode with .decode('torchrgb8') or 'pil' in the workers"},
    {"prep-does-not-scale",
     "move prep off the CPU or out of the epoch: decode on the GPU (torchvision.io.decode_jpeg(device='cuda')), smaller source images, or samples "
     "prepared once (dsanalyze dataset convert --to npy)",
     "fn.decoders.image(device='mixed', hw_decoder_load=0.65) and the following operators with device='gpu'",
     "store smaller images in the shards, and leave resizing and normalising to the GPU"},
    {"pack-into-shards",
     "dsanalyze dataset convert DATA SHARDS --to tar; then wds.WebDataset(urls, shardshuffle=100).shuffle(5000) in place of the map-style Dataset",
     "dsanalyze dataset convert DATA SHARDS --to tar; wds2idx makes the indices; fn.readers.webdataset(paths=[...], index_paths=[...], "
     "ext=['jpg;jpeg', 'cls'], random_shuffle=True, initial_fill=5000)",
     "dsanalyze dataset convert DATA SHARDS --to tar; wds.WebDataset(urls, shardshuffle=100, nodesplitter=wds.split_by_node).shuffle(5000)"},
    {"share-prep",
     "DataLoader prepares for one job only: let one process prepare and hand the batches to all jobs (tensors in shared memory, "
     "torch.Tensor.share_memory_()), or run fewer jobs at once; one copy of the files in /dev/shm at least shares the reads",
     "a pipeline serves one process: feed the other jobs with fn.external_source from the one that prepares, or run fewer jobs at once",
     "one WebLoader feeding all jobs; or share the reads with one cache_dir on a local disk for all jobs"},
    {"fewer-accelerators",
     "torchrun --nproc_per_node=N, and batch_size higher by as much, so that the global batch stays; the workers of the processes that go are free "
     "for "
     "the others",
     "num_shards=N in the readers, batch_size and num_threads higher by as much",
     "wds.split_by_node follows the number of processes by itself; keep the global batch with .batched(B)"},
    {"measure-accelerator",
     "time 100 steps on one batch that already lies on the GPU, with torch.cuda.synchronize() before and after; then dsanalyze profile --accelerator "
     "emulated:RATE",
     "the same script: it needs no loader", "the same script: it needs no loader"},
    {"nothing-to-gain",
     "leave the loader as it is; what is left is in the training step (mixed precision, channels_last, torch.compile) and in the accelerators",
     "leave the pipeline as it is; cores that it does not need may be given back (num_threads)", nullptr},
}};

}  // namespace

std::vector<LoaderStep> loader_steps(std::string_view advice_code) {
  for (const Steps& steps : table) {
    if (steps.code != advice_code) continue;
    std::vector<LoaderStep> list{{"PyTorch DataLoader", steps.pytorch}, {"NVIDIA DALI", steps.dali}};
    if (steps.webdataset != nullptr) list.push_back({"WebDataset", steps.webdataset});
    return list;
  }
  return {};
}

}  // namespace dsanalyze::whatif
