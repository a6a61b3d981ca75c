#include <array>
#include <limits>

#include "result_json.hpp"

namespace dsanalyze {
namespace {

// Names in the order of the enums' values.
constexpr std::array seam_names = {"real", "null", "emulated"};
constexpr std::array accelerator_names = {"none", "null", "emulated", "cpu"};
constexpr std::array precision_names = {"float", "double"};
constexpr std::array step_names = {"lockstep", "independent"};
constexpr std::array on_error_names = {"skip", "fail", "substitute"};
constexpr std::array read_mode_names = {"buffered", "direct"};
constexpr std::array io_names = {"auto", "pread", "uring"};
constexpr std::array admission_names = {"first", "cost-aware"};
// A profile has no unified-producer: that is coordinated, with producers of its own.
constexpr std::array share_names = {"none", "coordinated"};
constexpr std::array batch_copy_names = {"none", "cpu"};
constexpr std::array producer_choices = {"jobs", "coordinator"};
constexpr std::array partition_names = {"none", "partitioned", "locality"};
constexpr std::array balance_names = {"peers", "storage"};
constexpr std::array scope_names = {"server", "shared"};
constexpr std::array order_names = {"random", "sequential", "shards"};
constexpr std::array dtype_names = {"uint8", "float32"};
constexpr std::array layout_names = {"nchw", "nhwc"};

template <typename Enum, std::size_t count>
const char* name_of(const std::array<const char*, count>& names, Enum value) {
  return names[static_cast<std::size_t>(value)];
}

Json amount_json(const std::optional<ByteAmount>& amount) {
  if (!amount) return nullptr;
  if (amount->kind == ByteAmount::Kind::bytes) return {{"bytes", amount->bytes}};
  return {{"fraction", amount->fraction}};
}

// Reads fields into a struct that holds the defaults; fields that are not there, or null, keep theirs.
class FieldReader {
 public:
  explicit FieldReader(JsonObject object) : m_object(std::move(object)) {}

  void read(std::string_view key, std::string& value) {
    if (is_known(m_object, key)) value = m_object.text(key);
  }
  void read(std::string_view key, double& value) {
    if (is_known(m_object, key)) value = m_object.number(key, 0, most_number);
  }
  void read(std::string_view key, std::optional<double>& value) {
    if (is_known(m_object, key)) value = m_object.number(key, 0, most_number);
  }
  void read(std::string_view key, std::optional<int>& value) {
    if (is_known(m_object, key)) read(key, value.emplace());
  }
  void read(std::string_view key, int& value) {
    if (is_known(m_object, key)) value = static_cast<int>(m_object.integer(key, 0, std::numeric_limits<int>::max()));
  }
  template <typename Enum, std::size_t count>
  void read(std::string_view key, Enum& value, const std::array<const char*, count>& names) {
    if (!is_known(m_object, key)) return;
    const std::string found = m_object.choice(key, {names.begin(), names.end()});
    for (std::size_t i = 0; i < count; ++i) {
      if (found == names[i]) value = static_cast<Enum>(i);
    }
  }
  template <typename Enum, std::size_t count>
  void read(std::string_view key, std::optional<Enum>& value, const std::array<const char*, count>& names) {
    if (is_known(m_object, key)) read(key, value.emplace(), names);
  }
  /// Servers have a network or do not ask one another: none that is null.
  void read_network(std::string_view key, Seam& value) {
    if (is_known(m_object, key)) value = m_object.choice(key, {"real", "emulated"}) == "real" ? Seam::real : Seam::emulated;
  }
  void read(std::string_view key, CacheKind& value) {
    if (is_known(m_object, key))
      value = parse_cache_kind(m_object.choice(key, {"none", "page", "minio", "lru", "page-model:random", "page-model:linux"}));
  }
  void read(std::string_view key, std::optional<ByteAmount>& value) {
    if (!is_known(m_object, key)) return;
    JsonObject amount = m_object.object(key);
    if (amount.has("fraction")) {
      value = ByteAmount{ByteAmount::Kind::fraction, 0, amount.number("fraction", 0, most_number)};
    } else {
      value = ByteAmount{ByteAmount::Kind::bytes, static_cast<Bytes>(amount.integer("bytes", 0, std::numeric_limits<std::int64_t>::max())), 0};
    }
  }
  void read(std::string_view key, std::vector<std::string>& value) {
    if (!is_known(m_object, key)) return;
    const nlohmann::json& list = m_object.raw(key);
    if (!list.is_array()) m_object.fail(key, "found no list, expected a list of texts");
    for (const nlohmann::json& item : list) {
      if (!item.is_string()) m_object.fail(key, "found an item that is no text, expected a list of texts");
      value.push_back(item.get<std::string>());
    }
  }
  void read(std::string_view key, std::uint64_t& value) {
    if (is_known(m_object, key)) value = m_object.unsigned_integer(key);
  }

 private:
  JsonObject m_object;
};

}  // namespace

std::string precision_name(Precision precision) { return name_of(precision_names, precision); }

namespace {

/// Those that every record has.
Json all_settings_json(const ProfileSettings& settings) {
  return {{"dataset", settings.dataset},
          {"workload", settings.workload},
          {"preset", settings.preset},
          {"scale", settings.scale},
          {"accelerator", name_of(accelerator_names, settings.accelerator)},
          {"accelerator_name", settings.accelerator_name},
          {"accelerator_samples_per_s", settings.accelerator_rate},
          {"accelerator_precision", settings.accelerator_precision ? Json(precision_name(*settings.accelerator_precision)) : Json(nullptr)},
          {"accelerators", settings.accelerators},
          {"batch_size", settings.batch_size},
          {"step", name_of(step_names, settings.step)},
          {"observed_samples_per_s", or_null(settings.observed_rate)},
          {"storage", name_of(seam_names, settings.storage)},
          {"storage_name", settings.storage_name},
          {"storage_bytes_per_s", settings.storage_bytes_per_s},
          {"storage_latency_seconds", settings.storage_latency_seconds},
          {"storage_queue_depth", settings.storage_queue_depth},
          {"read_mode", name_of(read_mode_names, settings.read_mode)},
          {"io", name_of(io_names, settings.io)},
          {"fetch_concurrency", settings.fetch_concurrency},
          {"max_storage_bytes_per_s", settings.max_storage_bytes_per_s},
          {"prep", name_of(seam_names, settings.prep)},
          {"prep_samples_per_s_per_core", settings.prep_rate_per_core},
          {"workers", settings.workers},
          {"cores", settings.cores},
          {"dtype", name_of(dtype_names, settings.dtype)},
          {"layout", name_of(layout_names, settings.layout)},
          {"cache", cache_kind_name(settings.cache)},
          {"cache_size", amount_json(settings.cache_size)},
          {"admit", name_of(admission_names, settings.admission)},
          {"memory_limit", amount_json(settings.memory_limit)},
          {"order", name_of(order_names, settings.order)},
          {"shuffle_buffer_samples", settings.shuffle_buffer},
          {"readers", settings.readers},
          {"jobs", settings.jobs},
          {"share", job_sharing_name(settings.share)},
          {"producers", producers_name(settings.producers)},
          {"batch_copy", batch_copy_names[static_cast<std::size_t>(settings.batch_copy)]},
          {"trials", settings.trials},
          {"stop_at_epochs", or_null(settings.stop_at_epochs)},
          {"world", settings.world},
          {"partition", partition_mode_name(settings.partition)},
          {"balance_from", balance_from_name(settings.balance_from)},
          {"storage_scope", storage_scope_name(settings.storage_scope)},
          {"network", name_of(seam_names, settings.network)},
          {"network_bytes_per_s", settings.network_bytes_per_s},
          {"runs", settings.runs},
          {"epochs", settings.epochs},
          {"time_budget_seconds", settings.time_budget_seconds},
          {"subset", amount_json(settings.subset)},
          {"on_error", name_of(on_error_names, settings.on_error)},
          {"error_budget_fraction", settings.error_budget},
          {"seed", settings.seed}};
}

}  // namespace

Json settings_json(const ProfileSettings& settings) {
  Json json = all_settings_json(settings);
  if (!settings.image_key.empty()) json["image_key"] = settings.image_key;
  if (!settings.label_key.empty()) json["label_key"] = settings.label_key;
  return json;
}

ProfileSettings settings_from_json(JsonObject object) {
  ProfileSettings settings;
  FieldReader reader(std::move(object));
  reader.read("dataset", settings.dataset);
  reader.read("image_key", settings.image_key);
  reader.read("label_key", settings.label_key);
  reader.read("workload", settings.workload);
  reader.read("preset", settings.preset);
  reader.read("scale", settings.scale);
  reader.read("accelerator", settings.accelerator, accelerator_names);
  reader.read("accelerator_name", settings.accelerator_name);
  reader.read("accelerator_samples_per_s", settings.accelerator_rate);
  reader.read("accelerator_precision", settings.accelerator_precision, precision_names);
  reader.read("accelerators", settings.accelerators);
  reader.read("batch_size", settings.batch_size);
  reader.read("step", settings.step, step_names);
  reader.read("observed_samples_per_s", settings.observed_rate);
  reader.read("storage", settings.storage, seam_names);
  reader.read("storage_name", settings.storage_name);
  reader.read("storage_bytes_per_s", settings.storage_bytes_per_s);
  reader.read("storage_latency_seconds", settings.storage_latency_seconds);
  reader.read("storage_queue_depth", settings.storage_queue_depth);
  reader.read("read_mode", settings.read_mode, read_mode_names);
  reader.read("io", settings.io, io_names);
  reader.read("fetch_concurrency", settings.fetch_concurrency);
  reader.read("max_storage_bytes_per_s", settings.max_storage_bytes_per_s);
  reader.read("prep", settings.prep, seam_names);
  reader.read("prep_samples_per_s_per_core", settings.prep_rate_per_core);
  reader.read("workers", settings.workers);
  reader.read("cores", settings.cores);
  reader.read("dtype", settings.dtype, dtype_names);
  reader.read("layout", settings.layout, layout_names);
  reader.read("cache", settings.cache);
  reader.read("cache_size", settings.cache_size);
  reader.read("admit", settings.admission, admission_names);
  reader.read("memory_limit", settings.memory_limit);
  reader.read("order", settings.order, order_names);
  reader.read("shuffle_buffer_samples", settings.shuffle_buffer);
  reader.read("readers", settings.readers);
  reader.read("jobs", settings.jobs);
  reader.read("share", settings.share, share_names);
  reader.read("producers", settings.producers, producer_choices);
  reader.read("batch_copy", settings.batch_copy, batch_copy_names);
  reader.read("trials", settings.trials);
  reader.read("stop_at_epochs", settings.stop_at_epochs);
  reader.read("world", settings.world);
  reader.read("partition", settings.partition, partition_names);
  reader.read("balance_from", settings.balance_from, balance_names);
  reader.read("storage_scope", settings.storage_scope, scope_names);
  reader.read_network("network", settings.network);
  reader.read("network_bytes_per_s", settings.network_bytes_per_s);
  reader.read("runs", settings.runs);
  reader.read("epochs", settings.epochs);
  reader.read("time_budget_seconds", settings.time_budget_seconds);
  reader.read("subset", settings.subset);
  reader.read("on_error", settings.on_error, on_error_names);
  reader.read("error_budget_fraction", settings.error_budget);
  reader.read("seed", settings.seed);
  return settings;
}

std::string to_json(const ProfileSettings& settings) { return settings_json(settings).dump(); }

ProfileSettings settings_from_json(std::string_view text, const std::string& source) {
  JsonObject root = parse_json_object(text, source);
  ProfileSettings settings = settings_from_json(root);
  root.finish();
  return settings;
}

}  // namespace dsanalyze
