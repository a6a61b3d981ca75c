#include "terms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "base/text/json_reader.hpp"
#include "base/text/text.hpp"
#include "loaders/slot_pool.hpp"
#include "messages.hpp"

namespace dsanalyze {
namespace group_protocol {
namespace {

using TermsJson = nlohmann::ordered_json;

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t most_elements = std::int64_t{1} << 40U;  // of a batch

std::string_view boundary_name(StagingBoundary boundary) { return boundary == StagingBoundary::overlapped ? "overlapped" : "synchronised"; }

TermsJson facts_json(const StagingFacts& facts) {
  return {{"batches_per_epoch", facts.batches_per_epoch},
          {"first_epoch", facts.first_epoch},
          {"first_batch", facts.first_batch},
          {"epochs", facts.epochs},
          {"jobs", facts.jobs},
          {"prefetch", facts.prefetch},
          {"held", facts.held},
          {"batch_size", facts.batch_size},
          {"slot_bytes", facts.slot_bytes},
          {"producers", producers_name(facts.producers)},
          {"boundary", boundary_name(facts.boundary)},
          {"look_again_ns", facts.look_again}};
}

TermsJson tensor_json(const TensorShape& tensor) {
  TermsJson lengths = TermsJson::array();
  TermsJson strides = TermsJson::array();
  for (std::size_t i = 0; i < tensor.dimensions; ++i) {
    lengths.push_back(tensor.shape[i]);
    strides.push_back(tensor.strides[i]);
  }
  return {{"dtype", enum_name(tensor.dtype)}, {"shape", std::move(lengths)}, {"strides", std::move(strides)}};
}

std::uint32_t read_small(JsonObject& object, std::string_view key) {
  return static_cast<std::uint32_t>(object.integer(key, 0, std::numeric_limits<std::uint32_t>::max()));
}

StagingFacts read_facts_of(JsonObject object) {
  StagingFacts facts;
  facts.batches_per_epoch = object.unsigned_integer("batches_per_epoch");
  facts.first_epoch = object.unsigned_integer("first_epoch");
  facts.first_batch = object.unsigned_integer("first_batch");
  facts.epochs = object.unsigned_integer("epochs");
  facts.jobs = read_small(object, "jobs");
  facts.prefetch = read_small(object, "prefetch");
  facts.held = read_small(object, "held");
  facts.batch_size = read_small(object, "batch_size");
  facts.slot_bytes = object.unsigned_integer("slot_bytes");
  facts.producers = object.named<Producers>("producers");
  facts.boundary =
      object.choice("boundary", {"overlapped", "synchronised"}) == "overlapped" ? StagingBoundary::overlapped : StagingBoundary::synchronised;
  facts.look_again = object.integer("look_again_ns", 0, largest);
  return facts;
}

TensorShape read_tensor(JsonObject object) {
  TensorShape tensor;
  tensor.dtype = object.named<DType>("dtype");
  const auto lengths = object.numbers("shape", 1, tensor.shape.size(), 1, 1e12);
  const auto strides = object.numbers("strides", lengths.size(), lengths.size(), 1, 1e12);
  for (const double number : lengths) {
    if (number != std::floor(number)) object.fail("shape", "found a fraction, expected whole numbers");
  }
  for (const double number : strides) {
    if (number != std::floor(number)) object.fail("strides", "found a fraction, expected whole numbers");
  }
  tensor.dimensions = static_cast<std::uint8_t>(lengths.size());
  std::ranges::transform(lengths, tensor.shape.begin(), [](double length) { return static_cast<std::int64_t>(length); });
  std::ranges::transform(strides, tensor.strides.begin(), [](double stride) { return static_cast<std::int64_t>(stride); });
  return tensor;
}

/// Dense and row-major, of a size that can be added up.
bool sound(const TensorShape& tensor) {
  if (tensor.dimensions == 0 || tensor.dimensions > tensor.shape.size()) return false;
  std::int64_t stride = 1;
  for (std::size_t i = tensor.dimensions; i-- > 0;) {
    if (tensor.shape[i] < 1 || tensor.shape[i] > most_elements / stride || tensor.strides[i] != stride) return false;
    stride *= tensor.shape[i];
  }
  return true;
}

}  // namespace

std::string to_text(const GroupTerms& terms) {
  return TermsJson{{"staging", facts_json(terms.staging)},
                   {"samples", terms.samples},
                   {"seed", terms.seed},
                   {"dataset_digest", terms.dataset_digest},
                   {"prep", terms.prep},
                   {"tensor", tensor_json(terms.tensor)},
                   {"settings", terms.settings}}
      .dump(-1, ' ', false, TermsJson::error_handler_t::replace);
}

std::string to_text(const GroupDemands& demands) {
  TermsJson json = TermsJson::object();
  if (demands.batch_size) json["batch_size"] = *demands.batch_size;
  if (demands.seed) json["seed"] = *demands.seed;
  if (demands.dataset_digest) json["dataset_digest"] = *demands.dataset_digest;
  if (demands.prep) json["prep"] = *demands.prep;
  if (demands.epochs) json["epochs"] = *demands.epochs;
  if (demands.subset) json["subset"] = *demands.subset;
  if (demands.name) json[demands.name_is_given ? "name" : "command"] = *demands.name;
  return json.dump(-1, ' ', false, TermsJson::error_handler_t::replace);
}

void check_terms(const GroupTerms& terms) {
  terms.staging.validate();
  if (!sound(terms.tensor)) throw UsageError("a group's terms: the tensor is no dense one of 1 to 4 dimensions in row-major order");
  if (terms.tensor.shape[0] != terms.staging.batch_size) {
    throw UsageError(fmt::format("a group's terms: the tensor has {} samples, a batch has {}", terms.tensor.shape[0], terms.staging.batch_size));
  }
  if (const SlotLayout layout(terms.tensor); layout.bytes > terms.staging.slot_bytes) {
    throw UsageError(fmt::format("a group's terms: a batch takes {} bytes, a slot has {}", layout.bytes, terms.staging.slot_bytes));
  }
  if (to_text(terms).size() > most_text) throw UsageError(fmt::format("a group's terms: as text they are larger than {} bytes", most_text));
}

GroupTerms parse_terms(std::string_view text) {
  JsonObject root = parse_json_object(text, "a group's terms");
  GroupTerms terms;
  terms.staging = read_facts_of(root.object("staging"));
  terms.samples = root.unsigned_integer("samples");
  terms.seed = root.unsigned_integer("seed");
  terms.dataset_digest = root.text("dataset_digest");
  terms.prep = root.text("prep");
  terms.tensor = read_tensor(root.object("tensor"));
  terms.settings = root.text("settings");
  root.finish();
  check_terms(terms);
  return terms;
}

GroupDemands parse_demands(std::string_view text) {
  JsonObject root = parse_json_object(text, "a job's demands");
  GroupDemands demands;
  if (root.has("batch_size")) demands.batch_size = read_small(root, "batch_size");
  if (root.has("seed")) demands.seed = root.unsigned_integer("seed");
  demands.dataset_digest = root.optional_text("dataset_digest");
  demands.prep = root.optional_text("prep");
  if (root.has("epochs")) demands.epochs = root.unsigned_integer("epochs");
  demands.subset = root.optional_text("subset");
  demands.name = root.optional_text("name");
  demands.name_is_given = demands.name.has_value();
  if (const auto command = root.optional_text("command"); command && !demands.name) demands.name = command;
  root.finish();
  return demands;
}

}  // namespace group_protocol

std::string refusal(const GroupTerms& terms, const GroupDemands& demands) {
  std::string differences;
  const auto differ = [&](std::string_view what, const std::string& has, const std::string& wants) {
    differences += fmt::format("{}{} of the group is {}, this job asks for {}", differences.empty() ? "" : "; ", what, has, wants);
  };
  if (demands.batch_size && *demands.batch_size != terms.staging.batch_size) {
    differ("the batch size", std::to_string(terms.staging.batch_size), std::to_string(*demands.batch_size));
  }
  if (demands.seed && *demands.seed != terms.seed) differ("the seed", std::to_string(terms.seed), std::to_string(*demands.seed));
  if (demands.dataset_digest && *demands.dataset_digest != terms.dataset_digest) {
    differ("the dataset's digest", printable(terms.dataset_digest), printable(*demands.dataset_digest));
  }
  if (demands.prep && *demands.prep != terms.prep) {
    differ("the prep", fmt::format("\"{}\"", printable(terms.prep)), fmt::format("\"{}\"", printable(*demands.prep)));
  }
  if (demands.epochs && *demands.epochs != terms.staging.epochs) {
    const auto words = [](std::uint64_t epochs) { return epochs == 0 ? std::string("as many as come until it ends") : std::to_string(epochs); };
    differ("the number of epochs", words(terms.staging.epochs), words(*demands.epochs));
  }
  if (demands.subset) differ("the part of the dataset", "all of it", fmt::format("\"{}\" (--share dependent has that)", printable(*demands.subset)));
  return differences;
}

}  // namespace dsanalyze
