#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/records/result.hpp"

namespace dsanalyze::report {

// What a profile says, in words: the same in every view.

/// "37.2 ± 1.6 %": two digits of the half-width of the 95 % interval, and the share to the same place.
std::string share_with_interval(const StallRecord& stall);
/// What the full run reached beside what its rates give, and what speaks for causes: a sentence or two.
std::string interference_text(const ProfileResult::Attained& attained);
/// Storage, prep, accelerators, cache: what of them is real.
std::string setup_text(const ProfileResult& result);
/// "4 workers", or "watched" of what has none that are known.
std::string workers_text(const LoaderRecord& loader);
/// Of a launched training: its loader, and where its script makes it.
std::string loader_text(const LoaderRecord& loader);
/// Of a launched training, what the page's curves and sliders assume, and what it reached as found; empty of other profiles.
std::string assumptions_of_models(const ProfileResult& result);
/// "batch 32", "batch 32-256 (120 on the average)"; empty where it is not known.
std::string batch_text(const ProfileResult& result);
/// Of a launched training: "GPU", or "training" where it takes the CPU.
std::string trainer_name(const ProfileResult& result);
std::string dataset_text(const DatasetRecord& dataset);
std::string host_text(const HostRecord& host);
/// Bytes per second, share cached, void windows; empty where there is nothing to add to a rate.
std::string rate_note(const RateRecord& rate);
std::string order_text(const OrderRecord& order);
/// The figure's own name and formula, and that it is not theirs to vouch for.
std::string utilisation_text(const AcceleratorUtilisation& au, const std::string& run);
std::string observed_text(const ProfileResult::Observed& observed);

/// What the jobs of one server had in common, what it took of memory and what it cost; without a full stop.
std::string sharing_text(const SharingRecord& sharing);
/// What jobs that drew dependently saved of prep: "for each sample of the fastest job (job 0), 1.66 were prepared; ..."; empty where that is not
/// known.
std::string saved_by_drawing_text(const SharingRecord& sharing);
/// How a job ended, and with which trial.
std::string job_end_text(const JobRecord& job);
/// "loss", "samples/s".
std::string judged_by_text(const SearchTrialRecord& trial);

/// How many ranks, how they partitioned the dataset, what moved and what no cache holds; without a full stop.
std::string partition_text(const PartitionRecord& partition);
/// The ranks that were lost and what is not known to be trained, the first of them; without full stops.
std::vector<std::string> lost_texts(const PartitionRecord& partition);
/// A host's name, of bounded length; not quoted.
std::string host_name_text(const RankRecord& rank);
/// What the rank read from storage: not its cache and not other ranks had.
std::uint64_t samples_from_storage(const RankRecord& rank);

/// Five digits: runs are compared by their losses, which differ little where something is wrong.
std::string loss_text(double loss);
/// "loss 2.303 in the first epoch, 0.412 in the last of 5 (run full)"; empty where nothing was learned.
std::string learned_text(const RunRecord& run);

}  // namespace dsanalyze::report
