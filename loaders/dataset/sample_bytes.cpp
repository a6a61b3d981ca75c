#include "sample_bytes.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <numeric>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/host/host.hpp"
#include "base/random.hpp"
#include "base/system/files.hpp"
#include "base/system/shared_memory.hpp"
#include "base/text/units.hpp"
#include "dataset.hpp"
#include "loaders/dataset/readers/format_names.hpp"
#include "loaders/prep/any_image_decoder.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint64_t max_piece_bytes = std::uint64_t{1} << 20;

std::string not_an_image(std::string_view bytes) {
  const UnreadFormat* format = unread_format_of_bytes(bytes);
  return format == nullptr ? "not a JPEG, PNG or WebP file" : "not a JPEG, PNG or WebP file but " + std::string(format->name);
}

std::string decode_all(AnyImageDecoder& decoder, const std::vector<std::byte>& bytes, std::uint64_t& pixels) {
  const auto cause_of = [&](const Status& status) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (is_jpeg_bytes(text)) return decoder.jpeg_cause();
    const std::string_view kind = image_extension_of_bytes(text) == ".png" ? "PNG" : "WebP";
    return fmt::format("a {} image that does not decode ({})", kind, status_name(status.code));
  };
  Status status = decoder.open(bytes);
  if (!status.ok()) return cause_of(status);
  const ImageInfo info = decoder.info();
  status = decoder.begin({0, 0, info.width, info.height}, 1);
  for (PixelRows rows; status.ok();) {
    status = decoder.next_rows(rows);
    if (status.ok() && rows.count == 0) break;
  }
  if (!status.ok()) return cause_of(status);
  pixels = static_cast<std::uint64_t>(info.width) * static_cast<std::uint64_t>(info.height);
  return {};
}

struct OpenedSample {
  FileDescriptor file;
  std::string cause;  ///< why it cannot be read
};

OpenedSample open_sample(const DatasetIndex& index, SampleId sample) {
  const IndexRecord& record = index[sample];
  const std::filesystem::path path = std::filesystem::path(index.facts().root) / index.file_path(record.file);
  FileDescriptor file = open_file(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (!file.valid()) return {{}, describe_errno(errno)};
  struct stat facts {};
  if (fstat(file.get(), &facts) != 0) return {{}, describe_errno(errno)};
  if (!S_ISREG(facts.st_mode)) return {{}, "it is no file"};
  const auto size = static_cast<std::uint64_t>(facts.st_size);
  if (record.offset > size || record.length > size - record.offset) {
    return {{},
            fmt::format("its file has {} bytes, fewer than when the index was made, or is cut off ({} bytes at {} are needed)", size, record.length,
                        record.offset)};
  }
  if (index.facts().format == "folder" && size != record.length)
    return {{}, fmt::format("it has {} bytes, more than when the index was made ({})", size, record.length)};
  return {std::move(file), {}};
}

/// Why a sample of this size is not taken into memory; "" for those that are.
std::string too_large(std::uint64_t length) {
  constexpr std::uint64_t bytes_not_asked_about = std::uint64_t{16} << 20;
  if (length <= bytes_not_asked_about) return {};
  const Bytes max = max_sample_bytes();
  if (length <= max) return {};
  return fmt::format("it has {}, and a sample is given at most {} of memory here", format_bytes(length), format_bytes(max));
}

std::string read_piece(const FileDescriptor& file, std::uint64_t offset, std::span<std::byte> bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t got = pread(file.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return describe_errno(errno);
    if (got == 0) return "it became shorter while it was read";
    done += static_cast<std::size_t>(got);
  }
  return {};
}

/// Direct I/O, where the filesystem has it. False: it has not, or the bytes did not all come.
bool read_past_cache(const FileDescriptor& file, std::uint64_t offset, std::span<std::byte> bytes) {
  constexpr std::size_t block = 4096;
  const int flags = fcntl(file.get(), F_GETFL);
  if (flags < 0 || fcntl(file.get(), F_SETFL, flags | O_DIRECT) != 0) return false;
  const std::uint64_t first = offset / block * block;
  const std::size_t lead = offset - first;
  const std::size_t wanted = round_up(lead + bytes.size(), block);
  const ZeroedMemory buffer(wanted);
  const ssize_t got = pread(file.get(), buffer.bytes().data(), wanted, static_cast<off_t>(first));
  fcntl(file.get(), F_SETFL, flags);
  if (got < 0 || static_cast<std::size_t>(got) < lead + bytes.size()) return false;
  std::ranges::copy(buffer.bytes().subspan(lead, bytes.size()), bytes.begin());
  return true;
}

}  // namespace

Bytes max_sample_bytes() {
  const HostFacts host = read_host_facts();
  return host.memory_usable / (2 * static_cast<Bytes>(host.worker_count()));
}

std::string read_sample_bytes(const DatasetIndex& index, SampleId sample, std::vector<std::byte>& bytes) {
  const OpenedSample opened = open_sample(index, sample);
  if (!opened.cause.empty()) return opened.cause;
  const IndexRecord& record = index[sample];
  if (std::string cause = too_large(record.length); !cause.empty()) return cause;
  bytes.resize(record.length);
  return read_piece(opened.file, record.offset, bytes);
}

std::string read_usable_sample(const DatasetIndex& index, SampleId sample, std::vector<std::byte>& bytes) {
  std::string cause = read_sample_bytes(index, sample, bytes);
  return cause.empty() ? label_cause(index, sample) : cause;
}

std::string label_cause(const DatasetIndex& index, SampleId sample) { return index[sample].has_label() ? std::string() : no_label_cause; }

std::string read_sample_part(const DatasetIndex& index, SampleId sample, const SamplePart& part, std::vector<std::byte>& bytes) {
  const OpenedSample opened = open_sample(index, sample);
  if (!opened.cause.empty()) return opened.cause;
  bytes.resize(part.count);
  const std::uint64_t offset = index[sample].offset + part.first;
  if (read_past_cache(opened.file, offset, bytes)) return {};
  return read_piece(opened.file, offset, bytes);
}

std::string read_sample_pieces(const DatasetIndex& index, SampleId sample, std::vector<std::byte>& bytes, const TakePiece& take) {
  const OpenedSample opened = open_sample(index, sample);
  if (!opened.cause.empty()) return opened.cause;
  const IndexRecord& record = index[sample];
  for (std::uint64_t done = 0; done < record.length; done += bytes.size()) {
    bytes.resize(static_cast<std::size_t>(std::min<std::uint64_t>(record.length - done, max_piece_bytes)));
    if (std::string cause = read_piece(opened.file, record.offset + done, bytes); !cause.empty()) return cause;
    if (!take(bytes)) break;
  }
  return {};
}

struct ImageChecker::Decoder {
  AnyImageDecoder images;
  std::string patched_damage;
};

ImageChecker::ImageChecker() : m_decoder(std::make_unique<Decoder>()) {}
ImageChecker::~ImageChecker() = default;

std::string ImageChecker::check(const std::vector<std::byte>& bytes, std::uint64_t& pixels) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  m_decoder->patched_damage.clear();
  if (bytes.empty()) return "the file is empty";
  if (image_extension_of_bytes(text).empty()) return not_an_image(text);
  std::string cause = decode_all(m_decoder->images, bytes, pixels);
  if (cause.empty()) m_decoder->patched_damage = m_decoder->images.patched_damage();
  return cause;
}

const std::string& ImageChecker::patched_damage() const { return m_decoder->patched_damage; }

namespace {

constexpr std::uint32_t most_drawn = 64;
constexpr std::uint64_t most_of_each = std::uint64_t{128} << 10;

std::vector<SampleId> draw_samples(std::uint32_t of, RandomStream& random) {
  std::vector<SampleId> all(std::min(of, most_drawn));
  std::iota(all.begin(), all.end(), SampleId{0});
  if (of <= most_drawn) return all;
  std::set<SampleId> drawn;
  while (drawn.size() < most_drawn) drawn.insert(static_cast<SampleId>(random.below(of)));
  return {drawn.begin(), drawn.end()};
}

class ContentHash {
 public:
  ContentHash() : m_state(XXH3_createState(), &XXH3_freeState) { XXH3_128bits_reset(m_state.get()); }
  void add(std::uint64_t number) { XXH3_128bits_update(m_state.get(), &number, sizeof number); }
  void add(const std::vector<std::byte>& bytes) { XXH3_128bits_update(m_state.get(), bytes.data(), bytes.size()); }
  [[nodiscard]] std::string text() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(m_state.get());
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

 private:
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> m_state;
};

}  // namespace

std::optional<ContentSample> sample_contents(const DatasetIndex& index, std::uint64_t seed, const std::stop_token& stop) {
  if (index.facts().format == "emulated" || index.size() == 0) return std::nullopt;
  const std::string& names = index.facts().digest;
  RandomStream random(mix(seed, XXH3_64bits(names.data(), names.size())));
  const std::vector<SampleId> drawn = draw_samples(index.size(), random);
  ContentSample contents{"", static_cast<std::uint32_t>(drawn.size()), 0};
  ContentHash hash;
  std::vector<std::byte> bytes;
  for (const SampleId sample : drawn) {
    if (stop.stop_requested()) throw Interrupted();
    const std::uint64_t length = index[sample].length;
    const std::uint64_t count = std::min(length, most_of_each);
    const SamplePart part{count < length ? random.below(length - count + 1) : 0, count};
    const std::string cause = read_sample_part(index, sample, part, bytes);
    hash.add(sample);
    hash.add(part.first);
    hash.add(cause.empty() ? count : UINT64_MAX);
    if (cause.empty()) {
      hash.add(bytes);
    } else if (contents.unreadable++ == 0) {
      contents.first_unreadable = fmt::format("{}: {}", sample_name(index, sample), cause);
    }
  }
  if (contents.unreadable == contents.samples) {
    throw Error(fmt::format("no sample of the dataset {} can be read: {}", index.facts().root, contents.first_unreadable));
  }
  contents.digest = hash.text();
  return contents;
}

}  // namespace dsanalyze
