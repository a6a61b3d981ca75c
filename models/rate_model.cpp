#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "dsanalyze/base/error.hpp"
#include "dsanalyze/base/json_reader.hpp"
#include "dsanalyze/models/whatif.hpp"

namespace dsanalyze {
namespace {

double relative_error(const RateRecord& rate) {
  const double half = (rate.ci95_samples_per_s.high - rate.ci95_samples_per_s.low) / 2;
  return rate.samples_per_s > 0 ? std::max(half / rate.samples_per_s, 0.0) : 0;
}

const RateRecord& required(const std::optional<RateRecord>& rate, const std::string& letter, const std::string& run) {
  if (!rate || rate->samples_per_s <= 0)
    throw UsageError(fmt::format("the profile holds no {}: what-if answers need it; profile again with the run \"{}\" (--runs)", letter, run));
  return *rate;
}

double cores_behind_prep(const ProfileResult& profile) {
  const ProfileSettings& settings = profile.settings;
  double cores = settings.cores > 0 ? settings.cores : profile.host.cores;
  if (settings.workers > 0) cores = cores > 0 ? std::min<double>(cores, settings.workers) : settings.workers;
  return cores;
}

/// The text's "KEY=VALUE" parts in order, each key known and given once.
std::map<std::string, std::string> key_values(const std::string& text, const std::string& option, const std::vector<std::string>& known) {
  std::map<std::string, std::string> values;
  for (const std::string& part : split_list(text)) {
    const auto equals = part.find('=');
    const std::string key = part.substr(0, equals);
    if (equals == std::string::npos || equals + 1 == part.size())
      throw UsageError(fmt::format("{}: found \"{}\", expected {}=VALUE", option, part, key.empty() ? "NAME" : key));
    if (std::ranges::find(known, key) == known.end()) {
      const auto near = nearest_name(key, known);
      throw UsageError(fmt::format("{}: \"{}\" is not known{}; known are {}", option, key, near ? fmt::format(" (did you mean \"{}\"?)", *near) : "",
                                   fmt::join(known, ", ")));
    }
    if (!values.emplace(key, part.substr(equals + 1)).second) throw UsageError(fmt::format("{}: {} is given twice", option, key));
  }
  return values;
}

struct TypedRate {
  double value = 0;
  double error = 0;
};

/// "4698", "4698±2%", "4698+-2%".
TypedRate typed_rate(const std::string& key, const std::string& text) {
  try {
    TypedRate rate;
    std::string number = text;
    for (const std::string sign : {"±", "+-", "+/-"}) {
      const auto at = text.find(sign);
      if (at == std::string::npos) continue;
      number = text.substr(0, at);
      rate.error = parse_share(text.substr(at + sign.size()));
      if (rate.error >= 1) throw UsageError(fmt::format("found an error of {}, expected less than 100 %", format_share(rate.error)));
      break;
    }
    rate.value = parse_number(number);
    if (rate.value <= 0) throw UsageError(fmt::format("found \"{}\", expected a rate above 0 in samples/s", text));
    return rate;
  } catch (const Error& error) {
    throw UsageError(fmt::format("--rates {}: {}", key, error.what()));
  }
}

double positive_number(const std::string& key, const std::string& text) {
  const double value = parse_number(text);
  if (value <= 0) throw UsageError(fmt::format("--base {}: found \"{}\", expected a number above 0", key, text));
  return value;
}

void read_base(const std::string& base, RateModel& model) {
  const auto values = key_values(base, "--base", {"cores", "accelerators", "dataset", "samples", "cache"});
  const auto text_of = [&values](const std::string& key) -> const std::string* {
    const auto found = values.find(key);
    return found == values.end() ? nullptr : &found->second;
  };
  if (const auto* text = text_of("cores")) model.cores = model.measured_cores_high = positive_number("cores", *text);
  if (const auto* text = text_of("accelerators")) model.accelerators = static_cast<double>(parse_integer(*text, 1, 1'000'000));
  if (const auto* text = text_of("dataset")) {
    model.dataset_bytes = parse_bytes(*text);
    if (*model.dataset_bytes == 0) throw UsageError("--base dataset: found 0 bytes, expected the dataset's size, for example dataset=146GiB");
  }
  if (const auto* text = text_of("samples")) model.dataset_samples = static_cast<std::uint64_t>(positive_number("samples", *text));
  if (const auto* text = text_of("cache")) {
    const ByteAmount amount = parse_byte_amount(*text);
    if (amount.kind == ByteAmount::Kind::bytes && !model.dataset_bytes)
      throw UsageError(fmt::format("--base cache={}: bytes need the dataset's size: add dataset=146GiB, or give a share such as cache=35%", *text));
    model.cache_fraction = std::min(amount.kind == ByteAmount::Kind::fraction ? amount.fraction : amount.share_of(*model.dataset_bytes), 1.0);
  }
  if (model.dataset_bytes && model.dataset_samples)
    model.storage_bytes_per_s = model.rates.storage * static_cast<double>(*model.dataset_bytes) / static_cast<double>(*model.dataset_samples);
}

}  // namespace

RateModel rate_model(const ProfileResult& profile) {
  const RateRecord& prep = required(profile.prep, "P (prep rate)", "prep");
  const RateRecord& cache = required(profile.cache, "C (cache fetch rate)", "prep");
  const RateRecord& storage = required(profile.storage, "S (storage fetch rate)", "fetch");
  const ProfileSettings& settings = profile.settings;

  RateModel model;
  model.rates = {std::nullopt, prep.samples_per_s, cache.samples_per_s, storage.samples_per_s};
  model.prep_error = relative_error(prep);
  model.cache_error = relative_error(cache);
  model.storage_error = relative_error(storage);
  if (profile.ingestion && profile.ingestion->samples_per_s > 0) {
    model.rates.ingestion = profile.ingestion->samples_per_s;
    model.ingestion_error = relative_error(*profile.ingestion);
    model.accelerators = settings.accelerators;
  }
  if (profile.fetch && profile.fetch->cache_fraction)
    model.cache_fraction = std::clamp(*profile.fetch->cache_fraction, 0.0, 1.0);
  else if (settings.cache != CacheKind::none && settings.cache_size && settings.cache_size->kind == ByteAmount::Kind::fraction)
    model.cache_fraction = std::clamp(settings.cache_size->fraction, 0.0, 1.0);

  if (const double cores = cores_behind_prep(profile); cores > 0) model.cores = cores;
  model.measured_cores_high = model.cores;
  for (const CorePoint& point : profile.prep_by_cores)
    model.measured_cores_high = std::max<double>(model.measured_cores_high.value_or(0), point.cores);

  const double scale = settings.scale > 0 ? settings.scale : 1;
  if (profile.dataset.bytes > 0) model.dataset_bytes = static_cast<Bytes>(std::llround(static_cast<double>(profile.dataset.bytes) * scale));
  if (profile.dataset.samples > 0) model.dataset_samples = profile.dataset.samples;
  if (storage.bytes_per_s > 0) model.storage_bytes_per_s = storage.bytes_per_s * scale;
  model.cache = cache_kind_name(settings.cache);
  if (settings.admission == Admission::cost_aware) model.cache += ", cost-aware";
  model.emulated = settings.accelerator == AcceleratorKind::emulated || settings.storage == Seam::emulated || settings.prep == Seam::emulated;
  return model;
}

RateModel rate_model_from_text(const std::string& rates, const std::string& base) {
  RateModel model;
  const std::vector<std::string> letters{"G", "P", "C", "S"};
  for (const auto& [key, text] : key_values(rates, "--rates", letters)) {
    const TypedRate rate = typed_rate(key, text);
    if (key == "G") {
      model.rates.ingestion = rate.value;
      model.ingestion_error = rate.error;
    } else {
      (key == "P" ? model.rates.prep : key == "C" ? model.rates.cache : model.rates.storage) = rate.value;
      (key == "P" ? model.prep_error : key == "C" ? model.cache_error : model.storage_error) = rate.error;
    }
  }
  std::vector<std::string> missing;
  if (model.rates.prep <= 0) missing.emplace_back("P (prep)");
  if (model.rates.cache <= 0) missing.emplace_back("C (cache)");
  if (model.rates.storage <= 0) missing.emplace_back("S (storage)");
  if (!missing.empty())
    throw UsageError(
        fmt::format("--rates lacks {}: give all in samples/s, for example --rates G=9800,P=10200,C=252000,S=4700", fmt::join(missing, ", ")));
  if (!base.empty()) read_base(base, model);
  return model;
}

}  // namespace dsanalyze
