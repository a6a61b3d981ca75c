#include "console_verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/text/text.hpp"
#include "core/records/rate_text.hpp"
#include "report/document/profile_text.hpp"
#include "report/document/record_texts.hpp"

namespace dsanalyze::console {
namespace {

bool rests_on_emulation(const ProfileSettings& settings) {
  return emulates_accelerator(settings) || settings.storage == Seam::emulated || settings.prep == Seam::emulated ||
         settings.network == Seam::emulated;
}

std::string rate(const RateRecord& record, char letter) {
  return fmt::format("{} samples/s [{}]", format_rate(record.samples_per_s, record.ci95_samples_per_s), letter);
}

/// Where samples are prepared.
std::string place_of_prep(const ProfileSettings& settings) {
  if (settings.gpu_share <= 0) return "the CPU";
  return settings.gpu_share < 1 ? "the CPU and the GPU" : "the GPU";
}

std::string what_is_waited_for(const BottleneckRecord& bottleneck, const ProfileSettings& settings) {
  if (bottleneck.detail == "transfer") return "waits for copies to the GPU";
  if (bottleneck.resource == "gpu") return "keeps the accelerators busy";
  if (bottleneck.resource == "cpu") return "waits for prep on " + place_of_prep(settings);
  if (bottleneck.detail == "cache") return "waits for the cache";
  if (bottleneck.detail == "network") return "waits for the network";
  return "waits for storage";
}

std::string whose_accelerators(const ProfileSettings& settings) {
  if (settings.jobs > 1) return "each job's";
  return settings.world > 1 ? "each rank's" : "the";
}

/// "prep can supply 735 samples/s [P]; the accelerators can consume 9,800 samples/s [G]": the rates that the verdict compares.
std::string compared_rates(const ProfileResult& result, const std::string& resource) {
  std::vector<std::string> parts;
  if (result.fetch && resource != "cpu") parts.push_back("fetch can supply " + rate(*result.fetch, 'F'));
  if (result.storage && resource == "io") parts.push_back("storage can supply " + rate(*result.storage, 'S'));
  if (result.network && resource == "io" && result.bottleneck && result.bottleneck->detail == "network")
    parts.push_back("others' caches can supply " + rate(*result.network, 'N'));
  if (result.transfer && result.bottleneck && result.bottleneck->detail == "transfer") {
    parts.push_back("transfers can supply " + rate(*result.transfer, 'H'));
    if (result.settings.gpu_share > 0) parts.back() += fmt::format(", with {} of each batch to copy", format_share(1 - result.settings.gpu_share));
  }
  if (result.prep && resource != "io") parts.push_back("prep can supply " + rate(*result.prep, 'P'));
  if (result.ingestion) parts.push_back(whose_accelerators(result.settings) + " accelerators can consume " + rate(*result.ingestion, 'G'));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string stall_sentence(const ProfileResult& result) {
  if (!result.stalls) return "";
  const std::string prep = format_share(result.stalls->prep.fraction);
  const std::string fetch = format_share(result.stalls->fetch.fraction);
  if (const auto& rest = result.stalls->interference)
    return fmt::format(": the accelerators wait {} of each epoch for prep and {} for fetch, and interference takes {}", prep, fetch,
                       format_share(rest->fraction));
  return fmt::format(": the accelerators wait {} of each epoch for prep and {} for fetch", prep, fetch);
}

std::string data_side_verdict(const ProfileResult& result) {
  std::string feed;
  if (result.fetch && !result.prep)
    feed = "at most " + rate(*result.fetch, 'F') + " (prep was not measured)";
  else if (result.fetch && result.fetch->samples_per_s < result.prep->samples_per_s)
    feed = rate(*result.fetch, 'F') + ", as fetch is the bottleneck";
  else if (result.prep && result.fetch)
    feed = rate(*result.prep, 'P') + ", as prep is the bottleneck";
  else if (result.prep)
    feed = "at most " + rate(*result.prep, 'P') + " (fetch was not measured)";
  if (feed.empty()) return "what the data side can feed was not measured: the runs prep and fetch are needed";
  return fmt::format(
      "with dsanalyze's own loader the data side can feed {}. Whether that is enough is open: what the accelerators can consume [G] is not known",
      feed);
}

std::string what_delays(RankDelay delay) {
  switch (delay) {
    case RankDelay::data:
      return "Its loader delays";
    case RankDelay::compute:
      return "Its computing delays";
    case RankDelay::outside:
      break;
  }
  return "What it does outside of its steps (checkpoints, logging, validation) delays";
}

/// "prep (CPU)".
std::string bottleneck_words(const std::string& detail, const std::string& trainer) {
  if (detail == "accelerator") return fmt::format("compute ({})", trainer);
  if (detail == "transfer") return "copies to the GPU";
  if (detail == "outside") return "outside the steps (checkpoints, logging, validation)";
  if (detail == "delivery") return "taking batches over, not preparing them";
  if (detail == "starting") return "starting the loader's workers, once an epoch";
  if (detail == "launching") return "launching work on the GPU, which waits for the process";
  if (detail == "latency") return "prep (it waits, and hardly uses the CPU)";
  if (detail == "cores") return "cores, which prep and training share";
  if (detail == "sampler") return "the sampler, which the training's own process asks for each batch's samples";
  return detail == "prep" ? "prep (CPU)" : "storage";
}

/// How long steps wait for batches. Where a thread of the script fetches them, what it waits is not known, but what its steps lose is.
std::string waiting_sentence(const ProfileResult& result, const std::string& trainer) {
  if (result.waits) return fmt::format("The {} waits {} of each step for a batch.", trainer, format_share(result.waits->data.fraction));
  const RunRecord* const full = result.run("full");
  if (!result.finds("loader-in-thread") || full == nullptr || !result.ingestion || result.ingestion->samples_per_s <= 0) return "";
  return fmt::format("By its rates, the {} waits {} of the time.", trainer,
                     format_share(std::clamp(1 - full->samples_per_s / result.ingestion->samples_per_s, 0.0, 1.0)));
}

/// Of a training that was launched, by its own loader.
std::string launched_verdict(const ProfileResult& result) {
  if (result.waits && result.waits->delaying_rank)
    return fmt::format("BOTTLENECK: rank {} of {}. {} every other rank.", *result.waits->delaying_rank, result.waits->by_rank.size(),
                       what_delays(delay_of(result.waits->by_rank, *result.waits->delaying_rank)));
  const std::string trainer = report::trainer_name(result);
  std::string waits = waiting_sentence(result, trainer);
  if (!result.bottleneck && result.finds("loader-in-thread") && !result.finds("phases-missing"))
    return "Not separable: the script fetches its batches in another thread than it trains in, so what its steps wait for is not seen.";
  if (!result.bottleneck && !result.ingestion && result.waits) return waits;
  if (!result.bottleneck) return "No bottleneck can be named: not all phases were measured. " + waits;
  return fmt::format("BOTTLENECK{}: {}. {}", result.bottleneck->confident ? "" : ", probably", bottleneck_words(result.bottleneck->detail, trainer),
                     waits);
}

/// A loader that is faster than the training and is waited for all the same.
std::string late_batches(const ProfileResult& result) {
  constexpr double worth_naming = 0.05;
  const bool contends = result.stalls && result.stalls->contention && result.stalls->contention->fraction > worth_naming;
  if (contends && result.bottleneck->detail == "delivery")
    return fmt::format(
        "Make each batch cheaper to take (fewer and larger tensors, no pin_memory thread): steps take {} of the time longer beside workers, "
        "though cores are free.",
        format_share(result.stalls->contention->fraction));
  if (!result.waits || result.waits->data.fraction <= worth_naming) return "Nothing in the loader: it keeps up with the training.";
  return fmt::format(
      "Make each batch cheaper to take: the loader keeps up, yet {} of a step waits while the training's own process takes its batch over.",
      format_share(result.waits->data.fraction));
}

/// Why a rank is the verdict: what the ranks take by themselves.
std::string delay_confidence(const WaitsRecord& waits) {
  double own = 0;
  double others = 0;
  for (const RankWaitsRecord& rank : waits.by_rank) {
    const double alone = rank.data.seconds_per_step + rank.compute.seconds_per_step + rank.outside.seconds_per_step;
    (rank.rank == *waits.delaying_rank ? own : others) = rank.rank == *waits.delaying_rank ? alone : std::max(others, alone);
  }
  return fmt::format("yes: of each step, rank {} takes {} by itself, and the others {} at most, the rest waiting for it", *waits.delaying_rank,
                     format_seconds(own), format_seconds(others));
}

/// "it may use 2 (14-15), the others 16"; empty where a rank may use nearly as many cores as the others, or that is not known.
std::string fewer_cores(const std::vector<RankWaitsRecord>& ranks, int rank) {
  constexpr double clearly = 0.75;
  const RankWaitsRecord* own = nullptr;
  const RankWaitsRecord* fewest = nullptr;
  bool all_alike = true;
  for (const RankWaitsRecord& each : ranks) {
    if (each.cores == 0) return "";
    if (each.rank == rank) {
      own = &each;
      continue;
    }
    all_alike = all_alike && (fewest == nullptr || each.cores == fewest->cores);
    if (fewest == nullptr || each.cores < fewest->cores) fewest = &each;
  }
  if (own == nullptr || fewest == nullptr || own->cores >= clearly * fewest->cores) return "";
  return fmt::format("it may use {} ({}), the others {}{}", own->cores, printable(own->cpus), fewest->cores, all_alike ? "" : " or more");
}

/// Where to look, of a rank that delays all others.
std::string rank_step(const std::vector<RankWaitsRecord>& ranks, int rank) {
  const RankDelay delay = delay_of(ranks, rank);
  if (delay == RankDelay::outside)
    return fmt::format("Let rank {} do less between its steps: all others wait while it writes checkpoints, logs or validates.", rank);
  if (const std::string cores = fewer_cores(ranks, rank); !cores.empty())
    return fmt::format("Look at the cores of rank {} first: {} (taskset, the launcher's binding of cores, a cpuset).", rank, cores);
  if (delay == RankDelay::data)
    return fmt::format("Find out why the loader of rank {} is slower than the others': its cores, its storage, other processes.", rank);
  return fmt::format("Find out why rank {} computes longer than the others: its device, its CPUs' clock, its share of the batch, other processes.",
                     rank);
}

std::string launched_first_step(const ProfileResult& result) {
  if (result.waits && result.waits->delaying_rank) return rank_step(result.waits->by_rank, *result.waits->delaying_rank);
  if (result.bottleneck && result.bottleneck->detail == "sampler")
    return fmt::format("Make choosing samples cheaper (tensors in place of Python's lists, drawn once): {}.", result.bottleneck->reason);
  if (result.bottleneck && result.bottleneck->detail == "starting")
    return fmt::format("{}: {}.",
                       result.loader->persistent ? "Let an epoch be longer (more batches, fewer epochs)"
                                                 : "Keep the workers from epoch to epoch (persistent_workers=True), or start fewer",
                       result.bottleneck->reason);
  if (result.fix && result.loader)
    return fmt::format("Set num_workers={} instead of {}: {} samples/s are predicted ({:.1f}x). To check: {}", result.fix->workers,
                       result.loader->workers, format_rate(result.fix->samples_per_s, result.fix->ci95_samples_per_s), result.fix->speedup,
                       result.fix->check);
  if (!result.advice.empty() && result.advice.front().gain) return result.advice.front().text;
  const bool is_unclear = !result.bottleneck || !result.bottleneck->confident || result.bottleneck->detail == "delivery";
  if (is_unclear && result.finds("loader-in-thread"))
    return "Fetch the batches without that thread while profiling: the DataLoader's own workers prefetch, too.";
  std::string not_known = "See the findings, which say what could not be measured and why.";
  if (!result.bottleneck || !result.loader) return not_known;
  if (result.bottleneck->detail == "accelerator" || result.bottleneck->detail == "delivery") return late_batches(result);
  if (result.bottleneck->detail == "launching")
    return fmt::format("Launch less from Python: torch.compile(mode=\"reduce-overhead\") or CUDA graphs, larger batches, fewer calls of .item(); {}.",
                       result.bottleneck->reason);
  if (result.bottleneck->detail == "outside" && result.waits)
    return fmt::format("Shorten what the script does outside of its steps (checkpoints, logging, validation): it takes {} of a step's {}.",
                       format_seconds(result.waits->outside.seconds_per_step), format_seconds(result.waits->step_seconds));
  if (result.bottleneck->detail == "storage")
    return "Keep the data in memory, or read it faster: with its data in memory the training is that much faster (see reached).";
  if (result.bottleneck->detail == "cores")
    return fmt::format(
        "Give the training more cores, or make prep cheaper: steps on the same batches take {} of the time longer while {} worker{} prepare.",
        format_share(result.stalls->contention->fraction), result.loader->workers, result.loader->workers == 1 ? "" : "s");
  const bool watched = result.loader->style == LoaderRecord::Style::watched;
  if (!result.prep && (watched || result.loader->workers > 0)) return not_known;
  if (const auto better = result.better_workers())
    return fmt::format("Try num_workers={} instead of {}: the loader alone delivers {} samples/s with it, now {}.", better->workers,
                       result.loader->workers, format_number(better->samples_per_s),
                       result.loader->workers == 0 ? "nothing while the training computes" : format_number(result.prep->samples_per_s));
  if (watched)
    return fmt::format(
        "Let what is watched prepare more while the training computes, in threads or processes of its own, or make preparing cheaper: alone it "
        "delivers {} samples/s.",
        format_number(result.prep->samples_per_s));
  if (result.loader->workers == 0 && result.prep_by_workers.size() > 1)
    return "Make preparing cheaper, or prepare whole batches at once (the dataset's __getitems__): workers were tried, and deliver no more.";
  if (result.loader->workers == 0)
    return "Give the DataLoader workers (num_workers=1 or more): without them nothing is prepared while the training computes.";
  if (result.bottleneck->detail == "latency")
    return fmt::format(
        "Find out what the {} workers wait for (a network, a lock, a pause): they hardly use the CPU, and more workers deliver hardly "
        "more.",
        result.loader->workers);
  return fmt::format("Make prep cheaper: with {} workers on {} cores the loader delivers {} samples/s, and with other numbers of them hardly more.",
                     result.loader->workers, format_number(result.host.cores), format_number(result.prep->samples_per_s));
}

}  // namespace

Verdict verdict_parts(const ProfileResult& result) {
  if (!result.command.empty()) return {launched_verdict(result), ""};
  std::vector<std::string> reservations;
  if (rests_on_emulation(result.settings)) reservations.emplace_back("emulated");
  if (!result.trusted) reservations.emplace_back("not to be trusted (see findings)");
  // Of what is not trusted the findings say all.
  if (const auto shared = result.shared_cpu(); shared && result.trusted)
    reservations.push_back(fmt::format("beside other processes that take {} of the CPU", format_share(*shared)));
  const bool undecided = result.bottleneck && result.ingestion && result.trusted && !result.bottleneck->confident;
  if (undecided) reservations.emplace_back("inconclusive");

  Verdict verdict;
  if (!result.ingestion) {
    verdict.sentence = data_side_verdict(result);
  } else if (!result.bottleneck) {
    verdict.sentence = fmt::format("no verdict, as not all runs were made: {}", compared_rates(result, ""));
  } else if (undecided) {
    verdict.sentence = "with dsanalyze's own loader the bottleneck cannot be determined" + stall_sentence(result);
    verdict.rates = report::begun(compared_rates(result, ""));
  } else {
    verdict.sentence =
        fmt::format("with dsanalyze's own loader training {}{}", what_is_waited_for(*result.bottleneck, result.settings), stall_sentence(result));
    verdict.rates = report::begun(compared_rates(result, result.bottleneck->resource));
  }
  verdict.sentence =
      reservations.empty() ? report::begun(verdict.sentence) + "." : fmt::format("{}: {}.", fmt::join(reservations, ", "), verdict.sentence);
  if (!verdict.rates.empty()) verdict.rates += ".";
  if (const std::string saved = result.sharing ? report::saved_by_drawing_text(*result.sharing) : ""; !saved.empty())
    verdict.sharing = report::begun(saved) + ".";
  return verdict;
}

std::string verdict(const ProfileResult& result) {
  const Verdict parts = verdict_parts(result);
  std::string text = parts.sentence;
  for (const std::string& more : {parts.rates, parts.sharing})
    if (!more.empty()) text += " " + more;
  return text;
}

std::string first_step(const ProfileResult& result) {
  if (result.finds("training-failed")) return "Run the command alone to see why it fails, then profile it again.";
  const auto error = std::ranges::find(result.findings, Finding::Severity::error, &Finding::severity);
  if (!result.trusted && error != result.findings.end()) return "Fix the cause of the untrusted measurement first: " + error->message;
  if (result.finds("phases-missing")) return "Profile it again with what the missing phases need: see the finding phases-missing.";
  const bool passive = !result.ingestion && result.prep_by_workers.empty() && result.run("cached") == nullptr;
  if (!result.command.empty() && passive) return "Profile it without --passive, which measures what each part could do.";
  if (!result.command.empty()) return launched_first_step(result);
  if (!result.ingestion)
    return "Measure G, what your accelerators can consume: profile again with --accelerator pytorch --workload NAME, with --accelerator "
           "emulated:RATE where "
           "you "
           "know it, or with --observed RATE for what your own job reaches.";
  if (!result.advice.empty()) return result.advice.front().text;
  if (result.settings.world > 1)
    return fmt::format(
        "Ask what other caches, another partition or a faster network would give: dsanalyze whatif --servers {} with --cache-size, "
        "--partition or --network.",
        result.settings.world);
  return result.bottleneck && !result.bottleneck->confident ? "Profile longer (--time-budget), so that the intervals narrow."
                                                            : "Nothing: no change is advised.";
}

std::string steady_text(const SteadyRecord& steady) {
  return fmt::format("{} samples/s predicted for later epochs, in which {} of the samples come from storage (fetch stall {})",
                     format_rate(steady.samples_per_s, steady.ci95_samples_per_s), format_share(steady.miss_fraction),
                     format_share(steady.fetch_stall));
}

std::string confidence(const ProfileResult& result) {
  if (!result.trusted) return "no: the measurement could not prove itself (see findings)";
  if (!result.bottleneck) return "no verdict to be sure of";
  if (result.waits && result.waits->delaying_rank) return delay_confidence(*result.waits);
  const std::string& reason = result.bottleneck->reason;
  return (result.bottleneck->confident ? "yes" : "no") + (reason.empty() ? "" : ": " + reason);
}

}  // namespace dsanalyze::console
