#include "profile_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace dsanalyze::report {
namespace {

std::string seam_text(Seam seam, const std::string& emulated) { return seam == Seam::real ? "real" : seam == Seam::null ? "null" : emulated; }

}  // namespace

std::string share_with_interval(const StallRecord& stall) {
  const double half = (stall.ci95_fraction.high - stall.ci95_fraction.low) / 2 * 100;
  if (!(half > 0)) return format_share(stall.fraction);
  // Two digits of the uncertainty, and the share to the same place; never beyond a hundredth of a percent.
  const int decimals = half >= 9.95 ? 0 : half >= 0.995 ? 1 : 2;
  const double last_place = std::pow(10, -decimals);
  const double share = std::abs(stall.fraction * 100) < last_place / 2 ? 0 : stall.fraction * 100;  // no "-0.00"
  return fmt::format("{:.{}f} ± {:.{}f} %", share, decimals, std::max(half, last_place), decimals);
}

std::string setup_text(const ProfileResult& result) {
  const ProfileSettings& settings = result.settings;
  std::vector<std::string> parts;
  const std::string storage =
      settings.storage_name.empty() ? "emulated " + format_bytes_per_second(settings.storage_bytes_per_s) : settings.storage_name;
  parts.push_back("storage " + seam_text(settings.storage, storage));
  parts.push_back("prep " + seam_text(settings.prep, fmt::format("emulated {} samples/s a core", format_number(settings.prep_rate_per_core))));
  switch (settings.accelerator) {
    case AcceleratorKind::none:
      parts.emplace_back("no accelerator");
      break;
    case AcceleratorKind::null:
      parts.emplace_back("null accelerator");
      break;
    case AcceleratorKind::cpu:
      parts.push_back(fmt::format("the CPU trains, {} thread{}{}", settings.accelerators, settings.accelerators == 1 ? "" : "s",
                                  settings.accelerator_precision ? ", " + precision_name(*settings.accelerator_precision) : ""));
      break;
    case AcceleratorKind::emulated:
      parts.push_back(fmt::format("accelerators {} x {}", settings.accelerators, settings.accelerator_name));
      break;
  }
  std::string cache = "cache " + cache_kind_name(settings.cache);
  if (result.fetch && result.fetch->cache_fraction) cache += ", " + format_share(*result.fetch->cache_fraction) + " of the dataset";
  if (settings.admission == Admission::cost_aware) cache += ", cost-aware admission";
  parts.push_back(cache);
  if (settings.storage == Seam::real && settings.io != IoEngine::automatic)
    parts.push_back(fmt::format("reads by {}, {}", settings.io == IoEngine::uring ? "io_uring" : "threads",
                                settings.read_mode == ReadMode::direct ? "direct" : "buffered"));
  if (settings.scale != 1) parts.push_back(fmt::format("scale 1:{}", format_number(settings.scale)));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string dataset_text(const DatasetRecord& dataset) {
  std::string text = fmt::format("{}: {} samples, {}{}", dataset.path, format_number(static_cast<double>(dataset.samples)),
                                 format_bytes(dataset.bytes), dataset.sizes_sampled ? " (estimated from a sample of the files)" : "");
  if (dataset.subset_samples > 0 && dataset.subset_samples < dataset.samples)
    text += fmt::format("; the runs used a random subset of {} samples, {}", format_number(static_cast<double>(dataset.subset_samples)),
                        format_bytes(dataset.subset_bytes));
  return text;
}

std::string host_text(const HostRecord& host) {
  std::vector<std::string> parts;
  if (!host.cpu_model.empty()) parts.push_back(host.cpu_model);
  parts.push_back(fmt::format("{} usable cores", format_number(host.cores)));
  parts.push_back(format_bytes(host.memory_bytes) + " usable memory");
  if (!host.storage_device.empty())
    parts.push_back(fmt::format("{}{}", host.storage_device, host.storage_filesystem.empty() ? "" : " (" + host.storage_filesystem + ")"));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string rate_note(const RateRecord& rate) {
  std::vector<std::string> notes;
  if (rate.bytes_per_s > 0) notes.push_back(format_bytes_per_second(rate.bytes_per_s));
  if (rate.cache_fraction) notes.push_back(format_share(*rate.cache_fraction) + " cached");
  if (rate.windows == 1) notes.emplace_back("one window: interval not known");
  if (rate.void_windows > 0) notes.push_back(fmt::format("{} of {} windows void", rate.void_windows, rate.windows + rate.void_windows));
  return fmt::format("{}", fmt::join(notes, ", "));
}

std::string order_text(const OrderRecord& order) {
  if (order.kind == "random") return "random: every sample anywhere in the epoch";
  return fmt::format(
      "{}, shuffle buffer {} samples{}: samples move {} as far as in a random order, {} stay beside their neighbour, rank correlation "
      "with the files {:.2f}, a batch draws on {} of the files that a random one does",
      order.kind, order.shuffle_buffer, order.readers > 1 ? fmt::format(", {} readers", order.readers) : "", format_share(order.mean_displacement),
      format_share(order.neighbours), order.rank_correlation, format_share(order.batch_files));
}

std::string utilisation_text(const AcceleratorUtilisation& au, const std::string& run) {
  return fmt::format("{} % by MLPerf Storage's formula (no MLPerf result): {} of {} in the {} run, {} emulated accelerator{}",
                     format_number(au.value), format_seconds(au.compute_seconds), format_seconds(au.total_seconds), run, au.accelerators,
                     au.accelerators == 1 ? "" : "s");
}

std::string loss_text(double loss) { return fmt::format("{:.5g}", loss); }

std::string learned_text(const RunRecord& run) {
  if (!run.training || run.training->by_epoch.empty()) return "";
  const auto& epochs = run.training->by_epoch;
  if (epochs.size() == 1) return fmt::format("loss {} in the only epoch (run {})", loss_text(epochs.front().loss), run.name);
  return fmt::format("loss {} in the first epoch, {} in the last of {} (run {})", loss_text(epochs.front().loss), loss_text(epochs.back().loss),
                     format_number(static_cast<double>(epochs.back().epoch + 1)), run.name);
}

std::string observed_text(const ProfileResult::Observed& observed) {
  return fmt::format("your own job reaches {} samples/s; {} of what this machine could feed with dsanalyze's own loader is unused",
                     format_number(observed.samples_per_s), format_share(observed.unused_fraction));
}

}  // namespace dsanalyze::report
