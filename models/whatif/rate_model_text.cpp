#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "base/error.hpp"
#include "base/text/json_reader.hpp"
#include "whatif.hpp"

namespace dsanalyze {
namespace {

/// The text's "KEY=VALUE" parts in order, each key known and given once.
std::map<std::string, std::string> key_values(const std::string& text, const std::string& option, const std::vector<std::string>& known) {
  std::map<std::string, std::string> values;
  for (const std::string& part : split_list(text)) {
    const auto equals = part.find('=');
    const std::string key = part.substr(0, equals);
    if (equals == std::string::npos || equals + 1 == part.size())
      throw UsageError(fmt::format("{}: found \"{}\", expected {}=VALUE", option, part, key.empty() ? "NAME" : key));
    if (std::ranges::find(known, key.substr(0, key.find('@'))) == known.end()) {
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
    if (number.ends_with("B/s") || number.ends_with("bit/s"))
      throw UsageError(fmt::format("found \"{}\", expected samples/s: divide the bytes/s by the mean size of a sample", text));
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
  const auto values = key_values(base, "--base", {"cores", "accelerators", "batch", "dataset", "samples", "cache"});
  const auto text_of = [&values](const std::string& key) -> const std::string* {
    const auto found = values.find(key);
    return found == values.end() ? nullptr : &found->second;
  };
  if (const auto* text = text_of("cores")) model.cores = model.measured_cores_high = positive_number("cores", *text);
  if (const auto* text = text_of("accelerators")) model.accelerators = static_cast<double>(parse_integer(*text, 1, 1'000'000));
  if (const auto* text = text_of("batch")) model.batch_size = static_cast<double>(parse_integer(*text, 1, 1'000'000'000));
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

void take_rate(const std::string& key, const TypedRate& rate, RateModel& model) {
  if (key == "G") {
    model.rates.ingestion = rate.value;
    model.ingestion_error = rate.error;
  } else if (key == "N") {
    model.network = rate.value;
    model.network_error = rate.error;
  } else {
    (key == "P" ? model.rates.prep : key == "C" ? model.rates.cache : model.rates.storage) = rate.value;
    (key == "P" ? model.prep_error : key == "C" ? model.cache_error : model.storage_error) = rate.error;
  }
}

/// "P@8": on 8 cores; "G@128": with batches of 128.
void take_point(const std::string& key, const TypedRate& rate, std::size_t at, RateModel& model, std::vector<ScalingPoint>& by_cores) {
  const std::string letter = key.substr(0, at);
  if (letter != "P" && letter != "G") throw UsageError(fmt::format("--rates {}: only P@CORES and G@BATCH are known at other numbers", key));
  double number = 0;
  try {
    number = parse_number(key.substr(at + 1));
  } catch (const Error& error) {
    throw UsageError(fmt::format("--rates {}: {}", key, error.what()));
  }
  if (number <= 0) throw UsageError(fmt::format("--rates {}: found {}, expected a number above 0 after the @", key, key.substr(at + 1)));
  if (letter == "P") {
    by_cores.push_back({number, rate.value, rate.error});
  } else {
    model.ingestion_by_batch.push_back({number, rate.value});
  }
}

}  // namespace

void take_typed_network(const std::string& rates, RateModel& model) {
  for (const auto& [key, text] : key_values(rates, "--rates", {"G", "P", "C", "S", "N"})) {
    if (key != "N")
      throw UsageError(
          fmt::format("--rates {}: the profile has its own; beside a profile only N, what one server gets from others' caches, is typed", key));
    take_rate(key, typed_rate(key, text), model);
  }
}

RateModel rate_model_from_text(const std::string& rates, const std::string& base) {
  RateModel model;
  model.typed = true;
  std::vector<ScalingPoint> by_cores;
  const std::vector<std::string> letters{"G", "P", "C", "S", "N"};
  for (const auto& [key, text] : key_values(rates, "--rates", letters)) {
    const TypedRate rate = typed_rate(key, text);
    if (const auto at = key.find('@'); at != std::string::npos) {
      take_point(key, rate, at, model, by_cores);
    } else {
      take_rate(key, rate, model);
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
  if (!by_cores.empty()) {
    if (!model.cores) throw UsageError("--rates P@...: P on other cores needs the number behind P: add --base cores=24");
    by_cores.push_back({*model.cores, model.rates.prep, model.prep_error});
    model.scaling = FittedScaling(by_cores, std::numeric_limits<double>::infinity());
    model.measured_cores_high = model.scaling.most_measured();
  }
  if (!model.ingestion_by_batch.empty() && !(model.batch_size && model.rates.ingestion))
    throw UsageError("--rates G@...: G at other batch sizes needs G and the batch size behind it: add --base batch=512");
  return model;
}

}  // namespace dsanalyze
