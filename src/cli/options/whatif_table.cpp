#include <array>

#include "core/records/scenario.hpp"
#include "models/whatif/job_mix.hpp"
#include "models/whatif/servers.hpp"
#include "models/whatif/whatif.hpp"
#include "option_kinds.hpp"
#include "option_table.hpp"

namespace dsanalyze::cli {
namespace {

using Q = WhatIfQuestion;

/// "2x" or "8".
Q::CoreChange core_change(const std::string& text) {
  if (is_factor(text)) return {std::nullopt, parse_factor(text)};
  const double cores = parse_number(text);
  if (cores < 0 || cores > 1e6) throw UsageError(fmt::format("found \"{}\", expected a number of cores, at most 1,000,000", text));
  return {cores, std::nullopt};
}

double accelerator_count(const std::string& text) {
  if (is_factor(text)) throw UsageError(fmt::format("found \"{}\", expected a number; for a factor ask --accelerator-speed {}", text, text));
  return static_cast<double>(parse_integer(text, 1, 1'000'000));
}

Q::CacheChange cache_change(const std::string& text) {
  static const std::string cost_aware = ":cost-aware";
  if (text == "minio" + cost_aware) return {CacheKind::minio, Admission::cost_aware};
  return {parse_cache_kind(text), Admission::first};
}

double positive_bytes(const std::string& text) {
  const Bytes bytes = parse_bytes(text);
  if (bytes == 0) throw UsageError("found 0 bytes, expected the size of a read, for example 1MiB");
  return static_cast<double>(bytes);
}

/// profile's grammar: "emulated:40Gbit/s"; "40Gbit/s" too.
double network_rate(const std::string& text) {
  static const std::string emulated = "emulated:";
  return parse_bytes_per_second(text.starts_with(emulated) ? text.substr(emulated.size()) : text);
}

ByteAmount simulated_cache_size(const std::string& text) {
  const ByteAmount size = parse_byte_amount(text);
  if (size.of(std::numeric_limits<std::uint32_t>::max()) == 0)
    throw UsageError(fmt::format("found '{}', expected a size above 0 (the policy none has no cache)", text));
  return size;
}

double staging_fraction(const std::string& text) {
  const ByteAmount amount = parse_byte_amount(text);
  if (amount.kind == ByteAmount::Kind::bytes && amount.bytes > 0)
    throw UsageError(
        fmt::format("found \"{}\", expected a percentage of the dataset's samples: rates do not say how large a prepared sample is", text));
  return amount.kind == ByteAmount::Kind::bytes ? 0 : amount.fraction;
}

/// A list of what to change.
template <auto Member, typename Kind>
constexpr Option change(std::string_view name, std::string_view said) {
  return option(name, "LIST", said).sets<Member, Kind>().on("whatif", "changes");
}

constexpr std::array whatif_rows{
    argument("PROFILE", "the profile").offers("FILE").on("whatif"),
    option("--rates", "LIST",
           "G=9800,P=10200,C=252000,S=4700±2% instead of a profile, in samples/s, never bytes/s; the error (also +-2%) and G may be left out. "
           "P@8=3400: P on 8 cores; G@128=7200: G with batches of 128; N: what one server gets from others' caches, which may also be given beside a "
           "PROFILE.json, and counts for its own")
        .on("whatif", "rates"),
    option(
        "--base", "LIST",
        "what is behind them: cores=24,accelerators=8,batch=512, dataset=146GiB,samples=1281167,cache=35%, any part of it; without it only factors "
        "and shares can be asked about")
        .on("whatif", "rates"),

    change<&Q::cache_sizes, By<parse_byte_amount>>("--cache-size", "25%,100GiB: of the dataset, or bytes"),
    change<&Q::cores, By<core_change>>("--cores", "8,16 or 2x: cores of prep"),
    change<&Q::prep_places, Named<PrepPlace>>("--prep", "cpu,gpu,split: where photographs are prepared, of a profile on a GPU")
        .one_of("cpu|gpu|split"),
    change<&Q::workers, Whole<0, 512>>("--workers", "8,16: num_workers of each rank, of a launched training (profile -- COMMAND)"),
    change<&Q::accelerator_speeds, By<positive_factor>>("--accelerator-speed", "1.5x,2x: each accelerator's speed"),
    change<&Q::transfers, By<positive_factor>>("--transfer", "4x: how fast batches are copied to the GPUs (uint8 instead of float32: 4x)"),
    change<&Q::accelerators, By<accelerator_count>>("--accelerators", "4,16: their number"),
    change<&Q::batch_sizes, Whole<1, 1'000'000'000>>("--batch-size", "128,512: of one accelerator"),
    change<&Q::caches, By<cache_change>>("--cache", "minio, minio:cost-aware, lru, page: another kind").offers("minio|minio:cost-aware|lru|page"),
    option("--storage", "LIST", "2x, 3GB/s, emulated:hdd (see: list storage), real (as measured), null (without limit)")
        .offers("real|null|emulated:@storage")
        .as_list()
        .on("whatif", "changes"),
    change<&Q::orders, Named<OrderKind>>("--order", "random,sequential,shards: how samples are read, of a launched training")
        .one_of("random|sequential|shards"),
    change<&Q::request_sizes, By<positive_bytes>>("--request-size", "1MiB: bytes a read, as of shards instead of files"),
    change<&Q::concurrencies, Whole<1, 4096>>("--io-depth", "32,64: reads in flight"),
    change<&Q::jobs, Whole<1, 1024>>("--jobs", "4,8: equal jobs on this server, each with its own accelerators"),
    change<&Q::shares, Named<JobSharing>>("--share",
                                          "how they share: none, coordinated (each prepares a part for all), unified-producer; of a --job-mix: "
                                          "none, coordinated, dependent")
        .one_of("none|coordinated|unified-producer|dependent"),
    change<&Q::servers, Whole<1, 1'000'000'000>>("--servers", "2,4: servers of one data-parallel job"),
    change<&Q::partitions, Named<PartitionMode>>("--partition", "what their caches hold: none, partitioned, locality"),
    change<&Q::balances, Named<BalanceFrom>>("--balance-from", "of locality: what evens the batches out comes from peers or storage"),
    change<&Q::scopes, Named<StorageScope>>("--storage-scope", "server (each has its own), shared (by all)"),
    change<&Q::networks, By<network_rate>>("--network", "40Gbit/s: a server's link to the others"),
    flag("--all", "every combination of the lists (always in JSON)").on("whatif", "changes"),

    option("--job-mix", "FILE", "jobs of one dataset that differ in speed, arrival, samples, batch size and epochs, as JSON (below)")
        .offers("FILE")
        .on("whatif", "mix"),
    option("--staging-size", "LIST", "0%,10%: prepared samples that dependent jobs keep for later draws, of the dataset's (none)")
        .sets<&JobMixQuestion::staging, By<staging_fraction>>()
        .on("whatif", "mix"),
    option("--staging-policy", "LIST", "what gives way in that store: refcnt (what the fewest jobs still need), lru (refcnt)")
        .sets<&JobMixQuestion::policies, Named<StagingPolicy>>()
        .on("whatif", "mix"),

    option("--run-scatter", "S", "standard deviation of the rates between runs (2%), where it is known: the intervals then hold other runs too")
        .on("whatif", "sure"),
    flag("--validate",
         "runs each configuration that this machine can run (cores, cache, batch size, jobs; emulated accelerators; slower storage by a cgroup; the "
         "command of "
         "a launched training with other workers and fewer cores) and "
         "prints measured rate and error. Exit 0: median error at most 2 %, worst 5 %, every verdict right; 1: not; 4: cannot tell")
        .on("whatif", "sure"),
    option("--time-budget", "T",
           "of all runs of --validate together, which share it. Without it the most telling configurations run, as many as fit into 3 min; which, "
           "and for "
           "how long, is said first")
        .on("whatif", "sure"),
    option("--sandbox", "DIR", "where what the runs of a launched training write lies until it is discarded").offers("FILE").on("whatif", "sure"),

    option("--find", "LIST",
           "cache, cores, storage: the smallest value that removes the stall; accelerators: the most that the data can feed; of a launched training: "
           "workers, cores, cache, storage")
        .sets<&Q::find, Plain>()
        .one_of("cache|cores|workers|accelerators|storage")
        .on("whatif", "find"),

    flag("--search",
         "predicts up to 10,000 configurations of a price list (cores, cache, accelerators, storage of one server, or of as many as --servers says), "
         "and "
         "shows those that nothing is both cheaper and faster than")
        .on("whatif", "search"),
    option("--prices", "LIST", "name (see: list prices) or file of the price list").offers("@prices|FILE").on("whatif", "search"),
    option("--target", "TARGET", "the cheapest configuration that reaches it: an epoch's time (10min) or a rate (5000/s); cost is that of an epoch")
        .on("whatif", "search"),
    option("--measured-accelerator", "KIND", "which of the list's kinds G was measured on").on("whatif", "search"),

    argument("SCENARIO", "the scenario",
             "a name (see: list scenarios) or a JSON file: how many samples of which sizes, read in which order by how many jobs, each begun how "
             "long after the one before")
        .offers("@scenarios|FILE")
        .on("simulate", "read"),
    option("--trace", "FILE",
           "what `dsanalyze profile --trace FILE` wrote: what the full run asked of its cache, and what the cache decided; or what `dsanalyze share "
           "--trace "
           "FILE` wrote of jobs that draw dependently")
        .offers("FILE")
        .on("simulate", "read"),
    option("--policy", "LIST",
           "minio: admits what comes first and fits, replaces nothing\n"
           "minio:cost-aware: admits what saves most storage time\n"
           "lru: replaces the least recently used\n"
           "page-model:random, page-model:linux: the page cache, by random replacement, and with Linux's two lists\n"
           "belady: the optimum, which knows the future (items of one size; of several, it is only good)\n"
           "none\n"
           "refcnt, lru: of the store of a trace of draws\n"
           "(a scenario's own; a trace: all but none and cost-aware)")
        .sets<&Scenario::policies, By<parse_replay_policy>>()
        .on("simulate", "caches"),
    option(
        "--cache-size", "LIST",
        "25%,100GiB: of the dataset, or bytes (a scenario's own; a trace: the size that was recorded); of a trace of draws: of the prepared samples")
        .sets<&Scenario::cache_sizes, By<simulated_cache_size>>()
        .on("simulate", "caches"),
};

}  // namespace

std::span<const Option> whatif_table() { return whatif_rows; }

}  // namespace dsanalyze::cli
