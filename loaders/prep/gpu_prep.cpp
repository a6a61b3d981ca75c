#include "gpu_prep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/text/units.hpp"
#include "normalise.hpp"
#include "random_resized_crop.hpp"

namespace dsanalyze {
namespace {

constexpr double longest_group = 30;  ///< seconds that the GPU may take for a group beyond what others keep it busy for
constexpr std::size_t colours = 3;
constexpr std::size_t image_alignment = 256;

constexpr Bytes least_pixel_bytes = Bytes{64} << 20;
constexpr Bytes most_pixel_bytes = Bytes{512} << 20;  ///< of images that are decoded at once, of GPUs that have it
constexpr Bytes share_for_pixels = 64;
constexpr Bytes most_pixels_a_byte = 2048;  ///< more are no photograph, but a header that lies

Bytes pixel_bytes(const GpuJpegDecoder::Size& size) {
  return round_up(colours * static_cast<std::size_t>(size.width) * static_cast<std::size_t>(size.height), image_alignment);
}

/// At least `bytes` of the GPU's memory, which is free to go.
void require_room(std::unique_ptr<GpuMemory>& memory, Gpu& gpu, Bytes bytes) {
  if (memory && memory->size() >= bytes) return;
  memory.reset();
  memory = gpu.allocate(bytes + bytes / 4);
}

}  // namespace

GpuPrep::GpuPrep(std::shared_ptr<Gpu> gpu, const Options& options, Timing timing)
    : m_gpu(std::move(gpu)),
      m_options(options),
      m_timing(timing),
      m_cpu_prep(make_image_prep(options.image)),
      m_sample_bytes(m_cpu_prep->tensor(1).sample_bytes()),
      m_slot_bytes(round_up(m_sample_bytes * options.batch_size, image_alignment)),
      m_most_pixel_bytes(std::clamp(m_gpu->info().memory_bytes / share_for_pixels, least_pixel_bytes, most_pixel_bytes)),
      m_slots(m_gpu->allocate(m_slot_bytes * options.slots)),
      m_decoder(m_gpu->make_jpeg_decoder()->description()),
      m_moved(m_gpu->make_mark()),
      m_moves(m_gpu->make_stream()) {
  const SampleTarget target = Normaliser(options.image.prep, options.image.dtype, options.image.layout).target();
  m_output.size = options.image.prep.crop_size;
  m_output.planes = options.image.layout == Layout::nchw ? 1 : 0;
  m_output.floats = options.image.dtype == DType::float32 ? 1 : 0;
  std::ranges::copy(target.scale, m_output.scale);
  std::ranges::copy(target.offset, m_output.offset);
}

std::uint32_t GpuPrep::of_batch(std::uint32_t samples) const { return static_cast<std::uint32_t>(std::lround(samples * m_options.share)); }

void GpuPrep::move(const Move& move) {
  std::byte* const from = move.host + move.from * m_sample_bytes;
  std::byte* const to = move.host + move.to * m_sample_bytes;
  const std::uint64_t from_address = address(move.slot) + move.from * m_sample_bytes;
  const std::uint64_t to_address = address(move.slot) + move.to * m_sample_bytes;
  if (move.from >= move.on_gpu && move.to >= move.on_gpu) {
    std::copy_n(from, m_sample_bytes, to);
    return;
  }
  const std::scoped_lock lock(m_moving);
  if (move.from >= move.on_gpu) {
    m_moves->copy_in(to_address, from, m_sample_bytes);
  } else if (move.to >= move.on_gpu) {
    m_moves->copy_out(to, from_address, m_sample_bytes);
  } else {
    m_moves->copy_across(to_address, from_address, m_sample_bytes);
  }
  m_moved->set(*m_moves);
  require_reached(*m_moved, longest_group, m_timing, "a copy of a sample");
}

GpuPrepTotals GpuPrep::totals() const { return {m_samples.load(), m_left_to_cpu.load(), to_seconds(m_crop_nanoseconds.load())}; }

GpuPrep::Worker::Worker(GpuPrep& prep)
    : m_prep(prep),
      m_cpu(prep.m_cpu_prep->make()),
      m_crops(prep.m_gpu->allocate(group * sizeof(GpuCrop))),
      m_decoded(prep.m_gpu->make_mark()),
      m_done(prep.m_gpu->make_mark()),
      m_decoder(prep.m_gpu->make_jpeg_decoder()),
      m_stream(prep.m_gpu->make_stream()) {}

void GpuPrep::Worker::prepare(std::span<const Task> tasks, std::span<Status> statuses) {
  try {
    prepare_all(tasks, statuses);
  } catch (...) {
    settle();  // what the GPU still reads is the caller's to free
    throw;
  }
}

void GpuPrep::Worker::settle() noexcept {
  try {
    m_done->set(*m_stream);
    require_reached(*m_done, longest_group, m_prep.m_timing, "work that was given up");
  } catch (const std::exception&) {
    return;  // it is lost, or hangs
  }
}

void GpuPrep::Worker::prepare_all(std::span<const Task> tasks, std::span<Status> statuses) {
  std::ranges::fill(statuses, Status{});
  plan(tasks);
  std::vector<Photograph> all;
  all.swap(m_photographs);
  for (auto first = all.begin(); first != all.end();) {
    auto last = first;
    for (Bytes bytes = 0; last != all.end() && (bytes += pixel_bytes(last->size)) <= m_prep.m_most_pixel_bytes;) ++last;
    m_photographs.assign(first, last);
    if (!decode_and_crop(tasks)) {
      // One of them stops the whole group: each by itself, as it is not said which.
      for (auto one = first; one != last; ++one) {
        m_photographs.assign(1, *one);
        if (last - first == 1 || !decode_and_crop(tasks)) m_left.push_back(one->task);
      }
    }
    first = last;
  }
  for (const std::size_t task : m_left) prepare_on_cpu(tasks[task], statuses[task]);
  if (!m_left.empty()) {
    m_done->set(*m_stream);
    require_reached(*m_done, longest_group, m_prep.m_timing, "copies of a group of samples");
  }
  m_prep.m_left_to_cpu += m_left.size();
  m_prep.m_samples += tasks.size() - m_left.size();
}

void GpuPrep::Worker::plan(std::span<const Task> tasks) {
  m_photographs.clear();
  m_left.clear();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const auto size = m_decoder->size_of(tasks[i].cpu.encoded);
    const bool takes = size &&
                       pixel_bytes(*size) <= std::min(m_prep.m_most_pixel_bytes, most_pixels_a_byte * colours * tasks[i].cpu.encoded.size()) &&
                       gpu_crop_fits(crop_of(tasks[i], {i, *size}, 0), m_prep.m_output.size);
    if (takes)
      m_photographs.push_back({i, *size});
    else
      m_left.push_back(i);
  }
}

GpuCrop GpuPrep::Worker::crop_of(const Task& task, const Photograph& photograph, std::uint64_t pixels) const {
  const ImagePrepOptions& options = m_prep.m_options.image;
  const auto [width, height] = photograph.size;
  const int size = options.prep.crop_size;
  ScaledCrop scaled;
  Mirror mirror = Mirror::none;
  if (options.crop == CropRule::centre) {
    scaled = scale_centre(width, height, {size, options.resize == 0 ? size : options.resize}, 1);
  } else {
    const Augmentation drawn = draw_augmentation(options.prep, options.seed, task.cpu.generation, task.cpu.sample, width, height);
    scaled = scale_crop_by(drawn.crop, width, height, 1);
    mirror = drawn.mirror;
  }
  GpuCrop crop;
  crop.pitch = static_cast<std::uint32_t>(colours * static_cast<std::size_t>(width));
  crop.pixels = pixels + static_cast<std::size_t>(scaled.pixels.top) * crop.pitch + colours * static_cast<std::size_t>(scaled.pixels.left);
  crop.sample = m_prep.address(task.slot) + task.position * m_prep.m_sample_bytes;
  crop.mirrored = mirror == Mirror::horizontal ? 1 : 0;
  crop.x = scaled.horizontal;
  crop.y = scaled.vertical;
  return crop;
}

bool GpuPrep::Worker::decode_and_crop(std::span<const Task> tasks) {
  Bytes needed = 0;
  for (const Photograph& photograph : m_photographs) needed += pixel_bytes(photograph.size);
  require_room(m_pixels, *m_prep.m_gpu, needed);
  std::vector<GpuJpeg> images;
  m_crop_tasks.clear();
  std::uint64_t at = m_pixels->address();
  for (const Photograph& photograph : m_photographs) {
    const Task& task = tasks[photograph.task];
    m_crop_tasks.push_back(crop_of(task, photograph, at));
    images.push_back({task.cpu.encoded, at, m_crop_tasks.back().pitch});
    at += round_up(std::size_t{m_crop_tasks.back().pitch} * static_cast<std::size_t>(photograph.size.height), image_alignment);
  }
  m_stream->copy_in(m_crops->address(), reinterpret_cast<const std::byte*>(m_crop_tasks.data()), m_crop_tasks.size() * sizeof(GpuCrop));
  if (!m_decoder->decode(images, *m_stream)) {
    m_done->set(*m_stream);
    require_reached(*m_done, longest_group, m_prep.m_timing, "decoding of images");
    return false;
  }
  m_decoded->set(*m_stream);
  m_stream->crop(m_crops->address(), m_crop_tasks.size(), m_prep.m_output);
  m_done->set(*m_stream);
  require_reached(*m_done, longest_group, m_prep.m_timing, "decoding of images");
  m_prep.m_crop_nanoseconds += to_nanoseconds(m_done->seconds_since(*m_decoded));
  return true;
}

void GpuPrep::Worker::prepare_on_cpu(const Task& task, Status& status) {
  status = m_cpu->prepare(task.cpu);
  if (status.ok())
    m_stream->copy_in(m_prep.address(task.slot) + task.position * m_prep.m_sample_bytes, task.cpu.output.data(), task.cpu.output.size());
}

}  // namespace dsanalyze
