#include "core/records/settings.hpp"

#include <algorithm>
#include <array>

#include "core/rates.hpp"

namespace dsanalyze {
namespace {

bool is_page_model(const ProfileSettings& settings) {
  return settings.cache == CacheKind::page_model_random || settings.cache == CacheKind::page_model_linux;
}

bool is_coordinated(const ProfileSettings& settings) { return settings.share == JobSharing::coordinated; }

bool is_dependent(const ProfileSettings& settings) { return settings.share == JobSharing::dependent; }

bool is_parted(const ProfileSettings& settings) { return settings.partition != PartitionMode::none; }

bool lives_in_one_process(CacheKind cache) {
  return cache == CacheKind::lru || cache == CacheKind::page_model_random || cache == CacheKind::page_model_linux;
}

constexpr std::array rules = {
    ModeRule{"--cache page", "--direct",
             "direct I/O goes past the page cache, so nothing would ever be found there; use --cache none, minio or lru, or leave out --direct",
             [](const ProfileSettings& settings) { return settings.cache == CacheKind::page && settings.read_mode == ReadMode::direct; }},
    ModeRule{"--cache page", "--storage emulated",
             "the kernel's page cache knows nothing of emulated storage; use --cache none, minio or lru, or --storage real",
             [](const ProfileSettings& settings) { return settings.cache == CacheKind::page && settings.storage == Seam::emulated; }},
    ModeRule{"--cache page", "--storage null",
             "null storage reads nothing that the page cache could keep; use --cache none, minio or lru, or --storage real",
             [](const ProfileSettings& settings) { return settings.cache == CacheKind::page && settings.storage == Seam::null; }},
    ModeRule{"--cache page-model", "--storage real",
             "a model of the page cache stands in where the kernel's own cannot be; over real storage use --cache page",
             [](const ProfileSettings& settings) { return is_page_model(settings) && settings.storage == Seam::real; }},
    ModeRule{"--cache page-model", "--storage null", "null storage reads nothing that a page cache could keep; use --storage emulated:NAME",
             [](const ProfileSettings& settings) { return is_page_model(settings) && settings.storage == Seam::null; }},
    ModeRule{"--admit cost-aware", "any cache but minio",
             "only MinIO chooses what it admits; the others replace what they hold. Use --cache minio, or leave out --admit",
             [](const ProfileSettings& settings) { return settings.admission == Admission::cost_aware && settings.cache != CacheKind::minio; }},
    ModeRule{"--admit cost-aware", "--storage null",
             "null storage takes no time that a cache could save; use --admit first, or --storage real or emulated:NAME",
             [](const ProfileSettings& settings) { return settings.admission == Admission::cost_aware && settings.storage == Seam::null; }},
    ModeRule{"--accelerator cpu", "--prep emulated",
             "emulated prep writes no samples that a network could learn from; use --prep real, or --accelerator emulated:RATE",
             [](const ProfileSettings& settings) { return settings.accelerator == AcceleratorKind::cpu && settings.prep == Seam::emulated; }},
    ModeRule{"--accelerator cpu", "--prep null",
             "null prep writes no samples that a network could learn from; use --prep real, or --accelerator emulated:RATE",
             [](const ProfileSettings& settings) { return settings.accelerator == AcceleratorKind::cpu && settings.prep == Seam::null; }},
    ModeRule{"--accelerator cpu", "--storage null",
             "null storage delivers no images, so nothing could be learned; use --storage real or emulated:NAME, or --accelerator emulated:RATE",
             [](const ProfileSettings& settings) { return settings.accelerator == AcceleratorKind::cpu && settings.storage == Seam::null; }},
    ModeRule{"--accelerator cpu", "--step independent",
             "one network learns, so its threads take their steps together; leave out --step, or use --accelerator emulated:RATE",
             [](const ProfileSettings& settings) { return settings.accelerator == AcceleratorKind::cpu && settings.step == StepMode::independent; }},
    ModeRule{"--accelerator pytorch", "--world or --partition",
             "each rank would measure a rate of its own, and all have to train at the same; measure G once, and pass --accelerator emulated:RATE",
             [](const ProfileSettings& settings) { return settings.accelerator == AcceleratorKind::pytorch && runs_ranks(settings); }},
    ModeRule{"--prep split:SHARE", "a batch of so few samples", "the GPU would get none of them; pass a larger share, or a larger --batch-size",
             [](const ProfileSettings& settings) {
               return settings.prep_place == PrepPlace::split && settings.gpu_share > 0 &&
                      share_of_batch(settings.gpu_share, static_cast<std::uint32_t>(std::max(settings.batch_size, 0))) == 0;
             }},
    ModeRule{"--prep gpu or split", "an accelerator other than cuda",
             "what the GPU prepares stays on the GPU that trains: it takes `profile DATASET --accelerator cuda:RATE`",
             [](const ProfileSettings& settings) { return settings.prep_place != PrepPlace::cpu && settings.accelerator != AcceleratorKind::cuda; }},
    ModeRule{"--prep gpu or split", "--mesh or several --accelerators", "prep on the GPU is of one GPU alone for now; leave out --prep",
             [](const ProfileSettings& settings) {
               return settings.prep_place != PrepPlace::cpu && (settings.accelerators > 1 || !settings.mesh.empty());
             }},
    ModeRule{"--accelerator cuda", "--jobs, --share, --world or --partition",
             "batches of one job alone go to real GPUs for now; use --accelerator emulated:RATE, or profile one job",
             [](const ProfileSettings& settings) {
               return settings.accelerator == AcceleratorKind::cuda && (runs_jobs(settings) || runs_ranks(settings));
             }},
    ModeRule{"--accelerator cuda", "--prep emulated or null",
             "samples that prep does not write cannot be copied to a GPU; use --prep real, or --accelerator emulated:RATE",
             [](const ProfileSettings& settings) { return settings.accelerator == AcceleratorKind::cuda && settings.prep != Seam::real; }},
    ModeRule{"--mesh", "any accelerator but cuda:RATE", "what goes to which device shows in copies to real GPUs; use --accelerator cuda:RATE",
             [](const ProfileSettings& settings) { return !settings.mesh.empty() && settings.accelerator != AcceleratorKind::cuda; }},
    ModeRule{"--input-sharding", "no --mesh", "it says how batches are divided over a mesh of devices; pass --mesh 2x2",
             [](const ProfileSettings& settings) { return !settings.input_sharding.empty() && settings.mesh.empty(); }},
    ModeRule{"--memory-limit", "any cache but page",
             "the limit is that of the kernel's page cache; the loader's own caches have --cache-size. Use --cache page, or leave out --memory-limit",
             [](const ProfileSettings& settings) { return settings.memory_limit.has_value() && settings.cache != CacheKind::page; }},
    ModeRule{"--producers coordinator", "--share none",
             "jobs that share nothing prepare for themselves; use --share coordinated, or leave out --producers",
             [](const ProfileSettings& settings) { return settings.producers == Producers::coordinator && settings.share == JobSharing::none; }},
    ModeRule{"--share coordinated", "--cache lru or page-model, while --producers is jobs",
             "a cache that replaces what it holds lives in one process for now, and here every job fetches its part; use --producers coordinator, or "
             "--cache minio, page or none",
             [](const ProfileSettings& settings) {
               return is_coordinated(settings) && settings.producers == Producers::jobs && lives_in_one_process(settings.cache);
             }},
    ModeRule{"--share coordinated", "--order sequential or shards",
             "each producer reads single batches of the epoch and not one after another, so neighbours in the files would not be read together; "
             "use --order random, or --share none",
             [](const ProfileSettings& settings) { return is_coordinated(settings) && settings.order != OrderKind::random; }},
    ModeRule{"--share coordinated", "--step independent", "every job takes every batch, in the group's order; leave out --step, or use --share none",
             [](const ProfileSettings& settings) { return is_coordinated(settings) && settings.step == StepMode::independent; }},
    ModeRule{"--share dependent", "--producers jobs",
             "one process draws for all jobs, and prepares what it drew; leave out --producers, or use --share coordinated",
             [](const ProfileSettings& settings) { return is_dependent(settings) && settings.producers == Producers::jobs; }},
    ModeRule{"--share dependent", "--order sequential or shards",
             "jobs draw at random from what they still need, wherever it lies in the files; use --order random, or --share none",
             [](const ProfileSettings& settings) { return is_dependent(settings) && settings.order != OrderKind::random; }},
    ModeRule{"--share dependent", "--step independent",
             "a job's batches go to its accelerators in whole steps; leave out --step, or use --share none",
             [](const ProfileSettings& settings) { return is_dependent(settings) && settings.step == StepMode::independent; }},
    ModeRule{"--share dependent", "--trials",
             "a search compares its trials at the end of an epoch of all jobs, and jobs that draw dependently end theirs at different times; use "
             "--share coordinated or none, or leave out --trials",
             [](const ProfileSettings& settings) { return is_dependent(settings) && settings.trials > 0; }},
    ModeRule{"--job-speeds", "--share none or coordinated",
             "coordinated jobs all go as fast as the slowest, and jobs that share nothing are profiled one by one, each with its --accelerator; use "
             "--share dependent, or leave out --job-speeds",
             [](const ProfileSettings& settings) { return !settings.job_speeds.empty() && !is_dependent(settings); }},
    ModeRule{"--job-speeds", "any --accelerator but emulated",
             "a speed is a factor of an emulated accelerator's rate; null takes every batch at once, and the CPU is as fast as it is. Use "
             "--accelerator emulated:RATE, or leave out --job-speeds",
             [](const ProfileSettings& settings) { return !settings.job_speeds.empty() && !emulates_accelerator(settings); }},
    ModeRule{"--job-speeds", "another number of --jobs", "each job has one speed, in the order of their numbers; pass one for each of --jobs",
             [](const ProfileSettings& settings) {
               return !settings.job_speeds.empty() && settings.job_speeds.size() != static_cast<std::size_t>(settings.jobs);
             }},
    ModeRule{"--staging-size", "--share none or coordinated",
             "only jobs that draw dependently need a prepared sample at different times; use --share dependent, or leave out --staging-size",
             [](const ProfileSettings& settings) { return settings.staging_size.has_value() && !is_dependent(settings); }},
    ModeRule{"--staging-policy", "no --staging-size",
             "no prepared samples are kept, so none gives way; pass --staging-size with it, or leave out --staging-policy",
             [](const ProfileSettings& settings) { return settings.staging_policy.has_value() && !settings.staging_size; }},
    ModeRule{"--jobs or --share", "--runs without full",
             "it is the full run that several jobs make, the others measure the server; add full to --runs, or leave out --runs",
             [](const ProfileSettings& settings) { return runs_jobs(settings) && std::ranges::find(settings.runs, "full") == settings.runs.end(); }},
    ModeRule{"--batch-copy cpu", "one job that shares nothing",
             "the copy stands for what a job does with a batch that others read too; use --jobs or --share coordinated, or leave out --batch-copy",
             [](const ProfileSettings& settings) { return settings.batch_copy == BatchCopy::cpu && !runs_jobs(settings); }},
    ModeRule{"--trials", "one job", "a search tries several configurations side by side; use --jobs 2 or more, or leave out --trials",
             [](const ProfileSettings& settings) { return settings.trials > 0 && settings.jobs < 2; }},
    ModeRule{"--trials", "more --jobs than trials", "some jobs would have nothing to try; use more --trials or fewer --jobs",
             [](const ProfileSettings& settings) { return settings.trials > 0 && settings.trials < settings.jobs; }},
    ModeRule{"--stop-at", "no --trials", "only a search stops those that do worse; pass --trials N with it, or leave out --stop-at",
             [](const ProfileSettings& settings) { return settings.stop_at_epochs.has_value() && settings.trials == 0; }},
    ModeRule{"--stop-at", "no more --epochs than that", "every trial would be over before it is judged; use more --epochs, or a smaller --stop-at",
             [](const ProfileSettings& settings) { return settings.stop_at_epochs.has_value() && *settings.stop_at_epochs >= settings.epochs; }},
    ModeRule{"--partition", "any cache but minio",
             "who holds what must not change, and only MinIO never replaces what it holds; use --cache minio, or --partition none",
             [](const ProfileSettings& settings) { return is_parted(settings) && settings.cache != CacheKind::minio; }},
    ModeRule{"--partition", "--admit cost-aware", "the partition says which samples a server's cache is for; use --admit first, or --partition none",
             [](const ProfileSettings& settings) { return is_parted(settings) && settings.admission == Admission::cost_aware; }},
    ModeRule{"--world or --partition", "--order sequential or shards",
             "each rank trains a part of every global mini-batch, which lies anywhere in the files; use --order random",
             [](const ProfileSettings& settings) { return runs_ranks(settings) && settings.order != OrderKind::random; }},
    ModeRule{"--world or --partition", "--jobs or --share",
             "a group of jobs belongs to one server; leave out --world and --partition, or --jobs and --share",
             [](const ProfileSettings& settings) { return runs_ranks(settings) && runs_jobs(settings); }},
    ModeRule{"--world or --partition", "--runs without full",
             "it is the full run that the ranks make together, the others measure one server; add full to --runs, or leave out --runs",
             [](const ProfileSettings& settings) { return runs_ranks(settings) && std::ranges::find(settings.runs, "full") == settings.runs.end(); }},
    ModeRule{"--balance-from storage", "any --partition but locality",
             "only locality-aware batches are balanced; use --partition locality, or leave it out",
             [](const ProfileSettings& settings) {
               return settings.balance_from == BalanceFrom::storage && settings.partition != PartitionMode::locality;
             }},
    ModeRule{"--network emulated", "--partition none",
             "servers that hold nothing for one another send nothing; use --partition partitioned or locality",
             [](const ProfileSettings& settings) { return settings.network == Seam::emulated && !is_parted(settings); }},
    ModeRule{"--storage-scope shared", "one rank", "one server has all of its storage; use --world, or leave it out",
             [](const ProfileSettings& settings) { return settings.storage_scope == StorageScope::shared && settings.world == 1; }},
};

}  // namespace

std::span<const ModeRule> mode_rules() { return rules; }

std::optional<ModeRule> broken_mode_rule(const ProfileSettings& settings) {
  for (const ModeRule& rule : rules) {
    if (rule.applies(settings)) return rule;
  }
  return std::nullopt;
}

}  // namespace dsanalyze
