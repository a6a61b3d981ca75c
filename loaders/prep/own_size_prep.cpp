#include <array>
#include <cerrno>
#include <cstring>

#include "any_image_decoder.hpp"
#include "base/counters.hpp"
#include "loaders/sample_room.hpp"
#include "prep.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t bytes_of_rgb = 3;

/// What preps of samples of their own sizes have in common: room, time and counters. Threads: one.
class OwnSizePrep : public Prep {
 public:
  Status prepare(const PrepTask& task) final {
    const Nanoseconds begin = m_clock->now();
    PreparedSample sample;
    const Status status = task.room == nullptr ? Status{StatusCode::unsupported} : write(task, sample);
    const Nanoseconds took = m_clock->now() - begin;
    m_counter.add(status.ok() ? 1 : 0, status.ok() ? sample.bytes : 0, took);
    if (!task.spent.empty()) task.spent.front() += took;
    if (status.ok()) {
      std::memcpy(task.output.data(), &sample, sizeof(sample));
    } else {
      m_counter.add_failure();
    }
    return status;
  }
  [[nodiscard]] std::vector<Nanoseconds> operator_times() const final { return {m_counter.totals().busy}; }

 private:
  virtual Status write(const PrepTask& task, PreparedSample& sample) = 0;

  const Clock* m_clock = system_timing().clock;
  StageCounter m_counter;
};

class EncodedPrep final : public OwnSizePrep {
 private:
  Status write(const PrepTask& task, PreparedSample& sample) override {
    const std::span<std::byte> room = task.room->take(task.encoded.size());
    if (room.empty()) return {StatusCode::io, ENOMEM};
    std::memcpy(room.data(), task.encoded.data(), room.size());
    sample = {room.data(), room.size(), 0, 0};
    return {};
  }
};

class DecodingPrep final : public OwnSizePrep {
 private:
  Status write(const PrepTask& task, PreparedSample& sample) override {
    Status status = m_decoder.open(task.encoded);
    if (!status.ok()) return status;
    const auto [width, height] = std::pair{m_decoder.info().width, m_decoder.info().height};
    const std::span<std::byte> room = task.room->take(bytes_of_rgb * static_cast<std::size_t>(width) * static_cast<std::size_t>(height));
    if (room.empty()) return {StatusCode::io, ENOMEM};
    status = m_decoder.begin({0, 0, width, height}, 1);
    std::byte* pixels = room.data();
    PixelRows rows;
    while (status.ok()) {
      status = m_decoder.next_rows(rows);
      if (!status.ok() || rows.count == 0) break;
      for (int row = 0; row < rows.count; ++row) pixels = pack(rows.first + static_cast<std::size_t>(row) * rows.stride, width, pixels);
    }
    sample = {room.data(), room.size(), static_cast<std::uint32_t>(height), static_cast<std::uint32_t>(width)};
    return status;
  }

  /// Pixels of four bytes to three each. Returns the end of what is written.
  static std::byte* pack(const std::uint8_t* from, int pixels, std::byte* to) {
    for (int pixel = 0; pixel < pixels; ++pixel) {
      std::memcpy(to, from, bytes_of_rgb);
      from += PixelRows::bytes_per_pixel;
      to += bytes_of_rgb;
    }
    return to;
  }

  AnyImageDecoder m_decoder;
};

template <typename Worker>
class OwnSizeFactory final : public PrepFactory {
 public:
  explicit OwnSizeFactory(std::string_view operator_name) : m_operator_name(operator_name) {}
  [[nodiscard]] std::unique_ptr<Prep> make() const override { return std::make_unique<Worker>(); }
  [[nodiscard]] TensorShape tensor(std::int64_t count) const override {
    const std::array<std::int64_t, 2> dimensions{count, sizeof(PreparedSample)};
    return TensorShape::of(DType::uint8, dimensions);
  }
  [[nodiscard]] std::vector<std::string_view> operator_names() const override { return {m_operator_name}; }

 private:
  std::string_view m_operator_name;
};

}  // namespace

std::unique_ptr<PrepFactory> make_encoded_prep() { return std::make_unique<OwnSizeFactory<EncodedPrep>>("copy"); }
std::unique_ptr<PrepFactory> make_decoding_prep() { return std::make_unique<OwnSizeFactory<DecodingPrep>>("decode"); }

}  // namespace dsanalyze
