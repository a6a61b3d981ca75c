#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "base/counters.hpp"
#include "base/error.hpp"
#include "prep.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t most_sample_dimensions = 3;  ///< of a sample, beside the samples' number
constexpr std::uint64_t most_sample_bytes = std::uint64_t{1} << 40;

/// Bytes of one number of a NumPy type.
std::uint64_t number_bytes(const std::string& dtype) {
  if (!dtype.empty() && dtype[0] == '>') {
    throw UsageError(
        fmt::format("arrays of type '{}': big-endian numbers are not read; write them with .astype('{}')", dtype, "<" + dtype.substr(1)));
  }
  const bool has_form =
      dtype.size() >= 3 && (dtype[0] == '<' || dtype[0] == '|') && std::string_view("biufc").find(dtype[1]) != std::string_view::npos;
  const std::string digits = has_form ? dtype.substr(2) : "";
  for (const std::uint64_t bytes : {1, 2, 4, 8, 16, 32}) {
    if (digits == std::to_string(bytes)) return bytes;
  }
  throw UsageError(fmt::format("arrays of type '{}': expected numbers of a fixed size, such as '|u1' or '<f4'", dtype));
}

std::uint64_t array_bytes(const ArrayDescription& array) {
  std::uint64_t bytes = number_bytes(array.dtype);
  for (const std::uint64_t length : array.shape) {
    if (length != 0 && bytes > most_sample_bytes / length)
      throw UsageError(fmt::format("arrays of shape ({}): too large", fmt::join(array.shape, ", ")));
    bytes *= length;
  }
  return bytes;
}

TensorShape tensor_of(const ArrayDescription& array) {
  const std::uint64_t bytes = array_bytes(array);
  if (bytes == 0 || bytes != array.sample_bytes) {
    throw UsageError(fmt::format("arrays of type '{}' and shape ({}): a sample has {} bytes, found {}", array.dtype, fmt::join(array.shape, ", "),
                                 bytes, array.sample_bytes));
  }
  const bool is_float = array.dtype == "<f4";
  const DType dtype = is_float ? DType::float32 : DType::uint8;
  const auto elements = static_cast<std::int64_t>(is_float ? bytes / dtype_bytes(DType::float32) : bytes);
  std::array<std::int64_t, 1 + most_sample_dimensions> dimensions{1, elements};
  std::size_t count = 2;
  if ((is_float || array.dtype == "|u1") && !array.shape.empty() && array.shape.size() <= most_sample_dimensions) {
    std::transform(array.shape.begin(), array.shape.end(), dimensions.begin() + 1,
                   [](std::uint64_t length) { return static_cast<std::int64_t>(length); });
    count = 1 + array.shape.size();
  }
  return TensorShape::of(dtype, std::span(dimensions).first(count));
}

class ArrayPrep : public Prep {
 public:
  Status prepare(const PrepTask& task) override {
    const Nanoseconds begin = m_clock->now();
    if (task.encoded.size() != task.output.size()) {
      m_counter.add_failure();
      return {StatusCode::corrupt};
    }
    std::memcpy(task.output.data(), task.encoded.data(), task.encoded.size());
    const Nanoseconds took = m_clock->now() - begin;
    m_counter.add(1, task.encoded.size(), took);
    if (!task.spent.empty()) task.spent.front() += took;
    return {};
  }
  [[nodiscard]] std::vector<Nanoseconds> operator_times() const override { return {m_counter.totals().busy}; }

 private:
  const Clock* m_clock = system_timing().clock;
  StageCounter m_counter;
};

class ArrayPrepFactory : public PrepFactory {
 public:
  explicit ArrayPrepFactory(const ArrayDescription& array) : m_tensor(tensor_of(array)) {}
  [[nodiscard]] std::unique_ptr<Prep> make() const override { return std::make_unique<ArrayPrep>(); }
  [[nodiscard]] TensorShape tensor(std::int64_t count) const override {
    TensorShape tensor = m_tensor;
    tensor.shape[0] = count;
    return tensor;
  }
  [[nodiscard]] std::vector<std::string_view> operator_names() const override { return {"copy"}; }

 private:
  TensorShape m_tensor;
};

}  // namespace

std::unique_ptr<PrepFactory> make_array_prep(const ArrayDescription& array) { return std::make_unique<ArrayPrepFactory>(array); }

}  // namespace dsanalyze
