#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "core/records/rate_text.hpp"
#include "whatif_parts.hpp"

namespace dsanalyze::whatif {
namespace {

constexpr int most_cores_beside_a_gpu = 1024;

bool prepares_on_gpu(const RateModel& model) { return model.prep_servers && model.prep_place != PrepPlace::cpu; }

/// Without G, the bottleneck is only that of the data side.
std::string of_the_data_side(const Evaluation& base) { return base.ingestion ? "" : " on the data side (G is not known)"; }

/// "nothing" or "little", as sure as the advice for the same change is, and what an answer far beyond what was measured is.
struct Surety {
  std::string buys = "nothing";
  std::string estimate;
};
Surety surety_of(const RateModel& model, const WhatIfQuestion& question) {
  const Asked asked = ask(model, question);
  Surety surety;
  if (inconclusive(asked.evaluation)) surety.buys = "little (inconclusive: intervals overlap)";
  if (extrapolation(model, asked.variant.change) > most_extrapolation) surety.estimate = ", so this is an estimate, not certain";
  return surety;
}

WhatIfFound find_cache(const RateModel& model, const Evaluation& base) {
  WhatIfFound found{"cache", std::nullopt, "of the dataset", ""};
  const double target = rate_of(lower_of_prep_and_ingestion(base), base).value;
  const std::string then = binding_sentence(lower_of_prep_and_ingestion(base), base) + of_the_data_side(base) + "; more memory buys ";
  found.value = cache_fraction_for(model, target);
  if (!found.value) {
    found.then = fmt::format("no cache removes the fetch stall: even from the cache samples come at only {}, and {}",
                             rate_with_letter(with_error(model.rates.cache, model.cache_error), 'C'),
                             binding_sentence(lower_of_prep_and_ingestion(base), base));
    return found;
  }
  const std::string bytes =
      model.dataset_bytes ? fmt::format("{}; ", format_bytes(static_cast<Bytes>(std::ceil(*found.value * static_cast<double>(*model.dataset_bytes)))))
                          : "";
  const std::string already = base.fetch.value >= target
                                  ? fmt::format("by the rates there is no fetch stall with the {} cached now; ", format_share(model.cache_fraction))
                                  : "";
  WhatIfQuestion question;
  question.cache_sizes = {{ByteAmount::Kind::fraction, 0, fraction_at_least(*found.value)}};
  found.then = bytes + already + then + surety_of(model, question).buys;
  return found;
}

WhatIfFound find_cores(const RateModel& model, const Evaluation& base) {
  const double target = rate_of(lower_of_fetch_and_ingestion(base), base).value;
  const auto needed = cores_for(target, model);
  WhatIfFound found{"cores", std::nullopt, model.cores ? "cores" : "times the cores", ""};
  if (!needed && prepares_on_gpu(model)) {
    Setup most = as_measured(model);
    take_cores(model, most_cores_beside_a_gpu, most);
    found.then = fmt::format("prep stays the bottleneck: beside the GPU it reaches {} samples/s [P] with {}", format_number(most.prep),
                             cores_text(most_cores_beside_a_gpu));
    return found;
  }
  if (!needed) {
    const ScalingLaw& law = model.scaling.law();
    const std::string most = std::isfinite(law.peak_threads())
                                 ? fmt::format("with {} cores, and less with more", format_number(std::floor(law.peak_threads())))
                                 : "as cores are added";
    const std::string limit =
        fmt::format("by the scalability law prep comes near {} samples/s [P] {}",
                    format_number(model.rates.prep * model.scaling.factor(*model.cores, std::min(law.peak_threads(), 1e9))), most);
    found.then = cores_may_reach(target, model)
                     ? limit + "; but by the intervals of the measured points more cores may be enough, so this is not certain"
                     : "prep stays the bottleneck: " + limit;
    return found;
  }
  found.value = needed->cores ? *needed->cores : needed->factor;
  if (base.prep.value >= target) found.then = "by the rates prep is not the bottleneck now; ";
  found.then += binding_sentence(lower_of_fetch_and_ingestion(base), base) + of_the_data_side(base) + "; more cores buy ";
  WhatIfQuestion question;
  question.cores = {{needed->cores, needed->factor}};
  const Surety surety = surety_of(model, question);
  found.then += surety.buys;
  if (needed->cores && model.measured_cores_high && *needed->cores > *model.measured_cores_high)
    found.then += fmt::format(" (P is extrapolated: it was measured on up to {}{})", cores_text(*model.measured_cores_high), surety.estimate);
  return found;
}

WhatIfFound find_accelerators(const RateModel& model, const Evaluation& base) {
  WhatIfFound found{"accelerators", std::nullopt, model.accelerators ? "accelerators" : "times the accelerators", ""};
  const Resource data = base.fetch.value < base.prep.value ? Resource::io : Resource::cpu;
  const double feed = std::min(base.fetch.value, base.prep.value);
  if (!base.ingestion) {
    found.then = fmt::format("G is not known, so how many can be fed cannot be said; {} on the data side", binding_sentence(data, base));
    return found;
  }
  if (!model.accelerators) {
    found.value = feed / base.ingestion->value;
    found.then = "beyond that, " + binding_sentence(data, base);
    return found;
  }
  // Each has a link of its own, and takes what comes over it.
  const double each = base.ingestion->value / *model.accelerators;
  const double error = base.by_transfer ? model.transfer_error : model.ingestion_error;
  const double most = std::floor(feed / each * (1 + 1e-12));
  if (most < 1) {
    found.then = fmt::format("not even one can be kept busy: it takes {}, and {}",
                             rate_with_letter(with_error(each, error), letter_of_ingestion(base)), binding_sentence(data, base));
    return found;
  }
  found.value = most;
  found.then = fmt::format("together they take {}; with one more, {}", rate_with_letter(with_error(most * each, error), letter_of_ingestion(base)),
                           binding_sentence(data, base));
  return found;
}

WhatIfFound find_storage(const RateModel& model, const Evaluation& base) {
  WhatIfFound found{"storage", std::nullopt, model.storage_bytes_per_s ? "bytes/s" : "times the storage rate", ""};
  const double target = rate_of(lower_of_prep_and_ingestion(base), base).value;
  if (base.fetch.value >= target) found.then = "by the rates there is no fetch stall now; ";
  const auto needed = storage_rate_for(target, model);
  if (!needed && base.fetch.value >= target) {
    found.then += "everything comes from the cache, so storage does not matter";
    return found;
  }
  if (!needed) {
    found.then = fmt::format("no storage removes the fetch stall: the {} from the cache come at only {}, and {}", format_share(model.cache_fraction),
                             rate_with_letter(with_error(model.rates.cache, model.cache_error), 'C'),
                             binding_sentence(lower_of_prep_and_ingestion(base), base));
    return found;
  }
  const double factor = *needed / model.rates.storage;
  found.value = model.storage_bytes_per_s ? factor * *model.storage_bytes_per_s : factor;
  found.then += fmt::format("that is {} samples/s [S]; ", format_number(*needed)) + binding_sentence(lower_of_prep_and_ingestion(base), base) +
                of_the_data_side(base) + "; faster storage buys ";
  WhatIfQuestion question;
  question.storage = {{std::nullopt, factor}};
  const Surety surety = surety_of(model, question);
  found.then += surety.buys + surety.estimate;
  return found;
}

}  // namespace

Resource lower_of_prep_and_ingestion(const Evaluation& base) {
  return base.ingestion && base.ingestion->value < base.prep.value ? Resource::gpu : Resource::cpu;
}
Resource lower_of_fetch_and_ingestion(const Evaluation& base) {
  return base.ingestion && base.ingestion->value < base.fetch.value ? Resource::gpu : Resource::io;
}

std::vector<std::string> rates_as_evidence(const Evaluation& evaluation) {
  std::vector<std::string> evidence;
  if (evaluation.ingestion)
    evidence.push_back((evaluation.by_transfer ? "transfers can supply " : "the accelerators can consume ") +
                       rate_with_letter(*evaluation.ingestion, letter_of_ingestion(evaluation)));
  evidence.push_back("prep can supply " + rate_with_letter(evaluation.prep, 'P'));
  evidence.push_back("fetch can supply " + rate_with_letter(evaluation.fetch, 'F'));
  return evidence;
}

std::optional<double> storage_rate_for(double target, const RateModel& model) {
  const double missed = model.misses.storage_share(model.cache_fraction);
  const double left = 1 / target - (1 - missed) / model.rates.cache;
  if (left <= 0 || missed <= 0) return std::nullopt;
  return missed / left;
}

std::optional<CoresNeeded> cores_for(double target, const RateModel& model) {
  CoresNeeded needed{target / model.rates.prep, std::nullopt};
  if (!model.cores) return needed;
  if (prepares_on_gpu(model)) {
    for (int cores = 1; cores <= most_cores_beside_a_gpu; ++cores) {
      Setup setup = as_measured(model);
      take_cores(model, cores, setup);
      if (setup.prep * (1 + 1e-11) < target) continue;
      needed.cores = cores;
      return needed;
    }
    return std::nullopt;
  }
  const auto cores = model.scaling.cores_for(model.scaling.rate(*model.cores) * needed.factor);
  if (!cores) return std::nullopt;
  needed.cores = std::max(std::ceil(*cores * (1 - 1e-11)), 1.0);
  return needed;
}

bool cores_may_reach(double target, const RateModel& model) {
  if (!model.cores) return true;
  if (prepares_on_gpu(model)) return cores_for(target * (1 - model.prep_error), model).has_value();
  const double wanted = model.scaling.rate(*model.cores) * target / model.rates.prep;
  for (const auto& moved : model.scaling.moved_by_errors())
    for (const FittedScaling& fit : moved)
      if (fit.cores_for(wanted)) return true;
  return false;
}

double fraction_at_least(double share) { return std::min(1.0, std::ceil(share * 1000 * (1 - 1e-12)) / 1000); }
std::string share_at_least(double share) { return format_share(fraction_at_least(share)); }

WhatIfFound find(const std::string& question, const RateModel& model, const Evaluation& base) {
  if (question == "cache") return find_cache(model, base);
  if (question == "cores") return find_cores(model, base);
  if (question == "accelerators") return find_accelerators(model, base);
  if (question == "storage") return find_storage(model, base);
  throw UsageError(fmt::format("--find {}: expected cache, cores, accelerators or storage", question));
}

}  // namespace dsanalyze::whatif
