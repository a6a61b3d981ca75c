#include <array>

#include "attach/conductor.hpp"
#include "core/records/settings.hpp"
#include "loaders/staging/staging.hpp"
#include "option_kinds.hpp"
#include "option_table.hpp"
#include "share_options.hpp"

namespace dsanalyze::cli {
namespace {

using S = ProfileSettings;

int workers_number(const std::string& text) { return text == "auto" ? 0 : static_cast<int>(parse_integer(text, 1, 1024)); }

/// "1epoch", "3 epochs".
int epochs_number(const std::string& text) {
  const std::size_t unit = std::min(text.find_first_not_of("0123456789 "), text.size());
  const std::string name = text.substr(unit);
  if (unit == 0 || (name != "epoch" && name != "epochs"))
    throw UsageError(fmt::format("found \"{}\", expected a number of epochs, for example 1epoch or 3epochs", text));
  const std::string number = text.substr(0, unit);
  return static_cast<int>(parse_integer(number.substr(0, number.find_last_not_of(' ') + 1), 1, 1000));
}

/// What says which configuration is meant, for `doctor` too.
constexpr Option set_up(const Option& option, std::string_view group) { return option.on("profile", group).on("doctor", "configuration"); }
/// And for `share` too.
constexpr Option loading(const Option& option, std::string_view group, std::string_view said_of_share = {}) {
  return set_up(option, group).on("share", "loading", said_of_share);
}
/// What `profile` and `share` have.
constexpr Option batches(const Option& option, std::string_view group, std::string_view said_of_share = {}) {
  return option.on("profile", group).on("share", "loading", said_of_share);
}
/// What is emulated: for tests of `share` too.
constexpr Option emulation(const Option& option, std::string_view said_of_share = {}) {
  return set_up(option, "emulation").on("share", "emulation", said_of_share);
}

// In the order of the help pages. ProfileOptions makes settings of those that set none.
constexpr std::array profile_rows{
    argument("DATASET", "the dataset").offers("FOLDER|FILE|emulated:@datasets").on("profile").on("share").on("doctor"),

    set_up(
        option(
            "--accelerator", "KIND",
            "emulated:2000 (samples/s of one), emulated:v100 (with --workload), pytorch, pytorch:cuda or pytorch:cpu (with --workload: the rate that "
            "your own PyTorch reaches, measured first), cuda:2000 (batches are copied to real GPUs, which steps of that rate occupy), cpu or "
            "cpu:double (a small network learns, on cores that prep needs too; for tests of "
            "what sharing and order do to learning), null (takes all at once)")
            .offers("pytorch|pytorch:cuda|pytorch:cpu|cuda:|cpu|cpu:double|emulated:|null")
            .decides("accelerator", "accelerator_samples_per_s", "accelerator_precision"),
        "accelerator"),
    set_up(option("--accelerators", "N", "of each job ({default})").sets<&S::accelerators, Whole<1, 256>>(), "accelerator"),
    option("--mesh", "SHAPE",
           "2x2: devices in a grid, each of which gets its part of a batch directly; with cuda:RATE, the rate of one slice of the samples")
        .sets<&S::mesh, Plain>()
        .on("profile", "accelerator"),
    option("--input-sharding", "SPEC",
           "how the mesh divides a batch: batch (the samples over all axes), replicated, or S0,R,R,S1 (for each dimension its axes, R: whole)")
        .offers("batch|replicated")
        .sets<&S::input_sharding, Plain>()
        .on("profile", "accelerator"),
    batches(option("--batch-size", "N", "per accelerator ({default}, or the workload's)").sets<&S::batch_size, Whole<1, 65'536>>(), "accelerator",
            "samples of a batch ({default}, or the workload's)"),
    option("--step", "MODE", "[lockstep] or [independent]").sets<&S::step, Named<StepMode>>().on("profile", "accelerator"),
    option("--observed", "RATE", "what your own job reaches, samples/s; compared with what this machine could feed")
        .sets<&S::observed_rate, By<positive_number>>()
        .decides("observed_samples_per_s")
        .on("profile", "accelerator"),
    loading(option("--workload", "NAME", "network and prep task (see: list workloads)").offers("@workloads|FILE").decides("workload"), "accelerator",
            "whose prep is done (see: list workloads)"),

    loading(option("--workers", "N|auto", "prep threads (one a core)").sets<&S::workers, By<workers_number>>().offers("auto").ranks_own(), "loader",
            "prep threads of all jobs together (one a core)"),
    loading(option("--cores", "N", "cores that prep may use").sets<&S::cores, Whole<1, 1024>>().ranks_own(), "loader"),
    loading(option("--io", "HOW", "[pread] (threads), [uring] (io_uring) or [auto] (both, buffered and direct, are tried; the fastest is taken)")
                .sets<&S::io, Named<IoEngine>>()
                .ranks_own(),
            "loader", "[pread] (threads), [uring] (io_uring) or [auto] (threads where the jobs prepare, else io_uring)"),
    loading(option("--io-depth", "N", "reads in flight ({default})")
                .sets<&S::fetch_concurrency, Whole<1, 256>>()
                .decides("fetch_concurrency")
                .ranks_own(),
            "loader"),
    loading(flag("--direct", "direct I/O, past the page cache").decides("read_mode").ranks_own(), "loader"),
    batches(option("--dtype", "T", "[float32] or [uint8]").sets<&S::dtype, Named<DType>>(), "loader"),
    batches(option("--layout", "L", "[nchw] or [nhwc]").sets<&S::layout, Named<Layout>>(), "loader"),
    loading(
        option("--cache", "KIND", "[minio], [lru], [page] (the kernel's), [none]; with emulated storage [page-model:linux] or [page-model:random]")
            .sets<&S::cache, Named<CacheKind>>(),
        "loader", "[minio], [page] (the kernel's), [none]; with --producers coordinator [lru] too"),
    loading(
        option("--cache-size", "SIZE", "4GiB, 35% of the dataset, or auto: what free memory holds").offers("auto").decides("cache_size").ranks_own(),
        "loader"),
    option("--admit", "WHAT", "[first] (what comes first and fits) or [cost-aware] (what saves most storage time a cached byte); minio only")
        .sets<&S::admission, Named<Admission>>()
        .on("profile", "loader"),
    option("--memory-limit", "SIZE",
           "with --cache page: holds the kernel's page cache to 4GiB, or 35% of the dataset, at least 32MiB, by a cgroup (needs root)")
        .sets<&S::memory_limit, By<parse_byte_amount>>()
        .ranks_own()
        .on("profile", "loader"),
    set_up(option("--order", "KIND", "[random], [sequential] (the files' order) or [shards] (shards in random order, read one after another)")
               .sets<&S::order, Named<OrderKind>>(),
           "loader"),
    option("--shuffle-buffer", "N", "samples that sequential and shards are shuffled through ({default}; 0: none)")
        .sets<&S::shuffle_buffer, Whole<0, 1'000'000>>()
        .decides("shuffle_buffer_samples")
        .on("profile", "loader"),
    option("--readers", "N", "shards that are read alternately ({default})").sets<&S::readers, Whole<1, 256>>().on("profile", "loader"),

    option("--jobs", "N", "so many side by side, each with --accelerators of its own ({default}; at most {most})")
        .sets<&S::jobs, Whole<1, S::most_jobs>>()
        .on("profile", "jobs")
        .on("share", "group",
            "that take part at once, at most {most}; the first epoch waits for all, a late one for an epoch's end (of dependent: nothing waits)"),
    option(
        "--share", "WHAT",
        "[none] (each fetches and prepares for itself), [coordinated] (every batch is prepared once, for all) or [dependent] (each goes at its own "
        "pace, and draws so that others often need the same sample)")
        .sets<&S::share, Named<JobSharing>>()
        .one_of("none|coordinated|dependent")
        .on("profile", "jobs"),
    option("--share", "HOW", "[coordinated] (all read the same batches, in step) or [dependent] (each at its own pace, with batches of its own)")
        .sets<&ShareTerms::share, Named<JobSharing>>()
        .one_of("coordinated|dependent")
        .on("share", "group"),
    option("--job-speeds", "LIST", "of dependent: factors of the emulated accelerator's rate, one a job: 1,0.6,0.45 (all are 1)")
        .sets<&S::job_speeds, By<parse_factor>>()
        .on("profile", "jobs"),
    option("--staging-size", "SIZE", "of dependent: prepared samples kept for jobs that draw them later, 4GiB or 25% of the dataset's (none)")
        .sets<&S::staging_size, By<parse_byte_amount>>()
        .on("profile", "jobs")
        .on("share", "group"),
    option("--staging-policy", "HOW",
           "of what is kept, what gives way: refcnt (what the fewest jobs still need; the default) or lru (what was used longest ago)")
        .sets<&S::staging_policy, Named<StagingPolicy>>()
        .on("profile", "jobs")
        .on("share", "group"),
    option("--producers", "WHO", "prepare what is shared: [jobs] (each its part) or [coordinator] (one process, with all cores)")
        .sets<&S::producers, Named<Producers>>()
        .on("profile", "jobs")
        .on("share", "group", "prepare the batches: [jobs] (each its part) or [coordinator] (this program, with all cores)"),
    option("--batch-copy", "WHO", "[none] (accelerators read batches where they lie) or [cpu] (each job copies each of its batches first)")
        .sets<&S::batch_copy, Named<BatchCopy>>()
        .on("profile", "jobs"),
    option("--trials", "N", "a search: N configurations are tried, as many at a time as there are jobs")
        .sets<&S::trials, Whole<1, 10'000>>()
        .zero_is_nothing()
        .on("profile", "jobs"),
    option("--stop-at", "1epoch",
           "of a search: so often the worse half of those that run gives way to others, while there are any, and to none then; 2epochs (without: "
           "each trains all its --epochs)")
        .sets<&S::stop_at_epochs, By<epochs_number>>()
        .offers("1epoch|2epochs|3epochs")
        .decides("stop_at_epochs")
        .on("profile", "jobs"),

    option("--partition", "HOW",
           "[none] (each server's cache keeps what comes by), [partitioned] (each holds its part, a miss asks the holder) or [locality] (each trains "
           "what it holds, the rest moves)")
        .sets<&S::partition, Named<PartitionMode>>()
        .on("profile", "servers"),
    option("--balance-from", "WHAT", "of locality: what balances a batch comes from [peers] or from [storage]")
        .sets<&S::balance_from, Named<BalanceFrom>>()
        .on("profile", "servers"),
    option("--storage-scope", "S", "[server] (each has a storage of its own) or [shared] (one that all read from)")
        .sets<&S::storage_scope, Named<StorageScope>>()
        .on("profile", "servers"),
    option("--network", "WHAT", "[real], or emulated:40Gbit/s, a link for each")
        .like<&S::network, Named<Seam>>()
        .offers("real|emulated:")
        .decides("network", "network_bytes_per_s")
        .on("profile", "servers"),
    option("--rank", "R", "of this process, from 0, where no launcher started it").on("profile", "servers"),
    option("--world", "N", "ranks in all").decides("world").on("profile", "servers"),
    option("--rendezvous", "WHERE", "where ranks meet without MPI: a FILE that all see, or HOST:PORT of rank 0")
        .offers("FILE")
        .on("profile", "servers"),
    option("--key-file", "FILE", "32 bytes that only the job's ranks know (made and handed out by the launcher where it is missing)")
        .offers("FILE")
        .on("profile", "servers"),
    option("--peer-timeout", "TIME", "the longest that a rank may be silent before the others go on without it (1s); the same for all")
        .on("profile", "servers"),
    option("--listen", "ADDRESS", "where the others reach this rank: an address, a network (10.0.0.0/24) or an interface (loopback)")
        .on("profile", "servers"),

    flag("--passive", "a real training run: only clocks are read, and the command's own exit code is returned").on("profile", "launch"),
    option("--sandbox", "DIR", "where the files that the command writes lie until they are discarded (the folder of profiles)")
        .offers("FILE")
        .on("profile", "launch"),
    option("--keep", "PATH", "a file or folder that is no part of the sandbox: what the command writes there stays")
        .offers("FILE")
        .on("profile", "launch"),
    flag("--keep-output", "an ordinary run: what the command writes stays").on("profile", "launch"),
    option("--hang-timeout", "TIME", "the longest that one rank may keep the others waiting ({default})")
        .sets<&Conductor::Plan::hang_seconds, Seconds>()
        .on("profile", "launch"),

    option("--time-budget", "TIME", "90s, 5min ({default})")
        .sets<&S::time_budget_seconds, Seconds>()
        .decides("time_budget_seconds")
        .on("profile", "measurement"),
    option("--subset", "SIZE", "at most so much of the dataset: 2GiB, 10%").sets<&S::subset, By<parse_byte_amount>>().on("profile", "measurement"),
    option("--epochs", "N", "of the full run, the first apart ({default})").sets<&S::epochs, Whole<2, 1000>>().on("profile", "measurement"),
    option("--runs", "LIST", "of synthetic, prep, cached, fetch, full (all that apply)")
        .sets<&S::runs, Plain>()
        .offers("synthetic|prep|cached|fetch|full")
        .on("profile", "measurement"),
    batches(option("--max-storage-rate", "R", "50MB/s: spares a shared filer")
                .sets<&S::max_storage_bytes_per_s, By<parse_bytes_per_second>>()
                .decides("max_storage_bytes_per_s")
                .ranks_own(),
            "measurement"),
    loading(option("--index", "FILE", "an index made by `dsanalyze dataset index`").offers("FILE"), "measurement"),
    loading(option("--image-key", "LIST", "of tar shards: which members are the samples, as of `dsanalyze dataset`: \"jpg;png\"")
                .sets<&S::image_key, Plain>(),
            "measurement"),
    loading(option("--label-key", "LIST", "of tar shards: which members are the labels: \"fine.cls\"; none, of any dataset: train without labels")
                .sets<&S::label_key, Plain>(),
            "measurement"),
    batches(option("--on-error", "WHAT", "[skip] samples that cannot be read, [substitute] good ones of the same batch for them, or [fail]")
                .sets<&S::on_error, Named<OnError>>(),
            "measurement"),
    batches(option("--error-budget", "S", "share of samples that may be skipped ({default}); more fails")
                .sets<&S::error_budget, Share>()
                .decides("error_budget_fraction"),
            "measurement"),
    flag("--require-trusted", "exit 4 when the measurement could not prove itself").on("profile", "measurement"),
    option("--trace", "FILE", "writes what the full run asks of its cache, or what a command reads, for `dsanalyze simulate --trace FILE`")
        .offers("FILE")
        .on("profile", "measurement")
        .on("share", "group", "of dependent: writes what the jobs draw, for `dsanalyze simulate --trace FILE`"),
    option("--html", "FILE", "writes the result as a page too, as `dsanalyze report`").offers("FILE").on("profile", "measurement"),
    option("--trace-events", "FILE", "writes what each thread did in the full run, for Perfetto (ui.perfetto.dev) or chrome://tracing")
        .offers("FILE")
        .on("profile", "measurement"),
    option("--metrics", "FILE", "writes the figures as OpenMetrics text, for Prometheus").offers("FILE").on("profile", "measurement"),
    flag("--dry-run", "show the plan and stop").on("profile", "measurement"),

    emulation(option("--storage", "WHAT", "[real], null, emulated:NAME, emulated:530MB/s")
                  .like<&S::storage, Named<Seam>>()
                  .offers("real|null|emulated:@storage")
                  .decides("storage", "storage_bytes_per_s", "storage_latency_seconds", "storage_queue_depth")),
    emulation(option("--prep", "WHAT", "[real] (= cpu), gpu, split, split:SHARE of a batch on the GPU, null, emulated:RATE_PER_CORE")
                  .like<&S::prep, Named<Seam>>()
                  .offers("real|cpu|gpu|split|null|emulated:")
                  .decides("prep", "prep_samples_per_s_per_core", "prep_place", "gpu_share")),
    set_up(option("--preset", "SERVER", "storage, cores, cache and accelerators of a server (see: list servers); needs --workload")
               .offers("@servers|FILE")
               .decides("preset"),
           "emulation"),
    emulation(
        option("--scale", "1:N", "divides bytes a sample, cache, slots and bandwidths of an emulated dataset by N; samples/s stay").decides("scale"),
        "divides bytes a sample of an emulated dataset"),

    option("--save-state", "FILE", "of dependent: writes where its jobs are when the group ends, by a signal too, for --resume")
        .sets<&ShareTerms::save_state, Plain>()
        .offers("FILE")
        .on("share", "group"),
    option("--resume", "FILE", "of dependent: goes on from what --save-state wrote; jobs that come again get the rest of their epochs")
        .sets<&ShareTerms::resume, Plain>()
        .offers("FILE")
        .on("share", "group"),
    option("--epochs", "N", "after which the group ends; of dependent: of each job that does not say (without: when the last job leaves)")
        .sets<&ShareTerms::epochs, Whole<1, 1'000'000>>()
        .on("share", "group"),
    option("--held", "N", "batches that a job may hold at once ({default})")
        .sets<&ShareTerms::held, Whole<1, staging_most_held>>()
        .on("share", "group"),
    option("--listen", "unix:PATH", "the socket by which jobs find the group (one in a private folder)").offers("unix:").on("share", "group"),
    flag("--end-with-stdin", "without a COMMAND: the group ends when the pipe that is its stdin is closed and no job is left").on("share", "group"),
    flag("--strict", "exit code 1 where there is a warning or a problem (notes and what is not known do not count)").on("doctor", "strict"),
};

}  // namespace

std::span<const Option> profile_table() { return profile_rows; }

}  // namespace dsanalyze::cli
