#include "profile_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/error.hpp"
#include "cli/commands/command.hpp"
#include "cli/commands/saved_inputs.hpp"
#include "cli/process/data_files.hpp"
#include "cli/process/job_process.hpp"
#include "key_options.hpp"
#include "loaders/dataset/dataset.hpp"
#include "option_values.hpp"

namespace dsanalyze::cli {
namespace {

constexpr std::string_view emulated_prefix = "emulated:";
constexpr std::int64_t most_samples_a_batch = 65'536;

constexpr std::string_view step_modes = choices_of<StepMode>;
constexpr std::string_view layouts = choices_of<Layout>;
constexpr std::string_view dtypes = choices_of<DType>;
constexpr std::string_view error_ways = choices_of<OnError>;
constexpr std::string_view io_engines = choices_of<IoEngine>;
constexpr std::string_view order_kinds = choices_of<OrderKind>;
constexpr std::string_view job_shares = "none|coordinated";
constexpr std::string_view batch_copies = choices_of<BatchCopy>;
constexpr std::string_view producer_kinds = choices_of<Producers>;
constexpr std::string_view admissions = choices_of<Admission>;
constexpr std::string_view cache_kinds = "none|page|page-model:random|page-model:linux|minio|lru";

bool is_emulated(const std::string& text) { return text.starts_with(emulated_prefix); }
std::string after_prefix(const std::string& text) { return text.substr(emulated_prefix.size()); }
bool is_number(const std::string& text) { return !text.empty() && std::string_view("0123456789.-+").find(text.front()) != std::string_view::npos; }

auto whole_number(std::int64_t low, std::int64_t high) {
  return [low, high](const std::string& text) { return static_cast<int>(parse_integer(text, low, high)); };
}

double positive(const std::string& text) {
  const double value = parse_number(text);
  if (value <= 0) throw UsageError(fmt::format("found \"{}\", expected a number above 0", text));
  return value;
}

/// "1:1000" or "1000".
double parse_scale(const std::string& text) {
  const double scale = parse_number(text.starts_with("1:") ? text.substr(2) : text);
  if (scale < 1) throw UsageError(fmt::format("found \"{}\", expected 1:N with N of at least 1, for example 1:1000", text));
  return scale;
}

/// "1epoch", "3 epochs".
int parse_epochs(const std::string& text) {
  const std::size_t unit = std::min(text.find_first_not_of("0123456789 "), text.size());
  const std::string name = text.substr(unit);
  if (unit == 0 || (name != "epoch" && name != "epochs"))
    throw UsageError(fmt::format("found \"{}\", expected a number of epochs, for example 1epoch or 3epochs", text));
  const std::string number = text.substr(0, unit);
  return static_cast<int>(parse_integer(number.substr(0, number.find_last_not_of(' ') + 1), 1, 1000));
}

SourcedNumber accelerator_rate(const Workload& workload, const std::string& kind) {
  const auto found = workload.accelerator_rates.find(kind);
  if (found != workload.accelerator_rates.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [name, rate] : workload.accelerator_rates) known.push_back(name);
  throw UsageError(
      fmt::format("workload {} has no rate for \"{}\"{}; it has: {}", workload.name, kind, did_you_mean(kind, known), fmt::join(known, ", ")));
}

void use_storage(ProfileSettings& settings, const StorageSpec& storage) {
  settings.storage = Seam::emulated;
  settings.storage_name = storage.name;
  settings.storage_bytes_per_s = storage.bandwidth_bytes_per_s.value;
  settings.storage_latency_seconds = storage.request_latency_seconds.value;
  settings.storage_queue_depth = storage.queue_depth;
}

}  // namespace

void ProfileOptions::declare_source(CLI::App& app) {
  app.add_option("DATASET", m_dataset)->type_name("FOLDER|FILE|emulated:@datasets");
  app.add_option("--workload", m_workload)->type_name("@workloads|FILE");
  app.add_option("--workers", m_workers)->type_name("auto");
  app.add_option("--cores", m_cores);
  app.add_option("--cache", m_cache)->type_name(std::string(cache_kinds));
  app.add_option("--cache-size", m_cache_size)->type_name("auto");
  app.add_option("--storage", m_storage)->type_name("real|null|emulated:@storage");
  app.add_option("--prep", m_prep)->type_name("real|null|emulated:");
  app.add_option("--scale", m_scale);
  app.add_option("--io", m_io)->type_name(std::string(io_engines));
  app.add_flag("--direct", m_direct);
  app.add_option("--io-depth", m_concurrency);
  app.add_option("--index", m_index)->type_name("FILE");
  declare_keys(app, m_keys);
}

void ProfileOptions::declare_batches(CLI::App& app) {
  app.add_option("--batch-size", m_batch_size);
  app.add_option("--layout", m_layout)->type_name(std::string(layouts));
  app.add_option("--dtype", m_dtype)->type_name(std::string(dtypes));
  app.add_option("--max-storage-rate", m_max_storage_rate);
  app.add_option("--on-error", m_on_error)->type_name(std::string(error_ways));
  app.add_option("--error-budget", m_error_budget);
}

void ProfileOptions::declare_loading(CLI::App& app) {
  declare_source(app);
  declare_batches(app);
}

void ProfileOptions::declare_set_up(CLI::App& app) {
  declare_source(app);
  app.add_option("--accelerator", m_accelerator)->type_name("cpu|cpu:double|emulated:|null");
  app.add_option("--accelerators", m_accelerators);
  app.add_option("--order", m_order)->type_name(std::string(order_kinds));
  app.add_option("--preset", m_preset)->type_name("@servers|FILE");
}

void ProfileOptions::declare(CLI::App& app) {
  declare_set_up(app);
  declare_batches(app);
  app.add_option("--observed", m_observed);
  app.add_option("--step", m_step)->type_name(std::string(step_modes));
  app.add_option("--admit", m_admit)->type_name(std::string(admissions));
  app.add_option("--memory-limit", m_memory_limit);
  app.add_option("--shuffle-buffer", m_shuffle_buffer);
  app.add_option("--readers", m_readers);
  app.add_option("--jobs", m_jobs);
  app.add_option("--share", m_share)->type_name(std::string(job_shares));
  app.add_option("--producers", m_producers)->type_name(std::string(producer_kinds));
  app.add_option("--batch-copy", m_batch_copy)->type_name(std::string(batch_copies));
  app.add_option("--trials", m_trials);
  app.add_option("--stop-at", m_stop_at)->type_name("1epoch|2epochs|3epochs");
  app.add_option("--runs", m_runs)->type_name("LIST synthetic|prep|cached|fetch|full");
  app.add_option("--epochs", m_epochs);
  app.add_option("--time-budget", m_time_budget);
  app.add_option("--subset", m_subset);
  app.add_flag("--require-trusted", m_require_trusted);
  app.add_option("--trace", m_trace)->type_name("FILE");
  app.add_option("--trace-events", m_trace_events)->type_name("FILE");
  app.add_option("--metrics", m_metrics)->type_name("FILE");
  app.add_option("--html", m_html)->type_name("FILE");
  app.add_flag("--dry-run", m_dry_run);
}

void ProfileOptions::require_dataset() const {
  if (m_dataset.empty())
    throw UsageError(
        "which dataset? Give a folder of images, tar shards, a .npy file, or emulated:NAME (`dsanalyze list datasets`); `dsanalyze dataset make DIR` "
        "makes one to try");
}

ProfileInputs ProfileOptions::resolve(std::uint64_t seed, EventSink& events, const std::stop_token& stop) const {
  require_dataset();
  ProfileInputs inputs = resolve_settings(seed);
  inputs.index = open(inputs.settings, events, stop);
  return inputs;
}

ProfileInputs ProfileOptions::resolve_settings(std::uint64_t seed) const {
  ProfileInputs inputs;
  ProfileSettings& settings = inputs.settings;
  settings.dataset = m_dataset;
  settings.image_key = m_keys.image;
  settings.label_key = m_keys.label;
  settings.seed = seed;
  std::optional<Workload> workload;
  if (!m_workload.empty()) {
    const ConfigFile file = config_file(ConfigKind::workload, m_workload);
    workload = parse_workload(file.text, file.source);
    settings.workload = workload->name;
    settings.batch_size = workload->batch_size;
    inputs.image_prep = workload->image_prep;
  }
  set_if(settings.scale, "--scale", m_scale, parse_scale);
  if (settings.scale > 1 && !is_emulated(m_dataset))
    throw UsageError("--scale makes an emulated dataset smaller; a real one has the size it has (--subset takes a part of it)");
  if (!m_preset.empty()) apply_preset(settings, workload);
  set_if(settings.accelerators, "--accelerators", m_accelerators, whole_number(1, 256));
  set_if(settings.batch_size, "--batch-size", m_batch_size, whole_number(1, most_samples_a_batch));
  set_if(settings.workers, "--workers", m_workers, [](const std::string& text) { return text == "auto" ? 0 : whole_number(1, 1024)(text); });
  set_if(settings.cores, "--cores", m_cores, whole_number(1, 1024));
  set_if(settings.epochs, "--epochs", m_epochs, whole_number(2, 1000));
  set_if(settings.fetch_concurrency, "--io-depth", m_concurrency, whole_number(1, 256));
  set_if(settings.time_budget_seconds, "--time-budget", m_time_budget, parse_seconds);
  set_if(settings.subset, "--subset", m_subset, parse_byte_amount);
  set_if(settings.observed_rate, "--observed", m_observed, positive);
  set_if(settings.max_storage_bytes_per_s, "--max-storage-rate", m_max_storage_rate, parse_bytes_per_second);
  set_if(settings.error_budget, "--error-budget", m_error_budget, parse_share);
  set_if(settings.runs, "--runs", m_runs, split_list);
  if (!m_step.empty()) settings.step = chosen<StepMode>("--step", m_step, step_modes);
  if (!m_layout.empty()) settings.layout = chosen<Layout>("--layout", m_layout, layouts);
  if (!m_dtype.empty()) settings.dtype = chosen<DType>("--dtype", m_dtype, dtypes);
  if (!m_on_error.empty()) settings.on_error = chosen<OnError>("--on-error", m_on_error, error_ways);
  if (!m_io.empty()) settings.io = chosen<IoEngine>("--io", m_io, io_engines);
  apply_order(settings);
  if (m_direct) settings.read_mode = ReadMode::direct;
  apply_accelerator(settings, workload);
  apply_storage(settings);
  apply_prep(settings, workload);
  apply_cache(settings);
  apply_jobs(settings);
  if (settings.prep == Seam::real && workload && workload->task != PrepTaskKind::image_classification) {
    throw UsageError(fmt::format(
        "--workload {}: its prep task is not run for real yet; pass --prep emulated (its rate is in `dsanalyze list workloads`)", workload->name));
  }
  inputs.start_job = start_job_process;
  inputs.trace_file = m_trace;
  inputs.trace_events_file = m_trace_events;
  inputs.host = read_host_facts();
  return inputs;
}

void ProfileOptions::apply_preset(ProfileSettings& settings, const std::optional<Workload>& workload) const {
  const ConfigFile file = config_file(ConfigKind::server, m_preset);
  const Server server = parse_server(file.text, file.source);
  if (!workload)
    throw UsageError(
        fmt::format("--preset {}: a server's rates depend on the workload; pass --workload NAME (`dsanalyze list workloads`)", m_preset));
  settings.preset = server.name;
  settings.accelerators = server.accelerators;
  settings.cores = server.cores;
  use_storage(settings, server.storage);
  settings.accelerator = AcceleratorKind::emulated;
  settings.accelerator_name = std::string(emulated_prefix) + server.accelerator;
  settings.accelerator_rate = accelerator_rate(*workload, server.accelerator).value;
  if (workload->prep_rate_per_core) {
    settings.prep = Seam::emulated;
    settings.prep_rate_per_core = workload->prep_rate_per_core->value;
  }
  settings.cache_size = ByteAmount{ByteAmount::Kind::bytes, static_cast<Bytes>(static_cast<double>(server.cache_bytes) / settings.scale), 0};
}

void ProfileOptions::apply_accelerator(ProfileSettings& settings, const std::optional<Workload>& workload) const {
  if (m_accelerator.empty()) return;
  if (m_accelerator == "null") {
    settings.accelerator = AcceleratorKind::null;
    settings.accelerator_name = m_accelerator;
    return;
  }
  if (m_accelerator == "cuda")
    throw UsageError("--accelerator cuda: not built yet; measure G with the script in README.md and pass --accelerator emulated:G");
  if (m_accelerator == "cpu" || m_accelerator == "cpu:float" || m_accelerator == "cpu:double") {
    settings.accelerator = AcceleratorKind::cpu;
    settings.accelerator_name = m_accelerator;
    settings.accelerator_rate = 0;  // a preset's
    settings.accelerator_precision = m_accelerator == "cpu:double" ? Precision::float64 : Precision::float32;
    return;
  }
  if (!is_emulated(m_accelerator)) {
    throw UsageError(fmt::format(
        "--accelerator: found \"{}\"{}, expected emulated:RATE (samples/s of one), emulated:KIND with --workload, cpu, cpu:double, or null",
        m_accelerator, did_you_mean(m_accelerator, {"cpu", "cpu:double", "emulated:2000", "null"})));
  }
  const std::string what = after_prefix(m_accelerator);
  settings.accelerator = AcceleratorKind::emulated;
  settings.accelerator_name = m_accelerator;
  const bool is_known_kind = workload && workload->accelerator_rates.contains(what);  // "1080ti" begins like a number
  if (is_number(what) && !is_known_kind) {
    set_if(settings.accelerator_rate, "--accelerator", what, positive);
  } else if (workload) {
    settings.accelerator_rate = accelerator_rate(*workload, what).value;
  } else {
    throw UsageError(
        fmt::format("--accelerator {}: how fast a {} is depends on the network; pass --workload NAME, or its rate: emulated:2000 (samples/s)",
                    m_accelerator, what));
  }
}

void ProfileOptions::apply_storage(ProfileSettings& settings) const {
  if (m_storage.empty()) {
    if (m_preset.empty() && is_emulated(m_dataset))
      throw UsageError("an emulated dataset lies on no disk: pass --storage emulated:NAME (ssd, hdd, 530MB/s), --preset SERVER, or --storage null");
    return;
  }
  if (m_storage == "real" || m_storage == "null") {
    settings.storage = m_storage == "real" ? Seam::real : Seam::null;
    settings.storage_name = m_storage;
    return;
  }
  if (!is_emulated(m_storage)) {
    throw UsageError(fmt::format("--storage: found \"{}\"{}, expected real, null, emulated:NAME or emulated:530MB/s", m_storage,
                                 did_you_mean(m_storage, {"real", "null"})));
  }
  const std::string what = after_prefix(m_storage);
  if (is_number(what)) {
    double bytes_per_second = 0;
    set_if(bytes_per_second, "--storage", what, parse_bytes_per_second);
    use_storage(settings, storage_from_bandwidth(bytes_per_second));
    settings.storage_name = what;
  } else {
    const ConfigFile file = config_file(ConfigKind::storage, what);
    use_storage(settings, parse_storage(file.text, file.source));
  }
}

void ProfileOptions::apply_prep(ProfileSettings& settings, const std::optional<Workload>& workload) const {
  if (m_prep.empty()) return;
  if (m_prep == "real" || m_prep == "null") {
    settings.prep = m_prep == "real" ? Seam::real : Seam::null;
    return;
  }
  settings.prep = Seam::emulated;
  if (m_prep == "emulated") {
    if (!workload || !workload->prep_rate_per_core)
      throw UsageError("--prep emulated: needs a rate: emulated:425 (samples/s of one core), or a --workload that states one");
    settings.prep_rate_per_core = workload->prep_rate_per_core->value;
    return;
  }
  if (!is_emulated(m_prep)) {
    throw UsageError(fmt::format("--prep: found \"{}\"{}, expected real, null, emulated or emulated:RATE_PER_CORE", m_prep,
                                 did_you_mean(m_prep, {"real", "null", "emulated"})));
  }
  set_if(settings.prep_rate_per_core, "--prep", after_prefix(m_prep), positive);
}

void ProfileOptions::apply_order(ProfileSettings& settings) const {
  if (!m_order.empty()) settings.order = chosen<OrderKind>("--order", m_order, order_kinds);
  if (settings.order == OrderKind::random && !m_shuffle_buffer.empty())
    throw UsageError("--shuffle-buffer: a random order is shuffled whole and needs none; pass --order sequential or shards with it");
  if (settings.order != OrderKind::shards && !m_readers.empty())
    throw UsageError("--readers: only shards are dealt out to several readers; pass --order shards with it");
  set_if(settings.shuffle_buffer, "--shuffle-buffer", m_shuffle_buffer, whole_number(0, 1'000'000));
  set_if(settings.readers, "--readers", m_readers, whole_number(1, 256));
  if (settings.order == OrderKind::random) settings.shuffle_buffer = 0;
}

void ProfileOptions::apply_cache(ProfileSettings& settings) const {
  if (!m_cache.empty()) {
    settings.cache = parse_cache_kind(checked_choice("--cache", m_cache, words_of(cache_kinds)));
  }
  if (!m_admit.empty()) settings.admission = chosen<Admission>("--admit", m_admit, admissions);
  set_if(settings.memory_limit, "--memory-limit", m_memory_limit, parse_byte_amount);
  if (m_cache_size == "auto") {
    settings.cache_size.reset();
  } else if (!m_cache_size.empty()) {
    set_if(settings.cache_size, "--cache-size", m_cache_size, parse_byte_amount);
    if (settings.cache_size->kind == ByteAmount::Kind::bytes) {
      settings.cache_size->bytes = static_cast<Bytes>(static_cast<double>(settings.cache_size->bytes) / settings.scale);
    }
  }
}

void ProfileOptions::apply_jobs(ProfileSettings& settings) const {
  set_if(settings.jobs, "--jobs", m_jobs, whole_number(1, ProfileSettings::most_jobs));
  if (!m_share.empty()) settings.share = chosen<JobSharing>("--share", m_share, job_shares);
  if (!m_producers.empty()) {
    settings.producers = chosen<Producers>("--producers", m_producers, producer_kinds);
    if (settings.share != JobSharing::coordinated)
      throw UsageError("--producers: says who prepares what jobs share, and these share nothing; pass --share coordinated with it, or leave it out");
  }
  if (!m_batch_copy.empty()) settings.batch_copy = chosen<BatchCopy>("--batch-copy", m_batch_copy, batch_copies);
  set_if(settings.trials, "--trials", m_trials, whole_number(1, 10'000));
  set_if(settings.stop_at_epochs, "--stop-at", m_stop_at, parse_epochs);
}

std::shared_ptr<const DatasetIndex> ProfileOptions::open(const ProfileSettings& settings, EventSink& events, const std::stop_token& stop) const {
  if (auto emulated = open_emulated_dataset(settings)) return emulated;
  OpenOptions options;
  options.keys = m_keys;
  options.seed = settings.seed;
  options.stat_budget_seconds = settings.time_budget_seconds * 0.05;
  if (!m_index.empty()) options.index_file = m_index;
  return open_dataset(m_dataset, options, events, stop);
}

}  // namespace dsanalyze::cli
