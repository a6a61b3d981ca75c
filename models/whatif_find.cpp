#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dsanalyze/base/error.hpp"
#include "dsanalyze/core/rate_text.hpp"
#include "whatif_parts.hpp"

namespace dsanalyze::whatif {
namespace {

/// Of two rates, what binds: used once the third is known not to.
Resource lower_of_prep_and_ingestion(const Evaluation& base) {
  return base.ingestion && base.ingestion->value < base.prep.value ? Resource::gpu : Resource::cpu;
}
Resource lower_of_fetch_and_ingestion(const Evaluation& base) {
  return base.ingestion && base.ingestion->value < base.fetch.value ? Resource::gpu : Resource::io;
}

/// Without G, "binds" is only said of the data side.
std::string of_the_data_side(const Evaluation& base) { return base.ingestion ? "" : " of the data side (G is not known)"; }

WhatIfFound find_cache(const RateModel& model, const Evaluation& base) {
  WhatIfFound found{"cache", std::nullopt, "of the dataset", ""};
  const double target = rate_of(lower_of_prep_and_ingestion(base), base).value;
  const std::string then = binding_sentence(lower_of_prep_and_ingestion(base), base) + of_the_data_side(base) + "; more memory buys nothing";
  found.value = cache_fraction_for(target, model.rates.cache, model.rates.storage);
  if (!found.value) {
    found.then = fmt::format("no cache removes the fetch stall: even from the cache samples come at only {}, and {}",
                             rate_with_letter(with_error(model.rates.cache, model.cache_error), 'C'),
                             binding_sentence(lower_of_prep_and_ingestion(base), base));
    return found;
  }
  const std::string bytes =
      model.dataset_bytes ? fmt::format("{}; ", format_bytes(static_cast<Bytes>(std::ceil(*found.value * static_cast<double>(*model.dataset_bytes)))))
                          : "";
  const std::string already =
      base.fetch.value >= target ? fmt::format("there is no fetch stall with the {} cached now; ", format_share(model.cache_fraction)) : "";
  found.then = bytes + already + then;
  return found;
}

WhatIfFound find_cores(const RateModel& model, const Evaluation& base) {
  const double target = rate_of(lower_of_fetch_and_ingestion(base), base).value;
  const CoresNeeded needed = cores_for(target, model);
  WhatIfFound found{"cores", needed.cores ? *needed.cores : needed.factor, needed.cores ? "cores" : "times the cores", ""};
  if (base.prep.value >= target) found.then = "there is no prep stall now; ";
  found.then += binding_sentence(lower_of_fetch_and_ingestion(base), base) + of_the_data_side(base) + "; more cores buy nothing";
  if (needed.cores && model.measured_cores_high && *needed.cores > *model.measured_cores_high)
    found.then += fmt::format(" (P is extrapolated: it was measured on up to {} cores)", format_number(*model.measured_cores_high));
  return found;
}

WhatIfFound find_accelerators(const RateModel& model, const Evaluation& base) {
  WhatIfFound found{"accelerators", std::nullopt, model.accelerators ? "accelerators" : "times the accelerators", ""};
  const Resource data = base.fetch.value < base.prep.value ? Resource::io : Resource::cpu;
  const double feed = std::min(base.fetch.value, base.prep.value);
  if (!base.ingestion) {
    found.then = fmt::format("G is not known, so how many can be fed cannot be said; {} of the data side", binding_sentence(data, base));
    return found;
  }
  if (!model.accelerators) {
    found.value = feed / base.ingestion->value;
    found.then = "beyond that, " + binding_sentence(data, base);
    return found;
  }
  const double each = base.ingestion->value / *model.accelerators;
  const double most = std::floor(feed / each * (1 + 1e-12));
  if (most < 1) {
    found.then = fmt::format("not even one can be kept busy: it wants {}, and {}", rate_with_letter(with_error(each, model.ingestion_error), 'G'),
                             binding_sentence(data, base));
    return found;
  }
  found.value = most;
  found.then = fmt::format("together they want {}; with one more, {}", rate_with_letter(with_error(most * each, model.ingestion_error), 'G'),
                           binding_sentence(data, base));
  return found;
}

WhatIfFound find_storage(const RateModel& model, const Evaluation& base) {
  WhatIfFound found{"storage", std::nullopt, model.storage_bytes_per_s ? "bytes/s" : "times the storage rate", ""};
  const double target = rate_of(lower_of_prep_and_ingestion(base), base).value;
  if (base.fetch.value >= target) found.then = "there is no fetch stall now; ";
  const auto needed = storage_rate_for(target, model.cache_fraction, model.rates.cache);
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
                of_the_data_side(base) + "; faster storage buys nothing";
  return found;
}

std::string binding_words(Resource resource) {
  return resource == Resource::gpu ? "the accelerators bind [G]" : resource == Resource::cpu ? "prep binds [P]" : "fetch binds [F]";
}

/// What lifting the binding resource brings: from now to where `then` binds.
std::string gain(const Evaluation& base, Resource then) {
  const RateEstimate& after = rate_of(then, base);
  return fmt::format("{} to {} samples/s ({:.2f}x); then {}", format_rate(base.rule.samples_per_s, base.ci95), format_rate(after.value, after.ci95),
                     after.value / base.rule.samples_per_s, binding_words(then));
}

void advise_about_fetch(const RateModel& model, const Evaluation& base, std::vector<AdviceRecord>& advice) {
  const Resource then = lower_of_prep_and_ingestion(base);
  const double target = rate_of(then, base).value;
  if (const auto fraction = cache_fraction_for(target, model.rates.cache, model.rates.storage)) {
    const std::string bytes =
        model.dataset_bytes ? fmt::format(" ({})", format_bytes(static_cast<Bytes>(std::ceil(*fraction * static_cast<double>(*model.dataset_bytes)))))
                            : "";
    advice.push_back({"add-cache",
                      fmt::format("Cache {} of the dataset{} instead of {}: {}.", share_at_least(*fraction), bytes,
                                  format_share(model.cache_fraction), gain(base, then)),
                      rates_as_evidence(base)});
  }
  if (const auto storage = storage_rate_for(target, model.cache_fraction, model.rates.cache)) {
    const double factor = *storage / model.rates.storage;
    const std::string bytes = model.storage_bytes_per_s ? fmt::format(" ({})", format_bytes_per_second(factor * *model.storage_bytes_per_s)) : "";
    advice.push_back({"faster-storage", fmt::format("Storage {:.2f}x as fast{}: {}.", factor, bytes, gain(base, then)), rates_as_evidence(base)});
  }
}

void advise_about_prep(const RateModel& model, const Evaluation& base, std::vector<AdviceRecord>& advice) {
  const double target = rate_of(lower_of_fetch_and_ingestion(base), base).value;
  const CoresNeeded needed = cores_for(target, model);
  const std::string how = needed.cores ? fmt::format("Give prep {} cores instead of {}", format_number(*needed.cores), format_number(*model.cores))
                                       : fmt::format("Give prep {:.2f}x the cores", needed.factor);
  advice.push_back({"add-cores", fmt::format("{}: {}.", how, gain(base, lower_of_fetch_and_ingestion(base))), rates_as_evidence(base)});
}

}  // namespace

std::vector<std::string> rates_as_evidence(const Evaluation& evaluation) {
  std::vector<std::string> evidence;
  if (evaluation.ingestion) evidence.push_back("the accelerators want " + rate_with_letter(*evaluation.ingestion, 'G'));
  evidence.push_back("prep can deliver " + rate_with_letter(evaluation.prep, 'P'));
  evidence.push_back("fetch can deliver " + rate_with_letter(evaluation.fetch, 'F'));
  return evidence;
}

std::optional<double> storage_rate_for(double target, double x, double cache_rate) {
  const double left = 1 / target - x / cache_rate;
  if (left <= 0 || x >= 1) return std::nullopt;
  return (1 - x) / left;
}

CoresNeeded cores_for(double target, const RateModel& model) {
  CoresNeeded needed{target / model.rates.prep, std::nullopt};
  if (model.cores) needed.cores = std::max(std::ceil(needed.factor * *model.cores * (1 - 1e-12)), 1.0);
  return needed;
}

std::string share_at_least(double share) { return format_share(std::ceil(share * 1000 * (1 - 1e-12)) / 1000); }

WhatIfFound find(const std::string& question, const RateModel& model) {
  const Evaluation base = evaluate(model, as_measured(model));
  if (question == "cache") return find_cache(model, base);
  if (question == "cores") return find_cores(model, base);
  if (question == "accelerators") return find_accelerators(model, base);
  if (question == "storage") return find_storage(model, base);
  throw UsageError(fmt::format("--find {}: expected cache, cores, accelerators or storage", question));
}

std::vector<AdviceRecord> advise(const RateModel& model) {
  const Evaluation base = evaluate(model, as_measured(model));
  std::vector<AdviceRecord> advice;
  if (!base.ingestion) {
    advice.push_back({"measure-accelerator",
                      fmt::format("Find out what the accelerators want [G]: whether anything is to be gained depends on it; {} of the data side.",
                                  binding_sentence(base.rule.resource, base)),
                      rates_as_evidence(base)});
    return advice;
  }
  if (base.too_close) return advice;
  switch (base.rule.resource) {
    case Resource::io:
      advise_about_fetch(model, base, advice);
      break;
    case Resource::cpu:
      advise_about_prep(model, base, advice);
      break;
    case Resource::gpu:
      advice.push_back({"nothing-to-gain",
                        fmt::format("Nothing to gain on the data side: {}; more cache, cores or faster storage buy nothing.",
                                    binding_sentence(Resource::gpu, base)),
                        rates_as_evidence(base)});
      break;
  }
  return advice;
}

}  // namespace dsanalyze::whatif
