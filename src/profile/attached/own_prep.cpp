#include "own_prep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <set>
#include <string_view>
#include <thread>
#include <vector>

#include "attached_reads.hpp"
#include "base/error.hpp"
#include "base/statistics.hpp"
#include "base/system/files.hpp"
#include "core/records/rate_text.hpp"
#include "loaders/prep/prep.hpp"

namespace dsanalyze {
namespace {

constexpr Bytes most_image_bytes = Bytes{128} << 20;
constexpr std::size_t most_images = 512;
constexpr std::size_t least_images = 16;

/// What the loader does itself, by the names that the hook gives to parts of samples' making.
constexpr std::array replaced_stages{std::string_view("RandomResizedCrop"), std::string_view("Resize"),
                                     std::string_view("CenterCrop"),        std::string_view("RandomHorizontalFlip"),
                                     std::string_view("ToTensor"),          std::string_view("PILToTensor"),
                                     std::string_view("ConvertImageDtype"), std::string_view("ToDtype"),
                                     std::string_view("ToImage"),           std::string_view("Normalize"),
                                     std::string_view("default_collate"),   std::string_view("fetching"),
                                     std::string_view("pil_loader"),        std::string_view("Image.convert"),
                                     std::string_view("default_loader"),    std::string_view("decode_image"),
                                     std::string_view("decode_jpeg"),       std::string_view("read_image"),
                                     std::string_view("fast_collate")};

bool has_stage(const ProfileResult& result, std::string_view name) { return std::ranges::count(result.hot, name, &StageRecord::name) > 0; }

/// Of the workers' CPU time, what something else than the loader would have to do all the same.
double kept_fraction(const ProfileResult& result) {
  double kept = 0;
  for (const StageRecord& stage : result.hot)
    if (std::ranges::count(replaced_stages, std::string_view(stage.name)) == 0) kept += stage.fraction;
  return kept;
}

/// Whole files that the training read, each once; none where one of them is no image that prep can read.
std::vector<std::vector<std::byte>> images_of(const LaunchedTraining& launched, const std::stop_token& stop) {
  const FullAccesses full(launched);
  std::set<std::uint32_t> seen;
  std::vector<std::vector<std::byte>> images;
  Bytes bytes = 0;
  for (const FileAccess& access : launched.accesses->accesses) {
    if (images.size() == most_images || bytes >= most_image_bytes || stop.stop_requested()) break;
    const TracedFile& file = launched.accesses->files[access.file];
    if (!reads_bytes(access.kind) || !is_data(file.path) || !full.holds(access) || !seen.insert(access.file).second) continue;
    std::string content;
    try {
      content = read_file(launched.sandbox ? launched.sandbox->outside(file.path) : std::filesystem::path(file.path), most_image_bytes - bytes);
    } catch (const Error&) {
      continue;
    }
    const auto encoded = std::as_bytes(std::span(content));
    const ImageFormat format = recognise_image(encoded);
    if (format != ImageFormat::jpeg && format != ImageFormat::png && format != ImageFormat::webp) return {};
    bytes += content.size();
    images.emplace_back(encoded.begin(), encoded.end());
  }
  return images;
}

/// All threads prepare the images in turn; each stretch is a tenth of a second of all of them.
class OwnPrepRun {
 public:
  OwnPrepRun(const std::vector<std::vector<std::byte>>& images, const PrepFactory& factory, int threads, double seconds, Timing timing) {
    constexpr double stretch_seconds = 0.1;
    std::vector<std::jthread> workers;
    workers.reserve(static_cast<std::size_t>(threads));
    for (int thread = 0; thread < threads; ++thread)
      workers.emplace_back([&](const std::stop_token& stop) { prepare(images, factory, stop, timing); });
    Nanoseconds last = timing.clock->now();
    const Nanoseconds end = last + to_nanoseconds(seconds);
    std::uint64_t before = m_prepared;
    while (last < end) {
      timing.waiter->sleep_until(last + to_nanoseconds(stretch_seconds));
      const Nanoseconds now = timing.clock->now();
      const std::uint64_t prepared = m_prepared;
      m_stretches.push_back({static_cast<double>(prepared - before), to_seconds(now - last)});
      before = prepared;
      last = now;
    }
  }

  [[nodiscard]] std::vector<Stretch> stretches() const { return {m_stretches.begin() + 1, m_stretches.end()}; }
  [[nodiscard]] bool failed() const { return m_failed; }

 private:
  void prepare(const std::vector<std::vector<std::byte>>& images, const PrepFactory& factory, const std::stop_token& stop, Timing timing) {
    try {
      const std::unique_ptr<Prep> prep = factory.make();
      std::vector<std::byte> output(static_cast<std::size_t>(factory.tensor(1).sample_bytes()));
      while (!stop.stop_requested()) {
        const std::uint64_t number = m_next++;
        const auto sample = static_cast<SampleId>(number % images.size());
        if (!prep->prepare({images[sample], sample, number / images.size(), timing.clock->now(), output}).ok()) m_failed = true;
        ++m_prepared;
      }
    } catch (const std::exception&) {  // memory
      m_failed = true;
    }
  }

  std::atomic<std::uint64_t> m_next = 0, m_prepared = 0;
  std::atomic<bool> m_failed = false;
  std::vector<Stretch> m_stretches;
};

}  // namespace

double own_prep_seconds(double time_budget_seconds) {
  constexpr double fraction = 0.03;
  return std::clamp(fraction * time_budget_seconds, 0.6, 3.0);
}

bool own_loader_fits(const AttachedTraining& training, const ProfileResult& result) {
  constexpr double most_kept = 0.1;
  constexpr int largest = 2048;
  if (!training.picture || !result.loader || result.loader->style != LoaderRecord::Style::map || !result.reads || result.hot.empty()) return false;
  const auto [height, width] = *training.picture;
  if (height != width || height > largest) return false;
  const bool crops = has_stage(result, "RandomResizedCrop") || has_stage(result, "CenterCrop");
  return is_one_file_each(files_per_sample(*result.reads, *result.loader)) && crops && kept_fraction(result) <= most_kept;
}

void measure_own_prep(const LaunchedTraining& launched, double seconds, const HostFacts& host, ProfileResult& result, EventSink& events,
                      const std::stop_token& stop, Timing timing) {
  if (!launched.accesses || !own_loader_fits(launched.training, result)) return;
  const std::vector<std::vector<std::byte>> images = images_of(launched, stop);
  if (stop.stop_requested()) throw Interrupted();
  if (images.size() < least_images) return;
  ImagePrepOptions options;
  options.prep.crop_size = (*launched.training.picture)[0];
  options.crop = has_stage(result, "RandomResizedCrop") ? CropRule::random_resized : CropRule::centre;
  const std::unique_ptr<PrepFactory> factory = make_image_prep(options);
  const int threads = std::max(host.worker_count(), 1);
  const OwnPrepRun run(images, *factory, threads, seconds, timing);
  if (stop.stop_requested()) throw Interrupted();
  const std::vector<Stretch> stretches = run.stretches();
  if (run.failed() || stretches.empty()) return;
  const Estimate estimate = estimate_of_ratio(stretches);
  if (estimate.value <= 0) return;
  OwnPrepRecord& record = result.own_prep.emplace();
  record.samples_per_s = estimate.value;
  record.ci95_samples_per_s = {std::max(estimate.ci95.low, 0.0), estimate.ci95.high};
  record.threads = threads;
  record.crop_size = options.prep.crop_size;
  record.crop = options.crop == CropRule::random_resized ? OwnPrepRecord::Crop::random_resized : OwnPrepRecord::Crop::centre;
  record.images = images.size();
  for (const StageRecord& stage : result.hot)
    if (std::ranges::count(replaced_stages, std::string_view(stage.name)) == 0) record.left_out.push_back(stage.name);
  events.note(fmt::format("dsanalyze.Loader prepares {} of these images a second", format_rate(record.samples_per_s, record.ci95_samples_per_s)));
}

}  // namespace dsanalyze
