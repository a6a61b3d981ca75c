#include "profile_options.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "cli/commands/command.hpp"
#include "cli/commands/saved_profiles.hpp"
#include "cli/process/data_files.hpp"
#include "cli/process/job_process.hpp"
#include "core/mesh.hpp"
#include "loaders/dataset/dataset.hpp"
#include "option_kinds.hpp"

namespace dsanalyze::cli {
namespace {

constexpr std::string_view emulated_prefix = "emulated:";
bool is_emulated(const std::string& text) { return text.starts_with(emulated_prefix); }
std::string after_prefix(const std::string& text) { return text.substr(emulated_prefix.size()); }
bool is_number(const std::string& text) { return !text.empty() && std::string_view("0123456789.-+").find(text.front()) != std::string_view::npos; }

/// "70%": of a batch's samples.
double parse_gpu_share(const std::string& text) {
  const double share = parse_share(text);
  if (share == 0) throw UsageError("found 0, expected the GPU's share of a batch, above 0%, as in split:70%");
  return share;
}

/// "1:1000" or "1000".
double parse_scale(const std::string& text) {
  const double scale = parse_number(text.starts_with("1:") ? text.substr(2) : text);
  if (scale < 1) throw UsageError(fmt::format("found \"{}\", expected 1:N with N of at least 1, for example 1:1000", text));
  return scale;
}

SourcedNumber accelerator_rate(const Workload& workload, const std::string& kind) {
  const auto found = workload.accelerator_rates.find(kind);
  if (found != workload.accelerator_rates.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [name, rate] : workload.accelerator_rates) known.push_back(name);
  throw UsageError(
      fmt::format("workload {} has no rate for \"{}\"{}; it has: {}", workload.name, kind, did_you_mean(kind, known), fmt::join(known, ", ")));
}

/// PyTorch trains what torchvision has.
void require_network(const std::string& accelerator, const std::optional<Workload>& workload) {
  if (!workload) throw UsageError(fmt::format("--accelerator {}: which network? Pass --workload NAME (`dsanalyze list workloads`)", accelerator));
  if (workload->torchvision.empty())
    throw UsageError(
        fmt::format("--accelerator {}: the network of workload {} is none of torchvision's; measure your training as it is: "
                    "dsanalyze profile -- python3 train.py",
                    accelerator, workload->name));
}

void use_storage(ProfileSettings& settings, const StorageSpec& storage) {
  settings.storage = Seam::emulated;
  settings.storage_name = storage.name;
  settings.storage_bytes_per_s = storage.bandwidth_bytes_per_s.value;
  settings.storage_latency_seconds = storage.request_latency_seconds.value;
  settings.storage_queue_depth = storage.queue_depth;
}

}  // namespace

std::vector<OutputFile> ProfileOptions::outputs() const {
  std::vector<OutputFile> files;
  for (const char* option : {"--trace", "--trace-events", "--metrics", "--html"}) files.push_back({option, m_typed.text(option)});
  return files;
}

void ProfileOptions::require_dataset() const {
  if (!names_dataset())
    throw UsageError(
        "which training, or which dataset? A script of yours is `dsanalyze profile -- python3 train.py`. A dataset is a folder of images, tar "
        "shards, a .npy file, or emulated:NAME (`dsanalyze list datasets`); `dsanalyze dataset make DIR` "
        "makes one to try");
}

ProfileInputs ProfileOptions::resolve(std::uint64_t seed, EventSink& events, const std::stop_token& stop) const {
  require_dataset();
  ProfileInputs inputs = resolve_settings(seed);
  inputs.index = open(inputs.settings, events, stop);
  return inputs;
}

ProfileInputs ProfileOptions::resolve_settings(std::uint64_t seed, JobSharing sharing) const {
  ProfileInputs inputs;
  ProfileSettings& settings = inputs.settings;
  settings.dataset = m_typed.text("DATASET");
  settings.share = sharing;
  settings.seed = seed;
  std::optional<Workload> workload;
  if (m_typed.given("--workload")) {
    const ConfigFile file = config_file(ConfigKind::workload, m_typed.text("--workload"));
    workload = parse_workload(file.text, file.source);
    settings.workload = workload->name;
    settings.batch_size = workload->batch_size;
    inputs.image_prep = workload->image_prep;
    inputs.network = workload->torchvision;
  }
  m_typed.set(settings.scale, "--scale", parse_scale);
  if (settings.scale > 1 && !is_emulated(settings.dataset))
    throw UsageError("--scale makes an emulated dataset smaller; a real one has the size it has (--subset takes a part of it)");
  if (m_typed.given("--preset")) apply_preset(settings, workload);
  m_typed.put(settings);
  if (m_typed.given("--direct")) settings.read_mode = ReadMode::direct;
  if (settings.share == JobSharing::dependent && !m_typed.given("--producers")) settings.producers = Producers::coordinator;
  if (settings.staging_size && !settings.staging_policy) settings.staging_policy = StagingPolicy::refcnt;
  if (m_typed.given("--producers") && settings.share == JobSharing::none)
    throw UsageError("--producers: says who prepares what jobs share, and these share nothing; pass --share coordinated with it, or leave it out");
  apply_order(settings);
  apply_accelerator(settings, workload);
  apply_mesh(settings);
  apply_storage(settings);
  apply_prep(settings, workload);
  apply_cache(settings);
  if (settings.prep == Seam::real && workload && workload->task != PrepTaskKind::image_classification) {
    throw UsageError(fmt::format(
        "--workload {}: its prep task is not run for real yet; pass --prep emulated (its rate is in `dsanalyze list workloads`)", workload->name));
  }
  inputs.start_job = start_job_process;
  inputs.trace_file = m_typed.text("--trace");
  inputs.trace_events_file = m_typed.text("--trace-events");
  inputs.host = read_host_facts();
  return inputs;
}

void ProfileOptions::apply_preset(ProfileSettings& settings, const std::optional<Workload>& workload) const {
  const std::string& preset = m_typed.text("--preset");
  const ConfigFile file = config_file(ConfigKind::server, preset);
  const Server server = parse_server(file.text, file.source);
  if (!workload)
    throw UsageError(fmt::format("--preset {}: a server's rates depend on the workload; pass --workload NAME (`dsanalyze list workloads`)", preset));
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
  const std::string& accelerator = m_typed.text("--accelerator");
  if (accelerator.empty()) return;
  if (accelerator == "null") {
    settings.accelerator = AcceleratorKind::null;
    settings.accelerator_name = accelerator;
    return;
  }
  if (accelerator == "cuda")
    throw UsageError(
        "--accelerator cuda: say how fast each GPU trains: cuda:2000 (samples/s); --accelerator pytorch:cuda --workload NAME measures it with your "
        "own "
        "PyTorch");
  constexpr std::string_view cuda_prefix = "cuda:";
  if (accelerator.starts_with(cuda_prefix)) {
    settings.accelerator = AcceleratorKind::cuda;
    settings.accelerator_name = accelerator;
    settings.accelerator_rate = parsed("--accelerator cuda", accelerator.substr(cuda_prefix.size()), positive_number);
    return;
  }
  if (accelerator == "pytorch" || accelerator == "pytorch:cuda" || accelerator == "pytorch:cpu") {
    require_network(accelerator, workload);
    settings.accelerator = AcceleratorKind::pytorch;
    settings.accelerator_name = accelerator;
    settings.accelerator_rate = 0;  // a preset's
    return;
  }
  if (accelerator == "cpu" || accelerator == "cpu:float" || accelerator == "cpu:double") {
    settings.accelerator = AcceleratorKind::cpu;
    settings.accelerator_name = accelerator;
    settings.accelerator_rate = 0;  // a preset's
    settings.accelerator_precision = accelerator == "cpu:double" ? Precision::float64 : Precision::float32;
    return;
  }
  if (!is_emulated(accelerator)) {
    throw UsageError(fmt::format(
        "--accelerator: found \"{}\"{}, expected emulated:RATE (samples/s of one), emulated:KIND or pytorch with --workload, cuda:RATE, cpu, "
        "cpu:double, or null",
        accelerator,
        did_you_mean(accelerator, {"cpu", "cpu:double", "cuda:2000", "emulated:2000", "null", "pytorch", "pytorch:cpu", "pytorch:cuda"})));
  }
  const std::string what = after_prefix(accelerator);
  settings.accelerator = AcceleratorKind::emulated;
  settings.accelerator_name = accelerator;
  const bool is_known_kind = workload && workload->accelerator_rates.contains(what);  // "1080ti" begins like a number
  if (is_number(what) && !is_known_kind) {
    settings.accelerator_rate = parsed("--accelerator", what, positive_number);
  } else if (workload) {
    settings.accelerator_rate = accelerator_rate(*workload, what).value;
  } else {
    throw UsageError(
        fmt::format("--accelerator {}: how fast a {} is depends on the network; pass --workload NAME, or its rate: emulated:2000 (samples/s)",
                    accelerator, what));
  }
}

void ProfileOptions::apply_mesh(ProfileSettings& settings) const {
  if (settings.mesh.empty()) return;
  if (m_typed.given("--accelerators")) throw UsageError("--accelerators: the mesh says how many devices there are; leave one of the two out");
  if (settings.input_sharding.empty()) settings.input_sharding = "batch";
  const Mesh mesh = parse_mesh(settings.mesh);
  settings.accelerators = static_cast<int>(batch_slices(mesh, parse_input_sharding(settings.input_sharding, mesh)));
}

void ProfileOptions::apply_storage(ProfileSettings& settings) const {
  const std::string& storage = m_typed.text("--storage");
  if (storage.empty()) {
    if (settings.preset.empty() && is_emulated(settings.dataset))
      throw UsageError("an emulated dataset lies on no disk: pass --storage emulated:NAME (ssd, hdd, 530MB/s), --preset SERVER, or --storage null");
    return;
  }
  if (storage == "real" || storage == "null") {
    settings.storage = storage == "real" ? Seam::real : Seam::null;
    settings.storage_name = storage;
    return;
  }
  if (!is_emulated(storage)) {
    throw UsageError(fmt::format("--storage: found \"{}\"{}, expected real, null, emulated:NAME or emulated:530MB/s", storage,
                                 did_you_mean(storage, {"real", "null"})));
  }
  const std::string what = after_prefix(storage);
  if (is_number(what)) {
    use_storage(settings, storage_from_bandwidth(parsed("--storage", what, parse_bytes_per_second)));
    settings.storage_name = what;
  } else {
    const ConfigFile file = config_file(ConfigKind::storage, what);
    use_storage(settings, parse_storage(file.text, file.source));
  }
}

void ProfileOptions::apply_prep(ProfileSettings& settings, const std::optional<Workload>& workload) const {
  const std::string& prep = m_typed.text("--prep");
  if (prep.empty()) return;
  if (prep == "real" || prep == "null") {
    settings.prep = prep == "real" ? Seam::real : Seam::null;
    return;
  }
  if (prep == "cpu" || prep == "gpu" || prep.starts_with("split")) settings.prep = Seam::real;
  if (prep == "cpu") return;
  if (prep == "gpu" || prep == "split" || prep.starts_with("split:")) {
    settings.prep_place = prep == "gpu" ? PrepPlace::gpu : PrepPlace::split;
    settings.gpu_share = prep == "gpu" ? 1 : prep == "split" ? 0 : parsed("--prep split", prep.substr(std::string("split:").size()), parse_gpu_share);
    return;
  }
  settings.prep = Seam::emulated;
  if (prep == "emulated") {
    if (!workload || !workload->prep_rate_per_core)
      throw UsageError("--prep emulated: needs a rate: emulated:425 (samples/s of one core), or a --workload that states one");
    settings.prep_rate_per_core = workload->prep_rate_per_core->value;
    return;
  }
  if (!is_emulated(prep)) {
    throw UsageError(fmt::format("--prep: found \"{}\"{}, expected cpu, gpu, split, split:SHARE, null, emulated or emulated:RATE_PER_CORE", prep,
                                 did_you_mean(prep, {"real", "cpu", "gpu", "split", "null", "emulated"})));
  }
  settings.prep_rate_per_core = parsed("--prep", after_prefix(prep), positive_number);
}

void ProfileOptions::apply_order(ProfileSettings& settings) const {
  if (settings.order == OrderKind::random && m_typed.given("--shuffle-buffer"))
    throw UsageError("--shuffle-buffer: a random order is shuffled whole and needs none; pass --order sequential or shards with it");
  if (settings.order != OrderKind::shards && m_typed.given("--readers"))
    throw UsageError("--readers: only shards are dealt out to several readers; pass --order shards with it");
  if (settings.order == OrderKind::random) settings.shuffle_buffer = 0;
}

void ProfileOptions::apply_cache(ProfileSettings& settings) const {
  if (m_typed.text("--cache-size") == "auto") {
    settings.cache_size.reset();
  } else if (m_typed.given("--cache-size")) {
    m_typed.set(settings.cache_size, "--cache-size", parse_byte_amount);
    if (settings.cache_size->kind == ByteAmount::Kind::bytes) {
      settings.cache_size->bytes = static_cast<Bytes>(static_cast<double>(settings.cache_size->bytes) / settings.scale);
    }
  }
}

std::shared_ptr<const DatasetIndex> ProfileOptions::open(const ProfileSettings& settings, EventSink& events, const std::stop_token& stop) const {
  if (auto emulated = open_emulated_dataset(settings)) return emulated;
  OpenOptions options;
  options.keys = {settings.image_key, settings.label_key};
  options.seed = settings.seed;
  options.stat_budget_seconds = settings.time_budget_seconds * 0.05;
  if (m_typed.given("--index")) options.index_file = m_typed.text("--index");
  return open_dataset(settings.dataset, options, events, stop);
}

}  // namespace dsanalyze::cli
